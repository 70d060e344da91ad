"""What a program with types does with the package; types_test.py checks it, and nothing runs it."""
from __future__ import annotations

import pathlib
from typing import Any

import millrace as mr


@mr.op(reads="image", writes=mr.field("image", "uint8", (8, 8, 3)), version=2)
def invert(rows: mr.Rows) -> None:
    rows.out["image"][...] = 255 - rows["image"]


@mr.batch_op()
def darken(batch: mr.BatchRows) -> None:
    batch["image"] //= 2


def plan_of(files: list[pathlib.Path]) -> mr.Plan:
    return (mr.tfrecord(files).global_shuffle()
            .parse_example(mr.feature("image/encoded", bytes),
                           mr.feature("image/class/label", int, name="label"),
                           mr.feature("weight", mr.FLOAT32, default=1.0))
            .decode_image(channels=3).resize(8, 8).op(invert)
            .batch(32, drop_remainder=True).op(darken).prefetch(2)
            .options(seed=1, on_damage=mr.on_damage("skip", max_count=5)))


def read(plan: mr.Plan) -> int:
    loader: mr.Loader = plan.numpy(context=mr.Context(threads=2, memory_budget="1GiB"))
    state: dict[str, Any] = {}
    rows = 0
    with loader:
        names: list[str] = [field.name for field in loader.spec]
        for batch in loader:
            rows += int(batch["image"].shape[0])
            state = batch.state_dict()
        loader.load_state_dict(state)
        first: mr.Batch = loader.peek()
        rows += first.valid_rows + len(loader) + len(names)
    return rows


def sinks(plan: mr.Plan) -> None:
    torch: mr.torch.TorchLoader = plan.torch(("image", "label"), layout="channels_last")
    torch.set_epoch(len(torch))
    print(torch.diagnose().sentence.upper())
    jax: mr.jax.JaxLoader = plan.jax(None, "image")
    jax.set_epoch(1)
    keras: mr.keras.Dataset = plan.keras("image", "label")
    batches: int = keras.num_batches
    tf: mr.tf.TfLoader = plan.tf()
    cuda: mr.DeviceLoader = plan.cuda("image", device=batches)
    for loader in (jax, tf, cuda):
        figures: dict[str, float] = loader.stats()
        why: mr.Diagnosis = loader.diagnose()
        settings: list[str | None] = [change.setting for change in why.what_ifs]
        print(why.verdict.upper(), why.wait_fraction + 1, settings, why.dict["host"])
        print(figures["wait_fraction"], loader.metrics["millrace_batches_total"])


def write(prefix: pathlib.Path) -> mr.ConvertReport:
    with mr.TFRecordWriter(prefix, shards=2, compression="gzip") as writer:
        writer.write({"image/encoded": b"", "image/class/label": 3})
    return mr.convert([{"x": 1}], prefix, progress=lambda done, total: print(done / total))


def sums(group: mr.Communicator) -> mr.Outcome | None:
    try:
        group.barrier()
    except mr.PeerLost as lost:
        print(lost.rank + 1, lost.phase.upper())
    except mr.DataLoss as loss:
        record: mr.Record | None = loss.record
        if record is not None and record.offset is not None:
            print(record.file.upper(), record.offset + 1)
    return None


def saved(plan: mr.Plan, path: pathlib.Path) -> bool:
    plan.save(path)
    return mr.load(path, DATA="/data") == plan and plan.fingerprint > 0 and "batch" in plan.text

"""Rows of the area `trainer` that scale: one rank and two, each on a core of its own."""
import os
import pathlib
import re
import subprocess

from rows import BIN, DATA, ROOT, Skip, need_cores, paired

FASHION_MNIST = pathlib.Path("/usr/share/datasets/fashion-mnist")
BATCH = 64
JOB = """
model: "{examples}/model.pbtxt"
train: "{examples}/train.pbtxt"
epochs: 1
log_every_steps: 1000000
pipeline_threads: 1
optimizer {{ base_lr: 0.01 momentum: 0.9 }}
"""


def shards():
    """A folder of 15,000 of Fashion-MNIST's images and a job over them, made once."""
    if not FASHION_MNIST.exists():
        raise Skip(f"no {FASHION_MNIST}")
    folder = DATA / "fashion_mnist"
    if not folder.exists():
        part = folder.with_suffix(".part")
        part.mkdir(parents=True, exist_ok=True)
        subprocess.run([BIN / "millrace", "records", "convert", "--from", "idx",
                        "--images", FASHION_MNIST / "train-images-idx3-ubyte.gz",
                        "--labels", FASHION_MNIST / "train-labels-idx1-ubyte.gz",
                        "--out", part, "--prefix", "train", "--shards", "8"],
                       check=True, stdout=subprocess.DEVNULL)
        for path in sorted(part.glob("*.tfrecord"))[2:]:
            path.unlink()
        (part / "job.pbtxt").write_text(JOB.format(examples=ROOT / "examples" / "fashion_mnist"))
        part.rename(folder)
    return folder


def rate(ranks, batch):
    """Images by second of a training of `ranks` replicas, each bound to a core."""
    folder = shards()
    cores = sorted(os.sched_getaffinity(0))[:ranks]
    done = subprocess.run(["taskset", "-c", ",".join(map(str, cores)), BIN / "millrace", "train",
                           folder / "job.pbtxt", "--var", f"DATA={folder}", "--var",
                           f"BATCH={batch}", "--replicas", str(ranks)],
                          cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    return float(re.search(r"of training, (\d+) img/s", done.stdout)[1])


def scaling(name, batch_of_two, repeats):
    """The rate of two ranks by that of one. The turns take the two in either order."""
    need_cores(2)
    values, limits = [], []
    for turn in range(repeats):
        runs = [(1, BATCH), (2, batch_of_two)]
        rates = {run[0]: rate(*run) for run in (reversed(runs) if turn % 2 else runs)}
        values.append(rates[2] / rates[1])
        limits.append(2)
    row = paired(name, "times", values, limits)
    return row


def weak_scaling_2(repeats):
    return scaling("weak_scaling_2", 2 * BATCH, repeats)


def strong_scaling_2(repeats):
    return scaling("strong_scaling_2", BATCH, repeats)


TARGETS = ["millrace"]
ROWS = [weak_scaling_2, strong_scaling_2]
BARS = {"weak_scaling_2": ("ratio >= 0.95", lambda row: row["ratio"] >= 0.95)}

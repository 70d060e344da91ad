"""The rows of `scripts/bench.sh trainer` that time training steps: beside PyTorch's, on one batch,
and beside steps whose input costs next to nothing."""
import functools
import os
import pathlib
import statistics
import subprocess

import rows_jobs
from rows import BIN, Skip, measure_paired, need_cores, paired, run_json
from rows_data import imagenet_shards, imagenet_tar
from rows_jobs import cosmogan_maps, hep_events, time_steps

VENV = pathlib.Path(os.environ.get("MILLRACE_FRAMEWORKS", "~/.cache/millrace/frameworks"))
PYTORCH = VENV.expanduser() / "bin" / "python"
THREADS = 2
# A thread that waits takes no processor time.
PASSIVE = {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "0"}


@functools.cache
def need_pytorch():
    if not PYTORCH.exists():
        raise Skip(f"no {PYTORCH}, a Python with PyTorch")
    find = "import importlib.util as u; print(*[n for n in ('torch', 'torchvision') " \
           "if u.find_spec(n) is None])"
    missing = subprocess.run([PYTORCH, "-c", find], check=True, stdout=subprocess.PIPE,
                             text=True).stdout.split()
    if missing:
        raise Skip(f"{PYTORCH} has no {' and no '.join(missing)}")


def beside_pytorch(name, network, batch, steps, ours, repeats, *words):
    """Images by processor time over the threads, of `ours` and of the same network in PyTorch."""
    need_cores(THREADS)
    need_pytorch()
    sizes = set()

    def rate(run):
        def take():
            turn = run()
            sizes.add(turn["parameters"])
            return turn["images_per_cpu_second"]
        return take

    def pytorch():
        return run_json([PYTORCH, "bench/peers/torch_step_cpu.py", network, "--batch", batch,
                         "--threads", THREADS, "--steps", steps, *words], env=PASSIVE)

    row = measure_paired(name, "images/s", rate(ours), rate(pytorch), repeats)
    if len(sizes) != 1:
        raise RuntimeError(f"{name}: PyTorch's network is another, of these numbers of parameters: "
                           f"{sorted(sizes)}")
    return row


def step_row(name, network, batch, steps, precision, repeats):
    """A network of `millrace model`; beside its step the step's part in primitives."""
    turns = []

    def ours():
        turns.append(run_json([BIN / "bench_trainer_rows", network, batch, THREADS, steps,
                               precision], env=PASSIVE))
        return turns[-1]

    words = ["--bfloat16"] if precision == "bfloat16" else []
    row = beside_pytorch(name, network, batch, steps, ours, repeats, *words)

    def part(turn):
        alone = sum(turn[f"{work}_cpu_ms"] for work in ("convolutions", "products", "update"))
        return alone / turn["step_cpu_ms"]
    row["primitives"] = statistics.median(part(turn) for turn in turns)
    row["note"] += f"; {row['primitives']:.2f} of a step is in its primitives and the update"
    return row


def lenet_64(repeats):
    return step_row("lenet_64", "lenet", 64, 30, "float32", repeats)


def lenet_64_bf16(repeats):
    return step_row("lenet_64_bf16", "lenet", 64, 30, "bfloat16", repeats)


def resnet50_16(repeats):
    return step_row("resnet50_16", "resnet50", 16, 3, "float32", repeats)


def resnet50_16_bf16(repeats):
    return step_row("resnet50_16_bf16", "resnet50", 16, 3, "bfloat16", repeats)


def job_row(name, make_data, batch, steps, repeats):
    """The step of a job, its pipeline included."""
    def ours():
        return time_steps(name, make_data(), batch, steps, threads=THREADS, env=PASSIVE)
    return beside_pytorch(name, name, batch, steps, ours, repeats)


def hep_cnn(repeats):
    return job_row("hep_cnn", hep_events, 16, 3, repeats)


def cosmogan(repeats):
    return job_row("cosmogan", cosmogan_maps, 8, 3, repeats)


def resnet50_fed(repeats):
    """Mean rates by the clock, so that the waits for batches count."""
    need_cores(THREADS)
    photographs, drawn = imagenet_shards(imagenet_tar()), hep_events()
    waits = []

    def rate(example, data):
        turn = time_steps("resnet50", data, 16, 4, threads=THREADS,
                          TRAIN=f"../../examples/{example}/train.pbtxt")
        waits.append((example, turn["data_wait"]))
        return turn["mean_images_per_second"]

    row = measure_paired("resnet50_fed", "images/s", lambda: rate("imagenet", photographs),
                         lambda: rate("hep_cnn", drawn), repeats)
    wait = statistics.median(wait for example, wait in waits if example == "imagenet")
    row["note"] += f"; data wait {wait:.2%} of a step"
    return row


def activation_memory(repeats):
    """Bytes of the activations' arena by the most that live at a time; what recomputing gives."""
    need_cores(THREADS)
    command = [BIN / "bench_activation_memory", "resnet50", 16, THREADS, 2]
    def run(*words):
        return run_json([*command, *words], env=PASSIVE)
    turns = [(run(), run("recompute")) for _ in range(repeats)]
    mib = 1 << 20
    row = paired("activation_memory", "MiB", [kept["bytes"] / mib for kept, _ in turns],
                 [kept["live_bytes"] / mib for kept, _ in turns])
    def median(figure):
        return statistics.median(figure(*turn) for turn in turns)
    row["recompute"] = median(lambda kept, again: again["bytes"] / kept["bytes"])
    row["recompute_live"] = median(lambda _, again: again["bytes"] / again["live_bytes"])
    row["recompute_time"] = median(lambda kept, again: again["step_cpu_ms"] / kept["step_cpu_ms"])
    row["process_mib"] = [median(lambda *turn: turn[which]["process_bytes"] / mib)
                          for which in (0, 1)]
    row["note"] = (f"recomputed: {row['recompute']:.3f} of the bytes, {row['recompute_live']:.3f} "
                   f"of what then lives, in {row['recompute_time']:.2f} times the processor time; "
                   "the process: {:,.0f} MiB, recomputed {:,.0f}".format(*row["process_mib"]))
    return row


TARGETS = ["millrace", "bench_trainer_rows", "bench_activation_memory", *rows_jobs.TARGETS]
ROWS = [lenet_64, lenet_64_bf16, resnet50_16, resnet50_16_bf16, hep_cnn, cosmogan, resnet50_fed,
        activation_memory]

# What rows should reach: in words, and as a test of the row. Shown, never asserted.
BARS = {
    "lenet_64": ("ratio >= 1.9, primitives >= 0.9",
                 lambda row: row["ratio"] >= 1.9 and row["primitives"] >= 0.9),
    "lenet_64_bf16": ("ratio >= 1.3", lambda row: row["ratio"] >= 1.3),
    "resnet50_16": ("ratio >= 1.5, primitives >= 0.85",
                    lambda row: row["ratio"] >= 1.5 and row["primitives"] >= 0.85),
    "resnet50_16_bf16": ("ratio >= 1.5", lambda row: row["ratio"] >= 1.5),
    "hep_cnn": ("ratio >= 1.3", lambda row: row["ratio"] >= 1.3),
    "cosmogan": ("ratio >= 1.3", lambda row: row["ratio"] >= 1.3),
    "resnet50_fed": ("ratio >= 0.97", lambda row: row["ratio"] >= 0.97),
    "activation_memory": ("ratio <= 1.15, recomputed <= 0.5",
                          lambda row: row["ratio"] <= 1.15 and row["recompute"] <= 0.5),
}

"""The rows of `scripts/bench.sh trainer`: training steps beside PyTorch's, on one batch."""
import os
import pathlib
import statistics

from rows import BIN, Skip, measure_paired, need_cores, run_json

VENV = pathlib.Path(os.environ.get("MILLRACE_FRAMEWORKS", "~/.cache/millrace/frameworks"))
PYTORCH = VENV.expanduser() / "bin" / "python"
THREADS = 2


def step_row(name, network, batch, steps, precision, repeats):
    """Images by processor time over the threads; beside it the step's part in primitives."""
    need_cores(THREADS)
    if not PYTORCH.exists():
        raise Skip(f"no {PYTORCH}, a Python with PyTorch")
    # A thread that waits takes no processor time.
    os.environ.update(OMP_WAIT_POLICY="passive", GOMP_SPINCOUNT="0")
    turns = []

    def ours():
        turns.append(run_json([BIN / "bench_trainer_rows", network, batch, THREADS, steps,
                               precision]))
        return turns[-1]["images_per_cpu_second"]

    def pytorch():
        words = ["--bfloat16"] if precision == "bfloat16" else []
        return run_json([PYTORCH, "bench/peers/torch_step_cpu.py", network, "--batch", batch,
                         "--threads", THREADS, "--steps", steps, *words])["images_per_cpu_second"]

    row = measure_paired(name, "images/s", ours, pytorch, repeats)

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


TARGETS = ["bench_trainer_rows"]
ROWS = [lenet_64, lenet_64_bf16, resnet50_16, resnet50_16_bf16]

# What rows should reach: in words, and as a test of the row. Shown, never asserted.
BARS = {
    "lenet_64": ("ratio >= 1.9, primitives >= 0.9",
                 lambda row: row["ratio"] >= 1.9 and row["primitives"] >= 0.9),
    "lenet_64_bf16": ("ratio >= 1.3", lambda row: row["ratio"] >= 1.3),
    "resnet50_16": ("ratio >= 1.5, primitives >= 0.85",
                    lambda row: row["ratio"] >= 1.5 and row["primitives"] >= 0.85),
    "resnet50_16_bf16": ("ratio >= 1.5", lambda row: row["ratio"] >= 1.5),
}

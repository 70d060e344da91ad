"""The rows of `scripts/bench.sh python`."""
import os
import subprocess
import time

from rows import BIN, DATA, ROOT, Skip, measure, run_json, samples_per_core, summary
from rows_data import imagenet_shards, imagenet_tar

PACKAGE = ROOT / "build" / "release" / "python"
PYTHON = "/usr/bin/python3"


def inside(*words):
    """What measure_python.py measures inside a process."""
    os.environ["PYTHONPATH"] = str(PACKAGE)
    os.environ["XDG_CACHE_HOME"] = str(DATA / "cache")
    return run_json([PYTHON, "bench/measure_python.py", *words])


def both(name, unit, command, value, limit, repeats):
    """A row whose value and limit one process measures."""
    turns = [inside(command) for _ in range(repeats)]
    return summary(name, unit, [turn[value] for turn in turns], [turn[limit] for turn in turns])


def python_images(repeats):
    """Images by processor time through Python, and of `millrace run`, of the same plan."""
    folder = imagenet_shards(imagenet_tar())
    variables = ["--var", f"DATA={folder}", "--var", "BATCH=64"]

    def run():
        return samples_per_core([BIN / "millrace", "run", "examples/imagenet/train.pbtxt",
                                 *variables, "--batches", "24", "--threads", "1", "--json"])

    return measure("python_images", "images/s",
                   lambda: inside("images", str(folder), "3")["images_per_cpu_second"], run,
                   repeats)


def python_batch(repeats):
    return both("python_batch", "us", "batch", "us", "view_us", repeats)


def python_handover(repeats):
    return both("python_handover", "ms", "handover", "ms", "copy_ms", repeats)


def python_busy(repeats):
    return both("python_busy", "ms", "busy", "p99_ms", "alone_p99_ms", repeats)


def seconds_of(program):
    os.environ["PYTHONPATH"] = str(PACKAGE)
    begin = time.perf_counter()
    done = subprocess.run([PYTHON, "-c", program], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Skip(done.stderr.strip().splitlines()[-1])
    return time.perf_counter() - begin


def python_import(repeats):
    """Importing the package, NumPy being there, and importing NumPy, in milliseconds."""
    values, limits = [], []
    for _ in range(max(repeats, 9)):
        bare = seconds_of("pass")
        numpy = seconds_of("import numpy")
        values.append(1e3 * (seconds_of("import numpy, millrace") - numpy))
        limits.append(1e3 * (numpy - bare))
    return summary("python_import", "ms", values, limits)


TARGETS = ["millrace", "millrace_python"]
ROWS = [python_images, python_batch, python_handover, python_busy, python_import]

# What rows should reach: in words, and as a test of the row. Shown, never asserted.
BARS = {
    "python_images": ("ratio >= 0.99", lambda row: row["ratio"] >= 0.99),
    "python_batch": ("<= 3 us", lambda row: row["value"] <= 3),
    "python_handover": ("<= 0.1 ms", lambda row: row["value"] <= 0.1),
    "python_busy": ("<= 1 ms", lambda row: row["value"] <= 1),
    "python_import": ("<= 20 ms", lambda row: row["value"] <= 20),
}

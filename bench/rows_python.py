"""The rows of `scripts/bench.sh python`."""
import os
import statistics
import subprocess
import tempfile
import time
import zipfile

from rows import BIN, DATA, ROOT, Skip, measure_paired, run_json, summary
from rows_data import imagenet_shards, imagenet_tar, index_folder

PACKAGE = ROOT / "build" / "release" / "python"
PYTHON = "/usr/bin/python3"


def inside(program, *words, python=PYTHON):
    """What a program of bench/python measures inside a process."""
    os.environ["PYTHONPATH"] = str(PACKAGE)
    os.environ["XDG_CACHE_HOME"] = str(DATA / "cache")
    return run_json([python, f"bench/python/{program}.py", *words])


def row_of(name, unit, repeats, *words, note=None, **options):
    """A row whose value and limit, keys UNIT and limit_UNIT, one process measures."""
    turns = [inside(*words, **options) for _ in range(repeats)]
    row = summary(name, unit, [turn[unit] for turn in turns],
                  [turn[f"limit_{unit}"] for turn in turns])
    if note is not None:
        key, text = note
        row[key] = statistics.median(turn[key] for turn in turns)
        row["note"] = text.format(row[key])
    return row


def folder_of_images():
    return imagenet_shards(imagenet_tar())


# ---- Batches ----


def images_row(name, figure, library, limits, repeats, **options):
    """A loop in Python beside `millrace run`, of the same plan and with the same limits."""
    folder = folder_of_images()
    plan = ["examples/imagenet/train.pbtxt", "--var", f"DATA={folder}", "--var", "BATCH=64"]
    return measure_paired(
        name, "images/s", lambda: figure(inside("images", library, folder, *limits, **options)),
        lambda: figure(run_json([BIN / "millrace", "run", *plan, *limits, "--json"])), repeats)


def per_cpu_second(run):
    return 1e3 / run["cpu_seconds_per_1000_samples"]


ONE_THREAD = ("--threads", 1, "--batches", 64)


def python_images(repeats):
    return images_row("python_images", per_cpu_second, "numpy", ONE_THREAD, repeats)


def python_batch(repeats):
    return row_of("python_batch", "us", repeats, "batches", "batch")


def python_fields(repeats):
    return row_of("python_fields", "us", repeats, "batches", "fields")


def python_cold(repeats):
    return row_of("python_cold", "us", repeats, "batches", "cold", "--folder", folder_of_images())


def python_handover(repeats):
    return row_of("python_handover", "ms", repeats, "batches", "handover",
                  note=("small_ms", "{:.3f} ms for 8 bytes"))


def python_busy(repeats):
    return row_of("python_busy", "ms", repeats, "batches", "busy")


# ---- Starting ----


def wheel():
    wheels = list((ROOT / "dist").glob("*.whl"))
    if len(wheels) != 1:
        raise Skip(f"{len(wheels)} wheels in dist/; scripts/wheel.sh makes one")
    return wheels[0]


def ms_of_import(name, first):
    """What importing a module takes in a new process, behind those that `first` imports."""
    program = (f"import time\n{first}\nbegin = time.perf_counter()\nimport {name}\n"
               "print(1e3 * (time.perf_counter() - begin))")
    done = subprocess.run([PYTHON, "-c", program], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Skip(done.stderr.strip().splitlines()[-1])
    return float(done.stdout)


def python_import(repeats):
    """Importing the package of the wheel, NumPy being there, and importing NumPy."""
    values, limits = [], []
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(wheel()) as files:
        files.extractall(folder)
        os.environ["PYTHONPATH"] = folder
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its bytecode
        ms_of_import("millrace", "import numpy")
        for _ in range(max(repeats, 9)):
            values.append(ms_of_import("millrace", "import numpy"))
            limits.append(ms_of_import("numpy", ""))
    return summary("python_import", "ms", values, limits)


def python_open(repeats):
    return row_of("python_open", "ms", repeats, "opening", "open", folder_of_images())


def python_first_batch(repeats):
    return row_of("python_first_batch", "ms", repeats, "opening", "first", folder_of_images())


def python_resume(repeats):
    return row_of("python_resume", "ms", repeats, "opening", "resume", index_folder(1000, 10_000))


def python_interrupt(repeats):
    return row_of("python_interrupt", "ms", repeats, "interrupt",
                  note=("p99_ms", "{:.0f} ms for the slowest in a hundred"))


# ---- Functions ----


def python_run_op(repeats):
    return row_of("python_run_op", "us", repeats, "ops", "run",
                  note=("eight_fields_us", "{:.2f} us with eight fields"))


def python_batch_op(repeats):
    return row_of("python_batch_op", "us", repeats, "ops", "batch")


# ---- The wheel ----


def python_wheel(repeats):
    """MB of the wheel, and of what it installs."""
    row = summary("python_wheel", "MB", [wheel().stat().st_size / 1e6], [5])
    with zipfile.ZipFile(wheel()) as files:
        row["installed_mb"] = sum(file.file_size for file in files.infolist()) / 1e6
    row["note"] = f"{row['installed_mb']:.2f} MB installed"
    return row


def failure_of(said):
    """What failed, by the output of a script that runs unittest: its tests, or the last line."""
    lines = said.strip().splitlines()
    tests = [line for line in lines if line.startswith(("FAIL: ", "ERROR: "))]
    return "; ".join(tests) or (lines or ["it failed"])[-1]


def python_wheel_check(repeats):
    """Seconds of tests/wheel/run.sh, which installs the wheel into fresh environments."""
    begin = time.perf_counter()
    done = subprocess.run([ROOT / "tests/wheel/run.sh", wheel()], cwd=ROOT, capture_output=True,
                          text=True, check=False)
    if done.returncode != 0:
        raise Skip(failure_of(done.stderr))
    row = summary("python_wheel_check", "s", [time.perf_counter() - begin], [180])
    row["note"] = done.stdout.strip().splitlines()[-1]
    return row


TARGETS = ["millrace", "millrace_python", "bench_make_records", "bench_stream_rows"]
ROWS = [python_images, python_batch, python_fields, python_cold, python_handover, python_busy,
        python_import, python_open, python_first_batch, python_resume,
        python_interrupt, python_run_op, python_batch_op, python_wheel, python_wheel_check]

# What rows should reach: in words, and as a test of the row. Shown, never asserted.
BARS = {
    "python_images": ("ratio >= 0.99", lambda row: row["ratio"] >= 0.99),
    "python_batch": ("<= 3 us", lambda row: row["value"] <= 3),
    "python_fields": ("<= 10 us", lambda row: row["value"] <= 10),
    "python_cold": ("<= 100 us", lambda row: row["value"] <= 100),
    "python_handover": ("<= 0.1 ms", lambda row: row["value"] <= 0.1),
    "python_busy": ("<= 1 ms", lambda row: row["value"] <= 1),
    "python_import": ("<= 20 ms", lambda row: row["value"] <= 20),
    "python_open": ("<= 5 ms", lambda row: row["value"] <= 5),
    "python_first_batch": ("ratio <= 2", lambda row: row["ratio"] <= 2),
    "python_resume": ("<= 50 ms", lambda row: row["value"] <= 50),
    "python_interrupt": ("<= 200 ms, the slowest in a hundred too",
                         lambda row: row["value"] <= 200 and row["p99_ms"] <= 200),
    "python_run_op": ("<= 7 us, with eight fields <= 13 us",
                      lambda row: row["value"] <= 7 and row["eight_fields_us"] <= 13),
    "python_batch_op": ("<= 15 us", lambda row: row["value"] <= 15),
    "python_wheel": ("<= 5 MB, installed <= 15 MB",
                     lambda row: row["value"] <= 5 and row["installed_mb"] <= 15),
    "python_wheel_check": ("<= 180 s", lambda row: row["value"] <= 180),
}

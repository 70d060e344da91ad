"""The rows of `scripts/bench.sh profile`: what it costs to measure where time goes.

The limit of each row is the same plan in a build that measures nothing (MILLRACE_PROFILE=OFF).
"""
import os
import subprocess
import sys

from rows import BIN, DATA, ROOT, measure_paired, samples_per_core
from rows_data import imagenet_shards, imagenet_tar, record_file

BARE = ROOT / "build" / "bare"
SECONDS = "2"


def build_bare():
    """Builds `millrace` without the measurements."""
    if not (BARE / "build.ninja").exists():
        subprocess.run(["cmake", "--preset", "release", "-B", BARE, "-DMILLRACE_PROFILE=OFF",
                        "-DMILLRACE_TESTS=OFF"], cwd=ROOT, check=True, stdout=sys.stderr)
    subprocess.run(["ninja", "-C", BARE, "millrace"], cwd=ROOT, check=True, stdout=sys.stderr)


def plan_row(name, repeats, plan, *variables):
    """Samples per second of processor time, with the measurements and without, turn by turn."""
    os.environ["XDG_CACHE_HOME"] = str(DATA / "cache")
    build_bare()
    words = [word for variable in variables for word in ("--var", variable)]

    def run(folder):
        return samples_per_core([folder / "millrace", "run", plan, *words, "--seconds", SECONDS,
                                 "--threads", "1", "--json"])

    return measure_paired(name, "samples/s", lambda: run(BIN), lambda: run(BARE / "bin"), repeats)


def profile_identity(repeats):
    return plan_row("profile_identity", repeats, "bench/identity.pbtxt")


def small_row(plan, repeats):
    path = record_file(100, 1_048_576 * 116)
    return plan_row(f"profile_{plan}", repeats, f"bench/{plan}.pbtxt", f"FILE={path}")


def profile_small_records(repeats):
    return small_row("small_records", repeats)


def profile_small_shuffle(repeats):
    return small_row("small_shuffle", repeats)


def profile_small_filter(repeats):
    return small_row("small_filter", repeats)


def profile_imagenet(repeats):
    shards = imagenet_shards(imagenet_tar())
    return plan_row("profile_imagenet", repeats, "examples/imagenet/train.pbtxt",
                    f"DATA={shards}", "BATCH=64")


TARGETS = ["millrace", "bench_make_records", "bench_stream_rows"]
ROWS = [profile_identity, profile_small_records, profile_small_shuffle, profile_small_filter,
        profile_imagenet]
BARS = {row.__name__: ("ratio >= 0.99", lambda row: row["ratio"] >= 0.99) for row in ROWS}

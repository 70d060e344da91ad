"""The rows of `scripts/bench.sh pipeline`."""
import os
import statistics

from rows import BIN, DATA, RECORD_SECONDS, measure, need_cores, run_json, samples_per_core
from rows_data import (imagenet_shards, imagenet_tar, index_folder, opening_row, record_file,
                       stream_row)


def raw_per_core(path):
    """What the plain loop reads of `path` in a second of processor time."""
    loop = run_json([BIN / "bench_raw_record_loop", path, RECORD_SECONDS])
    return loop["records"] / loop["cpu_seconds"]


def small_file():
    return record_file(100, 1_048_576 * 116)


def plan_per_core(name, *variables):
    """Samples per second of processor time of a plan of bench/, run as a whole program."""
    os.environ["XDG_CACHE_HOME"] = str(DATA / "cache")
    words = [word for variable in variables for word in ("--var", variable)]
    return samples_per_core([BIN / "millrace", "run", f"bench/{name}.pbtxt", *words,
                             "--seconds", "2", "--threads", "1", "--json"])


def identity(repeats):
    return measure("identity", "ns", lambda: 1e9 / plan_per_core("identity"),
                   lambda: stream_row("element_loop", RECORD_SECONDS)["ns_per_element"], repeats)


def records_plan(name, repeats):
    path = small_file()
    return measure(name, "records/s", lambda: plan_per_core(name, f"FILE={path}"),
                   lambda: raw_per_core(path), repeats)


def small_records(repeats):
    return records_plan("small_records", repeats)


def small_shuffle(repeats):
    return records_plan("small_shuffle", repeats)


def small_filter(repeats):
    return records_plan("small_filter", repeats)


def scaling_2(repeats):
    """Value and limit are scalings; one and two threads, piped and bare, take turns."""
    need_cores(2)
    turns = [(stream_row("scaling", 1, RECORD_SECONDS), stream_row("scaling", 2, RECORD_SECONDS))
             for _ in range(repeats)]

    def scalings(field):
        figures = iter([two[field] / one[field] for one, two in turns])
        return lambda: next(figures)

    return measure("scaling_2", "times", scalings("rows_per_second"), scalings("bare_per_second"),
                   repeats)


def next_ready(repeats):
    rows = []

    def after_a_sleep():
        rows.append(stream_row("next_ready"))
        return rows[-1]["us"]

    row = measure("next_ready", "us", after_a_sleep,
                  lambda: stream_row("next_ready")["bare_us"], repeats)
    work, second = (statistics.median(each[field] for each in rows)
                    for field in ("after_work_us", "second_us"))
    row["note"] = f"{work:.3f} us after 1 ms of work, {second:.3f} us right after another"
    return row


def run_overhead(repeats):
    def besides_clocks():
        row = stream_row("overhead", 8)
        return row["us_per_run"] - row["bare_us"]

    return measure("run_overhead", "us", besides_clocks,
                   lambda: stream_row("overhead", 1)["bare_us"], repeats)


def first_batch_10m(repeats):
    def note(middle):
        return (f"{middle('cpu_ms'):.0f} ms of processor time, "
                f"{middle('bytes_per_record'):.1f} B of memory per record")

    return opening_row("first_batch_10m", repeats, note, "first_batch", index_folder(1000, 10_000))


def restore_row(name, slots, repeats):
    return opening_row(name, repeats, lambda middle: f"slowest place {middle('max_ms'):.0f} ms",
                       "restore", index_folder(1000, 10_000), slots)


def restore_10m(repeats):
    return restore_row("restore_10m", 0, repeats)


def restore_shuffle_10m(repeats):
    return restore_row("restore_shuffle_10m", 65_536, repeats)


def imagenet_cpu(repeats):
    tar = imagenet_tar()
    shards = imagenet_shards(tar)
    threads = len(os.sched_getaffinity(0))
    pipeline = [BIN / "millrace", "run", "examples/imagenet/train.pbtxt", "--var",
                f"DATA={shards}", "--var", "BATCH=64", "--seconds", "8", "--json"]
    raw = [BIN / "bench_raw_jpeg", tar, threads, 8]
    return measure("imagenet_cpu", "images/s", lambda: run_json(pipeline)["samples_per_second"],
                   lambda: run_json(raw)["images_per_second"], repeats)


TARGETS = ["millrace", "bench_make_records", "bench_raw_jpeg", "bench_raw_record_loop",
           "bench_stream_rows"]
ROWS = [imagenet_cpu, identity, small_records, small_filter, small_shuffle, scaling_2, next_ready,
        run_overhead, first_batch_10m, restore_10m, restore_shuffle_10m]

# What rows should reach: in words, and as a test of the row. Shown, never asserted.
BARS = {
    "identity": ("<= 10 ns", lambda row: row["value"] <= 10),
    "small_records": (">= 20 M/s where the limit is 60 M/s: ratio 0.333",
                      lambda row: row["ratio"] >= 20 / 60),
    "small_filter": (">= 8 M/s where the limit is 60 M/s: ratio 0.133",
                     lambda row: row["ratio"] >= 8 / 60),
    "small_shuffle": (">= 5 M/s where the limit is 60 M/s: ratio 0.083",
                      lambda row: row["ratio"] >= 5 / 60),
    "scaling_2": ("ratio >= 0.97", lambda row: row["ratio"] >= 0.97),
    "next_ready": ("<= 2 us", lambda row: row["value"] <= 2),
    "run_overhead": ("<= 2 us", lambda row: row["value"] <= 2),
    "first_batch_10m": ("<= 50 ms, <= 12 B of memory per record", lambda row: row["value"] <= 50),
    "restore_10m": ("<= 100 ms", lambda row: row["value"] <= 100),
    "restore_shuffle_10m": ("<= 100 ms", lambda row: row["value"] <= 100),
}

"""The rows of `scripts/bench.sh readers`."""
import json
import os
import shutil
import statistics
import subprocess

from http_servers import far_server
from rows import BIN, DATA, RECORD_SECONDS, ROOT, Skip, measure, run_json
from rows_data import http_shards, opening_row, record_file, text_file


def record_row(name, record_bytes, total_bytes, repeats, *words):
    path = record_file(record_bytes, total_bytes)
    field = "records_per_second"

    def one_of(program):
        return lambda: run_json([BIN / program, path, RECORD_SECONDS, *words])[field]

    return measure(name, "records/s", one_of("bench_read_records"),
                   one_of("bench_raw_record_loop"), repeats)


def large_records(repeats):
    return record_row("large_records", 110_000, 512 << 20, repeats)


def mapped_records(repeats):
    return record_row("mapped_records", 110_000, 512 << 20, repeats, "mmap")


def medium_records(repeats):
    return record_row("medium_records", 620, 256 << 20, repeats)


def reader_rate(*words):
    return lambda: run_json([BIN / "bench_reader_rows", *words])["per_second"]


def parse_40(repeats):
    row = measure("parse_40", "examples/s", reader_rate("parse_40", RECORD_SECONDS),
                  reader_rate("parse_40_limit", RECORD_SECONDS), repeats)
    shuffled = reader_rate("parse_40", RECORD_SECONDS, "shuffled")()
    row["note"] = f"{shuffled:,.0f} with the entries of each Example in an order of its own"
    return row


def index_10m(repeats):
    path = record_file(20, 10_000_000 * 36)
    row = measure("index_10m", "records/s", reader_rate("index", path),
                  reader_rate("index_limit", path), repeats)
    written = reader_rate("index", path, DATA / "fresh_index")()
    row["note"] = f"{written:,.0f} when the index is written to disk too"
    return row


def write_row(name, records, compression, repeats):
    words = (DATA / "written.tfrecord", records, compression)
    row = measure(name, "records/s", reader_rate("write", *words),
                  reader_rate("write_limit", *words), repeats)
    words[0].unlink()
    return row


def write(repeats):
    return write_row("write", 500_000, "none", repeats)


def write_gzip(repeats):
    return write_row("write_gzip", 50_000, "gzip", repeats)


def gzip(repeats):
    """Value and limit are bytes of inflated text per core; the note tells of two threads."""
    path = text_file(4)
    os.environ["XDG_CACHE_HOME"] = str(DATA / "cache")
    scalings = []

    def through_source():
        one, two = (run_json([BIN / "bench_read_source", path, 2, threads]) for threads in (1, 2))
        scalings.append(two["bytes_per_second"] / one["bytes_per_second"])
        return one["records"] * 616 / one["cpu_seconds"] / 1e6

    def inflated():
        loop = run_json([BIN / "bench_raw_inflate", path, 2])
        return loop["bytes_per_second"] * loop["seconds"] / loop["cpu_seconds"] / 1e6

    row = measure("gzip", "MB/s", through_source, inflated, repeats)
    row["scaling_2"] = statistics.median(scalings)
    row["note"] = f"two threads {row['scaling_2']:.2f} times one"
    return row


def gzip_resume(repeats):
    return opening_row("gzip_resume", repeats,
                       lambda middle: f"slowest place {middle('max_ms'):.0f} ms",
                       "restore", text_file(16).parent, 1, cache="text_cache")


def fio_bytes_per_second(path, pattern, block, jobs=2):
    """What fio reads of `path`, which is not in the page cache, with so many threads, a part
    each."""
    if shutil.which("fio") is None:
        raise Skip("fio is not installed")
    part = path.stat().st_size // jobs
    row = subprocess.run(
        ["fio", "--name=limit", f"--filename={path}", f"--size={part}",
         f"--offset_increment={part}", f"--rw={pattern}", f"--bs={block}", f"--numjobs={jobs}",
         "--thread", "--ioengine=psync", "--invalidate=1", "--group_reporting", "--readonly",
         "--output-format=json"], stdout=subprocess.PIPE, check=True, text=True)
    return json.loads(row.stdout)["jobs"][0]["read"]["bw_bytes"]


def cold_row(name, pattern, block, block_bytes, repeats, beside=None):
    """`beside(path)` is called in each turn, in front of the limit."""
    path = record_file(110_000, 2 << 30)
    os.environ["XDG_CACHE_HOME"] = str(DATA / "cache")

    def value():
        return run_json([BIN / "bench_cold_read", path, 110_000, 2, block_bytes])[
            "bytes_per_second"]

    def limit():
        if beside is not None:
            beside(path)
        return fio_bytes_per_second(path, pattern, block)

    return measure(name, "B/s", value, limit, repeats)


def cold_read(repeats):
    """The note has what one job of fio reads, since the order of a file is one stream."""
    ones = []
    row = cold_row("cold_read", "read", "256k", 0, repeats,
                   lambda path: ones.append(fio_bytes_per_second(path, "read", "256k", jobs=1)))
    one = statistics.median(ones)
    row["note"] = f"{row['value'] / one:.3f} of fio's one job, {one:,.0f}"
    return row


def cold_shuffle(repeats):
    return cold_row("cold_shuffle", "randread", "8m", 8 << 20, repeats)


def http_run(url, order, threads=2):
    """What `millrace run --json` says of two epochs in this order."""
    plan = DATA / "http.pbtxt"
    plan.write_text(
        f'seed: 1\nstage {{ tfrecord {{ files: "{url}/part-{{0..7}}.tfrecord" }} }}\n{order}\n'
        'stage { decode_raw { field: "record" dtype: UINT8 shape: 110000 } }\n'
        "stage { batch { size: 64 } }\nstage { repeat { epochs: 2 } }\n")
    return run_json([BIN / "millrace", "run", plan, "--threads", threads, "--json"])


def http_row(name, order, repeats):
    """Samples per second in `order`; the limit is file order."""
    os.environ.update(XDG_CACHE_HOME=str(DATA / "cache"), no_proxy="127.0.0.1")
    fetched = []

    def value():
        run = http_run(url, order)
        fetched.append(run["fetched_bytes_per_record_byte"])
        return run["samples_per_second"]

    with far_server(http_shards()) as (url, program):
        http_run(url, "")  # makes the index
        row = measure(name, "samples/s", value,
                      lambda: http_run(url, "")["samples_per_second"], repeats)
    row["fetched"] = max(fetched)
    row["note"] = f"{row['fetched']:.3f} bytes fetched for each byte of records; files by {program}"
    return row


def http_shuffle(repeats):
    return http_row("http_shuffle", "stage { global_shuffle {} }", repeats)


def http_blocks(repeats):
    return http_row("http_blocks", "stage { global_shuffle { block_bytes: 8388608 } }", repeats)


TARGETS = ["bench_cold_read", "bench_make_records", "bench_make_text", "bench_raw_inflate",
           "bench_raw_record_loop", "bench_read_records", "bench_read_source", "bench_reader_rows",
           "bench_stream_rows", "millrace"]
ROWS = [large_records, mapped_records, medium_records, gzip, gzip_resume, parse_40, index_10m,
        write, write_gzip, cold_read, cold_shuffle, http_shuffle, http_blocks]

# What rows should reach: in words, and as a test of the row. Shown, never asserted.
BARS = {
    "large_records": ("ratio >= 0.85", lambda row: row["ratio"] >= 0.85),
    "mapped_records": ("ratio >= 0.8", lambda row: row["ratio"] >= 0.8),
    "parse_40": (">= 2.5 M/s", lambda row: row["value"] >= 2.5e6),
    "index_10m": ("ratio >= 0.8", lambda row: row["ratio"] >= 0.8),
    "write": ("ratio >= 0.9", lambda row: row["ratio"] >= 0.9),
    "write_gzip": ("ratio >= 0.9", lambda row: row["ratio"] >= 0.9),
    "gzip": ("ratio >= 0.85, two threads >= 1.7 times one",
             lambda row: row["ratio"] >= 0.85 and row["scaling_2"] >= 1.7),
    "gzip_resume": ("<= 50 ms", lambda row: row["value"] <= 50),
    "cold_read": ("ratio >= 0.9", lambda row: row["ratio"] >= 0.9),
    "cold_shuffle": ("ratio >= 0.9", lambda row: row["ratio"] >= 0.9),
    "http_shuffle": ("ratio >= 0.8, <= 1.05 times the bytes",
                     lambda row: row["ratio"] >= 0.8 and row["fetched"] <= 1.05),
    "http_blocks": ("ratio >= 0.95, <= 1.02 times the bytes",
                    lambda row: row["ratio"] >= 0.95 and row["fetched"] <= 1.02),
}

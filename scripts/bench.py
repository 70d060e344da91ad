#!/usr/bin/env python3
"""Prints one row per piece of work: name, value, unit, limit measured in the same run, ratio.

Value and limit take turns, so that a slow minute of the machine hits both. bench/README.md says
what each row measures.
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BIN = ROOT / "build" / "release" / "bin"
DATA = ROOT / "build" / "bench_data"
RECORD_SECONDS = 1  # each record measurement reads its file again until so much time has passed


class Skip(Exception):
    """The row cannot be measured here; the text says why."""


def build(targets):
    if not (ROOT / "build" / "release" / "build.ninja").exists():
        subprocess.run(["cmake", "--preset", "release"], cwd=ROOT, check=True, stdout=sys.stderr)
    subprocess.run(["ninja", "-C", "build/release", *targets], cwd=ROOT, check=True,
                   stdout=sys.stderr)


def run_json(command):
    """The JSON object that `command` prints as its last line."""
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{words[0]} ended with {done.returncode}")
    text = done.stdout.strip()
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return json.loads(text.splitlines()[-1])


def spread(figures):
    return (max(figures) - min(figures)) / statistics.median(figures)


def measure(name, unit, value, limit, repeats):
    values, limits = [], []
    for _ in range(repeats):
        values.append(value())
        limits.append(limit())
    middle, bound = statistics.median(values), statistics.median(limits)
    return {"name": name, "value": middle, "unit": unit, "limit": bound, "ratio": middle / bound,
            "value_spread": spread(values), "limit_spread": spread(limits), "repeats": repeats}


def record_row(name, record_bytes, total_bytes, repeats):
    path = DATA / f"{name}.tfrecord"
    if not path.exists():
        DATA.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        subprocess.run([BIN / "bench_make_records", part, str(record_bytes), str(total_bytes)],
                       check=True)
        part.rename(path)
    field = "records_per_second"

    def one_of(program):
        return lambda: run_json([BIN / program, path, RECORD_SECONDS])[field]

    return measure(name, "records/s", one_of("bench_read_records"),
                   one_of("bench_raw_record_loop"), repeats)


def large_records(repeats):
    return record_row("large_records", 110_000, 512 << 20, repeats)


def small_records(repeats):
    return record_row("small_records", 620, 256 << 20, repeats)


def imagenet_shards(tar):
    """Converts the images of `tar` once."""
    folder = DATA / "imagenet"
    if not folder.exists():
        part = DATA / "imagenet.part"
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        subprocess.run([BIN / "millrace", "records", "convert", "--from", "images", "--images", tar, "--out",
                        part, "--prefix", "imagenet", "--shards", "8"], check=True,
                       stdout=sys.stderr)
        part.rename(folder)
    return folder


def imagenet_cpu(repeats):
    folder = os.environ.get("MILLRACE_TEST_DATA")
    if not folder:
        raise Skip("MILLRACE_TEST_DATA is not set")
    tar = pathlib.Path(folder) / "imagenet-sample.tar"
    if not tar.exists():
        raise Skip(f"{tar} does not exist")
    shards = imagenet_shards(tar)
    threads = len(os.sched_getaffinity(0))
    pipeline = [BIN / "millrace", "run", "examples/imagenet/train.pbtxt", "--var",
                f"DATA={shards}", "--var", "BATCH=64", "--seconds", "8", "--json"]
    raw = [BIN / "bench_raw_jpeg", tar, threads, 8]
    return measure("imagenet_cpu", "images/s", lambda: run_json(pipeline)["samples_per_second"],
                   lambda: run_json(raw)["images_per_second"], repeats)


AREAS = {
    "readers": {
        "targets": ["bench_make_records", "bench_raw_record_loop", "bench_read_records"],
        "rows": [large_records, small_records],
    },
    "pipeline": {"targets": ["millrace", "bench_raw_jpeg"], "rows": [imagenet_cpu]},
}


def show(row):
    if "skipped" in row:
        print(f"{row['name']:16} skipped: {row['skipped']}")
        return
    print(f"{row['name']:16} {row['value']:14,.0f} {row['unit']:10} limit {row['limit']:14,.0f}"
          f"  ratio {row['ratio']:.3f}"
          f"  spread {row['value_spread']:.1%} / {row['limit_spread']:.1%}"
          f"  of {row['repeats']}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("area", choices=sorted(AREAS))
    parser.add_argument("--json", action="store_true", help="one JSON object per row")
    parser.add_argument("--repeats", type=int, default=9, help="turns per row, at least 1")
    options = parser.parse_args()
    area = AREAS[options.area]
    build(area["targets"])
    for bench in area["rows"]:
        try:
            row = bench(max(options.repeats, 1))
        except Skip as reason:
            row = {"name": bench.__name__, "skipped": str(reason)}
        if options.json:
            print(json.dumps(row), flush=True)
        else:
            show(row)


if __name__ == "__main__":
    main()

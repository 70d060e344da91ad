#!/usr/bin/env python3
"""Prints one row per piece of work: name, value, unit, limit measured in the same run, ratio.

Value and limit take turns, so that a slow minute of the machine hits both. bench/README.md says
what each row measures.
"""

import argparse
import json
import os
import pathlib
import resource
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


def samples_per_core(command):
    """Samples of a `millrace run --json` by the processor time of the whole program."""
    words = [str(word) for word in command]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        raise Skip((done.stderr.strip().splitlines() or ["it failed"])[-1])
    seconds = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return json.loads(done.stdout.strip().splitlines()[-1])["samples"] / seconds


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


def record_file(record_bytes, total_bytes):
    """A TFRecord file of equal records, made once."""
    path = DATA / f"{record_bytes}b-{total_bytes}.tfrecord"
    if not path.exists():
        DATA.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        subprocess.run([BIN / "bench_make_records", part, str(record_bytes), str(total_bytes)],
                       check=True)
        part.rename(path)
    return path


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


def text_file(members):
    """A gzip file of members of 64 MiB of text in records of 600 bytes, made once."""
    folder = DATA / f"text-{members}"
    path = folder / "text.tfrecord"
    if not path.exists():
        part = folder.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        subprocess.run([BIN / "bench_make_text", part / path.name, "600", str(64 << 20),
                        str(members)], check=True)
        part.rename(folder)
    return path


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


def fio_bytes_per_second(path, pattern, block):
    """What fio reads of `path`, which is not in the page cache, with two threads, half each."""
    if shutil.which("fio") is None:
        raise Skip("fio is not installed")
    half = path.stat().st_size // 2
    row = subprocess.run(
        ["fio", "--name=limit", f"--filename={path}", f"--size={half}",
         f"--offset_increment={half}", f"--rw={pattern}", f"--bs={block}", "--numjobs=2",
         "--thread", "--ioengine=psync", "--invalidate=1", "--group_reporting", "--readonly",
         "--output-format=json"], stdout=subprocess.PIPE, check=True, text=True)
    return json.loads(row.stdout)["jobs"][0]["read"]["bw_bytes"]


def cold_row(name, pattern, block, block_bytes, repeats):
    path = record_file(110_000, 512 << 20)
    os.environ["XDG_CACHE_HOME"] = str(DATA / "cache")

    def value():
        return run_json([BIN / "bench_cold_read", path, 110_000, 2, block_bytes])[
            "bytes_per_second"]

    return measure(name, "B/s", value, lambda: fio_bytes_per_second(path, pattern, block), repeats)


def cold_read(repeats):
    return cold_row("cold_read", "read", "256k", 0, repeats)


def cold_shuffle(repeats):
    return cold_row("cold_shuffle", "randread", "8m", 8 << 20, repeats)


def raw_per_core(path):
    """What the plain loop reads of `path` in a second of processor time."""
    loop = run_json([BIN / "bench_raw_record_loop", path, RECORD_SECONDS])
    return loop["records"] / loop["cpu_seconds"]


def stream_row(row, *words, cache="cache"):
    """The JSON of bench_stream_rows; indexes are kept beside the data."""
    os.environ["XDG_CACHE_HOME"] = str(DATA / cache)
    return run_json([BIN / "bench_stream_rows", row, *words])


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
    if len(os.sched_getaffinity(0)) < 2:
        raise Skip("one core only")
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


def index_folder(shards, records):
    """Links of one shard of empty records: the indexes are whole, the data is next to nothing."""
    folder = DATA / f"index-{shards}x{records}"
    if not folder.exists():
        part = folder.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        shard = part / "shard-0000.tfrecord"
        subprocess.run([BIN / "bench_make_records", shard, "1", str(records * 17)], check=True)
        for i in range(1, shards):
            os.link(shard, part / f"shard-{i:04}.tfrecord")
        part.rename(folder)
        stream_row("first_batch", folder)  # makes the indexes
    return folder


def opening_row(name, repeats, note, *words, cache="cache"):
    """From opening to a first batch; `note` makes a text of the figures beside the time."""
    rows = []

    def ms(field):
        def run():
            rows.append(stream_row(*words, cache=cache))
            return rows[-1][field]
        return run

    row = measure(name, "ms", ms("ms"), ms("raw_ms"), repeats)
    row["note"] = note(lambda field: statistics.median(row[field] for row in rows))
    return row


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


def imagenet_tar():
    folder = os.environ.get("MILLRACE_TEST_DATA")
    if not folder:
        raise Skip("MILLRACE_TEST_DATA is not set")
    tar = pathlib.Path(folder) / "imagenet-sample.tar"
    if not tar.exists():
        raise Skip(f"{tar} does not exist")
    return tar


def imagenet_500px_tar():
    """The images of the sample, at most 500 pixels wide and high, made anew when what makes them is."""
    tar = DATA / "imagenet-500px.tar"
    made_of = (imagenet_tar(), BIN / "bench_recode_jpegs")
    if not tar.exists() or tar.stat().st_mtime < max(os.stat(p).st_mtime for p in made_of):
        DATA.mkdir(parents=True, exist_ok=True)
        part = tar.with_suffix(".part")
        subprocess.run([BIN / "bench_recode_jpegs", imagenet_tar(), part], check=True)
        part.rename(tar)
    return tar


def jpeg_row(name, tar, row, repeats):
    def rate(words):
        return lambda: run_json([BIN / "bench_jpeg_rows", tar, words, 2])["per_second"]

    return measure(name, "images/s", rate(row), rate(row + "_limit"), repeats)


def jpeg_region(repeats):
    return jpeg_row("jpeg_region", imagenet_tar(), "region", repeats)


def jpeg_full(repeats):
    return jpeg_row("jpeg_full", imagenet_tar(), "full", repeats)


def jpeg_500px(repeats):
    return jpeg_row("jpeg_500px", imagenet_500px_tar(), "region", repeats)


def tabular(repeats):
    def rate(words):
        return lambda: run_json([BIN / "bench_field_rows", words, RECORD_SECONDS])["per_second"]

    return measure("tabular", "records/s", rate("tabular"), rate("tabular_limit"), repeats)


def png_small(repeats):
    def rate(row):
        return lambda: run_json([BIN / "bench_png_rows", row, 2])["per_second"]

    return measure("png_small", "images/s", rate("small"), rate("small_limit"), repeats)


def imagenet_cpu(repeats):
    tar = imagenet_tar()
    shards = imagenet_shards(tar)
    threads = len(os.sched_getaffinity(0))
    pipeline = [BIN / "millrace", "run", "examples/imagenet/train.pbtxt", "--var",
                f"DATA={shards}", "--var", "BATCH=64", "--seconds", "8", "--json"]
    raw = [BIN / "bench_raw_jpeg", tar, threads, 8]
    return measure("imagenet_cpu", "images/s", lambda: run_json(pipeline)["samples_per_second"],
                   lambda: run_json(raw)["images_per_second"], repeats)


TRAIN = "examples/imagenet/train.pbtxt"
H100 = 1786  # images/s of ResNet-50 that MLPerf Storage gives an emulated H100


def steady_rate(plan, threads, *words):
    """Images per second of `millrace run`, without what opening and the first pages take."""
    command = [BIN / "millrace", "run", plan, "--var", f"DATA={imagenet_shards(imagenet_tar())}",
               "--threads", threads, "--json", *words]
    short, long = (run_json([*command, "--batches", batches]) for batches in (6, 6 + 12 * threads))
    return (long["samples"] - short["samples"]) / (long["seconds"] - short["seconds"])


def raw_rate(threads):
    return run_json([BIN / "bench_raw_jpeg", imagenet_tar(), threads, 3])["images_per_second"]


def need_cores(count):
    if len(os.sched_getaffinity(0)) < count:
        raise Skip(f"fewer than {count} cores")


def resize_normalize(repeats):
    tar = imagenet_tar()
    turns = [run_json([BIN / "bench_resize_rows", tar, RECORD_SECONDS]) for _ in range(repeats)]
    levels = [name for name in turns[0] if name not in ("height", "width", "copy")]

    def figures(name):
        each = iter([turn[name] for turn in turns])
        return lambda: next(each)

    row = measure("resize_normalize", "us", figures(levels[0]), figures("copy"), repeats)
    row["levels"] = {name: statistics.median(turn[name] for turn in turns) for name in levels}
    row["note"] = (f"of {turns[0]['height']} x {turns[0]['width']}; " +
                   ", ".join(f"{name} {us:.1f}" for name, us in row["levels"].items()))
    return row


def train_path(repeats):
    need_cores(2)
    return measure("train_path", "images/s", lambda: steady_rate(TRAIN, 2), lambda: raw_rate(2),
                   repeats)


def train_scaling_2(repeats):
    """Value and limit are scalings; one and two threads, pipeline and bare decode, take turns."""
    need_cores(2)
    return measure("train_scaling_2", "times",
                   lambda: steady_rate(TRAIN, 2) / steady_rate(TRAIN, 1),
                   lambda: raw_rate(2) / raw_rate(1), repeats)


def rand_augment(repeats):
    """Per core, for the two plans differ by less than the machine does from hour to hour.

    User time: what the kernel takes to clear a slab's first pages varies by more than that, too.
    """
    shards = imagenet_shards(imagenet_tar())

    def per_core(plan):
        def cpu(batches):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            run = run_json([BIN / "millrace", "run", plan, "--var", f"DATA={shards}", "--threads", 1,
                            "--batches", batches, "--json"])
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            return run["samples"], after.ru_utime - before.ru_utime

        def run():
            (few, short), (many, long) = cpu(4), cpu(16)
            return (many - few) / (long - short)
        return run

    row = measure("rand_augment", "images/s", per_core("bench/rand_augment.pbtxt"), per_core(TRAIN),
                  repeats)
    row["note"] = f"costs {1 - row['ratio']:.0%}"
    return row


def h100_per_core(repeats):
    """The pace per core at which an emulated accelerator is still busy for 90 % of the time."""
    cores = len(os.sched_getaffinity(0))
    shards = imagenet_shards(imagenet_tar())

    def utilisation(pace):
        return run_json([BIN / "millrace", "run", TRAIN, "--var", f"DATA={shards}", "--pace",
                         f"{pace:.0f}", "--threads", cores, "--seconds", 8, "--json"])["au"]

    def best_pace():
        low, high = 0.5 * H100 * cores, 4 * H100 * cores
        for _ in range(5):
            pace = (low * high) ** 0.5
            low, high = (pace, high) if utilisation(pace) >= 0.9 else (low, pace)
        return low / cores

    return measure("h100_per_core", "images/s", best_pace, lambda: H100, repeats)


AREAS = {
    "augment": {
        "targets": ["millrace", "bench_field_rows", "bench_jpeg_rows", "bench_png_rows",
                    "bench_raw_jpeg", "bench_recode_jpegs", "bench_resize_rows"],
        "rows": [jpeg_region, jpeg_full, jpeg_500px, png_small, resize_normalize, train_path,
                 train_scaling_2, rand_augment, h100_per_core, tabular],
    },
    "readers": {
        "targets": ["bench_cold_read", "bench_make_records", "bench_make_text", "bench_raw_inflate",
                    "bench_raw_record_loop", "bench_read_records", "bench_read_source",
                    "bench_reader_rows", "bench_stream_rows"],
        "rows": [large_records, mapped_records, medium_records, gzip, gzip_resume, parse_40, index_10m, write,
                 write_gzip, cold_read, cold_shuffle],
    },
    "pipeline": {
        "targets": ["millrace", "bench_make_records", "bench_raw_record_loop", "bench_raw_jpeg",
                    "bench_stream_rows"],
        "rows": [imagenet_cpu, identity, small_records, small_filter, small_shuffle, scaling_2,
                 next_ready, run_overhead, first_batch_10m, restore_10m, restore_shuffle_10m],
    },
}

# What each row should reach: in words, and as a test of the row. Shown, never asserted.
BARS = {
    "jpeg_region": ("ratio >= 2", lambda row: row["ratio"] >= 2),
    "jpeg_full": ("ratio >= 2", lambda row: row["ratio"] >= 2),
    "jpeg_500px": ("ratio >= 2", lambda row: row["ratio"] >= 2),
    "png_small": ("ratio >= 0.9", lambda row: row["ratio"] >= 0.9),
    "resize_normalize": ("<= 40 us with AVX-512, <= 60 us with AVX2",
                         lambda row: all(row["levels"].get(level, 0) <= most
                                         for level, most in (("AVX3", 40), ("AVX2", 60)))),
    "train_path": ("ratio >= 1.7", lambda row: row["ratio"] >= 1.7),
    "train_scaling_2": ("ratio >= 0.97", lambda row: row["ratio"] >= 0.97),
    "rand_augment": ("ratio >= 0.8", lambda row: row["ratio"] >= 0.8),
    "h100_per_core": ("ratio >= 1", lambda row: row["ratio"] >= 1),
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


def show(row):
    if "skipped" in row:
        print(f"{row['name']:16} skipped: {row['skipped']}")
        return
    def figure(value):
        return f"{value:14,.0f}" if value >= 1000 else f"{value:14,.3f}"

    print(f"{row['name']:16} {figure(row['value'])} {row['unit']:10} limit {figure(row['limit'])}"
          f"  ratio {row['ratio']:.3f}"
          f"  spread {row['value_spread']:.1%} / {row['limit_spread']:.1%}"
          f"  of {row['repeats']}"
          f"{'' if 'bar' not in row else '  met: ' if row['met'] else '  MISSED: '}"
          f"{row.get('bar', '')}"
          f"{'  (' + row['note'] + ')' if 'note' in row else ''}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("area", choices=sorted(AREAS))
    parser.add_argument("--json", action="store_true", help="one JSON object per row")
    parser.add_argument("--row", action="append", help="only this row; repeatable")
    parser.add_argument("--repeats", type=int, default=9, help="turns per row, at least 1")
    options = parser.parse_args()
    area = AREAS[options.area]
    build(area["targets"])
    for bench in area["rows"]:
        if options.row and bench.__name__ not in options.row:
            continue
        try:
            row = bench(max(options.repeats, 1))
        except Skip as reason:
            row = {"name": bench.__name__, "skipped": str(reason)}
        if row["name"] in BARS and "skipped" not in row:
            row["bar"], holds = BARS[row["name"]]
            row["met"] = holds(row)
        if options.json:
            print(json.dumps(row), flush=True)
        else:
            show(row)


if __name__ == "__main__":
    main()

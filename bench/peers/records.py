#!/usr/bin/env python3
"""Millrace beside tf.data: the same files, the same work, turn by turn; medians.

Run it by bench/peers/run.sh records. Every turn is a process of its own that counts what it
delivers for some seconds; the page cache is warm. TensorFlow writes the files, so neither side
reads its own.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

from machine import BIN, PEERS, today

MILLRACE = BIN / "millrace"
DATA = PEERS / "data"
BATCH = 1024
FLOATS, INTS = 13, 26  # features of the row parse_40, beside the label


def tensorflow():
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow
    return tensorflow


# The files. Each is written once, under a temporary name first.


def write_records(path, payloads, compression=""):
    tf = tensorflow()
    part = path.with_suffix(".part")
    with tf.io.TFRecordWriter(str(part), compression) as writer:
        for payload in payloads:
            writer.write(payload)
    part.rename(path)


def texts(count, size):
    """Text that compresses about fourfold."""
    words = [f"word{i * 7919 % 10007:05} " for i in range(4096)]
    state = 1
    for _ in range(count):
        line = ""
        while len(line) < size:
            state = state * 6364136223846793005 + 1442695040888963407 & (1 << 64) - 1
            line += words[(state >> 33) % 4096]
        yield line[:size].encode()


def noise(count, size):
    block = os.urandom(1 << 20)
    for i in range(count):
        begin = i * 4093 % (len(block) - size)
        yield block[begin:begin + size]


def wide_examples(count):
    tf = tensorflow()
    for i in range(count):
        feature = {f"f{j:02}": tf.train.Feature(float_list=tf.train.FloatList(value=[i / (j + 1)]))
                   for j in range(FLOATS)}
        feature |= {f"i{j:02}": tf.train.Feature(int64_list=tf.train.Int64List(value=[i * j % 99991]))
                    for j in range(INTS)}
        feature["label"] = tf.train.Feature(int64_list=tf.train.Int64List(value=[i % 2]))
        yield tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()


FILES = {
    "small.tfrecord": lambda path: write_records(path, noise(1 << 20, 100)),
    "large.tfrecord": lambda path: write_records(path, noise(4096, 110_000)),
    "text.tfrecord.gz": lambda path: write_records(path, texts(1 << 20, 100), "GZIP"),
    "wide.tfrecord": lambda path: write_records(path, wide_examples(200_000)),
}


def data_file(name):
    path = DATA / name
    if not path.exists():
        print(f"writing {path}", file=sys.stderr)
        DATA.mkdir(parents=True, exist_ok=True)
        FILES[name](path)
    return path


# The work, once as a plan and once as a data set. A sample is a record.


def plan_records(size, *stages):
    return "\n".join([*stages,
                      'stage { decode_raw { field: "record" output: "raw" dtype: UINT8 '
                      f"shape: {size} }} }}",
                      f"stage {{ batch {{ size: {BATCH if size < 1000 else 16} }} }}",
                      "stage { repeat { epochs: 0 } }"])


def dataset_records(tf, dataset, size, shuffle=0):
    if shuffle:
        dataset = dataset.shuffle(shuffle, seed=1)
    # Whole batches are decoded: several times faster than record by record.
    return dataset.batch(BATCH if size < 1000 else 16).map(
        lambda batch: tf.io.decode_raw(batch, tf.uint8), num_parallel_calls=tf.data.AUTOTUNE)


def plan_wide():
    features = [f'feature {{ key: "f{i:02}" dtype: FLOAT32 }}' for i in range(FLOATS)]
    features += [f'feature {{ key: "i{i:02}" dtype: INT64 }}' for i in range(INTS)]
    features.append('feature { key: "label" dtype: INT64 }')
    return "\n".join(["stage { parse_example {", *features, "} }",
                      f"stage {{ batch {{ size: {BATCH} }} }}", "stage { repeat { epochs: 0 } }"])


def dataset_wide(tf, dataset):
    features = {f"f{i:02}": tf.io.FixedLenFeature([], tf.float32) for i in range(FLOATS)}
    features |= {f"i{i:02}": tf.io.FixedLenFeature([], tf.int64) for i in range(INTS)}
    features["label"] = tf.io.FixedLenFeature([], tf.int64)
    return dataset.batch(BATCH).map(lambda batch: tf.io.parse_example(batch, features),
                                    num_parallel_calls=tf.data.AUTOTUNE)


SHUFFLE = "stage { shuffle { buffer_size: 65536 } }"
ROWS = {  # name: (what it is, file, compression, stages behind the source, data set behind the source)
    "small_records": ("100-byte records, batches of 1,024", "small.tfrecord", "",
                      lambda: plan_records(100), lambda tf, data: dataset_records(tf, data, 100)),
    "small_shuffle": ("the same, shuffle buffer of 65,536", "small.tfrecord", "",
                      lambda: plan_records(100, SHUFFLE),
                      lambda tf, data: dataset_records(tf, data, 100, 65536)),
    "large_records": ("110 KB records, batches of 16", "large.tfrecord", "",
                      lambda: plan_records(110_000),
                      lambda tf, data: dataset_records(tf, data, 110_000)),
    "gzip": ("100-byte records of a gzip file", "text.tfrecord.gz", "GZIP",
             lambda: plan_records(100), lambda tf, data: dataset_records(tf, data, 100)),
    "parse_40": ("Examples of 13 floats, 26 int64 and a label into columns", "wide.tfrecord", "",
                 plan_wide, dataset_wide),
}


def run_tf(name, seconds):
    """Prints records per second of the data set of a row, after its first batch."""
    tf = tensorflow()
    _, file, compression, _, build = ROWS[name]
    dataset = build(tf, tf.data.TFRecordDataset(str(data_file(file)), compression).repeat())
    batches = iter(dataset.prefetch(tf.data.AUTOTUNE))
    first = next(batches)
    rows = int((first["label"] if isinstance(first, dict) else first).shape[0])
    begin = time.perf_counter()
    done = 0
    while time.perf_counter() - begin < seconds:
        next(batches)
        done += rows
    print(done / (time.perf_counter() - begin))


def tf_turn(name, seconds):
    done = subprocess.run([sys.executable, __file__, "--tf", name, "--seconds", str(seconds)],
                          check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return float(done.stdout.strip().splitlines()[-1])


def millrace_turn(name, seconds):
    _, file, compression, stages, _ = ROWS[name]
    plan = DATA / f"{name}.pbtxt"
    option = f' compression: "{compression.lower()}"' if compression else ""
    plan.write_text(f'stage {{ tfrecord {{ files: "{data_file(file)}"{option} }} }}\n{stages()}\n')
    environment = dict(os.environ, XDG_CACHE_HOME=str(DATA / "cache"))
    done = subprocess.run([MILLRACE, "run", plan, "--seconds", str(seconds), "--json"], check=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env=environment)
    return json.loads(done.stdout.strip().splitlines()[-1])["samples_per_second"]


def measure(name, options):
    ours, theirs = [], []
    data_file(ROWS[name][1])
    millrace_turn(name, 0.1)  # makes the index
    for _ in range(options.repeats):
        ours.append(millrace_turn(name, options.seconds))
        theirs.append(tf_turn(name, options.seconds))
    return statistics.median(ours), statistics.median(theirs)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--row", action="append", choices=sorted(ROWS), help="only this row")
    parser.add_argument("--repeats", type=int, default=5, help="turns per row")
    parser.add_argument("--seconds", type=float, default=5, help="of each turn")
    parser.add_argument("--tf", help=argparse.SUPPRESS)  # a turn of tf.data
    options = parser.parse_args()
    if options.tf:
        return run_tf(options.tf, options.seconds)
    version = subprocess.run([sys.executable, "-c", "import tensorflow; print(tensorflow.__version__)"],
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                             check=True).stdout.strip()
    print(f"{today()}; tf.data {version}; "
          f"medians of {max(options.repeats, 1)} turns of {options.seconds:g} s\n")
    print("| row | work | Millrace, records/s | tf.data, records/s | ratio |")
    print("| --- | --- | --- | --- | --- |")
    for name in options.row or ROWS:
        ours, theirs = measure(name, options)
        print(f"| `{name}` | {ROWS[name][0]} | {ours:,.0f} | {theirs:,.0f} | {ours / theirs:.1f} |",
              flush=True)


if __name__ == "__main__":
    main()

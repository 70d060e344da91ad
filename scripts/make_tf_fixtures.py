#!/usr/bin/env python3
"""Writes the golden files of tests/readers/testdata with TensorFlow itself.

Needs `pip install tensorflow-cpu`; run it only when the set changes, and commit what it writes:

    python3 scripts/make_tf_fixtures.py tests/readers/testdata

tf_plain.tfrecord, tf_gzip.tfrecord.gz, tf_zlib.tfrecord hold the same records, in this order:
  record i has the payload byte((7 * i + 13 * j) % 251) for j < LENGTHS[i].
examples.tfrecord holds serialized tf.train.Example messages, examples.json says what is in them: a
list with one object per record, feature key -> {"kind": "bytes" | "float" | "int64" | "none",
"values": [...]}; bytes values are base64.
"""

import base64
import json
import os
import sys

import tensorflow as tf

LENGTHS = [0, 1, 3, 4, 11, 12, 16, 100, 255, 256, 1000]


def payload(i, length):
    return bytes((7 * i + 13 * j) % 251 for j in range(length))


def write_records(folder):
    for name, compression in (
        ("tf_plain.tfrecord", ""),
        ("tf_gzip.tfrecord.gz", "GZIP"),
        ("tf_zlib.tfrecord", "ZLIB"),
    ):
        with tf.io.TFRecordWriter(os.path.join(folder, name), compression) as writer:
            for i, length in enumerate(LENGTHS):
                writer.write(payload(i, length))


def feature(kind, values):
    if kind == "bytes":
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
    if kind == "float":
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))
    if kind == "int64":
        return tf.train.Feature(int64_list=tf.train.Int64List(value=values))
    return tf.train.Feature()


EXAMPLES = [
    {"image": ("bytes", [bytes(range(256))]), "label": ("int64", [7]), "weight": ("float", [0.5])},
    {
        "many_bytes": ("bytes", [b"", b"a", b"two words", b"\x00\xff"]),
        "many_ints": ("int64", [0, 1, -1, 127, 128, -128, 2**31, -(2**31), 2**63 - 1, -(2**63)]),
        "many_floats": ("float", [0.0, -0.0, 1.0, -1.5, 3.0e38, 1.0e-40, 0.1]),
    },
    {
        "empty_bytes": ("bytes", []),
        "empty_ints": ("int64", []),
        "empty_floats": ("float", []),
        "no_kind": ("none", []),
    },
    {"größe": ("int64", [-42]), "数据": ("bytes", ["héllo 世界".encode()]), "": ("float", [2.25])},
    {"box": ("float", [0.1, 0.2, 0.3, 0.4]), "ids": ("int64", list(range(-50, 50)))},
    {},
]


def described(kind, values):
    if kind == "bytes":
        values = [base64.b64encode(value).decode() for value in values]
    return {"kind": kind, "values": values}


def write_examples(folder):
    with tf.io.TFRecordWriter(os.path.join(folder, "examples.tfrecord")) as writer:
        for example in EXAMPLES:
            features = {key: feature(kind, values) for key, (kind, values) in example.items()}
            message = tf.train.Example(features=tf.train.Features(feature=features))
            writer.write(message.SerializeToString(deterministic=True))
    with open(os.path.join(folder, "examples.json"), "w", encoding="utf-8") as out:
        table = [{k: described(*v) for k, v in example.items()} for example in EXAMPLES]
        json.dump(table, out, indent=1, ensure_ascii=False, sort_keys=True)
        out.write("\n")


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: make_tf_fixtures.py FOLDER")
    os.makedirs(sys.argv[1], exist_ok=True)
    write_records(sys.argv[1])
    write_examples(sys.argv[1])
    print("written with TensorFlow", tf.__version__)


if __name__ == "__main__":
    main()

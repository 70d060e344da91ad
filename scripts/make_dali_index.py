#!/usr/bin/env python3
"""Writes tests/readers/testdata/tf_plain.idx and examples.idx: what NVIDIA DALI's own tfrecord2idx
makes of tf_plain.tfrecord and examples.tfrecord, which TensorFlow wrote.

Usage: make_dali_index.py [TFRECORD2IDX]

TFRECORD2IDX is the script of nvidia-dali-cuda120 or of DALI's tools/, which needs nothing but
Python; by default the one that is installed.
"""
import pathlib
import shutil
import subprocess
import sys

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "tests/readers/testdata"


def main():
    program = sys.argv[1] if len(sys.argv) > 1 else shutil.which("tfrecord2idx")
    if program is None:
        sys.exit("there is no tfrecord2idx: name it, or install nvidia-dali-cuda120")
    for name in ("tf_plain", "examples"):
        subprocess.run([sys.executable, program, FOLDER / f"{name}.tfrecord",
                        FOLDER / f"{name}.idx"], check=True)


if __name__ == "__main__":
    main()

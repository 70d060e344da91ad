#!/usr/bin/env python3
"""Writes tests/augment/testdata/djpeg.txt: what djpeg makes of the JPEGs of tests/fixtures.

Usage: make_djpeg_sums.py      needs djpeg of libjpeg-turbo
"""
import pathlib
import subprocess
import zlib

ROOT = pathlib.Path(__file__).resolve().parent.parent
HEADER = """\
# Pixels of djpeg -rgb -pnm for the files of tests/fixtures/jpeg, by scripts/make_djpeg_sums.py:
# FILE HEIGHT WIDTH CRC32, of the pixels alone
"""


def line_of(path):
    """Returns the table's line for the JPEG at `path`."""
    pnm = subprocess.run(["djpeg", "-rgb", "-pnm", str(path)], check=True, capture_output=True).stdout
    magic, width, height, depth = pnm.split(None, 4)[:4]
    assert (magic, depth) == (b"P6", b"255"), path
    pixels = pnm[-int(height) * int(width) * 3:]
    name = path.relative_to(ROOT / "tests/fixtures/jpeg").as_posix()
    return f"{name} {int(height)} {int(width)} {zlib.crc32(pixels)}\n"


def main():
    files = sorted((ROOT / "tests/fixtures/jpeg").rglob("*.jpg"))
    table = HEADER + "".join(line_of(path) for path in files)
    (ROOT / "tests/augment/testdata/djpeg.txt").write_text(table, encoding="utf-8")


if __name__ == "__main__":
    main()

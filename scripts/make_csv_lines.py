#!/usr/bin/env python3
"""Writes tests/readers/testdata/csv_lines.json: files of CSV whose rows end with LF, CRLF or CR, and
the cells that Python's csv module finds in them, which pandas finds too.

Usage: make_csv_lines.py      needs pandas
"""
import csv
import io
import json
import pathlib
import random

import pandas

FILE = pathlib.Path(__file__).resolve().parent.parent / "tests/readers/testdata/csv_lines.json"
ENDS = ("\n", "\r\n", "\r")
CELLS = ("1", "-2.5", "", "a b", "x,y", 'say "so"', "two\nlines", "two\r\nlines", "two\rlines", "\r",
         "größe")
FILES_OF_A_KIND = 10


def text_of(rows, ends, blanks):
    """The rows with these ends in turn, and blank lines behind every `blanks`-th."""
    text = ""
    for number, row in enumerate(rows):
        end = ends[number % len(ends)]
        out = io.StringIO()
        csv.writer(out, lineterminator="\r\n").writerow(row)
        text += out.getvalue()[:-2] + end + (end if blanks and number % blanks == 0 else "")
    return text


def by_csv(text):
    """The rows that are no blank lines."""
    return [row for row in csv.reader(io.StringIO(text, newline="")) if row]


def by_pandas(text):
    table = pandas.read_csv(io.BytesIO(text.encode()), header=None, dtype=str, keep_default_na=False)
    return table.values.tolist()


def texts():
    """All files."""
    random.seed(22)
    for ends in [(end,) for end in ENDS] + [ENDS]:
        for number in range(FILES_OF_A_KIND):
            # pandas loses an empty cell behind a CR.
            rows = [[str(row), *random.choices(CELLS, k=2)] for row in range(1 + number)]
            text = text_of(rows, ends, blanks=number % 3)
            yield text if number % 2 else text.rstrip("\r\n")  # the last line has no end


def main():
    files = []
    for text in texts():
        rows = by_csv(text)
        assert rows == by_pandas(text), text
        files.append({"text": text, "rows": rows})
    made = f"scripts/make_csv_lines.py, csv of Python and pandas {pandas.__version__}"
    FILE.write_text(json.dumps({"by": made, "files": files}, indent=0, ensure_ascii=False) + "\n",
                    encoding="utf-8", newline="")


if __name__ == "__main__":
    main()

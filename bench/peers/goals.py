#!/usr/bin/env python3
"""The goals of the Python package and the figures that stand against them, in one table.

Run it by bench/peers/run.sh goals. It has the rows of `scripts/bench.sh python`, and those through
PyTorch and beside other loaders (torch_rows.py); bench/rows.md says what each row measures.
"""

import argparse
import json
import sys

from machine import PEERS, ROOT, put_between, today

sys.path.insert(0, str(ROOT / "bench"))
import rows_python  # noqa: E402
import torch_rows  # noqa: E402
from rows import run_rows  # noqa: E402
from table import counts, table  # noqa: E402

ROWS = [*rows_python.ROWS, *torch_rows.ROWS]
BARS = rows_python.BARS | torch_rows.BARS
MARKS = ("<!-- goals: `bench/peers/run.sh goals --publish` writes this -->\n",
         "<!-- end of goals -->\n")


def measure(names, repeats, done):
    return run_rows([bench for bench in ROWS if not names or bench.__name__ in names], BARS,
                    repeats, done)


def main():
    parser = argparse.ArgumentParser(prog="run.sh goals", description=__doc__.splitlines()[0])
    parser.add_argument("--row", action="append", choices=list(BARS),
                        help="only this row; repeatable")
    parser.add_argument("--repeats", type=int, default=9, help="turns per row (default 9)")
    parser.add_argument("--publish", action="store_true",
                        help="write the table into bench/README.md")
    options = parser.parse_args()
    rows = measure(options.row, max(options.repeats, 1),
                   lambda row: print(json.dumps(row), file=sys.stderr, flush=True))
    text = f"{today()}.\n{counts(rows, 'goals')}:\n\n{table(rows, 'goal')}"
    print(text)
    (PEERS / "goals.md").write_text(text, encoding="utf-8")
    (PEERS / "goals.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")
    if options.publish:
        put_between(ROOT / "bench" / "README.md", MARKS, text)


if __name__ == "__main__":
    main()

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
from rows import Skip, judge  # noqa: E402

ROWS = [*rows_python.ROWS, *torch_rows.ROWS]
BARS = rows_python.BARS | torch_rows.BARS
MARKS = ("<!-- goals: `bench/peers/run.sh goals --publish` writes this -->\n",
         "<!-- end of goals -->\n")


def measure(names, repeats, done):
    """The rows in their order; `done` sees each one as it is there."""
    found = []
    for bench in ROWS:
        if names and bench.__name__ not in names:
            continue
        try:
            row = bench(repeats)
            judge(row, BARS)
        except Skip as reason:
            row = {"name": bench.__name__, "bar": BARS[bench.__name__][0], "skipped": str(reason)}
        found.append(row)
        done(row)
    return found


def number(value):
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def line(row):
    if "skipped" in row:
        why = row["skipped"].replace("|", "\\|")
        return f"| `{row['name']}` | skipped: {why} | | | | {row['bar']}: not measured |"
    verdict = {True: "met", False: "**missed**", None: "not told here"}[row.get("met")]
    value = f"{number(row['value'])} {row['unit']}"
    if "note" in row:
        value += f"; {row['note']}".replace("|", "\\|")
    return (f"| `{row['name']}` | {value} | {number(row['limit'])} | {row['ratio']:.3f} "
            f"| {row['value_spread']:.0%}, {row['limit_spread']:.0%} of {row['repeats']} "
            f"| {row['bar']}: {verdict} |")


def table(rows):
    head = ["| row | value | limit | ratio | spread | goal |", "|" + 6 * " --- |"]
    return "\n".join([*head, *map(line, rows)]) + "\n"


def counts(rows):
    """How many goals are met, missed, and neither."""
    met = [row.get("met") for row in rows]
    return (f"{met.count(True)} of {len(met)} goals met, {met.count(False)} missed, "
            f"{met.count(None)} not told")


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
    text = f"{today()}.\n{counts(rows)}:\n\n{table(rows)}"
    print(text)
    (PEERS / "goals.md").write_text(text, encoding="utf-8")
    (PEERS / "goals.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")
    if options.publish:
        put_between(ROOT / "bench" / "README.md", MARKS, text)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Prints one row per piece of work: name, value, unit, limit measured in the same run, ratio.

Value and limit take turns, so that a slow minute of the machine hits both. bench/README.md says
what each row measures; bench/rows_AREA.py has them.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import types

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "bench"))
import rows_augment  # noqa: E402
import rows_collectives  # noqa: E402
import rows_optimizer  # noqa: E402
import rows_pipeline  # noqa: E402
import rows_python  # noqa: E402
import rows_readers  # noqa: E402
import rows_scaling  # noqa: E402
import rows_trainer  # noqa: E402
from rows import ROOT, Skip, judge  # noqa: E402


def joined(*parts):
    """The rows of several modules as one area."""
    return types.SimpleNamespace(TARGETS=[name for part in parts for name in part.TARGETS],
                                 ROWS=[row for part in parts for row in part.ROWS],
                                 BARS={name: bar for part in parts
                                       for name, bar in part.BARS.items()})


AREAS = {"augment": rows_augment, "collectives": rows_collectives, "pipeline": rows_pipeline,
         "python": rows_python, "readers": rows_readers,
         "trainer": joined(rows_trainer, rows_optimizer, rows_scaling)}


def build(targets):
    if not (ROOT / "build" / "release" / "build.ninja").exists():
        subprocess.run(["cmake", "--preset", "release"], cwd=ROOT, check=True, stdout=sys.stderr)
    subprocess.run(["ninja", "-C", "build/release", *targets], cwd=ROOT, check=True,
                   stdout=sys.stderr)


def verdict(row):
    if "bar" not in row:
        return ""
    word = {True: "met", False: "MISSED", None: "not told here"}[row.get("met")]
    return f"  {word}: {row['bar']}"


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
          f"{verdict(row)}"
          f"{'  (' + row['note'] + ')' if 'note' in row else ''}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("area", choices=sorted(AREAS))
    parser.add_argument("--json", action="store_true", help="one JSON object per row")
    parser.add_argument("--row", action="append", help="only this row; repeatable")
    parser.add_argument("--repeats", type=int, default=9, help="turns per row, at least 1")
    options = parser.parse_args()
    area = AREAS[options.area]
    build(area.TARGETS)
    for bench in area.ROWS:
        if options.row and bench.__name__ not in options.row:
            continue
        try:
            row = bench(max(options.repeats, 1))
        except Skip as reason:
            row = {"name": bench.__name__, "skipped": str(reason)}
        if row["name"] in area.BARS and "skipped" not in row:
            judge(row, area.BARS)
        if options.json:
            print(json.dumps(row), flush=True)
        else:
            show(row)


if __name__ == "__main__":
    main()

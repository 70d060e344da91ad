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
BENCH = pathlib.Path(__file__).resolve().parent.parent / "bench"
sys.path[:0] = [str(BENCH), str(BENCH / "peers")]
import rows_augment  # noqa: E402
import rows_collectives  # noqa: E402
import rows_optimizer  # noqa: E402
import rows_pipeline  # noqa: E402
import rows_profile  # noqa: E402
import rows_python  # noqa: E402
import rows_readers  # noqa: E402
import rows_scaling  # noqa: E402
import rows_trainer  # noqa: E402
import rows_tune  # noqa: E402
import rows_verdict  # noqa: E402
from machine import put_between, today  # noqa: E402
from rows import ROOT, run_rows  # noqa: E402
from table import count_told, merged, told  # noqa: E402

README = BENCH / "README.md"
REPEATS = 9
PUBLISHED = {"profile": REPEATS, "trainer": 5, "verdict": 5}  # areas whose table the README has, and the turns of their rows


def joined(*parts):
    """The rows of several modules as one area."""
    return types.SimpleNamespace(TARGETS=[name for part in parts for name in part.TARGETS],
                                 ROWS=[row for part in parts for row in part.ROWS],
                                 BARS={name: bar for part in parts
                                       for name, bar in part.BARS.items()})


AREAS = {"augment": rows_augment, "collectives": rows_collectives,
         "pipeline": joined(rows_pipeline, rows_tune), "profile": rows_profile,
         "python": rows_python, "readers": rows_readers,
         "trainer": joined(rows_trainer, rows_optimizer, rows_scaling), "verdict": rows_verdict}


def marks(area):
    """The lines of the README between which the area's table is."""
    return (f"<!-- {area}: `scripts/bench.sh {area} --publish` writes this -->\n",
            f"<!-- end of {area} -->\n")


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
        print(f"{row['name']:25} skipped: {row['skipped']}", flush=True)
        return
    def figure(value):
        return f"{value:14,.0f}" if value >= 1000 else f"{value:14,.3f}"

    print(f"{row['name']:25} {figure(row['value'])} {row['unit']:10} limit {figure(row['limit'])}"
          f"  ratio {row['ratio']:.3f}"
          f"  spread {row['value_spread']:.1%} / {row['limit_spread']:.1%}"
          f"  of {row['repeats']}"
          f"{verdict(row)}"
          f"{'  (' + row['note'] + ')' if 'note' in row else ''}", flush=True)


def publish(area, rows, document=README):
    """Writes the area's table. Rows of it that were not measured now stay, if they were measured on
    the same day and machine."""
    begin, end = marks(area)
    former = document.read_text().partition(begin)[2].partition(end)[0]
    order = [bench.__name__ for bench in AREAS[area].ROWS]
    text = merged(former if former.startswith(f"{today()}.") else "", rows, order, "bar")
    put_between(document, (begin, end),
                f"{today()}.\n{count_told(told(text), 'bars')}:\n\n{text}")


def parse(words):
    parser = argparse.ArgumentParser(prog="bench.sh", description=__doc__.splitlines()[0])
    parser.add_argument("area", choices=sorted(AREAS))
    parser.add_argument("--json", action="store_true", help="one JSON object per row")
    parser.add_argument("--row", action="append", help="only this row; repeatable")
    parser.add_argument("--repeats", type=int,
                        help=f"turns per row, at least 1 (default {REPEATS}, of trainer "
                        f"{PUBLISHED['trainer']})")
    parser.add_argument("--publish", action="store_true",
                        help=f"write the rows into the table of bench/README.md "
                        f"({', '.join(PUBLISHED)}); others of the same day and machine stay")
    options = parser.parse_args(words)
    names = [bench.__name__ for bench in AREAS[options.area].ROWS]
    for name in options.row or []:
        if name not in names:
            parser.error(f"{options.area} has no row '{name}', but {', '.join(names)}")
    if options.publish and options.area not in PUBLISHED:
        parser.error(f"--publish goes with {' or '.join(PUBLISHED)}")
    if options.repeats is None:
        options.repeats = PUBLISHED.get(options.area, REPEATS)
    return options


def main():
    options = parse(sys.argv[1:])
    area = AREAS[options.area]
    build(area.TARGETS)
    benches = [bench for bench in area.ROWS
               if not options.row or bench.__name__ in options.row]
    print_row = (lambda row: print(json.dumps(row), flush=True)) if options.json else show
    rows = run_rows(benches, area.BARS, max(options.repeats, 1), print_row)
    if options.publish:
        publish(options.area, rows)


if __name__ == "__main__":
    main()

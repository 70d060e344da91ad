#!/usr/bin/env python3
"""Tests of the rows of scripts/bench.py; nothing is measured."""
import os
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "scripts")]
import bench  # noqa: E402
import rows  # noqa: E402
import rows_augment  # noqa: E402
import rows_collectives  # noqa: E402
import rows_data  # noqa: E402
import rows_python  # noqa: E402

AREAS = bench.AREAS.values()


class BenchRowsTest(unittest.TestCase):
    def test_every_bar_is_of_a_row_that_the_readme_describes(self):
        readme = (ROOT / "bench/README.md").read_text()
        for area, of_area in bench.AREAS.items():
            names = [row.__name__ for row in of_area.ROWS]
            self.assertLessEqual(set(of_area.BARS), set(names))
            for name in names if area not in bench.PUBLISHED else []:
                self.assertIn(f"| `{name}` |", readme)

    def test_every_row_is_described(self):
        described = (ROOT / "bench/rows.md").read_text()
        for area in AREAS:
            for row in area.ROWS:
                self.assertIn(f"`{row.__name__}`**", described)

    def test_what_a_failed_check_says_is_its_tests(self):
        said = "...\nFAIL: test_a (m.T.test_a)\n----\nERROR: test_b (m.T.test_b)\n\nFAILED (errors=1)\n"
        self.assertEqual(rows_python.failure_of(said),
                         "FAIL: test_a (m.T.test_a); ERROR: test_b (m.T.test_b)")
        self.assertEqual(rows_python.failure_of("one\nno wheel\n"), "no wheel")
        self.assertEqual(rows_python.failure_of(""), "it failed")

    def test_every_target_is_built(self):
        built = (ROOT / "bench/CMakeLists.txt").read_text()
        for area in AREAS:
            for target in area.TARGETS:
                name = target.removeprefix("bench_")
                self.assertTrue(target in ("millrace", "millrace_python") or
                                f"millrace_bench({name} " in built, target)

    def test_a_folder_is_made_once_and_only_whole(self):
        def fail(part):
            (part / "half").touch()
            raise OSError("disk full")

        with tempfile.TemporaryDirectory() as data:
            folder = pathlib.Path(data) / "deep" / "made"
            with self.assertRaises(OSError):
                rows_data.made_once(folder, fail)
            self.assertFalse(folder.exists())
            fill = mock.Mock(side_effect=lambda part: (part / "all").touch())
            for _ in range(2):
                self.assertEqual(folder, rows_data.made_once(folder, fill))
            fill.assert_called_once()
            self.assertEqual(["all"], [path.name for path in folder.iterdir()])

    def test_published_rows_take_the_place_of_those_of_the_same_day(self):
        def row(name, value, met):
            return {"name": name, "value": value, "unit": "us", "limit": 1, "ratio": value,
                    "value_spread": 0, "limit_spread": 0, "repeats": 1, "bar": "ratio <= 2",
                    "met": met}

        of_area = bench.AREAS["trainer"].ROWS
        first, last = of_area[0].__name__, of_area[-1].__name__
        begin, end = bench.marks("trainer")
        with tempfile.TemporaryDirectory() as folder:
            document = pathlib.Path(folder) / "README.md"
            document.write_text(f"before\n{begin}Not measured yet.\n{end}behind\n")
            with mock.patch.object(bench, "today", return_value="Monday"):
                bench.publish("trainer", [row(last, 3, False)], document)
                bench.publish("trainer", [row(first, 1, True)], document)
                bench.publish("trainer", [row(last, 2, True)], document)
            text = document.read_text()
            self.assertIn("Monday.\n2 of 2 bars met, 0 missed, 0 not told:\n", text)
            self.assertLess(text.index(f"| `{first}` | 1 us"), text.index(f"| `{last}` | 2 us"))
            self.assertNotIn("3 us", text)
            with mock.patch.object(bench, "today", return_value="Tuesday"):
                bench.publish("trainer", [row(last, 3, False)], document)
            text = document.read_text()
            self.assertIn("Tuesday.\n0 of 1 bars met, 1 missed, 0 not told:\n", text)
            self.assertNotIn(first, text)
            self.assertTrue(text.startswith("before\n") and text.endswith("behind\n"))

    def test_a_scaling_is_compared_within_its_turn(self):
        # In the second turn, which runs in reverse, the machine scales worse for all.
        order = []

        def rate(name, share):
            def run(threads):
                order.append((name, threads))
                scales = 2 if len(order) <= 4 else 1.2
                return 100 if threads == 1 else 100 * share * scales
            return run

        row = rows.measure_scaling("row", rate("value", 0.9), rate("limit", 1), 2)
        self.assertEqual(order[:4], [("value", 1), ("limit", 1), ("value", 2), ("limit", 2)])
        self.assertEqual(order[4:], order[3::-1])
        self.assertAlmostEqual(row["ratio"], 0.9)
        self.assertAlmostEqual(row["ratio_spread"], 0)
        self.assertGreater(row["value_spread"], 0.2)

    def test_a_paired_ratio_is_that_of_the_turns_and_every_other_turn_runs_in_reverse(self):
        order, values, limits = [], iter([1, 40, 3]), iter([2, 10, 4])

        def next_of(name, figures):
            return lambda: (order.append(name), next(figures))[1]

        row = rows.measure_paired("row", "us", next_of("value", values), next_of("limit", limits), 3)
        self.assertEqual(order, ["value", "limit", "limit", "value", "value", "limit"])
        self.assertEqual((row["value"], row["limit"], row["ratio"]), (3, 4, 0.75))

    def test_the_ratio_of_a_row_is_that_of_the_medians(self):
        values, limits = iter([1, 5, 3]), iter([2, 2, 8])
        row = rows.measure("row", "us", lambda: next(values), lambda: next(limits), 3)
        self.assertEqual((row["value"], row["limit"], row["ratio"]), (3, 2, 1.5))
        self.assertEqual((row["value_spread"], row["limit_spread"]), (4 / 3, 3))

    def test_every_row_of_the_collectives_is_of_fifteen_turns_at_least(self):
        class Ones(dict):
            def __missing__(self, name):
                return 1.0

        figures = Ones(messages=1.0, mpi=1.0, mpi_huge=1.0)
        with mock.patch.multiple(rows_collectives, ranks=lambda *args: figures,
                                 run_json=lambda command: figures, need_cores=lambda count: None):
            for row in rows_collectives.ROWS:
                self.assertGreaterEqual(row(9)["repeats"], 15, row.__name__)
                self.assertGreaterEqual(row(20)["repeats"], 20, row.__name__)

    def test_a_bar_of_instructions_that_the_machine_lacks_is_neither_met_nor_missed(self):
        def met(**levels):
            row = {"name": "resize_normalize", "levels": levels}
            rows.judge(row, rows_augment.BARS)
            return row.get("met")

        self.assertIsNone(met(SSE4=90, scalar=900))
        self.assertTrue(met(AVX2=60, SSE4=90))
        self.assertFalse(met(AVX3=41, AVX2=50))

    def test_a_pace_at_which_not_one_step_was_counted_is_too_fast(self):
        cores = len(os.sched_getaffinity(0))
        most = 2 * rows_augment.H100 * cores

        def run_json(command):
            pace = float(command[command.index("--pace") + 1])
            return {"au": 0.95 if pace < most else None}

        with mock.patch.multiple(rows_augment, run_json=run_json, imagenet_tar=lambda: "",
                                 imagenet_shards=lambda tar: ""):
            row = rows_augment.h100_per_core(1)
        self.assertLessEqual(row["value"] * cores, most)


if __name__ == "__main__":
    unittest.main()

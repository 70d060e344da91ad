#!/usr/bin/env python3
"""Tests of the rows of bench/rows_scaling.py; nothing is measured."""
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
import rows_jobs  # noqa: E402
import rows_scaling  # noqa: E402
from rows_testutil import step, with_programs  # noqa: E402


def programs_of(answer):
    """The rows with these programs, data and cores."""
    jobs = {name: (lambda: "data", batch, steps)
            for name, (_, batch, steps) in rows_scaling.JOBS.items()}
    stack, programs = with_programs(answer, (rows_scaling, rows_jobs), JOBS=jobs,
                                    usable_cores=range)
    rows_scaling.rates.cache_clear()
    stack.callback(rows_scaling.rates.cache_clear)
    return stack, programs


class ScalingTest(unittest.TestCase):
    def test_weak_and_strong_are_of_the_same_turns_and_each_rank_has_its_core(self):
        def answer(words):
            replicas = int(words[5])
            batch = int(next(w for w in words if w.startswith("BATCH=")).removeprefix("BATCH="))
            self.assertEqual(["taskset", "-c", "0" if replicas == 1 else "0,1"], words[:3])
            return step({(1, 8): 100, (2, 16): 105, (2, 8): 60}[replicas, batch])

        stack, programs = programs_of(answer)
        with stack:
            weak = rows_scaling.weak_scaling_2_hep_cnn(2)
            strong = rows_scaling.strong_scaling_2_hep_cnn(2)
        self.assertEqual(6, len(programs.commands))
        self.assertEqual(programs.commands[:3], programs.commands[:2:-1])
        self.assertAlmostEqual(1 / 1.05, weak["ratio"])
        self.assertAlmostEqual(100 / 120, strong["ratio"])
        self.assertIn("efficiency 83.3%: one rank 80.0 images/s, two 133.3", strong["note"])

    def test_every_job_has_both_rows_and_its_file(self):
        names = [row.__name__ for row in rows_scaling.ROWS]
        for job in rows_scaling.JOBS:
            self.assertTrue((ROOT / "bench" / "jobs" / f"{job}.pbtxt").exists(), job)
        self.assertEqual([f"{kind}_scaling_2_{job}" for job in rows_scaling.JOBS
                          for kind in ("weak", "strong")], names)
        stack, _ = programs_of(lambda words: step(10))
        with stack:
            self.assertEqual(names, [row(1)["name"] for row in rows_scaling.ROWS])


if __name__ == "__main__":
    unittest.main()

"""`millrace tune`: the file that it writes is the user's, and gives the same batches."""

import json
import os
import pathlib
import tempfile
import unittest

from cli_testutil import millrace, run_json

PLAN = """# My plan.
seed: 7
stage { range { count: ${COUNT:-5000} } }  # numbers
stage { global_shuffle {} }
stage { batch { size: 50 } }
stage { repeat {} }
performance {
  threads: ${THREADS:-1}  # mine
}
"""
FAST = ("--seconds", "2", "--turn", "0.01")


class TuneTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.plan = self.folder / "plan.pbtxt"
        self.plan.write_text(PLAN)

    def digest(self, plan):
        return run_json(plan, "--batches", "30", "--digest")["digest"]

    def tune(self, *args, code=0):
        done = millrace("tune", *args)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def test_the_file_that_is_written_is_the_plan_with_other_performance(self):
        out = self.folder / "better.pbtxt"
        report = json.loads(self.tune(self.plan, *FAST, "-o", out, "--json").stdout)
        self.assertEqual(report["out"], str(out))
        self.assertGreater(report["before"]["samples_per_second"], 0)
        self.assertEqual(set(report["diagnosed"][0]), {"binding", "first", "sentence"})
        self.assertEqual(self.digest(out), self.digest(self.plan))
        text = out.read_text()
        self.assertTrue(text.startswith(PLAN[:PLAN.index("performance")]), text)
        for field, value in report["changes"].items():
            name = "batches" if field == "prefetch" else field
            line = next(line for line in text.splitlines() if name + ": " in line)
            self.assertIn(str(value), line)
            self.assertIn("was ", line)
        self.assertEqual(self.plan.read_text(), PLAN)

    def test_a_thread_limit_is_obeyed_and_written_down(self):
        self.plan.write_text(PLAN.replace(":-1}", ":-3}"))
        out = self.folder / "better.pbtxt"
        self.tune(self.plan, *FAST, "--max-threads", "1", "-o", out)
        self.assertIn("threads: ${THREADS:-1}  # mine; was 3: over the limit of the search",
                      out.read_text())

    def test_without_a_file_to_write_the_changes_are_printed(self):
        done = self.tune(self.plan, *FAST, "--max-threads", "1")
        self.assertRegex(done.stdout, "bound by|too little was delivered")
        self.assertIn("changes tried in", done.stdout)
        self.assertNotIn("wrote", done.stdout)
        self.assertEqual([path.name for path in self.folder.iterdir()], ["plan.pbtxt"])

    def test_a_variable_that_is_given_is_named(self):
        done = self.tune(self.plan, *FAST, "--var", "THREADS=3", "--max-threads", "1")
        self.assertIn("--var THREADS=1", done.stdout)

    def test_a_file_that_is_there_is_kept(self):
        out = self.folder / "there.pbtxt"
        out.write_text("mine")
        done = self.tune(self.plan, *FAST, "-o", out, code=1)
        self.assertIn("exists; --overwrite replaces it", done.stderr)
        self.assertEqual(out.read_text(), "mine")
        done = self.tune(self.plan, *FAST, "-o", self.folder / "none" / "p.pbtxt", code=1)
        self.assertIn("none", done.stderr)
        self.tune(self.plan, *FAST, "-o", out, "--overwrite")
        self.assertIn("# My plan.", out.read_text())

    def test_relative_names_stay_with_their_folder(self):
        (self.folder / "lines.txt").write_text("".join(f"{i}\n" for i in range(500)))
        self.plan.write_text('stage { text { files: "lines.txt" } }\n'
                             'stage { parse_csv { feature { key: "x" dtype: INT64 } } }\n'
                             "stage { batch { size: 10 } }\n")
        other = self.folder / "other"
        other.mkdir()
        done = self.tune(self.plan, *FAST, "-o", other / "p.pbtxt", code=1)
        self.assertIn("names of files in the plan are relative to its folder", done.stderr)
        self.assertEqual(os.listdir(other), [])
        self.tune(self.plan, *FAST, "-o", self.folder / "p.pbtxt")
        self.assertEqual(self.digest(self.folder / "p.pbtxt"), self.digest(self.plan))

    def test_flags_come_before_the_plan(self):
        self.plan.write_text(PLAN.replace("threads: ${THREADS:-1}  # mine",
                                          "threads: 2 memory_budget_mib: 1 io_threads: 1"))
        digest = self.digest(self.plan)
        flags = ("--threads", "1", "--memory-budget-mib", "64", "--io-threads", "3")
        self.assertEqual(run_json(self.plan, "--batches", "30", "--digest", *flags)["digest"],
                         digest)
        explained = millrace("explain", self.plan, "--memory-budget-mib", "64")
        self.assertIn("performance  threads: 2 memory_budget_mib: 1 io_threads: 1",
                      explained.stdout)

    def test_a_job_is_refused_by_name(self):
        job = self.folder / "job.pbtxt"
        job.write_text('model: "m"\ntrain: "plan.pbtxt"\n')
        done = self.tune(job, code=2)
        self.assertIn("give the plan that the job names", done.stderr)


if __name__ == "__main__":
    unittest.main()

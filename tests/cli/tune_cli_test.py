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

    def test_a_model_and_a_plan_of_a_job_that_is_none_are_refused(self):
        model = self.folder / "model.pbtxt"
        model.write_text(MODEL)
        self.assertIn("this is a model", self.tune(model, code=1).stderr)
        done = self.tune(self.plan, "-o", "x.pbtxt", "--plan-out", "y.pbtxt", code=2)
        self.assertIn("--plan-out goes with a job", done.stderr)


MODEL = """
layer { input_layer { shape: 4 } }
layer { fully_connected { outputs: 3 } }
layer { softmax_cross_entropy {} }
"""
TRAIN = """# My data.
stage { text { files: "${ROWS:-rows.jsonl}" } }
stage { parse_json {
  feature { key: "image" dtype: FLOAT32 shape: 4 }
  feature { key: "label" dtype: INT64 } } }
stage { batch { size: 8 } }
stage { repeat {} }
"""
JOB = """# My job.
model: "model.pbtxt"  # tiny
train: "train.pbtxt"
epochs: 2
optimizer { base_lr: 0.01 }
checkpoint { folder: "checkpoints" }
pipeline_threads: ${THREADS:-2}  # mine
"""


class TuneJobTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        rows = "".join(f'{{"image": [{i % 7}, {i % 5}, {i % 3}, 1], "label": {i % 3}}}\n'
                       for i in range(400))
        for name, text in (("rows.jsonl", rows), ("model.pbtxt", MODEL), ("train.pbtxt", TRAIN),
                           ("job.pbtxt", JOB)):
            (self.folder / name).write_text(text)
        self.job = self.folder / "job.pbtxt"
        self.plan = self.folder / "train.pbtxt"

    def files(self):
        return sorted(path.name for path in self.folder.iterdir())

    def tune(self, *args, code=0):
        done = millrace("tune", self.job, *FAST, *args)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def test_without_a_file_to_write_nothing_is_left(self):
        files = self.files()
        done = self.tune()
        self.assertRegex(done.stdout, r"pipeline_threads: 2, usable cores: \d+")
        self.assertIn("compute threads stay", done.stdout)
        self.assertNotIn("wrote", done.stdout)
        self.assertEqual(self.files(), files)

    def test_the_job_that_is_written_has_other_performance_alone(self):
        out = self.folder / "better.pbtxt"
        report = json.loads(self.tune("--max-threads", "1", "-o", out, "--json").stdout)
        self.assertEqual(report["changes"]["pipeline_threads"], 1)
        self.assertNotIn("train", report["changes"])
        self.assertEqual(report["out"], str(out))
        self.assertEqual(report["plan"], {"file": str(self.plan), "changes": {}})
        self.assertGreaterEqual(report["compute_threads"], 1)
        for tried in report["tried"]:
            for change in tried["changes"]:
                self.assertIn(change["setting"], ("pipeline_threads", "memory_budget_mib"))
        expected = JOB.replace("${THREADS:-2}  # mine",
                               "${THREADS:-1}  # mine; was 2: over the limit of the search")
        self.assertTrue(out.read_text().startswith(expected), out.read_text())
        self.assertEqual((self.job.read_text(), self.plan.read_text()), (JOB, TRAIN))
        trained = millrace("train", out)
        self.assertEqual(trained.returncode, 0, trained.stderr)
        # Weights do not depend on it: the job that was given goes on.
        resumed = millrace("train", self.job, "--resume")
        self.assertEqual(resumed.returncode, 0, resumed.stderr)

    def test_the_plan_is_tuned_too_where_its_file_is_named(self):
        out, plan_out = self.folder / "better.pbtxt", self.folder / "better_train.pbtxt"
        done = self.tune("-o", out, "--plan-out", plan_out)
        self.assertIn(f"wrote {out}\nwrote {plan_out}\n", done.stdout)
        self.assertIn('train: "better_train.pbtxt"  # was train.pbtxt', out.read_text())
        trained = millrace("train", out)
        self.assertEqual(trained.returncode, 0, trained.stderr)
        self.assertTrue(plan_out.read_text().startswith(TRAIN), plan_out.read_text())
        digests = [run_json(plan, "--batches", "20", "--digest")["digest"]
                   for plan in (self.plan, plan_out)]
        self.assertEqual(digests[0], digests[1])
        self.assertIn("better.pbtxt: exists", self.tune("-o", out, code=1).stderr)
        done = self.tune("-o", self.folder / "other.pbtxt", "--plan-out", plan_out, code=1)
        self.assertIn("better_train.pbtxt: exists", done.stderr)

    def test_a_name_of_the_plan_with_a_variable_is_not_replaced(self):
        self.job.write_text(JOB.replace('"train.pbtxt"', '"${PLAN:-train}.pbtxt"'))
        done = self.tune("-o", self.folder / "better.pbtxt", "--plan-out",
                         self.folder / "better_train.pbtxt", code=1)
        self.assertIn("train: a variable is a part of the text", done.stderr)
        self.tune("-o", self.folder / "better.pbtxt", "--plan-out", self.plan, "--overwrite")

    def test_variables_go_to_the_files_that_name_them(self):
        done = self.tune("--var", "THREADS=3", "--var", f"ROWS={self.folder}/rows.jsonl",
                         "--max-threads", "1")
        self.assertIn("--var THREADS=1", done.stdout)
        self.assertIn("NONE", self.tune("--var", "NONE=1", code=1).stderr)

    def test_a_job_stays_in_its_folder(self):
        other = self.folder / "other"
        other.mkdir()
        done = self.tune("-o", other / "job.pbtxt", code=1)
        self.assertIn("names of files in the job are relative to its folder", done.stderr)
        self.assertEqual(os.listdir(other), [])


if __name__ == "__main__":
    unittest.main()

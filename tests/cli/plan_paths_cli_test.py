"""Relative names of files in plans and in `--var`: from where they are looked for."""

import pathlib
import subprocess
import tempfile
import unittest

from cli_testutil import BIN, TIMEOUT, millrace, write_tfrecord
from example_testutil import example

STAGES = """
    stage { parse_example { feature { key: "x" dtype: INT64 } } }
    stage { batch { size: 2 } }
"""


class PlanPathsTest(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.scratch.name).resolve()
        for name, count in (("plans[1]{a}/data", 2), ("work/data", 4)):
            (self.folder / name).mkdir(parents=True)
            write_tfrecord(self.folder / name / "x.tfrecord",
                           [example({"x": [row]}) for row in range(count)])

    def tearDown(self):
        self.scratch.cleanup()

    def run_in_work(self, files, *args, code=0, folder="plans[1]{a}"):
        """Runs a plan in another folder than the current one."""
        plan = self.folder / folder / "p.pbtxt"
        plan.parent.mkdir(exist_ok=True)
        plan.write_text(f'stage {{ tfrecord {{ files: "{files}" }} }}' + STAGES)
        done = millrace("run", f"../{folder}/p.pbtxt", *args, cwd=self.folder / "work")
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout if code == 0 else done.stderr

    def test_names_in_a_plan_are_relative_to_it_and_those_of_variables_are_not(self):
        # S-PLAN-17.
        for files in ("data/*.tfrecord", "data/x.tfrecord", "data/{x,x}.tfrecord"):
            self.assertIn("2 samples", self.run_in_work(files), files)
        self.assertIn("4 samples", self.run_in_work("${D}/x*", "--var", "D=data"))
        self.assertIn("2 samples", self.run_in_work("${D:-data}/x*"))

    def test_a_name_that_is_missing_says_where_it_was_looked_for(self):
        where = f"; the current folder is {self.folder}/work"
        error = self.run_in_work("none/*.tfrecord", code=1, folder="plain")
        self.assertIn("there is no folder ../plain/none", error)
        self.assertIn(where, error)
        error = self.run_in_work("${D}/*.tfrecord", "--var", "D=none", code=1)
        self.assertIn("there is no folder none", error)
        self.assertIn(where, error)
        self.assertNotIn("current folder", self.run_in_work("/none/*.tfrecord", code=1))

    def test_a_plan_from_a_pipe_has_no_folder(self):
        # S-PLAN-17.
        plan = 'stage { tfrecord { files: "data/x*" } }' + STAGES
        done = subprocess.run([BIN, "run", "/dev/stdin"], input=plan, capture_output=True,
                              text=True, timeout=TIMEOUT, cwd=self.folder / "work")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("4 samples", done.stdout)


if __name__ == "__main__":
    unittest.main()

"""The examples that need NumPy alone."""
import os
import pathlib
import subprocess
import sys
import unittest

import data

EXAMPLES = os.path.join(os.environ["MILLRACE_SOURCE_DIR"], "examples", "python")


class Examples(unittest.TestCase):
    def run_example(self, name):
        done = subprocess.run([sys.executable, os.path.join(EXAMPLES, name), data.pictures(128)],
                              capture_output=True, text=True, timeout=100, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_custom_op(self):
        self.assertIn("(32, 224, 224, 3) uint8", self.run_example("custom_op.py"))

    def test_resume(self):
        self.assertIn("the other 2 batches are those", self.run_example("resume.py"))

    def test_each_of_all_is_under_60_lines(self):
        lines = {path.name: len(path.read_text(encoding="utf-8").splitlines())
                 for path in pathlib.Path(EXAMPLES).glob("*.py")}
        self.assertIn("ddp_hook.py", lines)
        self.assertEqual({name for name, count in lines.items() if count >= 60}, set())


if __name__ == "__main__":
    unittest.main()

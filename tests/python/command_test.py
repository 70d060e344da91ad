"""The command of the package, `python -m millrace`, beside the program `millrace`."""
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

import data

PROGRAM = os.environ.get("MILLRACE_PROGRAM")
ENDLESS = "stage { range { count: 1000 } } stage { batch { size: 10 } } stage { repeat {} }\n"


def run(*arguments, **options):
    return subprocess.run([sys.executable, "-m", "millrace", *arguments], capture_output=True,
                          timeout=100, **options)


class CommandTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.plan = cls.folder / "plan.pbtxt"
        cls.plan.write_text(ENDLESS, encoding="utf-8")
        cls.texts = cls.folder / "a.txt"
        cls.texts.write_text("one\ntwo\nthree\n", encoding="utf-8")

    def check_same(self, *arguments, code=0):
        """The command does what the program does."""
        if not PROGRAM:
            self.skipTest("the program is not built")
        wanted = subprocess.run([PROGRAM, *arguments], capture_output=True, timeout=100)
        got = run(*arguments)
        self.assertEqual((got.returncode, got.stdout, got.stderr),
                         (wanted.returncode, wanted.stdout, wanted.stderr))
        self.assertEqual(got.returncode, code)
        return got

    def test_explain_prints_what_the_program_prints(self):
        self.assertIn(b"range", self.check_same("explain", str(self.plan)).stdout)

    def test_errors_and_exit_codes_are_those_of_the_program(self):
        self.assertIn(b"no-such.pbtxt", self.check_same("run", "no-such.pbtxt", code=1).stderr)
        self.check_same("run", str(self.plan), "--batches", "none", code=2)
        self.check_same("explain", os.fsdecode(b"no-\xff.pbtxt"), code=1)

    def test_records_are_converted_and_printed(self):
        out = self.folder / "out"
        made = run("records", "convert", "--from", "text", "--out", str(out), "--prefix", "t",
                   str(self.texts))
        self.assertEqual(made.returncode, 0, made.stderr)
        shards = sorted(map(str, out.glob("t-*.tfrecord")))
        self.assertTrue(shards)
        printed = self.check_same("records", "inspect", *shards)
        self.assertIn(b"3", printed.stdout)

    def test_batches_are_made_and_their_digest_is_the_programs(self):
        line = ["run", str(self.plan), "--batches", "25", "--digest"]
        if not PROGRAM:
            self.skipTest("the program is not built")
        wanted = subprocess.run([PROGRAM, *line], capture_output=True, timeout=100).stdout
        digest = [text for text in wanted.splitlines() if text.startswith(b"digest")]
        self.assertEqual(len(digest), 1, wanted)
        self.assertIn(digest[0], run(*line).stdout.splitlines())

    def test_jobs_are_not_started(self):
        got = run("train", "job.pbtxt")
        self.assertEqual(got.returncode, 2)
        version = run("--version")
        self.assertEqual(version.returncode, 0)
        self.assertTrue(version.stdout.startswith(b"millrace "), version.stdout)
        self.assertNotIn(b"communicators", version.stdout)

    def test_output_that_cannot_be_written_is_an_error(self):
        with open("/dev/full", "wb") as full:
            got = subprocess.run([sys.executable, "-m", "millrace", "explain", str(self.plan)],
                                 stdout=full, stderr=subprocess.PIPE, timeout=100)
        self.assertEqual(got.returncode, 1)
        self.assertIn(b"cannot write to standard output", got.stderr)

    def test_ctrl_c_ends_it(self):
        running = subprocess.Popen(
            [sys.executable, "-m", "millrace", "run", str(self.plan), "--seconds", "90",
             "--digest"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        with running:
            data.await_threads(running.pid)
            running.send_signal(signal.SIGINT)
            running.communicate(timeout=60)
        self.assertEqual(running.returncode, -signal.SIGINT)


if __name__ == "__main__":
    unittest.main()

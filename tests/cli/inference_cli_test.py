"""`millrace eval` and `millrace predict` of a model that `millrace train` has trained."""

import csv
import fcntl
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import termios
import unittest

from cli_testutil import BIN, SOURCE, convert_slice, millrace, mpirun
from train_cli_test import EXAMPLES, JOB

sys.path.insert(0, str(SOURCE / "tests"))
from free_port import free_port  # noqa: E402

SAMPLES = 203  # a split that nothing divides


class InferenceTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = pathlib.Path(scratch.name)
        convert_slice(cls.folder, "train", 640, 2)
        convert_slice(cls.folder, "t10k", SAMPLES, 2)
        cls.job = cls.folder / "job.pbtxt"
        cls.checkpoints = cls.folder / "checkpoints"
        cls.job.write_text(JOB.format(examples=EXAMPLES, checkpoints=cls.checkpoints, every=5,
                                      epochs=1))
        cls.trained = cls.call("train").stdout

    @classmethod
    def call(cls, command, *more, prefix=(), code=0, job=None):
        done = millrace(command, job or cls.job, "--var", f"DATA={cls.folder}", "--var",
                        "BATCH=64", *more, prefix=prefix)
        assert done.returncode == code, done.stderr + done.stdout
        return done

    def test_eval_prints_what_train_printed(self):
        printed = re.search(r"test accuracy .*", self.trained)[0]
        lines = self.call("eval").stdout.splitlines()
        self.assertEqual(lines[1], printed)
        self.assertIn("checkpoint-00000010.safetensors, step 10", lines[0])
        report = json.loads(self.call("eval", "--json", "--checkpoint", self.checkpoints).stdout)
        self.assertEqual(report["samples"], SAMPLES)
        self.assertEqual(f"{report['accuracy']:.4f}", re.search(r"[\d.]+", printed)[0])
        self.assertEqual(report["step"], 10)
        self.assertNotIn("auc", report)

    def check_ranks(self, outputs):
        """One rank prints, and every sample counts once."""
        alone = json.loads(self.call("eval", "--json").stdout)
        together = json.loads("".join(outputs))
        self.assertAlmostEqual(together.pop("loss"), alone.pop("loss"), places=5)
        self.assertEqual(together, alone)

    def test_ranks_of_mpi_evaluate_every_sample_once(self):
        self.check_ranks([self.call("eval", "--json", prefix=mpirun(2)).stdout])

    def test_ranks_without_a_launcher_evaluate_every_sample_once(self):
        port = free_port()
        ranks = [subprocess.Popen([BIN, "eval", self.job, "--json", "--var", f"DATA={self.folder}",
                                   "--var", "BATCH=64", "--rank", str(rank), "--world-size", "3",
                                   "--rendezvous", f"127.0.0.1:{port}"],
                                  stdout=subprocess.PIPE, text=True) for rank in range(3)]
        outputs = [rank.communicate(timeout=300)[0] for rank in ranks]
        self.assertEqual([rank.returncode for rank in ranks], [0, 0, 0])
        self.check_ranks(outputs)

    def test_predictions_are_as_right_as_the_evaluation_says(self):
        out = self.folder / "out.csv"
        done = self.call("predict", "--out", out)
        self.assertIn(f"{out}: {SAMPLES} samples", done.stdout)
        with open(out, newline="") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual(len(rows), SAMPLES)
        correct = sum(row["class"] == row["target"] for row in rows)
        self.assertEqual(correct, json.loads(self.call("eval", "--json").stdout)["correct"])

    def test_ctrl_c_leaves_no_file(self):
        out = self.folder / "interrupted.csv"
        fifo = self.folder / "fifo.pbtxt"
        os.mkfifo(fifo)
        job = os.open(fifo, os.O_RDWR)  # a writer, for whose text the program waits
        process = subprocess.Popen(
            [BIN, "predict", fifo, "--out", out, "--var", f"DATA={self.folder}", "--var",
             "BATCH=64"], stderr=subprocess.PIPE, text=True)
        while not list(self.folder.glob(".interrupted.csv.tmp-*")):
            self.assertIsNone(process.poll())
        process.send_signal(signal.SIGINT)
        self.assertIn("Ctrl-C again", process.stderr.readline() + process.stderr.readline())
        os.write(job, self.job.read_bytes())
        while fcntl.ioctl(job, termios.FIONREAD, bytes(4)) != bytes(4):  # until all is read
            self.assertIsNone(process.poll())
        os.close(job)
        self.assertEqual(process.wait(timeout=300), 1)
        self.assertIn("stopped by a signal; no file is written", process.stderr.read())
        process.stderr.close()
        self.assertEqual(list(self.folder.glob("*interrupted*")), [])

    def test_what_is_wrong_is_said_and_leaves_no_file(self):
        nowhere = self.folder / "nowhere"
        for command, more in (("eval", ()), ("predict", ("--out", self.folder / "bad.jsonl"))):
            done = self.call(command, "--checkpoint", nowhere, *more, code=1)
            self.assertIn("nowhere: open: No such file", done.stderr)
        done = self.call("predict", "--out", self.folder / "bad.txt", code=1)
        self.assertIn(".tfrecord, .csv or .jsonl", done.stderr)
        done = self.call("predict", "--out", self.folder / "bad.csv", prefix=mpirun(2), code=2)
        self.assertIn("predict runs as one process", done.stderr)
        done = self.call("eval", "--plan", EXAMPLES / "train.pbtxt", code=1)
        self.assertIn("repeats for ever", done.stderr)
        self.assertEqual(list(self.folder.glob("*bad*")), [])


if __name__ == "__main__":
    unittest.main()

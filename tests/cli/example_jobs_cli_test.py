"""The jobs of examples/: all are read as they stand, and those on Fashion-MNIST train on a slice of
it, are evaluated, and predict."""

import csv
import json
import pathlib
import re
import struct
import tempfile
import unittest

from cli_testutil import SOURCE, convert_slice, millrace, mpirun

EXAMPLES = SOURCE / "examples"
TESTS = 203  # images: a split that nothing divides


def tensors(path):
    """The tensors of a safetensors file, as bytes."""
    data = pathlib.Path(path).read_bytes()
    size, = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__")
    return {name: data[8 + size + entry["data_offsets"][0]:8 + size + entry["data_offsets"][1]]
            for name, entry in header.items()}


class ExampleJobsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = pathlib.Path(scratch.name)
        convert_slice(cls.folder, "train", 1280, 2)
        convert_slice(cls.folder, "t10k", TESTS, 2)

    def checkpoints(self, job):
        return self.folder / f"{job}-checkpoints"

    def call(self, command, job, *more, prefix=(), **variables):
        variables = {"DATA": self.folder, "BATCH": 64, "EPOCHS": 2,
                     "CHECKPOINTS": self.checkpoints(job), **variables}
        pairs = [part for pair in variables.items() for part in ("--var", "{}={}".format(*pair))]
        # Threads that wait for each other are slow where others compute too.
        done = millrace(command, EXAMPLES / f"{job}.pbtxt", "--threads", 1, *pairs, *more,
                        prefix=prefix)
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        return done.stdout

    def train(self, job, *more, **variables):
        """The output of a training that has learned; the job's other commands follow it."""
        self.checkpoints(job).parent.mkdir(exist_ok=True)
        output = self.call("train", job, *more, **variables)
        printed = re.findall(r"test accuracy ([\d.]+) .*loss", output)
        self.assertGreater(float(printed[-1]), 0.5, output)  # guessing has 0.1
        variables.pop("prefix", None)
        report = json.loads(self.call("eval", job, "--json", **variables))
        self.assertEqual(f"{report['accuracy']:.4f}", printed[-1])
        self.check_predictions(job, report["correct"], variables)
        return output

    def check_predictions(self, job, correct, variables):
        out = self.folder / "predictions.csv"
        self.call("predict", job, "--out", out, **variables)
        with open(out, newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual(len(rows), TESTS)
        self.assertEqual(sum(row["class"] == row["target"] for row in rows), correct)

    def test_every_job_is_read(self):
        jobs = [path for path in EXAMPLES.glob("*/*.pbtxt")
                if re.search(r"^train: ", path.read_text(encoding="utf-8"), re.M)]
        self.assertGreaterEqual(len(jobs), 11)
        for job in jobs:
            plan = job.parent / "eval.pbtxt"
            data = ["--var", f"DATA={self.folder / 'none'}"]
            if plan.exists() and "${EVAL_DATA}" in plan.read_text(encoding="utf-8"):
                data += ["--var", "EVAL_DATA=none"]
            done = millrace("explain", job, *data)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("optimizer state", done.stdout)

    def test_lenet(self):
        self.train("lenet/job", EPOCHS=1)

    def test_mirrored(self):
        output = self.train("jobs/mirrored")
        self.assertRegex(output, r"ranks +2 \(2 on this host\)")

    def test_parameter_server(self):
        output = self.train("jobs/parameter_server", prefix=mpirun(3), EPOCHS=4)
        self.assertRegex(output, r"gradients: \d+ used")

    def test_lars(self):
        output = self.train("jobs/lars", BATCH=128, EPOCHS=8)
        self.assertIn("0.025 after scaling", output)

    def test_ema(self):
        self.train("jobs/ema")
        reports = [json.loads(self.call("eval", "jobs/ema", "--json", *flags))
                   for flags in ((), ("--no-ema",))]
        self.assertEqual([report["average"] for report in reports], [True, False])
        self.assertNotEqual(reports[0]["loss"], reports[1]["loss"])

    def test_fine_tune(self):
        first = self.folder / "first"
        millrace("train", EXAMPLES / "fashion_mnist/job.pbtxt", "--var", f"DATA={self.folder}",
                 "--var", f"CHECKPOINTS={first}", "--var", "BATCH=64", "--threads", 1)
        weights = sorted(first.glob("*.safetensors"))[-1]
        output = self.train("jobs/fine_tune", WEIGHTS=weights)
        self.assertIn("conv*: 4 parameters, frozen", output)
        before = tensors(weights)
        after = tensors(sorted(self.checkpoints("jobs/fine_tune").glob("*.safetensors"))[-1])
        changed = {name for name in after if after[name] != before.get(name)}
        kept = {name for name in before if name.startswith("conv")}
        self.assertEqual(len(kept), 4)
        self.assertEqual(kept & changed, set())
        self.assertLessEqual({"fc1/weights", "fc2/weights"}, changed)


if __name__ == "__main__":
    unittest.main()

"""The programs that the rows of the trainer run, on a small model, and the jobs that they time."""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(os.environ["MILLRACE_SOURCE_DIR"])
MODEL_OF_FLOATS = "../../examples/imagenet/model.pbtxt"
JOBS = ROOT / "bench" / "jobs"
MODEL = """
name: "small"
layer { name: "image" input_layer { field: "image" shape: [8, 8, 3] } }
layer { name: "conv1" convolution { filters: 4 kernel: 3 same: true } }
layer { name: "relu1" relu {} }
layer { name: "fc" fully_connected { outputs: 2 } }
layer { name: "loss" softmax_cross_entropy { label: "label" } }
"""
PARAMETERS = (3 * 3 * 3 + 1) * 4 + (8 * 8 * 4 + 1) * 2


def run(program, *words):
    return subprocess.run([os.environ[program], *map(str, words)], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=120)


class TrainStepsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.make(16, "image", 8, 8, 3)
        (self.folder / "model.pbtxt").write_text(MODEL, encoding="utf-8")

    def make(self, records, field, *shape):
        made = run("MAKE_TENSORS", self.folder / "train.tfrecord", records, field, *shape)
        self.assertEqual((0, ""), (made.returncode, made.stderr))

    def time(self, epochs, replicas, steps):
        job = self.folder / "job.pbtxt"
        plan = ROOT / "examples" / "hep_cnn" / "train.pbtxt"
        job.write_text(f'model: "model.pbtxt" train: "{plan}" epochs: {epochs}', encoding="utf-8")
        return run("TRAIN_STEPS", job, replicas, 1, steps, f"DATA={self.folder}", "SIZE=8",
                   "BATCH=4")

    def test_the_steps_of_one_rank_and_of_two_are_timed_and_their_parameters_counted(self):
        for replicas in (1, 2):
            done = self.time(1000, replicas, 3)
            self.assertEqual((0, ""), (done.returncode, done.stderr))
            turn = json.loads(done.stdout)
            self.assertEqual(PARAMETERS, turn["parameters"])
            for time in ("step_ms", "mean_step_ms", "step_cpu_ms"):
                self.assertGreater(turn[time], 0)

    def test_a_training_with_too_few_steps_is_an_error(self):
        done = self.time(1, 1, 3)
        self.assertEqual(1, done.returncode)
        self.assertIn("job.pbtxt has 4 steps, but 5 are needed", done.stderr)

    def test_an_error_of_the_training_is_the_program_s(self):
        (self.folder / "model.pbtxt").unlink()
        done = self.time(1000, 1, 3)
        self.assertEqual(1, done.returncode)
        self.assertIn("model.pbtxt", done.stderr)

    def test_the_jobs_of_the_rows_are_good(self):
        for job in sorted(JOBS.glob("*.pbtxt")):
            with self.subTest(job=job.name):
                plan = ROOT / "examples" / "imagenet" / "train.pbtxt"
                more = ["--var", f"TRAIN={plan}"] if "resnet50" in job.stem else []
                if job.stem == "resnet50_gpu":
                    more += ["--var", "PRECISION=float32", "--var", f"MODEL={MODEL_OF_FLOATS}"]
                done = run("MILLRACE_BIN", "explain", job, "--var", f"DATA={self.folder}", *more)
                self.assertEqual((0, ""), (done.returncode, done.stderr))


if __name__ == "__main__":
    unittest.main()

"""What the quick start does, on a slice of Fashion-MNIST: convert, inspect, explain, train.

The plans, the model and the job are the examples' own; only the data are fewer. A trainer that does
not learn stays near 0.10 test accuracy (ten classes, equally many of each); the job reaches 0.85.
"""

import pathlib
import re
import tempfile
import unittest

from cli_testutil import SOURCE, convert_slice, millrace, mpirun

EXAMPLES = SOURCE / "examples/fashion_mnist"
NUM_TRAIN, NUM_TEST = 6000, 1000
STEPS = 4 * 24  # the job's four epochs, 24 batches of 256 in each, the last one ragged
MIN_ACCURACY = 0.75


class EndToEndTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def checked(self, *args, prefix=()):
        done = millrace(*args, prefix=prefix)
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        return done.stdout

    def expect_all(self, output, *patterns):
        for pattern in patterns:
            self.assertRegex(output, re.compile(pattern, re.M))

    def test_from_idx_files_to_a_trained_model_on_two_ranks(self):
        train = convert_slice(self.folder, "train", NUM_TRAIN, 8)
        test = convert_slice(self.folder, "t10k", NUM_TEST, 2)
        self.assertEqual((len(train), len(test)), (8, 2))

        inspected = self.checked("records", "inspect", *train, *test)
        self.expect_all(inspected, rf"\b{NUM_TRAIN + NUM_TEST}\b", "image/encoded",
                        "image/class/label")

        data = ("--var", f"DATA={self.folder}")
        explained = self.checked("explain", EXAMPLES / "train.pbtxt", *data)
        self.expect_all(explained, "global_shuffle", "map_into_batch", rf"\b{NUM_TRAIN}\b")

        checkpoints = self.folder / "checkpoints"
        trained = self.checked("train", EXAMPLES / "job.pbtxt", *data, "--var",
                               f"CHECKPOINTS={checkpoints}", prefix=mpirun(2))
        self.expect_start_table(trained)
        self.expect_progress(trained)
        correct, total = re.findall(r"^epoch 4: test accuracy [\d.]+ \((\d+)/(\d+)\)", trained,
                                    re.M)[-1]
        self.assertEqual(int(total), NUM_TEST)
        self.assertGreaterEqual(int(correct) / NUM_TEST, MIN_ACCURACY, trained)
        newest = sorted(checkpoints.glob("checkpoint-*.safetensors"))[-1]
        self.assertIn(f"{STEPS:08}", newest.name)
        self.assertGreater(newest.stat().st_size, 0)

    def expect_start_table(self, output):
        self.expect_all(output, r"^ranks +2 \(2 on this host\), mpi", r"^cores +\d+ usable",
                        r"^backend +oneDNN \d[.\d]*, (SSE|AVX|a processor with )",
                        r"^gradients +1 bucket", r"^learning rate +0\.05 ")

    def expect_progress(self, output):
        """Each line once, though two ranks ran; the wait for data in each; the verdict."""
        steps = re.findall(rf"^step (\d+)/{STEPS} .*loss [\d.]+ .*img/s .*data wait [\d.]+ ms",
                           output, re.M)
        self.assertEqual([int(step) for step in steps], sorted({int(step) for step in steps}))
        self.assertGreaterEqual(len(steps), 4, output)
        self.expect_all(output, r"^input path: data wait [\d.]+% of step time, .*input-bound",
                        r"^verdict of rank 0: .*input-bound",
                        rf"^total: {STEPS} steps, {4 * NUM_TRAIN} samples")


if __name__ == "__main__":
    unittest.main()

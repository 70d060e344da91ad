"""TensorFlow. Skipped where it is not installed, and where libmillrace shares a libprotobuf with it."""
import unittest

import data

data.needs("tensorflow")
data.needs_self_contained()

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

import millrace as mr  # noqa: E402


class Tensors(unittest.TestCase):
    def test_they_share_the_batch_s_memory(self):
        batch = mr.range(16).cast("value", "float32").batch(16).numpy().next()
        tensor = tf.experimental.dlpack.from_dlpack(batch.tensor("value").__dlpack__())
        # tensor.numpy() is a copy.
        shown = np.frombuffer(memoryview(tensor), np.float32)
        self.assertEqual(shown.ctypes.data, batch.tensor("value").address)

    def test_a_loader_gives_tensors(self):
        found = [tensor.numpy().tolist() for tensor in mr.range(20).batch(8).tf("value")]
        self.assertEqual(found, [list(range(8)), list(range(8, 16)), list(range(16, 20))])

    def test_tensorflow_still_parses_its_examples(self):
        parsed = tf.io.parse_single_example(
            data.example(b"x", 7), {"image/class/label": tf.io.FixedLenFeature([], tf.int64)})
        self.assertEqual(int(parsed["image/class/label"]), 7)


if __name__ == "__main__":
    unittest.main()

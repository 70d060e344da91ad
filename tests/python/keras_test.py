"""Keras 3, on each backend that is installed."""
import os
import subprocess
import sys
import unittest

import data

EXAMPLES = os.path.join(os.environ["MILLRACE_SOURCE_DIR"], "examples", "python")


class Backends(unittest.TestCase):
    def fit(self, backend, module):
        data.needs("keras")
        data.needs(module)
        done = subprocess.run(
            [sys.executable, os.path.join(EXAMPLES, "keras_fashion.py"), data.fashion_like()],
            capture_output=True, text=True, timeout=300, check=False,
            env={**os.environ, "KERAS_BACKEND": backend, "EPOCHS": "1",
                 "TF_CPP_MIN_LOG_LEVEL": "3"})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn(f"backend {backend}", done.stdout)
        self.assertIn("118/118", done.stdout)  # 59 x 512 images in batches of 256

    def test_jax(self):
        self.fit("jax", "jax")

    def test_torch(self):
        self.fit("torch", "torch")

    def test_tensorflow(self):
        data.needs_self_contained()
        self.fit("tensorflow", "tensorflow")


if __name__ == "__main__":
    unittest.main()

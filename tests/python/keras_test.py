"""Keras 3, on each backend that is installed."""
import ast
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


# Prints the first number of each batch that is trained on: 2 epochs, or the second of them alone.
RESUME = """
import sys, keras
import millrace as mr, millrace.keras
plan = mr.range(12).global_shuffle().cast("value", "float32").batch(4).options(seed=5)
dataset = plan.keras("value", "value")
seen = []
take = dataset._tuple
def note(batch):
    seen.append((batch.epoch, batch.index % 3))
    return take(batch)
dataset._tuple = note
net = keras.Sequential([keras.layers.Input(()), keras.layers.Reshape((1,)), keras.layers.Dense(1)])
net.compile("sgd", "mse", run_eagerly=True)
resume = mr.keras.Resume(dataset, sys.argv[1])
first = dataset.finished_epochs
net.fit(dataset, initial_epoch=first, epochs=first + 1, verbose=0, callbacks=[resume])
print(dataset.finished_epochs, sorted(set(seen)))
net.evaluate(dataset, verbose=0)
"""


class Resuming(unittest.TestCase):
    def test_a_second_program_goes_on_with_the_next_epoch(self):
        data.needs("keras")
        for backend in ("torch", "jax"):
            data.needs(backend)
            path = os.path.join(data.folder(), "epoch.json")
            said = [subprocess.run([sys.executable, "-c", RESUME, path], text=True, check=False,
                                   capture_output=True, timeout=200,
                                   env={**os.environ, "KERAS_BACKEND": backend})
                    for _ in range(2)]
            self.assertEqual([one.returncode for one in said], [0, 0], said[0].stderr)
            # What one more epoch has begun with is not trained on.
            for epoch, one in enumerate(said):
                done, _, batches = one.stdout.strip().partition(" ")
                self.assertEqual(int(done), epoch + 1, backend)
                trained = {batch for batch in ast.literal_eval(batches) if batch[0] == epoch}
                self.assertEqual(trained, {(epoch, 0), (epoch, 1), (epoch, 2)}, backend)


if __name__ == "__main__":
    unittest.main()

"""Keras 3, on each backend that is installed."""
import ast
import os
import re
import subprocess
import sys
import unittest

import data
import millrace as mr

EXAMPLES = os.path.join(os.environ["MILLRACE_SOURCE_DIR"], "examples", "python")


class Backends(unittest.TestCase):
    def fit(self, backend, module):
        data.needs("keras")
        data.needs(module)
        done = subprocess.run(
            [sys.executable, os.path.join(EXAMPLES, "keras_fashion.py"), data.fashion_mnist()],
            capture_output=True, text=True, timeout=600, check=False,
            env={**os.environ, "KERAS_BACKEND": backend, "EPOCHS": "1", "OMP_NUM_THREADS": "1",
                 "TF_CPP_MIN_LOG_LEVEL": "3"})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn(f"backend {backend}", done.stdout)
        self.assertIn("235/235", done.stdout)  # 60,000 images in batches of 256
        accuracy, = re.findall(r"val_accuracy: (\d\.\d+)", done.stdout)
        self.assertGreater(float(accuracy), 0.8, done.stdout)

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


# Trains two epochs in one go, by hand over the plan's batches, and in two goes with a new dataset and
# the weights of the first, and compares the weights; argv: the folder of the images, one of its own.
ORDER = """
import os, sys, keras, numpy as np
import millrace as mr, millrace.keras
files, folder = sys.argv[1:]
def make_plan():
    return (mr.tfrecord(files).global_shuffle()
            .parse_example(mr.feature("image/encoded", bytes),
                           mr.feature("image/class/label", int, name="label"))
            .decode_image(channels=1).random_resized_crop(28, 28)
            .normalize(mean=72.94, stddev=90.02).batch(512).options(seed=5))

def make_net():
    keras.utils.set_random_seed(0)
    net = keras.Sequential([keras.layers.Input((28, 28, 1)), keras.layers.Flatten(),
                            keras.layers.Dense(16, "relu"), keras.layers.Dense(10)])
    net.compile(keras.optimizers.SGD(0.05),
                keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return net

def is_same(one, other):
    return all(np.array_equal(*pair) for pair in zip(one.get_weights(), other.get_weights()))

whole = make_net()
whole.fit(make_plan().keras("image", "label"), epochs=2, verbose=0)

by_hand = make_net()
loader = make_plan().numpy()
for epoch in range(2):
    for batch in loader:
        by_hand.train_on_batch(batch["image"], batch["label"], batch.valid.astype("float32"))
print("the order is the plan's:", is_same(whole, by_hand))

path = os.path.join(folder, "epoch.json")
half = make_net()
dataset = make_plan().keras("image", "label")
half.fit(dataset, epochs=1, verbose=0, callbacks=[mr.keras.Resume(dataset, path)])
print("half is whole:", is_same(whole, half))
half.save_weights(os.path.join(folder, "half.weights.h5"))
resumed = make_net()
resumed.load_weights(os.path.join(folder, "half.weights.h5"))
dataset = make_plan().keras("image", "label")
resume = mr.keras.Resume(dataset, path)
resumed.fit(dataset, initial_epoch=dataset.finished_epochs, epochs=2, verbose=0,
            callbacks=[resume])
print("resumed is whole:", is_same(whole, resumed))
"""


class Orders(unittest.TestCase):
    def check(self, backend, module):
        data.needs("keras")
        data.needs(module)
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", ORDER, data.test_images(), data.folder()],
            text=True, capture_output=True, timeout=600, check=False,
            env={**os.environ, "KERAS_BACKEND": backend, "OMP_NUM_THREADS": "1",
                 "TF_CPP_MIN_LOG_LEVEL": "3"})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stdout, "the order is the plan's: True\nhalf is whole: False\n"
                                      "resumed is whole: True\n")

    def test_jax(self):
        self.check("jax", "jax")

    def test_torch(self):
        self.check("torch", "torch")

    def test_tensorflow(self):
        data.needs_self_contained()
        self.check("tensorflow", "tensorflow")


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

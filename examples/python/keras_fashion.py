"""Trains a network of Keras 3 on Fashion-MNIST, on any of its backends.

    KERAS_BACKEND=jax python keras_fashion.py build/fashion_mnist

The folder is the one that scripts/quickstart.sh fills.
"""
import os
import sys

import keras

import millrace as mr

EPOCHS = int(os.environ.get("EPOCHS", "3"))


def plan_of(files: str, shuffle: bool) -> mr.Plan:
    plan = mr.tfrecord(files)
    plan = plan.global_shuffle() if shuffle else plan
    return (plan.parse_example(mr.feature("image/encoded", bytes),
                               mr.feature("image/class/label", int, name="label"))
            .decode_image(channels=1).resize(28, 28).normalize(mean=72.94, stddev=90.02)
            .batch(256).prefetch(2).options(seed=1))


def main(folder: str) -> None:
    train = plan_of(f"{folder}/train*.tfrecord", shuffle=True).keras("image", "label")
    test = plan_of(f"{folder}/test*.tfrecord", shuffle=False).keras("image", "label")
    keras.utils.set_random_seed(0)
    net = keras.Sequential([
        keras.layers.Input((28, 28, 1)), keras.layers.Flatten(),
        keras.layers.Dense(128, "relu"), keras.layers.Dense(10)])
    net.compile(keras.optimizers.SGD(0.05, momentum=0.9),
                keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                weighted_metrics=["accuracy"])
    net.fit(train, epochs=EPOCHS, validation_data=test, verbose=2)  # type: ignore
    print("backend", keras.backend.backend())


if __name__ == "__main__":
    main(sys.argv[1])

"""Writes synthetic events of a particle detector, in the form of HEP-CNN's data.

    python3 examples/hep_cnn/make_data.py --out build/hep_cnn

An image has the three channels energy, electromagnetic fraction and number of tracks, each from 0
to about 1. An event of the background (label 0) has two or three jets, one of the signal (label 1)
six to eight jets with the same energy in all. Each event depends on the seed and its number alone.
"""

import argparse
import pathlib

import numpy as np

import millrace as mr

PARTICLES = 40  # of a jet
WIDTH = 0.04  # of a jet, as a part of the image


def jet(rng, size, energy, image):
    """Adds the particles of a jet to the sums of an image. The second axis is an angle: it wraps."""
    center = rng.uniform((0.15, 0), (0.85, 1))
    places = rng.normal(center, WIDTH, (PARTICLES, 2))
    rows = np.clip(places[:, 0] * size, 0, size - 1).astype(int)
    columns = np.floor(places[:, 1] * size).astype(int) % size
    energies = energy * rng.dirichlet(np.full(PARTICLES, 0.5))
    electromagnetic = rng.beta(2, 3, PARTICLES)
    np.add.at(image[:, :, 0], (rows, columns), energies)
    np.add.at(image[:, :, 1], (rows, columns), energies * electromagnetic)
    np.add.at(image[:, :, 2], (rows, columns), 1)


def event(seed, number, size):
    """The image and the label of an event."""
    rng = np.random.default_rng([seed, number])
    label = number % 2
    jets = rng.integers(6, 9) if label else rng.integers(2, 4)
    image = np.zeros((size, size, 3))
    for energy in rng.uniform(0.8, 1.2) * rng.dirichlet(np.full(jets, 3.0)):
        jet(rng, size, energy, image)
    energy = np.maximum(image[:, :, 0], 1e-9)
    image[:, :, 1] /= energy
    image[:, :, 0] = np.sqrt(image[:, :, 0])
    image[:, :, 2] /= 8
    return image.astype(np.float32), label


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", required=True, help="the folder of the shards")
    parser.add_argument("--train", type=int, default=4096, help="events to train on")
    parser.add_argument("--test", type=int, default=1024, help="events to test on")
    parser.add_argument("--size", type=int, default=224, help="height and width")
    parser.add_argument("--shards", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    flags = parser.parse_args()
    out = pathlib.Path(flags.out)
    out.mkdir(parents=True, exist_ok=True)
    for split, seed, count in (("train", 2 * flags.seed, flags.train),
                               ("test", 2 * flags.seed + 1, flags.test)):
        with mr.TFRecordWriter(str(out / split), shards=flags.shards, overwrite=True) as writer:
            for number in range(count):
                image, label = event(seed, number, flags.size)
                writer.write({"image": image, "label": label})


if __name__ == "__main__":
    main()

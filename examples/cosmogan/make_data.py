"""Writes synthetic maps of matter in the universe, in the form of CosmoGAN's data.

    python3 examples/cosmogan/make_data.py --out build/cosmogan

A map is a lognormal random field: a Gaussian field with a power spectrum that falls with the wave
number, to which exp is applied. As in the paper, an intensity x becomes 2x / (x + a) - 1, which is
from -1 to 1. Each map depends on the seed and its number alone.
"""

import argparse
import pathlib

import numpy as np

import millrace as mr

SLOPE = -2.0  # of the power spectrum
DEVIATION = 1.2  # of the Gaussian field
HALF = 4.0  # the intensity that becomes 0


def field(seed, number, size):
    """A map as float32 [size, size, 1]."""
    rng = np.random.default_rng([seed, number])
    waves = np.hypot(np.fft.fftfreq(size)[:, None], np.fft.rfftfreq(size)[None, :]) * size
    waves[0, 0] = 1
    spectrum = np.fft.rfft2(rng.normal(size=(size, size))) * waves**(SLOPE / 2)
    spectrum[0, 0] = 0
    gaussian = np.fft.irfft2(spectrum, s=(size, size))
    intensity = np.exp(DEVIATION * gaussian / gaussian.std())
    return (2 * intensity / (intensity + HALF) - 1).astype(np.float32)[:, :, None]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", required=True, help="the folder of the shards")
    parser.add_argument("--maps", type=int, default=8000)
    parser.add_argument("--size", type=int, default=256, help="height and width")
    parser.add_argument("--shards", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    flags = parser.parse_args()
    out = pathlib.Path(flags.out)
    out.mkdir(parents=True, exist_ok=True)
    with mr.TFRecordWriter(str(out / "train"), shards=flags.shards, overwrite=True) as writer:
        for number in range(flags.maps):
            writer.write({"map": field(flags.seed, number, flags.size)})


if __name__ == "__main__":
    main()

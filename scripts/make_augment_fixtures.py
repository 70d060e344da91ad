#!/usr/bin/env python3
"""Writes tests/augment/testdata with Pillow, OpenCV, TensorFlow and NumPy.

Needs `pip install pillow opencv-python-headless tensorflow-cpu`; run it only when the set changes, and
commit what it writes:

    python3 scripts/make_augment_fixtures.py tests/augment/testdata

images.txt has a line "NAME DTYPE HEIGHT WIDTH CHANNELS OFFSET" per image, whose values, row by row and
little endian, begin at OFFSET in images.bin. Versions that wrote them are in its first line. A name is
LIBRARY/WHAT; "numpy" stands for formulas that are written out here.
"""

import os
import sys

import cv2
import numpy as np
import PIL
import tensorflow as tf
from PIL import Image

IMAGES = {}


def add(name, image):
    if image.ndim == 2:
        image = image[:, :, None]
    assert image.dtype in (np.uint8, np.float32), (name, image.dtype)
    IMAGES[name] = image


def make_input(height, width, channels, seed):
    """Waves and noise: no block is flat, and every value occurs about as often."""
    noise = np.random.RandomState(seed).randint(-40, 41, (height, width, channels))
    y, x, c = np.mgrid[0:height, 0:width, 0:channels]
    waves = 128 + 120 * np.sin(y / 5 + c) * np.cos(x / 7 - c)
    return np.clip(waves + noise, 0, 255).astype(np.uint8)


SIZES = [(16, 9), (37, 31), (5, 19), (40, 8)]


def add_resized(rgb, floats):
    filters = {
        "bilinear": Image.Resampling.BILINEAR,
        "bicubic": Image.Resampling.BICUBIC,
        "nearest": Image.Resampling.NEAREST,
    }
    image = Image.fromarray(rgb)
    plane = Image.fromarray(floats[:, :, 0])
    for height, width in SIZES:
        size = f"{height}x{width}"
        for name, method in filters.items():
            add(f"pillow/{name}_{size}", np.asarray(image.resize((width, height), method)))
            add(f"pillow/{name}_float_{size}", np.asarray(plane.resize((width, height), method)))
        wide = rgb.astype(np.float32)
        add(f"opencv/bicubic_{size}", cv2.resize(wide, (width, height), None, 0, 0, cv2.INTER_CUBIC))
        add(f"tensorflow/nearest_{size}", tf.image.resize(rgb, (height, width), "nearest").numpy())
        for method in ("area", "bilinear"):
            add(f"tensorflow/{method}_{size}",
                tf.image.resize(wide, (height, width), method).numpy())
        add(f"tensorflow/bilinear_antialias_{size}",
            tf.image.resize(wide, (height, width), "bilinear", antialias=True).numpy())


def add_padded(rgb):
    sides = ((3, 5), (2, 7), (0, 0))
    add("numpy/pad_constant", np.pad(rgb, sides, "constant", constant_values=9))
    for mode in ("edge", "reflect", "symmetric"):
        add(f"numpy/pad_{mode}", np.pad(rgb, sides, mode))
    add("numpy/transpose", np.ascontiguousarray(rgb.transpose(2, 0, 1)))


def write(folder):
    blob = b""
    versions = f"pillow {PIL.__version__}, opencv {cv2.__version__}, tensorflow {tf.__version__}"
    lines = [f"# {versions}, numpy {np.__version__}"]
    for name, image in sorted(IMAGES.items()):
        lines.append(f"{name} {image.dtype} {' '.join(map(str, image.shape))} {len(blob)}")
        blob += np.ascontiguousarray(image).tobytes()
    with open(os.path.join(folder, "images.txt"), "w") as file:
        file.write("\n".join(lines) + "\n")
    with open(os.path.join(folder, "images.bin"), "wb") as file:
        file.write(blob)


def main():
    rgb = make_input(29, 19, 3, 1)
    floats = rgb.astype(np.float32) * np.float32(0.37) - 20
    add("input/rgb", rgb)
    add("input/float", floats)
    add_resized(rgb, floats)
    add_padded(rgb)
    write(sys.argv[1])


if __name__ == "__main__":
    main()

"""What the scripts share that write images for tests to compare with."""

import os

import numpy as np

SIZES = [(16, 9), (37, 31), (5, 19), (40, 8)]

# Degrees, shift, scale, shear: kAffineCases of tests/augment/fixtures.h.
AFFINE = [
    (30, (0, 0), 1, (0, 0)),
    (-107.5, (0, 0), 1, (0, 0)),
    (0, (4, -3), 1, (0, 0)),
    (0, (0, 0), 1.7, (0, 0)),
    (12, (0, 0), 0.6, (25, 0)),
    (200, (-2, 5), 1.2, (-10, 20)),
]

# Of brightness, contrast, saturation and sharpness; of hue; kernel size and sigma of blurs.
FACTORS = (0.0, 0.4, 1.7)
TURNS = (-0.5, -0.1, 0.0, 0.3)
BLURS = ((3, 0.5), (7, 2.0), (13, 1.1))

MEAN, STDDEV = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)


def make_input(height, width, channels, seed):
    """Waves and noise: no block is flat, and every value occurs about as often."""
    noise = np.random.RandomState(seed).randint(-40, 41, (height, width, channels))
    y, x, c = np.mgrid[0:height, 0:width, 0:channels]
    waves = 128 + 120 * np.sin(y / 5 + c) * np.cos(x / 7 - c)
    return np.clip(waves + noise, 0, 255).astype(np.uint8)


def make_inputs():
    """The image of most fixtures, the same as floats, and one of few values."""
    rgb = make_input(29, 19, 3, 1)
    floats = rgb.astype(np.float32) * np.float32(0.37) - 20
    return rgb, floats, (make_input(40, 33, 3, 2) // 3 + 60).astype(np.uint8)


class Fixtures:
    """Images by name."""

    def __init__(self):
        self.images = {}

    def add(self, name, image):
        if image.ndim == 2:
            image = image[:, :, None]
        assert image.dtype in (np.uint8, np.float32), (name, image.dtype)
        assert name not in self.images, name
        self.images[name] = image

    def write(self, folder, stem, versions):
        """STEM.txt has a line "NAME DTYPE HEIGHT WIDTH CHANNELS OFFSET" per image, whose values,
        row by row and little endian, begin at OFFSET in STEM.bin. Its first line has the versions
        that wrote them."""
        blob = b""
        lines = [f"# {versions}, numpy {np.__version__}"]
        for name, image in sorted(self.images.items()):
            lines.append(f"{name} {image.dtype} {' '.join(map(str, image.shape))} {len(blob)}")
            blob += np.ascontiguousarray(image).tobytes()
        with open(os.path.join(folder, f"{stem}.txt"), "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
        with open(os.path.join(folder, f"{stem}.bin"), "wb") as file:
            file.write(blob)

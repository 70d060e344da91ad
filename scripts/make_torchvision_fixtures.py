#!/usr/bin/env python3
"""Writes tests/augment/testdata/torchvision.* with torchvision.transforms.v2.functional.

Needs the versions of bench/peers/requirements/pytorch.txt, in an environment of its own:

    python3 -m venv VENV && VENV/bin/python bench/peers/install.py pytorch
    VENV/bin/python scripts/make_torchvision_fixtures.py tests/augment/testdata

Run it only when the set changes, and commit what it writes. A name is torchvision/WHAT for tensors
and torchvision/pil/WHAT for PIL images. The inputs are those of make_augment_fixtures.py.
"""

import os
import sys

import numpy as np
from fixture_images import (AFFINE, BLURS, FACTORS, MEAN, SIZES, STDDEV, TURNS, Fixtures,
                            make_inputs)

sys.setdlopenflags(os.RTLD_LAZY)  # bench/peers/install.py says why
import PIL.Image  # noqa: E402
import torch  # noqa: E402
import torchvision  # noqa: E402
from torchvision.transforms.v2 import functional as F  # noqa: E402
from torchvision.transforms.v2 import InterpolationMode as Mode  # noqa: E402

FIXTURES = Fixtures()
METHODS = {"bilinear": Mode.BILINEAR, "bicubic": Mode.BICUBIC}
FILL = [9.0, 9.0, 9.0]


def tensor(image):
    return torch.from_numpy(np.ascontiguousarray(image.transpose(2, 0, 1)))


def as_option(value):
    """As an op of float32 options has it."""
    return float(np.float32(value))


def add(name, image):
    if isinstance(image, torch.Tensor):
        FIXTURES.add(f"torchvision/{name}", np.ascontiguousarray(image.numpy().transpose(1, 2, 0)))
    else:
        FIXTURES.add(f"torchvision/pil/{name}", np.asarray(image))


def add_resized(rgb, floats):
    plane = floats[:, :, :1]
    for height, width in SIZES:
        for name, method in METHODS.items():
            for antialias in (False, True):
                what = f"{name}{'_antialias' if antialias else ''}"
                size = f"{height}x{width}"
                add(f"{what}_{size}", F.resize(tensor(rgb), [height, width], method,
                                               antialias=antialias))
                add(f"{what}_float_{size}", F.resize(tensor(plane), [height, width], method,
                                                     antialias=antialias))
    # The call of RandomResizedCrop with the region that it drew.
    for antialias in (False, True):
        add(f"resized_crop{'_antialias' if antialias else ''}",
            F.resized_crop(tensor(rgb), 4, 3, 21, 14, [11, 8], antialias=antialias))
        add(f"resized_crop{'_antialias' if antialias else ''}_float",
            F.resized_crop(tensor(floats), 4, 3, 21, 14, [11, 8], antialias=antialias))
    add("resized_crop", F.resized_crop(PIL.Image.fromarray(rgb), 4, 3, 21, 14, [11, 8]))


def add_geometry(rgb):
    add("center_crop", F.center_crop(tensor(rgb), [16, 24]))
    image = PIL.Image.fromarray(rgb)
    for i, (degrees, shift, scale, shear) in enumerate(AFFINE):
        for name, method in (("nearest", Mode.NEAREST), ("bilinear", Mode.BILINEAR)):
            options = (degrees, list(shift), as_option(scale), list(shear), method, FILL)
            add(f"affine_{name}_{i}", F.affine(image, *options))
            if i in (0, 4):
                add(f"affine_{name}_{i}", F.affine(tensor(rgb), *options))
    for degrees in (30, -107.5):  # counter-clockwise
        add(f"rotate_{degrees}", F.rotate(image, degrees, Mode.NEAREST, fill=FILL))
        add(f"rotate_bilinear_{degrees}", F.rotate(image, degrees, Mode.BILINEAR, fill=FILL))


def add_colors(rgb, narrow):
    image = tensor(rgb)
    for factor in FACTORS:
        exact = as_option(factor)
        add(f"brightness_{factor}", F.adjust_brightness(image, exact))
        add(f"contrast_{factor}", F.adjust_contrast(image, exact))
        add(f"saturation_{factor}", F.adjust_saturation(image, exact))
        add(f"sharpness_{factor}", F.adjust_sharpness(image, exact))
    for turn in TURNS:
        add(f"hue_{turn}", F.adjust_hue(image, as_option(turn)))
    add("grayscale", F.rgb_to_grayscale(image, 3))
    for size, sigma in BLURS:
        add(f"blur_{size}", F.gaussian_blur(image, [size, size], [sigma, sigma]))
    add("invert", F.invert(image))
    for bits in (1, 3, 8):
        add(f"posterize_{bits}", F.posterize(image, bits))
    for threshold in (0, 77, 255):
        add(f"solarize_{threshold}", F.solarize(image, threshold))
    add("equalize", F.equalize(image))
    add("equalize_narrow", F.equalize(tensor(narrow)))
    add("autocontrast_narrow", F.autocontrast(tensor(narrow)))
    scaled = F.to_dtype(image, torch.float32, scale=True)
    add("normalize", F.normalize(scaled, [m / 255 for m in MEAN], [s / 255 for s in STDDEV]))


def main():
    rgb, floats, narrow = make_inputs()
    add_resized(rgb, floats)
    add_geometry(rgb)
    add_colors(rgb, narrow)
    level = torch.backends.cpu.get_cpu_capability()
    FIXTURES.write(sys.argv[1], "torchvision",
                   f"torchvision {torchvision.__version__}, torch {torch.__version__} with {level}")


if __name__ == "__main__":
    main()

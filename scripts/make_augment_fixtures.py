#!/usr/bin/env python3
"""Writes tests/augment/testdata/images.* with Pillow, OpenCV, TensorFlow and NumPy.

Needs `pip install pillow opencv-python-headless tensorflow-cpu`; run it only when the set changes,
and commit what it writes:

    python3 scripts/make_augment_fixtures.py tests/augment/testdata

A name is LIBRARY/WHAT; "numpy" stands for formulas that are written out here. What torchvision
itself makes of the same images is written by make_torchvision_fixtures.py.
"""

import math
import sys

import cv2
import numpy as np
import PIL
import tensorflow as tf
from PIL import Image, ImageEnhance, ImageOps

from fixture_images import (AFFINE, BLURS, FACTORS, MEAN, SIZES, STDDEV, TURNS, Fixtures,
                            make_inputs)

FIXTURES = Fixtures()
add = FIXTURES.add


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
        for antialias in (False, True):
            add(f"tensorflow/bicubic{'_antialias' if antialias else ''}_{size}",
                tf.image.resize(floats[:, :, :1], (height, width), "bicubic",
                                antialias=antialias).numpy())


def add_padded(rgb):
    sides = ((3, 5), (2, 7), (0, 0))
    add("numpy/pad_constant", np.pad(rgb, sides, "constant", constant_values=9))
    for mode in ("edge", "reflect", "symmetric"):
        add(f"numpy/pad_{mode}", np.pad(rgb, sides, mode))
    add("numpy/transpose", np.ascontiguousarray(rgb.transpose(2, 0, 1)))


# --- torchvision.transforms.v2.functional of uint8 tensors, formulas in the order of its source ---

F32 = np.float32


def cut(values):
    return np.clip(values, 0, 255).astype(np.uint8)


def grey(rgb):
    r, g, b = (rgb[:, :, c].astype(F32) for c in range(3))
    return np.floor(r * F32(0.2989) + g * F32(0.587) + b * F32(0.114))


def rest(factor):
    """1 - factor, of a factor in float32."""
    return F32(1.0 - float(F32(factor)))


def blend(image, other, factor):
    return cut(image.astype(F32) * F32(factor) + other * rest(factor))


def adjust_hue(rgb, factor):
    image = rgb.astype(F32) / F32(255)
    r, g, b = image[:, :, 0], image[:, :, 1], image[:, :, 2]
    low, high = image.min(axis=2), image.max(axis=2)
    flat = high == low
    spread = high - low
    s = spread / np.where(flat, F32(1), high)
    divisor = np.where(flat, F32(1), spread)
    rc, gc, bc = (high - r) / divisor, (high - g) / divisor, (high - b) / divisor
    is_r, is_g = high == r, high == g
    hr = (bc - gc) * is_r
    hg = (rc + F32(2) - bc) * (is_g & ~is_r)
    hb = (gc + F32(4) - rc) * (~is_r & ~is_g)
    h = np.fmod((hr + hg + hb) * F32(1 / 6) + F32(1), F32(1))
    h = np.remainder(h + F32(factor), F32(1))
    h6 = h * F32(6)
    sector = np.floor(h6)
    sxf = s * (h6 - sector)
    paler = F32(1) - s
    q = np.clip((F32(1) - sxf) * high, 0, 1)
    t = np.clip((sxf + paler) * high, 0, 1)
    p = np.clip(paler * high, 0, 1)
    sector = sector.astype(np.int32) % 6
    planes = ((high, q, p, p, t, high), (t, high, high, q, p, p), (p, p, t, high, high, q))
    out = np.stack([np.choose(sector, plane) for plane in planes], axis=2)
    return (out * F32(255.999)).astype(np.uint8)


def adjust_sharpness(image, factor):
    out = image.astype(F32)
    kernel = np.ones((3, 3)) / 13
    kernel[1, 1] = 5 / 13
    inner = np.zeros((image.shape[0] - 2, image.shape[1] - 2, image.shape[2]))
    for y in range(3):
        for x in range(3):
            rows = slice(y, y + inner.shape[0])
            inner += kernel[y, x] * image[rows, x:x + inner.shape[1]].astype(np.float64)
    inner = np.round(inner).astype(F32)
    view = out[1:-1, 1:-1]
    view += (inner - view) * rest(factor)
    return cut(out)


def gaussian_blur(image, size, sigma):
    lim = (size - 1) / (2 * np.sqrt(2))
    x = np.linspace(-lim, lim, size)
    weights = np.exp(-((x / sigma) ** 2))
    weights /= weights.sum()
    radius = size // 2
    padded = np.pad(image, ((radius, radius), (radius, radius), (0, 0)), "reflect")
    out = np.zeros(image.shape)
    for y in range(size):
        for x in range(size):
            part = padded[y:y + image.shape[0], x:x + image.shape[1]].astype(np.float64)
            out += weights[y] * weights[x] * part
    return np.round(out).astype(np.uint8)


def autocontrast(image):
    low, high = image.min(axis=(0, 1)).astype(F32), image.max(axis=(0, 1)).astype(F32)
    return cut((image.astype(F32) - low) / ((high - low) * F32(1 / 255)))


def add_colors(rgb, narrow):
    add("input/narrow", narrow)
    add("input/grey", narrow[:, :, :1])
    mean = F32(grey(rgb).astype(np.float64).mean())
    for factor in FACTORS:
        add(f"numpy/brightness_{factor}", cut(rgb.astype(F32) * F32(factor)))
        add(f"numpy/contrast_{factor}", blend(rgb, mean, factor))
        add(f"numpy/saturation_{factor}", blend(rgb, grey(rgb)[:, :, None], factor))
        add(f"numpy/sharpness_{factor}", adjust_sharpness(rgb, factor))
    for factor in TURNS:
        add(f"numpy/hue_{factor}", adjust_hue(rgb, factor))
    add("numpy/grayscale", np.repeat(grey(rgb)[:, :, None], 3, axis=2).astype(np.uint8))
    add("numpy/autocontrast", autocontrast(narrow))
    for size, sigma in BLURS:
        add(f"numpy/blur_{size}", gaussian_blur(rgb, size, sigma))
    image, small = Image.fromarray(rgb), Image.fromarray(narrow)
    add("pillow/invert", np.asarray(ImageOps.invert(image)))
    for bits in (1, 3, 8):
        add(f"pillow/posterize_{bits}", np.asarray(ImageOps.posterize(image, bits)))
    for threshold in (0, 77, 256):
        add(f"pillow/solarize_{threshold}", np.asarray(ImageOps.solarize(image, threshold)))
    add("pillow/equalize", np.asarray(ImageOps.equalize(image)))
    add("pillow/equalize_narrow", np.asarray(ImageOps.equalize(small)))
    add("pillow/autocontrast", np.asarray(ImageOps.autocontrast(small)))
    for factor in FACTORS:
        add(f"pillow/brightness_{factor}", np.asarray(ImageEnhance.Brightness(image).enhance(factor)))
        add(f"pillow/contrast_{factor}", np.asarray(ImageEnhance.Contrast(image).enhance(factor)))
        add(f"pillow/saturation_{factor}", np.asarray(ImageEnhance.Color(image).enhance(factor)))
        add(f"pillow/sharpness_{factor}", np.asarray(ImageEnhance.Sharpness(image).enhance(factor)))


def inverse_affine(degrees, shift, scale, shear, height, width):
    """torchvision's _get_inverse_affine_matrix; sines and the like are rounded to float32."""

    def rounded(value):
        return float(F32(value))

    turn, sx, sy = (math.radians(angle) for angle in (degrees, *shear))
    cos_sy, tan_sx = rounded(math.cos(sy)), rounded(math.tan(sx))
    cosine, sine = rounded(math.cos(turn - sy)), rounded(math.sin(turn - sy))
    a = cosine / cos_sy
    b = -cosine * tan_sx / cos_sy - rounded(math.sin(turn))
    c = sine / cos_sy
    d = -sine * tan_sx / cos_sy + rounded(math.cos(turn))
    m = [d / scale, -b / scale, 0.0, -c / scale, a / scale, 0.0]
    cx, cy = width * 0.5, height * 0.5
    m[2] = m[0] * (-cx - shift[0]) + m[1] * (-cy - shift[1]) + cx
    m[5] = m[3] * (-cx - shift[0]) + m[4] * (-cy - shift[1]) + cy
    return m


def add_affine(rgb):
    image = Image.fromarray(rgb)
    methods = {"nearest": Image.Resampling.NEAREST, "bilinear": Image.Resampling.BILINEAR}
    for i, (degrees, shift, scale, shear) in enumerate(AFFINE):
        # As an op of float32 options has it.
        matrix = inverse_affine(degrees, shift, float(F32(scale)), shear, *rgb.shape[:2])
        for name, method in methods.items():
            turned = image.transform(
                image.size, Image.Transform.AFFINE, matrix, method, fillcolor=(9, 9, 9))
            add(f"pillow/affine_{name}_{i}", np.asarray(turned))


# Transforms of torchvision's policies that move pixels, by their magnitudes, on PIL images.
MOVES = [("shear_x", 0.3), ("shear_x", -0.99), ("shear_y", 0.21), ("translate_x", -5.7),
         ("translate_y", 9.2), ("rotate", 27.0), ("rotate", -135.0)]


def move(rgb, name, magnitude, method=Image.Resampling.NEAREST):
    image = Image.fromarray(rgb)
    height, width = rgb.shape[:2]
    angle = math.degrees(math.atan(magnitude))
    if name == "shear_x":
        matrix = inverse_affine(0, (0, 0), 1, (angle, 0), 0, 0)
    elif name == "shear_y":
        matrix = inverse_affine(0, (0, 0), 1, (0, angle), 0, 0)
    elif name == "translate_x":
        matrix = inverse_affine(0, (int(magnitude), 0), 1, (0, 0), height, width)
    elif name == "translate_y":
        matrix = inverse_affine(0, (0, int(magnitude)), 1, (0, 0), height, width)
    else:
        matrix = inverse_affine(-magnitude, (0, 0), 1, (0, 0), height, width)
    return np.asarray(
        image.transform(image.size, Image.Transform.AFFINE, matrix, method, fillcolor=(9, 9, 9)))


def add_moves(rgb):
    for name, magnitude in MOVES:
        add(f"pillow/{name}_{magnitude}", move(rgb, name, magnitude))


# Own weight, and weight and transforms of each chain: those of tests/augment/policy/aug_mix_test.cc.
MIX = (0.375, [(0.25, [("shear_x", 0.06), ("posterize", 4)]),
               (0.2, [("rotate", -6.5)]),
               (0.175, [("equalize", 0), ("color", 0.2), ("translate_y", -3.0)])])


def transform(rgb, name, magnitude):
    if name == "posterize":
        return np.asarray(ImageOps.posterize(Image.fromarray(rgb), magnitude))
    if name == "equalize":
        return np.asarray(ImageOps.equalize(Image.fromarray(rgb)))
    if name == "color":
        return blend(rgb, grey(rgb)[:, :, None], 1 + magnitude)
    return move(rgb, name, magnitude, Image.Resampling.BILINEAR)


def add_mix(rgb):
    """What AugMix makes of what it has drawn."""
    own, chains = MIX
    mix = F32(own) * rgb.astype(F32)
    for weight, transforms in chains:
        image = rgb
        for name, magnitude in transforms:
            image = transform(image, name, magnitude)
        mix += F32(weight) * image.astype(F32)
    add("numpy/aug_mix", cut(mix))


# Lambda, and the centre of the box: those of tests/augment/batch/batch_mixing_test.cc.
LAMBDA = 0.3
BOXES = ((0.3, 2, 11), (0.85, 9, 14), (0.05, 18, 28))


def mix_rows(rows, lam):
    """torchvision's MixUp of a batch, and what MixUp and CutMix do to labels."""
    return np.roll(rows, 1, 0) * F32(1.0 - lam) + rows * F32(lam)


def cut_rows(rows, lam, x, y):
    """torchvision's CutMix: the batch, and the lambda that is left for the labels."""
    height, width = rows.shape[1:3]
    reach = 0.5 * math.sqrt(1.0 - lam)
    half_width, half_height = int(reach * width), int(reach * height)
    left, top = max(x - half_width, 0), max(y - half_height, 0)
    right, bottom = min(x + half_width, width), min(y + half_height, height)
    out = rows.copy()
    out[:, top:bottom, left:right] = np.roll(rows, 1, 0)[:, top:bottom, left:right]
    return out, float(1.0 - (right - left) * (bottom - top) / (width * height))


def add_mixing(floats):
    """A batch of three rows, one below the other."""
    rows = np.stack([floats, 100 - floats, floats * F32(0.5)]).astype(F32)
    labels = np.eye(3, 4, dtype=F32)
    height, width, channels = floats.shape
    stacked = (3 * height, width, channels)
    add("numpy/mixup", mix_rows(rows, LAMBDA).reshape(stacked))
    add("numpy/mixup_labels", mix_rows(labels, LAMBDA)[:, :, None])
    for i, box in enumerate(BOXES):
        mixed, lam = cut_rows(rows, *box)
        add(f"numpy/cutmix_{i}", mixed.reshape(stacked))
        add(f"numpy/cutmix_labels_{i}", mix_rows(labels, lam)[:, :, None])


def crop_mirror_normalize(image, height, width):
    """fn.crop_mirror_normalize(crop=(height, width), mirror=1, mean=, std=, output_layout="CHW") of
    NVIDIA DALI: the middle, halves of a pixel rounded up (rounding="round"), mirrored,
    (x - mean) / std."""
    top = math.floor((image.shape[0] - height) / 2 + 0.5)
    left = math.floor((image.shape[1] - width) / 2 + 0.5)
    crop = image[top:top + height, left:left + width][:, ::-1].astype(F32)
    normalized = (crop - np.array(MEAN, F32)) * (F32(1) / np.array(STDDEV, F32))
    return np.ascontiguousarray(normalized.transpose(2, 0, 1))


def add_tensorflow_colors(rgb, grey_image):
    for turn in TURNS:
        add(f"tensorflow/hue_{turn}", tf.image.adjust_hue(rgb, turn).numpy())
    for factor in FACTORS:
        add(f"tensorflow/contrast_grey_{factor}",
            tf.image.adjust_contrast(grey_image, factor).numpy())
    # These names mean something else there than here.
    add("tensorflow/brightness_0.4", tf.image.adjust_brightness(rgb, 0.4).numpy())
    add("tensorflow/contrast_0.4", tf.image.adjust_contrast(rgb, 0.4).numpy())
    add("tensorflow/saturation_0.4", tf.image.adjust_saturation(rgb, 0.4).numpy())


def main():
    rgb, floats, narrow = make_inputs()
    add("input/rgb", rgb)
    add("input/float", floats)
    add_resized(rgb, floats)
    add_padded(rgb)
    add_colors(rgb, narrow)
    add_tensorflow_colors(rgb, narrow[:, :, :1])
    add_affine(rgb)
    add_moves(rgb)
    add_mix(rgb)
    add_mixing(floats)
    add("numpy/crop_mirror_normalize", crop_mirror_normalize(rgb, 15, 9))
    for margin in (3, 5):
        height, width = rgb.shape[0] - margin, rgb.shape[1] - margin
        add(f"numpy/crop_mirror_normalize_{margin}", crop_mirror_normalize(rgb, height, width))
    FIXTURES.write(
        sys.argv[1], "images",
        f"pillow {PIL.__version__}, opencv {cv2.__version__}, tensorflow {tf.__version__}")


if __name__ == "__main__":
    main()

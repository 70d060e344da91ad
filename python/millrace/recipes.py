"""Plans for usual jobs: the files in examples/, with parameters."""
from __future__ import annotations

import os
from typing import Iterable, Union

from . import _sources
from ._stages import feature
from .plan import Plan

__all__ = ["imagenet_eval", "imagenet_train"]

Files = Union[str, "os.PathLike[str]", Iterable[Union[str, "os.PathLike[str]"]]]

# ImageNet's usual mean and standard deviation, times 255: pixels are 0 to 255.
_MEAN = (123.675, 116.28, 103.53)
_STDDEV = (58.395, 57.12, 57.375)


def _images(files: Files, shuffle: bool) -> Plan:
    plan = _sources.tfrecord(files)
    if shuffle:
        plan = plan.global_shuffle()
    return plan.parse_example(
        feature("image/encoded", bytes), feature("image/class/label", int, name="label")
    ).decode_image()


def _normalized(plan: Plan, dtype: str) -> Plan:
    plan = plan.normalize(_MEAN, _STDDEV)
    return plan if dtype == "float32" else plan.cast("image", dtype)


def imagenet_train(files: Files, batch_size: int = 256, *, size: int = 224,
                   area: tuple[float, float] = (0.08, 1.0),
                   aspect: tuple[float, float] = (0.75, 1.3333333), dtype: str = "float32",
                   seed: int = 1, prefetch: int = 2) -> Plan:
    """Training on ImageNet, or on any images with labels in TFRecord shards: a random crop of each
    image, mirrored by a coin, as `image`: [batch_size, size, size, 3], and `label`: int64.

    Args:
      files: Shards of Examples with image/encoded and image/class/label.
      batch_size: The global batch, over all ranks.
      size: Height and width, in pixels.
      area: The share of the image that a crop has, from and to.
      aspect: The width of a crop by its height, from and to.
      dtype: "float32", "float16" or "bfloat16".
      seed: Of the order, the crops and the coins.
      prefetch: The number of batches made ahead.
    """
    plan = _images(files, shuffle=True)
    plan = plan.random_resized_crop(size, size, area=area, aspect=aspect).flip(probability=0.5)
    return (_normalized(plan, dtype)
            .batch(batch_size).repeat().prefetch(prefetch).options(name="imagenet_train", seed=seed))


def imagenet_eval(files: Files, batch_size: int = 256, *, size: int = 224, resize: int = 256,
                  dtype: str = "float32", prefetch: int = 2) -> Plan:
    """The test that belongs to it: images in the order of the files, resized so that the shorter
    side has `resize` pixels, and cropped at the centre.

    Args:
      files, batch_size, size, dtype, prefetch: As for imagenet_train.
      resize: The shorter side in front of the crop, in pixels.
    """
    plan = _images(files, shuffle=False).resize(shorter=resize).center_crop(size, size)
    return (_normalized(plan, dtype)
            .batch(batch_size).prefetch(prefetch).options(name="imagenet_eval"))

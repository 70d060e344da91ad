"""Batches for TensorFlow."""
from __future__ import annotations

from typing import Any

import tensorflow as tf

from ._sinks import gather
from .batch import Batch
from .loader import Keys, Loader

__all__ = ["TfLoader"]


class TfLoader(Loader):
    """A loader whose batches are TensorFlow tensors (Plan.tf)."""

    def __init__(self, plan: Any, keys: Keys, **options: Any) -> None:
        super().__init__(plan, keys, **options)

    def _deliver(self, batch: Batch) -> Any:
        return gather(batch, self._keys, batch.names, tensor_of)


def tensor_of(batch: Batch, name: str) -> Any:
    """Returns a field of a batch as a tensor that shares its memory; a copy where rows without a
    sample lie between others and are left out."""
    if batch.has_gaps:
        return tf.convert_to_tensor(batch[name])
    return tf.experimental.dlpack.from_dlpack(batch.tensor(name).__dlpack__())

"""Batches for JAX."""
from __future__ import annotations

from typing import Any

import jax

from ._jax_gradients import Reducer
from ._sinks import gather
from .batch import Batch
from .loader import Keys, Loader

__all__ = ["JaxLoader", "Reducer"]


class JaxLoader(Loader):
    """A loader whose batches are JAX arrays (Plan.jax)."""

    _more_keys = ("valid",)

    def __init__(self, plan: Any, sharding: Any, keys: Keys, **options: Any) -> None:
        if isinstance(sharding, (str, tuple, list)):
            raise TypeError("sharding is a jax.sharding.Sharding or None; fields are given as keys=")
        super().__init__(plan, keys, **options)
        self._sharding = sharding

    def _deliver(self, batch: Batch) -> Any:
        delivered = gather(batch, self._keys, batch.names, self._array)
        if self._keys is None and not batch.trimmed and "valid" not in delivered:
            delivered["valid"] = self._put(batch.valid)
        return delivered

    def _array(self, batch: Batch, name: str) -> Any:
        return self._put(batch.valid if name == "valid" and name not in batch else batch[name])

    def _put(self, array: Any) -> Any:
        if self._sharding is None:
            return jax.device_put(array)
        make: Any = jax.make_array_from_process_local_data
        return make(self._sharding, array)

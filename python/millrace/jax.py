"""Batches for JAX."""
from __future__ import annotations

import operator
from typing import Any

import jax
from jax.sharding import SingleDeviceSharding

from ._jax_gradients import Reducer
from ._sinks import gather
from .batch import Batch
from .loader import Keys, Loader

__all__ = ["JaxLoader", "Reducer"]


def _device_of(device: Any) -> Any:
    """Returns the jax.Device of this process that `device` names."""
    if isinstance(device, jax.Device):
        if device.process_index != jax.process_index():
            raise ValueError(f"device {device} belongs to process {device.process_index}, this is "
                             f"process {jax.process_index()}")
        return device
    platform, number = None, device
    if isinstance(device, str):
        platform, _, digits = device.partition(":")
        if not platform or (digits and not digits.isdecimal()):
            raise ValueError(f"device is {device!r}; expected such as 'cpu' or 'cuda:1'")
        number = int(digits or 0)
    found = jax.local_devices(backend=platform)
    if not 0 <= operator.index(number) < len(found):
        raise ValueError(f"device is {device!r}, but this process has {len(found)} devices "
                         f"of {found[0].platform}")
    return found[number]


class JaxLoader(Loader):
    """A loader whose batches are JAX arrays (Plan.jax)."""

    _more_keys = ("valid",)

    def __init__(self, plan: Any, sharding: Any, keys: Keys, device: Any = None,
                 **options: Any) -> None:
        if isinstance(sharding, (str, tuple, list)):
            raise TypeError("sharding is a jax.sharding.Sharding or None; fields are given as keys=")
        if device is not None and sharding is not None:
            raise TypeError("device and sharding exclude each other: both say where arrays lie")
        # None is JAX's default device.
        self._place = None if device is None else SingleDeviceSharding(_device_of(device))
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
            return jax.device_put(array, self._place)
        make: Any = jax.make_array_from_process_local_data
        return make(self._sharding, array)

"""Loaders whose batches lie in the memory of a CUDA device."""
from __future__ import annotations

import operator
from typing import Any, Optional, Union

from millrace import _core
from millrace._units import to_bytes
from millrace.batch import FieldMapping
from millrace.loader import Keys, Loader

__all__ = ["DeviceBatch", "DeviceLoader"]


class DeviceBatch(FieldMapping, _core.DeviceBatch):
    """A batch on a CUDA device: batch["image"] is a field, which has __dlpack__ and
    __cuda_array_interface__, so that torch, CuPy, Numba and others make a view of it.

    A view of DLPack tells for itself when its stream is done with the memory. For work on any other
    stream, `wait_on(stream)` comes before it and `record_use(stream)` behind it. Ids, valid and
    state lie in the memory of the host.
    """

    __slots__ = ()

    def torch(self, name: str) -> Any:
        """Returns a field as a torch.Tensor that shares the memory, for torch's current stream."""
        from millrace.torch import tensor_of
        return tensor_of(self, name)

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name}: {self.dtype(name)}{list(self.whole(name).shape)}"
                           for name in self.names)
        return f"<DeviceBatch {self.index} of epoch {self.epoch} on {self.device}: {shapes}>"


_core.set_device_batch_type(DeviceBatch)


class DeviceLoader(Loader):
    """A loader whose batches are DeviceBatch. They are copied from page-locked memory, on a stream
    of its own, while the program works on those before.

    device: CUDA's number of the device.
    ring: the number of batches copied ahead; None: 2.
    max_device_bytes: for batches, those held and those copied ahead, in bytes or as "2GiB"; None:
        2 GiB. A program that holds so many that the next one has no room gets OutOfBudget.
    """

    def __init__(self, plan: Any, keys: Keys = None, *, device: Optional[int] = 0,
                 ring: Optional[int] = None, max_device_bytes: Union[int, str, None] = None,
                 **options: Any) -> None:
        super().__init__(plan, keys, **options)
        self._device = None if device is None else operator.index(device)
        self._device_options = {"ring": ring or 0, "max_device_bytes": to_bytes(max_device_bytes)}

    def _make_core(self, plan: _core.Plan, context: _core.Context, **options: Any) -> Any:
        return _core.Feed(plan, context, device=self._find_device(), **self._device_options,
                          **options)

    def _find_device(self) -> int:
        return self._device or 0

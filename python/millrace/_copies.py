"""Page-locked memory, from which copies to a GPU may be under way when its tensor is dropped.

torch's own page-locked memory waits for the copies that were made from it. Other memory does not,
so a tensor of ours that is dropped leaves an event on the stream that is torch's current one of the
device then, and its memory is given back when that has passed. What is held belongs to the process:
a copy may outlive the loader of its tensor.
"""
from __future__ import annotations

import itertools
import sys
import time
from typing import Any, Dict, NamedTuple, Optional

import numpy as np
import torch

from millrace import _core

__all__ = ["tensor_of", "wait_for_one"]

_POLL_SECONDS = 0.0002


class _Held(NamedTuple):
    """The memory of a tensor that was dropped."""

    event: Any
    device: int
    tensor: _core.Tensor


# In the order in which they were dropped, by a number. A tensor may be dropped anywhere, also by a
# thread that is in a function here; so each change is one call.
_held: Dict[int, _Held] = {}
_numbers = itertools.count()
_cuda: Any = torch.cuda


def tensor_of(tensor: _core.Tensor, device: int) -> torch.Tensor:
    """Returns a view of a batch's memory, from which copies to `device` may be made."""
    bits = torch.from_numpy(np.asarray(_Dropped(tensor, device)))
    return bits.view(torch.bfloat16) if tensor.dtype == "bfloat16" else bits


def wait_for_one(end: Optional[float]) -> bool:
    """Waits until memory is given back, or until the time `end` of time.monotonic; False if none
    was."""
    while _held and _cuda.is_initialized():
        if _give_back(beside_others=True):
            return True
        if end is not None and time.monotonic() >= end:
            return False
        time.sleep(_POLL_SECONDS)
    return False


def _hold(tensor: _core.Tensor, device: int) -> None:
    """Holds the memory until the work that the device's current stream has been given is done."""
    if not _cuda.is_initialized():
        return
    try:
        event = _cuda.Event()
        event.record(_cuda.current_stream(device))
    except RuntimeError:
        _synchronize(device)
        return
    _held[next(_numbers)] = _Held(event, device, tensor)
    _give_back()


def _give_back(beside_others: bool = False) -> bool:
    """Gives back the memory from which no copy is under way; False if there is none. That which was
    dropped behind a tensor whose copy is under way is looked at with `beside_others` only."""
    is_given = False
    for number in list(_held):
        held = _held.get(number)  # None: another thread gave it back
        if held is None:
            continue
        if _is_done(held):
            is_given = _held.pop(number, None) is not None or is_given
        elif not beside_others:
            break
    return is_given


def _is_done(held: _Held) -> bool:
    try:
        return bool(held.event.query())
    except RuntimeError:
        _synchronize(held.device)
        return True


def _synchronize(device: int) -> None:
    """Waits for all work of a device, where an event cannot tell when some of it is done."""
    try:
        _cuda.synchronize(device)
    except RuntimeError:  # the device is lost, and copies nothing any more
        pass


class _Dropped:
    """The owner of an array's memory, which is told when the last view of it is dropped."""

    __slots__ = ("_tensor", "_device")

    def __init__(self, tensor: _core.Tensor, device: int) -> None:
        self._tensor = tensor
        self._device = device

    @property
    def __array_struct__(self) -> object:
        return self._tensor.__array_struct__

    # The names of modules are gone when the interpreter ends, and no batch is made any more.
    def __del__(self, hold: Any = _hold, is_finalizing: Any = sys.is_finalizing) -> None:
        if not is_finalizing():
            hold(self._tensor, self._device)

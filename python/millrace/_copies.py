"""Batches in page-locked memory, from which a GPU copies while the host works on."""
from __future__ import annotations

import threading
from collections import deque
from typing import Any, Callable, Deque, Tuple

import numpy as np
import torch

from millrace import _core

__all__ = ["Copies"]


class Copies:
    """The memory of tensors that were dropped while a copy from them may be under way.

    torch's own page-locked memory waits for the copies that were made from it. Other memory does
    not, so a tensor of ours that is dropped leaves an event on torch's current stream, and its
    memory is given back when that has passed.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a tensor may be dropped inside of a method
        self._held: Deque[Tuple[Any, _core.Tensor]] = deque()

    def __reduce__(self) -> Tuple[Callable[[], Copies], Tuple[()]]:
        return Copies, ()  # a loader in another process has its own

    def tensor_of(self, tensor: _core.Tensor) -> torch.Tensor:
        """Returns a view of a batch's memory as a torch.Tensor."""
        bits = torch.from_numpy(np.asarray(_Dropped(tensor, self)))
        return bits.view(torch.bfloat16) if tensor.dtype == "bfloat16" else bits

    def hold(self, tensor: _core.Tensor) -> None:
        """Holds the memory until the work that torch's current stream has been given is done."""
        cuda: Any = torch.cuda
        if not cuda.is_initialized():
            return
        event = cuda.Event()
        event.record()
        with self._lock:
            self._held.append((event, tensor))
            while self._held and self._held[0][0].query():
                self._held.popleft()

    def wait(self) -> bool:
        """Waits for the oldest copy, and gives its memory back; False if there is none."""
        with self._lock:
            if not self._held:
                return False
            event, _ = self._held.popleft()
        event.synchronize()
        return True


class _Dropped:
    """The owner of an array's memory, which is told when the last view of it is dropped."""

    __slots__ = ("_tensor", "_copies")

    def __init__(self, tensor: _core.Tensor, copies: Copies) -> None:
        self._tensor = tensor
        self._copies = copies

    @property
    def __array_struct__(self) -> object:
        return self._tensor.__array_struct__

    def __del__(self) -> None:
        self._copies.hold(self._tensor)

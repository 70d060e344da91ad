"""Batches for PyTorch."""
from __future__ import annotations

import time
from typing import Any, Iterator, Optional, Union

import torch
from torch.utils.data import DataLoader, IterableDataset
from torch.utils.dlpack import from_dlpack

from . import _copies
from ._sinks import gather
from ._torch_ddp import reduce_gradients
from ._torch_gradients import Reducer
from .batch import Batch
from .device import DeviceBatch, DeviceLoader
from .diagnosis import Diagnosis
from .errors import FailedPrecondition, OutOfBudget
from .loader import Keys, Loader

__all__ = ["Reducer", "TorchLoader", "make_loader", "reduce_gradients", "tensor_of"]

AnyBatch = Union[Batch, DeviceBatch]


def tensor_of(batch: AnyBatch, name: str) -> torch.Tensor:
    """Returns a field of a batch as a tensor that shares its memory."""
    if isinstance(batch, DeviceBatch):
        return _device_tensor_of(batch, name)
    bits = torch.from_numpy(batch.bits(name))
    return bits.view(torch.bfloat16) if batch.dtype(name) == "bfloat16" else bits


def _device_tensor_of(batch: DeviceBatch, name: str) -> torch.Tensor:
    """The tensor is for torch's current stream. Where rows without a sample lie between others and
    are left out, it is a copy."""
    if not batch.has_gaps:
        return from_dlpack(batch.tensor(name))
    whole = from_dlpack(batch.whole(name))
    kept = batch.kept(name)
    return whole if kept is None else whole[torch.tensor(kept, device=whole.device)]


def _as_it_is(tensor: torch.Tensor) -> torch.Tensor:
    return tensor


def _channels_last(tensor: torch.Tensor) -> torch.Tensor:
    is_image = tensor.dim() == 4 and tensor.shape[3] in (1, 3, 4)
    return tensor.permute(0, 3, 1, 2) if is_image else tensor


class _Tensors(Loader):
    """A loader whose batches are tensors."""

    samples_at_end = -1  # in an epoch's last batch, over all ranks; -1: ranks differ in their rows

    def __init__(self, plan: Any, keys: Keys, layout: Optional[str], **options: Any) -> None:
        super().__init__(plan, keys, **options)
        self._turn = _channels_last if layout else _as_it_is

    def _deliver(self, batch: Any) -> Any:
        if batch.ends_epoch:
            same_rows = not batch.trimmed or batch.rows == batch.global_valid_rows
            self.samples_at_end = batch.global_valid_rows if same_rows else -1
        return gather(batch, self._keys, batch.names, self._turned)

    def _turned(self, batch: Any, name: str) -> torch.Tensor:
        return self._turn(self._tensor(batch, name))

    def _tensor(self, batch: Any, name: str) -> torch.Tensor:
        return tensor_of(batch, name)

    def _find_device(self) -> int:
        return _current_device()


class _PinnedTensors(_Tensors):
    """A loader whose batches are tensors in page-locked memory."""

    def next(self, timeout: Optional[float] = None) -> Optional[Any]:
        """As Loader.next. Copies that were not awaited may hold all of the memory budget; where they
        still do when the time has passed, OutOfBudget is raised."""
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            try:
                return super().next(timeout)
            except OutOfBudget as error:
                if not error.retryable or not _copies.wait_for_one(end):
                    raise
            if end is not None:
                timeout = max(0.0, end - time.monotonic())

    def _tensor(self, batch: Any, name: str) -> torch.Tensor:
        if batch.has_gaps:
            return tensor_of(batch, name)  # a copy, which is not page-locked
        return _copies.tensor_of(batch.tensor(name), self._pinned_device)


class _DeviceTensors(_Tensors, DeviceLoader):
    """The same on a CUDA device; None: torch's current one when the loader is opened."""

    def _find_device(self) -> int:
        return _current_device() if self._device is None else self._device


def _current_device() -> int:
    # Where there is no driver, opening the loader says so.
    return torch.cuda.current_device() if torch.cuda.is_available() else 0


class _Stream(IterableDataset):  # type: ignore[type-arg]
    """The batches of a loader, as a dataset whose elements are batches."""

    def __init__(self, loader: Loader) -> None:
        self.loader = loader

    def __iter__(self) -> Iterator[Any]:
        return iter(self.loader)


class TorchLoader(DataLoader):  # type: ignore[type-arg]
    """A torch DataLoader whose batches the pipeline has made: it needs no workers of its own.

    It reads this rank's rows, goes on to the next epoch by itself, has set_epoch, state_dict and
    load_state_dict, and is taken as it is by Lightning and Accelerate. It has no sampler with
    set_epoch on purpose: behind a checkpoint Lightning would call that with the wrong epoch.
    """

    # Accelerate takes it as it is, and saves its state.
    _is_accelerate_prepared = True
    use_stateful_dataloader = True

    def __init__(self, loader: Loader) -> None:
        super().__init__(_Stream(loader), batch_size=None, num_workers=0)
        self.loader = loader

    def __iter__(self) -> Any:
        return _with_accelerate(self, iter(self.dataset))

    def __len__(self) -> int:
        return len(self.loader)

    def set_epoch(self, epoch: int) -> None:
        """As Loader.set_epoch."""
        self.loader.set_epoch(epoch)

    def state_dict(self) -> Any:
        """As Loader.state_dict."""
        return self.loader.state_dict()

    def load_state_dict(self, state: Any, *, force: bool = False) -> None:
        """As Loader.load_state_dict."""
        self.loader.load_state_dict(state, force=force)

    def close(self) -> None:
        """As Loader.close."""
        self.loader.close()

    def stats(self) -> Any:
        """As Loader.stats."""
        return self.loader.stats()

    def diagnose(self) -> Diagnosis:
        """As Loader.diagnose."""
        return self.loader.diagnose()

    @property
    def metrics(self) -> Any:
        """As Loader.metrics."""
        return self.loader.metrics


def _with_accelerate(owner: TorchLoader, batches: Iterator[Any]) -> Iterator[Any]:
    """Tells Accelerate, where the program uses it, which batch is the last of an epoch: then it
    steps the optimizer, whatever it accumulates, and leaves the rows of padding out of metrics."""
    state = _gradient_state()
    if state is None:
        yield from batches
        return
    loader: Any = owner.loader
    owner.end_of_dataloader = False
    owner.remainder = -1
    state._add_dataloader(owner)
    try:
        for batch in batches:
            owner.end_of_dataloader = not loader.is_inside_epoch
            owner.remainder = loader.samples_at_end
            yield batch
    finally:
        state._remove_dataloader(owner)


def _gradient_state() -> Any:
    import sys
    module = sys.modules.get("accelerate.state")
    return module.GradientState() if module is not None else None


def make_loader(plan: Any, keys: Keys, *, device: Any, layout: str | None,
                **options: Any) -> TorchLoader:
    """Makes the loader of Plan.torch."""
    if layout not in (None, "channels_last"):
        raise ValueError(f"layout is {layout!r}, not 'channels_last'")
    wanted = (torch.device("cuda", device) if isinstance(device, int)
              else torch.device("cpu" if device is None else device))
    if wanted.type != "cpu":
        return TorchLoader(_DeviceTensors(plan, keys, layout, device=_index_of(wanted), **options))
    kind = _Tensors if options.get("pinned", False) is False else _PinnedTensors
    return TorchLoader(kind(plan, keys, layout, **options))


def _index_of(device: torch.device) -> Optional[int]:
    """Returns the number of a CUDA device; None for the current one."""
    if device.type != "cuda":
        raise ValueError(f"device is '{device}', not that of CUDA or of the host")
    if torch.version.cuda is None:
        raise FailedPrecondition(f"torch {torch.__version__} was built without CUDA")
    index: Optional[int] = device.index
    return index

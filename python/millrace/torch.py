"""Batches for PyTorch."""
from __future__ import annotations

from typing import Any, Iterator

import torch
from torch.utils.data import DataLoader, IterableDataset

from ._sinks import gather
from .batch import Batch
from .loader import Keys, Loader

__all__ = ["TorchLoader", "make_loader", "tensor_of"]


def tensor_of(batch: Batch, name: str) -> torch.Tensor:
    """Returns a field of a batch as a tensor that shares its memory."""
    bits = torch.from_numpy(batch.bits(name))
    return bits.view(torch.bfloat16) if batch.dtype(name) == "bfloat16" else bits


def _channels_last(batch: Batch, name: str) -> torch.Tensor:
    tensor = tensor_of(batch, name)
    is_image = tensor.dim() == 4 and tensor.shape[3] in (1, 3, 4)
    return tensor.permute(0, 3, 1, 2) if is_image else tensor


class _Tensors(Loader):
    """A loader whose batches are tensors."""

    def __init__(self, plan: Any, keys: Keys, convert: Any, **options: Any) -> None:
        super().__init__(plan, keys, **options)
        self._convert = convert

    def _deliver(self, batch: Batch) -> Any:
        return gather(batch, self._keys, batch.names, self._convert)


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


def _with_accelerate(owner: TorchLoader, batches: Iterator[Any]) -> Iterator[Any]:
    """Tells Accelerate, where the program uses it, which batch is the last of an epoch: then it
    steps the optimizer, whatever it accumulates."""
    state = _gradient_state()
    if state is None:
        yield from batches
        return
    loader = owner.loader
    owner.end_of_dataloader = False
    owner.remainder = -1
    state._add_dataloader(owner)
    try:
        for batch in batches:
            owner.end_of_dataloader = not loader.is_inside_epoch
            yield batch
    finally:
        state._remove_dataloader(owner)


def _gradient_state() -> Any:
    import sys
    module = sys.modules.get("accelerate.state")
    return module.GradientState() if module is not None else None


def make_loader(plan: Any, keys: Keys, *, layout: str | None, **options: Any) -> TorchLoader:
    """Makes the loader of Plan.torch."""
    if layout not in (None, "channels_last"):
        raise ValueError(f"layout is {layout!r}, not 'channels_last'")
    convert = _channels_last if layout else tensor_of
    return TorchLoader(_Tensors(plan, keys, convert, **options))

"""The sums of DistributedDataParallel, by Millrace."""
from __future__ import annotations

from typing import Any, Optional

import torch
from torch.nn.parallel import DistributedDataParallel

from . import _core
from ._torch_gradients import DTYPES, check_on_host
from .collectives import Communicator, default_communicator, end_at_exit
from .errors import FailedPrecondition
from .gradients import ABORTED, options_of

__all__ = ["reduce_gradients"]


def reduce_gradients(model: DistributedDataParallel, *,
                     communicator: Optional[Communicator] = None, **options: Any) -> None:
    """Lets a DistributedDataParallel model on CPUs average its gradients by Millrace, by a
    communication hook. Ranks of one host sum in memory that they share.

    The averages are those that it makes without: each gradient is multiplied by 1 / ranks, and the
    products are summed, in the order of the ranks. All ranks call this, before the first step.

    communicator: the ranks, those of the model's process group; None: default_communicator().
    options: `exact`, `wire`, `policy`, `compute_threads` and `shared_memory`, as those of
        millrace.Reducer.
    """
    if not isinstance(model, DistributedDataParallel):
        raise TypeError(f"not a DistributedDataParallel model: {type(model).__name__}")
    known = {"exact", "wire", "policy", "compute_threads", "shared_memory"}
    if unknown := options.keys() - known:
        raise TypeError(f"no option of reduce_gradients: {', '.join(sorted(unknown))}")
    taken = options_of(**options)
    for name, parameter in model.named_parameters():
        check_on_host(f"parameter '{name}'", parameter)
    group: Any = model.process_group
    if communicator is None and group.size() != torch.distributed.get_world_size():
        raise ValueError(f"the model's process group has {group.size()} of "
                         f"{torch.distributed.get_world_size()} ranks: give the communicator of "
                         "these")
    ranks = communicator or default_communicator()
    if (group.rank(), group.size()) != (ranks.rank, ranks.size):
        raise ValueError(f"the model's process group has this process as rank {group.rank()} of "
                         f"{group.size()}, and the communicator as rank {ranks.rank} of "
                         f"{ranks.size}")
    model.register_comm_hook(BucketSums(ranks, taken), _sum_bucket)


# torch reads its name, and would read annotations.
def _sum_bucket(state, bucket):  # type: ignore[no-untyped-def]
    return state.take(bucket)


Layout = list[tuple[int, torch.dtype, int]]  # elements, type and address of each bucket


class BucketSums:
    """The sums of the buckets of a model.

    torch makes its buckets anew behind the first step. So the communicator sums them one by one,
    until two steps have had the same ones on every rank; from then on a reducer does, whose
    gradients they are. It has no float64, so that such buckets stay with the communicator.
    """

    def __init__(self, ranks: Communicator, options: dict[str, Any]) -> None:
        self._ranks = ranks
        self._options = options
        self._scale = 1.0 / ranks.size
        self._steps = 0  # that have ended
        self._before: Layout = []
        self._layout: Layout = []
        self._step: list[tuple[Any, torch.Tensor]] = []  # the step's buckets, and their futures
        self._core: Optional[_core.Reducer] = None
        self._memory: list[torch.Tensor] = []  # the gradients of the reducer
        end_at_exit(self)

    def take(self, bucket: Any) -> Any:
        """Returns a future of the averages of a bucket."""
        buffer: torch.Tensor = bucket.buffer()
        index, last = bucket.index(), bucket.is_last()
        if index == 0:
            self._layout, self._step = [], []
            if self._core is not None and not self._fits(index, buffer):
                self._core, self._before = None, []
        if self._scale != 1:
            buffer.mul_(self._scale)
        future: Any = torch.futures.Future()
        self._step.append((future, buffer))
        if self._core is not None:
            self._mark(self._core, index, buffer, last)
        else:
            self._sum(buffer, last)
            future.set_result(buffer)
        return future

    def _sum(self, buffer: torch.Tensor, last: bool) -> None:
        self._ranks.all_reduce(buffer)
        self._layout.append((buffer.numel(), buffer.dtype, buffer.data_ptr()))
        if not last:
            return
        self._steps += 1
        known = self._layout == self._before and all(
            dtype in DTYPES for _, dtype, _ in self._layout)
        same = torch.tensor([known], dtype=torch.int32)
        self._before = self._layout
        if self._ranks.all_reduce(same, "min").item():
            self._make_reducer()

    def _make_reducer(self) -> None:
        self._memory = [buffer for _, buffer in self._step]
        specs: list[tuple[str, str, tuple[int, ...], int]] = [
            (f"bucket {i}", str(dtype).rpartition(".")[2], (count,), address)
            for i, (count, dtype, address) in enumerate(self._layout)]
        # A bucket of torch is a bucket of the reducer.
        smallest = max(1, min(count * dtype.itemsize for count, dtype, _ in self._layout))
        self._core = _core.Reducer(self._ranks._core, specs, self._memory, **{
            **self._options, "bucket_bytes": smallest, "edge_bucket_bytes": smallest,
            "first_step": self._steps})

    def _fits(self, index: int, buffer: torch.Tensor) -> bool:
        memory = self._memory[index]
        return (buffer.numel(), buffer.dtype) == (memory.numel(), memory.dtype)

    def _mark(self, core: _core.Reducer, index: int, buffer: torch.Tensor, last: bool) -> None:
        if index >= len(self._memory) or not self._fits(index, buffer):
            raise FailedPrecondition(f"bucket {index} of the model has changed within a step")
        if buffer.data_ptr() != self._memory[index].data_ptr():
            self._memory[index].copy_(buffer)
        core.mark_ready(index)
        if not last:
            return
        core.finish()
        self._steps += 1
        for memory, (future, taken) in zip(self._memory, self._step):
            if taken.data_ptr() != memory.data_ptr():
                taken.copy_(memory)
            future.set_result(taken)

    def _end(self) -> None:
        if self._core is not None:
            self._core.leave(ABORTED, "its program has ended")

"""Sums of gradients over ranks, for PyTorch on CPUs."""
from __future__ import annotations

import contextlib
import weakref
from typing import Any, Iterable, Iterator, Optional, Union

import torch
from torch.utils.dlpack import from_dlpack

from . import _core
from .collectives import Communicator, default_communicator, end_at_exit
from .errors import FailedPrecondition
from .gradients import ABORTED, Counters, Outcome, counters_of, options_of

__all__ = ["Reducer"]

Parameters = Union[torch.nn.Module, Iterable[torch.Tensor], Iterable[tuple[str, torch.Tensor]]]

DTYPES = (torch.float32, torch.float16, torch.bfloat16)


class Reducer:
    """Averages the gradients of a model over ranks, as DistributedDataParallel does, without
    torch.distributed: each p.grad is a view of a bucket that the ranks of a host share, so that
    nothing is copied, and sums begin while backward goes on.

        reducer = mr.torch.Reducer(net, clip_norm=1.0)
        for images, labels in loader:
            reducer.zero_grad()
            loss_of(net(images), labels).backward()
            outcome = reducer.finish()  # p.grad are the averages
            optimizer.step()

    parameters: a module, or parameters, or tuples of a name and a parameter. Those that do not
        require a gradient are left out. They lie in the memory of the host, and are float32,
        float16 or bfloat16.
    communicator: the ranks; None: default_communicator().
    exact: True if the bits are the same for every placement of ranks on hosts.
    clip_norm: the limit of the norm of all averages together: finish applies it.
    average_by_rows: True if sums are divided by the rows of all ranks (set_rows), for losses that
        are sums over rows. Otherwise each rank's gradient is multiplied by 1 / ranks, as
        DistributedDataParallel does, and the products are summed.
    skip_non_finite: True if steps whose sums are infinite or NaN are found (Outcome.skip).
    find_unused: True if parameters that get no gradient in a step count as zero on this rank.
        Otherwise that is an error, which names them.
    broadcast: True if parameters, and the buffers of a module, become those of rank 0 now.
    options: `wire`, `bucket_bytes`, `edge_bucket_bytes`, `policy`, `compute_threads`,
        `shared_memory` and `first_step`, as those of millrace.Reducer.

    zero_grad of this class keeps the views. Behind the optimizer's own, which sets p.grad to None,
    backward makes new tensors: they are copied into the views, which p.grad then is again.
    """

    def __init__(self, parameters: Parameters, *, communicator: Optional[Communicator] = None,
                 exact: bool = False, clip_norm: Optional[float] = None,
                 average_by_rows: bool = False, skip_non_finite: bool = False,
                 find_unused: bool = False, broadcast: bool = True, **options: Any) -> None:
        for name in ("shard", "micro_batches"):
            if name in options:
                raise TypeError(f"{name} is an option of millrace.Reducer; to add up gradients of "
                                "several batches, use no_sync()")
        taken = options_of(exact=exact, clip_norm=clip_norm, average_by_rows=average_by_rows,
                           skip_non_finite=skip_non_finite, **options)
        self._named = _named_parameters(parameters)
        _check_no_hooks(self._named)
        self._module = parameters if isinstance(parameters, torch.nn.Module) else None
        self._rows = 0  # of the step's batches so far
        self._find_unused = find_unused
        self.communicator = communicator or default_communicator()
        self._scale = 1.0 if average_by_rows else 1.0 / self.communicator.size
        self._core = _core.Reducer(self.communicator._core, [
            (name, _dtype_name(each), (each.numel(),), 0) for name, each in self._named], **taken)
        self._views = [_view_of(self._core.gradient(i), each)
                       for i, (_, each) in enumerate(self._named)]
        self._marked = [False] * len(self._named)
        self._syncs = True
        if broadcast:
            self.broadcast()
        self._adopt()
        self._hooks = [_hook(each, self._hook_of(i)) for i, (_, each) in enumerate(self._named)]
        _hooked.update((id(each), self) for _, each in self._named)
        end_at_exit(self)

    # ---- A step ----

    def zero_grad(self) -> None:
        """Makes all gradients zero, and each p.grad its view."""
        for view, (_, each) in zip(self._views, self._named):
            each.grad = view
        torch._foreach_zero_(self._views)  # pyright: ignore[reportPrivateImportUsage]

    def set_rows(self, rows: int) -> None:
        """With average_by_rows: says the rows of this rank's batch, before its backward. Those of
        all batches of a step, which no_sync makes several, are added up."""
        self._core.set_rows(rows if rows < 0 else self._rows + rows)
        self._rows += rows

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Within it, backward adds up gradients on this rank alone. The backward behind it sums all
        that has been added up."""
        before, self._syncs = self._syncs, False
        try:
            yield
        finally:
            self._syncs = before

    def finish(self) -> Outcome:
        """Waits until all p.grad are the averages over all ranks, and applies clip_norm.

        FailedPrecondition: parameters got no gradient; the message names them. PeerLost: a rank is
        lost.
        """
        self._mark_unused()
        outcome = Outcome(*self._core.finish())
        self._marked = [False] * len(self._named)
        self._rows = 0
        if outcome.clip_factor < 1 and not outcome.skip:
            torch._foreach_mul_(  # pyright: ignore[reportPrivateImportUsage]
                self._views, outcome.clip_factor)
        return outcome

    def broadcast(self, root: int = 0) -> None:
        """Makes parameters, and the buffers of a module, those of rank `root`."""
        for state in self._states():
            memory = state.contiguous()
            # Bytes: a buffer may be of any type.
            self.communicator.broadcast(memory.reshape(-1).view(torch.uint8), root)
            if memory.data_ptr() != state.data_ptr():
                state.copy_(memory)

    def leave(self, message: str) -> None:
        """Ends this rank's part: the others, where they need it, raise PeerLost with the message.
        For a rank that fails by itself in the middle of a step."""
        self._core.leave(ABORTED, message)

    def remove_hooks(self) -> None:
        """Lets backward alone from now on. Gradients stay views."""
        for hook in self._hooks:
            hook.remove()
        for _, each in self._named:
            if _hooked.get(id(each)) is self:
                del _hooked[id(each)]

    @property
    def counters(self) -> Counters:
        """The cost so far."""
        return counters_of(self._core)

    @property
    def summary(self) -> str:
        """A line about buckets, ranks and threads."""
        return self._core.summary()

    def __repr__(self) -> str:
        return f"<Reducer: {self.summary}>"

    # ---- Its parts ----

    def _hook_of(self, number: int) -> Any:
        def ready(parameter: torch.Tensor) -> None:
            if self._syncs:
                self._mark(number, parameter)
        return ready

    def _mark(self, number: int, parameter: torch.Tensor) -> None:
        if self._marked[number]:
            raise FailedPrecondition(
                f"parameter '{self._named[number][0]}' got a second gradient in this step: call "
                "finish() behind each backward(), or run the earlier ones within no_sync()")
        view = self._views[number]
        if parameter.grad is not view:
            self._take_back(number, parameter)
        if self._scale != 1:
            view.mul_(self._scale)
        self._marked[number] = True
        self._core.mark_ready(number)

    def _take_back(self, number: int, parameter: torch.Tensor) -> None:
        """Makes p.grad its view again, with the value that it has now; None is zero."""
        view, grad = self._views[number], parameter.grad
        if grad is None:
            view.zero_()
        elif grad.is_sparse:
            raise ValueError(f"parameter '{self._named[number][0]}' has a sparse gradient")
        else:
            view.copy_(grad.detach())
        parameter.grad = view

    def _states(self) -> Iterator[torch.Tensor]:
        """The tensors that are the same on all ranks. A module may have replaced some."""
        if self._module is not None:
            tensors = [*self._module.parameters(), *self._module.buffers()]
        else:
            tensors = [tensor for _, tensor in self._named]
        for tensor in tensors:
            check_on_host("a parameter or buffer", tensor)
            yield tensor.detach()

    def _adopt(self) -> None:
        for number, (_, each) in enumerate(self._named):
            self._take_back(number, each)

    def _mark_unused(self) -> None:
        unused = [i for i, marked in enumerate(self._marked) if not marked]
        if unused and not self._find_unused:
            names = ", ".join(f"'{self._named[i][0]}'" for i in unused[:8])
            more = f" and {len(unused) - 8} more" if len(unused) > 8 else ""
            raise FailedPrecondition(
                f"parameters got no gradient in this step: {names}{more}. Call backward() first; if "
                "the model does not use them in every step, give find_unused=True")
        for number in unused:
            self._mark(number, self._named[number][1])

    def _end(self) -> None:
        self._core.leave(ABORTED, "its program has ended")


# The reducer whose hook backward calls, by the id of the parameter, which the reducer holds.
_hooked: weakref.WeakValueDictionary[int, Reducer] = weakref.WeakValueDictionary()


def _named_parameters(parameters: Parameters) -> list[tuple[str, torch.Tensor]]:
    """Returns the parameters that get a gradient, the last one first, as backward makes them."""
    given: Any = (parameters.named_parameters() if isinstance(parameters, torch.nn.Module)
                  else parameters)
    named: dict[int, tuple[str, torch.Tensor]] = {}
    for number, each in enumerate(given):
        name, tensor = each if isinstance(each, tuple) else (str(number), each)
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"parameter '{name}' is a {type(tensor).__name__}, not a tensor")
        if tensor.requires_grad:
            named.setdefault(id(tensor), (name, tensor))  # once, if layers share it
    for name, tensor in named.values():
        check_on_host(f"parameter '{name}'", tensor)
        if tensor.dtype not in DTYPES:
            raise ValueError(f"parameter '{name}' is {tensor.dtype}, not float32, float16 or "
                             "bfloat16")
    if not named:
        raise ValueError("no parameter requires a gradient")
    return list(named.values())[::-1]


def check_on_host(what: str, tensor: torch.Tensor) -> None:
    """ValueError: the tensor is on a device."""
    if tensor.device.type != "cpu":
        raise ValueError(f"{what} is on '{tensor.device}', and gradients are summed in the memory "
                         "of the host: on GPUs, use DistributedDataParallel with NCCL")


def _check_no_hooks(named: list[tuple[str, torch.Tensor]]) -> None:
    """ValueError: another reducer sums these gradients, so that each would scale them."""
    for name, tensor in named:
        if id(tensor) in _hooked:
            raise ValueError(f"parameter '{name}' has a Reducer: call remove_hooks() of that first")


def _hook(parameter: Any, function: Any) -> Any:
    return parameter.register_post_accumulate_grad_hook(function)


def _dtype_name(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).rpartition(".")[2]


def _view_of(memory: _core.Tensor, parameter: torch.Tensor) -> torch.Tensor:
    """Returns a gradient's memory with the parameter's shape and order of extents."""
    flat = from_dlpack(memory)
    like = torch.empty_like(parameter, device="meta")  # which leaves no gaps
    return flat.as_strided(like.size(), like.stride())

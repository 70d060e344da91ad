"""Ranks that compute together."""
from __future__ import annotations

import atexit
import os
import sys
import weakref
from typing import Any, Callable, NamedTuple, Optional, TypeVar

from millrace import _core
from millrace.context import log

__all__ = ["Communicator", "default_communicator"]

Array = TypeVar("Array")

_LONGEST = 9e9  # seconds: nearly as many as there are nanoseconds in 64 bits
_REDUCTIONS = {"sum": 0, "product": 1, "min": 2, "max": 3, "average": 4}


def _nanoseconds(name: str, seconds: Optional[float], otherwise: int = 0) -> int:
    if seconds is None:
        return otherwise
    if not 0 < seconds <= _LONGEST:
        raise ValueError(f"{name} is {seconds}, but must be above 0 and up to {_LONGEST:.0e}, or "
                         "None")
    return max(1, round(seconds * 1e9))


def _warn_of_stall(sentence: str) -> None:
    log(1, sentence)


class Communicator:
    """This process's place among the ranks of a job.

    Every rank makes the same calls in the same order. Arrays lie in the memory of the host: NumPy
    arrays, tensors of torch, and other objects with a buffer or `__dlpack__`; they are changed in
    place, and must be contiguous and writable.

    A watchdog notices ranks that have died: calls that need one raise PeerLost. Ctrl-C ends a wait
    within a tenth of a second, and the group with it. One thread may use a group, and its reducers,
    at a time. A forked child cannot use the group of its parent.
    """

    def __init__(self, core: _core.Comm) -> None:
        self._core = core
        self._pid = os.getpid()
        place = core.place()
        self.rank: int = place[0]
        self.size: int = place[1]
        self.local_rank: int = place[2]  #: the number among the ranks of this host
        self.local_size: int = place[3]
        self.backend: str = place[4]  #: "single", "threads", "tcp" or "mpi"
        self.reason: str = place[5]  #: why, such as "tcp: WORLD_SIZE=2, met at tcp:node1:29500"
        _groups.add(self)

    @classmethod
    def connect(cls, *, rank: Optional[int] = None, world: Optional[int] = None,
                rendezvous: Optional[str] = None, job_id: Optional[str] = None,
                backend: Optional[str] = None, connect_timeout: float = 300,
                timeout: Optional[float] = None, watchdog: bool = True, stall_report: float = 3,
                stall_abort: Optional[float] = 1800,
                on_stall: Optional[Callable[[str], object]] = _warn_of_stall) -> Communicator:
        """Connects this process to the other ranks, and waits for them.

        rank, world: this rank and the number of ranks; None: those of torch.distributed where the
            program has initialised it, else the launcher's (torchrun, MPI, Slurm, TF_CONFIG,
            Kubernetes), else 0 of 1. Given with a rendezvous, they may be those of a part of the job.
        rendezvous: where the ranks meet, "HOST:PORT" of rank 0 or "file:FOLDER"; None: the
            launcher's.
        job_id: a name that no other run has there; None: the launcher's.
        backend: "single", "tcp" or "mpi"; None: chosen by the launcher.
        connect_timeout: how many seconds ranks wait for each other here.
        timeout: the limit of each later wait in seconds; None: none.
        watchdog: True if a thread watches whether the other ranks live.
        stall_report: `on_stall` is told of a rank that stalls for so many seconds. By default it
            writes a warning to the logger "millrace".
        stall_abort: a rank that stalls for so many seconds counts as lost; None: never.
        """
        if (rank is None) != (world is None):
            raise ValueError("rank and world are given together, or neither")
        if rank is None and rendezvous is None and backend is None:
            met = _meet_by_torch()
            if met is not None:
                rank, world, rendezvous, job_id = met
        if world is not None and world < 1:
            raise ValueError(f"world is {world}, but must be above 0")
        return cls(_core.Comm(
            backend=backend, rendezvous=rendezvous, job_id=job_id, rank=rank or 0,
            world=world or 0, connect_timeout_ns=_nanoseconds("connect_timeout", connect_timeout),
            timeout_ns=_nanoseconds("timeout", timeout), watchdog=watchdog,
            stall_report_ns=_nanoseconds("stall_report", stall_report),
            stall_abort_ns=_nanoseconds("stall_abort", stall_abort, -1), stalled=on_stall))

    @classmethod
    def threads(cls, size: int, timeout: Optional[float] = None) -> list[Communicator]:
        """Returns the groups of `size` ranks that are threads of this process, one for each."""
        return [cls(core) for core in _core.Comm.threads(size, _nanoseconds("timeout", timeout))]

    def all_reduce(self, array: Array, op: str = "sum") -> Array:
        """Makes an array on every rank the "sum", "product", "min", "max" or "average" of all, with
        the same bits on every rank. Returns it."""
        if op not in _REDUCTIONS:
            raise ValueError(f"op is {op!r}, not one of {', '.join(_REDUCTIONS)}")
        memory = memory_of(array)
        self._core.allreduce(memory.address, memory.dtype, memory.size, _REDUCTIONS[op])
        return array

    def broadcast(self, array: Array, root: int = 0) -> Array:
        """Gives the contents of rank `root`'s array to those of all ranks. Returns it."""
        memory = memory_of(array)
        self._core.broadcast(memory.address, memory.dtype, memory.size, root)
        return array

    def barrier(self) -> None:
        """Waits until all ranks have called it."""
        self._core.barrier()

    def abort(self, message: str) -> None:
        """Makes every present and later call of all ranks Cancelled. Over MPI it ends the job."""
        self._core.abort(message)

    def leave(self, message: str) -> None:
        """Takes this rank out: calls of the others that need it raise PeerLost with the message."""
        self._core.leave(message)

    def cancel(self) -> None:
        """Makes the wait under way, and every later call of this rank, Cancelled. Any thread may
        call it."""
        self._core.cancel()

    def close(self) -> None:
        """Gives the group up. Its reducers go on, and the group ends with the last of them."""
        if self._pid == os.getpid():
            self._core.close()

    @property
    def closed(self) -> bool:
        """True once it is closed."""
        return self._core.closed

    def __enter__(self) -> Communicator:
        return self

    def __exit__(self, kind: Any, error: Optional[BaseException], trace: Any) -> None:
        # The others must not wait for a rank that has failed.
        if error is not None and not self.closed:
            self.leave(f"{type(error).__name__}: {error}")
        self.close()

    def _end(self) -> None:
        if not self.closed and self._pid == os.getpid():
            self.leave("its program has ended")
            self.close()

    def __repr__(self) -> str:
        return f"<Communicator: rank {self.rank} of {self.size}, {self.backend}>"


_groups: weakref.WeakSet[Communicator] = weakref.WeakSet()
_reducers: weakref.WeakSet[Any] = weakref.WeakSet()
_default: Optional[Communicator] = None


def default_communicator() -> Communicator:
    """Returns the group of the reducers that are given none: Communicator.connect(), once."""
    global _default
    if _default is None or _default.closed or _default._pid != os.getpid():
        _default = Communicator.connect()
    return _default


def end_at_exit(reducer: Any) -> None:
    """Lets `reducer._end()` be called when the interpreter ends."""
    _reducers.add(reducer)


def _end() -> None:
    """Says to the other ranks that this one has ended on purpose. Memory stays, for views of it."""
    for each in [*_reducers, *_groups]:
        try:
            each._end()
        except RuntimeError:
            pass  # it has failed before, or another thread is in it


atexit.register(_end)


# ---- torch.distributed ----

def _meet_by_torch() -> Optional[tuple[int, int, str, str]]:
    """Returns rank, world, rendezvous and job id, which the ranks of torch.distributed agree on."""
    distributed: Any = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    place: list[Any] = [None, None]
    if distributed.get_rank() == 0:
        place = [_free_address(), os.urandom(8).hex()]
    distributed.broadcast_object_list(place, src=0)
    return distributed.get_rank(), distributed.get_world_size(), place[0], place[1]


def _free_address() -> str:
    import socket  # here, since importing it takes time
    host = os.environ.get("MASTER_ADDR") or socket.gethostname()
    try:
        socket.getaddrinfo(host, None)
    except OSError:
        host = "localhost"  # nobody knows the name: all ranks are on this host
    with socket.socket() as free:
        free.bind(("", 0))
        port = free.getsockname()[1]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


# ---- Memory ----

class MemoryOf(NamedTuple):
    """The elements of an array."""

    address: int
    dtype: str
    size: int
    owner: Any


def memory_of(array: Any) -> MemoryOf:
    """Returns where the elements of an array on the host lie.

    TypeError: it is none, or a type that is not summed. ValueError: it is not contiguous, or
    read-only, or on a device.
    """
    torch: Any = sys.modules.get("torch")
    if torch is not None and isinstance(array, torch.Tensor):
        return _memory_of_tensor(array)
    view = _as_numpy(array)
    if not view.flags.c_contiguous:
        raise ValueError(f"the array of shape {view.shape} is not contiguous")
    if not view.dtype.isnative:
        raise ValueError(f"the array of {view.dtype} has another byte order than this machine")
    if not view.flags.writeable:
        raise ValueError(f"the {type(array).__name__} is read-only")
    return MemoryOf(view.__array_interface__["data"][0], view.dtype.name, view.size, view)


def _memory_of_tensor(tensor: Any) -> MemoryOf:
    if tensor.device.type != "cpu":
        raise ValueError(f"the tensor is on '{tensor.device}': sums here are of the host's memory; "
                         "on GPUs, DistributedDataParallel sums by NCCL")
    if not tensor.is_contiguous():
        raise ValueError(f"the tensor of shape {tuple(tensor.shape)} is not contiguous")
    dtype = str(tensor.dtype).rpartition(".")[2]
    return MemoryOf(tensor.data_ptr(), dtype, tensor.numel(), tensor)


def _as_numpy(array: Any) -> Any:
    import numpy as np  # when there is an array: millrace is imported without it
    if isinstance(array, np.ndarray):
        return array
    if hasattr(array, "__dlpack__"):
        return np.from_dlpack(array)
    try:
        return np.asarray(memoryview(array))
    except TypeError:
        raise TypeError(f"not an array: {type(array).__name__}") from None

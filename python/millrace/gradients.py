"""Sums of gradients over ranks."""
from __future__ import annotations

from typing import Any, Mapping, NamedTuple, Optional, Sequence, Union

from millrace import _core
from millrace.collectives import Communicator, default_communicator, end_at_exit, memory_of

__all__ = ["Counters", "Outcome", "Reducer", "Shard"]

_POLICIES = {"auto": 0, "inline": 1, "thread": 2}
_WIRES = ("float32", "float16", "bfloat16")
ABORTED = 10


class Outcome(NamedTuple):
    """The outcome of a step, the same on all ranks."""

    norm: float  #: of all gradients together, with clip_norm or skip_non_finite; else 0
    skip: bool  #: with skip_non_finite, True if some sum is infinite or NaN: do not update
    clip_factor: float  #: the factor that keeps clip_norm; 1 or less
    rows: int  #: the rows of all ranks, with average_by_rows; else 0
    complete: bool  #: False behind a micro-batch that is not the step's last: there are no sums


class Shard(NamedTuple):
    """Elements [begin, end) of a gradient, as if it had one extent."""

    gradient: int
    begin: int
    end: int


class Counters(NamedTuple):
    """The cost of the steps so far on this rank, in seconds."""

    steps: int
    num_buckets: int
    bytes: int  #: of all gradients of all steps
    seconds: float  #: from buckets filled on all ranks of the host to their sums
    exposed_seconds: float  #: the part that a step without sums would not have taken
    gather_seconds: float  #: in gather_shards
    last_finish_seconds: float
    last_awaited: Optional[int]  #: the rank that the last `finish` waited for longest


def options_of(*, exact: bool = False, average_by_rows: bool = False,
               skip_non_finite: bool = False, clip_norm: Optional[float] = None,
               shard: bool = False, micro_batches: int = 1, wire: str = "float32",
               bucket_bytes: Optional[int] = None, edge_bucket_bytes: Optional[int] = None,
               policy: str = "auto", compute_threads: int = 1, shared_memory: bool = True,
               first_step: int = 0) -> dict[str, Any]:
    """Returns the options of a reducer as the extension takes them."""
    if policy not in _POLICIES:
        raise ValueError(f"policy is {policy!r}, not one of {', '.join(_POLICIES)}")
    if micro_batches < 1:
        raise ValueError(f"micro_batches is {micro_batches}, but must be above 0")
    if wire not in _WIRES:
        raise ValueError(f"wire is {wire!r}, not one of {', '.join(_WIRES)}")
    for name, size in (("bucket_bytes", bucket_bytes), ("edge_bucket_bytes", edge_bucket_bytes)):
        if size is not None and size < 1:
            raise ValueError(f"{name} is {size}, but must be above 0, or None")
    return {"exact": exact, "average_by_rows": average_by_rows, "skip_non_finite": skip_non_finite,
            "clip_norm": clip_norm or 0.0, "shard": shard, "micro_batches": micro_batches,
            "wire": wire, "bucket_bytes": bucket_bytes or 0,
            "edge_bucket_bytes": edge_bucket_bytes or 0, "policy": _POLICIES[policy],
            "compute_threads": compute_threads or -1, "shared_memory": shared_memory,
            "first_step": first_step}


def counters_of(core: _core.Reducer) -> Counters:
    """Returns the counters of a reducer."""
    counted = Counters(*core.counters())
    return counted._replace(last_awaited=None) if counted.last_awaited == -1 else counted


class Reducer:
    """Sums gradients over ranks, fused in buckets. The gradients are views of the buckets, which
    ranks of one host share, so that nothing is copied.

        reducer = mr.Reducer({"weights": weights, "bias": bias}, clip_norm=1.0)
        for batch in loader:
            np.divide(gradient_of_weights, world, out=reducer.gradient("weights"))
            reducer.mark_ready("weights")
            ...
            outcome = reducer.finish()  # the views hold the sums over all ranks

    gradients: arrays, or anything with a shape and a dtype, in the order in which backward makes
        the gradients: a mapping by names, or a sequence. They are float32, float16 or bfloat16.
    communicator: the ranks; None: default_communicator().
    in_place: True if the arrays themselves are the gradients, in memory of the program's.
    exact: True if the bits are the same for every placement of ranks on hosts.
    average_by_rows: True if sums are divided by the rows of all ranks (set_rows). Otherwise they
        are sums.
    skip_non_finite: True if steps whose sums are infinite or NaN are found (Outcome.skip).
    clip_norm: the limit of the norm of all gradients together. Outcome has the factor that keeps
        it, and the program applies it.
    shard: True if each rank gets the sums of its own shards alone.
    micro_batches: the calls of finish that make one step.
    wire: "float16" or "bfloat16": the type to which float32 sums are rounded between hosts.
    bucket_bytes, edge_bucket_bytes: the size up to which gradients are fused, and that of the first
        and the last bucket; None: 25 MiB and 1 MiB.
    policy: which thread sums: "inline", that of the calls; "thread", one beside it; "auto".
    compute_threads: the threads that are busy in backward, for "auto".
    shared_memory: False if this rank shares no memory with the others of its host.
    first_step: the number of the first step, for messages.

    All ranks make the reducer together, with the same gradients and options, but for the last four.
    It lives as long as a view of its gradients does. Waits end as those of its communicator: a rank
    that is lost raises PeerLost.
    """

    def __init__(self, gradients: Union[Mapping[str, Any], Sequence[Any]], *,
                 communicator: Optional[Communicator] = None, in_place: bool = False,
                 **options: Any) -> None:
        named = (list(gradients.items()) if isinstance(gradients, Mapping)
                 else [(str(i), each) for i, each in enumerate(gradients)])
        taken = options_of(**options)
        memory = [memory_of(each) for _, each in named] if in_place else None
        specs = [(name, _dtype_of(each), tuple(int(extent) for extent in each.shape),
                  0 if memory is None else memory[i].address)
                 for i, (name, each) in enumerate(named)]
        self.communicator = communicator or default_communicator()
        self._index = {name: i for i, (name, _) in enumerate(named)}
        self._core = _core.Reducer(self.communicator._core, specs, memory, **taken)
        self._arrays: dict[int, Any] = {}
        end_at_exit(self)

    def __len__(self) -> int:
        return len(self._index)

    def _number(self, gradient: Union[int, str]) -> int:
        if isinstance(gradient, str):
            if gradient not in self._index:
                raise KeyError(f"no gradient {gradient!r}")
            return self._index[gradient]
        return gradient

    def gradient(self, gradient: Union[int, str]) -> Any:
        """Returns the NumPy view of a gradient, by its number or name: the same in every step.
        Between mark_ready and finish it belongs to the reducer. That of bfloat16 needs
        ml_dtypes."""
        number = self._number(gradient)
        if number not in self._arrays:
            self._arrays[number] = self._core.array(number)
        return self._arrays[number]

    def tensor(self, gradient: Union[int, str]) -> _core.Tensor:
        """Returns the same memory as an object with `__dlpack__`."""
        return self._core.gradient(self._number(gradient))

    def set_rows(self, rows: int) -> None:
        """Sets the rows of this rank's (micro-)batch, before its first mark_ready."""
        self._core.set_rows(rows)

    def mark_ready(self, gradient: Union[int, str]) -> None:
        """Says that a gradient, by its number or name, is filled for this step. Any order."""
        self._core.mark_ready(self._number(gradient))

    def finish(self) -> Outcome:
        """Waits until all views hold the sums over all ranks."""
        return Outcome(*self._core.finish())

    @property
    def shards(self) -> list[Shard]:
        """The elements that this rank updates: with `shard` its part, else all."""
        return [Shard(*each) for each in self._core.shards()]

    def gather_shards(self) -> None:
        """With `shard`, between two steps: gives what this rank has written to its shards of the
        views, new weights for example, to all ranks, and takes theirs."""
        self._core.gather_shards()

    @property
    def counters(self) -> Counters:
        """The cost so far."""
        return counters_of(self._core)

    def bucket_of(self, gradient: Union[int, str]) -> int:
        """Returns the number of the bucket that a gradient lies in."""
        return self._core.bucket_of(self._number(gradient))

    @property
    def summary(self) -> str:
        """A line about buckets, ranks and threads."""
        return self._core.summary()

    def leave(self, message: str) -> None:
        """Ends this rank's part: the others, where they need it, raise PeerLost with the message.
        For a rank that fails by itself in the middle of a step."""
        self._core.leave(ABORTED, message)

    def _end(self) -> None:
        self._core.leave(ABORTED, "its program has ended")

    def __repr__(self) -> str:
        return f"<Reducer: {self.summary}>"


def _dtype_of(array: Any) -> str:
    name = str(getattr(array.dtype, "name", array.dtype))
    return name.rpartition(".")[2]

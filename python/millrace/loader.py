"""Loaders: plans that run, and that `for` goes through epoch by epoch."""
from __future__ import annotations

import math
import operator
import os
from typing import (TYPE_CHECKING, Any, Dict, Iterator, NamedTuple, Optional, Sequence,
                    Tuple, Union)

from millrace import _core
from millrace._codes import codes_of, warn_of_changes
from millrace._exit import close_at_exit
from millrace._meter import Meter
from millrace._progress import Progress, Shown
from millrace.batch import Batch, state_of
from millrace.context import Context, default_context
from millrace.diagnosis import Diagnosis
from millrace.errors import FailedPrecondition, OutOfRange, PlanError
from millrace.launcher import Launcher, find_ranks
from millrace.ops import table_of

if TYPE_CHECKING:
    from millrace.http import HttpOptions
    from millrace.plan import Plan

__all__ = ["Field", "Loader"]


class Field(NamedTuple):
    """A field of batches."""

    name: str
    dtype: str
    shape: Tuple[Optional[int], ...]  #: of a row; None: different from row to row


Keys = Union[None, str, Sequence[str]]


class Loader:
    """A plan that runs.

    `for batch in loader` goes through one epoch; the next `for` goes through the next one. A `for`
    that is left early is followed by the next epoch too, unless load_state_dict was called. A plan
    without a `repeat` stage is repeated for ever.

    keys: the fields that are delivered: a name gives arrays, several names give tuples of arrays.
        None gives Batch, a mapping.
    last: of a batch with fewer samples than rows, "pad" delivers all rows, and batch.valid says
        which are padding; "trim" leaves padding out. "drop" leaves the last batch out if it is not
        full, and the rest as "pad": it sets the plan's batch(..., drop_remainder=True).
    rank, world: of the rows of every batch, those that this process reads; None: as
        detect_launcher() says.
    context: the threads and the memory; None: default_context().
    quarantine: the file to which damaged records are appended.
    prefetch: the number of batches made ahead; None: as the plan says.
    cpu_budget: the most workers at a time; None: as the plan says, else all of the context's.
    index_folder: the folder of indexes; None: the cache folder.
    progress: is called with (done bytes, total bytes) while files are indexed. True shows a bar of
        tqdm, if it is installed.
    http: how files behind URLs are read; None: by the defaults.
    writable: False if arrays are read-only.
    pinned: CUDA's number of the device that copies batches while the host works on: they lie in
        page-locked memory then, and must live until such a copy is over. True: device 0; for torch,
        its current one. False: ordinary memory. Without CUDA's driver it changes nothing.
    repeat: False if a plan without a `repeat` stage ends behind its epoch.

    Files are opened by the first call that needs them, so that a loader may be made before a
    process forks, and may be pickled. One thread may use a loader at a time.
    """

    def __init__(self, plan: Plan, keys: Keys = None, *, last: str = "pad",
                 rank: Optional[int] = None, world: Optional[int] = None,
                 context: Optional[Context] = None, quarantine: Union[None, str, os.PathLike[str]] = None,
                 prefetch: Optional[int] = None, cpu_budget: Optional[int] = None,
                 index_folder: Union[None, str, os.PathLike[str]] = None,
                 progress: Progress = None, http: Optional[HttpOptions] = None,
                 writable: bool = True,
                 pinned: Union[bool, int] = False, repeat: bool = True) -> None:
        if last not in ("pad", "trim", "drop"):
            raise ValueError(f"last is {last!r}, not 'pad', 'trim' or 'drop'")
        if (rank is None) != (world is None):
            raise ValueError("rank and world are given together, or neither")
        plan = plan._without_remainder() if last == "drop" else plan
        self.plan = _repeated(plan) if repeat else plan
        self._one_pass = "repeat" not in self.plan.ops_of_stages
        self._epochs = self.plan.count_of_epochs()
        self._keys = keys
        self._last = last
        self._ranks = None if rank is None else (rank, world)
        self._context = context
        self._writable = writable
        self._pinned = pinned if isinstance(pinned, bool) else _device_number(pinned)
        self._pinned_device = -1  # the device of an open loader's page-locked memory; -1: none
        self._progress = progress
        self._options: Dict[str, Any] = {
            "quarantine": None if quarantine is None else os.fspath(quarantine),
            "prefetch": prefetch or 0, "cpu_budget": cpu_budget or 0,
            "index_folder": None if index_folder is None else os.fspath(index_folder),
            "http": None if http is None else http.core()}
        self._codes = codes_of(self.plan._attached.ops)
        self._core: Any = None
        self._pid = 0
        self.launcher: Optional[Launcher] = None
        self._token: Optional[str] = None  # behind which the stream begins when it is opened
        self._force = False
        self._epoch = 0  # of the batch that comes next
        self._inside = False  # True if that is not the first batch of its epoch
        self._resumed = False  # True if the next `for` goes on there all the same
        self._ended = False
        self._ahead: Optional[Tuple[Dict[str, Any], Optional[Batch]]] = None  # what peek has seen
        self._iteration = 0  # the number of the `for` that may read
        self._meter = Meter()

    # ---- Opening and closing ----

    def open(self) -> "Loader":
        """Opens the files, and indexes them where there is no index. Later calls do nothing."""
        if self._core is None:
            core = self._opened()
            self._check_keys(core)
            self._core, self._pid = core, os.getpid()
            self._meter.start(core)
            close_at_exit(self)
        elif self._pid != os.getpid():
            raise FailedPrecondition(
                "the loader was opened before this process forked: make another one here")
        return self

    def _opened(self) -> Any:
        rank, world = self._find_ranks()
        context = self._context or default_context()
        attached = self.plan._attached
        self._pinned_device = self._find_pinned_device()
        try:
            with Shown(self._progress, "B") as progress:
                return self._make_core(
                    self.plan.core(), context._core, rank=rank, world=world, token=self._token,
                    force=self._force, trim=self._last == "trim", readonly=not self._writable,
                    progress=progress, push=attached.push, memory=attached.memory or None,
                    ops=table_of(attached.ops), codes=self._codes, pinned=self._pinned_device,
                    **self._options)
        except PlanError as error:
            raise self.plan._placed(error) from None

    def _make_core(self, plan: _core.Plan, context: _core.Context, **options: Any) -> Any:
        return _core.Loader(plan, context, **options)

    def _find_pinned_device(self) -> int:
        if isinstance(self._pinned, bool):
            return self._find_device() if self._pinned else -1
        return self._pinned

    def _find_device(self) -> int:
        """Returns CUDA's number of the device to which batches are copied."""
        return 0

    def _check_keys(self, core: Any) -> None:
        names = [name for name, _, _ in core.schema()]
        keys = [self._keys] if isinstance(self._keys, str) else self._keys or ()
        for key in keys:
            if key.removesuffix("/row_splits") not in names and key not in self._more_keys:
                raise KeyError(f"no field {key!r}: batches have {', '.join(names)}")

    _more_keys: Tuple[str, ...] = ()  # keys of what is delivered besides fields

    def _find_ranks(self) -> Tuple[int, int]:
        if self._ranks is not None:
            return self._ranks  # type: ignore[return-value]
        self.launcher = find_ranks()
        return self.launcher.rank, self.launcher.world

    def close(self) -> None:
        """Stops the work under way. Batches stay valid; the next use goes on where this one was."""
        core, self._core = self._core, None
        if core is None or self._pid != os.getpid():
            return
        try:
            self._token = core.save() if self._ahead is None else self._ahead[0]["millrace"]
        except RuntimeError:  # another thread waits for a batch, and gets Cancelled
            pass
        self._ahead = None
        self._meter.stop(core)
        core.close()

    def cancel(self) -> None:
        """Makes a wait for a batch, in any thread, end with Cancelled."""
        if self._core is not None:
            self._core.cancel()

    def __enter__(self) -> "Loader":
        return self.open()

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __getstate__(self) -> Dict[str, Any]:
        state = dict(self.__dict__)
        state.update(_core=None, _pid=0, launcher=None, _ahead=None, _meter=Meter(),
                     _token=self.state_dict()["millrace"] or None)
        return state

    def __bool__(self) -> bool:
        return True

    # ---- Batches ----

    def next(self, timeout: Optional[float] = None) -> Optional[Any]:
        """Returns the next batch of the stream, over all epochs; None at its end.

        timeout: in seconds; TimeLimit is raised when it has passed.
        """
        if self._ahead is not None:
            batch, self._ahead = self._ahead[1], None
        else:
            core = self._core if self._core is not None else self.open()._core
            batch = core.next() if timeout is None else core.next(_nanoseconds(timeout))
        if batch is None:
            self._inside = False
            self._ended = True
            return None
        ends = batch.ends_epoch
        self._inside = not ends
        self._epoch = batch.epoch + ends
        return batch

    def _deliver(self, batch: Batch) -> Any:
        """Makes of a batch what `for` gives."""
        keys = self._keys
        if keys is None:
            return batch
        if isinstance(keys, str):
            return batch[keys]
        return tuple([batch[key] for key in keys])

    def __iter__(self) -> Iterator[Any]:
        self._begin_epoch()
        deliver, iteration = self._deliver, self._iteration
        try:
            while True:
                if iteration != self._iteration:
                    raise RuntimeError(
                        "another `for` has begun on this loader: it has one position")
                try:
                    batch = self.next()
                    delivered = [] if batch is None else [deliver(batch)]
                except BaseException:  # such as OutOfBudget: the next `for` goes on here
                    self._resumed = True
                    raise
                if batch is None:
                    return
                yield delivered.pop()  # it is the program's alone
                if batch.ends_epoch and not self._one_pass:
                    return
        finally:
            if iteration == self._iteration:
                self._meter.stop(self._core)

    def _begin_epoch(self) -> None:
        self.open()
        self._iteration += 1
        if not self._resumed:
            if self._inside and not self._one_pass:
                self._move_to(self._epoch + 1)
            if self._ended or self._epoch == self._epochs:
                raise OutOfRange(
                    "the stream has ended, as the plan says; set_epoch(0) starts it again")
        self._resumed = False
        self._start_meter()

    def _start_meter(self) -> None:
        self._meter.start(self._core, self._ahead[1] if self._ahead is not None else None)

    @property
    def is_inside_epoch(self) -> bool:
        """True if the batch delivered last does not end its epoch."""
        return self._inside

    def _move_to(self, epoch: int) -> None:
        """Goes to the first batch of an epoch."""
        self._ahead = None
        per_epoch = self._per_epoch()
        if per_epoch:
            self._core.seek(epoch * per_epoch)
            self._epoch, self._inside, self._ended = epoch, False, False
            return
        if epoch < self._epoch or (epoch == self._epoch and self._inside) or self._ended:
            self._restart()
        while self._epoch < epoch:
            if self.next() is None:
                raise OutOfRange(f"the stream ends before epoch {epoch}")

    def _restart(self) -> None:
        """Opens the stream at its beginning, also where seek is refused."""
        self._core.close()
        self._core = self._token = None
        self._epoch, self._inside, self._ended = 0, False, False
        self.open()

    # ---- Lengths and epochs ----

    def _per_epoch(self) -> int:
        """The number of batches of each epoch; 0 if that is not known, or differs."""
        if not self.plan.has_equal_epochs():
            return 0
        _, known, batches, per_epoch = self._length()
        if known and self._one_pass:
            return batches
        return per_epoch if known else 0

    def _length(self) -> Tuple[bool, bool, int, int]:
        return self.open()._core.length()  # type: ignore[no-any-return]

    def __len__(self) -> int:
        _, known, batches, per_epoch = self._length()
        if known and self.plan.has_equal_epochs() and (per_epoch or self._one_pass):
            return per_epoch or batches
        raise TypeError("how many batches an epoch has is not known, or differs from epoch to epoch")

    def set_epoch(self, epoch: int) -> None:
        """Makes the next `for` go through this epoch.

        It takes no time where the number of batches of an epoch is known. Else the batches before
        it are read. Behind load_state_dict, the epoch of the state goes on where the state was.
        """
        epoch = operator.index(epoch)
        if epoch < 0:
            raise ValueError(f"there is no epoch {epoch}")
        self.open()
        self._start_meter()
        if epoch == self._epoch and not self._ended and (self._resumed or not self._inside):
            return
        self._resumed = False
        self._move_to(epoch)

    # ---- State ----

    def state_dict(self) -> Dict[str, Any]:
        """The state of the stream behind the batch delivered last: a few bytes of text.

        It is the same on every rank, and fits a job of any number of ranks.
        """
        if self._ahead is not None:
            return self._ahead[0]
        token = self._token or "" if self._core is None else self._core.save()
        return state_of(token, self._epoch, self._inside, self._codes)

    def load_state_dict(self, state: Dict[str, Any], *, force: bool = False) -> None:
        """Goes on behind the batch that the state came from: the next `for` reads the rest of its
        epoch. Of a loader that is not open, the state is checked when it is opened.

        force: True if a state of another plan or of other data is taken too.

        OpChangedWarning: a Python op has other code than the op of the same version had.
        """
        try:
            token, epoch, inside = state["millrace"], state["epoch"], state["inside"]
            warn_of_changes(state.get("ops", {}), self._codes)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError("not a state of state_dict()") from error
        if self._core is None or force:
            self.close()
            self._token, self._force = token or None, force
        elif token:
            self._core.restore(token)
        else:
            self._restart()
        self._epoch, self._inside = epoch, inside
        self._resumed, self._ended, self._ahead = True, False, None

    # ---- What it is ----

    @property
    def spec(self) -> Tuple[Field, ...]:
        """The fields of batches. Nothing but the first records is read for it."""
        return tuple(Field(name, dtype, tuple(None if extent < 0 else extent for extent in shape))
                     for name, dtype, shape in self.open()._core.schema())

    def peek(self) -> Batch:
        """Returns the next batch without moving the stream."""
        if self._ahead is None:
            state, epoch, inside = self.state_dict(), self._epoch, self._inside
            batch = self.next()
            self._ahead = (state, batch)
            self._epoch, self._inside, self._ended = epoch, inside, False
        if self._ahead[1] is None:
            raise OutOfRange("the stream has ended")
        return self._ahead[1]

    def locate(self, sample_id: Sequence[int]) -> Tuple[str, int, int]:
        """Returns the file, the offset and the ordinal of a sample's record.

        sample_id: a row of batch.ids.
        """
        return self.open()._core.locate(*map(int, sample_id))  # type: ignore[no-any-return]

    def stats(self) -> Dict[str, float]:
        """How fast batches came, and how long the program waited for them: of the `for` that runs,
        or that ran last; without one, since the loader was opened or set_epoch was called.

        batches, samples: the batches delivered, and this rank's samples in them.
        seconds: the time since the `for` began, up to its end.
        samples_per_second: samples / seconds.
        waits: the calls that found no batch ready.
        wait_seconds: their time. Where the pipeline keeps up it is short.
        wait_fraction: wait_seconds / seconds.
        """
        return self._meter.read(self._core)

    def diagnose(self) -> Diagnosis:
        """Says why the program waits for batches, and which change would help most: str() of it is
        one sentence. It is about the time that stats() is about.

        FailedPrecondition: nothing was measured yet, or another process has opened the loader.
        """
        if self._core is not None and self._pid != os.getpid():
            raise FailedPrecondition("the loader was opened before this process forked")
        text = self._meter.diagnose(self._core)
        if text is None:
            raise FailedPrecondition("nothing was measured: the loader was not opened yet")
        return Diagnosis(text)

    @property
    def metrics(self) -> Dict[str, float]:
        """The metrics of its context, which all loaders of the context add to."""
        return (self._context or default_context()).metrics

    def __repr__(self) -> str:
        state = "open" if self._core is not None else "not opened"
        return f"<{type(self).__name__}, {state}: {self.plan!r}>"


def _device_number(pinned: int) -> int:
    number = operator.index(pinned)
    if number < 0:
        raise ValueError(f"pinned is {number}, not CUDA's number of a device")
    return number


def _nanoseconds(seconds: float) -> int:
    if not 0 <= seconds < math.inf:
        raise ValueError(f"timeout is {seconds}, not a number of seconds")
    return int(min(seconds, 1e9) * 1e9)


def _repeated(plan: Plan) -> Plan:
    """Returns the plan, repeated for ever behind its batches where it may be."""
    if plan.ops_of_stages.isdisjoint(("repeat", "push")):
        try:
            return plan._repeated()
        except PlanError:  # an input repeats already, or the plan is not whole
            pass
    return plan

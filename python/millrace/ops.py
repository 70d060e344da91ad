"""Python functions inside the pipeline: on runs of samples, or on finished batches.

They run in the pipeline's threads, one at a time, since Python has one lock. Their random numbers
depend on the sample alone, never on threads or ranks, so that a run can be repeated and resumed.
"""

from __future__ import annotations

import threading  # noqa: F401  its first importer is Python's main thread, which no worker must be
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple, Union

from millrace import _core
from millrace._codes import hash_of

__all__ = ["BatchOp", "BatchRows", "FieldSpec", "RunOp", "Rows", "batch_op", "field", "op"]


class FieldSpec(NamedTuple):
    """A field that an op writes."""

    name: str
    dtype: str
    shape: Tuple[int, ...]  #: of a row; -1: different from row to row


_DTYPES = ("bytes", "uint8", "int32", "int64", "float16", "bfloat16", "float32", "float64")


def field(name: str, dtype: Any, shape: Sequence[Optional[int]] = ()) -> FieldSpec:
    """Declares a field that an op writes; None in a shape differs from row to row.

    dtype: such as "float32", or a dtype of NumPy, torch or JAX.
    """
    word = dtype if isinstance(dtype, str) else getattr(dtype, "__name__", None) or str(dtype)
    word = word.rpartition(".")[2].lower()  # torch's begin with "torch."
    if word not in _DTYPES:
        raise ValueError(f"dtype of field {name!r} is {dtype!r}, not one of {', '.join(_DTYPES)}")
    return FieldSpec(name, word, tuple(-1 if extent is None else extent for extent in shape))


class _Random:
    """Random numbers of rows, drawn one after the other from the words of each row."""

    def __init__(self, words: Callable[[int], Any]) -> None:
        self._words = words
        self._used = 0

    def take(self, count: int) -> Any:
        """Returns the next words of each row: uint32[rows, count]."""
        self._used += count
        return self._words(self._used)[:, self._used - count:]

    def uniform(self, shape: Sequence[int]) -> Any:
        """Returns float32[rows, *shape] in [0, 1)."""
        import numpy as np
        words = self.take(_product(shape)) >> np.uint32(8)
        return (words.astype(np.float32) * np.float32(2**-24)).reshape(len(words), *shape)

    def normal(self, shape: Sequence[int]) -> Any:
        """Returns float32[rows, *shape] of the normal distribution, two words for a number."""
        import numpy as np
        count = _product(shape)
        words = (self.take(2 * count) >> np.uint32(8)).astype(np.float64) * 2**-24
        radius = np.sqrt(-2 * np.log1p(-words[:, :count]))
        normal = radius * np.cos(2 * np.pi * words[:, count:])
        return normal.astype(np.float32).reshape(len(words), *shape)


def _product(shape: Sequence[int]) -> int:
    product = 1
    for extent in shape:
        product *= extent
    return product


class _Draws:
    """The random numbers that the rows of an op have."""

    _random: _Random

    def words(self, count: int) -> Any:
        """Returns the next random words of each row: uint32[rows, count]."""
        return self._random.take(count)

    def uniform(self, *shape: int) -> Any:
        """Returns a random number in [0, 1) for each row, or an array of this shape for each."""
        return self._random.uniform(shape)

    def normal(self, *shape: int) -> Any:
        """The same of the normal distribution with mean 0 and variance 1."""
        return self._random.normal(shape)


class _Outputs:
    """The arrays that an op fills: out["name"] over all rows, or out["name", row] = value where the
    shapes of the field differ from row to row."""

    def __init__(self, view: Any) -> None:
        self._view = view

    def __getitem__(self, name: str) -> Any:
        return self._view.writes[name]

    def __setitem__(self, key: Union[str, Tuple[str, int]], value: Any) -> None:
        if isinstance(key, str):
            self._view.writes[key][...] = value
            return
        import numpy as np
        name, row = key
        if isinstance(value, (bytes, bytearray, memoryview)):
            value = np.frombuffer(value, np.uint8)
        value = np.asarray(value)
        self._view.allocate(name, row, value.shape)[...] = value


class Rows(_Draws):
    """Samples, while an op works on them: `len(rows)` of them, and not behind the call.

    rows["image"] is an array over all rows, or a list of a value for each row where their shapes
    differ; bytes come as a list of bytes. A row with rows.ok False failed before, and is skipped.
    """

    def __init__(self, view: Any) -> None:
        self._view = view
        self._random = _Random(view.random)
        self.out = _Outputs(view)

    def __len__(self) -> int:
        return self._view.rows  # type: ignore[no-any-return]

    def __getitem__(self, name: str) -> Any:
        return self._view.reads[name]

    @property
    def ok(self) -> Any:
        """A bool per row."""
        return self._view.ok

    @property
    def ids(self) -> Any:
        """int64[rows, 3]: epoch, record, number within the record."""
        return self._view.ids

    @property
    def options(self) -> str:
        """The options of the stage."""
        return self._view.options  # type: ignore[no-any-return]

    def fail(self, row: int, message: str) -> None:
        """Makes a row's value damage (DataLoss), as the plan's on_damage treats it."""
        self._view.fail(row, 15, message)


class BatchRows(_Draws):
    """A finished batch, while an op changes it in place: batch["image"] is the array of a field.

    Rows where batch.valid is False are padding and must stay 0.
    """

    def __init__(self, view: Any) -> None:
        self._view = view
        self._random = _Random(view.random)
        self._whole = _Random(lambda count: view.random(count, True))

    def __getitem__(self, name: str) -> Any:
        return self._view.fields[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self._view.fields[name][...] = value

    def keys(self) -> Iterable[str]:
        """The names of the fields."""
        return self._view.fields.keys()  # type: ignore[no-any-return]

    def whole(self, *shape: int) -> Any:
        """Returns random numbers in [0, 1) of the batch as a whole, the same on every rank."""
        return self._whole.uniform(shape)[0]

    def __getattr__(self, name: str) -> Any:
        if name in ("valid", "ids", "index", "epoch", "rows", "first_global_row",
                    "global_valid_rows", "options"):
            return getattr(self._view, name)
        raise AttributeError(name)


class RunOp:
    """A function on runs of samples, for Plan.op."""

    def __init__(self, function: Callable[[Rows], Any], name: str, version: int,
                 reads: List[str], writes: List[FieldSpec], removes: List[str],
                 rows: int) -> None:
        self.function, self.name, self.version = function, name, version
        self.reads, self.writes, self.removes, self.rows = reads, writes, removes, rows
        self.code = hash_of(function)
        self.__module__ = function.__module__

    def __call__(self, rows: Rows) -> Any:
        return self.function(rows)

    def add_to(self, table: Any) -> None:
        """Registers it in a table of _core."""
        function = self.function
        table.add_run(self.name, self.version, lambda view: _none(function(Rows(view))),
                      self.reads, self.writes, self.removes, self.rows)

    def in_runs_of(self, rows: int) -> RunOp:
        """Returns the same op, which would rather get so many samples at once."""
        return RunOp(self.function, self.name, self.version, self.reads, self.writes, self.removes,
                     rows)

    def __reduce__(self) -> str:  # by its name in its module
        return self.function.__qualname__


class BatchOp:
    """A function on finished batches, for Plan.op."""

    def __init__(self, function: Callable[[BatchRows], Any], name: str, version: int,
                 group_rows: int) -> None:
        self.function, self.name, self.version = function, name, version
        self.group_rows = group_rows
        self.code = hash_of(function)
        self.__module__ = function.__module__

    def __call__(self, batch: BatchRows) -> Any:
        return self.function(batch)

    def add_to(self, table: Any) -> None:
        """Registers it in a table of _core."""
        function = self.function
        table.add_batch(self.name, self.version, lambda view: _none(function(BatchRows(view))),
                        self.group_rows)

    def in_runs_of(self, rows: int) -> BatchOp:
        """Returns itself: it gets whole batches."""
        return self

    def __reduce__(self) -> str:  # by its name in its module
        return self.function.__qualname__


def _none(result: Any) -> None:
    if result is not None:
        raise TypeError("an op writes its results into `out` or in place, and returns nothing: it "
                        f"returned {type(result).__name__}")


def op(*, reads: Union[str, Sequence[str]] = (), writes: Union[FieldSpec, Sequence[FieldSpec]] = (),
       removes: Union[str, Sequence[str]] = (), version: int = 1, name: Optional[str] = None,
       rows: int = 16) -> Callable[[Callable[[Rows], Any]], RunOp]:
    """Makes a function of Rows an op of plans.

    reads, removes: names of the fields that it reads, and of those that samples lose.
    writes: the fields that it writes, new ones or instead of old ones.
    version: another number for a function that computes something else; a state of another version
        is refused. A state of the same version and other code is an OpChangedWarning.
    name: its name in plans; None: that of the function.
    rows: the samples that it would rather get at once. Results must not depend on it.
    """
    def decorate(function: Callable[[Rows], Any]) -> RunOp:
        return RunOp(function, name or function.__name__, version, _names(reads),
                     _fields(writes), _names(removes), rows)
    return decorate


def batch_op(*, version: int = 1, name: Optional[str] = None,
             group_rows: int = 1) -> Callable[[Callable[[BatchRows], Any]], BatchOp]:
    """Makes a function of BatchRows an op of plans, which changes finished batches in place.

    version, name: as for op.
    group_rows: the rows that are mixed with each other.
    """
    def decorate(function: Callable[[BatchRows], Any]) -> BatchOp:
        return BatchOp(function, name or function.__name__, version, group_rows)
    return decorate


def _fields(writes: Union[FieldSpec, Sequence[FieldSpec]]) -> List[FieldSpec]:
    fields = [writes] if isinstance(writes, FieldSpec) else list(writes)
    for one in fields:
        if not isinstance(one, FieldSpec):
            raise TypeError(f"writes has {one!r}, not what millrace.field(name, dtype, shape) makes")
    return fields


def _names(names: Union[str, Sequence[str]]) -> List[str]:
    return [names] if isinstance(names, str) else list(names)


def table_of(ops: Iterable[Union[RunOp, BatchOp]]) -> Any:
    """Returns a table of _core with these ops; None if there are none."""
    by_name: Dict[Tuple[str, int], Union[RunOp, BatchOp]] = {}
    for one in ops:
        if by_name.setdefault((one.name, one.version), one) is not one:
            raise ValueError(f"two ops are named {one.name!r} and have version {one.version}")
    if not by_name:
        return None
    table = _core.Ops()
    for one in by_name.values():
        one.add_to(table)
    return table

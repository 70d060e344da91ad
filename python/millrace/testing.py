"""Checks for programs that extend Millrace."""
from __future__ import annotations

from typing import Any, List, Tuple

from .context import Context
from .plan import Plan

__all__ = ["check_op"]


def check_op(plan: Plan, batches: int = 4) -> None:
    """Checks that the Python ops of a plan give each sample the same bits however it is read: by one
    thread and by several, in runs of one sample and of many, again, by two ranks, and behind a
    resume.

    Args:
      plan: Its first `batches` batches are compared.

    AssertionError: the name of the field, and the id of the first sample that differs.
    """
    expected = _read(plan, batches, threads=1)
    _compare(expected, _read(plan, batches, threads=1), "read again")
    _compare(expected, _read(plan, batches, threads=4), "read by 4 threads")
    _compare(expected, _read(_in_single_rows(plan), batches, threads=1), "in runs of one sample")
    _compare(expected, _join(*(_read(plan, batches, rank=rank) for rank in range(2))),
             "read by 2 ranks")
    _compare(expected[1:], _read(plan, batches, skip=1), "resumed")


Read = List[Tuple[Any, Any]]  # of each batch, its ids and its arrays by name


def _read(plan: Plan, batches: int, *, threads: int = 2, rank: int | None = None,
          skip: int = 0) -> Read:
    context = Context(threads=threads)
    world = None if rank is None else 2
    with plan.numpy(context=context, rank=rank, world=world) as loader:
        if skip:
            for _ in range(skip):
                loader.next()
            state = loader.state_dict()
            loader.close()
            loader.load_state_dict(state)
        return [_copy(batch) for batch in _first(loader, batches - skip)]


def _first(loader: Any, count: int) -> Any:
    for _ in range(count):
        batch = loader.next()
        if batch is None:
            return
        yield batch


def _copy(batch: Any) -> tuple[Any, Any]:
    return batch.ids.copy(), {name: batch.bits(name).copy() for name in batch}


def _in_single_rows(plan: Plan) -> Plan:
    attached = plan._attached
    return plan._with(_attached=attached._replace(
        ops=tuple(op.in_runs_of(1) for op in attached.ops)))


def _join(*ranks: Read) -> Read:
    import numpy as np
    return [(np.concatenate([ids for ids, _ in parts]),
             {name: np.concatenate([fields[name] for _, fields in parts]) for name in parts[0][1]})
            for parts in zip(*ranks)]


def _compare(expected: Read, found: Read, how: str) -> None:
    import numpy as np
    assert len(expected) == len(found), f"{how}: {len(found)} batches, not {len(expected)}"
    for (ids, fields), (_, others) in zip(expected, found):
        for name, array in fields.items():
            other = others[name]
            assert array.shape == other.shape, f"{how}: field {name!r} has shape {other.shape}, " \
                f"not {array.shape}"
            rows = len(array)
            bits, other_bits = _bytes_of(array), _bytes_of(other)
            differ: Any = np.flatnonzero((bits != other_bits).any(axis=1)) if rows else []
            assert len(differ) == 0, (f"{how}: field {name!r} of the sample (epoch, record, "
                                      f"sub_index) = {tuple(ids[differ[0]].tolist())} differs")


def _bytes_of(array: Any) -> Any:
    import numpy as np
    return np.ascontiguousarray(array).reshape(len(array), -1).view(np.uint8)

"""What a plan needs of the program: ops, and sources of records."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterable, Mapping, NamedTuple

if TYPE_CHECKING:
    from .ops import BatchOp, RunOp


class Attached(NamedTuple):
    """Objects of the program that a plan's stages name."""

    push: Any = None                         # a Push of _core
    memory: Mapping[str, Any] = {}           # by the names of the stages
    ops: tuple[RunOp | BatchOp, ...] = ()

    def joined(self, others: Iterable[Attached]) -> Attached:
        """Returns these objects and those of other plans, which become a part of this one.

        ValueError: two stages with one name, or two push sources.
        """
        push, memory, ops = self.push, dict(self.memory), self.ops
        for other in others:
            if push is not None and other.push is not None and push is not other.push:
                raise ValueError("a plan has one push source")
            for name, records in other.memory.items():
                if memory.setdefault(name, records) is not records:
                    raise ValueError(f"two stages named {name!r} have different records: "
                                     "give each its own name by stage=")
            push = push if other.push is None else other.push
            ops = (*ops, *(op for op in other.ops if op not in ops))
        return Attached(push, memory, ops)

"""Records that come from the program: a list, or a stream that threads feed."""

from __future__ import annotations

from typing import Any, Iterable, Optional, Union

from millrace import _core, _sources
from millrace._units import to_bytes
from millrace.errors import Error
from millrace.plan import Plan

__all__ = ["Memory", "PushSource", "memory", "push"]


class Memory(_core.Memory):
    """Records in memory, each bytes or a buffer; they are copied. For millrace.memory."""

    __slots__ = ()


class PushSource:
    """A stream of records that the program feeds, from any threads. For millrace.push.

    name: the name of the stream, on which the fingerprint of its data depends.
    max_bytes: the most bytes of records that wait to be read, a number or such as "64MiB".

    Leaving a `with` or `async with` block ends the stream; an exception in it becomes the error that
    the loader raises behind the last record.
    """

    def __init__(self, name: str = "push", max_bytes: Union[int, str] = "64MiB") -> None:
        self._core: Any = _core.Push(name, to_bytes(max_bytes))
        self._room: Any = None  # the Room of the event loop that pushed last

    def push(self, record: Any, timeout: Optional[float] = None) -> bool:
        """Appends a copy of a record, bytes or a buffer; waits while the stream is full.

        timeout: in seconds; returns False if the stream stayed full for so long.
        Raises Cancelled if the loader has ended, so that nothing will read the record.
        """
        if timeout is None:
            return self._core.push(record)  # type: ignore[no-any-return]
        return self._core.push(record, int(timeout * 1e9))  # type: ignore[no-any-return]

    async def apush(self, record: Any) -> None:
        """Appends a copy of a record, bytes or a buffer, in a task of asyncio; other tasks run while
        the stream is full. Tasks that wait are served in their order. The record of a task that is
        cancelled meanwhile is not in the stream, which goes on.

        Raises Cancelled if the loader has ended, so that nothing will read the record.
        """
        import asyncio

        from millrace._room import Room
        loop = asyncio.get_running_loop()
        if self._room is None or self._room.loop is not loop:
            self._room = Room(self._core, loop)
        await self._room.push(record)

    def finish(self) -> None:
        """Ends the stream behind the last record."""
        self._core.finish()

    def fail(self, error: BaseException) -> None:
        """Ends the stream with an error, which the loader raises behind the last record."""
        code = error.code if isinstance(error, Error) else 2
        self._core.fail(code, f"{type(error).__name__}: {error}")

    def __enter__(self) -> "PushSource":
        return self

    def __exit__(self, kind: Any, error: Optional[BaseException], _: Any) -> None:
        if error is None:
            self.finish()
        else:
            self.fail(error)

    async def __aenter__(self) -> "PushSource":
        return self

    async def __aexit__(self, kind: Any, error: Optional[BaseException], trace: Any) -> None:
        self.__exit__(kind, error, trace)


def memory(records: Union[None, Memory, Iterable[Any]] = None, *, stage: str = "memory") -> Plan:
    """Records in memory: a Memory, or records of which copies are made. Without any the plan cannot
    be opened.

    stage: the stage's name; each memory stage of a plan has its own.
    """
    if records is None:
        return _sources.memory(stage=stage)
    held = records if isinstance(records, Memory) else Memory(records)
    return _sources.memory(stage=stage)._attach(memory={stage: held})


def push(source: Optional[PushSource] = None, *, stage: str = "push") -> Plan:
    """The records of a PushSource, once: no `repeat`, `global_shuffle` or materialized filter may
    follow. Without a source the plan cannot be opened."""
    if source is None:
        return _sources.push(stage=stage)
    return _sources.push(stage=stage)._attach(push=source._core)

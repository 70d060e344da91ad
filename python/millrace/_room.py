"""The wait of asyncio's tasks for room in a stream that is pushed."""
from __future__ import annotations

import asyncio
import functools
import weakref
from typing import Any, Optional


class Room:
    """Pushes the records of an event loop's tasks, one task after the other. No thread waits: the
    stream calls when there is room."""

    def __init__(self, core: Any, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._core = core
        self._turn = asyncio.Lock()
        self._is_told = False  # true while the stream is to call
        self._waiter: Optional[asyncio.Future[None]] = None

    async def push(self, record: Any) -> None:
        async with self._turn:
            while not self._core.push(record, 0):
                self._ask_to_be_told()
                if self._core.push(record, 0):  # room that came before
                    return
                await self._wait()

    def _ask_to_be_told(self) -> None:
        if not self._is_told:
            # The stream ends when nobody holds it any more: its call must not hold it.
            self._core.on_room(functools.partial(_tell, weakref.ref(self)))
            self._is_told = True

    async def _wait(self) -> None:
        self._waiter = self.loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def wake(self) -> None:
        """Called by the loop."""
        self._is_told = False
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def _tell(reference: weakref.ref[Room]) -> None:
    """Called by any thread."""
    room = reference()
    if room is None:
        return
    try:
        room.loop.call_soon_threadsafe(room.wake)
    except RuntimeError:  # the loop was closed
        pass

"""Places in the caller's program, by which mistakes in a plan are reported."""
from __future__ import annotations

import os
import sys
from types import FrameType
from typing import NamedTuple

_PACKAGE = __name__.partition(".")[0]


class Place(NamedTuple):
    """A line of a program."""
    file: str
    line: int

    def __str__(self) -> str:
        return f"{_short(self.file)}:{self.line}"


def caller() -> Place:
    """Returns the line outside of this package that is calling it."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_back is not None and _is_ours(frame):
        frame = frame.f_back
    assert frame is not None
    return Place(frame.f_code.co_filename, frame.f_lineno)


def _is_ours(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] == _PACKAGE


def _short(file: str) -> str:
    """Returns the name relative to the current folder, if the file lies below it."""
    try:
        relative = os.path.relpath(file)
    except (OSError, ValueError):
        return file
    return file if relative.startswith(os.pardir) or file.startswith("<") else relative

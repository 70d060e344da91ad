"""The loaders that are open. Their threads may call functions of Python, so they end first."""
from __future__ import annotations

import atexit
import os
import time
import weakref
from typing import Any

from . import _core

_open: weakref.WeakSet[Any] = weakref.WeakSet()


def close_at_exit(loader: Any) -> None:
    """Has a loader closed before the interpreter ends."""
    _open.add(loader)


def _end() -> None:
    cores = [loader._core for loader in list(_open)
             if loader._core is not None and loader._pid == os.getpid()]
    for core in cores:
        core.close()
    for core in cores:
        while core.busy:  # another thread is on its way out of it
            time.sleep(0.001)
    _core.end()


atexit.register(_end)

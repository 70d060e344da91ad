"""The threads and the memory that loaders share."""

import os
import sys
from typing import Any, Dict, Optional, Union

from millrace import _core
from millrace._units import to_bytes

__all__ = ["Context", "default_context"]


def log(level: int, message: str) -> None:
    """Writes a message to the logger "millrace"; 0: information, 1: a warning, 2: an error."""
    if level == 0 and "logging" not in sys.modules:
        return  # the program has asked for no information, and importing logging takes time
    import logging
    logging.getLogger("millrace").log(logging.INFO + 10 * level, "%s", message)


class Context:
    """Worker threads, files and a memory budget, for all loaders that are given it.

    threads: the number of worker threads; None: the cores that the process may use.
    memory_budget: for all its loaders together, in bytes or as "2GiB"; None: 2 GiB.
    batch_priority: True if the workers run below threads that compute (SCHED_BATCH).

    Messages go to the logger "millrace". One context is enough for a process: loaders that are
    given none share default_context().
    """

    def __init__(self, threads: Optional[int] = None,
                 memory_budget: Union[int, str, None] = None, *,
                 batch_priority: bool = False) -> None:
        self._core: Any = _core.Context(
            threads=threads or 0, memory_budget_bytes=to_bytes(memory_budget),
            batch_priority=batch_priority, log=log)
        self._pid = os.getpid()

    @property
    def metrics(self) -> Dict[str, float]:
        """The metrics by their names. A name has its label behind it:
        'millrace_records_damaged_total{reason="data_crc"}'."""
        lines = (line.rsplit(" ", 1) for line in self._core.metrics().splitlines()
                 if not line.startswith("#"))
        return {name: float(value) for name, value in lines}

    def prometheus(self) -> str:
        """Returns the metrics in Prometheus' text format, for a program that serves them."""
        text: str = self._core.metrics()
        return text


_default: Optional[Context] = None


def default_context() -> Context:
    """Returns the context of the loaders that are given none. A forked child makes its own."""
    global _default
    if _default is None or _default._pid != os.getpid():
        _default = Context()
    return _default

"""Progress as users want to see it: by a function of their own, or as a bar of tqdm."""
from __future__ import annotations

import sys
import warnings
from typing import Any, Callable, Optional, Union

# True: a bar; a function of (done, total); else none.
Progress = Union[None, bool, Callable[[int, int], Any]]


class Shown:
    """The function that shows progress, in a block: None, that of the caller, or of tqdm's bar."""

    def __init__(self, progress: Progress, unit: str) -> None:
        self._function = None if isinstance(progress, bool) else progress
        self._bar: Any = None
        if progress is not True:
            return
        try:
            from tqdm.auto import tqdm
        except ImportError:
            warnings.warn("progress=True shows nothing, since tqdm is not installed", stacklevel=4)
            return
        self._bar = tqdm(unit=unit, file=sys.stderr)
        self._function = self._update

    def _update(self, done: int, total: int) -> None:
        self._bar.total = total or None
        self._bar.update(done - self._bar.n)

    def __enter__(self) -> Optional[Callable[[int, int], Any]]:
        return self._function

    def __exit__(self, *_: Any) -> None:
        if self._bar is not None:
            self._bar.close()

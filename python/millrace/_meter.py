"""How fast a loader delivers, how long its program waits for it, and why."""
from __future__ import annotations

import time
from typing import Any, Dict, Optional


class Meter:
    """What a loader has delivered since a moment."""

    def __init__(self) -> None:
        self._counts = (0, 0, 0, 0)
        self._begin = time.perf_counter()
        self._stopped: Optional[Dict[str, float]] = None
        self._diagnosis: Optional[str] = None  # at the stop

    def start(self, core: Any, ahead: Any = None) -> None:
        """Makes this the moment. core: of the loader. ahead: a batch that the core has delivered,
        but that counts as delivered later."""
        batches, samples, waits, wait_ns = core.counts
        if ahead is not None:
            batches, samples = batches - 1, samples - ahead.valid_rows
        self._counts = (batches, samples, waits, wait_ns)
        self._begin = time.perf_counter()
        self._stopped = self._diagnosis = None
        core.measure_anew()

    def stop(self, core: Any) -> None:
        """Keeps what was so far, until the next start. core: of the loader; None: none is open."""
        if self._stopped is None:
            self._stopped = self.read(core)
            try:
                self._diagnosis = core.diagnose() if core is not None else None
            except (RuntimeError, ValueError):  # closed, used by another thread, or forked
                pass

    def diagnose(self, core: Any) -> Optional[str]:
        """Returns a diagnosis in JSON; None if nothing was measured. core: as in stop."""
        if self._stopped is not None:
            return self._diagnosis
        diagnosis: Optional[str] = core.diagnose() if core is not None else None
        return diagnosis

    def read(self, core: Any) -> Dict[str, float]:
        """Returns the figures of Loader.stats."""
        if self._stopped is not None:
            return dict(self._stopped)
        seconds = max(time.perf_counter() - self._begin, 1e-9)
        counts = core.counts if core is not None else self._counts
        batches, samples, waits, wait_ns = (now - then for now, then in zip(counts, self._counts))
        wait_seconds = wait_ns / 1e9
        return {"batches": batches, "samples": samples, "seconds": seconds,
                "samples_per_second": samples / seconds, "waits": waits,
                "wait_seconds": wait_seconds, "wait_fraction": wait_seconds / seconds}

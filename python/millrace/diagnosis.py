"""Why a program waits for the batches of a loader."""
from __future__ import annotations

from typing import Any, Dict, NamedTuple, Optional, Tuple

__all__ = ["Diagnosis", "WhatIf"]


class WhatIf(NamedTuple):
    """A change, and what it is predicted to bring."""

    what: str  #: a few words, such as "+1 thread"
    setting: Optional[str]  #: what makes it, such as "cpu_budget=2"; None: no setting does
    samples_per_second: float
    gain: float  #: of the rate: 0.5 for half as much again
    at_least: bool  #: True if more may come of it


class Diagnosis:
    """What limits a loader, from Loader.diagnose. str() is the sentence.

    json: all numbers as one JSON object, that of `millrace run --json`.

    The model is that of `millrace explain --analyze`. The use of processors and of the memory
    budget is that of all loaders of the process.
    """

    __slots__ = ("json",)

    def __init__(self, text: str) -> None:
        self.json = text

    @property
    def dict(self) -> Dict[str, Any]:
        """All numbers: wait_ns_by_cause, parts of the work, resources, binding and others. None
        stands for those that are not known."""
        import json  # here: most programs need none of it
        numbers: Dict[str, Any] = json.loads(self.json)
        return numbers

    @property
    def verdict(self) -> str:
        """NOT, MODERATELY or HIGHLY input-bound: by waits of less than 5 %, of less than 20 %, and
        of more of the time."""
        return str(self.dict["verdict"])

    @property
    def sentence(self) -> str:
        """The verdict, what limits the loader, and the change that would help most."""
        return str(self.dict["sentence"])

    @property
    def wait_fraction(self) -> float:
        """The part of the time in which the program waited for a batch."""
        return float(self.dict["wait_fraction"])

    @property
    def what_ifs(self) -> Tuple[WhatIf, ...]:
        """Changes, each by itself."""
        return tuple(WhatIf(**change) for change in self.dict["what_ifs"])

    @property
    def change(self) -> Optional[WhatIf]:
        """The one of them that the sentence proposes; None: no change is predicted to help."""
        change = self.dict["change"]
        return None if change is None else WhatIf(**change)

    def __str__(self) -> str:
        return self.sentence

    def __repr__(self) -> str:
        return f"<Diagnosis: {self.sentence}>"

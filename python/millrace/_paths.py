"""Names of files in a plan that is saved: from then on relative ones are relative to the folder of
the plan's file, not to the current folder (docs/semantics.md, S-PLAN-17)."""
from __future__ import annotations

import os
import re

_LIST = "list:"


def absolute(name: str, is_pattern: bool) -> str:
    """Returns the name with the current folder in front, if it is relative to it."""
    begin = len(_LIST) if name.startswith(_LIST) else 0
    bare = name[begin:].lstrip("{")
    if "://" in name or not bare or bare.startswith("/"):
        return name
    folder = os.path.join(os.getcwd(), "")
    if begin:
        return _LIST + folder + name[begin:]
    return (re.sub(r"([*?\[\]{}\\])", r"\\\1", folder) if is_pattern else folder) + name

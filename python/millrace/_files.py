"""What the package brings for programs in other languages."""
from __future__ import annotations

import os

__all__ = ["get_include", "get_library"]

_FOLDER = os.path.dirname(os.path.abspath(__file__))


def get_include() -> str:
    """Returns the folder of millrace.h and the headers beside it."""
    return os.path.join(_FOLDER, "include")


def get_library() -> str:
    """Returns the path of libmillrace.so.1, which Python has loaded too."""
    return os.path.join(_FOLDER, "libmillrace.so.1")

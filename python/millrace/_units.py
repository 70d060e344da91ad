"""Numbers of bytes as people write them."""

import re
from typing import Union

_UNITS = {"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
          "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


def to_bytes(size: Union[int, str, None]) -> int:
    """Returns a number of bytes of a number or a text such as "64MiB"; 0 for None."""
    if size is None:
        return 0
    if isinstance(size, int):
        if not 0 <= size < 1 << 63:
            raise ValueError(f"not a number of bytes: {size}")
        return size
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", size)
    if not found or found[2] not in _UNITS:
        raise ValueError(f"not a number of bytes, such as '64MiB': {size!r}")
    return int(float(found[1]) * _UNITS[found[2]])

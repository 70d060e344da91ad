"""How files behind URLs are read."""
from __future__ import annotations

import dataclasses
import os
from typing import Any, Callable, Dict, List, Mapping, Optional, Union

from millrace._units import to_bytes

__all__ = ["HttpOptions"]


@dataclasses.dataclass(frozen=True)
class HttpOptions:
    """Options of reading files over HTTP; None is the default of each. Times are in seconds.

    sign: is called with (url, first, last) before every attempt to fetch these bytes, the last
        included, and returns the headers to add, such as {"Authorization": "Bearer ..."}. It is
        called in another thread.
    ca_file: the file of certificates that servers are checked against; None: the system's.
    max_redirects, max_attempts: of one request; 5 each.
    max_retry_time: the longest time from the first attempt to the begin of the last; 60.
    stall_time, min_bytes_per_second: an attempt ends after that time with fewer bytes; 30, 1024.
    backoff, max_backoff: the wait before the second attempt, twice as long before each later one,
        and the longest wait; 0.2, 10.
    block_bytes, cache_bytes: the bytes of a request for a block, and of blocks kept in memory;
        "4MiB", "64MiB".
    read_ahead_blocks: the blocks fetched ahead of a reader in order; 4.
    max_in_flight: the requests at once, and the connections kept; 32.
    """

    sign: Optional[Callable[[str, int, int], Mapping[str, str]]] = None
    ca_file: Union[None, str, os.PathLike[str]] = None
    max_redirects: Optional[int] = None
    max_attempts: Optional[int] = None
    max_retry_time: Optional[float] = None
    stall_time: Optional[float] = None
    min_bytes_per_second: Optional[int] = None
    backoff: Optional[float] = None
    max_backoff: Optional[float] = None
    block_bytes: Union[None, int, str] = None
    cache_bytes: Union[None, int, str] = None
    read_ahead_blocks: Optional[int] = None
    max_in_flight: Optional[int] = None

    def core(self) -> Dict[str, Any]:
        """Returns the options as the module in C++ takes them."""
        taken: Dict[str, Any] = {}
        for name in ("max_redirects", "max_attempts", "min_bytes_per_second",
                     "read_ahead_blocks", "max_in_flight"):
            taken[name] = _none_below_zero(getattr(self, name))
        for name in ("max_retry_time", "stall_time", "backoff", "max_backoff"):
            seconds = getattr(self, name)
            taken[name + "_ms"] = _none_below_zero(
                None if seconds is None else round(seconds * 1000))
        for name in ("block_bytes", "cache_bytes"):
            taken[name] = to_bytes(getattr(self, name))
        if self.ca_file is not None:
            taken["ca_file"] = os.fspath(self.ca_file)
        if self.sign is not None:
            taken["sign"] = _Signer(self.sign)
        return taken


def _none_below_zero(number: Optional[int]) -> int:
    """In C, 0 stands for the default, and a number below 0 for none."""
    if number is None:
        return 0
    if number < 0:
        raise ValueError(f"an option of HttpOptions is negative: {number}")
    return number if number > 0 else -1


class _Signer:
    """The function as the module in C++ calls it."""

    def __init__(self, sign: Callable[[str, int, int], Mapping[str, str]]) -> None:
        self._sign = sign

    def __call__(self, url: str, first: int, last: int) -> List[str]:
        return [f"{name}: {value}" for name, value in self._sign(url, first, last).items()]

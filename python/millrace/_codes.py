"""Hashes of the code of functions, by which a state knows the functions that it was made with."""
from __future__ import annotations

import functools
from typing import Any, Dict, Iterable, Mapping

from .errors import OpChangedWarning

Codes = Dict[str, str]  # by the names of ops: "VERSION:HASH" of each version, in a row


def hash_of(function: Any) -> str:
    """Returns eight hexadecimal digits of the source of a function, with its decorators; of its
    compiled code where there is no source. Functions that it calls do not count."""
    import inspect
    import zlib
    while isinstance(function, functools.partial):
        function = function.func
    known = function if hasattr(function, "__code__") else type(function)
    try:
        text = inspect.getsource(known)
    except Exception:  # there is none, or its file holds something else by now
        text = repr(_words_of(getattr(known, "__code__", None)))
    return f"{zlib.crc32(text.encode()):08x}"


def _words_of(code: Any) -> Any:
    """Returns what compiled code is made of, without the places at which it stands."""
    if isinstance(code, frozenset):  # its order differs from process to process
        return sorted(map(repr, code))
    if isinstance(code, tuple):
        return [_words_of(one) for one in code]
    if not hasattr(code, "co_code"):
        return code
    return code.co_code, code.co_names, [_words_of(one) for one in code.co_consts]


def codes_of(ops: Iterable[Any]) -> Codes:
    """Returns the codes of ops."""
    codes: Codes = {}
    for op in dict.fromkeys(ops):
        before = codes.get(op.name)
        codes[op.name] = (f"{before} " if before else "") + f"{op.version}:{op.code}"
    return codes


def warn_of_changes(before: Mapping[str, str], now: Mapping[str, str]) -> None:
    """Warns of each op that has a version which both know, with another code."""
    for name in before.keys() & now.keys():
        then = _by_version(before[name])
        for version, code in _by_version(now[name]).items():
            if then.get(version, code) != code:
                _warn(name, version)


def _by_version(codes: str) -> Dict[str, str]:
    return dict(code.split(":") for code in codes.split())  # type: ignore[misc]


def _warn(name: str, version: str) -> None:
    import warnings
    warnings.warn(
        f"the code of op {name!r} is not that of the state, though both are version {version}: the "
        "batches that follow may not be those of the first run. A function that computes something "
        "else needs another version", OpChangedWarning, stacklevel=4)

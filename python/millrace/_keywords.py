"""Unknown keywords of calls: the error names the nearest one, in every version of Python."""
from __future__ import annotations

import functools
import inspect
from types import FunctionType
from typing import Any, Callable, Dict, TypeVar

_Call = TypeVar("_Call", bound=Callable[..., Any])


def suggesting(call: _Call, name: str = "") -> _Call:
    """Returns `call`, which says what an unknown keyword may have meant. name: the call's own, if
    it is another than that of the function."""
    code = call.__code__  # type: ignore[attr-defined]
    if code.co_flags & inspect.CO_VARKEYWORDS:
        return call
    known = frozenset(code.co_varnames[:code.co_argcount + code.co_kwonlyargcount])

    @functools.wraps(call)
    def checked(*args: Any, **keywords: Any) -> Any:
        for keyword in keywords:
            if keyword not in known:
                raise TypeError(_unexpected(name or call.__name__, keyword, known - {"self"}))
        return call(*args, **keywords)
    return checked  # type: ignore[return-value]


def suggest_in_methods(owner: type) -> None:
    """Makes each public method of a class, and its __init__, suggesting."""
    for name, method in list(vars(owner).items()):
        if not isinstance(method, FunctionType):
            continue
        if name == "__init__":
            setattr(owner, name, suggesting(method, owner.__name__))
        elif not name.startswith("_"):
            setattr(owner, name, suggesting(method))


def suggest_in_module(names: Dict[str, Any], module: str) -> None:
    """Makes each function of a module suggesting; `names` are the module's globals."""
    for name, function in list(names.items()):
        if isinstance(function, FunctionType) and function.__module__ == module:
            names[name] = suggesting(function)


def _unexpected(call: str, keyword: str, known: frozenset[str]) -> str:
    import difflib  # only for the error, since importing it takes time
    text = f"{call}() got an unexpected keyword argument '{keyword}'"
    near = difflib.get_close_matches(keyword, sorted(known), 1)
    return text + (f". Did you mean '{near[0]}'?" if near else "")

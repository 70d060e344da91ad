"""Plans and their options as Python code. The code begins with `mr`, the package."""
from __future__ import annotations

import enum
import inspect
import math
from typing import Any

from . import _sources
from ._stages import STAGES, StageMethods
from ._values import CLASSES, PYTHON_TYPES, SCHEMA, Fields, Message, function_of
from .plan import Plan, Stage

_PYTHON_NAMES = {word: kind.__name__ for kind, word in PYTHON_TYPES.items()}
_WIDTH = 100


def code_of_plan(plan: Plan) -> str:
    """Returns the chain of a plan, with a line for each stage if there are several."""
    calls = [_call_of(stage) for stage in plan._stages] or ["Plan()"]
    if plan._settings:
        calls.append(_call("options", _arguments(
            inspect.signature(plan.options), "Pipeline", plan._settings)))
    chain = ["mr." + calls[0], *("." + call for call in calls[1:])]
    return "".join(chain) if len(chain) < 3 else "(" + "\n ".join(chain) + ")"


def code_of_message(message: Message) -> str:
    name = type(message).__name__
    arguments = _arguments(inspect.signature(type(message)), name, message._fields)
    return f"mr.{function_of(name)}({', '.join(arguments)})"


def _call_of(stage: Stage) -> str:
    """Returns the call that adds a stage."""
    function = getattr(StageMethods(), stage.op, None) or getattr(_sources, stage.op)
    arguments = _arguments(inspect.signature(function), STAGES[stage.op], stage.fields)
    if stage.name:
        arguments.append(f"stage={_quoted(stage.name)}")
    return _call(stage.op, arguments)


def _call(name: str, arguments: list[str]) -> str:
    """Returns a call of a chain, with a line for each argument if it is long."""
    line = f"{name}({', '.join(arguments)})"
    if len(" ." + line + ")") <= _WIDTH:
        return line
    return f"{name}(" + (",\n" + " " * len(f" .{name}(")).join(arguments) + ")"


def _arguments(signature: inspect.Signature, message: str, fields: Fields) -> list[str]:
    """Returns the arguments of the call that gives the fields: those that the signature asks for by
    their places, others by name."""
    codes: dict[str, list[str]] = {}
    for option in SCHEMA[message]:
        if option.name in fields:
            value = fields[option.name]
            values = value if option.repeated else (value,)
            codes[option.group or option.name] = [
                _code_of(one, message in CLASSES) for one in values]
    arguments: list[str] = []
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            arguments.extend(codes.get(parameter.name, ()))
            continue
        values = codes.get(parameter.name, ["None"])
        code = values[0] if len(values) == 1 else f"[{', '.join(values)}]"
        if parameter.default is parameter.empty and parameter.kind is not parameter.KEYWORD_ONLY:
            arguments.append(code)
        elif parameter.name in codes:
            arguments.append(f"{parameter.name}={code}")
    return arguments


def _code_of(value: Any, python_types: bool) -> str:
    if isinstance(value, enum.Enum):
        if python_types and value.name in _PYTHON_NAMES:
            return _PYTHON_NAMES[value.name]
        return f"mr.{value.name}"
    if isinstance(value, float) and not math.isfinite(value):
        return f"float('{value}')"
    if isinstance(value, (str, bytes)):
        return _quoted(value)
    return code_of_plan(value) if isinstance(value, Plan) else repr(value)


def _quoted(value: str | bytes) -> str:
    """Returns a literal, in double quotes unless the value has such itself."""
    prefix = "b" if isinstance(value, bytes) else ""
    literal = repr(value)[len(prefix):]
    if literal[0] == "'" and '"' not in literal:
        literal = f'"{literal[1:-1]}"'
    return prefix + literal

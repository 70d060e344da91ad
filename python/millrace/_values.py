"""Values of a plan's options: checked as a caller gives them, kept as plain Python values, written
into a plan's text and read from it.

The schema says which options there are; it is generated, like the classes of messages.
"""
from __future__ import annotations

import enum
import numbers
import operator
import os
import re
import struct
from typing import Any, Callable, Iterable, Mapping, NamedTuple, cast

from . import _places, _text
from .errors import PlanError


class Option(NamedTuple):
    """A field of a message."""
    name: str
    type: str       # "uint32", "path", ..., or the name of an enum or message
    repeated: bool
    group: str      # the keyword that stands for this field and its alternatives; ""


# The values of a message's fields in the schema's order, without those that are not given. Those of
# repeated fields are tuples.
Fields = Mapping[str, Any]

# The options by message, and the classes by name; the generated module fills them in.
SCHEMA: dict[str, tuple[Option, ...]] = {}
CLASSES: dict[str, type] = {}

_INTEGERS = {"int64": (-1 << 63, (1 << 63) - 1), "uint32": (0, (1 << 32) - 1),
             "uint64": (0, (1 << 64) - 1)}
# The types of a record that Python's types stand for: there are no other integers and floats.
PYTHON_TYPES = {bytes: "BYTES", int: "INT64", float: "FLOAT32"}


def schema_of(text: str) -> tuple[Option, ...]:
    """Reads "height:uint32 area:float* default_int:int64/default"."""
    options = []
    for entry in text.split():
        name, _, rest = entry.partition(":")
        kind, _, group = rest.partition("/")
        options.append(Option(name, kind.rstrip("*"), kind.endswith("*"), group))
    return tuple(options)


class Message:
    """Options that belong together, such as those of a feature. Immutable."""
    __slots__ = ("_fields",)
    _fields: Fields

    def __init__(self, given: Mapping[str, object]) -> None:
        name = type(self).__name__
        object.__setattr__(self, "_fields", checked(name, function_of(name), given))

    @classmethod
    def of(cls, fields: Fields) -> Message:
        """Returns the message of fields that are checked already."""
        message = cls.__new__(cls)
        object.__setattr__(message, "_fields", fields)
        return message

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} cannot be changed")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Message) or type(other) is not type(self):
            return NotImplemented
        return self._fields == other._fields

    def __hash__(self) -> int:
        return hash((type(self), tuple(self._fields.items())))

    def __repr__(self) -> str:
        from . import _python
        return _python.code_of_message(self)

    def __reduce__(self) -> tuple[Callable[..., Message], tuple[Fields]]:
        return type(self).of, (dict(self._fields),)


def function_of(message: str) -> str:
    """Returns the name of the function that makes a message: on_damage of OnDamage."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", message).lower()


# As a caller gives them.


def checked(message: str, label: str, given: Mapping[str, object]) -> Fields:
    """Returns the fields of a message from a caller's keywords, of which None is not given.

    TypeError: a value of another type. PlanError: one that its type does not hold; `label` says
    what the options are of.
    """
    fields: dict[str, Any] = {}
    for option in SCHEMA[message]:
        value = given.get(option.group or option.name)
        if option.group and value is not None:
            if isinstance(value, numbers.Integral) and _is_float(fields.get("dtype")):
                value = float(value)
            if option != _choice(message, option.group, value):
                continue
        if value is None:
            continue
        check = _Check(f"{label}: {option.group or option.name}", message in CLASSES)
        if not option.repeated:
            fields[option.name] = check.value(option, value)
        elif values := tuple(check.value(option, one) for one in _several(value)):
            fields[option.name] = values
    return fields


def _is_float(dtype: object) -> bool:
    return isinstance(dtype, enum.Enum) and dtype.value == "FLOAT32"


def _several(value: object) -> Iterable[object]:
    """Returns the values of a repeated field, of which a single one may stand alone."""
    if isinstance(value, (str, bytes, os.PathLike, Message)) or not isinstance(value, Iterable):
        return (value,)
    return value


def _choice(message: str, group: str, value: object) -> Option:
    """Returns the alternative of a group whose type is that of the value, else the last."""
    options = [option for option in SCHEMA[message] if option.group == group]
    kinds: dict[str, Any] = {"int64": numbers.Integral, "float": numbers.Real,
                             "double": numbers.Real, "bytes": (bytes, str)}
    for option in options:
        if isinstance(value, kinds[option.type]):
            return option
    return options[-1]


class _Check:
    """Checks the values of one option."""

    def __init__(self, name: str, python_types: bool) -> None:
        self._name = name                  # "stage 'resize': height"
        self._python_types = python_types  # true if `int` is a word of an enum

    def value(self, option: Option, value: object) -> object:
        kind = option.type
        if kind in CLASSES:
            if issubclass(CLASSES[kind], enum.Enum):
                return self._word(CLASSES[kind], value)
            return self._is_a(value, CLASSES[kind], f"a {CLASSES[kind].__name__}")
        if kind in _INTEGERS:
            return self._integer(value, *_INTEGERS[kind])
        if kind in ("float", "double"):
            self._is_a(value, numbers.Real, "a number")
            return float(cast(float, value))
        if kind == "bool":
            return self._is_a(value, bool, "a bool")
        if kind == "bytes":
            self._is_a(value, (bytes, bytearray, str), "bytes")
            return value.encode() if isinstance(value, str) else bytes(cast(bytes, value))
        return self._text(value, kind == "path")

    def _integer(self, value: object, least: int, most: int) -> int:
        self._is_a(value, numbers.Integral, "an int")
        number = operator.index(cast(int, value))
        if least <= number <= most:
            return number
        raise self._refused(f" is {number} but must be in [{least}, {most}]")

    def _text(self, value: object, is_path: bool) -> str:
        if is_path and isinstance(value, os.PathLike):
            value = os.fspath(value)
        text = cast(str, self._is_a(value, str, "a str or os.PathLike" if is_path else "a str"))
        try:
            text.encode()
        except UnicodeEncodeError:
            raise self._refused(f" is {text!a}, which is not UTF-8 text") from None
        return text

    def _word(self, words: type[enum.Enum], value: object) -> enum.Enum:
        """Returns the word of a name in any case, a NumPy, torch or JAX dtype, or a type."""
        if isinstance(value, words):
            return value
        name = value if isinstance(value, str) else _name_of(value)
        if self._python_types and isinstance(value, type):
            name = PYTHON_TYPES.get(value, name)
        word = name.upper()
        if word in words.__members__:
            return words[word]
        known = ", ".join(words.__members__)
        raise self._refused(f" is {value!r} but must be one of {known}")

    def _is_a(self, value: object, kind: Any, article: str) -> object:
        if isinstance(value, kind) and (kind is bool or not isinstance(value, bool)):
            return value
        raise TypeError(f"{self._name} must be {article}, not {type(value).__name__}")

    def _refused(self, why: str) -> PlanError:
        return PlanError(f"{_places.caller()}: {self._name}{why}")


def _name_of(dtype: object) -> str:
    for name in (getattr(dtype, "name", None), getattr(dtype, "__name__", None)):
        if isinstance(name, str):
            return name
    return str(dtype).rpartition(".")[2]


# In the text of a plan.


def tree_of(message: str, fields: Fields) -> _text.Tree:
    """Returns fields as the text has them."""
    tree: _text.Tree = []
    for option in SCHEMA[message]:
        value = fields.get(option.name)
        if value is None:
            continue
        values = value if option.repeated else (value,)
        words = [_word_of(option, one) for one in values]
        if len(words) > 1 and isinstance(words[0], str):
            tree.append((option.name, cast("tuple[str, ...]", tuple(words))))
        else:
            tree.extend((option.name, word) for word in words)
    return tree


def _word_of(option: Option, value: Any) -> _text.Value:
    if isinstance(value, Message):
        return tree_of(type(value).__name__, value._fields)
    if option.type in CLASSES and isinstance(value, enum.Enum):
        return cast(str, value.value)
    if option.type == "Pipeline":
        return cast(_text.Tree, value._tree())
    if isinstance(value, bool):
        return str(value).lower()
    return _text.quoted(value) if isinstance(value, (str, bytes)) else repr(value)


def fields_of(message: str, tree: _text.Tree) -> Fields:
    """Returns the fields of a part of a plan's text.

    PlanError: one that the schema does not have; the text is of a newer library.
    """
    given: dict[str, list[Any]] = {}
    for name, value in tree:
        given.setdefault(name, []).extend(value if isinstance(value, tuple) else [value])
    for name in given.keys() - {option.name for option in SCHEMA[message]}:
        raise PlanError(f"this version of the package knows no option {name} of {message}")
    fields = {}
    for option in SCHEMA[message]:
        if option.name in given:
            values = tuple(_value_of(option, value) for value in given[option.name])
            fields[option.name] = values if option.repeated else values[0]
    return fields


def _value_of(option: Option, value: Any) -> object:
    kind = option.type
    if kind in CLASSES:
        of = CLASSES[kind]
        if issubclass(of, enum.Enum):
            return of[value]
        if issubclass(of, Message):
            return of.of(fields_of(kind, value))
        return cast(Any, of)._of_tree(value)
    if kind in _INTEGERS:
        return int(value)
    if kind in ("float", "double"):
        return float(value) if kind == "double" else _shortest(float(value))
    if kind == "bool":
        return bool(value == "true")
    content = _text.unquoted(value)
    return content if kind == "bytes" else content.decode()


def _shortest(value: float) -> float:
    """Returns the number of fewest digits that is the same float of 32 bits."""
    for digits in (6, 7, 8):
        short = float(f"{value:.{digits}g}")
        if struct.pack("f", short) == struct.pack("f", value):
            return short
    return value

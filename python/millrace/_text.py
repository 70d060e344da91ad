"""The text format of plan files, as far as the library and this package write it.

A text is a tree: a list of (name, value), where a value is a word as it stands in the text ('224',
'"image"', 'BYTES'), a tuple of such words, or a tree. Plans that people wrote go through the
library first, so there are no comments, variables or other liberties here.
"""
from __future__ import annotations

import re
from typing import Union

Value = Union[str, tuple[str, ...], "Tree"]
Tree = list[tuple[str, Value]]

# Stands for a plan's file in messages of the library, which name a line of the text.
ORIGIN = "<plan>"

_TOKEN = re.compile(r"""\s*("(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+)""")
_ESCAPE = re.compile(rb"\\([0-7]{1,3}|.)", re.DOTALL)
_ESCAPED = {b"n": b"\n", b"r": b"\r", b"t": b"\t"}
_TO_ESCAPE = {ord("\n"): "\\n", ord("\r"): "\\r", ord("\t"): "\\t", ord('"'): '\\"',
              ord("\\"): "\\\\", ord("$"): "$$"}
_TO_ESCAPE.update({code: f"\\{code:03o}" for code in (*range(32), 127) if code not in _TO_ESCAPE})


def parse(text: str) -> Tree:
    """Returns the tree of a text that the library or write() made."""
    return _Parser(text).tree("")


def write(tree: Tree) -> str:
    """Returns the text of a tree, on one line."""
    return " ".join(_entry(name, value) for name, value in tree)


def quoted(value: str | bytes) -> str:
    """Returns a string as it stands in a text; there is no variable in it."""
    if isinstance(value, str):
        return f'"{value.translate(_TO_ESCAPE)}"'
    return '"%s"' % "".join(
        chr(byte).translate(_TO_ESCAPE) if byte < 127 else f"\\{byte:03o}" for byte in value)


def unquoted(word: str) -> bytes:
    """Returns the bytes of a string as it stands in a text."""
    def plain(match: re.Match[bytes]) -> bytes:
        code = match[1]
        if code.isdigit():
            return bytes([int(code, 8)])
        return _ESCAPED.get(code, code)

    return _ESCAPE.sub(plain, word[1:-1].replace("$$", "$").encode())


def _entry(name: str, value: Value) -> str:
    if isinstance(value, str):
        return f"{name}: {value}"
    if isinstance(value, tuple):
        return f"{name}: [{', '.join(value)}]"
    inside = write(value)
    return f"{name} {{ {inside} }}" if inside else f"{name} {{}}"


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens: list[str] = _TOKEN.findall(text)
        self._at = 0

    def tree(self, end: str) -> Tree:
        """Reads entries up to the token `end`, and that."""
        tree: Tree = []
        while self._at < len(self._tokens) and self._tokens[self._at] != end:
            name = self._next()
            tree.append((name, self._value()))
        if end:
            self._next()
        return tree

    def _value(self) -> Value:
        if self._next() == "{":
            return self.tree("}")
        word = self._next()
        if word != "[":
            return word
        words = []
        while (word := self._next()) != "]":
            if word != ",":
                words.append(word)
        return tuple(words)

    def _next(self) -> str:
        self._at += 1
        return self._tokens[self._at - 1]

#!/usr/bin/env python3
"""Checks the files of messages (tests/FOLDER/messages.golden, see tests/messages.h).

  - lines are "Suite.Case#key CODE text", each once, in the order in which an update writes them;
  - a test of that name exists below tests/FOLDER, in a file that says EXPECT_MESSAGE.

Keys that no EXPECT_MESSAGE of the test claims are reported by the test itself when it runs.

Usage: check_messages.py ROOT    prints each violation as "file:line: text", exits 1 if there is one
"""
import pathlib
import re

import report

NAME = "messages.golden"
CODES = ("CANCELLED UNKNOWN INVALID_ARGUMENT DEADLINE_EXCEEDED NOT_FOUND ALREADY_EXISTS "
         "PERMISSION_DENIED RESOURCE_EXHAUSTED FAILED_PRECONDITION ABORTED OUT_OF_RANGE "
         "UNIMPLEMENTED INTERNAL UNAVAILABLE DATA_LOSS UNAUTHENTICATED").split()
LINE = re.compile(r"(\w+\.\w+)#(\S+) (\S+) (.*)")
TEST = re.compile(r"^\s*(?:TYPED_)?TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\s*\)", re.MULTILINE)


def tests_with_messages(folder):
    """Returns the "Suite.Case" of every file that says EXPECT_MESSAGE."""
    found = set()
    for path in sorted(folder.rglob("*")):
        if path.suffix not in {".cc", ".h", ".cu"}:
            continue
        text = path.read_text(encoding="utf-8")
        if "EXPECT_MESSAGE" in text:
            found |= {f"{suite}.{case}" for suite, case in TEST.findall(text)}
    return found


def order_of(case, key):
    return (case, int(key) if key.isdecimal() else 1 << 30, key)


def check_file(folder):
    """Returns what is wrong with the file of a folder as (line number, text)."""
    found, tests, last = [], tests_with_messages(folder), None
    text = (folder / NAME).read_text(encoding="utf-8")
    if text and not text.endswith("\n"):
        found.append((text.count("\n") + 1, "the last line has no end"))
    for number, line in enumerate(text.splitlines(), 1):
        match = LINE.fullmatch(line)
        if not match or match[3] not in CODES + ["-"]:
            found.append((number, 'not "Suite.Case#key CODE text"'))
            continue
        case, key = match[1], match[2]
        if last is not None and order_of(case, key) <= last:
            found.append((number, "not behind the line before it in the order"))
        last = order_of(case, key)
        if case not in tests:
            found.append((number, f"no test {case} with EXPECT_MESSAGE below {folder.name}/"))
    return found


def check_messages(root):
    """Returns all violations below `root` as "file:line: text", and the number of files."""
    root = pathlib.Path(root)
    files = sorted((root / "tests").glob(f"*/{NAME}"))
    return [f"{path.relative_to(root)}:{number}: {text}"
            for path in files for number, text in check_file(path.parent)], len(files)


if __name__ == "__main__":
    report.main(check_messages, __doc__, "files of messages")

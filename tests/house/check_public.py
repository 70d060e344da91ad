#!/usr/bin/env python3
"""Checks the headers that are installed, the PUBLIC_HEADERS of each folder's CMakeLists.txt.

  - each lies at its folder's root;
  - none includes a header of ours that is not among them, in its folder or another;
  - none says of itself "Internal.".

Usage: check_public.py ROOT      prints each violation as "file:line: text", exits 1 if there is one
"""
import pathlib
import re

import report

FOLDERS = ("base", "readers", "augment", "pipeline", "collectives", "trainer")
LISTED = re.compile(r"PUBLIC_HEADERS\s+((?:[\w/]+\.h\s+)+)")
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"')
INTERNAL = re.compile(r"^\s*//.*\bInternal\.")


def public_headers(root):
    """Returns the paths of the public headers, from `root`, in the order of the lists."""
    found = []
    for folder in FOLDERS:
        lists = root / folder / "CMakeLists.txt"
        if lists.is_file():
            for names in LISTED.findall(lists.read_text(encoding="utf-8")):
                found += [f"{folder}/{name}" for name in names.split()]
    return found


def check_header(path, lines, public):
    """Returns the violations of one public header as (line number, text)."""
    found = []
    if path.count("/") != 1:
        found.append((1, "a public header lies at the root of its folder"))
    for number, line in enumerate(lines, 1):
        match = INCLUDE.match(line)
        if match and match[1].split("/")[0] in FOLDERS and match[1] not in public:
            found.append((number, f"a public header must not include {match[1]}, which is not"))
        if INTERNAL.match(line):
            found.append((number, "a header that calls itself internal must not be public"))
    return found


def check_public(root):
    """Returns all violations as "file:line: text", and how many headers were read."""
    root = pathlib.Path(root)
    public = public_headers(root)
    found = []
    for path in public:
        if not (root / path).is_file():
            found.append(f"{path}:1: is among the PUBLIC_HEADERS, and is not there")
            continue
        lines = (root / path).read_text(encoding="utf-8").split("\n")
        found += [f"{path}:{number}: {text}"
                  for number, text in check_header(path, lines, set(public))]
    return found, len(public)


if __name__ == "__main__":
    report.main(check_public, __doc__, "public headers")

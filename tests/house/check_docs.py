#!/usr/bin/env python3
"""Checks what a reader of the documents trips over.

  - every relative link names a file of the tree, and every "#heading" a heading of that file;
  - every document below docs/ is linked from docs/index.md, or from a document that is;
  - no line of prose is longer than 100 columns; tables, blocks of code and single long words (a
    URL, say) are not prose;
  - README.md has at most 90 lines;
  - no document holds the marks of a merge;
  - no document denies what there is, such as the Python package.

Usage: check_docs.py ROOT       prints each violation as "file:line: text", exits 1 if there is one
"""
import os
import pathlib
import re

import report

INDEX = "docs/index.md"
MAX_COLUMNS = 100
MAX_LINES = {"README.md": 90}
SKIPPED_FOLDERS = {"build", "shared"}
FENCE = re.compile(r"^\s*(```|~~~)")
LINK = re.compile(r"\[[^\]\[]*\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)")
CODE = re.compile(r"`[^`\n]*`")
MERGE_MARK = re.compile(r"^(<<<<<<<|>>>>>>>) ")
DENIAL = re.compile(r"\b(no|lacks? (a|any)|without (a|any)) Python (package|interface|bindings?)\b",
                    re.IGNORECASE)
HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*$")
SCHEME = re.compile(r"^[a-z][a-z0-9+.-]*:")


def prose_lines(text):
    """Yields (line number, line) of the lines outside blocks of code."""
    inside = False
    for number, line in enumerate(text.split("\n"), 1):
        if FENCE.match(line):
            inside = not inside
        elif not inside:
            yield number, line


def anchor(heading):
    """Returns the name under which a heading can be linked to, as GitHub makes it."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
    return re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")


def anchors(text):
    """Returns the names of all headings of `text`; a repeated one gets -1, -2, ... ."""
    seen, names = {}, set()
    for _, line in prose_lines(text):
        match = HEADING.match(line)
        if match:
            name = anchor(match.group(1))
            count = seen.get(name, 0)
            seen[name] = count + 1
            names.add(f"{name}-{count}" if count else name)
    return names


def links(text):
    """Yields (line number, target) of every link that does not begin with a scheme."""
    # A link's words may go on in the next line, so that lines are looked at together.
    lines = {number: CODE.sub("", line) for number, line in prose_lines(text)}
    last = max(lines, default=0)
    joined = "\n".join(lines.get(number, "") for number in range(1, last + 1))
    for match in LINK.finditer(joined):
        target = match.group(1)
        if not SCHEME.match(target):
            yield joined.count("\n", 0, match.start()) + 1, target


def wide_lines(text):
    """Yields (line number, columns) of the lines of prose that are too long."""
    for number, line in prose_lines(text):
        is_table = line.lstrip().startswith("|")
        is_word = " " not in re.sub(r"^(\s|[-*>]\s)*", "", line)
        if len(line) > MAX_COLUMNS and not is_table and not is_word:
            yield number, len(line)


class Documents:
    """All documents below a folder, by their paths relative to it."""

    def __init__(self, root):
        self.root = root
        self.texts = {}
        for folder, folders, names in os.walk(root):
            at_root = pathlib.Path(folder) == root
            folders[:] = sorted(name for name in folders if not name.startswith(".")
                                and not (at_root and name in SKIPPED_FOLDERS))
            for name in sorted(names):
                if name.endswith(".md"):
                    path = pathlib.Path(folder, name)
                    relative = path.relative_to(root).as_posix()
                    self.texts[relative] = path.read_text(encoding="utf-8")
        self.anchors = {path: anchors(text) for path, text in self.texts.items()}

    def resolve(self, document, target):
        """Returns (path relative to the root, heading) of a link in `document`."""
        path, _, heading = target.partition("#")
        if not path:
            return document, heading
        return os.path.normpath(os.path.join(os.path.dirname(document), path)), heading

    def linked(self, document):
        """Returns the documents that `document` links to."""
        paths = {self.resolve(document, target)[0] for _, target in links(self.texts[document])}
        return paths & self.texts.keys()

    def reached(self, start):
        """Returns every document that links lead to from `start`, itself among them."""
        reached, todo = set(), [start] if start in self.texts else []
        while todo:
            document = todo.pop()
            if document not in reached:
                reached.add(document)
                todo.extend(self.linked(document) - reached)
        return reached


def check_links(documents, path):
    """Yields (line number, text) of the links of a document that lead nowhere."""
    for number, target in links(documents.texts[path]):
        file, heading = documents.resolve(path, target)
        if file.startswith("..") or not (documents.root / file).exists():
            yield number, f"no file {target}"
        elif heading and heading not in documents.anchors.get(file, {heading}):
            yield number, f"no heading #{heading} in {file}"


def check_docs(root):
    """Returns all violations below `root` as "file:line: text", and the number of documents."""
    documents = Documents(pathlib.Path(root).resolve())
    found = []
    for path, text in documents.texts.items():
        found += [f"{path}:{number}: {what}" for number, what in check_links(documents, path)]
        found += [f"{path}:{number}: {columns} columns; at most {MAX_COLUMNS}"
                  for number, columns in wide_lines(text)]
        found += [f"{path}:{number}: mark of a merge"
                  for number, line in enumerate(text.split("\n"), 1) if MERGE_MARK.match(line)]
        found += [f"{path}:{number}: there is a Python package"
                  for number, line in prose_lines(text) if DENIAL.search(line)]
        lines = text.rstrip("\n").count("\n") + 1
        if lines > MAX_LINES.get(path, lines):
            found.append(f"{path}:1: {lines} lines; at most {MAX_LINES[path]}")
    reached = documents.reached(INDEX)
    found += [f"{path}:1: not linked from {INDEX} or a document that it links to"
              for path in documents.texts if path.startswith("docs/") and path not in reached]
    return found, len(documents.texts)


if __name__ == "__main__":
    report.main(check_docs, __doc__, "documents")

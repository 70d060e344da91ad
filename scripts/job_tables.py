#!/usr/bin/env python3
"""Writes the tables of docs/training.md from the comments of trainer/job/job.proto.

    python3 scripts/job_tables.py        rewrites the page

The page has a pair of lines for each message or enum, and the table between them:

    <!-- table: Job -->
    <!-- end -->

A field's comment is its row. The sentence that begins with "Default" is its last column, and so is
"It is required."
"""
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[1]
PROTO = ROOT / "trainer/job/job.proto"
PAGE = ROOT / "docs/training.md"

MARK = re.compile(r"<!-- table: (\w+) -->")
END = "<!-- end -->"
BLOCK = re.compile(r"(message|enum) (\w+) \{")
FIELD = re.compile(r"(?:(optional|repeated) )?(\w+) (\w+) = \d+;")
VALUE = re.compile(r"(\w+) = \d+;(?: *// (.*))?")
SENTENCE = re.compile(r"(?<=\.) (?=[A-Z])")
TYPES = {"bool": "true or false", "string": "text", "double": "number", "uint32": "whole number",
         "uint64": "whole number"}


def split_comment(comment):
    """Returns a comment without its sentence about the default, and the words of that sentence."""
    meaning, default = [], ""
    for sentence in SENTENCE.split(comment):
        if sentence.startswith("Default"):
            default = re.sub(r"^Default:? ", "", sentence).rstrip(".")
        elif sentence == "It is required.":
            default = "required"
        else:
            meaning.append(sentence)
    return " ".join(meaning), default


def row_of(field, comment, enums):
    """Returns the cells of a field's row."""
    label, kind, name = field.groups()
    meaning, default = split_comment(comment)
    written = TYPES.get(kind, f"`{kind}`" if kind in enums else "`{}`")
    if label == "repeated":
        written += ", repeated"
    if kind == "bool" and not default:
        default = "false"
    return [f"`{name}`", written, meaning, default]


def parse(proto):
    """Returns {name of a message or enum: rows of cells} of a .proto file."""
    enums = set(re.findall(r"^enum (\w+)", proto, re.MULTILINE))
    blocks, rows, comment = {}, [], []
    for line in map(str.strip, proto.split("\n")):
        if line.startswith("//"):
            comment.append(line[2:].strip())
            continue
        block, field, value = (one.fullmatch(line) for one in (BLOCK, FIELD, VALUE))
        if block:
            names = ["value", "meaning"] if block.group(1) == "enum" else [
                "field", "type", "meaning", "default"]
            rows = blocks.setdefault(block.group(2), [names, ["---"] * len(names)])
        elif value:
            rows.append([f"`{value.group(1)}`", value.group(2)])
        elif field:
            rows.append(row_of(field, " ".join(comment), enums))
        comment = []
    return blocks


def with_tables(page, proto):
    """Returns `page` with the tables of `proto`."""
    blocks, lines, inside = parse(proto), [], False
    for line in page.split("\n"):
        inside = inside and line != END
        if not inside:
            lines.append(line)
        mark = MARK.fullmatch(line)
        if mark:
            lines += [re.sub(" +", " ", f"| {' | '.join(row)} |") for row in blocks[mark.group(1)]]
            inside = True
    return "\n".join(lines)


def main():
    page = with_tables(PAGE.read_text(encoding="utf-8"), PROTO.read_text(encoding="utf-8"))
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()

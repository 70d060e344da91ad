#!/usr/bin/env python3
"""Checks that rules and tests name each other.

Every rule that docs/semantics.md states is cited by a file below tests/, and every rule that a test
cites is stated there, once.

A rule is stated by "**S-NAME-1." in bold and cited by its full name, S-NAME-1, in a comment.

Usage: check_rules.py ROOT       prints each violation as "file:line: text", exits 1 if there is one
"""
import pathlib
import re

import report

SEMANTICS = "docs/semantics.md"
STATED = re.compile(r"\*\*(S-[A-Z]+-\d+)\.")
CITED = re.compile(r"\bS-[A-Z]+-\d+\b")
SUFFIXES = {".cc", ".h", ".cu", ".py"}
# These talk about made-up rules.
EXEMPT = {"tests/house/check_rules.py", "tests/house/check_rules_test.py"}


def stated_rules(text):
    """Returns ({rule: line number}, violations as (line number, text))."""
    rules, found = {}, []
    for number, line in enumerate(text.split("\n"), 1):
        for rule in STATED.findall(line):
            if rule in rules:
                found.append((number, f"{rule} is stated in line {rules[rule]} already"))
            rules.setdefault(rule, number)
    return rules, found


def cited_rules(root):
    """Yields (relative path, line number, rule) of every citation in a test."""
    for path in sorted((root / "tests").rglob("*")):
        relative = path.relative_to(root).as_posix()
        if path.suffix not in SUFFIXES or relative in EXEMPT or not path.is_file():
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
            for rule in CITED.findall(line):
                yield relative, number, rule


def check_rules(root):
    """Returns all violations below `root` as "file:line: text", and the number of rules."""
    root = pathlib.Path(root)
    rules, repeated = stated_rules((root / SEMANTICS).read_text(encoding="utf-8"))
    found = [f"{SEMANTICS}:{number}: {text}" for number, text in repeated]
    cited = set()
    for relative, number, rule in cited_rules(root):
        cited.add(rule)
        if rule not in rules:
            found.append(f"{relative}:{number}: {SEMANTICS} has no rule {rule}")
    for rule, number in rules.items():
        if rule not in cited:
            found.append(f"{SEMANTICS}:{number}: no test cites {rule}")
    return found, len(rules)


if __name__ == "__main__":
    report.main(check_rules, __doc__, "rules")

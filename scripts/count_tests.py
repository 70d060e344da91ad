#!/usr/bin/env python3
"""Counts tests in ctest's JUnit files: "N passed, N failed, N skipped".

A GoogleTest program, and a `python3 -m unittest -v`, count as their cases, so that a skip inside a
program that ctest calls passed is seen; anything else counts as one test. A case that was begun and
never ended, in a program that failed, has failed; a program that fails without naming a case counts
as one failure.

Usage: count_tests.py FILE...     exits 1 when something failed or nothing ran
  FILE  JUnit (.xml), or what such a program printed
"""
import re
import sys
import xml.etree.ElementTree as ElementTree

# "[       OK ] Suite.Case (0 ms)"; the ranks of an MPI program may write into one line.
CASE = re.compile(r"\[\s*(RUN|OK|FAILED|SKIPPED)\s*\] ([\w/]+\.[\w/]+)")
# "test_case (module.Class.test_case) ... ok" of `unittest -v`, or "file_test (...) ... skipped" of a
# file that skips itself. The verdict may stand in a later
# line, behind a docstring or what the case printed; a failed subtest has an indented line of its
# own.
UNITTEST_CASE = re.compile(r"^ *((?:test_\w+|\w+_test|setUpClass|setUpModule) \([\w.]+\))")
UNITTEST_VERDICT = re.compile(
    r"(?:^|\.\.\. )(ok|FAIL|ERROR|skipped|expected failure|unexpected success)( ['\"].*)?$")
UNITTEST_NAMES = {"ok": "OK", "expected failure": "OK", "skipped": "SKIPPED", "FAIL": "FAILED",
                  "ERROR": "FAILED", "unexpected success": "FAILED"}


def unittest_verdicts(output):
    """Yields ("RUN" or a verdict, case) for the cases in the output of `unittest -v`."""
    case = None
    for line in output.split("\n"):
        if begun := UNITTEST_CASE.match(line):
            case = begun.group(1)
            yield "RUN", case
        ended = UNITTEST_VERDICT.search(line)
        if case and ended:
            yield UNITTEST_NAMES[ended.group(1)], case
            case = None


def count_cases(output, program_failed):
    """Returns (passed, failed, skipped) of the cases in a program's output; zeros without any."""
    seen = {}
    for verdict, case in [*CASE.findall(output), *unittest_verdicts(output)]:
        seen.setdefault(case, set()).add(verdict)
    passed = failed = skipped = 0
    for verdicts in seen.values():
        if "FAILED" in verdicts:
            failed += 1
        elif "SKIPPED" in verdicts:
            skipped += 1
        elif "OK" in verdicts or not program_failed:
            passed += 1
        else:
            failed += 1
    return passed, failed, skipped


def count_test(case):
    """Returns (passed, failed, skipped) of one <testcase>."""
    skipped = case.find("skipped")
    status = case.get("status")
    if status == "disabled" or (skipped is not None and
                                skipped.get("message", "").startswith("SKIP_")):
        return 0, 0, 1
    failed = status != "run" or case.find("failure") is not None
    output = case.findtext("system-out") or ""
    counts = count_cases(output, failed)
    if sum(counts) == 0:
        return (0, 1, 0) if failed else (1, 0, 0)
    if failed and counts[1] == 0:
        return counts[0], 1, counts[2]
    return counts


def count_files(paths):
    totals = [0, 0, 0]
    for path in paths:
        if not str(path).endswith(".xml"):
            with open(path, encoding="utf-8", errors="replace") as file:
                counts = count_cases(file.read(), False)
            totals = [total + count for total, count in zip(totals, counts)]
            continue
        for case in ElementTree.parse(path).getroot().iter("testcase"):
            totals = [total + count for total, count in zip(totals, count_test(case))]
    return totals


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    passed, failed, skipped = count_files(sys.argv[1:])
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    sys.exit(1 if failed or passed == 0 else 0)


if __name__ == "__main__":
    main()

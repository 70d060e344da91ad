"""How the checks of this folder are called, and what they print."""
import sys


def main(check, usage, what):
    """Prints what `check` returns of the folder that the first argument names: violations as
    "file:line: text", and how many `what` it has looked at. Exits 1 if there is a violation."""
    if len(sys.argv) != 2:
        sys.exit(usage)
    found, number = check(sys.argv[1])
    for line in found:
        print(line)
    if number == 0:
        sys.exit(f"no {what} below {sys.argv[1]}")
    print(f"{number} {what}, {len(found)} violations")
    sys.exit(1 if found else 0)

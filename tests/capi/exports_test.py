"""libmillrace.so.1 shows the functions of its headers, and nothing else.

A second libprotobuf or abseil in the process must not meet ours, and what is shown must be kept.
"""
import os
import pathlib
import re
import subprocess
import unittest

HERE = pathlib.Path(__file__).parent
HEADER = HERE.parent.parent / "capi/millrace.h"
HEADERS = sorted(HEADER.parent.glob("millrace*.h"))
LIBRARY = os.environ["MILLRACE_C_LIBRARY"]
VERSION = "MILLRACE_1"


def declared():
    """Returns the functions that the headers declare, in alphabetical order."""
    text = "\n".join(header.read_text(encoding="utf-8") for header in HEADERS)
    text = re.sub(r"//[^\n]*", "", text)
    return sorted(re.findall(r"^MR_API\b[^;]*?\b(mr_\w+)\(", text, re.MULTILINE))


def shown():
    """Returns the (type, name) of every symbol that the library shows."""
    output = subprocess.run(["nm", "-D", "--defined-only", LIBRARY], check=True, text=True,
                            stdout=subprocess.PIPE).stdout
    return [tuple(line.split()[-2:]) for line in output.splitlines() if line.strip()]


class ExportsTest(unittest.TestCase):
    def test_nothing_but_functions_of_the_interface_is_shown(self):
        others = [(kind, name) for kind, name in shown()
                  if not (kind == "T" and re.fullmatch(rf"mr_\w+@@{VERSION}", name))]
        # The version itself is a symbol of its own.
        self.assertEqual(others, [("A", VERSION)])

    def test_what_the_headers_declare_is_what_is_shown(self):
        names = sorted(name.split("@")[0] for kind, name in shown() if kind == "T")
        self.assertEqual(names, declared())

    def test_no_function_was_taken_away(self):
        kept = (HERE / "symbols.txt").read_text(encoding="utf-8").split()
        self.assertEqual(kept, sorted(kept))
        self.assertEqual(declared(), kept, "add new functions to symbols.txt; never take one out")

    def test_the_name_of_the_library_has_the_major_version(self):
        output = subprocess.run(["readelf", "-d", LIBRARY], check=True, text=True,
                                stdout=subprocess.PIPE).stdout
        major = re.search(r"#define MR_ABI_MAJOR (\d+)", HEADER.read_text(encoding="utf-8"))[1]
        self.assertIn(f"[libmillrace.so.{major}]", output)
        self.assertEqual(VERSION, f"MILLRACE_{major}")


if __name__ == "__main__":
    unittest.main()

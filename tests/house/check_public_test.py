#!/usr/bin/env python3
"""Plants violations in a made-up tree and expects check_public to find each."""
import pathlib
import tempfile
import unittest

import check_public


class CheckPublicTest(unittest.TestCase):
    def found(self, files):
        """Writes {path: text} and returns the violations."""
        with tempfile.TemporaryDirectory() as root:
            for path, text in files.items():
                target = pathlib.Path(root, path)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(text, encoding="utf-8")
            return check_public.check_public(root)

    def test_public_headers_that_include_each_other_pass(self):
        self.assertEqual(([], 3), self.found({
            "base/CMakeLists.txt": "millrace_library(base\n  PUBLIC_HEADERS run.h\n    op.h\n  DEPS)",
            "base/run.h": '#include "absl/status/status.h"\n#include <string>\n',
            "base/op.h": '#include "base/run.h"\n',
            "pipeline/CMakeLists.txt": "millrace_library(pipeline PUBLIC_HEADERS plan.h DEPS x)",
            "pipeline/plan.h": '#include "base/op.h"\n',
        }))

    def test_one_that_includes_another_that_is_not_public_is_found(self):
        found, _ = self.found({
            "base/CMakeLists.txt": "millrace_library(base PUBLIC_HEADERS op.h DEPS)",
            "base/op.h": '\n#include "base/run.h"\n',
            "base/run.h": "",
        })
        self.assertEqual(len(found), 1, found)
        self.assertTrue(found[0].startswith("base/op.h:2: "), found)

    def test_internal_ones_ones_of_rooms_and_absent_ones_are_found(self):
        found, _ = self.found({
            "base/CMakeLists.txt": "millrace_library(base PUBLIC_HEADERS a.h work/b.h c.h DEPS)",
            "base/a.h": "// A wall. Internal.\n",
            "base/work/b.h": "",
        })
        self.assertEqual(["base/a.h:1", "base/c.h:1", "base/work/b.h:1"],
                         sorted(line.split(": ")[0] for line in found))


if __name__ == "__main__":
    unittest.main()

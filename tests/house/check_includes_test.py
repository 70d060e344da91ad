#!/usr/bin/env python3
"""Plants missing includes in a made-up tree and expects check_includes to find each."""
import pathlib
import tempfile
import unittest

import check_includes

TARGETS = "# <deque> in a comment\nset(MILLRACE_PRECOMPILED <vector> <absl/strings/str_cat.h>)\n"


class CheckIncludesTest(unittest.TestCase):
    def found(self, files, targets=TARGETS):
        with tempfile.TemporaryDirectory() as root:
            for name, text in {check_includes.TARGETS: targets, **files}.items():
                target = pathlib.Path(root, name)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(text, encoding="utf-8")
            return check_includes.check_includes(root)[0]

    def test_what_a_file_includes_is_there(self):
        self.assertEqual([], self.found({"base/a.cc": "#include <vector>\nstd::vector<int> v;\n"}))

    def test_a_missing_include_is_told_with_its_line(self):
        self.assertEqual(["base/a.cc:2: std::vector without <vector>"],
                         self.found({"base/a.cc": "#include <map>\nstd::vector<int> v;\n"}))
        self.assertEqual(["cli/a.h:1: absl::StrCat without <absl/strings/str_cat.h>"],
                         self.found({"cli/a.h": "auto a = absl::StrCat(1);\n"}))

    def test_an_include_of_ours_has_it(self):
        used = '#include "base/a.h"\nstd::vector<int> v;\n'
        self.assertEqual([], self.found({
            "base/a.h": '#include "base/b.h"\n', "base/b.h": "#include <vector>\n",
            "base/c.cc": used}))
        self.assertEqual(["base/c.cc:2: std::vector without <vector>"], self.found({
            "base/a.h": '#include "base/b.h"\n', "base/b.h": '#include "base/a.h"\n',
            "base/c.cc": used}))

    def test_a_header_of_c_has_what_it_has_by_its_name_of_c(self):
        self.assertEqual([], self.found({"base/a.h": "#include <stdint.h>\nuint8_t a;\n"}))
        self.assertEqual(["base/a.h:2: uint8_t without <cstdint>"],
                         self.found({"base/a.h": "#include <stddef.h>\nuint8_t a;\n"}))

    def test_comments_and_strings_use_nothing(self):
        self.assertEqual([], self.found({
            "base/a.cc": '// std::vector\nconst char* a = "std::vector \\" std::map";\n'}))

    def test_a_precompiled_header_must_be_known(self):
        self.assertEqual(
            ["cmake/MillraceTargets.cmake:1: <regex> is precompiled, and check_includes.py does not "
             "know its names"],
            self.found({}, "millrace_precompile(a TESTS <regex> <vector>)\n"))


if __name__ == "__main__":
    unittest.main()

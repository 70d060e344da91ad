#!/usr/bin/env python3
"""Plants violations in a made-up tree and expects check_rules to find each."""
import pathlib
import tempfile
import unittest

import check_rules

RULES = "- **S-A-1.** One.\n- **S-A-2. Name.** Two; see S-A-1.\n"


class CheckRulesTest(unittest.TestCase):
    def found(self, rules, test, path="tests/x/x_test.cc"):
        with tempfile.TemporaryDirectory() as root:
            for name, text in {"docs/semantics.md": rules, path: test}.items():
                target = pathlib.Path(root, name)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(text, encoding="utf-8")
            return check_rules.check_rules(root)[0]

    def test_rules_that_are_all_cited_pass(self):
        self.assertEqual([], self.found(RULES, "// S-A-1, S-A-2.\n"))
        self.assertEqual([], self.found(RULES, "# S-A-2\n# S-A-1\n", "tests/x/x_test.py"))

    def test_a_rule_without_a_test_is_found(self):
        self.assertEqual(["docs/semantics.md:2: no test cites S-A-2"],
                         self.found(RULES, "// S-A-1\n"))

    def test_a_longer_number_is_another_rule(self):
        self.assertEqual(["tests/x/x_test.cc:1: docs/semantics.md has no rule S-A-10",
                          "docs/semantics.md:1: no test cites S-A-1"],
                         self.found(RULES, "// S-A-10, S-A-2\n"))

    def test_an_unknown_rule_is_found(self):
        self.assertEqual(["tests/x/x_test.cc:2: docs/semantics.md has no rule S-B-1"],
                         self.found(RULES, "// S-A-1 S-A-2\n// S-B-1\n"))

    def test_a_rule_stated_twice_is_found(self):
        self.assertEqual(["docs/semantics.md:3: S-A-1 is stated in line 1 already"],
                         self.found(RULES + "- **S-A-1.** Again.\n", "// S-A-1, S-A-2\n"))


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""Plants wrong lines in a made-up file of messages and expects check_messages to find each."""
import pathlib
import tempfile
import unittest

import check_messages

SOURCE = 'TEST(A, B) {\n  EXPECT_MESSAGE(x);\n}\nTYPED_TEST(C, D) {}\n'


class CheckMessagesTest(unittest.TestCase):
    def found(self, golden, source=SOURCE):
        with tempfile.TemporaryDirectory() as root:
            folder = pathlib.Path(root, "tests", "base", "room")
            folder.mkdir(parents=True)
            (folder / "a_test.cc").write_text(source, encoding="utf-8")
            (folder.parent / "messages.golden").write_text(golden, encoding="utf-8")
            return check_messages.check_messages(root)[0]

    def expect_one(self, golden, part, source=SOURCE):
        found = self.found(golden, source)
        self.assertEqual(1, len(found), found)
        self.assertIn(part, found[0])

    def test_lines_of_tests_that_are_there_pass(self):
        golden = "A.B#2 DATA_LOSS bad\nA.B#10 - a text\nA.B#key DATA_LOSS \nC.D#1 NOT_FOUND x\n"
        self.assertEqual([], self.found(golden))

    def test_a_line_of_no_test_is_found(self):
        self.expect_one("A.Gone#1 DATA_LOSS bad\n", "no test A.Gone")

    def test_a_line_of_a_test_without_messages_is_found(self):
        self.expect_one("A.B#1 DATA_LOSS bad\n", "no test A.B", "TEST(A, B) {}\n")

    def test_another_form_or_code_is_found(self):
        for line in ("A.B DATA_LOSS bad\n", "A.B#1 BAD_LUCK bad\n", "\n"):
            self.expect_one(line, "not \"Suite.Case#key CODE text\"")

    def test_another_order_and_repeated_lines_are_found(self):
        self.expect_one("A.B#10 - x\nA.B#2 - x\n", "order")
        self.expect_one("A.B#2 - x\nA.B#2 - y\n", "order")

    def test_a_last_line_without_an_end_is_found(self):
        self.expect_one("A.B#1 - x", "no end")


if __name__ == "__main__":
    unittest.main()

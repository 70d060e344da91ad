#!/usr/bin/env python3
"""Tests of scripts/job_tables.py, and that docs/training.md has its tables."""
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import job_tables  # noqa: E402

PROTO = """
// A message.
message Job {
  // The file. It is required.
  string file = 1;
  // Steps of 1.5 units,
  // or none. Default 3: few. More words.
  optional uint32 steps = 2;
  // True if so.
  bool so = 4;
  oneof kind {
    Other other = 5;
  }
  repeated Rule rule = 6;
}

enum Rule {
  LINEAR = 0;  // a line
}
"""


class JobTablesTest(unittest.TestCase):
    def test_a_comment_is_a_row(self):
        self.assertEqual(
            "\n".join(["before", "<!-- table: Job -->",
                       "| field | type | meaning | default |",
                       "| --- | --- | --- | --- |",
                       "| `file` | text | The file. | required |",
                       "| `steps` | whole number | Steps of 1.5 units, or none. More words. "
                       "| 3: few |",
                       "| `so` | true or false | True if so. | false |",
                       "| `other` | `{}` | | |",
                       "| `rule` | `Rule`, repeated | | |",
                       "<!-- end -->", "after"]),
            job_tables.with_tables("before\n<!-- table: Job -->\nold\n<!-- end -->\nafter", PROTO))

    def test_an_enum_is_a_table_of_its_values(self):
        page = job_tables.with_tables("<!-- table: Rule -->\n<!-- end -->", PROTO)
        self.assertIn("| `LINEAR` | a line |", page)

    def test_the_page_has_the_tables_of_the_proto(self):
        page = job_tables.PAGE.read_text(encoding="utf-8")
        proto = job_tables.PROTO.read_text(encoding="utf-8")
        self.assertEqual(job_tables.with_tables(page, proto), page,
                         "run python3 scripts/job_tables.py")

    def test_every_message_is_on_the_page_and_every_field_has_a_meaning(self):
        page = job_tables.PAGE.read_text(encoding="utf-8")
        for name, rows in job_tables.parse(job_tables.PROTO.read_text(encoding="utf-8")).items():
            self.assertIn(f"<!-- table: {name} -->", page)
            for row in rows[2:]:
                self.assertTrue(all(row[:-1]), f"{name}: {row}")


if __name__ == "__main__":
    unittest.main()

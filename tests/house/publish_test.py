#!/usr/bin/env python3
"""Tests of the tables that scripts/bench.sh --publish writes."""
import io
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import bench  # noqa: E402


class PublishTest(unittest.TestCase):
    ROWS = [{"name": "hep_cnn", "value": 10, "unit": "images/s", "limit": 8, "ratio": 1.25,
             "value_spread": 0.01, "limit_spread": 0.02, "repeats": 5, "note": "a | b",
             "bar": "ratio >= 1.3", "met": False},
            {"name": "strong_scaling_2_lenet", "value": 1.5, "unit": "times", "limit": 2,
             "ratio": 0.75, "value_spread": 0.1, "limit_spread": 0, "repeats": 5},
            {"name": "cosmogan", "skipped": "no torch", "bar": "ratio >= 1.3"}]

    def test_the_table_has_every_row_its_bar_and_the_machine(self):
        begin, end = bench.marks("trainer")
        with tempfile.TemporaryDirectory() as folder:
            document = pathlib.Path(folder, "README.md")
            document.write_text(f"a\n{begin}old\n{end}b\n", encoding="utf-8")
            with mock.patch.object(bench, "today", lambda: "2026-11-27, a processor, 2 cores"):
                bench.publish("trainer", self.ROWS, document)
            text = document.read_text(encoding="utf-8")
        self.assertEqual(f"""a
{begin}2026-11-27, a processor, 2 cores.
0 of 2 bars met, 1 missed, 1 not told:

| row | value | limit | ratio | spread | bar |
| --- | --- | --- | --- | --- | --- |
| `hep_cnn` | 10 images/s; a \\| b | 8 | 1.250 | 1%, 2% of 5 | ratio >= 1.3: **missed** |
| `cosmogan` | skipped: no torch | | | | ratio >= 1.3: not measured |
| `strong_scaling_2_lenet` | 1.5 times | 2 | 0.750 | 10%, 0% of 5 |  |
{end}b
""", text)

    def test_the_readme_has_the_marks_of_every_area_that_is_published(self):
        text = bench.README.read_text(encoding="utf-8")
        for area in bench.PUBLISHED:
            self.assertTrue(all(text.count(mark) == 1 for mark in bench.marks(area)))

    def test_an_area_without_a_table_and_a_row_that_is_none_are_refused(self):
        for words in (["readers", "--publish"], ["trainer", "--row", "hep"]):
            with self.assertRaises(SystemExit), mock.patch("sys.stderr", io.StringIO()):
                bench.parse(words)
        self.assertEqual(bench.PUBLISHED["trainer"], bench.parse(["trainer"]).repeats)
        self.assertEqual(bench.REPEATS, bench.parse(["readers"]).repeats)


if __name__ == "__main__":
    unittest.main()

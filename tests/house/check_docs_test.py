#!/usr/bin/env python3
"""Tests of check_docs.py, and of what README.md shows."""
import pathlib
import tempfile
import unittest

import check_docs

ROOT = pathlib.Path(__file__).resolve().parents[2]


class CheckDocsTest(unittest.TestCase):
    def found(self, files):
        """Returns the violations of a tree of these files."""
        with tempfile.TemporaryDirectory() as name:
            for path, text in {"docs/index.md": "# Index\n", **files}.items():
                target = pathlib.Path(name, path)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(text, encoding="utf-8")
            return check_docs.check_docs(name)[0]

    def test_links_to_files_and_headings_are_fine(self):
        self.assertEqual([], self.found({
            "README.md": "# A\n[x](docs/index.md), [the\nsame](docs/index.md#index), [me](#a), "
                         "[web](https://example.org/x)\n![chart](docs/a.svg)\n",
            "docs/a.svg": ""}))

    def test_a_dead_link_is_found(self):
        self.assertEqual(["README.md:2: no file docs/none.md"],
                         self.found({"README.md": "# A\n[x](docs/none.md)\n"}))

    def test_a_link_out_of_the_tree_is_found(self):
        self.assertEqual(["README.md:1: no file ../x.md"], self.found({"README.md": "[x](../x.md)"}))

    def test_a_dead_heading_is_found(self):
        self.assertEqual(["README.md:1: no heading #none in docs/index.md"],
                         self.found({"README.md": "[x](docs/index.md#none)\n"}))

    def test_code_holds_no_links(self):
        self.assertEqual([], self.found({"README.md": "`[x](y)`\n```\n[x](y)\n```\n"}))

    def test_headings_are_linked_as_on_github(self):
        text = "# A `b`: c, d\n## Twice\n## Twice\n"
        self.assertEqual({"a-b-c-d", "twice", "twice-1"}, check_docs.anchors(text))

    def test_a_document_that_denies_the_python_package_is_found(self):
        for text in ("There is no Python package.", "It lacks a Python interface"):
            self.assertEqual(["README.md:1: there is a Python package"],
                             self.found({"README.md": text + "\n"}))
        for text in ("The Python package", "no Python package_data", "```\nno Python package\n```"):
            self.assertEqual([], self.found({"README.md": text + "\n"}))

    def test_a_document_that_nothing_links_is_found(self):
        files = {"docs/index.md": "[a](a.md)\n", "docs/a.md": "[b](sub/b.md)\n",
                 "docs/sub/b.md": "b\n", "docs/lost.md": "[a](a.md)\n"}
        self.assertEqual(["docs/lost.md:1: not linked from docs/index.md or a document that it "
                          "links to"], self.found(files))

    def test_long_prose_is_found_and_tables_and_code_are_not(self):
        wide = "word " * 20 + "x"  # 101 columns
        self.assertEqual(["README.md:1: 101 columns; at most 100"],
                         self.found({"README.md": f"{wide}\n"}))
        for text in (f"| {wide} |", f"```\n{wide}\n```", "- https://" + "x" * 100,
                     "\u00e9 " * 50):
            self.assertEqual([], self.found({"README.md": text + "\n"}))

    def test_a_long_readme_is_found(self):
        self.assertEqual([], self.found({"README.md": "x\n" * 90}))
        self.assertEqual(["README.md:1: 91 lines; at most 90"],
                         self.found({"README.md": "x\n" * 91}))

    def test_marks_of_a_merge_are_found(self):
        marks = "<<<<<<< HEAD\na\n=======\nb\n>>>>>>> main\n"
        self.assertEqual(["README.md:1: mark of a merge", "README.md:5: mark of a merge"],
                         self.found({"README.md": marks}))


class ReadmeTest(unittest.TestCase):
    def test_the_plan_of_the_readme_is_the_one_of_the_examples(self):
        plan = (ROOT / "examples/fashion_mnist/nine_lines.pbtxt").read_text(encoding="utf-8")
        self.assertEqual(9, plan.count("\n"))
        for document in ("README.md", "docs/first_plan.md"):
            self.assertIn(plan, (ROOT / document).read_text(encoding="utf-8"), document)


if __name__ == "__main__":
    unittest.main()

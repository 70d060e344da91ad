"""docs/api has every public name of the package, with its docstring."""
import os
import pathlib
import sys
import unittest

import millrace as mr

ROOT = pathlib.Path(os.environ["MILLRACE_SOURCE_DIR"])
sys.path.insert(0, str(ROOT / "python"))
from generate import api  # noqa: E402

# The modules whose pages are parts of others', and the constants of an enumeration.
NO_ENTRIES = {"recipes", "testing", *mr.DataType.__members__}


def names_of(members, prefix=""):
    """Yields the (name, documentation) of members, and of those in them."""
    for member in members:
        for name in (member.name, *member.aliases):
            yield prefix + name, member.doc
        yield from names_of(member.members, f"{prefix}{member.name}.")


class ApiTest(unittest.TestCase):
    # With MILLRACE_REGENERATE=1 in the environment the pages get the text that they should have.
    def test_pages_are_current(self):
        pages = api.pages(ROOT)
        for path, text in pages.items():
            if os.environ.get("MILLRACE_REGENERATE"):
                path.parent.mkdir(exist_ok=True)
                path.write_text(text, encoding="utf-8")
            self.assertTrue(path.exists() and path.read_text(encoding="utf-8") == text,
                            f"{path} is not current: run MILLRACE_REGENERATE=1 "
                            "ctest --test-dir build/dev -R python_api_test")
        self.assertEqual(set((ROOT / "docs/api").iterdir()), set(pages))

    def test_every_public_name_has_an_entry(self):
        shown = {prefix.removeprefix("mr.") + name for _, members in api.read(ROOT)
                 for prefix, member in members for name in (member.name, *member.aliases)}
        self.assertEqual(set(mr.__all__) - NO_ENTRIES - shown, set())
        methods = {name for name in dir(mr.Plan) if not name.startswith("_")}
        entries = {name.rpartition(".")[2] for _, members in api.read(ROOT)
                   for name, _ in names_of([member for _, member in members])}
        self.assertEqual(methods - entries, set())

    def test_every_entry_says_what_it_is(self):
        silent = [name for page, members in api.read(ROOT)
                  for name, doc in names_of([member for _, member in members], f"{page.name}: ")
                  if not doc]
        self.assertEqual(silent, [])

    def test_docstrings_become_markdown(self):
        self.assertEqual(api.markdown_of("""Reads x, of __all__.

    first = 1

    second = 2

path: a name
    of a file.
rank, world: numbers.

Args:
  one: Its text
      goes on.

KeyError: it is not there."""), """Reads x, of `__all__`.

```python
first = 1

second = 2
```

- `path`: a name of a file.
- `rank`, `world`: numbers.

- `one`: Its text goes on.

- `KeyError`: it is not there.""")


if __name__ == "__main__":
    unittest.main()

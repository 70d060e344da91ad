"""The stub of the extension has the names that the extension has."""
import ast
import os
import unittest

from millrace import _core

STUB = os.path.join(os.environ["MILLRACE_SOURCE_DIR"], "python/millrace/_core.pyi")


def names_of(body):
    return {item.name for item in body if isinstance(item, (ast.FunctionDef, ast.ClassDef))}


def own_names(kind):
    """Returns the names of a class that not every class has."""
    return {name for name in vars(kind) if name not in ("__doc__", "__module__")}


class StubTest(unittest.TestCase):
    def test_names_are_those_of_the_extension(self):
        with open(STUB, encoding="utf-8") as file:
            stub = ast.parse(file.read())
        self.assertEqual(names_of(stub.body),
                         {name for name in vars(_core) if not name.startswith("__")})
        for item in stub.body:
            if isinstance(item, ast.ClassDef):
                with self.subTest(item.name):
                    self.assertEqual(names_of(item.body), own_names(getattr(_core, item.name)))


if __name__ == "__main__":
    unittest.main()

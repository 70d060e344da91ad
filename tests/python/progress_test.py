"""Progress of indexing and of conversions, by functions and by bars of tqdm."""
import os
import re
import subprocess
import sys
import unittest

import data
import millrace as mr

# Indexes and converts the lines of argv[1]; argv[2] is a folder.
SHOWS = """
import sys, millrace as mr
lines, folder = sys.argv[1:]
plan = mr.text(lines).parse_csv(mr.feature("x", int)).batch(8)
with plan.numpy("x", index_folder=folder, progress=True) as loader:
    assert next(iter(loader)).tolist() == list(range(8))
print("converting", file=sys.stderr, flush=True)
assert mr.convert(lines, folder + "/out", from_="text", progress=True).records == 4000
print("dicts", file=sys.stderr, flush=True)
mr.convert([{"x": i} for i in range(7)], folder + "/dicts", progress=True)
"""


class Progress(unittest.TestCase):
    def setUp(self):
        self.folder = data.folder()
        self.lines = os.path.join(self.folder, "lines.txt")
        with open(self.lines, "w", encoding="utf-8") as file:
            file.writelines(f"{i:04}\n" for i in range(4000))

    def test_a_function_is_told_the_bytes_of_indexing(self):
        told = []
        plan = mr.text(self.lines).parse_csv(mr.feature("x", int)).batch(8)

        def open_with(progress):
            plan.numpy(index_folder=self.folder, progress=progress).open().close()

        open_with(lambda *now: told.append(now))
        self.assertEqual(told[-1], (20000, 20000))
        self.assertEqual(told, sorted(told))
        told.clear()
        open_with(lambda *now: told.append(now))
        self.assertEqual(told, [])  # the index is there

    def test_bars_of_tqdm(self):
        data.needs("tqdm")
        done = subprocess.run([sys.executable, "-c", SHOWS, self.lines, self.folder], text=True,
                              capture_output=True, timeout=100, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        indexing, converting = done.stderr.split("converting\n")
        converting, dicts = converting.split("dicts\n")
        for bar, shown in ((indexing, r"100%\|.*\| 20\.0k/20\.0k \[.*B/s\]|"
                                      r"100%\|.*\| 20000/20000 \[.*B/s\]"),
                           (converting, r"100%\|.*\| 4000/4000 \[.*records/s\]"),
                           (dicts, r"100%\|.*\| 7/7 \[.*records/s\]")):
            self.assertTrue(re.search(shown, bar.split("\r")[-1]), bar)


if __name__ == "__main__":
    unittest.main()

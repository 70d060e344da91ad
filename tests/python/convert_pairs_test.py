"""Conversions between every pair of formats: mr.convert leaves the files of `millrace records
convert`, byte for byte, and refuses what that refuses."""
import os
import pathlib
import struct
import subprocess
import unittest

import data
import millrace as mr

PROGRAM = os.environ.get("MILLRACE_PROGRAM")
FORMATS = ("tfrecord", "text", "fixed_length", "csv", "jsonl", "tar", "idx", "images")
# Lines have no labels, and JSON no bytes that are not text, so that no image comes from them.
REFUSED = {(source, to) for source in ("text", "fixed_length", "jsonl") for to in ("idx", "images")}

SLIM = {"image": "image/encoded", "label": "image/class/label", "text": "image/format"}
# The names of a sample's values in the sources of each format.
NAMES = {"tfrecord": SLIM, "idx": SLIM, "images": SLIM, "csv": SLIM,
         "tar": {"image": "png", "label": "cls", "text": "txt"},
         "jsonl": {"label": "label", "text": "name"}}
# The values that a format takes, with the names in it.
TAKEN = {"idx": {"image": "image/encoded", "label": "image/class/label"},
         "images": {"image": "image/encoded", "label": "image/class/label"},
         "tar": {"image": "png", "label": "cls", "text": "txt"},
         "csv": {"image": "image/encoded", "label": "image/class/label", "text": "image/format"},
         "jsonl": {"label": "label", "text": "name"},
         "tfrecord": {"image": "picture", "label": "number", "text": "word"}}


def write_idx(folder):
    """Writes grey images of 3 classes, and returns the options that read them."""
    pixels = bytes(range(6 * 20))
    (folder / "images").write_bytes(struct.pack(">4I", 0x803, 6, 5, 4) + pixels)
    (folder / "labels").write_bytes(struct.pack(">2I", 0x801, 6) + bytes([0, 1, 2, 1, 0, 2]))
    return folder / "images", {"labels": folder / "labels"}


def sources_in(folder):
    """Returns the (source, options) of each format, whose samples are those of write_idx."""
    made = {"idx": write_idx(folder)}

    def add(to, options, **how):
        report = mr.convert(*made["tfrecord"][:1], folder / to, from_="tfrecord", to=to, **how)
        made[to] = list(report.files), options

    made["tfrecord"] = list(mr.convert(made["idx"][0], folder / "slim", from_="idx",
                                       shards=2, **made["idx"][1]).files), {}
    renamed = {to: {SLIM[value]: name for value, name in TAKEN[to].items()}
               for to in ("tar", "csv", "jsonl", "images")}
    add("tar", {}, features=renamed["tar"])
    add("csv", {"header": True, "schema":
                "image/encoded:bytes,image/class/label:int64,image/format:bytes"},
        features=renamed["csv"])
    add("jsonl", {"schema": "label:int64,name:bytes"}, features=renamed["jsonl"])
    add("text", {}, feature=SLIM["text"])
    add("fixed_length", {"record_bytes": 3}, feature=SLIM["text"])
    add("images", {}, features=renamed["images"])
    made["images"] = made["images"][0][0], {}
    return made


def options_of(source, to):
    """Returns the options that say which values go from one format to another."""
    lines = ("text", "fixed_length")
    if source in lines and to in lines:
        return {}
    if source in lines:
        return {"feature": "txt"}
    names = NAMES[source]
    if to in lines:
        return {"feature": names["text"]}
    return {"features": {names[value]: name for value, name in TAKEN[to].items()
                         if value in names}}


def flags_of(options):
    """Returns options as the program has them."""
    flags = []
    for name, value in options.items():
        if isinstance(value, dict):
            value = ",".join(f"{old}={new}" for old, new in value.items())
        flags += [f"--{name.rstrip('_').replace('_', '-')}"] + ([] if value is True else [value])
    return flags


def files_below(folder):
    return {path.relative_to(folder): path.read_bytes()
            for path in sorted(folder.rglob("*")) if path.is_file()}


@unittest.skipUnless(PROGRAM, "the program is not built")
class Pairs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(data.folder())
        cls.sources = sources_in(cls.folder)

    def by_program(self, source, options, out):
        files = ["--images", source] if options["from_"] in ("images", "idx") else source
        return subprocess.run(
            [PROGRAM, "records", "convert", "--out", out, "--prefix", "all",
             *map(str, [*flags_of(options), *files])],
            capture_output=True, text=True, timeout=100, check=False)

    def check(self, source, to):
        files, options = self.sources[source]
        options = {**options, **options_of(source, to), "from_": source, "to": to}
        ours, theirs = (self.folder / f"{who}-{source}-{to}" for who in ("ours", "theirs"))
        done = self.by_program(files, options, theirs)
        if (source, to) in REFUSED:
            self.assertNotEqual(done.returncode, 0)
            with self.assertRaises(mr.Error) as raised:
                mr.convert(files, ours / "all", **options)
            self.assertIn(str(raised.exception), done.stderr)
            self.assertFalse(ours.exists() or theirs.exists())
            return
        self.assertEqual(done.returncode, 0, done.stderr)
        report = mr.convert(files, ours / "all", **options)
        self.assertEqual(report.records, 6)
        written = files_below(theirs)
        self.assertGreater(sum(map(len, written.values())), 6)
        self.assertEqual(files_below(ours), written)

    def test_files_are_those_of_the_program(self):
        self.assertEqual(set(self.sources), set(FORMATS))
        for source in FORMATS:
            for to in FORMATS:
                with self.subTest(source=source, to=to):
                    self.check(source, to)


if __name__ == "__main__":
    unittest.main()

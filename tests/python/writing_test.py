"""Shards that a program writes, and conversions, against readers of their own."""
import collections
import glob
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import textwrap
import types
import unittest
import warnings
import zlib
from unittest import mock

import numpy as np

import millrace as mr

PROGRAM = os.environ.get("MILLRACE_PROGRAM")


# ---- TFRecord and tf.train.Example, read by their descriptions ----

def make_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = (byte >> 1) ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


TABLE = make_table()


def masked_crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 255] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def records_of(data):
    """Returns the payloads of a shard's bytes."""
    records = []
    while data:
        size, size_crc = struct.unpack_from("<QI", data)
        payload, rest = data[12:12 + size], data[12 + size:]
        assert size_crc == masked_crc32c(data[:8])
        assert struct.unpack_from("<I", rest)[0] == masked_crc32c(payload)
        records.append(payload)
        data = rest[4:]
    return records


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift += 7
        at += 1
        if data[at - 1] < 128:
            return value, at


def fields(data):
    """Returns the (number, content) of a message of length-delimited fields."""
    found, at = [], 0
    while at < len(data):
        tag, at = varint(data, at)
        assert tag & 7 == 2, tag
        size, at = varint(data, at)
        found.append((tag >> 3, data[at:at + size]))
        at += size
    return found


def example_of(payload):
    """Returns the features of a tf.train.Example: (kind, values) by name."""
    ((one, features),) = fields(payload)
    assert one == 1
    example = {}
    for _, entry in fields(features):
        (_, name), (_, feature) = fields(entry)
        ((kind, values),) = fields(feature)
        example[name.decode()] = values_of(kind, values)
    return example


def values_of(kind, data):
    contents = [content for _, content in fields(data)]
    if kind == 1:
        return "bytes", contents
    packed = b"".join(contents)
    if kind == 2:
        return "float", [value for value, in struct.iter_unpack("<f", packed)]
    values, at = [], 0
    while at < len(packed):
        value, at = varint(packed, at)
        values.append(value - (1 << 64) if value >> 63 else value)
    return "int64", values


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.prefix = self.folder / "out/train"

    def shards(self, prefix=None):
        return sorted(glob.glob(f"{prefix or self.prefix}-?????-of-*"))

    def payloads(self):
        return [records_of(pathlib.Path(shard).read_bytes()) for shard in self.shards()]

    def written(self, example):
        with mr.TFRecordWriter(self.prefix, overwrite=True) as writer:
            writer.write(example)
        return example_of(self.payloads()[0][0])

    def left(self):
        return sorted(os.listdir(self.folder / "out")) if (self.folder / "out").exists() else []

    def text(self, name, text):
        (self.folder / name).write_text(text)
        return self.folder / name


class Writer(Case):
    def test_values_become_features_of_their_type(self):
        cases = (
            (b"\xff\0", "bytes", [b"\xff\0"]),
            ("é", "bytes", ["é".encode()]),
            (bytearray(b"ab"), "bytes", [b"ab"]),
            (memoryview(b"ab"), "bytes", [b"ab"]),
            (["a", b"b", ""], "bytes", [b"a", b"b", b""]),
            (np.array(["a", "bc"]), "bytes", [b"a", b"bc"]),
            (np.array([b"a", "b"], object), "bytes", [b"a", b"b"]),
            (np.array([], "S1"), "bytes", []),
            (3, "int64", [3]),
            (True, "int64", [1]),
            (-(1 << 63), "int64", [-(1 << 63)]),
            ((1, -2, True), "int64", [1, -2, 1]),
            (np.uint8(255), "int64", [255]),
            (np.array([[1, 2], [3, 4]], np.int16), "int64", [1, 2, 3, 4]),
            (np.array([[1, 2], [3, 4]]).T, "int64", [1, 3, 2, 4]),
            (np.array([True, False]), "int64", [1, 0]),
            (np.zeros(0, np.int32), "int64", []),
            (0.5, "float", [0.5]),
            ([1, 0.25], "float", [1.0, 0.25]),
            (np.float16(1.5), "float", [1.5]),
            (np.array([0.1]), "float", [struct.unpack("f", struct.pack("f", 0.1))[0]]),
            (float("inf"), "float", [float("inf")]),
            (np.zeros((0, 4), np.float32), "float", []),
        )
        for value, kind, values in cases:
            with self.subTest(value=value):
                self.assertEqual(self.written({"x": value}), {"x": (kind, values)})

    def test_wrong_values_name_their_key(self):
        cases = (
            (TypeError, None), (TypeError, {}), (TypeError, []), (TypeError, [1, "a"]),
            (TypeError, [[1]]), (TypeError, object()), (TypeError, 1j),
            (TypeError, np.zeros(2, complex)), (TypeError, np.array([None])),
            (ValueError, 1 << 63), (ValueError, [1 << 63, -1]), (ValueError, np.uint64(1 << 63)),
            (ValueError, 1e39), (ValueError, np.array([1e39])),
        )
        with mr.TFRecordWriter(self.prefix) as writer:
            for kind, value in cases:
                with self.subTest(value=value), self.assertRaisesRegex(kind, "^'image/label': "):
                    writer.write({"ok": 1, "image/label": value})
            with self.assertRaisesRegex(TypeError, "^3: keys are str"):
                writer.write({3: 1})
            with self.assertRaisesRegex(TypeError, r"not bytes; write_raw\(\) takes bytes"):
                writer.write(b"a record")
            with self.assertRaises(TypeError):
                writer.write_raw("text")
            with self.assertRaises(TypeError):
                writer.write_raw(3)
            writer.write_raw(b"good")
        self.assertEqual(self.payloads(), [[b"good"]])

    def test_shards_are_blocks_in_order(self):
        payloads = [b"%d" % i * (i % 5) for i in range(11)]
        with mr.TFRecordWriter(self.prefix, shards=4) as writer:
            for payload in payloads:
                writer.write_raw(payload)
            self.assertEqual(self.shards(), [])
        self.assertTrue(writer.closed)
        self.assertEqual(self.shards()[0], f"{self.prefix}-00000-of-00004.tfrecord")
        self.assertEqual([len(shard) for shard in self.payloads()], [2, 3, 3, 3])
        self.assertEqual(sum(self.payloads(), []), payloads)
        with self.assertRaises(ValueError):
            writer.write_raw(b"x")

    def test_compressed_shards_hold_the_same(self):
        for compression in ("gzip", "zlib"):
            with mr.TFRecordWriter(self.prefix, compression=compression, compression_level=9,
                                   overwrite=True) as writer:
                writer.write_raw(b"a" * 1000)
            data = pathlib.Path(self.shards()[0]).read_bytes()
            self.assertLess(len(data), 100)
            self.assertEqual(records_of(zlib.decompress(data, 32 + 15)), [b"a" * 1000])

    def test_an_exception_in_the_block_leaves_nothing(self):
        for shards in (1, 3):
            with self.assertRaises(ZeroDivisionError):
                with mr.TFRecordWriter(self.prefix, shards) as writer:
                    for _ in range(5):
                        writer.write_raw(b"x")
                    raise ZeroDivisionError
            self.assertTrue(writer.closed)
            self.assertEqual(os.listdir(self.folder), [])

    def test_a_writer_that_is_dropped_leaves_nothing(self):
        writer = mr.TFRecordWriter(self.prefix, 3)
        writer.write_raw(b"x")
        del writer
        self.assertEqual(os.listdir(self.folder), [])

    def test_errors_are_typed(self):
        with mr.TFRecordWriter(self.prefix) as writer:
            writer.write_raw(b"x")
        with self.assertRaises(FileExistsError) as raised:
            mr.TFRecordWriter(self.prefix)
        self.assertIsInstance(raised.exception, mr.AlreadyExists)
        with self.assertRaises(ValueError):
            mr.TFRecordWriter(self.prefix, compression="lzma", overwrite=True)
        with self.assertRaises(ValueError):
            mr.TFRecordWriter(self.prefix, 0, overwrite=True)
        with self.assertRaisesRegex(mr.PlanError, "4 shards for 1 records"):
            with mr.TFRecordWriter(self.prefix, 4, overwrite=True) as writer:
                writer.write_raw(b"y")
        self.assertEqual(self.payloads(), [[b"x"]])

    def test_progress_ends_with_all_records(self):
        told = []
        with mr.TFRecordWriter(self.prefix, 2, progress=lambda *now: told.append(now)) as writer:
            for _ in range(4):
                writer.write_raw(b"x")
        self.assertEqual((told[0], told[-1]), ((1, 4), (4, 4)))

    def test_what_progress_raises_ends_the_cutting_and_leaves_nothing(self):
        def refuse(done, total):
            raise KeyError(done, total)
        with self.assertRaises(KeyError) as raised:
            with mr.TFRecordWriter(self.prefix, 2, progress=refuse) as writer:
                for _ in range(4):
                    writer.write_raw(b"x")
        self.assertEqual(raised.exception.args, (1, 4))
        self.assertTrue(writer.closed)
        self.assertEqual(os.listdir(self.folder), [])

    def test_a_pipeline_reads_what_was_written(self):
        boxes = [np.float32([i, i + 0.5, 2, 3]) for i in range(10)]
        with mr.TFRecordWriter(self.prefix, shards=3) as writer:
            for i, box in enumerate(boxes):
                writer.write({"image/encoded": b"\0" * i, "image/class/label": i, "box": box})
        plan = (mr.tfrecord(f"{self.prefix}-*.tfrecord")
                .parse_example(mr.feature("image/class/label", int, name="label"),
                               mr.feature("box", float, shape=[4]))
                .batch(10))
        with plan.numpy(("label", "box"), repeat=False) as loader:
            (labels, read), = [(label.copy(), box.copy()) for label, box in loader]
        self.assertEqual(labels.tolist(), list(range(10)))
        np.testing.assert_array_equal(read, np.stack(boxes))

    def test_a_forked_child_leaves_the_writer_to_its_parent(self):
        writer = mr.TFRecordWriter(self.prefix, 1)
        writer.write_raw(b"x")
        child = os.fork()
        if child == 0:
            try:
                writer.write_raw(b"y")
                os._exit(1)
            except mr.FailedPrecondition:
                writer.abort()
                os._exit(0)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        writer.close()
        self.assertEqual(self.payloads(), [[b"x"]])


class Convert(Case):
    def both(self, source, flags, **options):
        """Converts by the function and by the program, which must write the same bytes."""
        report = mr.convert(source, self.prefix, **options)
        files = [pathlib.Path(file) for file in report.files]
        self.assertEqual([str(file) for file in files], self.shards())
        if PROGRAM:
            subprocess.run([PROGRAM, "records", "convert", *map(str, flags), "--out",
                            self.folder / "cli", "--prefix", "train"], check=True,
                           stdout=subprocess.DEVNULL)
            for file in files:
                cli = self.folder / "cli" / file.name
                for own in sorted(file.rglob("*")) if file.is_dir() else [file]:
                    other = cli / own.relative_to(file)
                    if own.is_file():
                        self.assertEqual(own.read_bytes(), other.read_bytes(), own)
        return report

    def images(self):
        """Makes a folder of small PNGs by class."""
        for kind, count in (("cat", 3), ("dog", 2)):
            (self.folder / "in" / kind).mkdir(parents=True)
            for i in range(count):
                rows = b"".join(b"\0" + bytes([i * 40 + row]) * 3 * 5 for row in range(4))
                chunks = ((b"IHDR", struct.pack(">IIBBBBB", 5, 4, 8, 2, 0, 0, 0)),
                          (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
                (self.folder / "in" / kind / f"{i}.png").write_bytes(
                    b"\x89PNG\r\n\x1a\n" + b"".join(
                        struct.pack(">I", len(data)) + name + data +
                        struct.pack(">I", zlib.crc32(name + data)) for name, data in chunks))
        return self.folder / "in"

    def test_images_become_examples(self):
        folder = self.images()
        report = self.both(folder, ["--from", "images", "--images", folder, "--shards", 2,
                                    "--shuffle", 3],
                           from_="images", shards=2, shuffle=3)
        self.assertEqual((report.records, report.left_out), (5, 0))
        examples = [example_of(payload) for shard in self.payloads() for payload in shard]
        labels = collections.Counter(example["image/class/label"][1][0] for example in examples)
        self.assertEqual(labels, {0: 3, 1: 2})
        for example in examples:
            name = example["image/filename"][1][0].decode()
            self.assertEqual(example["image/encoded"], ("bytes", [(folder / name).read_bytes()]))

    def test_images_are_encoded_anew(self):
        folder = self.images()
        report = self.both(folder, ["--from", "images", "--images", folder, "--max-resolution", 3,
                                    "--write-mode", "smart", "--smart-threshold", 1,
                                    "--jpeg-quality", 77],
                           from_="images", max_resolution=3, write_mode="smart", smart_threshold=1,
                           jpeg_quality=77)
        self.assertEqual(report.records, 5)
        example = example_of(self.payloads()[0][0])
        self.assertEqual(example["image/format"], ("bytes", [b"jpeg"]))

    def test_each_pair_of_formats(self):
        rows = self.text("rows.tsv", "id\tname\n1\ta\n2\tb\n3\tc\n")
        schema = "id:int64,name:bytes"
        self.both(rows, ["--from", "csv", rows, "--header", "--delimiter", "\t", "--schema",
                         schema, "--shards", 2, "--compression", "gzip", "--suffix",
                         ".tfrecord.gz"],
                  from_="csv", header=True, delimiter="\t", schema=schema, shards=2,
                  compression="gzip", suffix=".tfrecord.gz")
        samples = self.shards()
        for to, kept in (("jsonl", {"id": "id", "name": "n"}), ("csv", {"id": "id"}),
                         ("tar", {"id": "cls", "name": "txt"}), ("tfrecord", {"name": "x"})):
            with self.subTest(to=to):
                self.prefix = self.folder / to / "train"
                features = ",".join(f"{name}={new}" for name, new in kept.items())
                self.both(samples, ["--from", "tfrecord", "--to", to, *samples, "--features",
                                    features, "--overwrite"],
                          from_="tfrecord", to=to, features=kept)
        for to in ("text", "fixed_length"):
            with self.subTest(to=to):
                self.prefix = self.folder / to / "train"
                self.both(samples, ["--from", "tfrecord", "--to", to, *samples, "--feature",
                                    "name", "--overwrite"],
                          from_="tfrecord", to=to, feature="name")
        self.assertEqual((self.folder / "text/train-00000-of-00001.txt").read_text(), "a\nb\nc\n")
        fixed = self.shards()
        self.prefix = self.folder / "back/train"
        self.both(fixed, ["--from", "fixed_length", *fixed, "--record-bytes", 1, "--overwrite"],
                  from_="fixed_length", record_bytes=1)
        self.assertEqual(self.payloads(), [[b"a", b"b", b"c"]])

    def test_json_lines_may_have_nan(self):
        lines = self.text("lines.jsonl", '{"x": NaN}\n{"x": -Infinity}\n')
        self.both(lines, ["--from", "jsonl", lines, "--schema", "x:float32", "--allow-nan"],
                  from_="jsonl", schema="x:float32", allow_nan=True)
        first, second = [example_of(payload)["x"][1][0] for payload in self.payloads()[0]]
        self.assertTrue(first != first)
        self.assertEqual(second, float("-inf"))

    def test_images_become_folders_of_images(self):
        folder = self.images()
        self.both(folder, ["--from", "images", "--images", folder, "--to", "images"],
                  from_="images", to="images")
        self.assertEqual(len(list(self.folder.glob("out/train-*/*/*.png"))), 5)

    def test_dicts_become_examples(self):
        told = []
        report = mr.convert(({"x": i} for i in range(7)), self.prefix, shards=2,
                            progress=lambda *now: told.append(now))
        self.assertEqual(report[1:], (7, 0, 0, sum(map(os.path.getsize, self.shards()))))
        self.assertEqual(list(report.files), self.shards())
        self.assertEqual([example_of(payload)["x"] for shard in self.payloads()
                          for payload in shard], [("int64", [i]) for i in range(7)])
        self.assertEqual(told, [(i, 0) for i in range(1, 8)])
        with self.assertRaisesRegex(TypeError, "record 1: a int, not a dict"):
            mr.convert([{"x": 1}, 2], self.folder / "none/x")
        self.assertFalse((self.folder / "none").exists())

    def test_bad_records_are_told(self):
        rows = self.text("rows.csv", "1\nx\n3\ny\n")
        bad = []
        options = {"from_": "csv", "schema": "id:int64", "bad": bad.append}
        with self.assertRaises(mr.Error) as raised:
            mr.convert(rows, self.prefix, **options)
        self.assertEqual(raised.exception.record.ordinal, 1)
        self.assertEqual([error.record.ordinal for error in bad], [1, 3])
        self.assertEqual(self.left(), [])
        bad.clear()
        report = mr.convert(rows, self.prefix, on_damage="skip", **options)
        self.assertEqual((report.records, report.left_out, len(bad)), (2, 2, 2))

        def refuse(_):
            raise KeyError("enough")
        with self.assertRaisesRegex(KeyError, "enough"):
            mr.convert(rows, self.folder / "other/x", on_damage="skip", **{**options,
                                                                          "bad": refuse})
        self.assertFalse((self.folder / "other").exists())

    def test_warnings_are_pythons(self):
        folder = self.images()
        (folder / "cat/odd.webp").write_bytes(b"RIFF")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            report = mr.convert(folder, self.prefix, from_="images")
        self.assertEqual(report.images_not_read, 1)
        self.assertIn("odd.webp", str(caught[0].message))
        self.assertEqual(caught[0].filename, __file__)

    def test_progress_true_shows_a_bar_of_tqdm(self):
        lines = self.text("lines.txt", "a\nb\n")

        class Bar:
            """What is used of tqdm."""
            made = []

            def __init__(self, **_):
                self.n, self.total, self.closed = 0, None, False
                self.made.append(self)

            def update(self, count):
                self.n += count

            def close(self):
                self.closed = True
        module = types.ModuleType("tqdm.auto")
        module.tqdm = Bar
        with mock.patch.dict(sys.modules, {"tqdm": module, "tqdm.auto": module}):
            mr.convert(lines, self.prefix, from_="text", progress=True)
        (bar,) = Bar.made
        self.assertEqual((bar.n, bar.total, bar.closed), (2, 2, True))
        with mock.patch.dict(sys.modules, {"tqdm": None, "tqdm.auto": None}):
            with self.assertWarnsRegex(UserWarning, "tqdm is not installed"):
                mr.convert(lines, self.prefix, from_="text", progress=True, overwrite=True)

    def test_wrong_arguments(self):
        lines = self.text("lines.txt", "a\n")
        for kind, part, source, options in (
                (TypeError, "needs from_", lines, {}),
                (TypeError, "no option 'shard'", lines, {"from_": "text", "shard": 2}),
                (TypeError, "shuffle: is no int", lines, {"from_": "text", "shuffle": "1"}),
                (TypeError, "schema: is no str", lines, {"from_": "text", "schema": 1}),
                (ValueError, "shuffle: is negative", lines, {"from_": "text", "shuffle": -1}),
                (ValueError, "threads: is too large", lines, {"from_": "text", "threads": 1 << 40}),
                (ValueError, "zero byte", lines, {"from_": "text", "suffix": "a\0b"}),
                (ValueError, "'xml' is no format", lines, {"from_": "xml"}),
                (ValueError, "shards is 0", lines, {"from_": "text", "shards": 0}),
                (TypeError, "from one path", [lines, lines], {"from_": "images"}),
                (TypeError, "writes dicts as tfrecord", [{}], {"to": "csv"}),
                (FileNotFoundError, "none.txt", self.folder / "none.txt", {"from_": "text"})):
            with self.subTest(part=part), self.assertRaisesRegex(kind, part):
                mr.convert(source, self.prefix, **options)
        self.assertEqual(self.left(), [])

    def test_an_interrupted_conversion_goes_on(self):
        """The second of the records is bad, and the function that is told of it interrupts."""
        rows = self.text("rows.csv", "1\nx\n3\n")
        options = {"from_": "csv", "schema": "id:int64", "shards": 3, "on_damage": "skip"}

        def interrupt(_):
            raise KeyboardInterrupt
        with self.assertRaises(KeyboardInterrupt):
            mr.convert(rows, self.prefix, bad=interrupt, **options)
        (kept,) = self.left()
        self.assertTrue(kept.startswith(".train.convert-"), kept)
        self.assertTrue((self.folder / "out" / kept / "train-00000-of-00003.tfrecord").exists())
        told = []
        report = mr.convert(rows, self.prefix, progress=lambda *now: told.append(now), **options)
        self.assertEqual(told[0], (2, 3))
        self.assertEqual((report.records, report.left_out), (2, 1))
        self.assertEqual([[example_of(payload) for payload in shard]
                          for shard in self.payloads()],
                         [[{"id": ("int64", [1])}], [], [{"id": ("int64", [3])}]])
        self.assertEqual(len(self.left()), 4)

    def test_ctrl_c_ends_a_conversion(self):
        """A thread interrupts a conversion that would take many times as long as to start it."""
        lines = self.text("lines.txt", "1\n" * 3_000_000)
        program = textwrap.dedent(f"""
            import _thread, threading, millrace as mr
            thread = threading.Thread(target=_thread.interrupt_main)
            try:
                thread.start()
                mr.convert({str(lines)!r}, {str(self.prefix)!r}, from_="csv", schema="x:int64",
                           threads=1)
            except KeyboardInterrupt:
                print("interrupted")
        """)
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                              timeout=100, check=False)
        self.assertEqual((done.stdout, done.returncode), ("interrupted\n", 0), done.stderr)
        self.assertEqual(self.shards(), [])


if __name__ == "__main__":
    unittest.main()

"""`millrace run --dump`: the files are arrays of NumPy's, and hold what the batches do."""

import ast
import pathlib
import struct
import tempfile
import unittest

from cli_testutil import millrace, write_tfrecord
from example_testutil import example

try:
    import numpy
except ImportError:
    numpy = None

ROWS = 10
LENGTHS = [row % 4 + 1 for row in range(ROWS)]


def read_npy(path):
    """(extents, values in C order) of a file in the format that numpy.lib.format documents."""
    data = path.read_bytes()
    assert data[:8] == b"\x93NUMPY\x01\x00"
    size, = struct.unpack("<H", data[8:10])
    assert (10 + size) % 64 == 0 and data[9 + size:10 + size] == b"\n"
    head = ast.literal_eval(data[10:10 + size].decode("ascii"))
    assert not head["fortran_order"]
    codes = {"|u1": "B", "<u8": "Q", "<i4": "i", "<i8": "q", "<f2": "e", "<f4": "f", "<f8": "d",
             "?": "?"}
    descr, body = head["descr"], data[10 + size:]
    if isinstance(descr, str):
        return head["shape"], [value for value, in struct.iter_unpack("<" + codes[descr], body)]
    row = "<" + "".join(codes[code] for _, code in descr)
    names = [name for name, _ in descr]
    return head["shape"], [dict(zip(names, row)) for row in struct.iter_unpack(row, body)]


class DumpTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.scratch.name)
        write_tfrecord(cls.folder / "data.tfrecord",
                       [example({"x/y": [0.25 * row, -1.0], "ids": list(range(LENGTHS[row])),
                                 "label": [row]}) for row in range(ROWS)])

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def dump(self, name, stages, *args, code=0):
        """Dumps batches of samples x/y (float32[2]), ids (int64[?]), label (int64[])."""
        plan = self.folder / f"{name}.pbtxt"
        plan.write_text(f"""
            stage {{ tfrecord {{ files: "{self.folder}/data.tfrecord" }} }}
            stage {{ parse_example {{
                feature {{ key: "x/y" dtype: FLOAT32 shape: [2] }}
                feature {{ key: "ids" dtype: INT64 shape: [-1] }}
                feature {{ key: "label" dtype: INT64 }} }} }}
            {stages}
        """)
        out = self.folder / name
        done = millrace("run", plan, "--dump", out, *args)
        self.assertEqual(done.returncode, code, done.stderr)
        return out if code == 0 else done

    def test_each_field_is_an_array_and_each_row_has_its_id(self):
        out = self.dump("padded", "stage { padded_batch { size: 4 } }")
        self.assertEqual(sorted(path.name for path in out.iterdir()),
                         [f"batch-00000{i}{end}" for i in range(3) for end in ("", ".ids.npy")])
        self.assertEqual(sorted(path.name for path in (out / "batch-000000").iterdir()),
                         ["ids.npy", "label.npy", "x%2Fy.npy"])
        self.assertEqual(read_npy(out / "batch-000001/label.npy"), ((4,), [4, 5, 6, 7]))
        self.assertEqual(read_npy(out / "batch-000000/x%2Fy.npy"),
                         ((4, 2), [0, -1, 0.25, -1, 0.5, -1, 0.75, -1]))
        self.assertEqual(read_npy(out / "batch-000000/ids.npy"),
                         ((4, 4), [0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 2, 0, 0, 1, 2, 3]))
        extents, rows = read_npy(out / "batch-000002.ids.npy")
        self.assertEqual(extents, (4,))
        self.assertEqual([row["record"] for row in rows], [8, 9, 0, 0])
        self.assertEqual([row["valid"] for row in rows], [True, True, False, False])
        self.assertEqual({row["epoch"] for row in rows}, {0})

    def test_ragged_fields_have_their_splits(self):
        out = self.dump("ragged", "stage { ragged_batch { size: 4 } }", "--batches", 1)
        self.assertEqual(read_npy(out / "batch-000000/ids%2Frow_splits.npy"),
                         ((5,), [0, 1, 3, 6, 10]))
        self.assertEqual(read_npy(out / "batch-000000/ids.npy"),
                         ((10,), [0, 0, 1, 0, 1, 2, 0, 1, 2, 3]))

    def test_bfloat16_is_float32_and_float16_is_itself(self):
        casts = " ".join(f'stage {{ cast {{ field: "{field}" dtype: {dtype} }} }}'
                         for field, dtype in (("x/y", "BFLOAT16"), ("label", "FLOAT16")))
        out = self.dump("halves", casts + "stage { padded_batch { size: 3 } }", "--batches", 1)
        self.assertEqual(read_npy(out / "batch-000000/x%2Fy.npy"),
                         ((3, 2), [0, -1, 0.25, -1, 0.5, -1]))
        self.assertIn(b"'<f4'", (out / "batch-000000/x%2Fy.npy").read_bytes())
        self.assertIn(b"'<f2'", (out / "batch-000000/label.npy").read_bytes())
        self.assertEqual(read_npy(out / "batch-000000/label.npy"), ((3,), [0, 1, 2]))

    def test_a_rank_dumps_its_rows(self):
        stages = "stage { batch { size: 4 } }"
        stages = 'stage { pad_tokens { field: "ids" length: 4 } }' + stages
        out = self.dump("rank", stages, "--rank", 1, "--world", 2, "--batches", 1)
        self.assertEqual(read_npy(out / "batch-000000/label.npy"), ((2,), [2, 3]))

    def test_a_folder_that_holds_something_is_left_alone(self):
        stages = "stage { padded_batch { size: 4 } }"
        out = self.dump("twice", stages, "--batches", 1)
        before = sorted(out.rglob("*"))
        done = self.dump("twice", stages, code=1)
        self.assertIn("twice: the folder is not empty", done.stderr)
        self.assertEqual(sorted(out.rglob("*")), before)
        (self.folder / "file").write_text("")
        done = self.dump("file", stages, code=1)
        self.assertIn("file: not a folder", done.stderr)

    def test_an_address_is_no_folder(self):
        plan = self.folder / "range.pbtxt"
        plan.write_text("stage { range { count: 4 } }\nstage { batch { size: 4 } }\n")
        done = millrace("run", plan, "--dump", "s3://bucket/x", cwd=self.folder)
        self.assertEqual(done.returncode, 1)
        self.assertIn("s3:// is not a scheme", done.stderr)
        self.assertFalse((self.folder / "s3:").exists())

    def test_a_run_without_batches_makes_no_folder(self):
        out = self.dump("none", "stage { skip { count: 99 } } stage { padded_batch { size: 4 } }")
        self.assertFalse(out.exists())

    @unittest.skipIf(numpy is None, "NumPy is not installed")
    def test_numpy_reads_the_same(self):
        out = self.dump("numpy", "stage { padded_batch { size: 4 } }")
        for batch in range(3):
            for path in (out / f"batch-00000{batch}").iterdir():
                array = numpy.load(path)
                extents, values = read_npy(path)
                self.assertEqual((array.shape, array.ravel().tolist()), (extents, values))
            ids = numpy.load(out / f"batch-00000{batch}.ids.npy")
            _, rows = read_npy(out / f"batch-00000{batch}.ids.npy")
            for name in ("epoch", "record", "sub_index", "valid"):
                self.assertEqual(ids[name].tolist(), [row[name] for row in rows])
        self.assertEqual(numpy.load(out / "batch-000000/label.npy").dtype, numpy.int64)


if __name__ == "__main__":
    unittest.main()

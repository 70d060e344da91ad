"""Batches as Arrow's record batches: read by pyarrow, and by the layout that Arrow describes
(https://arrow.apache.org/docs/format/CDataInterface.html)."""
import ctypes
import gc
import unittest

import numpy as np

import data
import millrace as mr


class ArrowSchema(ctypes.Structure):
    pass


class ArrowArray(ctypes.Structure):
    pass


ArrowSchema._fields_ = [
    ("format", ctypes.c_char_p), ("name", ctypes.c_char_p), ("metadata", ctypes.c_char_p),
    ("flags", ctypes.c_int64), ("n_children", ctypes.c_int64),
    ("children", ctypes.POINTER(ctypes.POINTER(ArrowSchema))),
    ("dictionary", ctypes.POINTER(ArrowSchema)), ("release", ctypes.c_void_p),
    ("private_data", ctypes.c_void_p)]
ArrowArray._fields_ = [
    ("length", ctypes.c_int64), ("null_count", ctypes.c_int64), ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64), ("n_children", ctypes.c_int64),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(ArrowArray))),
    ("dictionary", ctypes.POINTER(ArrowArray)), ("release", ctypes.c_void_p),
    ("private_data", ctypes.c_void_p)]

_pointer_in = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_in.restype, _pointer_in.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def structs_of(batch):
    """Returns the schema, the array and the capsules that own them."""
    capsules = batch.__arrow_c_array__()
    schema, array = capsules
    return (ArrowSchema.from_address(_pointer_in(schema, b"arrow_schema")),
            ArrowArray.from_address(_pointer_in(array, b"arrow_array")), capsules)


def numbers():
    """Returns a plan with a field of each type that Arrow has, two of them with extents."""
    records = [b'{"i": %d, "v": [%d.5, 1, 2], "r": [%s]}' %
               (i, i, b", ".join([b"7"] * (i % 3))) for i in range(6)]
    return mr.memory(records).parse_json(
        mr.feature("i", int), mr.feature("v", float, shape=[3]), mr.feature("r", int, shape=[-1]))


class Layout(unittest.TestCase):
    def test_fields_are_columns_over_the_batch_s_memory(self):
        loader = numbers().ragged_batch(4).numpy()
        batch = [loader.next(), loader.next()][1]
        schema, array, capsules = structs_of(batch)
        addresses = {name: batch.tensor(name).address for name in batch}
        loader.close()
        del batch, loader
        gc.collect()

        self.assertEqual((schema.format, array.length, array.null_count), (b"+s", 4, 0))
        columns = {schema.children[i].contents.name: (schema.children[i].contents,
                                                      array.children[i].contents)
                   for i in range(schema.n_children)}
        self.assertEqual(set(columns), {b"i", b"v", b"r"})
        kind, column = columns[b"i"]
        self.assertEqual((kind.format, column.length, column.null_count), (b"l", 4, 2))
        self.assertEqual(column.buffers[1], addresses["i"])
        # Bit 0 is row 0: the samples 4 and 5, and two rows of padding.
        self.assertEqual(ctypes.c_uint8.from_address(column.buffers[0]).value & 15, 0b0011)
        self.assertEqual(list((ctypes.c_int64 * 2).from_address(column.buffers[1])), [4, 5])

        kind, column = columns[b"v"]
        self.assertEqual((kind.format, column.n_buffers, column.n_children), (b"+w:3", 1, 1))
        values = column.children[0].contents
        self.assertEqual((kind.children[0].contents.format, values.length), (b"f", 12))
        self.assertEqual(values.buffers[1], addresses["v"])
        self.assertEqual(list((ctypes.c_float * 3).from_address(values.buffers[1])), [4.5, 1, 2])

        kind, column = columns[b"r"]
        self.assertEqual((kind.format, column.n_buffers), (b"+L", 2))
        self.assertEqual(column.buffers[1], addresses["r/row_splits"])
        splits = list((ctypes.c_int64 * 5).from_address(column.buffers[1]))
        self.assertEqual(splits, [0, 1, 3, 3, 3])
        del capsules

    def test_padding_that_is_left_out_is_no_row(self):
        _, array, capsules = structs_of(list(mr.range(6).batch(4).numpy(last="trim"))[-1])
        for rows in (array, array.children[0].contents):
            self.assertEqual((rows.length, rows.null_count), (2, 0))
        del capsules

    def test_what_arrow_does_not_have_is_refused(self):
        batch = mr.range(4).cast("value", "bfloat16").batch(4).numpy().next()
        with self.assertRaisesRegex(mr.Unimplemented, "value is bfloat16"):
            batch.__arrow_c_array__()


class PyArrow(unittest.TestCase):
    def setUp(self):
        data.needs("pyarrow")

    def test_it_reads_the_values_without_a_copy(self):
        import pyarrow
        for dtype in ("uint8", "int32", "int64", "float16", "float32", "float64"):
            with self.subTest(dtype=dtype):
                loader = mr.range(64).cast("value", dtype).batch(64).numpy()
                batch = loader.next()
                address = batch.tensor("value").address
                read = pyarrow.record_batch(batch)
                loader.close()
                del batch, loader
                gc.collect()
                read.validate(full=True)
                column = read.column("value")
                self.assertEqual(column.buffers()[1].address, address)
                self.assertEqual(column.to_numpy().tolist(), list(range(64)))

    def test_it_reads_lists_and_nulls(self):
        import pyarrow
        read = [pyarrow.record_batch(batch) for batch in numbers().ragged_batch(4).numpy()]
        for batch in read:
            batch.validate(full=True)
        rows = [row for batch in read for row in batch.to_pylist()]
        self.assertEqual(rows[:6], [{"i": i, "v": [i + 0.5, 1, 2], "r": [7] * (i % 3)}
                                    for i in range(6)])
        self.assertEqual(rows[6:], [{"i": None, "v": None, "r": None}] * 2)

    def test_it_reads_images(self):
        import pyarrow
        plan = data.images(6).decode_image().resize(8, 6).batch(4)
        batch = list(plan.numpy(last="trim"))[-1]
        read = pyarrow.record_batch(batch)
        read.validate(full=True)
        self.assertEqual(read.num_rows, 2)
        self.assertEqual(read.column("label").to_pylist(), [4, 5])
        images = np.array(read.column("image").to_pylist())
        self.assertTrue((images == batch["image"]).all())
        self.assertEqual(images.shape, (2, 8, 6, 3))


if __name__ == "__main__":
    unittest.main()

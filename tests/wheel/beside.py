"""Uses libmillrace.so.1 beside TensorFlow, which shows a protobuf of its own to the process.

Usage: beside.py LIBRARY first|second local|global    when the library is loaded, and both how
"""
import ctypes
import os
import sys
import tempfile

NUMBERS = list(range(100))
PLAN = """
stage { tfrecord { files: "%s" } }
stage { parse_example { feature { key: "number" dtype: INT64 } } }
stage { batch { size: 100 } }
"""
MR_BATCH = 1


class Tensor(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("name", ctypes.c_char_p),
                ("data", ctypes.POINTER(ctypes.c_int64)), ("bytes", ctypes.c_uint64),
                ("dtype", ctypes.c_int32), ("rank", ctypes.c_int32),
                ("shape", ctypes.c_int64 * 8)]


def load(library, mode):
    lib = ctypes.CDLL(library, mode)
    lib.mr_error_message.restype = ctypes.c_char_p
    return lib


def call(lib, function, *arguments):
    """Calls `function`, whose error, if there is one, is raised with its text."""
    function.restype = ctypes.c_void_p
    error = function(*arguments)
    if error is not None:
        raise RuntimeError(lib.mr_error_message(ctypes.c_void_p(error)).decode())


def read(lib, file):
    """Returns the numbers of the first batch of `file`."""
    text = (PLAN % file).encode()
    plan, loader, batch = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    outcome = ctypes.c_int32(-1)
    call(lib, lib.mr_plan_from_text, text, ctypes.c_size_t(len(text)), b"plan", None, None,
         ctypes.c_size_t(0), ctypes.byref(plan))
    call(lib, lib.mr_loader_open, plan, None, None, ctypes.byref(loader))
    call(lib, lib.mr_loader_next, loader, ctypes.c_int64(-1), ctypes.byref(batch),
         ctypes.byref(outcome))
    assert outcome.value == MR_BATCH, outcome
    tensor = Tensor(ctypes.sizeof(Tensor))
    call(lib, lib.mr_batch_tensor, batch, ctypes.c_size_t(0), ctypes.byref(tensor))
    numbers = tensor.data[:tensor.bytes // 8]
    lib.mr_batch_release(batch)
    lib.mr_loader_free(loader)
    lib.mr_plan_free(plan)
    return numbers


def refuse(lib):
    """Has libprotobuf fail to parse a plan, and returns the message."""
    plan = ctypes.c_void_p()
    text = b"stage { no_such_stage {} }"
    try:
        call(lib, lib.mr_plan_from_text, text, ctypes.c_size_t(len(text)), b"plan", None, None,
             ctypes.c_size_t(0), ctypes.byref(plan))
    except RuntimeError as error:
        return str(error)
    raise AssertionError("a plan with an unknown stage was taken")


def example(tf, number):
    feature = tf.train.Feature(int64_list=tf.train.Int64List(value=[number]))
    return tf.train.Example(features=tf.train.Features(feature={"number": feature}))


def main():
    library, order, scope = sys.argv[1:]
    mode = os.RTLD_NOW | (os.RTLD_GLOBAL if scope == "global" else os.RTLD_LOCAL)
    sys.setdlopenflags(mode)
    lib = load(library, mode) if order == "first" else None
    import tensorflow as tf
    lib = lib or load(library, mode)

    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "numbers.tfrecord")
        with tf.io.TFRecordWriter(file) as writer:
            for number in NUMBERS:
                writer.write(example(tf, number).SerializeToString())
        for _ in range(2):
            assert read(lib, file) == NUMBERS
            assert "no_such_stage" in refuse(lib), refuse(lib)
            records = [record.numpy() for record in tf.data.TFRecordDataset(file)]
            parsed = tf.io.parse_example(records, {"number": tf.io.FixedLenFeature([], tf.int64)})
            assert parsed["number"].numpy().tolist() == NUMBERS
    print(f"TensorFlow {tf.__version__}, the library loaded {order}, {scope}: both read the file")


main()

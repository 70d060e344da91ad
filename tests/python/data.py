"""Records for tests: images of one colour by their numbers, Fashion-MNIST, and photographs."""
import atexit
import functools
import glob
import importlib.util
import os
import pathlib
import shutil
import struct
import tempfile
import threading
import time
import unittest
import zlib

import millrace as mr

# Of Debian's package dataset-fashion-mnist.
FASHION_MNIST = pathlib.Path("/usr/share/datasets/fashion-mnist")


def png(height, width, channels, value):
    """Returns a PNG file in which every sample has one value."""
    colour = {1: 0, 3: 2}[channels]
    rows = (b"\0" + bytes([value]) * (width * channels)) * height
    chunks = [(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)),
              (b"IDAT", zlib.compress(rows, 1)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
        for name, body in chunks)


def await_threads(pid):
    """Waits until the process has a thread of the pipeline."""
    while not any(path.joinpath("comm").read_text(encoding="utf-8").startswith("millrace")
                  for path in pathlib.Path(f"/proc/{pid}/task").iterdir()):
        time.sleep(0.01)


def errors_of_a_cancelled_wait(loader):
    """Cancels the loader while another thread waits for a batch; returns how often that raises."""
    raised = []

    def wait():
        try:
            loader.next()
        except mr.Cancelled as error:
            raised.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    while thread.is_alive():
        loader.cancel()
        thread.join(0.01)
    return len(raised)


def _varint(number):
    text = b""
    while number >= 128:
        text += bytes([number & 127 | 128])
        number >>= 7
    return text + bytes([number])


def _field(number, body):
    return _varint(number << 3 | 2) + _varint(len(body)) + body


def example(image, label):
    """Returns a serialized tf.train.Example."""
    features = {b"image/encoded": _field(1, _field(1, image)),
                b"image/class/label": _field(3, _field(1, _varint(label)))}
    return _field(1, b"".join(_field(1, _field(1, key) + _field(2, value))
                              for key, value in features.items()))


def images(count):
    """Returns the begin of a plan of images, with the fields image/encoded and label."""
    records = [example(png(10, 12, 3, i % 256), i % 10) for i in range(count)]
    return mr.memory(records).parse_example(
        mr.feature("image/encoded", bytes), mr.feature("image/class/label", int, name="label"))


@functools.cache
def _crc_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


def _masked_crc(body):
    crc, table = 0xFFFFFFFF, _crc_table()
    for byte in body:
        crc = table[(crc ^ byte) & 255] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def framed(record):
    """Returns a record as it stands in a TFRecord file."""
    length = struct.pack("<Q", len(record))
    return (length + struct.pack("<I", _masked_crc(length)) + record +
            struct.pack("<I", _masked_crc(record)))


def write_tfrecord(path, framed_records):
    """Writes a TFRecord file."""
    with open(path, "wb") as file:
        file.writelines(framed_records)


def folder():
    """Returns a new folder, which is removed when the program ends."""
    path = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, path, True)
    return path


def shards(count):
    """Returns the pattern of new shards of colour images."""
    path = folder()
    for shard in range(2):
        write_tfrecord(os.path.join(path, f"train-{shard}.tfrecord"),
                       [framed(example(png(32, 40, 3, i % 256), i % 10))
                        for i in range(shard, count, 2)])
    return os.path.join(path, "train-*.tfrecord")


def _convert_fashion_mnist(part, prefix):
    mr.convert(FASHION_MNIST / f"{part}-images-idx3-ubyte.gz", prefix, from_="idx", shards=2,
               labels=FASHION_MNIST / f"{part}-labels-idx1-ubyte.gz")


@functools.cache
def fashion_mnist():
    """Returns a folder of shards as scripts/quickstart.sh makes it: 60,000 images to train with and
    10,000 to test, 28x28 and grey."""
    path = folder()
    _convert_fashion_mnist("train", os.path.join(path, "train"))
    _convert_fashion_mnist("t10k", os.path.join(path, "test"))
    return path


@functools.cache
def test_images():
    """Returns the pattern of shards of the 10,000 test images of Fashion-MNIST alone."""
    prefix = os.path.join(folder(), "test")
    _convert_fashion_mnist("t10k", prefix)
    return f"{prefix}-*.tfrecord"


def _first_records(files, count):
    """Returns the first records of TFRecord files, framed."""
    records = []
    for path in files:
        with open(path, "rb") as file:
            while len(records) < count and (head := file.read(12)):
                records.append(head + file.read(struct.unpack("<Q", head[:8])[0] + 4))
    return records


def pictures(count):
    """Returns the pattern of new shards of photographs with their classes; of images of
    Fashion-MNIST where MILLRACE_TEST_DATA does not name the photographs."""
    path = pathlib.Path(folder())
    if "MILLRACE_TEST_DATA" in os.environ:
        tar = os.path.join(os.environ["MILLRACE_TEST_DATA"], "imagenet-sample.tar")
        files = mr.convert(tar, path / "all", from_="images", shards=1).files
    else:
        files = sorted(glob.glob(test_images()))
    records = _first_records(files, count)
    for shard in range(2):
        write_tfrecord(path / f"train-{shard}.tfrecord", records[shard::2])
    return str(path / "train-*.tfrecord")


def needs(module):
    """Skips the test where a module is not installed."""
    package = module.rpartition(".")[0]
    if package:
        needs(package)
    if importlib.util.find_spec(module) is None:
        raise unittest.SkipTest(f"{module} is not installed")


def needs_self_contained():
    """Skips the test where libmillrace uses a libprotobuf.so, which a process with TensorFlow must
    not have."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        if "libprotobuf" in maps.read():
            raise unittest.SkipTest("libmillrace is linked with a shared libprotobuf")

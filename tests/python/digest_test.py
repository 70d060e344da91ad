"""Two epochs of real images: the digest of what Python sees is that of `millrace run`, however many
threads and ranks there are."""
import ctypes
import os
import pathlib
import struct
import subprocess
import sys
import unittest

import data
import millrace as mr

PROGRAM = os.environ.get("MILLRACE_PROGRAM")
COMMAND = (PROGRAM,) if PROGRAM else (sys.executable, "-m", "millrace")  # of the same library
DTYPES = ("bytes", "uint8", "int32", "int64", "float16", "bfloat16", "float32", "float64")

# The hash of pipeline/digest.h.
XXHASH = ctypes.CDLL("libxxhash.so.0")
XXHASH.XXH3_64bits_withSeed.restype = ctypes.c_uint64
XXHASH.XXH3_64bits_withSeed.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint64]


def hash_of(content, seed=0):
    return XXHASH.XXH3_64bits_withSeed(content, len(content), seed)


def header_of(name, dtype, shape):
    """Returns the name, dtype and shape of a row's value as one word."""
    words = (DTYPES.index(dtype), len(shape), *shape)
    return hash_of(struct.pack(f"<{len(words)}q", *words), hash_of(name.encode()))


def digest_of(batch, arrays):
    """Returns the sum of the hashes of a batch's samples, whose fields are these arrays."""
    fields = [(struct.pack("<Q", header_of(name, batch.dtype(name), arrays[name].shape[1:])),
               arrays[name]) for name in batch.names]
    ids = batch.ids
    total = 0
    for row, is_valid in enumerate(batch.valid):
        if is_valid:
            words = struct.pack("<5q", batch.index, batch.first_global_row + row, *ids[row])
            total += hash_of(words + b"".join(header + array[row].tobytes()
                                              for header, array in fields))
    return total


def arrays_of(plan, **options):
    """Yields (batch, its arrays by name) of two epochs."""
    with plan.numpy(**options) as loader:
        for _ in range(2):
            for batch in loader:
                yield batch, dict(batch)


def digest_in_python(plan, threads, world, stream=arrays_of):
    """Returns the sum of the digests of all ranks, of two epochs, and the number of samples."""
    total = samples = 0
    for rank in range(world):
        for batch, arrays in stream(plan, context=mr.Context(threads=threads), rank=rank,
                                    world=world):
            total += digest_of(batch, arrays)
            samples += batch.valid_rows
    return f"{total % 2**64:016x}", samples


def digest_of_program(plan, threads, world):
    total = 0
    for rank in range(world):
        done = subprocess.run(
            [*COMMAND, "run", plan, "--digest", "--threads", str(threads), "--rank", str(rank),
             "--world", str(world)], capture_output=True, text=True, timeout=150, check=True)
        (line,) = [line for line in done.stdout.splitlines() if line.startswith("digest ")]
        total += int(line.removeprefix("digest "), 16)
    return f"{total % 2**64:016x}"


def images(files, count, channels, size, batch_size):
    """Returns a plan that draws at random at each image, and whose last batch is not full."""
    return (mr.tfrecord(files).global_shuffle().take(count)
            .parse_example(mr.feature("image/encoded", bytes),
                           mr.feature("image/class/label", int, name="label"))
            .decode_image(channels=channels).random_resized_crop(size, size).flip()
            .normalize(mean=[120.0] * channels, stddev=[60.0] * channels)
            .batch(batch_size).prefetch(2).options(seed=7))


class Checks:
    """What the tests of all ways to take batches have in common."""

    stream = staticmethod(arrays_of)

    def check(self, plan, samples, jobs):
        """Compares the digests in a job of each (threads, ranks)."""
        path = pathlib.Path(data.folder(), "plan.pbtxt")
        plan.repeat(epochs=2).save(path)
        expected = digest_of_program(path, 2, 1)
        for threads, world in jobs:
            with self.subTest(threads=threads, world=world):
                self.assertEqual(digest_of_program(path, threads, world), expected)
                self.assertEqual(digest_in_python(plan, threads, world, self.stream),
                                 (expected, 2 * samples))


@unittest.skipUnless(PROGRAM, "the program is not built")
class Digests(Checks, unittest.TestCase):
    def test_of_fashion_mnist(self):
        self.check(images(data.test_images(), 3000, 1, 24, 256), 3000,
                   [(threads, world) for threads in (1, 2, 8) for world in (1, 2)])

    def test_of_photographs(self):
        if "MILLRACE_TEST_DATA" not in os.environ:
            self.skipTest("MILLRACE_TEST_DATA is not set")
        prefix = os.path.join(data.folder(), "photos")
        tar = os.path.join(os.environ["MILLRACE_TEST_DATA"], "imagenet-sample.tar")
        mr.convert(tar, prefix, from_="images", shards=2, max_resolution=256)
        self.check(images(f"{prefix}-*.tfrecord", 250, 3, 96, 48), 250, [(1, 2), (2, 1), (8, 1)])


if __name__ == "__main__":
    unittest.main()

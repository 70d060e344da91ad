"""What the tests of the `millrace` program share: running it, and small real data."""

import gzip
import json
import os
import pathlib
import struct
import subprocess

BIN = os.environ["MILLRACE_BIN"]
SOURCE = pathlib.Path(os.environ["MILLRACE_SOURCE_DIR"])
FASHION_MNIST = pathlib.Path("/usr/share/datasets/fashion-mnist")
TIMEOUT = 300  # a hang guard, not a limit on speed


def mpirun(ranks):
    """The command line that starts `ranks` ranks on this host, however it is set up."""
    return [str(SOURCE / "scripts/mpirun.sh"), "-np", str(ranks)]


def millrace(*args, prefix=(), cwd=None, env=None):
    """Runs the program to its end and returns the CompletedProcess, output as text."""
    command = [*prefix, BIN, *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, cwd=cwd,
                          env={**os.environ, **(env or {})})


def millrace_to_full(*args):
    """Runs the program with a standard output that takes nothing."""
    with open("/dev/full", "w") as full:
        return subprocess.run([BIN, *map(str, args)], stdout=full, stderr=subprocess.PIPE,
                              text=True, timeout=TIMEOUT)


def run_json(*args):
    """`millrace run ... --json`, checked, as a dict."""
    done = millrace("run", *args, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def masked_crc32c(data):
    """The checksum of TFRecord's frames: CRC-32C, turned and shifted."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = CRC32C[(crc ^ byte) & 255] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def crc32c_of_byte(byte):
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    return byte


CRC32C = [crc32c_of_byte(byte) for byte in range(256)]


def write_tfrecord(path, payloads):
    """Writes a TFRecord file without the program."""
    with open(path, "wb") as out:
        for payload in payloads:
            size = struct.pack("<Q", len(payload))
            out.write(size + struct.pack("<I", masked_crc32c(size)) + payload +
                      struct.pack("<I", masked_crc32c(payload)))


def slice_idx(source, target, count):
    """Copies the first `count` items of a gzipped IDX file to a plain one."""
    data = gzip.decompress(pathlib.Path(source).read_bytes())
    rank = data[3]
    extents = list(struct.unpack(f">{rank}I", data[4:4 + 4 * rank]))
    item = 1
    for extent in extents[1:]:
        item *= extent
    header = data[:4] + struct.pack(f">{rank}I", count, *extents[1:])
    start = 4 + 4 * rank
    pathlib.Path(target).write_bytes(header + data[start:start + count * item])


def convert_slice(folder, split, count, shards):
    """Converts `count` Fashion-MNIST images of `split` ("train" or "t10k") and returns their
    shards' glob."""
    folder = pathlib.Path(folder)
    prefix = "train" if split == "train" else "test"
    images, labels = folder / f"{split}-images", folder / f"{split}-labels"
    slice_idx(FASHION_MNIST / f"{split}-images-idx3-ubyte.gz", images, count)
    slice_idx(FASHION_MNIST / f"{split}-labels-idx1-ubyte.gz", labels, count)
    done = millrace("records", "convert", "--from", "idx", "--images", images, "--labels", labels,
                    "--out", folder, "--prefix", prefix, "--shards", shards)
    assert done.returncode == 0, done.stderr
    return sorted(folder.glob(f"{prefix}-*.tfrecord"))

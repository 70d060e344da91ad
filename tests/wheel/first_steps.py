"""What a user does first with an installed wheel: shards, batches of them, and errors.

Runs in an empty folder, in an environment that has NumPy and the wheel and nothing else.

Usage: first_steps.py [PHOTOGRAPHS]      a tar of images whose names give their classes
"""
import http.server
import io
import pathlib
import subprocess
import sys
import tarfile
import threading

import numpy as np

import millrace

ROWS = 1000


def write_numbers(numbers):
    lines = "".join(f"{number}\n" for number in numbers)
    pathlib.Path("numbers.csv").write_text(lines, encoding="utf-8")


def read_numbers(plan):
    return np.concatenate(list(plan.numpy("number", last="trim")))


plan = millrace.csv("numbers.csv").parse_csv(millrace.feature("number", int)).batch(64)
plan.save("plan.pbtxt")
write_numbers(range(ROWS))
for same in (plan, millrace.load("plan.pbtxt")):
    numbers = read_numbers(same)
    assert np.array_equal(numbers, np.arange(ROWS)), numbers

write_numbers([*range(7), "seven"])
try:
    read_numbers(plan)
except millrace.DataLoss as error:
    assert error.record.file.endswith("numbers.csv"), error.record
    assert (error.record.ordinal, error.record.offset) == (7, 14), error.record
else:
    raise AssertionError("a word was taken for a number")


def has_loaded(library):
    return library in pathlib.Path("/proc/self/maps").read_text(encoding="utf-8")


# URLs are read with the system's libcurl, which nothing before has loaded.
class Nothing(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_error(404)

    def log_message(self, *_):
        pass


server = http.server.HTTPServer(("127.0.0.1", 0), Nothing)
threading.Thread(target=server.serve_forever, daemon=True).start()
assert not has_loaded("libcurl")
try:
    read_numbers(millrace.csv(f"http://127.0.0.1:{server.server_port}/numbers.csv")
                 .parse_csv(millrace.feature("number", int)).batch(64))
except millrace.NotFound:
    assert has_loaded("libcurl")
else:
    raise AssertionError("a file that is not there was read")
server.shutdown()

# Shards of records that the program has, as a block and as an iterable.
with millrace.TFRecordWriter("block", shards=3) as writer:
    for number in range(ROWS):
        writer.write({"number": number})
millrace.convert(({"number": number} for number in range(ROWS)), "iterable", shards=3)
for prefix in ("block", "iterable"):
    assert len(list(pathlib.Path().glob(f"{prefix}-*-of-00003.tfrecord"))) == 3
    numbers = read_numbers(millrace.tfrecord(f"{prefix}-*.tfrecord")
                           .parse_example(millrace.feature("number", int)).batch(64))
    assert np.array_equal(numbers, np.arange(ROWS)), numbers

# Tars of images are read with the system's libarchive, which nothing before has loaded.
PNG = bytes.fromhex("89504e470d0a1a0a0000000d49484452000000010000000108000000003a7e9b55"
                    "0000000a49444154789c636000000002000148afa4710000000049454e44ae426082")
with tarfile.open("images.tar", "w") as tar:
    for name in ("cat/1.png", "dog/1.png"):
        member = tarfile.TarInfo(name)
        member.size = len(PNG)
        tar.addfile(member, io.BytesIO(PNG))
assert not has_loaded("libarchive")
assert millrace.convert("images.tar", "pets", from_="images").records == 2
assert has_loaded("libarchive")

# Training on ImageNet, of photographs where there are any: `explain` tells of the plan and its data.
if len(sys.argv) > 1:
    photographs = millrace.convert(sys.argv[1], "photographs", from_="images").records
else:  # the two images of the tar, as JPEG
    photographs = millrace.convert("images.tar", "photographs", from_="images",
                                   write_mode="jpg").records
training = millrace.recipes.imagenet_train("photographs-*.tfrecord", 64)
explained = training.explain()
assert f"records {photographs} (" in explained, explained
training.save("train.pbtxt")
command = subprocess.run([sys.executable, "-I", "-m", "millrace", "explain", "train.pbtxt"],
                         stdout=subprocess.PIPE, text=True, check=True)
assert command.stdout == explained, command.stdout
with training.numpy() as loader:
    batch = loader.next()
assert batch["image"].shape == (64, 224, 224, 3) and batch["image"].dtype == np.float32
assert batch.valid_rows == min(photographs, 64), batch
assert np.ptp(batch["image"][0]) > 0 or photographs == 2, "a photograph of one colour"
try:
    training.batch(4)
except millrace.PlanError as error:
    assert str(error).startswith(f"{__file__}:"), error
else:
    raise AssertionError("a batch of batches was taken")

# An empty file stands for a library that is not there.
pathlib.Path("hidden").mkdir()
pathlib.Path("hidden/libarchive.so.13").touch()
CONVERT = "import millrace; millrace.convert('images.tar', 'no_pets', from_='images')"
failed = subprocess.run([sys.executable, "-I", "-c", CONVERT], stderr=subprocess.PIPE, text=True,
                        env={"LD_LIBRARY_PATH": "hidden"}, check=False)
assert "FailedPrecondition" in failed.stderr, failed.stderr
assert "install the package libarchive13" in failed.stderr, failed.stderr

package = pathlib.Path(millrace.__file__).parent
assert millrace.get_include() == str(package / "include")
assert millrace.get_library() == str(package / "libmillrace.so.1")
print(f"millrace {millrace.__version__}: {ROWS} rows and {photographs} images written and read, "
      "errors named")

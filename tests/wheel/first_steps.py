"""What a user does first with an installed wheel: batches of files, and errors.

Runs in an empty folder, in an environment that has NumPy and the wheel and nothing else.
"""
import http.server
import pathlib
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

package = pathlib.Path(millrace.__file__).parent
assert millrace.get_include() == str(package / "include")
assert millrace.get_library() == str(package / "libmillrace.so.1")
print(f"millrace {millrace.__version__}: {ROWS} rows read, errors named")

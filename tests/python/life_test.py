"""Life in a process: signals, the end of the interpreter, forks, threads."""
import concurrent.futures
import http.server
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

import data
import millrace as mr

# Run as programs of their own; "ready" says that the next thing may happen.
WAITS = """
import millrace as mr
feed = mr.PushSource()
loader = mr.push(feed).parse_json(mr.feature("x", int)).batch(1).numpy("x").open()
try:
    print("ready", flush=True)
    loader.next()
except KeyboardInterrupt:
    print("interrupted", flush=True)
feed.push(b'{"x": 7}')
print(loader.next()["x"].tolist(), flush=True)
"""

# Opens what a server does not answer for; the last time it does.
OPENS = """
import sys, millrace as mr
url, folder = sys.argv[1:]
plan = mr.text(url).parse_csv(mr.feature("x", int)).batch(2)
loader = plan.numpy("x", index_folder=folder)
for act in (loader.open, plan.explain,
            lambda: mr.convert(url, folder + "/out", from_="csv", schema="x:int64")):
    try:
        act()
    except KeyboardInterrupt:
        print("interrupted", flush=True)
print(loader.next()["x"].tolist(), flush=True)
"""


class Silent(http.server.BaseHTTPRequestHandler):
    """Interrupts the program that asks, which gets no answer the first three times."""

    left = 3
    interrupt = None

    def do_GET(self):
        if Silent.left > 0:
            Silent.left -= 1
            Silent.interrupt()
            self.rfile.read()  # until the client is gone
            return
        first, last = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers["Range"]).groups()
        body = b"7\n8\n"[int(first):int(last) + 1]
        self.send_response(206)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Range", f"bytes {first}-{int(first) + len(body) - 1}/4")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


ENDS = """
import millrace as mr
@mr.op(reads="value", writes=mr.field("value", "int64"))
def double(rows):
    rows.out["value"] = rows["value"] * 2
@mr.batch_op()
def add(batch):
    batch["value"] += 1
plan = mr.range(1 << 20).op(double).batch(64).op(add).prefetch(8)
loaders = [plan.numpy() for _ in range(2)]
held = [loader.next() for loader in loaders]
iterator = iter(loaders[0])
next(iterator)
"""


# Threads that the end of the interpreter meets anywhere.
DAEMONS = """
import threading, millrace as mr
@mr.op(reads="value", writes=mr.field("value", "int64"))
def double(rows):
    rows.out["value"] = rows["value"] * 2
feed = mr.PushSource(max_bytes=100)
started = threading.Barrier(4)
waiting = mr.push(mr.PushSource()).parse_json(mr.feature("x", int)).batch(1).numpy()
reading = mr.range(1 << 20).op(double).batch(8).numpy()
unread = mr.push(feed).parse_json(mr.feature("x", int)).batch(1).numpy().open()
def wait():
    started.wait()
    waiting.next()
def read():
    started.wait()
    while True:
        for batch in reading:
            batch["value"]
def push():
    started.wait()
    while True:
        feed.push(b'{"x": 7}')
for target in (wait, read, push):
    threading.Thread(target=target, daemon=True).start()
started.wait()
for _ in range(20):
    mr.range(64).batch(8).numpy().next()
"""


def run(program):
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                          timeout=100, check=False)


# Importing logging takes longer than opening.
READS = """
import sys, millrace as mr
print(mr.range(4).batch(2).numpy("value").next()["value"].tolist(), "logging" in sys.modules)
"""


class Messages(unittest.TestCase):
    def test_information_is_logged_for_a_program_that_logs(self):
        with self.assertLogs("millrace", "INFO") as logs:
            mr.range(4).batch(2).numpy().open().close()
        self.assertIn("rank 0 of 1", logs.output[0])

    def test_a_program_that_does_not_log_imports_no_logging(self):
        self.assertEqual(run(READS).stdout, "[0, 1] False\n")


class Signals(unittest.TestCase):
    def test_ctrl_c_ends_a_wait_and_the_loader_goes_on(self):
        with subprocess.Popen([sys.executable, "-c", WAITS], stdout=subprocess.PIPE,
                              text=True) as process:
            self.assertEqual(process.stdout.readline(), "ready\n")
            process.send_signal(signal.SIGINT)
            said = process.stdout.read()
            self.assertEqual(process.wait(100), 0, said)
        self.assertIn("[7]\n", said)


    def test_ctrl_c_ends_opening_and_converting(self):
        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Silent) as server, \
                tempfile.TemporaryDirectory() as folder:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            self.addCleanup(server.shutdown)
            url = f"http://127.0.0.1:{server.server_port}/a.csv"
            with subprocess.Popen([sys.executable, "-c", OPENS, url, folder],
                                  stdout=subprocess.PIPE, text=True) as process:
                Silent.interrupt = lambda: process.send_signal(signal.SIGINT)
                said = process.stdout.read()
                self.assertEqual(process.wait(100), 0, said)
        self.assertEqual(said, "interrupted\n" * 3 + "[7, 8]\n")

    def test_what_the_progress_of_opening_raises_ends_it(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "lines")
            with open(path, "w", encoding="utf-8") as lines:
                lines.write(("x" * 999 + "\n") * 4000)

            def interrupt(_done, _total):
                raise KeyboardInterrupt
            plan = mr.text(path).parse_csv(mr.feature("x", int)).batch(8)
            with self.assertRaises(KeyboardInterrupt):
                plan.numpy(index_folder=folder, progress=interrupt).open()
            self.assertEqual([name for name in os.listdir(folder) if name.endswith(".index")], [])


class Ends(unittest.TestCase):
    """Ten exits of each kind; with MILLRACE_ALL_ROUNDS in the environment, a hundred."""

    def ends_of(self, program):
        count = 100 if "MILLRACE_ALL_ROUNDS" in os.environ else 10
        with concurrent.futures.ThreadPoolExecutor(4) as threads:
            ended = list(threads.map(run, [program] * count))
        self.assertEqual(len(ended), count)
        return ended

    def test_the_interpreter_ends_with_live_loaders_and_ops(self):
        for ended in self.ends_of(ENDS):
            self.assertEqual((ended.returncode, ended.stderr), (0, ""))

    def test_the_interpreter_ends_beside_daemon_threads(self):
        for ended in self.ends_of(DAEMONS):
            self.assertEqual(ended.returncode, 0, ended.stderr)

    def test_dropping_a_loader_with_an_op_does_not_hang(self):
        @mr.op(reads="value", writes=mr.field("value", "int64"), name="double")
        def double(rows):
            rows.out["value"] = rows["value"] * 2

        for _ in range(20):
            loader = mr.range(1 << 16).op(double).batch(64).prefetch(8).numpy()
            loader.next()
            del loader


class Forks(unittest.TestCase):
    def in_child(self, check):
        """Runs a check, which returns a text, in a forked child, and returns its text."""
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            try:
                os.write(write, check().encode())
            finally:
                os._exit(0)
        os.close(write)
        with os.fdopen(read) as pipe:
            said = pipe.read()
        os.waitpid(child, 0)
        return said

    def test_a_child_refuses_an_open_loader_and_opens_its_own(self):
        loader = mr.range(20).batch(4).numpy("value")
        loader.next()

        def refused():
            try:
                iter(loader).__next__()
                return "no error"
            except mr.FailedPrecondition as error:
                return str(error)

        def undiagnosed():
            try:
                return str(loader.diagnose())
            except mr.FailedPrecondition as error:
                return str(error)

        self.assertIn("forked", self.in_child(refused))
        self.assertIn("forked", self.in_child(undiagnosed))
        own = mr.range(20).batch(4).numpy("value")
        self.assertEqual(self.in_child(lambda: str(next(iter(own)).tolist())), "[0, 1, 2, 3]")
        self.assertEqual(next(iter(loader)).tolist(), [0, 1, 2, 3])


class Threads(unittest.TestCase):
    def test_closing_ends_a_wait_in_another_thread(self):
        feed = mr.PushSource()
        loader = mr.push(feed).parse_json(mr.feature("x", int)).batch(1).numpy().open()
        self.assertEqual(data.errors_of_a_cancelled_wait(loader), 1)


if __name__ == "__main__":
    unittest.main()

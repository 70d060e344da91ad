"""What `millrace run` and `train` show outside: the page for Prometheus, probes, lines of JSON."""

import contextlib
import http.client
import json
import math
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request

from cli_testutil import BIN, SOURCE, TIMEOUT, convert_slice, millrace, mpirun
from train_cli_test import JOB

sys.path.insert(0, str(SOURCE / "tests"))
from free_port import free_port  # noqa: E402

EXAMPLES = SOURCE / "examples/fashion_mnist"
URL = re.compile(r"^millrace: metrics: (http://(.*):(\d+)/metrics)$", re.M)
# Prometheus' text format, version 0.0.4: names, escaped values of labels, numbers.
NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"'
NUMBER = r"(?:[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?|NaN|[-+]Inf)"
HELP = re.compile(rf"# HELP ({NAME}) ((?:[^\\\n]|\\[\\n])*)")
TYPE = re.compile(rf"# TYPE ({NAME}) (counter|gauge|histogram)")
SAMPLE = re.compile(rf"({NAME})(?:\{{({LABEL}(?:,{LABEL})*)\}})? ({NUMBER})")
ENDINGS = {"counter": [""], "gauge": [""], "histogram": ["_bucket", "_sum", "_count"]}


def parse(page):
    """Reads a page by the grammar, strictly. Returns the types by name, and the samples: (name,
    labels) and value."""
    assert page.endswith("\n"), page[-80:]
    types, samples, family = {}, {}, None
    for line in page[:-1].split("\n"):
        if match := HELP.fullmatch(line):
            assert match[1] not in types, f"{match[1]} is there twice"
            family = match[1]
        elif match := TYPE.fullmatch(line):
            assert match[1] == family, line
            types[family] = match[2]
        else:
            match = SAMPLE.fullmatch(line)
            assert match, f"not of the grammar: {line}"
            assert match[1] in [family + ending for ending in ENDINGS[types[family]]], line
            assert (match[1], match[2]) not in samples, line
            samples[match[1], match[2]] = float(match[3])
    return types, samples


def get(url, method="GET", timeout=TIMEOUT):
    """Returns the code of an answer, its headers and its text."""
    request = urllib.request.Request(url, method=method)
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            return answer.status, answer.headers, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read().decode()


class Serving:
    """A running program, and the address that it says on standard error."""

    def __init__(self, *args):
        self.process = subprocess.Popen([BIN, *map(str, args)], stdout=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE, text=True)
        line = self.process.stderr.readline()
        match = URL.match(line)
        assert match, line + self.process.stderr.read()
        self.url, self.host, self.port = match[1], match[2], int(match[3])
        self.drain = threading.Thread(target=self.process.stderr.read, daemon=True)
        self.drain.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.drain.join()
        self.process.stderr.close()

    def get(self, path, **options):
        return get(urllib.parse.urljoin(self.url, path), **options)

    def await_ready(self):
        limit = time.monotonic() + TIMEOUT
        while self.get("/readyz")[0] != 200:
            assert time.monotonic() < limit and self.process.poll() is None
            time.sleep(0.01)

    def threads(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"^Threads:\s+(\d+)$", status, re.M)[1])


class MetricsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.scratch.name)
        convert_slice(cls.folder, "train", 500, 3)
        convert_slice(cls.folder, "t10k", 100, 2)
        cls.run_args = ["run", EXAMPLES / "train.pbtxt", "--var", f"DATA={cls.folder}", "--var",
                        "BATCH=64"]
        # It goes on until it is killed.
        cls.endless = [*cls.run_args, "--seconds", 3600, "--pace", 2000]

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def test_the_page_is_of_prometheus_grammar_and_has_the_runs_numbers(self):
        with Serving(*self.endless, "--metrics", 0) as program:
            self.assertEqual(program.host, "127.0.0.1")
            program.await_ready()
            code, headers, page = program.get("/metrics")
            self.assertEqual(code, 200)
            self.assertEqual(headers["Content-Type"], "text/plain; version=0.0.4; charset=utf-8")
            types, samples = parse(page)
            self.assertEqual(types["millrace_batches_total"], "counter")
            self.assertEqual(types["millrace_worker_target"], "gauge")
            self.assertEqual(types["millrace_worker_target_max"], "gauge")
            self.assertGreater(samples["millrace_batches_total", None], 0)
            self.assertLess(samples["millrace_work_seconds_total", None], 3600)
            self.assertGreater(samples["millrace_worker_seconds_total", 'kind="process"'], 0)
            self.assertGreater(samples["millrace_stage_seconds_total", 'stage="source"'], 0)
            switches = "millrace_context_switches_total"
            self.assertGreater(samples[switches, 'kind="voluntary"'], 0)
            self.assertGreater(samples["millrace_call_read_bytes_total", None], 0)
            waits = "millrace_consumer_wait_seconds"
            self.assertEqual(types[waits], "histogram")
            buckets = [(float(labels[4:-1]), value) for (name, labels), value in samples.items()
                       if name == f"{waits}_bucket"]
            self.assertEqual(buckets, sorted(buckets))
            self.assertEqual([value for _, value in buckets], sorted(v for _, v in buckets))
            self.assertEqual(buckets[-1], (math.inf, samples[f"{waits}_count", None]))

    def test_every_name_of_the_page_is_in_the_documents(self):
        document = (SOURCE / "docs/metrics.md").read_text()
        table = set(re.findall(r"^\| `(millrace_\w+)`", document, re.M))
        with Serving(*self.endless, "--metrics", 0) as program:
            program.await_ready()
            types, _ = parse(program.get("/metrics")[2])
        names = {name.removesuffix("_max") for name in types}
        self.assertGreater(len(names), 5)
        self.assertEqual(names - table, set())

    def test_probes_and_other_requests(self):
        with Serving(*self.endless, "--metrics", "localhost:0") as program:
            program.await_ready()
            self.assertEqual(program.get("/healthz")[0], 200)
            self.assertEqual(program.get("/elsewhere")[0], 404)
            code, headers, _ = program.get("/metrics", method="POST")
            self.assertEqual((code, headers["Allow"]), (405, "GET, HEAD"))
            code, headers, page = program.get("/metrics", method="HEAD")
            self.assertEqual((code, page), (200, ""))
            self.assertGreater(int(headers["Content-Length"]), 0)

    def test_hostile_clients_get_no_threads_and_no_memory_without_end(self):
        with Serving(*self.endless, "--metrics", 0) as program, contextlib.ExitStack() as stack:
            program.await_ready()
            threads = program.threads()
            for number in range(40):  # more than may be connected
                client = stack.enter_context(socket.create_connection(
                    ("127.0.0.1", program.port), timeout=TIMEOUT))
                with contextlib.suppress(OSError):
                    client.sendall(b"GET /metrics HTTP/1.1\r\nX-Slow: " + b"x" * number)
            self.assertLessEqual(program.threads(), threads)
            stack.close()  # lets them go
            self.assertEqual(program.get("/healthz")[0], 200)
            # A head without end is cut off.
            with socket.create_connection(("127.0.0.1", program.port), timeout=TIMEOUT) as client:
                answer = b""
                with contextlib.suppress(OSError):
                    client.sendall(b"GET / HTTP/1.1\r\n" + b"X-Long: " + b"x" * 65536 + b"\r\n" * 2)
                with contextlib.suppress(OSError):
                    answer = client.recv(4096)
                self.assertNotIn(b" 200 ", answer)
            # So is one of many lines, and a body is not taken in.
            connection = http.client.HTTPConnection("127.0.0.1", program.port, timeout=TIMEOUT)
            with contextlib.closing(connection), contextlib.suppress(OSError):
                connection.request("POST", "/metrics", body=b"x" * (1 << 20))
                self.assertIn(connection.getresponse().status, (405, 413))
            self.assertEqual(program.get("/healthz")[0], 200)

    def test_an_address_that_cannot_be_had_is_one_error_that_names_it(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            for address, code, named in (
                    (port, 1, f"127.0.0.1:{port}: the port is in use"), ("node1", 2, "'node1'"),
                    ("127.0.0.1:70000", 2, "70000"),
                    ("no.such.host.invalid:1", 2, "no.such.host.invalid:1: ")):
                done = millrace(*self.run_args, "--batches", 1, "--metrics", address)
                self.assertEqual(done.returncode, code, done.stderr)
                self.assertIn("--metrics: ", done.stderr)
                self.assertIn(named, done.stderr)
                self.assertEqual(done.stderr.count("\n"), 1, done.stderr)

    def test_lines_of_json_end_with_the_totals(self):
        path = self.folder / "run.jsonl"
        for run in (1, 2):
            done = millrace(*self.run_args, "--batches", 16, "--json", "--metrics-file", path,
                            "--metrics-every", 0.01)
            self.assertEqual(done.returncode, 0, done.stderr)
            lines = [json.loads(line) for line in path.read_text().splitlines()]
            last = lines[-1]
            self.assertEqual(last["metrics"]["millrace_batches_total"], 16)
            self.assertEqual(last["rank"], 0)
            self.assertGreaterEqual(len(lines), run)
        self.assertEqual([line["time"] for line in lines], sorted(line["time"] for line in lines))

    def test_the_last_line_is_there_after_an_error(self):
        path = self.folder / "failed.jsonl"
        done = millrace(*self.run_args, "--var", "DATA=missing", "--batches", 1,
                        "--metrics-file", path)
        self.assertEqual(done.returncode, 2, done.stderr)  # twice the same variable
        done = millrace("run", EXAMPLES / "train.pbtxt", "--var", "DATA=missing", "--batches", 1,
                        "--metrics-file", path)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(len(path.read_text().splitlines()), 1)

    def trace(self, path):
        """Returns the events of a trace, and the names of its threads."""
        events = json.loads(path.read_text())["traceEvents"]
        return events, {event["args"]["name"] for event in events
                        if event["name"] == "thread_name"}

    def test_a_trace_of_a_run_has_workers_reads_and_the_consumer(self):
        path = self.folder / "trace.json"
        done = millrace(*self.run_args, "--batches", 16, "--threads", 1, "--trace", path)
        self.assertEqual(done.returncode, 0, done.stderr)
        events, threads = self.trace(path)
        self.assertLessEqual({"consumer", "worker 0", "reads 0"}, threads)
        names = [event["name"] for event in events]
        self.assertEqual(names.count("batch"), 16)
        self.assertLessEqual({"process", "read", "ready batches"}, set(names))
        reads = [event for event in events if event["name"] == "read"]
        self.assertIn(".tfrecord", reads[0]["args"]["file"])

    def test_a_trace_is_written_when_its_time_is_over(self):
        path = self.folder / "short.json"
        done = millrace(*self.run_args, "--batches", 64, "--pace", 6400, "--trace", path,
                        "--trace-seconds", 0.05)
        self.assertEqual(done.returncode, 0, done.stderr)
        names = [event["name"] for event in self.trace(path)[0]]
        self.assertLess(names.count("batch"), 64)
        self.assertGreater(names.count("batch"), 0)

    def test_a_trace_that_cannot_be_written_is_an_error_at_the_start(self):
        done = millrace(*self.run_args, "--batches", 16, "--trace", self.folder / "no/trace.json")
        self.assertEqual(done.returncode, 1)
        self.assertIn("--trace: ", done.stderr)

    def test_each_process_of_a_training_has_a_port_and_lines_of_its_own(self):
        job = self.folder / "job.pbtxt"
        job.write_text(JOB.format(examples=EXAMPLES, checkpoints=self.folder / "checkpoints",
                                  every=100, epochs=1))
        path = self.folder / "train.jsonl"
        events = self.folder / "events"
        port = free_port()
        done = millrace("train", job, "--var", f"DATA={self.folder}", "--var", "BATCH=64",
                        "--metrics", port, "--metrics-file", path, "--tensorboard", events,
                        "--trace", self.folder / "train-trace.json", prefix=mpirun(2))
        self.assertEqual(done.returncode, 0, done.stderr)
        threads = self.trace(self.folder / "train-trace.json")[1]
        self.assertLessEqual({"compute", "consumer", "worker 0"}, threads)
        self.assertEqual({int(match[3]) for match in URL.finditer(done.stderr)}, {port, port + 1})
        last = {line["rank"]: line["metrics"] for line in map(json.loads,
                                                              path.read_text().splitlines())}
        self.assertEqual(set(last), {0, 1})
        for metrics in last.values():
            self.assertEqual(metrics["millrace_train_steps_total"], 8)
            self.assertEqual(metrics["millrace_ranks_lost_total"], 0)
        self.assertEqual(last[0]["millrace_train_samples_total"], 500)
        self.assertNotIn("millrace_train_samples_total", last[1])
        accuracy = last[0]["millrace_evaluation_accuracy_ratio"]
        self.assertIn(f"test accuracy {accuracy:.4f}", done.stdout)
        # TensorBoard's files are TFRecord files.
        file, = events.iterdir()
        self.assertRegex(file.name, r"^events\.out\.tfevents\.\d{10}\.")
        checked = millrace("records", "verify", file)
        self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)


if __name__ == "__main__":
    unittest.main()

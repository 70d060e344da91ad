"""Shards over HTTP: what `millrace run` and `explain` say of the bytes that are fetched."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
from collections import Counter
from unittest import mock

from cli_testutil import BIN, SOURCE, millrace, write_tfrecord

sys.path.insert(0, str(SOURCE / "bench"))
import http_servers  # noqa: E402
import rows_readers  # noqa: E402

RECORD = 1000
FRAME = RECORD + 16
SHUFFLES = ("stage { global_shuffle {} }",
            f"stage {{ global_shuffle {{ block_bytes: {4 * FRAME} window: 8 }} }}")


class HttpTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.scratch.name)
        payloads = [bytes([i]) * RECORD for i in range(24)]
        write_tfrecord(cls.folder / "part-0", payloads[:12])
        write_tfrecord(cls.folder / "part-1", payloads[12:])
        cls.log = cls.folder / "requests"
        cls.server = subprocess.Popen(
            [sys.executable, SOURCE / "bench/slow_server.py", cls.folder, "--latency-ms", "0",
             "--rate", "0", "--log", cls.log], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True)
        cls.url = f"http://127.0.0.1:{cls.server.stdout.readline().strip()}"
        os.environ.update(no_proxy="127.0.0.1", XDG_CACHE_HOME=str(cls.folder / "cache"))

    @classmethod
    def tearDownClass(cls):
        cls.server.communicate("")
        cls.scratch.cleanup()

    def plan(self, order, where=None, behind="stage { repeat { epochs: 2 } }"):
        path = self.folder / "plan.pbtxt"
        where = where or self.url
        path.write_text(
            f'seed: 3\nstage {{ tfrecord {{ files: "{where}/part-{{0,1}}" }} }}\n{order}\n'
            f'stage {{ decode_raw {{ field: "record" dtype: UINT8 shape: {RECORD} }} }}\n'
            f"stage {{ batch {{ size: 4 }} }}\n{behind}\n")
        return path

    def run_json(self, *args):
        done = millrace("run", *args, "--json", "--digest")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def log_lines(self):
        return self.log.read_text().splitlines()

    def times_fetched(self, before):
        """How often each record was asked for behind so many lines of the log."""
        counts = Counter()
        for line in self.log_lines()[before:]:
            name, first, last = line.split()
            first, end = int(first), int(last) + 1
            if end == 1:  # it opens the file
                continue
            self.assertEqual((first % FRAME, end % FRAME), (0, 0), line)
            counts.update((name, record) for record in range(first // FRAME, end // FRAME))
        return counts

    # S-FETCH-1, S-FETCH-2.
    def test_two_epochs_fetch_each_record_twice(self):
        for order in SHUFFLES:
            self.run_json(self.plan(order))  # makes the index
            before = len(self.log_lines())
            report = self.run_json(self.plan(order))
            # A record that both epochs want at once may be fetched once for both.
            self.assertLessEqual(report["fetched_bytes"], 2 * 24 * FRAME)
            self.assertLessEqual(report["fetched_bytes_per_record_byte"], 1)
            self.assertGreater(report["fetched_bytes_per_record_byte"], 0.9)
            counts = self.times_fetched(before)
            self.assertLessEqual(set(counts.values()), {1, 2})
            self.assertEqual(len(counts), 24)
            local = self.run_json(self.plan(order, self.folder))
            self.assertEqual(local["digest"], report["digest"])
            self.assertIsNone(local["fetched_bytes"])
            self.assertIsNone(local["fetched_bytes_per_record_byte"])

    # S-FETCH-1, S-FETCH-2. The two epochs of a plan of two, each in a run that reads no other.
    def test_each_of_two_epochs_fetches_each_record_once(self):
        for order in SHUFFLES:
            self.run_json(self.plan(order))  # makes the index
            digests = set()
            for part in ("take { count: 6 }", "skip { count: 6 }"):
                behind = f"stage {{ repeat {{ epochs: 2 }} }}\nstage {{ {part} }}"
                before = len(self.log_lines())
                report = self.run_json(self.plan(order, behind=behind))
                counts = self.times_fetched(before)
                self.assertEqual((len(counts), set(counts.values())), (24, {1}), (order, part))
                self.assertEqual(report["fetched_bytes"], 24 * FRAME)
                digests.add(report["digest"])
            self.assertEqual(len(digests), 2)

    # S-FETCH-4.
    def test_explain_predicts_what_run_counts(self):
        for order in ("", "stage { global_shuffle {} }",
                      f"stage {{ global_shuffle {{ block_bytes: {4 * FRAME} window: 8 }} }}",
                      "stage { shard { num_shards: 6 } }"):
            explained = millrace("explain", self.plan(order))
            self.assertEqual(explained.returncode, 0, explained.stderr)
            predicted = float(re.search(r"fetch +([0-9.]+) bytes", explained.stdout)[1])
            # One epoch: small files stay in memory.
            path = self.plan(order)
            path.write_text(path.read_text().replace("epochs: 2", "epochs: 1"))
            counted = self.run_json(path)["fetched_bytes_per_record_byte"]
            self.assertLess(abs(counted - predicted), 0.1 * predicted, order)

    # S-FETCH-4.
    def test_text_says_what_was_fetched_and_warns(self):
        done = millrace("run", self.plan("stage { global_shuffle {} }"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("of records: 1.00 bytes for each\n", done.stdout)
        path = self.plan("stage { shard { num_shards: 6 } }")
        path.write_text(path.read_text().replace("epochs: 2", "epochs: 1"))
        done = millrace("run", path)
        self.assertIn("more than 1.5", done.stdout + done.stderr)

    def test_another_server_s_answers_are_passed_on(self):
        log = self.folder / "passed_on"
        behind = http_servers.slow_server("--upstream", self.url, "--log", str(log),
                                          "--latency-ms", "0", "--rate", "0")
        order = SHUFFLES[0]
        local = self.run_json(self.plan(order, self.folder))
        with behind as url:
            before = len(self.log_lines())
            self.assertEqual(self.run_json(self.plan(order, url))["digest"], local["digest"])
            missing = millrace("records", "verify", f"{url}/none")
            self.assertIn("404", missing.stderr)
        self.assertEqual(log.read_text().splitlines(), self.log_lines()[before:])


class BenchTest(unittest.TestCase):
    """The rows of bench/ that read over HTTP, over a few records."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        for i in range(8):
            write_tfrecord(self.folder / f"part-{i}.tfrecord", [bytes([i]) * 110_000] * 2)
        for patch in (mock.patch.dict(os.environ),
                      mock.patch.multiple(rows_readers, BIN=pathlib.Path(BIN).parent,
                                          DATA=self.folder, http_shards=lambda: self.folder)):
            patch.start()
            self.addCleanup(patch.stop)

    def check_rows(self, program):
        for make in (rows_readers.http_shuffle, rows_readers.http_blocks):
            row = make(repeats=1)
            self.assertGreater(row["value"], 0)
            self.assertGreater(row["limit"], 0)
            self.assertIn(f"files by {program}", row["note"])
            # A record that both epochs want at once is fetched once for both.
            self.assertLessEqual(row["fetched"], 1)
            self.assertGreater(row["fetched"], 0.4)

    def test_rows_run_to_their_end_with_the_slow_server_s_files(self):
        with mock.patch.object(http_servers, "nginx_program", lambda: None):
            self.check_rows("slow_server.py")

    @unittest.skipIf(http_servers.nginx_program() is None, "nginx is not installed")
    def test_rows_run_to_their_end_with_nginx_s_files(self):
        self.check_rows("nginx")


if __name__ == "__main__":
    unittest.main()

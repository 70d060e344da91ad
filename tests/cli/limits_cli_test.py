"""Limits of the system: RESOURCE_EXHAUSTED and exit code 1, never a signal."""

import os
import pathlib
import resource
import select
import shutil
import socket
import subprocess
import tempfile
import unittest

from cli_testutil import BIN, SOURCE, TIMEOUT, write_tfrecord
from example_testutil import example

MIB = 1 << 20
V1, V2 = pathlib.Path("/sys/fs/cgroup/memory"), pathlib.Path("/sys/fs/cgroup")


def has_sanitizer():
    """AddressSanitizer and ThreadSanitizer reserve more than any limit."""
    program = pathlib.Path(BIN).read_bytes()
    return b"__asan_init" in program or b"__tsan_init" in program


class Cgroup:
    """A new cgroup with a limit on memory; None where none can be made."""

    @staticmethod
    def make(limit):
        for root, name in ((V1, "memory.limit_in_bytes"), (V2, "memory.max")):
            folder = root / f"millrace-test-{os.getpid()}"
            try:
                folder.mkdir()
            except OSError:
                continue
            try:
                (folder / name).write_text(str(limit))
                Cgroup.try_to_enter(folder)
                return folder
            except OSError:
                folder.rmdir()
        return None

    @staticmethod
    def try_to_enter(folder):
        """An OSError where no process may be put into the cgroup."""
        child = subprocess.Popen(["sleep", str(TIMEOUT)])
        try:
            (folder / "cgroup.procs").write_text(str(child.pid))
        finally:
            child.kill()
            child.wait()


def enter(limits=(), cgroup=None):
    """Puts this process under resource limits, and into a cgroup."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for limit, value in limits:
        resource.setrlimit(limit, (value, value))
    if cgroup is not None:
        (cgroup / "cgroup.procs").write_text(str(os.getpid()))


def limited(*args, limits=(), cgroup=None, env=None, stdout=subprocess.PIPE):
    """Runs the program under resource limits, and in a cgroup."""
    return subprocess.run([BIN, *map(str, args)], stdout=stdout, stderr=subprocess.PIPE, text=True,
                          check=False, timeout=TIMEOUT,
                          preexec_fn=lambda: enter(limits, cgroup),
                          env={**os.environ, **(env or {})})


def data_limit(server, *args, cgroup):
    """The limit on data of the program in a cgroup, while it waits for an answer of `server`."""
    program = subprocess.Popen([BIN, *map(str, args)], stdout=subprocess.DEVNULL,
                               preexec_fn=lambda: enter((), cgroup))
    try:
        while program.poll() is None:
            if select.select([server], [], [], 0.1)[0]:
                with server.accept()[0]:
                    return resource.prlimit(program.pid, resource.RLIMIT_DATA)[0]
        raise AssertionError(f"{args} ended and asked for nothing: {program.returncode}")
    finally:
        program.kill()
        program.wait()


class LimitsTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def assert_exhausted(self, done, *texts):
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(done.stderr.count("millrace: error: "), 1, done.stderr)
        for text in texts:
            self.assertIn(text, done.stderr)

    def plan(self, rows):
        """A plan of batches of numbers, 8 bytes a row."""
        plan = self.folder / f"plan-{rows}.pbtxt"
        plan.write_text(f'stage {{ range {{ count: {4 * rows} }} }}\n'
                        f'stage {{ batch {{ size: {rows} }} }}\n')
        return plan

    def job(self, rows=10):
        """A job of one step on numbers, with a model of 100 KB."""
        shard, plan = self.folder / "train.tfrecord", self.folder / "train.pbtxt"
        write_tfrecord(shard, [example({"x": [0.5] * 256, "label": [i % 10]}) for i in range(10)])
        plan.write_text(f'stage {{ tfrecord {{ files: "{shard}" }} }}\n'
                        'stage { parse_example { feature { key: "x" dtype: FLOAT32 shape: 256 }\n'
                        '  feature { key: "label" dtype: INT64 } } }\n'
                        f'stage {{ batch {{ size: {rows} }} }}\n')
        model = self.folder / "model.pbtxt"
        model.write_text('layer { input_layer { field: "x" shape: 256 } }\n'
                         'layer { fully_connected { outputs: 100 } }\n'
                         'layer { fully_connected { outputs: 10 } }\n'
                         'layer { softmax_cross_entropy {} }\n')
        job = self.folder / "job.pbtxt"
        job.write_text(f'model: "{model}" train: "{plan}" epochs: 1 seed: 7\n'
                       'optimizer { base_lr: 0.05 base_batch: 64 momentum: 0.9 }\n'
                       f'checkpoint {{ folder: "{self.folder}/checkpoints" every_epochs: 1 }}\n')
        return job

    def test_a_file_that_grows_too_large_is_an_error_and_leaves_nothing(self):
        lines = self.folder / "lines.txt"
        lines.write_text("x" * 100 + "\n" + ("y" * 200000 + "\n") * 10)
        limits = [(resource.RLIMIT_FSIZE, MIB)]
        for to in ("tfrecord", "tar"):
            out = self.folder / to
            done = limited("records", "convert", "--from", "text", "--to", to, "--feature", "txt",
                           "--out", out, lines, limits=limits)
            self.assert_exhausted(done, "File too large")
            self.assertEqual(list(out.glob("*")), [], to)

    def test_an_index_that_cannot_be_written_is_told_and_a_run_goes_without(self):
        shard = self.folder / "a.tfrecord"
        write_tfrecord(shard, [b"x"] * 3000)  # an index of 12 KB
        env = {"XDG_CACHE_HOME": str(self.folder / "cache")}
        limits = [(resource.RLIMIT_FSIZE, 4096)]
        done = limited("records", "index", shard, limits=limits, env=env)
        self.assert_exhausted(done, "1 of 1 indexes are not kept")
        plan = self.folder / "plan.pbtxt"
        plan.write_text(f'stage {{ tfrecord {{ files: "{shard}" }} }}\n'
                        'stage { padded_batch { size: 100 } }\nlanes: 1\n')
        done = limited("run", plan, "--threads", 2, limits=limits, env=env)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_page_that_grows_too_large_is_an_error_and_leaves_nothing(self):
        page = self.folder / "page.html"
        plan = self.plan(4096)
        done = limited("show", plan, "--out", page, "--rows", 4096,
                       limits=[(resource.RLIMIT_FSIZE, 16384)])
        self.assert_exhausted(done, str(page), "File too large")
        self.assertFalse(page.exists())

    def test_standard_output_that_grows_too_large_is_an_error(self):
        shard = self.folder / "a.tfrecord"
        write_tfrecord(shard, [b"x"] * 10)
        for args in (["explain", self.plan(10)], ["records", "inspect", shard],
                     ["records", "cat", shard]):
            with open(self.folder / "out", "w") as out:
                done = limited(*args, limits=[(resource.RLIMIT_FSIZE, 64)], stdout=out)
            self.assert_exhausted(done, "standard output")
            self.assertLessEqual((self.folder / "out").stat().st_size, 64)

    def test_a_checkpoint_that_grows_too_large_is_an_error_and_leaves_nothing(self):
        job = self.job()
        done = limited("train", job, limits=[(resource.RLIMIT_FSIZE, 65536)])
        self.assert_exhausted(done, "checkpoints", "File too large")
        self.assertEqual(list((self.folder / "checkpoints").rglob("*.safetensors*")), [])
        done = limited("train", job)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(list((self.folder / "checkpoints").rglob("*.safetensors"))), 1)

    @unittest.skipIf(has_sanitizer(), "sanitizers need more address space than the limit")
    def test_an_address_space_that_is_too_small_for_a_batch(self):
        limits = [(resource.RLIMIT_AS, 1500 * MIB)]
        page = self.folder / "page.html"
        for args in (["run"], ["show", "--out", page]):
            done = limited(*args, self.plan(400_000_000), limits=limits)
            self.assert_exhausted(done, "no memory for a slab of")
            self.assertFalse(page.exists())
            done = limited(*args, self.plan(1000), limits=limits)
            self.assertEqual(done.returncode, 0, done.stderr)
        done = limited("explain", self.plan(400_000_000), limits=limits)  # it makes no batch
        self.assertEqual(done.returncode, 0, done.stderr)
        job = self.job(rows=20_000_000)
        self.assert_exhausted(limited("train", job, limits=limits), "no memory for a slab of")

    @unittest.skipIf(has_sanitizer(), "sanitizers need more address space than the limit")
    def test_an_address_space_that_is_too_small_for_a_record(self):
        big = self.folder / "big.txt"
        with open(big, "wb") as out:
            out.truncate(900 * MIB)  # one line of zeros
        limits = [(resource.RLIMIT_AS, 900 * MIB)]
        for args in (["convert", "--from", "text", "--out", self.folder / "out", big],
                     ["verify", big], ["inspect", big], ["cat", "--container", "text", big]):
            done = limited("records", *args, limits=limits)
            self.assertIn(done.returncode, (1, 2), (args, done.stderr))
            self.assertNotIn("terminate", done.stderr)

    @unittest.skipIf(has_sanitizer(), "sanitizers need more address space than the limit")
    def test_every_small_address_space_is_an_error_or_enough(self):
        shards = []
        for i in range(4):
            shards.append(self.folder / f"s{i}.tfrecord")
            write_tfrecord(shards[-1], [b"r" * 1000] * 200)
        plan = self.folder / "plan.pbtxt"
        plan.write_text(f'stage {{ tfrecord {{ files: "{self.folder}/s*.tfrecord" }} }}\n'
                        'stage { padded_batch { size: 100 } }\nlanes: 1\n')
        env = {"XDG_CACHE_HOME": str(self.folder / "cache")}
        # In less the program is not loaded, or a library's start fails, before it can say anything.
        sizes = [megabytes for megabytes in [*range(60, 160, 4), *range(160, 500, 40)]
                 if limited("--version", limits=[(resource.RLIMIT_AS, megabytes * MIB)])
                 .returncode == 0]
        self.assertIn(100, sizes)
        for args in (["run", plan], ["explain", plan], ["show", plan, "--out", plan.with_suffix("")],
                     ["records", "inspect", *shards], ["train", self.job()]):
            for megabytes in sizes:
                shutil.rmtree(self.folder / "checkpoints", ignore_errors=True)
                done = limited(*args, limits=[(resource.RLIMIT_AS, megabytes * MIB)], env=env)
                self.assertIn(done.returncode, (0, 1), (args, megabytes, done.stderr))
                said = "millrace: error: " in done.stderr  # several of several files
                self.assertEqual(said, done.returncode == 1, (args, megabytes, done.stderr))

    @unittest.skipIf(has_sanitizer(), "sanitizers have more data than the limit")
    def test_a_cgroup_that_is_too_small_for_a_batch(self):
        cgroup = Cgroup.make(300 * MIB)
        if cgroup is None:
            self.skipTest("no cgroup can be made here")
        self.addCleanup(cgroup.rmdir)
        # 165 MB a batch with the ids, and 2.6 GB.
        for rows in (5_000_000, 80_000_000):
            done = limited("run", self.plan(rows), cgroup=cgroup)
            self.assertIn(done.returncode, (0, 1), (rows, done.stderr))
        self.assert_exhausted(done, "memory limit of")
        done = limited("run", self.plan(1_000_000), "--threads", 2, "--json", cgroup=cgroup)
        self.assertEqual(done.returncode, 0, done.stderr)
        big = self.folder / "big.txt"
        with open(big, "wb") as out:
            out.truncate(900 * MIB)
        done = limited("records", "convert", "--from", "text", "--out", self.folder / "out", big,
                       cgroup=cgroup)
        self.assert_exhausted(done)

    @unittest.skipIf(has_sanitizer(), "sanitizers have more data than the limit")
    def test_only_commands_that_work_on_the_cpu_alone_limit_their_data(self):
        limit = 2048 * MIB
        cgroup = Cgroup.make(limit)
        if cgroup is None:
            self.skipTest("no cgroup can be made here")
        self.addCleanup(cgroup.rmdir)
        server = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(server.close)
        url = f"http://127.0.0.1:{server.getsockname()[1]}/a.tfrecord"
        plan, job = self.folder / "plan.pbtxt", self.folder / "job.pbtxt"
        plan.write_text(f'stage {{ tfrecord {{ files: "{url}" }} }}\n'
                        'stage { decode_raw { dtype: UINT8 shape: 784 } }\n'
                        'stage { batch { size: 100 } }\n')
        job.write_text(f'model: "{SOURCE}/examples/fashion_mnist/model.pbtxt"\n'
                       f'train: "{plan}" epochs: 1 seed: 7\n'
                       'optimizer { base_lr: 0.05 base_batch: 64 momentum: 0.9 }\n')
        before = resource.getrlimit(resource.RLIMIT_DATA)[0]
        for command, text, has_limit in (("explain", plan, True), ("run", plan, True),
                                         ("train", job, False)):
            self.assertEqual(data_limit(server, command, text, cgroup=cgroup),
                             limit if has_limit else before, command)


if __name__ == "__main__":
    unittest.main()

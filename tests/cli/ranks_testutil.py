"""What the tests that let ranks of a training die share."""

import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from cli_testutil import BIN, SOURCE, TIMEOUT, convert_slice, mpirun
from train_cli_test import EXAMPLES, JOB, processes

sys.path.insert(0, str(SOURCE / "tests"))
from free_port import free_port  # noqa: E402

PEER_LOST = 76
ENDED_BY_A_SIGNAL = 75

# For jobs that give a rank up: longer than a loaded machine keeps one that runs from a core.
GIVES_UP = ("--stall-report-ms", "1000", "--stall-abort-ms", "20000")

# For jobs whose ranks are killed: it is the end of the process that the others see, not that it
# stays away.
NO_STALLS = ("--stall-abort-ms", "0")
ENDED = ": its process has ended"


class Rank:
    """One running rank; its output is read as it comes."""

    def __init__(self, command, env=None):
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                        text=True, env={**os.environ, **(env or {})})
        self.lines = []
        self.changed = threading.Condition()
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            with self.changed:
                self.lines.append(line)
                self.changed.notify_all()

    def output(self):
        with self.changed:
            return "".join(self.lines)

    def await_line(self, pattern):
        """Waits until a line matches; fails where the rank ends before or takes for ever."""
        limit = time.monotonic() + TIMEOUT
        while not re.search(pattern, self.output(), re.M):
            ended = self.process.poll() is not None and not self.reader.is_alive()
            if ended or time.monotonic() > limit:
                raise AssertionError(f"no line {pattern!r} in:\n{self.output()}")
            with self.changed:
                self.changed.wait(0.2)

    def steps(self):
        """The last step whose line has come."""
        return int(re.findall(r"^step (\d+)/", self.output(), re.M)[-1])

    def end(self):
        """The exit code; kills what does not end."""
        try:
            code = self.process.wait(timeout=TIMEOUT)
        finally:
            self.close()
        return code

    def close(self):
        self.process.kill()
        self.process.wait()
        self.reader.join()
        self.process.stdout.close()


class Launcher(Rank):
    """An mpirun, which has children of its own."""

    def __init__(self, command, job):
        super().__init__(command)
        self.job = job

    def left(self):
        """The processes of its job."""
        return [pid for pid, arguments in processes()
                if str(self.job) in arguments and pid != os.getpid()]

    def close(self):
        for pid in self.left():
            os.kill(pid, signal.SIGKILL)
        super().close()


class RanksTestCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.scratch.name)
        convert_slice(cls.folder, "train", 1250, 3)
        convert_slice(cls.folder, "t10k", 203, 2)

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def setUp(self):
        self.started = []

    def tearDown(self):
        for rank in self.started:
            rank.close()

    def job(self, name, epochs=6):
        """A job that saves only when it has to, and its checkpoints' folder."""
        checkpoints = self.folder / f"{name}-checkpoints"
        path = self.folder / f"{name}.pbtxt"
        path.write_text(JOB.format(examples=EXAMPLES, checkpoints=checkpoints, every=100_000,
                                   epochs=epochs))
        return path, checkpoints

    def arguments(self, job, *more):
        return [BIN, "train", str(job), "--var", f"DATA={self.folder}", "--var", "BATCH=64", *more]

    def start(self, job, ranks, *more):
        """Ranks that no launcher started."""
        port = free_port()
        started = [Rank(self.arguments(job, "--rank", str(rank), "--world-size", str(ranks),
                                       "--rendezvous", f"127.0.0.1:{port}", *more))
                   for rank in range(ranks)]
        self.started += started
        return started

    def start_mpi(self, job, ranks, options, *more):
        launcher = Launcher([*mpirun(ranks), *options, *self.arguments(job, *more)], job)
        self.started.append(launcher)
        return launcher

    def run_to_the_end(self, job, ranks, *more):
        started = self.start(job, ranks, *more)
        for rank in started:
            self.assertEqual(rank.end(), 0, rank.output())
        return started

    def newest(self, checkpoints):
        return sorted(checkpoints.glob("checkpoint-*.safetensors"))[-1]

    def check_lost(self, survivors, lost, why=""):
        """All exit with 76, name the rank (or one of a character class) and say why; one that it
        has saved."""
        said = ""
        for rank in survivors:
            self.assertEqual(rank.end(), PEER_LOST, rank.output())
            self.assertRegex(rank.output(), rf"rank {lost} is lost.*{why}")
            said += rank.output()
        self.assertRegex(said, r"saved step \d+: ")

"""Jobs of several processes, as launchers start them, over TCP: tests/collectives/connect/connect_rank.cc.

CONNECT_RANK names the program.
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from free_port import free_port  # noqa: E402

PROGRAM = os.environ["CONNECT_RANK"]
TIMEOUT = 120
# What the launcher of the tests itself may have set.
LAUNCHERS = ("OMPI_", "PMI_", "PMIX_", "SLURM_", "RANK", "WORLD_SIZE", "LOCAL_", "MASTER_",
             "TORCHELASTIC_", "TF_CONFIG", "JOB_COMPLETION_INDEX")


class Rank:
    """A process of a job."""

    def __init__(self, *arguments, **variables):
        env = {name: value for name, value in os.environ.items()
               if not name.startswith(LAUNCHERS)}
        env.update(variables)
        self.process = subprocess.Popen([PROGRAM, *map(str, arguments)], env=env, text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def end(self):
        """Returns (exit code, standard output, standard error), stripped."""
        out, err = self.process.communicate(timeout=TIMEOUT)
        return self.process.returncode, out.strip(), err.strip()


class JobsTest(unittest.TestCase):
    """Each test starts whole jobs."""

    def setUp(self):
        self.ranks = []

    def tearDown(self):
        for rank in self.ranks:
            if rank.process.poll() is None:
                rank.process.kill()
            rank.process.communicate()

    def start(self, *arguments, **variables):
        """Starts one rank."""
        self.ranks.append(Rank(*arguments, **variables))

    def expect_job(self, size, reason):
        """All ranks have come, and say `reason`."""
        for number, rank in enumerate(self.ranks):
            code, out, err = rank.end()
            self.assertEqual((code, err), (0, ""))
            self.assertEqual(out, f"rank {number} of {size} sum {size * (size + 1) // 2}, "
                                  f"tcp: tcp: {reason}")

    def test_flags(self):
        place = f"127.0.0.1:{free_port()}"
        for rank in range(3):
            self.start("--rank", rank, "--world-size", 3, "--rendezvous", place)
        self.expect_job(3, f"--world-size=3, met at {place}")

    def test_a_shared_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            for rank in range(2):
                self.start("--rank", rank, "--world-size", 2, "--rendezvous", f"file:{folder}")
            self.expect_job(2, f"--world-size=2, met at file:{folder}")
            self.assertEqual(os.listdir(folder), [])

    def test_torchrun(self):
        port = str(free_port())
        for rank in range(4):
            self.start(RANK=str(rank), WORLD_SIZE="4", LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE="4",
                       MASTER_ADDR="localhost", MASTER_PORT=port, TORCHELASTIC_RUN_ID="r",
                       TORCHELASTIC_RESTART_COUNT="0")
        self.expect_job(4, f"WORLD_SIZE=4, met at tcp:localhost:{port}")

    def test_tf_config(self):
        port = free_port()
        cluster = {"chief": [f"127.0.0.1:{port}"], "worker": ["127.0.0.1:1"]}
        for kind in "chief", "worker":
            self.start(TF_CONFIG=json.dumps({"cluster": cluster,
                                             "task": {"type": kind, "index": 0}}))
        self.expect_job(2, f"TF_CONFIG of 2 tasks, met at tcp:127.0.0.1:{port}")

    def test_kubernetes(self):
        port = str(free_port())
        for rank in range(2):
            self.start("--world-size", 2, JOB_COMPLETION_INDEX=str(rank), MASTER_ADDR="127.0.0.1",
                       MASTER_PORT=port)
        for number, rank in enumerate(self.ranks):
            code, out, err = rank.end()
            self.assertEqual((code, err), (0, ""))
            self.assertEqual(out, f"rank {number} of 2 sum 3, tcp: tcp: JOB_COMPLETION_INDEX={number}, "
                                  f"--world-size=2, met at tcp:127.0.0.1:{port}")

    def test_another_job_has_the_address(self):
        place = f"127.0.0.1:{free_port()}"
        common = ("--world-size", 2, "--rendezvous", place, "--connect-timeout", 3000)
        self.start("--rank", 0, *common, "--job-id", "one")
        self.start("--rank", 1, *common, "--job-id", "two")
        code, _, err = self.ranks[1].end()
        self.assertEqual(code, 1)
        self.assertIn("is that of job 'one', not of job 'two'", err)
        code, _, err = self.ranks[0].end()
        self.assertEqual(code, 1)
        self.assertIn("1 of 2 ranks never came within 3000 ms: rank 1", err)

    def test_a_killed_rank_is_named_by_the_others(self):
        place = f"127.0.0.1:{free_port()}"
        for rank in range(3):
            self.start("--rank", rank, "--world-size", 3, "--rendezvous", place,
                       "--die-before-sum", 1)
        self.assertEqual(self.ranks[1].end()[0], -9)
        for rank in 0, 2:
            code, _, err = self.ranks[rank].end()
            self.assertEqual(code, 1)
            self.assertIn("UNAVAILABLE", err)
            self.assertIn("rank 1", err)

    def test_an_abort_ends_the_others(self):
        place = f"127.0.0.1:{free_port()}"
        for rank in range(3):
            self.start("--rank", rank, "--world-size", 3, "--rendezvous", place,
                       "--abort-before-sum", 2)
        for rank in self.ranks:
            code, _, err = rank.end()
            self.assertEqual(code, 1)
            self.assertRegex(err, "CANCELLED|UNAVAILABLE|INTERNAL: had enough")


if __name__ == "__main__":
    unittest.main()

"""`millrace train` on ranks that no MPI starts, and `millrace bench` on processes."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import unittest

from cli_testutil import BIN, SOURCE, TIMEOUT, convert_slice, millrace, mpirun

sys.path.insert(0, str(SOURCE / "tests"))
from free_port import free_port  # noqa: E402

EXAMPLES = SOURCE / "examples/fashion_mnist"

JOB = """
model: "{examples}/model.pbtxt"
train: "{examples}/train.pbtxt"
epochs: {epochs}
seed: 7
log_every_steps: 1
optimizer {{ base_lr: 0.05 base_batch: 64 momentum: 0.9 }}
checkpoint {{ folder: "{checkpoints}" every_steps: 1000 }}
"""


class LaunchTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.scratch.name)
        convert_slice(cls.folder, "train", 640, 2)

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def setUp(self):
        self.ranks = []

    def tearDown(self):
        for rank in self.ranks:
            if rank.poll() is None:
                rank.kill()
            rank.communicate()

    def interrupt(self, job):
        """Lets mpirun end its ranks."""
        if job.poll() is None:
            job.send_signal(signal.SIGINT)
            job.communicate(timeout=TIMEOUT)

    def args(self, name, epochs=1):
        """The command line of a job of its own, and its checkpoints' folder."""
        checkpoints = self.folder / f"{name}-checkpoints"
        job = self.folder / f"{name}.pbtxt"
        job.write_text(JOB.format(examples=EXAMPLES, checkpoints=checkpoints, epochs=epochs))
        return ["train", job, "--var", f"DATA={self.folder}", "--var", "BATCH=64"], checkpoints

    def start(self, args, *more):
        """Starts one rank."""
        self.ranks.append(subprocess.Popen([BIN, *map(str, args), *map(str, more)], text=True,
                                           stdout=subprocess.PIPE, stderr=subprocess.PIPE))

    def newest(self, checkpoints):
        return sorted(checkpoints.glob("checkpoint-*.safetensors"))[-1]

    def test_the_help_has_the_limits_of_the_guide(self):
        guide = (SOURCE / "docs/distributed.md").read_text()
        words = millrace("train", "--help").stdout
        for flag, limit in (("--stall-report-ms", 3000), ("--stall-abort-ms", 60000)):
            self.assertRegex(words, rf"{flag} INT={limit} ")
            self.assertRegex(guide, rf"`{flag}` \({limit}\b")

    def test_two_ranks_over_tcp_make_the_weights_of_two_over_mpi(self):
        args, over_mpi = self.args("mpi")
        done = millrace(*args, prefix=mpirun(2))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"ranks +2 \(2 on this host\), mpi; mpi: "
                                      r"OMPI_COMM_WORLD_SIZE=2\n")
        args, over_tcp = self.args("tcp")
        meet = f"file:{self.folder}/meet"
        for rank in range(2):
            self.start(args, "--rank", rank, "--world-size", 2, "--rendezvous", meet)
        for rank in self.ranks:
            out, err = rank.communicate(timeout=TIMEOUT)
            self.assertEqual(rank.returncode, 0, err)
            if rank is self.ranks[0]:
                self.assertRegex(out, r"ranks +2 \(2 on this host\), tcp; tcp: --world-size=2, "
                                      rf"met at {re.escape(meet)}")
        self.assertEqual(self.newest(over_tcp).read_bytes(), self.newest(over_mpi).read_bytes())

    def test_replicas_make_the_weights_of_as_many_processes(self):
        args, processes = self.args("four")
        done = millrace(*args, prefix=mpirun(4))
        self.assertEqual(done.returncode, 0, done.stderr)
        args, replicas = self.args("two-by-two")
        done = millrace(*args, "--replicas", 2, prefix=mpirun(2))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"ranks +4 \(4 on this host\), tcp; 2 processes of 2 replicas, "
                                      r".*; mpi: OMPI_COMM_WORLD_SIZE=2\n")
        self.assertEqual(self.newest(replicas).read_bytes(), self.newest(processes).read_bytes())
        args, replicas = self.args("one-by-four")
        done = millrace(*args, "--replicas", 4)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"ranks +4 \(4 on this host\), threads; 1 process of 4 ")
        self.assertEqual(self.newest(replicas).read_bytes(), self.newest(processes).read_bytes())

    def await_step(self, rank, step):
        for line in rank.stdout:
            if line.startswith(f"step {step}/"):
                return
        self.fail(rank.stderr.read())

    def test_a_killed_process_is_lost_to_the_replicas_of_the_other(self):
        args, checkpoints = self.args("killed-replicas", epochs=1000)
        for rank in range(2):
            self.start(args, "--replicas", 2, "--rank", rank, "--world-size", 2, "--rendezvous",
                       f"file:{self.folder}/meet-killed-replicas")
        self.await_step(self.ranks[0], 3)
        self.ranks[1].kill()
        _, err = self.ranks[0].communicate(timeout=TIMEOUT)
        self.assertEqual(self.ranks[0].returncode, 76, err)
        self.assertRegex(err, r"error: rank 0: .*rank [23] is lost .*; saved step \d+: ")
        self.assertEqual(len(list(checkpoints.glob("checkpoint-*.safetensors"))), 1)

    def test_a_signal_to_one_process_stops_the_replicas_of_all(self):
        args, checkpoints = self.args("stopped-replicas", epochs=1000)
        for rank in range(2):
            self.start(args, "--replicas", 2, "--rank", rank, "--world-size", 2, "--rendezvous",
                       f"file:{self.folder}/meet-stopped-replicas")
        self.await_step(self.ranks[0], 3)
        self.ranks[1].send_signal(signal.SIGTERM)
        for rank in self.ranks:
            _, err = rank.communicate(timeout=TIMEOUT)
            self.assertEqual(rank.returncode, 75, err)
            self.assertEqual(err, "")
        self.assertEqual(len(list(checkpoints.glob("checkpoint-*.safetensors"))), 1)

    def test_a_killed_rank_is_lost_to_the_other(self):
        args, _ = self.args("killed", epochs=1000)
        for rank in range(2):
            self.start(args, "--rank", rank, "--world-size", 2, "--rendezvous",
                       f"file:{self.folder}/meet-killed", "--stall-abort-ms", 0)
        for line in self.ranks[0].stdout:
            if re.match(r"step 3/", line):
                break
        self.ranks[1].send_signal(signal.SIGKILL)
        _, err = self.ranks[0].communicate(timeout=TIMEOUT)
        self.assertEqual(self.ranks[0].returncode, 76)
        self.assertRegex(err, r"rank 1 is lost.*: its process has ended")

    def test_a_rank_that_is_stopped_for_the_timeout_ends_the_other(self):
        args, _ = self.args("timeout", epochs=1000)
        for rank in range(2):
            self.start(args, "--rank", rank, "--world-size", 2, "--rendezvous",
                       f"file:{self.folder}/meet-timeout", "--stall-abort-ms", 0, "--timeout", 15)
        self.assertTrue(any(line.startswith("step 3/") for line in self.ranks[0].stdout))
        self.ranks[1].send_signal(signal.SIGSTOP)
        _, err = self.ranks[0].communicate(timeout=TIMEOUT)
        self.assertEqual(self.ranks[0].returncode, 1, err)
        self.assertRegex(err, r"error: rank 0: .*(has not ended within 15000 ms; rank 1 did not "
                              r"come|"
                              r"waiting for rank 1 of this host: the timeout has passed)")
        self.assertNotIn("rank 0: rank 0: ", err)

    def test_a_rank_that_never_comes_is_named(self):
        args, _ = self.args("alone")
        done = millrace(*args, "--rank", 0, "--world-size", 3, "--rendezvous",
                        f"file:{self.folder}/meet-alone", "--connect-timeout", 1)
        self.assertEqual(done.returncode, 1)
        self.assertIn("2 of 3 ranks never came within 1000 ms: rank 1 (no file), rank 2 (no file)",
                      done.stderr)

    def test_a_start_of_mpi_that_waits_for_ever_is_ended(self):
        # The other process of the job never calls MPI_Init.
        args, _ = self.args("unstarted")
        done = subprocess.run([*mpirun(1), BIN, *map(str, args), "--connect-timeout", "1", ":", "-np",
                               "1", "sleep", str(10 * TIMEOUT)], capture_output=True, text=True,
                              timeout=TIMEOUT)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr, r"the start of MPI \(OMPI_COMM_WORLD_SIZE=2, rank 0 of 2\) was "
                                      r"not over after 1 s")

    def start_to_stop_in_finalize(self, command):
        """Starts two ranks, the second of which stops itself in MPI_Finalize."""
        preload = f"LD_PRELOAD={os.environ['STOPS_IN_MPI']}"
        job = subprocess.Popen([*mpirun(2), "-x", preload, BIN, *map(str, command),
                                "--connect-timeout", "20"], text=True, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
        self.addCleanup(self.interrupt, job)
        return job

    def expect_ended(self, job, wait):
        """Expects that the first rank ends the job because of this wait; returns its output."""
        out, err = job.communicate(timeout=TIMEOUT / 3)
        self.assertEqual(job.returncode, 1, err)
        self.assertRegex(err, rf"error: {wait} \(OMPI_COMM_WORLD_SIZE=2, rank 0 of 2\) was not "
                              r"over after 20 s")
        return out, err

    def test_an_end_of_mpi_that_waits_for_ever_is_ended(self):
        # MPI_Init, which takes a quarter of a second, has the same limit.
        args, _ = self.args("unended")
        benched = ["bench", "allreduce", "--max-bytes", "8"]
        jobs = [self.start_to_stop_in_finalize(command) for command in (args, benched)]
        for job, last_line in zip(jobs, (r"checkpoint: .*-00000010\.", r"# mean busbw")):
            out, err = self.expect_ended(job, "MPI_Finalize")
            self.assertEqual(job is jobs[0], "the training is over, with all that it saves" in err)
            self.assertRegex(out, rf"(?m)^{last_line}")

    def test_a_bench_over_nccl_says_what_is_missing(self):
        for ranks in "1", "2":
            done = millrace("bench", "allreduce", "--backend", "nccl", "--ranks", ranks)
            self.assertEqual(done.returncode, 1)
            # A build without CUDA, a machine without a device, or without the library.
            self.assertRegex(done.stderr, r"MILLRACE_CUDA=ON|no CUDA device|no NCCL: tried")

    def test_flags_that_do_not_fit_are_refused(self):
        args, _ = self.args("refused")
        for more, expected in [
                (["--rank", 2, "--world-size", 2], "--rank=2 and --world-size=2 do not fit"),
                (["--rank", 0], "--world-size is not"),
                (["--rank", 0, "--world-size", 2], "give --rendezvous HOST:PORT"),
                (["--world-size", 2], "give --rank too"),
                (["--backend", "gloo"], "backend 'gloo'"),
                (["--backend", "nccl"], "take single, tcp or mpi"),
                (["--rendezvous", "nowhere"], "'nowhere' is no HOST:PORT"),
                (["--rendezvous", "node1:29500"], "give --rank and --world-size too"),
                (["--job-id", "mine"], "give --rank and --world-size too")]:
            done = millrace(*args, *more)
            self.assertEqual(done.returncode, 1, more)
            self.assertIn(expected, done.stderr)
        for command in args, ["bench", "allreduce"]:
            for seconds in "-1", "1.5", "16777217":
                done = millrace(*command, "--timeout", seconds)
                self.assertEqual(done.returncode, 2, (command, seconds))
                self.assertIn(f'--timeout: "{seconds}" is not a whole number from 0', done.stderr)


class BenchTest(unittest.TestCase):
    """The columns, and that every element of every size was compared and is right."""

    SMALL = ["bench", "allreduce", "--min-bytes", "8", "--max-bytes", "131072", "--factor", "128",
             "--warmup", "1", "--repeats", "3"]

    def expect_right(self, out, backend):
        title, head, *rows, mean = out.splitlines()
        self.assertRegex(title, rf"^# allreduce of float32 \(sum\), 2 ranks, {backend}: ")
        self.assertEqual(head.split(), ["bytes", "count", "time", "us", "algbw", "GB/s", "busbw",
                                        "GB/s", "wrong"])
        self.assertEqual([row.split()[:2] + row.split()[5:] for row in rows],
                         [["8", "2", "0"], ["1024", "256", "0"], ["131072", "32768", "0"]])
        self.assertRegex(mean, r"^# mean busbw \d+\.\d+ GB/s$")

    def start_over_tcp(self, *args):
        port = str(free_port())
        ranks = []
        for rank in range(2):
            ranks.append(subprocess.Popen([BIN, *args, "--backend", "tcp"], text=True,
                                          stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                          env={**os.environ, "RANK": str(rank), "WORLD_SIZE": "2",
                                               "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}))
            self.addCleanup(ranks[rank].communicate)
            self.addCleanup(ranks[rank].kill)
        return ranks

    def over_tcp(self, *more):
        """The standard output of both ranks."""
        outs = []
        for rank in self.start_over_tcp(*self.SMALL, *more):
            out, err = rank.communicate(timeout=TIMEOUT)
            self.assertEqual(rank.returncode, 0, err)
            outs.append(out)
        return outs

    def test_processes_over_tcp_are_right(self):
        out, silent = self.over_tcp()
        self.expect_right(out, "tcp")
        self.assertEqual(silent, "")

    def test_a_stopped_rank_is_named_after_the_timeout(self):
        # Minutes of calls, if nobody stops them.
        ranks = self.start_over_tcp("bench", "allreduce", "--min-bytes", "1024", "--max-bytes",
                                    "67108864", "--warmup", "0", "--repeats", "2000", "--timeout",
                                    "15")
        self.assertTrue(any(line.split()[0] == "1024" for line in ranks[0].stdout))
        ranks[1].send_signal(signal.SIGSTOP)
        _, err = ranks[0].communicate(timeout=TIMEOUT)
        self.assertIsNone(ranks[1].poll())
        self.assertEqual(ranks[0].returncode, 1)
        self.assertRegex(err, r"error: rank 0: \w+ has not ended within 15000 ms; rank 1 did not "
                              r"come")

    def test_processes_over_mpi_are_right(self):
        done = millrace(*self.SMALL, prefix=mpirun(2))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.expect_right(done.stdout, "mpi")

    def test_threads_are_right(self):
        done = millrace(*self.SMALL, "--ranks", "2")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.expect_right(done.stdout, "threads")

    def test_one_rank_is_told_that_it_exchanges_nothing(self):
        done = millrace(*self.SMALL)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("# one rank has nothing to exchange", done.stdout)

    def test_averages_over_tcp_are_right(self):
        result = json.loads(self.over_tcp("--op", "average", "--json")[0])
        self.assertEqual((result["backend"], result["ranks"]), ("tcp", 2))
        self.assertEqual([(row["bytes"], row["wrong"]) for row in result["rows"]],
                         [(8, 0), (1024, 0), (131072, 0)])


if __name__ == "__main__":
    unittest.main()

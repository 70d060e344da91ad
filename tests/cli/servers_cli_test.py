"""`millrace train` on parameter servers, as processes that are killed."""

import json
import re
import signal
import socket
import sys
import unittest

from cli_testutil import BIN, SOURCE, millrace
from ranks_testutil import PEER_LOST, Rank, RanksTestCase

sys.path.insert(0, str(SOURCE / "tests"))
from free_port import free_port  # noqa: E402

EXAMPLES = SOURCE / "examples/fashion_mnist"
STOPPED = 75
ACCURACY = 0.65  # of 203 images, after 6 epochs over 1,250; guessing has 0.1

JOB = """
model: "{examples}/model.pbtxt"
train: "{examples}/train.pbtxt"
eval: "{examples}/eval.pbtxt"
epochs: {epochs}
seed: 7
log_every_steps: 5
optimizer {{ base_lr: 0.05 base_batch: 64 momentum: 0.5 }}
checkpoint {{ folder: "{checkpoints}" every_steps: {every} }}
strategy {{ parameter_server {{ {strategy} }} }}
"""


class ServersTest(RanksTestCase):
    def tearDown(self):
        for process in self.started:
            process.process.send_signal(signal.SIGCONT)
        super().tearDown()

    def job(self, name, strategy="", epochs=6, every=100_000):
        checkpoints = self.folder / f"{name}-checkpoints"
        path = self.folder / f"{name}.pbtxt"
        path.write_text(JOB.format(examples=EXAMPLES, checkpoints=checkpoints, epochs=epochs,
                                   every=every, strategy=strategy))
        return path, checkpoints

    def start(self, job, *more, env=None):
        arguments = [BIN, "train", str(job), "--var", f"DATA={self.folder}", "--var", "BATCH=64",
                     "--threads", "1", "--stall-abort-ms", "0", *more]
        self.started.append(Rank(arguments, env))
        return self.started[-1]

    def cluster(self, workers, servers):
        def address():
            return f"127.0.0.1:{free_port()}"
        self.config = {"chief": [address()], "worker": [address() for _ in range(workers - 1)],
                       "ps": [address() for _ in range(servers)]}

    def start_task(self, job, kind, index, *more):
        config = {"cluster": self.config, "task": {"type": kind, "index": index}}
        return self.start(job, *more, env={"TF_CONFIG": json.dumps(config)})

    def start_all(self, job, workers, servers, *more):
        """(workers, servers); worker 0 is the chief."""
        self.cluster(workers, servers)
        ps = [self.start_task(job, "ps", i, *more) for i in range(servers)]
        chief = self.start_task(job, "chief", 0, *more)
        others = [self.start_task(job, "worker", i, *more) for i in range(workers - 1)]
        return [chief, *others], ps

    def check_ends(self, processes, code):
        for process in processes:
            self.assertEqual(process.end(), code, process.output())

    def come_again(self, job, server, chief, times):
        """Starts worker 1 again. Meanwhile the chief is stopped, so that the training waits."""
        server.await_line(rf"(worker 1 is lost at update(.|\n)*){{{times}}}")
        worker = self.start_task(job, "worker", 0)
        server.await_line(rf"(worker 1 joins at update(.|\n)*){{{times}}}")
        chief.process.send_signal(signal.SIGCONT)
        return worker

    def test_a_worker_that_is_killed_twice_comes_again_and_the_training_converges(self):
        job, _ = self.job("killed", "servers: 2 max_staleness: 6")
        (chief, worker, other), servers = self.start_all(job, 3, 2)
        for times, steps in (1, r"[2-9]\d"), (2, r"([6-9]|[12]\d)\d"):
            chief.await_line(rf"^step {steps}/")
            chief.process.send_signal(signal.SIGSTOP)
            worker.process.kill()
            worker = self.come_again(job, servers[0], chief, times)
        self.check_ends([chief, worker, other, *servers], 0)
        output = chief.output()
        accuracy = float(re.findall(r"test accuracy ([\d.]+)", output)[-1])
        self.assertGreater(accuracy, ACCURACY, output)
        used, dropped = map(int, re.search(r"gradients: (\d+) used, (\d+) dropped",
                                           output).groups())
        # Each of 20 batches of 6 epochs, in the slices of 3 workers, has come exactly once.
        self.assertEqual(used + dropped, 3 * 20 * 6, output)
        histogram = [int(count) for count in re.findall(r"staleness +\d+: +(\d+)", output)]
        self.assertEqual(sum(histogram), used, output)
        self.assertLessEqual(len(histogram), 7, output)
        self.assertIn("workers: 2 lost, 2 joined in their place", output)
        self.assertNotIn("unread", output)

    def test_a_server_that_is_killed_ends_the_job_which_resumes(self):
        job, checkpoints = self.job("server", "servers: 2 max_staleness: 1000", epochs=6, every=20)
        workers, servers = self.start_all(job, 2, 2)
        # After several saves, each of which waits until the servers know of the one before.
        workers[0].await_line(r"^step 1\d\d/")
        servers[1].process.kill()
        self.check_ends([*workers, servers[0]], PEER_LOST)
        for process in [*workers, servers[0]]:
            self.assertRegex(process.output(), r"server 1 at [\d.:]+ is lost: .*"
                                               r"--resume continues from .*checkpoint-00000\d\d\d")
        (chief, _), _ = self.start_all(job, 2, 2, "--resume")
        self.assertEqual(chief.end(), 0, chief.output())
        self.check_ends(self.started[-3:], 0)
        self.assertRegex(chief.output(), r"resumed from +\S+checkpoint-00000\d\d\d")
        self.assertTrue((checkpoints / "checkpoint-00000240.safetensors").exists())

    def test_strangers_are_turned_away_and_a_signal_to_the_chief_stops_all(self):
        job, checkpoints = self.job("stopped", "synchronous: true", epochs=50)
        self.cluster(2, 1)
        server = self.start_task(job, "ps", 0)
        server.await_line("server 0 at")
        host, port = self.config["ps"][0].split(":")
        strangers = [socket.create_connection((host, int(port))) for _ in range(70)]
        for stranger, text in zip(strangers[-3:], (b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 64, b"1")):
            stranger.sendall(text)
        workers = [self.start_task(job, "chief", 0), self.start_task(job, "worker", 0)]
        workers[0].await_line("step 10/")
        workers[0].process.send_signal(signal.SIGTERM)
        self.check_ends([*workers, server], STOPPED)
        for stranger in strangers:
            stranger.close()
        self.assertEqual(len(list(checkpoints.glob("*.safetensors"))), 1)

    def test_the_last_ranks_of_a_launcher_are_servers(self):
        job, _ = self.job("ranks", epochs=1)
        meeting = f"127.0.0.1:{free_port()}"
        ranks = [self.start(job, "--rank", str(rank), "--world-size", "4", "--rendezvous", meeting,
                            "--servers", "2", "--synchronous") for rank in range(4)]
        self.check_ends(ranks, 0)
        self.assertIn("staleness   0:       40", ranks[0].output())

    def test_an_exporter_that_fails_ends_all_ranks(self):
        job, _ = self.job("exporter", epochs=1)
        meeting = f"127.0.0.1:{free_port()}"
        missing = self.folder / "missing" / "metrics.jsonl"
        more = [[], [], ["--metrics-file", str(missing)]]
        ranks = [self.start(job, "--rank", str(rank), "--world-size", "3", "--rendezvous", meeting,
                            "--servers", "1", "--connect-timeout", "1000000", *more[rank])
                 for rank in range(3)]
        self.check_ends(ranks, 1)
        for rank in ranks:
            self.assertIn("--metrics-file: ", rank.output())

    def test_replicas_are_refused(self):
        job, _ = self.job("replicas")
        done = millrace("train", job, "--replicas", 2)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("--replicas goes with no parameter_server", done.stderr)

    def test_a_wrong_job_is_told_by_each_process_of_tf_config(self):
        job, _ = self.job("wrong", "servers: 1 max_staleness: 1 synchronous: true")
        self.cluster(1, 1)
        for kind in ("ps", "chief"):
            process = self.start_task(job, kind, 0)
            self.assertEqual(process.end(), 1, process.output())
            self.assertIn("wrong.pbtxt:10:42: strategy.parameter_server.max_staleness: it does not",
                          process.output())
            self.assertNotIn("TF_CONFIG", process.output())

    def test_a_worker_of_another_job_is_refused(self):
        job, _ = self.job("one", epochs=50)
        other, _ = self.job("other", "synchronous: true")
        self.cluster(2, 1)
        self.start_task(job, "ps", 0)
        worker = self.start_task(other, "worker", 0)
        self.assertEqual(worker.end(), 1, worker.output())
        self.assertIn("refuses this process", worker.output())


if __name__ == "__main__":
    unittest.main()

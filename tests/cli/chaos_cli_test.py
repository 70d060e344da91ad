"""`millrace train` when a rank dies, stops or stalls: named, given up, saved, exit 76, resumable.

Ranks meet over TCP without a launcher, so that nobody but Millrace ends them; and under mpirun.
"""

import itertools
import json
import os
import pathlib
import random
import re
import signal
import time
import unittest

from cli_testutil import BIN, TIMEOUT
from ranks_testutil import (ENDED, ENDED_BY_A_SIGNAL, GIVES_UP, NO_STALLS, PEER_LOST,
                             RanksTestCase)
from train_cli_test import processes

ROUNDS = int(os.environ.get("MILLRACE_CHAOS_ROUNDS", "2"))
# Who wants the norm leaves no share of the last bucket to others, and so reduces in each step.
SUMS_ITSELF = ("--skip-non-finite",)


class ChaosTest(RanksTestCase):
    def check_resumes(self, name, lost):
        """Kills rank `lost` of two; what was saved then continues to the weights of a whole run."""
        whole, whole_checkpoints = self.job(f"{name}-whole", epochs=3)
        self.run_to_the_end(whole, 2)
        job, checkpoints = self.job(name, epochs=3)
        ranks = self.start(job, 2, *NO_STALLS)
        ranks[0].await_line(r"^step 5/")
        ranks[lost].process.send_signal(signal.SIGKILL)
        self.check_lost([ranks[1 - lost]], lost, ENDED)
        self.run_to_the_end(job, 2, "--resume")
        self.assertEqual(self.newest(checkpoints).read_bytes(),
                         self.newest(whole_checkpoints).read_bytes())

    def test_a_killed_rank_is_named_and_its_job_continues(self):
        self.check_resumes("kill-1", 1)

    def test_a_killed_rank_0_is_named_and_its_job_continues(self):
        self.check_resumes("kill-0", 0)

    def test_three_ranks_all_hear_of_the_fourth(self):
        job, _ = self.job("kill-of-four")
        ranks = self.start(job, 4, *NO_STALLS)
        ranks[0].await_line(r"^step 5/")
        ranks[2].process.send_signal(signal.SIGKILL)
        self.check_lost([ranks[0], ranks[1], ranks[3]], 2, ENDED)

    def test_a_stopped_rank_is_named_and_may_come_back(self):
        job, _ = self.job("stop", epochs=1000)  # until it is ended
        ranks = self.start(job, 2, "--stall-report-ms", "1000")
        ranks[0].await_line(r"^step 5/")
        ranks[1].process.send_signal(signal.SIGSTOP)
        ranks[0].await_line(r"warning: rank 1 has not come on for .*its process does not run")
        ranks[1].process.send_signal(signal.SIGCONT)
        ranks[0].await_line(rf"^step {ranks[0].steps() + 5}/")
        ranks[0].process.send_signal(signal.SIGTERM)
        for rank in ranks:
            self.assertEqual(rank.end(), ENDED_BY_A_SIGNAL, rank.output())

    def test_a_rank_that_stays_stopped_is_given_up(self):
        job, _ = self.job("give-up", epochs=1000)
        ranks = self.start(job, 3, *GIVES_UP)
        ranks[0].await_line(r"^step 5/")
        ranks[0].process.send_signal(signal.SIGSTOP)
        self.check_lost(ranks[1:], 0)
        # When it comes back it hears that it is out.
        ranks[0].process.send_signal(signal.SIGCONT)
        self.assertNotEqual(ranks[0].end(), 0)

    def test_a_schedule_of_deaths_ends_in_the_weights_of_a_whole_run(self):
        # Of 20 steps: a round takes 40 at most and those that are made until the signal comes.
        epochs = 4 * (ROUNDS + 1)
        whole, whole_checkpoints = self.job("schedule-whole", epochs=epochs)
        self.run_to_the_end(whole, 2)
        job, checkpoints = self.job("schedule", epochs=epochs)
        draw = random.Random(7)
        begin, resume = 0, []
        for _ in range(ROUNDS):
            ranks = self.start(job, 2, *NO_STALLS, *resume)
            lost = draw.randrange(2)
            ranks[0].await_line(rf"^step {begin + draw.randint(1, 40)}/")
            ranks[lost].process.send_signal(signal.SIGKILL)
            code = ranks[1 - lost].end()
            self.assertEqual(code, PEER_LOST, ranks[1 - lost].output())
            self.assertRegex(ranks[1 - lost].output(), rf"rank {lost} is lost.*{ENDED}")
            begin = int(re.search(r"saved step (\d+): ", ranks[1 - lost].output())[1])
            resume = ["--resume"]
        self.run_to_the_end(job, 2, *resume)
        self.assertEqual(self.newest(checkpoints).read_bytes(),
                         self.newest(whole_checkpoints).read_bytes())

    def test_the_lowest_of_those_that_are_left_saves(self):
        job, checkpoints = self.job("kill-two")
        ranks = self.start(job, 4, *NO_STALLS)
        ranks[0].await_line(r"^step 5/")
        for rank in ranks[:2]:
            rank.process.send_signal(signal.SIGKILL)
        self.check_lost(ranks[2:], "[01]", ENDED)
        self.assertTrue(any(checkpoints.glob("checkpoint-*.safetensors")))

    def test_a_timeline_of_all_ranks_is_one_file(self):
        job, _ = self.job("timeline", epochs=1)
        path = self.folder / "timeline.json"
        self.run_to_the_end(job, 2, *SUMS_ITSELF, "--timeline", str(path))
        events = json.loads(path.read_text())["traceEvents"]
        for rank in range(2):
            names = {event["name"] for event in events
                     if event["ph"] == "X" and event["pid"] == rank}
            self.assertLessEqual({"backward", "reducing", "bucket used"}, names)
            steps = {event["args"]["step"] for event in events
                     if event["ph"] == "X" and event["pid"] == rank}
            self.assertLessEqual(set(range(20)), steps)
            for step in range(20):
                times = {event["name"]: event["ts"] for event in reversed(events)
                         if event["pid"] == rank and event.get("args", {}).get("step") == step
                         and event["args"].get("bucket") == 0}
                order = [times[name] for name in
                         ("backward", "bucket ready", "reducing", "bucket used")]
                self.assertEqual(order, sorted(order), f"rank {rank}, step {step}")

    def test_a_loss_leaves_the_timelines_of_those_that_are_left(self):
        job, _ = self.job("timeline-loss", epochs=1000)  # until it is killed
        path = self.folder / "loss.json"
        ranks = self.start(job, 3, *NO_STALLS, *SUMS_ITSELF, "--timeline", str(path))
        ranks[0].await_line(r"^step 5/")
        ranks[1].process.send_signal(signal.SIGKILL)
        self.check_lost([ranks[0], ranks[2]], 1, ENDED)
        said = ranks[0].output() + ranks[2].output()
        merged = re.search(r"; timeline of ranks? ([0-9, ]+): ", said)
        self.assertTrue(merged, said)
        in_file = {int(rank) for rank in merged[1].split(",")}
        files = {rank: path for rank in in_file}
        # One that comes too late for the others' file has one of its own.
        files.update({rank: self.folder / f"loss.json.rank-{rank}" for rank in {0, 2} - in_file})
        for rank, file in files.items():
            events = json.loads(file.read_text())["traceEvents"]
            names = {event["name"] for event in events
                     if event["ph"] == "X" and event["pid"] == rank}
            self.assertLessEqual({"backward", "reducing", "bucket used", "waiting"}, names)
        self.assertEqual({event["pid"] for event in json.loads(path.read_text())["traceEvents"]},
                         in_file | {0})
        self.assertEqual(sorted(set(files.values())),
                         sorted(self.folder.glob("loss.json*")))

    def processes_under_mpi(self, job):
        return [pid for pid, arguments in processes()
                if arguments[:1] == [str(BIN)] and str(job) in arguments]

    def ranks_under_mpi(self, job):
        """{rank: process}."""
        ranks = {}
        for pid in self.processes_under_mpi(job):
            environment = pathlib.Path(f"/proc/{pid}/environ").read_text()
            ranks[int(re.search(r"OMPI_COMM_WORLD_RANK=(\d+)", environment)[1])] = pid
        self.assertEqual(sorted(ranks), [0, 1])
        return ranks

    def signal_under_mpi(self, name, number, options, *more, epochs):
        """A signal for one rank of a job under mpirun: the launcher, the rank's process and the
        checkpoints."""
        job, checkpoints = self.job(name, epochs=epochs)
        launcher = self.start_mpi(job, 2, options, *more)
        launcher.await_line(r"^step 5/")
        process = self.ranks_under_mpi(job)[1]
        os.kill(process, number)
        return launcher, process, checkpoints

    def kill_under_mpi(self, name, options):
        launcher, _, checkpoints = self.signal_under_mpi(name, signal.SIGKILL, options, *NO_STALLS,
                                                         epochs=20)
        return launcher, checkpoints

    def test_mpirun_ends_its_job_by_itself(self):
        # Its defaults: the survivors have a second, in which they may say and save something, so
        # the promise is the last durable checkpoint. Here they do not see that a rank has died, and
        # wait for ever. So does, beyond the end of this job, the one of a job that was given time,
        # although its peer was killed before.
        unseen = ["-x", f"LD_PRELOAD={os.environ['WITHOUT_PIDFD']}"]
        given_time, _ = self.kill_under_mpi(
            "mpi-long", [*unseen, "--mca", "odls_base_sigkill_timeout", str(10 * TIMEOUT)])
        launcher, checkpoints = self.kill_under_mpi("mpi-default", unseen)
        self.assertEqual(launcher.process.wait(timeout=TIMEOUT), 128 + signal.SIGKILL)
        limit = time.monotonic() + TIMEOUT
        while launcher.left() and time.monotonic() < limit:
            time.sleep(0.05)
        self.assertEqual(launcher.left(), [], "mpirun leaves ranks behind")
        launcher.end()
        self.assertRegex(launcher.output(), r"process rank [01] .* exited on signal 9 \(Killed\)")
        self.assertNotRegex(launcher.output(), r"is lost|saved step|Exit code:")
        self.assertFalse(list(checkpoints.glob("checkpoint-*.safetensors")))
        self.assertEqual(len(self.processes_under_mpi(given_time.job)), 1)

    def check_said_and_saved(self, launcher, checkpoints, why=ENDED):
        self.assertRegex(launcher.output(), rf"rank [01] is lost.*{why}")
        self.assertRegex(launcher.output(), r"saved step \d+: ")
        self.assertTrue(any(checkpoints.glob("checkpoint-*.safetensors")))

    def test_mpirun_that_gives_time_lets_the_survivors_say_and_save(self):
        launcher, checkpoints = self.kill_under_mpi(
            "mpi-time", ["--mca", "odls_base_sigkill_timeout", "30"])
        self.assertNotEqual(launcher.end(), 0)
        self.check_said_and_saved(launcher, checkpoints)

    def test_mpirun_that_aborts_nothing_lets_the_survivors_say_and_save(self):
        launcher, checkpoints = self.kill_under_mpi(
            "mpi-abort", ["--mca", "orte_abort_on_non_zero_status", "0"])
        launcher.await_line(r"saved step \d+: ")
        self.check_said_and_saved(launcher, checkpoints)
        launcher.close()  # Open MPI 4.1 waits for ever for a rank that a signal has ended

    def test_a_rank_under_mpirun_that_was_stopped_comes_back(self):
        launcher, rank, _ = self.signal_under_mpi("mpi-stop", signal.SIGSTOP, [],
                                                  "--stall-report-ms", "1000", epochs=20)
        launcher.await_line(r"warning: rank [01] has not come on for .*its process does not run")
        os.kill(rank, signal.SIGCONT)
        self.assertEqual(launcher.end(), 0, launcher.output())
        self.assertNotRegex(launcher.output(), r"is lost")

    def test_a_rank_under_mpirun_that_stays_stopped_is_given_up(self):
        # The other one must not wait for it in MPI_Finalize: it ends, and mpirun ends the stopped
        # one.
        launcher, _, checkpoints = self.signal_under_mpi(
            "mpi-stopped", signal.SIGSTOP, ["--mca", "odls_base_sigkill_timeout", "2"],
            *GIVES_UP, epochs=1000)
        self.assertEqual(launcher.end(), PEER_LOST, launcher.output())
        self.check_said_and_saved(launcher, checkpoints, "its process does not run")

    def test_a_schedule_of_deaths_and_stops_under_mpirun_ends_in_the_weights_of_a_whole_run(self):
        whole, whole_checkpoints = self.job("mpi-schedule-whole", epochs=12)
        self.run_to_the_end(whole, 2)
        job, checkpoints = self.job("mpi-schedule", epochs=12)
        ways = {  # mpirun's seconds for the survivor, the rank's flags, what is said
            signal.SIGKILL: ("30", NO_STALLS, ENDED),
            # The survivor is done before mpirun ends the stopped one.
            signal.SIGSTOP: ("2", GIVES_UP, "its process does not run"),
        }
        draw = random.Random(7)
        begin, resume = 0, []
        for number, lost in draw.sample(list(itertools.product(ways, range(2))), 3):
            seconds, flags, why = ways[number]
            launcher = self.start_mpi(job, 2, ["--mca", "odls_base_sigkill_timeout", seconds],
                                      *flags, *resume)
            launcher.await_line(rf"^step {begin + draw.randint(1, 40)}/")
            os.kill(self.ranks_under_mpi(job)[lost], number)
            self.assertNotEqual(launcher.end(), 0, launcher.output())
            self.assertRegex(launcher.output(), rf"rank {lost} is lost.*{why}")
            self.check_said_and_saved(launcher, checkpoints, why)
            begin = int(re.search(r"saved step (\d+): ", launcher.output())[1])
            resume = ["--resume"]
        self.run_to_the_end(job, 2, *resume)
        self.assertEqual(self.newest(checkpoints).read_bytes(),
                         self.newest(whole_checkpoints).read_bytes())


if __name__ == "__main__":
    unittest.main()

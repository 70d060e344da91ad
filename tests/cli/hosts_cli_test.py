"""`millrace train` over two hosts: network namespaces of this one, each with a /dev/shm of its own
and a link between them that is limited (and delayed where the kernel has netem); and over ranks of
one host whose /dev/shm is too small. Needs root."""

import os
import re
import signal
import subprocess
import sys
import unittest

from cli_testutil import TIMEOUT
from ranks_testutil import (ENDED, GIVES_UP, NO_STALLS, PEER_LOST, Rank, RanksTestCase,
                             free_port)

NAMES = (f"mra{os.getpid()}", f"mrb{os.getpid()}")
ADDRESSES = ("10.213.77.1", "10.213.77.2")
CUT_OFF = ": its host cannot be reached"


def run(*words, check=True):
    return subprocess.run(words, check=check, capture_output=True, text=True, timeout=TIMEOUT)


class SharedMemory:
    """A process that holds a /dev/shm of its own."""

    def __init__(self, size, prefix=()):
        self.holder = subprocess.Popen(
            [*prefix, "unshare", "-m", "sh", "-c",
             f"mount -t tmpfs -o size={size} tmpfs /dev/shm && echo ready && exec sleep 100000"],
            stdout=subprocess.PIPE, text=True)
        self.mounted = self.holder.stdout.readline() == "ready\n"

    def prefix(self):
        return ["nsenter", "-t", str(self.holder.pid), "-m"]

    def close(self):
        self.holder.kill()
        self.holder.wait()
        self.holder.stdout.close()


class Host:
    """A network namespace with a /dev/shm of its own."""

    def __init__(self, name):
        self.name = name
        run("ip", "netns", "add", name)
        self.memory = SharedMemory("512m", ["ip", "netns", "exec", name])
        run("ip", "-n", name, "link", "set", "lo", "up")

    def prefix(self):
        return [*self.memory.prefix(), "-n"]

    def close(self):
        self.memory.close()
        run("ip", "netns", "del", self.name, check=False)


class HostsTest(RanksTestCase):
    @classmethod
    def setUpClass(cls):
        cls.hosts = []
        try:
            if os.geteuid() != 0:
                raise OSError("not root")
            for name in NAMES:
                cls.hosts.append(Host(name))
            run("ip", "link", "add", f"v{NAMES[0]}", "netns", NAMES[0], "type", "veth", "peer",
                "name", f"v{NAMES[1]}", "netns", NAMES[1])
            for name, address in zip(NAMES, ADDRESSES):
                run("ip", "-n", name, "addr", "add", f"{address}/24", "dev", f"v{name}")
                run("ip", "-n", name, "link", "set", f"v{name}", "up")
                cls.limit(name)
            if not all(host.memory.mounted for host in cls.hosts):
                raise OSError("no /dev/shm can be mounted")
        except (OSError, subprocess.SubprocessError) as error:
            cls.tearDownHosts()
            raise unittest.SkipTest(f"no two hosts here: {error}") from error
        super().setUpClass()

    @classmethod
    def limit(cls, name):
        """1 Gbit/s, and 1 ms there and back where the kernel can delay."""
        refused = ""
        for limit in ("netem delay 500us rate 1gbit", "tbf rate 1gbit burst 256kb latency 50ms"):
            done = run("tc", "-n", name, "qdisc", "add", "dev", f"v{name}", "root", *limit.split(),
                       check=False)
            if done.returncode == 0:
                print(f"link of {name}: {limit}", file=sys.stderr)
                return
            refused += f"; tc ... {limit}: {done.stderr.strip()}"
        raise OSError(f"the link cannot be limited{refused}")

    @classmethod
    def tearDownHosts(cls):
        for host in cls.hosts:
            host.close()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.tearDownHosts()

    def start(self, job, ranks, *more):
        """The first half of the ranks on one host, the others on the other."""
        port = free_port()
        started = []
        for rank in range(ranks):
            host = self.hosts[rank * 2 // ranks]
            started.append(Rank([*host.prefix(),
                                 *self.arguments(job, "--rank", str(rank), "--world-size",
                                                 str(ranks), "--rendezvous",
                                                 f"{ADDRESSES[0]}:{port}", *more)]))
        self.started += started
        return started

    def losses(self, output):
        return {int(step): float(loss)
                for step, loss in re.findall(r"^step (\d+)/.*?loss ([\d.]+)", output, re.M)}

    def test_two_hosts_of_two_ranks_train_as_four_ranks_of_one(self):
        # Sums of hosts round differently from sums of ranks.
        apart, _ = self.job("apart", epochs=1)
        output = self.run_to_the_end(apart, 4)[0].output()
        self.assertRegex(output, r"(?m)^gradients .*; 2 ranks of this host share memory; "
                                 r"4 ranks in 2 hosts; ")
        spread = self.losses(output)
        together, _ = self.job("together", epochs=1)
        started = RanksTestCase.start(self, together, 4)
        for rank in started:
            self.assertEqual(rank.end(), 0, rank.output())
        output = started[0].output()
        self.assertRegex(output, r"(?m)^gradients .*; 4 ranks of this host share memory; ")
        self.assertNotIn("ranks in 2 hosts", output)
        local = self.losses(output)
        self.assertEqual(sorted(spread), list(range(1, 21)))
        for step, loss in local.items():
            self.assertAlmostEqual(loss, spread[step], delta=2e-3 * max(1, loss), msg=str(step))

    def weights(self, name, start, *flags):
        job, checkpoints = self.job(name, epochs=1)
        for rank in start(job, 4, *flags):
            self.assertEqual(rank.end(), 0, rank.output())
        return self.newest(checkpoints).read_bytes()

    def test_exact_sums_have_the_same_bits_on_one_host_and_on_two(self):
        def together(job, ranks, *flags):
            return RanksTestCase.start(self, job, ranks, *flags)
        self.assertEqual(self.weights("exact-apart", self.start, "--exact-reduction"),
                         self.weights("exact-together", together, "--exact-reduction"))

    def test_a_sharded_optimizer_has_the_bits_of_a_whole_one(self):
        self.assertEqual(self.weights("shards-apart", self.start, "--shard-optimizer",
                                      "--digest-every", "5"),
                         self.weights("whole-apart", self.start))

    def test_a_narrower_type_between_hosts_keeps_the_ranks_equal(self):
        plain, _ = self.job("not-wired", epochs=1)
        expected = self.losses(self.run_to_the_end(plain, 4)[0].output())
        wired, _ = self.job("wired", epochs=1)
        actual = self.losses(self.run_to_the_end(
            wired, 4, "--wire-dtype", "bfloat16", "--digest-every", "1")[0].output())
        self.assertNotEqual(actual, expected)
        for step, loss in expected.items():
            self.assertAlmostEqual(loss, actual[step], delta=5e-2 * max(1, loss), msg=str(step))

    def test_both_hosts_hear_of_a_killed_rank(self):
        job, _ = self.job("kill-far")
        ranks = self.start(job, 4, *NO_STALLS)
        ranks[0].await_line(r"^step 5/")
        ranks[3].process.send_signal(signal.SIGKILL)
        self.check_lost(ranks[:3], 3)
        self.assertRegex(ranks[2].output(), rf"rank 3 is lost.*{ENDED}")  # of its host

    def test_both_hosts_hear_of_a_killed_rank_that_linked_them(self):
        job, _ = self.job("kill-lowest")
        ranks = self.start(job, 4, *NO_STALLS)
        ranks[0].await_line(r"^step 5/")
        ranks[2].process.send_signal(signal.SIGKILL)
        survivors = [ranks[0], ranks[1], ranks[3]]
        # The other host sees the link end, rank 3 the process: each tells the other what it saw.
        self.check_lost(survivors, 2, f"({CUT_OFF}|{ENDED})")

    def test_a_cut_link_ends_both_hosts(self):
        job, _ = self.job("cut", epochs=1000)  # until it is cut
        ranks = self.start(job, 4, *GIVES_UP)
        ranks[0].await_line(r"^step 5/")
        run("ip", "-n", NAMES[1], "link", "set", f"v{NAMES[1]}", "down")
        try:
            for rank in ranks:
                self.assertEqual(rank.end(), PEER_LOST, rank.output())
                self.assertRegex(rank.output(), r"rank \d is lost")
        finally:
            run("ip", "-n", NAMES[1], "link", "set", f"v{NAMES[1]}", "up")


class SmallMemoryTest(RanksTestCase):
    @classmethod
    def setUpClass(cls):
        if os.geteuid() != 0:
            raise unittest.SkipTest("not root")
        cls.memory = SharedMemory("4k")
        cls.addClassCleanup(cls.memory.close)
        if not cls.memory.mounted:
            raise unittest.SkipTest("no /dev/shm can be mounted")
        super().setUpClass()

    def arguments(self, job, *more):
        return [*self.memory.prefix(), *super().arguments(job, *more)]

    def check_a_killed_rank_is_named(self, lost):
        """Each rank is a host of its own to the other, whose process it cannot wait for."""
        job, _ = self.job(f"small-{lost}")
        ranks = self.start(job, 2, *NO_STALLS)
        ranks[0].await_line(r"^step 5/")
        self.assertRegex(ranks[0].output(), r"(?m)^gradients .*; 2 ranks in 2 groups, for memory is "
                                            r"not shared: rank 0: /dev/shm: .*No space left")
        ranks[lost].process.send_signal(signal.SIGKILL)
        self.check_lost([ranks[1 - lost]], lost, CUT_OFF)

    def test_ranks_that_cannot_share_memory_watch_each_other_all_the_same(self):
        for lost in (0, 1):
            with self.subTest(lost=lost):
                self.check_a_killed_rank_is_named(lost)

    def test_mpirun_stopped_among_late_sums_saves_and_goes_on(self):
        job, checkpoints = self.job("small-late", epochs=2)
        late = ("--stale-steps", "2", *NO_STALLS)
        launcher = self.start_mpi(job, 2, [], *late)
        launcher.await_line(r"^step 5/")
        launcher.process.send_signal(signal.SIGUSR1)
        self.assertEqual(launcher.end(), 75, launcher.output())
        self.assertRegex(launcher.output(), r"(?m)^gradients .* memory is not shared: rank 0: ")
        self.assertRegex(launcher.output(), r"(?m)^stopped after step \d+")
        self.assertEqual(len(list(checkpoints.glob("checkpoint-*.safetensors"))), 1)
        launcher = self.start_mpi(job, 2, [], *late, "--resume")
        self.assertEqual(launcher.end(), 0, launcher.output())
        self.assertRegex(launcher.output(), r"(?m)^step 40/40 ")


if __name__ == "__main__":
    unittest.main()

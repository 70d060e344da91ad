"""Groups of ranks."""
import array
import os
import signal
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import millrace as mr
import numpy as np
import ranks

OPS = {"sum": np.add, "product": np.multiply, "min": np.minimum, "max": np.maximum}


class Groups(unittest.TestCase):
    def test_reductions_are_numpy_s(self):
        given = np.random.default_rng(1).integers(1, 5, (3, 4, 5))
        for op, function in OPS.items():
            for dtype in ("uint8", "int32", "int64", "float16", "float32", "float64"):
                values = given.astype(dtype)
                wanted = function.reduce(values, axis=0, dtype=dtype)

                def reduce(group, values=values, op=op):
                    own = values[group.rank].copy()
                    return own, group.all_reduce(own, op)

                for own, reduced in ranks.in_threads(3, reduce):
                    self.assertIs(own, reduced)
                    np.testing.assert_array_equal(reduced, wanted, f"{op} of {dtype}")

    def test_an_average_is_the_sum_divided(self):
        for average in ranks.in_threads(
                4, lambda group: group.all_reduce(np.full(3, group.rank, "float32"), "average")):
            self.assertEqual(average.tolist(), [1.5, 1.5, 1.5])

    def test_a_broadcast_gives_what_the_root_has(self):
        for given in ranks.in_threads(
                3, lambda group: group.broadcast(np.array([group.rank, 7]), root=2)):
            self.assertEqual(given.tolist(), [2, 7])

    def test_every_buffer_is_an_array(self):
        group, = mr.Communicator.threads(1)
        for given in (array.array("f", [1, 2]), memoryview(array.array("d", [1, 2])),
                      np.zeros((2, 3)).reshape(3, 2), np.array(1.5), bytearray(b"abc")):
            self.assertIs(group.all_reduce(given), given)

    def test_places_are_those_of_the_ranks(self):
        places = ranks.in_threads(
            2, lambda group: (group.rank, group.size, group.local_rank, group.local_size,
                              group.backend, repr(group)))
        self.assertEqual(places[1], (1, 2, 1, 2, "threads",
                                     "<Communicator: rank 1 of 2, threads>"))


class WrongUse(unittest.TestCase):
    def setUp(self):
        self.group, = mr.Communicator.threads(1)

    def test_arrays_that_cannot_be_changed_in_place(self):
        fixed = np.zeros(3)
        fixed.flags.writeable = False
        for given, kind, text in (
                (np.zeros((4, 4))[:, 1], ValueError, "not contiguous"),
                (fixed, ValueError, "read-only"), (b"abc", ValueError, "read-only"),
                ([1, 2], TypeError, "not an array: list"),
                (np.zeros(2, "complex64"), ValueError, "complex64"),
                (np.zeros(2, ">f4"), ValueError, "byte order")):
            with self.subTest(text), self.assertRaisesRegex(kind, text):
                self.group.all_reduce(given)

    def test_options_that_are_none(self):
        for options, text in (({"rank": 0}, "rank and world"), ({"world": 2}, "rank and world"),
                              ({"rank": 0, "world": 0}, "world is 0"),
                              ({"timeout": 0}, "timeout is 0"),
                              ({"connect_timeout": -1}, "connect_timeout is -1"),
                              ({"timeout": float("inf")}, "timeout is inf"),
                              ({"stall_report": float("nan")}, "stall_report is nan"),
                              ({"rank": 2, "world": 2, "rendezvous": "file:/tmp"}, "rank"),
                              ({"backend": "pigeons"}, "pigeons"),
                              ({"rendezvous": "nowhere"}, "nowhere")):
            with self.subTest(text), self.assertRaisesRegex(ValueError, text):
                mr.Communicator.connect(**options)
        with self.assertRaisesRegex(mr.FailedPrecondition, "rank"):
            mr.Communicator.connect(rendezvous="file:/tmp")
        with self.assertRaises(mr.Unimplemented):
            mr.Communicator.connect(backend="nccl")
        with self.assertRaisesRegex(ValueError, "'mean'"):
            self.group.all_reduce(np.zeros(2), "mean")
        with self.assertRaisesRegex(ValueError, "0 ranks"):
            mr.Communicator.threads(0)

    def test_a_rank_that_is_not_there(self):
        with self.assertRaises(mr.PlanError):
            self.group.broadcast(np.zeros(2), root=1)

    def test_calls_that_do_not_match(self):
        with self.assertRaisesRegex(mr.PlanError, "do not match"):
            ranks.in_threads(2, lambda group: group.all_reduce(np.zeros(2 + group.rank)))

    def test_a_closed_group(self):
        self.group.close()
        self.group.close()
        self.assertTrue(self.group.closed)
        with self.assertRaisesRegex(ValueError, "closed"):
            self.group.barrier()

    def test_a_limit_of_time(self):
        groups = mr.Communicator.threads(2, timeout=0.001)
        with self.assertRaisesRegex(mr.TimeLimit, "rank 1"):
            groups[0].barrier()


class Launchers(unittest.TestCase):
    def test_the_rank_is_that_of_the_environment(self):
        program = "import millrace as mr; print(mr.default_communicator())"
        told = subprocess.run([sys.executable, "-c", program], text=True, check=True, timeout=100,
                              stdout=subprocess.PIPE,
                              env={**os.environ, "RANK": "0", "WORLD_SIZE": "1"}).stdout
        self.assertEqual(told, "<Communicator: rank 0 of 1, single>\n")

    def test_a_group_may_be_a_part_of_the_job(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch.dict(
                os.environ, {"RANK": "2", "WORLD_SIZE": "3"}):
            group = mr.Communicator.connect(rank=0, world=1, rendezvous="file:" + folder)
            self.assertEqual((group.rank, group.size), (0, 1))
            with self.assertRaisesRegex(mr.FailedPrecondition, "contradict"):
                mr.Communicator.connect(rank=0, world=1)


class Processes(unittest.TestCase):
    def test_they_sum(self):
        self.assertEqual(ranks.said_by_all(
            "print(comm.all_reduce(np.full(2, rank + 1.0)).tolist(), comm.backend, 'met' in comm.reason)"),
            ["[3.0, 3.0] tcp True\n"] * 2)

    def test_a_rank_that_is_killed_is_named(self):
        with ranks.Processes("""
if rank == 1:
    await_go()
    os.kill(os.getpid(), signal.SIGKILL)
ready()
try:
    comm.barrier()
except mr.PeerLost as error:
    print(error.rank, error.bucket, isinstance(error, ConnectionError))
""") as processes:
            processes.go(1)
            self.assertEqual(processes.said(0), "1 None True\n")

    def test_an_exception_is_told_to_the_others(self):
        with ranks.Processes("""
with comm:
    if rank == 1:
        await_go()
        raise OSError("no space left")
    ready()
    try:
        comm.barrier()
    except mr.PeerLost as error:
        print(error.rank, error)
""") as processes:
            processes.go(1)
            self.assertRegex(processes.said(0), "^1 .*OSError: no space left")

    def test_an_abort_ends_the_calls_of_all(self):
        with ranks.Processes("""
if rank == 1:
    await_go()
    comm.abort("enough")
else:
    ready()
    try:
        comm.barrier()
    except mr.Cancelled as error:
        print("enough" in str(error))
""") as processes:
            processes.go(1)
            self.assertEqual(processes.said(0), "True\n")

    def test_programs_that_end_without_closing_lose_nobody(self):
        said = ranks.said_by_all("""
print(comm.all_reduce(np.ones(1))[0])
comm.barrier()
""", size=3)
        self.assertEqual(said, ["3.0\n"] * 3)

    def test_a_program_that_ends_too_early_is_named(self):
        with ranks.Processes("""
if rank == 1:
    await_go()
else:
    ready()
    try:
        comm.barrier()
    except mr.PeerLost as error:
        print(error.rank)
""") as processes:
            processes.go(1)
            self.assertEqual(processes.said(0), "1\n")
            self.assertEqual(processes.said(1), "")

    def test_a_forked_child_is_refused_and_ends_nothing(self):
        self.assertEqual(ranks.said_by_all("""
if os.fork() == 0:
    try:
        comm.barrier()
    except mr.FailedPrecondition as error:
        sys.exit(0 if "forked" in str(error) else 1)
assert os.wait()[1] == 0
print(comm.all_reduce(np.ones(1))[0])
"""), ["2.0\n"] * 2)


class Signals(unittest.TestCase):
    def check_interrupts(self, wait, beginning=ranks.CONNECT):
        """Rank 1 never makes the call for which rank 0 waits."""
        with ranks.Processes(f"""
if rank == 1:
    signal.pause()
try:
    print("ready", flush=True)
    {wait}
except KeyboardInterrupt:
    print("interrupted", flush=True)
""", beginning=beginning) as processes:
            process = processes.ranks[0]
            self.assertEqual(process.stdout.readline(), "ready\n")
            process.send_signal(signal.SIGINT)
            self.assertEqual(processes.said(0), "interrupted\n")

    def test_ctrl_c_ends_a_barrier(self):
        self.check_interrupts("comm.barrier()")

    def test_ctrl_c_ends_the_wait_for_ranks_that_do_not_come(self):
        self.check_interrupts(
            "mr.Communicator.connect(rank=0, world=2, rendezvous='file:' + sys.argv[1])",
            beginning="import signal, sys\nimport millrace as mr\nrank = int(sys.argv[2])")

    def test_cancel_ends_a_wait_in_another_thread(self):
        with ranks.Processes("""
import threading
if rank == 1:
    signal.pause()
threading.Thread(target=comm.cancel).start()
try:
    comm.barrier()
except mr.Cancelled:
    print("cancelled")
""") as processes:
            self.assertEqual(processes.said(0), "cancelled\n")


if __name__ == "__main__":
    unittest.main()

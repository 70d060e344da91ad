"""Sums of gradients over ranks."""
import gc
import signal
import threading
import unittest

import millrace as mr
import numpy as np
import ranks

SHAPES = {"weights": (30, 40), "bias": (40,), "scale": ()}


def drawn(seed, dtype="float32"):
    random = np.random.default_rng(seed)
    return {name: random.normal(size=shape).astype(dtype) for name, shape in SHAPES.items()}


def take_step(reducer, gradients):
    for name, gradient in gradients.items():
        reducer.gradient(name)[...] = gradient
        reducer.mark_ready(name)
    return reducer.finish()


def norm_of(arrays):
    return float(np.sqrt(sum(np.square(array.astype("float64")).sum() for array in arrays)))


class Sums(unittest.TestCase):
    def check_sums(self, dtype, size=3, **options):
        given = [[drawn(10 * step + rank, dtype) for rank in range(size)] for step in range(3)]

        def train(group):
            reducer = mr.Reducer(given[0][0], communicator=group, **options)
            sums = []
            for step in given:
                outcome = take_step(reducer, step[group.rank])
                self.assertEqual(outcome, (outcome.norm, False, 1, 0, True))
                sums.append({name: reducer.gradient(name).copy() for name in SHAPES})
            return sums

        for sums in ranks.in_threads(size, train):
            for step, summed in zip(given, sums):
                for name, total in summed.items():
                    wanted = np.zeros(SHAPES[name], "float32")
                    for rank in step:  # in the order of the ranks
                        wanted = wanted + rank[name].astype("float32")
                    np.testing.assert_array_equal(total, wanted.astype(dtype), name)

    def test_they_are_numpy_s(self):
        self.check_sums("float32")
        self.check_sums("float32", size=1)
        self.check_sums("float16", size=2)
        self.check_sums("float32", exact=True, bucket_bytes=1024, edge_bucket_bytes=256)
        self.check_sums("float32", size=2, policy="thread")
        self.check_sums("float32", size=2, policy="inline")

    def test_bfloat16_needs_ml_dtypes(self):
        try:
            import ml_dtypes
        except ImportError:
            self.skipTest("ml_dtypes is not installed")
        self.check_sums(ml_dtypes.bfloat16, size=2)

    def test_the_program_s_own_arrays_are_gradients_in_place(self):
        def train(group):
            own = drawn(group.rank)
            reducer = mr.Reducer(list(own.values()), communicator=group, in_place=True)
            for number, gradient in enumerate(own.values()):
                view = reducer.gradient(number)
                self.assertEqual(view.ctypes.data, gradient.ctypes.data)
                reducer.mark_ready(number)
            reducer.finish()
            return own

        for summed in ranks.in_threads(2, train):
            np.testing.assert_array_equal(summed["weights"],
                                          drawn(0)["weights"] + drawn(1)["weights"])

    def test_the_norm_is_that_of_all_gradients(self):
        def train(group):
            reducer = mr.Reducer(drawn(0), communicator=group, clip_norm=1.5)
            return take_step(reducer, drawn(group.rank))

        a, b = drawn(0), drawn(1)
        wanted = norm_of(a[name] + b[name] for name in SHAPES)
        for outcome in ranks.in_threads(2, train):
            self.assertAlmostEqual(outcome.norm / wanted, 1, places=6)
            self.assertAlmostEqual(outcome.clip_factor * outcome.norm, 1.5, places=5)

    def test_sums_are_divided_by_the_rows_of_all(self):
        def train(group):
            reducer = mr.Reducer([np.zeros(4, "float32")], communicator=group,
                                 average_by_rows=True, skip_non_finite=True)
            reducer.set_rows(group.rank + 1)
            outcome = take_step(reducer, {0: 3 * group.rank + 3})
            average = reducer.gradient(0).tolist()
            reducer.set_rows(1)
            return outcome.rows, average, take_step(reducer, {0: np.inf}).skip

        self.assertEqual(ranks.in_threads(2, train), [(3, [3] * 4, True)] * 2)

    def test_micro_batches_are_added_up(self):
        def train(group):
            reducer = mr.Reducer([np.zeros(2, "float32")], communicator=group, micro_batches=2)
            complete = [take_step(reducer, {0: number}).complete for number in (1, 10)]
            return complete, reducer.gradient(0).tolist()

        self.assertEqual(ranks.in_threads(2, train), [([False, True], [22, 22])] * 2)

    def test_each_rank_updates_its_shards(self):
        weights = drawn(7)

        def train(group):
            reducer = mr.Reducer(weights, communicator=group, shard=True)
            take_step(reducer, weights)
            shards = reducer.shards
            for number, begin, end in shards:
                flat = reducer.gradient(number).reshape(-1)
                flat[begin:end] *= 10
            reducer.gather_shards()
            return shards, [reducer.gradient(name).copy() for name in SHAPES]

        done = ranks.in_threads(2, train)
        self.assertEqual(sum(end - begin for shards, _ in done for _, begin, end in shards),
                         30 * 40 + 40 + 1)
        for _, gathered in done:
            for name, values in zip(SHAPES, gathered):
                np.testing.assert_array_equal(values, weights[name] * np.float32(20))


class Life(unittest.TestCase):
    def test_views_are_constant_and_outlive_the_reducer(self):
        group, = mr.Communicator.threads(1)
        reducer = mr.Reducer({"a": np.zeros((2, 3), "float32")}, communicator=group)
        view = reducer.gradient("a")
        for number in range(3):
            take_step(reducer, {"a": number})
            self.assertIs(reducer.gradient(0), view)
        self.assertEqual(view.ctypes.data, reducer.tensor("a").address)
        self.assertEqual((len(reducer), reducer.bucket_of("a")), (1, 0))
        self.assertEqual(reducer.counters[:2], (3, 1))
        self.assertIsNone(reducer.counters.last_awaited)
        self.assertIn("1 bucket", reducer.summary)
        self.assertIn("1 bucket", repr(reducer))
        group.close()
        del reducer, group
        gc.collect()
        view += 1
        self.assertEqual(view.sum(), 18)

    def test_a_view_keeps_the_program_s_own_array(self):
        group, = mr.Communicator.threads(1)
        reducer = mr.Reducer([np.full(1000, 7, "float32")], communicator=group, in_place=True)
        view = reducer.gradient(0)
        del reducer
        gc.collect()
        self.assertEqual(view.sum(), 7000)

    def test_a_reducer_goes_on_when_its_group_is_closed(self):
        group, = mr.Communicator.threads(1)
        reducer = mr.Reducer([np.zeros(2, "float32")], communicator=group)
        group.close()
        take_step(reducer, {0: 1})
        with self.assertRaisesRegex(ValueError, "closed"):
            mr.Reducer([np.zeros(2, "float32")], communicator=group)


class WrongUse(unittest.TestCase):
    def setUp(self):
        self.group, = mr.Communicator.threads(1)

    def reducer(self, gradients=None, **options):
        gradients = {"a": np.zeros(2, "float32"), "b": np.zeros(2, "float32")} \
            if gradients is None else gradients
        return mr.Reducer(gradients, **{"communicator": self.group, **options})

    def test_gradients_that_are_not_there(self):
        reducer = self.reducer()
        with self.assertRaisesRegex(KeyError, "'c'"):
            reducer.mark_ready("c")
        with self.assertRaisesRegex(IndexError, "no gradient 2"):
            reducer.mark_ready(2)
        with self.assertRaises(OverflowError):
            reducer.gradient(-1)

    def test_steps_that_are_not_whole(self):
        reducer = self.reducer()
        reducer.mark_ready("a")
        with self.assertRaisesRegex(mr.FailedPrecondition, "'a' was marked twice"):
            reducer.mark_ready("a")
        with self.assertRaisesRegex(mr.FailedPrecondition, "'b' was not marked"):
            reducer.finish()
        reducer.mark_ready("b")
        self.assertTrue(reducer.finish().complete)

    def test_rows_that_were_not_set(self):
        reducer = self.reducer(average_by_rows=True)
        with self.assertRaisesRegex(mr.FailedPrecondition, "rows"):
            reducer.mark_ready("a")
        with self.assertRaisesRegex(mr.PlanError, "-1 rows"):
            reducer.set_rows(-1)

    def test_gradients_of_other_types(self):
        with self.assertRaisesRegex(mr.PlanError, "float64"):
            self.reducer([np.zeros(2)])
        with self.assertRaisesRegex(ValueError, "complex64"):
            self.reducer([np.zeros(2, "complex64")])
        with self.assertRaisesRegex(ValueError, "not contiguous"):
            self.reducer([np.zeros((2, 2), "float32").T[1:]], in_place=True)

    def test_options_that_are_none(self):
        for options, kind, text in (({"policy": "fast"}, ValueError, "'fast'"),
                                    ({"micro_batches": 0}, ValueError, "micro_batches"),
                                    ({"wire": "int8"}, ValueError, "int8"),
                                    ({"wire": "int32"}, ValueError, "wire is 'int32'"),
                                    ({"wire": "bytes"}, ValueError, "wire is 'bytes'"),
                                    ({"bucket_bytes": -1}, ValueError, "bucket_bytes is -1"),
                                    ({"edge_bucket_bytes": 0}, ValueError, "edge_bucket_bytes"),
                                    ({"clip_norm": -1}, mr.PlanError, "clip"),
                                    ({"bucket_byte": 1}, TypeError, "bucket_byte")):
            with self.subTest(text), self.assertRaisesRegex(kind, text):
                self.reducer(**options)

    def test_plans_that_differ(self):
        def differ(group):
            mr.Reducer({"weights": np.zeros(2 + group.rank, "float32")}, communicator=group)

        with self.assertRaisesRegex(mr.PlanError, "weights"):
            ranks.in_threads(2, differ)

    def test_a_group_that_another_thread_uses(self):
        groups = ranks.in_threads(2, lambda group: (group, self.reducer(communicator=group)))
        group, reducer = groups[0]
        thread = threading.Thread(target=group.barrier)
        thread.start()
        with self.assertRaisesRegex(RuntimeError, "another thread"):
            while True:
                reducer.set_rows(1)
        groups[1][0].barrier()
        thread.join()


def reducer_with(options):
    """Returns the beginning of a program that makes a reducer, and takes its first step."""
    return ranks.CONNECT + f"""
def give(name):
    reducer.gradient(name)[:] = rank + 1
    reducer.mark_ready(name)
reducer = mr.Reducer({{"a": np.zeros(900, "f4"), "b": np.zeros(900, "f4")}}, communicator=comm,
                     bucket_bytes=1024, edge_bucket_bytes=1024, {options})
give("a")
give("b")
reducer.finish()
"""


REDUCER = reducer_with("")
# Ranks that share memory, or do not, as if they were on different hosts; which sum in the calls, or
# beside them.
WAYS = ("policy='inline'", "policy='thread'", "policy='inline', shared_memory=False",
        "policy='thread', shared_memory=False")


class Processes(unittest.TestCase):
    def test_they_sum(self):
        for options in ("", "shared_memory=False", "shared_memory=False, wire='bfloat16'"):
            with self.subTest(options):
                self.assertEqual(ranks.said_by_all("print(reducer.gradient('b')[899])", size=3,
                                                   beginning=reducer_with(options)), ["6.0\n"] * 3)

    def test_a_rank_that_is_killed_in_a_step_is_named(self):
        for options in WAYS:
            with self.subTest(options), ranks.Processes("""
if rank == 1:
    await_go()
    give("b")
    os.kill(os.getpid(), signal.SIGKILL)
ready()
try:
    give("b")
    give("a")
    reducer.finish()
except mr.PeerLost as error:
    print(error.rank, error.bucket, error.step, error.phase)
""", beginning=reducer_with(options)) as processes:
                processes.go(1)
                self.assertEqual(processes.said(0), "1 0 1 backward\n")

    def test_a_rank_that_leaves_says_why(self):
        with ranks.Processes("""
if rank == 1:
    await_go()
else:
    ready()
try:
    if rank == 1:
        reducer.leave("a bad record")
    give("a")
    give("b")
    reducer.finish()
except mr.Error as error:
    print(type(error).__name__, error)
""", beginning=REDUCER) as processes:
            processes.go(1)
            self.assertRegex(processes.said(0), "^PeerLost .*rank 1 .*a bad record")
            self.assertRegex(processes.said(1), "^Error .*a bad record")

    def test_a_rank_that_stalls_is_told(self):
        with ranks.Processes("""
import millrace as mr, numpy as np, signal, sys
said = []
def tell(sentence):
    said.append(sentence)
    comm.cancel()
rank = int(sys.argv[2])
comm = mr.Communicator.connect(rank=rank, world=2, rendezvous="file:" + sys.argv[1],
                               stall_report=0.01, on_stall=tell)
reducer = mr.Reducer([np.zeros(2, "f4")], communicator=comm)
if rank == 1:
    signal.pause()
try:
    reducer.mark_ready(0)
    reducer.finish()
except mr.Cancelled:
    print(said[0])
""", beginning="") as processes:
            self.assertRegex(processes.said(0), "^rank 1 has not come on for .*: start")

    def test_a_rank_that_does_not_run_is_given_up(self):
        with ranks.Processes("""
import millrace as mr, numpy as np, os, signal, sys
rank = int(sys.argv[2])
comm = mr.Communicator.connect(rank=rank, world=2, rendezvous="file:" + sys.argv[1],
                               stall_abort=0.5, on_stall=None)
try:
    reducer = mr.Reducer([np.zeros(2, "f4")], communicator=comm)
    if rank == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
    reducer.mark_ready(0)
    reducer.finish()
except mr.PeerLost as error:
    print(error.rank, "does not run" in str(error))
""", beginning="") as processes:
            self.assertEqual(processes.said(0), "1 True\n")

    def test_a_program_that_ends_in_a_step_is_named(self):
        with ranks.Processes("""
if rank == 1:
    await_go()
    give("a")
else:
    ready()
    try:
        give("a")
        give("b")
        reducer.finish()
    except mr.PeerLost as error:
        print(error.rank, error.step)
""", beginning=REDUCER) as processes:
            processes.go(1)
            self.assertEqual(processes.said(0), "1 1\n")

    def test_a_handler_of_a_signal_in_a_call(self):
        with ranks.Processes("""
reducer = mr.Reducer([np.zeros(2, "float32")], communicator=comm)
if rank == 1:
    signal.pause()
signal.signal(signal.SIGALRM, lambda *_: reducer.set_rows(1))
signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
reducer.mark_ready(0)
try:
    reducer.finish()
except RuntimeError as error:
    signal.setitimer(signal.ITIMER_REAL, 0)
    print(error)
""") as processes:
            self.assertRegex(processes.said(0), "^this thread is in a call of this group .*handler")

    def test_ctrl_c_ends_the_wait_for_sums(self):
        for options in WAYS:
            with self.subTest(options), ranks.Processes("""
if rank == 1:
    signal.pause()
try:
    give("a")
    give("b")
    print("ready", flush=True)
    reducer.finish()
except KeyboardInterrupt:
    print("interrupted", flush=True)
""", beginning=reducer_with(options)) as processes:
                process = processes.ranks[0]
                self.assertEqual(process.stdout.readline(), "ready\n")
                process.send_signal(signal.SIGINT)
                self.assertEqual(processes.said(0), "interrupted\n")


if __name__ == "__main__":
    unittest.main()

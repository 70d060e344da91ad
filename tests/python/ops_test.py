"""Python functions inside the pipeline, and sources that the program feeds."""
import functools
import gc
import itertools
import json
import os
import pickle
import subprocess
import sys
import tempfile
import threading
import traceback
import unittest
import warnings
import weakref

import numpy as np

import millrace as mr


@mr.op(reads="value", writes=[mr.field("value", "int64"), mr.field("noise", "float32", [2])])
def noisy(rows):
    rows.out["value"] = 2 * rows["value"]
    rows.out["noise"] = rows.uniform(2)


@mr.batch_op()
def add_index(batch):
    batch["value"] += np.where(batch.valid, 1000 * (batch.index + 1), 0)


@mr.batch_op()
def draw(batch):
    words = (batch.uniform() * 1e6).astype(np.int64)
    batch["value"] = np.where(batch.valid, words + int(batch.whole() * 1e3) * 10**9, 0)


class Held:
    """An object that may be referred to weakly."""


def plan_of(op, count=40):
    return mr.range(count).op(op).batch(8).options(seed=5)


def all_values(plan, key="value", **options):
    with plan.numpy(key, last="trim", **options) as loader:
        return [batch.copy() for batch in loader]


class RunOps(unittest.TestCase):
    def test_an_op_writes_into_the_batch(self):
        values = np.concatenate(all_values(plan_of(noisy)))
        self.assertEqual(values.tolist(), list(range(0, 80, 2)))

    def test_random_numbers_depend_on_the_sample_alone(self):
        plan = plan_of(noisy)
        one = all_values(plan, "noise", context=mr.Context(threads=1))
        self.assertEqual(len(np.unique(np.concatenate(one))), 80)
        four = all_values(plan, "noise", context=mr.Context(threads=4))
        self.assertEqual([a.tolist() for a in one], [a.tolist() for a in four])
        halves = [all_values(plan, "noise", rank=rank, world=2) for rank in range(2)]
        for whole, low, high in zip(one, *halves):
            self.assertEqual(whole.tolist(), low.tolist() + high.tolist())
        with plan.numpy("noise", last="trim") as loader:
            loader.open()._core.seek(3)
            self.assertEqual(loader.next()["noise"].tolist(), one[3].tolist())

    def test_draws_follow_each_other(self):
        @mr.op(reads="value", writes=[mr.field("a", "float32"), mr.field("b", "float32"),
                                      mr.field("c", "float32", [2])], name="draws")
        def draws(rows):
            rows.out["c"] = rows.uniform(2)
            rows.out["a"] = rows.uniform()
            rows.out["b"] = rows.normal()

        with plan_of(draws).numpy() as loader:
            batch = loader.next()
        self.assertFalse(np.isin(batch["a"], batch["c"]).any())
        self.assertTrue(np.isfinite(batch["b"]).all())
        self.assertTrue((batch["b"] < 0).any() and (batch["b"] > 0).any())

    def test_values_of_different_shapes_come_as_lists(self):
        @mr.op(reads=["text"], writes=mr.field("letters", "uint8", [None]), removes="text",
               name="letters")
        def letters(rows):
            for row, text in enumerate(rows["text"]):
                rows.out["letters", row] = text.upper()

        plan = (mr.memory([b'{"text": "ab"}', b'{"text": ""}', b'{"text": "xyz"}'])
                .parse_json(mr.feature("text", bytes)).op(letters).ragged_batch(3))
        with plan.numpy() as loader:
            batch = loader.next()
        self.assertEqual(batch.names, ("letters", "letters/row_splits"))
        self.assertEqual(batch["letters"].tobytes(), b"ABXYZ")
        self.assertEqual(batch["letters/row_splits"].tolist(), [0, 2, 2, 5])

    def test_an_exception_names_the_record_and_keeps_its_traceback(self):
        @mr.op(reads="value", writes=mr.field("value", "int64"), name="unlucky")
        def unlucky(rows):
            if 13 in rows["value"]:
                raise ValueError("unlucky number")
            rows.out["value"] = rows["value"]

        with plan_of(unlucky).numpy() as loader:
            loader.next()
            with self.assertRaisesRegex(mr.Error, "ValueError: unlucky number") as caught:
                loader.next()
        cause = caught.exception.__cause__
        self.assertIsInstance(cause, ValueError)
        self.assertEqual(cause.__traceback__.tb_frame.f_code.co_name, "<lambda>")
        frames = []
        traceback = cause.__traceback__
        while traceback:
            frames.append(traceback.tb_frame.f_code.co_name)
            traceback = traceback.tb_next
        self.assertIn("unlucky", frames)
        self.assertEqual(caught.exception.record.ordinal, 13)

    def test_fail_makes_a_row_damage(self):
        @mr.op(reads="value", writes=mr.field("value", "int64"), name="picky")
        def picky(rows):
            rows.out["value"] = rows["value"]
            for row in np.flatnonzero(rows["value"] == 3):
                rows.fail(int(row), "three is bad")

        with plan_of(picky).numpy() as loader:
            with self.assertRaisesRegex(mr.DataLoss, "three is bad"):
                loader.next()
        skipping = plan_of(picky).options(on_damage=mr.on_damage("skip", max_count=9))
        with skipping.numpy("value", last="trim") as loader:
            self.assertEqual(loader.next()["value"].tolist(), [0, 1, 2, 4, 5, 6, 7])

    def test_keeping_an_array_of_the_call_is_an_error(self):
        kept = []

        @mr.op(reads="value", writes=mr.field("value", "int64"), name="keeper")
        def keeper(rows):
            kept.append(rows["value"])

        with plan_of(keeper).numpy() as loader:
            with self.assertRaisesRegex(mr.Error, "keep a copy"):
                loader.next()
        kept.clear()

    def test_arrays_that_only_a_cycle_holds_are_not_kept(self):
        @mr.op(reads="value", writes=mr.field("value", "int64"), name="cycle")
        def cycle(rows):
            values = rows["value"]
            held = [values]
            held.append(held)
            rows.out["value"] = values

        self.assertEqual(all_values(plan_of(cycle))[0].tolist(), list(range(8)))

    def test_the_traceback_of_an_op_holds_none_of_its_memory(self):
        @mr.op(reads="value", writes=mr.field("value", "int64"), name="raiser")
        def raiser(rows):
            out = rows.out["value"]
            raise ValueError(str(len(out)))

        with plan_of(raiser).numpy() as loader:
            with self.assertRaises(mr.Error) as caught:
                loader.next()
        frames = traceback.walk_tb(caught.exception.__cause__.__traceback__)
        held = [frame for frame, _ in frames if frame.f_code.co_name == "raiser"]
        self.assertEqual(len(held), 1)
        self.assertNotIn("out", held[0].f_locals)

    def test_rows_end_with_the_call(self):
        kept = []

        @mr.op(reads="value", writes=mr.field("value", "int64"), name="hoarder")
        def hoarder(rows):
            rows.out["value"] = rows["value"]
            kept.append(rows)

        all_values(plan_of(hoarder))
        for use in (lambda rows: rows["value"], lambda rows: rows.out["value"],
                    lambda rows: rows.uniform(), len):
            with self.assertRaisesRegex(ValueError, "over"):
                use(kept[0])

    def test_too_many_random_words_are_an_error(self):
        @mr.op(reads="value", writes=mr.field("value", "int64"), name="greedy")
        def greedy(rows):
            rows.words(1 << 62)

        with plan_of(greedy).numpy() as loader:
            with self.assertRaisesRegex(mr.Error, "MemoryError"):
                loader.next()

    def test_a_loaded_plan_gets_its_ops(self):
        plan = mr.Plan.from_text(plan_of(noisy).text)
        with self.assertRaises(mr.PlanError):
            plan.numpy().open()
        self.assertEqual(all_values(plan.attach(noisy))[0].tolist(), list(range(0, 16, 2)))

    def test_wrong_declarations_are_told(self):
        with self.assertRaisesRegex(TypeError, "millrace.field"):
            mr.op(reads="value", writes="value")(len)
        with self.assertRaisesRegex(ValueError, "not one of bytes"):
            mr.field("x", "complex64")
        self.assertEqual(mr.field("x", np.float32).dtype, "float32")
        with self.assertRaisesRegex(TypeError, "is no op"):
            mr.range(3).op(len)

    def test_an_op_that_holds_its_loader_is_collected(self):
        class Trainer:
            def __init__(self):
                @mr.op(reads="value", writes=mr.field("value", "int64"), name="scale")
                def scale(rows):
                    rows.out["value"] = rows["value"] * self.factor

                self.factor = 3
                self.loader = plan_of(scale).numpy("value")
                self.first = next(iter(self.loader)).tolist()

        trainers = [weakref.ref(Trainer()) for _ in range(3)]
        gc.collect()
        self.assertEqual([trainer() for trainer in trainers], [None] * 3)

    def test_an_op_may_close_its_loader(self):
        holder = []

        @mr.op(reads="value", writes=mr.field("value", "int64"), name="closer")
        def closer(rows):
            rows.out["value"] = rows["value"]
            if holder:
                holder.pop().close()

        loader = plan_of(closer, 1 << 16).numpy("value")
        holder.append(loader.open()._core)
        with self.assertRaises((mr.Cancelled, ValueError)):
            while True:
                loader.next()

    def test_what_belongs_to_a_thread_stays_from_call_to_call_and_ends_with_the_context(self):
        local, counts, ends = threading.local(), [], threading.Event()

        @mr.op(reads="value", writes=mr.field("value", "int64"), name="counts")
        def count(rows):
            if not hasattr(local, "calls"):
                local.calls = itertools.count()
                local.held = Held()
                weakref.finalize(local.held, ends.set)
            counts.append(next(local.calls))
            rows.out["value"] = rows["value"]

        context = mr.Context(threads=1)
        all_values(plan_of(count), context=context)
        self.assertGreater(len(counts), 1)
        self.assertEqual(counts, list(range(len(counts))))
        self.assertFalse(ends.is_set())
        del context
        self.assertTrue(ends.wait(100))

    def test_returning_something_is_an_error(self):
        @mr.op(reads="value", writes=mr.field("value", "int64"), name="returns")
        def returns(rows):
            return rows["value"] * 2

        with plan_of(returns).numpy() as loader:
            with self.assertRaisesRegex(mr.Error, "returns nothing"):
                loader.next()

    def test_two_ops_of_one_name_are_refused(self):
        @mr.op(reads="value", writes=mr.field("value", "int64"), name="noisy")
        def other(rows):
            rows.out["value"] = rows["value"]

        with self.assertRaisesRegex(ValueError, "two ops are named 'noisy'"):
            mr.range(8).op(noisy).op(other, stage="second").batch(8).numpy().open()

    def test_a_plan_with_an_op_pickles(self):
        plan = pickle.loads(pickle.dumps(plan_of(noisy)))
        self.assertEqual(all_values(plan)[0].tolist(), list(range(0, 16, 2)))


def changed(scale, version=1):
    """Returns an op whose code depends on `scale`."""
    kind = mr.op(reads="value", writes=mr.field("value", "int64"), name="scale", version=version)
    program = f"def function(rows): rows.out['value'] = {scale} * rows['value']"
    space = {}
    exec(program, space)
    return kind(space["function"])


class Codes(unittest.TestCase):
    """What states know of the code of ops."""

    def resume(self, state, *ops, **options):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            plan = mr.range(40)
            for op in ops:
                plan = plan.op(op)
            with plan.batch(8).options(seed=5).numpy("value") as loader:
                loader.load_state_dict(state, **options)
                next(iter(loader))
        return [(one.category, str(one.message), one.filename) for one in caught]

    def states_of(self, op):
        """Returns the states of a loader and of its batch, as JSON keeps them."""
        with plan_of(op).numpy() as loader:
            batch = loader.next()
            states = loader.state_dict(), batch.state_dict()
        return [json.loads(json.dumps(state)) for state in states]

    def test_the_state_of_a_loader_and_of_a_batch_has_a_code_of_each_op(self):
        of_loader, of_batch = self.states_of(noisy)
        self.assertEqual(of_loader, of_batch)
        self.assertRegex(of_loader["ops"]["noisy"], "^1:[0-9a-f]{8}$")
        with mr.range(8).batch(8).numpy() as loader:
            self.assertNotIn("ops", loader.next().state_dict())

    def test_the_same_code_is_resumed_silently(self):
        self.assertEqual([self.resume(state, noisy) for state in self.states_of(noisy)], [[], []])
        same = [self.resume(state, changed(2)) for state in self.states_of(changed(2))]
        self.assertEqual(same, [[], []])

    def test_changed_code_of_the_same_version_is_a_warning_that_names_the_op(self):
        for state in self.states_of(changed(2)):
            (category, message, filename), = self.resume(state, changed(3))
            self.assertIs(category, mr.OpChangedWarning)
            self.assertIn("the code of op 'scale' is not that of the state", message)
            self.assertEqual(filename, __file__)

    def test_code_in_a_file_is_told_by_its_source(self):
        @mr.op(reads="value", writes=mr.field("value", "int64"), name="noisy")
        def other(rows):
            rows.out["value"] = rows["value"]

        warned, = self.resume(self.states_of(noisy)[0], other)
        self.assertIs(warned[0], mr.OpChangedWarning)
        calls = functools.partial(noisy.function)
        self.assertEqual(mr.op(name="noisy")(calls).code, noisy.code)

    def test_code_without_a_source_is_the_same_in_each_process(self):
        program = ("from millrace._codes import hash_of; space = {}; exec('def f(x): return x in "
                   "{\\'a\\', \\'b\\', \\'c\\'} or x == (1, (2, 3))', space); "
                   "print(hash_of(space['f']))")
        found = {subprocess.run([sys.executable, "-c", program], check=True, text=True,
                                env={**os.environ, "PYTHONHASHSEED": str(seed)},
                                stdout=subprocess.PIPE).stdout for seed in range(1, 5)}
        self.assertEqual(len(found), 1)

    def test_a_file_that_is_no_source_of_the_function_does_no_harm(self):
        space = {"mr": mr}
        with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
            file.write("\n(((\n")
            file.flush()
            program = "\n@mr.batch_op()\ndef function(batch): batch['value'] += 1"
            exec(compile(program, file.name, "exec"), space)
        self.assertRegex(space["function"].code, "^[0-9a-f]{8}$")

    def test_another_version_is_refused_and_forced_without_a_warning(self):
        state, _ = self.states_of(changed(2))
        with self.assertRaisesRegex(mr.FailedPrecondition, "plan"):
            self.resume(state, changed(3, version=2))
        self.assertEqual(self.resume(state, changed(3, version=2), force=True), [])

    def test_a_state_without_codes_is_taken(self):
        state, _ = self.states_of(changed(2))
        del state["ops"]
        self.assertEqual(self.resume(state, changed(3)), [])

    def test_codes_that_are_none_are_no_state(self):
        state, _ = self.states_of(changed(2))
        for ops in (7, ["scale"], {"scale": 7}, {"scale": "1"}):
            with self.assertRaisesRegex(ValueError, "not a state"):
                self.resume({**state, "ops": ops}, changed(2))


class BatchOps(unittest.TestCase):
    def test_a_batch_is_changed_in_place(self):
        plan = mr.range(20).batch(8).op(add_index)
        self.assertEqual([batch[0] for batch in all_values(plan)], [1000, 2008, 3016])

    def test_random_numbers_are_the_same_in_any_world(self):
        plan = mr.range(40).batch(8).op(draw).options(seed=5)
        whole = all_values(plan)
        halves = [all_values(plan, rank=rank, world=2) for rank in range(2)]
        for batch, low, high in zip(whole, *halves):
            self.assertEqual(batch.tolist(), low.tolist() + high.tolist())


class Sources(unittest.TestCase):
    def test_records_in_memory_may_be_any_buffer(self):
        records = [b'{"x": 1}', bytearray(b'{"x": 2}'), memoryview(b'{"x": 3}'),
                   np.frombuffer(b'{"x": 4}', np.uint8)]
        plan = mr.memory(records).parse_json(mr.feature("x", int)).batch(4)
        self.assertEqual(all_values(plan, "x")[0].tolist(), [1, 2, 3, 4])

    def test_two_memory_stages_have_their_own_names(self):
        left = mr.memory([b'{"x": 1}'], stage="left")
        right = mr.memory([b'{"x": 2}'], stage="right")
        plan = mr.concatenate(left, right).parse_json(mr.feature("x", int)).batch(2)
        self.assertEqual(all_values(plan, "x")[0].tolist(), [1, 2])
        with self.assertRaisesRegex(ValueError, "stage="):
            mr.concatenate(left, mr.memory([b"{}"], stage="left"))

    def test_threads_feed_a_push_source(self):
        feed = mr.PushSource("numbers", max_bytes=64)

        def produce():
            with feed:
                for i in range(200):
                    feed.push(b'{"x": %d}' % i)

        thread = threading.Thread(target=produce)
        thread.start()
        plan = mr.push(feed).parse_json(mr.feature("x", int)).batch(16)
        values = np.concatenate(all_values(plan, "x"))
        thread.join()
        self.assertEqual(values.tolist(), list(range(200)))

    def test_an_exception_of_the_producer_is_the_consumers_error(self):
        feed = mr.PushSource()
        with self.assertRaises(KeyError):
            with feed:
                feed.push(b'{"x": 1}')
                raise KeyError("camera")
        with mr.push(feed).parse_json(mr.feature("x", int)).batch(1).numpy("x") as loader:
            batches = iter(loader)
            self.assertEqual(next(batches).tolist(), [1])
            with self.assertRaisesRegex(mr.Error, "KeyError: 'camera'"):
                next(batches)

    def test_a_producer_is_told_that_nobody_reads(self):
        feed = mr.PushSource(max_bytes=16)
        loader = mr.push(feed).parse_json(mr.feature("x", int)).batch(1).numpy().open()
        loader.close()
        with self.assertRaises(mr.Cancelled):
            for _ in range(100):
                feed.push(b'{"x": 1}')


if __name__ == "__main__":
    unittest.main()

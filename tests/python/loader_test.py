"""Loaders: epochs, lengths, states, ranks, and what batches show."""
import base64
import contextlib
import copy
import json
import os
import pickle
import sys
import tempfile
import types
import unittest
import unittest.mock

import numpy as np

import data
import millrace as mr


def numbers(count=20, size=8, **options):
    return mr.range(count).batch(size, **options)


def shuffled(count=40, size=8):
    return mr.range(count).global_shuffle().batch(size).options(seed=3)


def values(loader):
    return [batch.tolist() for batch in loader]


def flat(loader):
    return [value for batch in values(loader) for value in batch]


class Epochs(unittest.TestCase):
    def test_a_for_goes_through_one_epoch(self):
        with numbers().numpy("value", last="trim") as loader:
            self.assertEqual(flat(loader), list(range(20)))
            self.assertEqual(flat(loader), list(range(20)))

    def test_each_epoch_has_its_own_order(self):
        with shuffled().numpy("value") as loader:
            first, second = flat(loader), flat(loader)
        self.assertNotEqual(first, second)
        self.assertEqual(sorted(first), sorted(second))

    def test_a_for_that_was_left_is_followed_by_the_next_epoch(self):
        with shuffled().numpy("value") as loader:
            epochs = [flat(loader) for _ in range(3)]
        with shuffled().numpy("value") as loader:
            for _ in loader:
                break
            self.assertEqual(flat(loader), epochs[1])

    def test_the_first_use_of_an_iterator_begins_an_epoch_not_its_making(self):
        with shuffled().numpy("value") as loader:
            iter(loader)
            iter(loader)
            self.assertEqual(loader.next().epoch, 0)

    def test_set_epoch_goes_anywhere(self):
        with shuffled().numpy("value") as loader:
            epochs = [flat(loader) for _ in range(4)]
            for epoch in (2, 0, 3):
                loader.set_epoch(epoch)
                self.assertEqual(flat(loader), epochs[epoch])

    def test_set_epoch_reads_on_where_lengths_are_not_known(self):
        plan = mr.range(40).filter("value % 3 == 0").batch(4).options(seed=3, lanes=4)
        with plan.numpy("value", last="trim") as loader:
            with self.assertRaisesRegex(TypeError, "how many"):
                len(loader)
            epochs = [flat(loader) for _ in range(3)]
            self.assertEqual(sorted(epochs[0]), list(range(0, 40, 3)))
            loader.set_epoch(1)
            self.assertEqual(flat(loader), epochs[1])

    def test_a_plan_that_counts_its_epochs_ends_behind_them(self):
        with numbers().repeat(epochs=2).numpy("value", last="trim") as loader:
            self.assertEqual(flat(loader), list(range(20)))
            self.assertEqual(flat(loader), list(range(20)))
            with self.assertRaisesRegex(mr.OutOfRange, "ended"):
                flat(loader)
            loader.set_epoch(1)
            self.assertEqual(flat(loader), list(range(20)))

    def test_epochs_that_differ_are_read_and_not_computed(self):
        straddling = mr.range(6).repeat(epochs=3).batch(4)
        with straddling.numpy("value", last="trim") as loader:
            with self.assertRaises(TypeError):
                len(loader)
            self.assertEqual(next(iter(loader)).tolist(), [0, 1, 2, 3])
            self.assertEqual(values(loader)[0], [2, 3, 4, 5])
        skipping = mr.range(16).batch(4).repeat().skip(1)
        with skipping.numpy("value") as loader:
            self.assertEqual(next(iter(loader)).tolist(), [4, 5, 6, 7])
            self.assertEqual(values(loader)[0], [0, 1, 2, 3])
            loader.set_epoch(2)
            self.assertEqual(values(loader)[0], [0, 1, 2, 3])

    def test_a_stream_of_one_pass_goes_on_behind_a_break(self):
        feed = mr.PushSource()
        with feed:
            for i in range(4):
                feed.push(b'{"x": %d}' % i)
        with mr.push(feed).parse_json(mr.feature("x", int)).batch(1).numpy("x") as loader:
            self.assertEqual(loader.peek()["x"].tolist(), [0])
            self.assertEqual(next(iter(loader)).tolist(), [0])
            self.assertEqual(values(loader), [[1], [2], [3]])
            with self.assertRaises(mr.OutOfRange):
                values(loader)

    def test_a_second_for_ends_the_first(self):
        with numbers().numpy("value") as loader:
            first = iter(loader)
            next(first)
            second = iter(loader)
            self.assertEqual(next(second).tolist(), list(range(8)))
            with self.assertRaisesRegex(RuntimeError, "another `for`"):
                next(first)

    def test_an_epoch_of_no_batches_has_length_0(self):
        plan = mr.range(3).batch(8, drop_remainder=True)
        with plan.numpy(repeat=False) as loader:
            self.assertEqual((len(loader), values(loader)), (0, []))

    def test_wrong_epochs_are_refused(self):
        with numbers().numpy() as loader:
            with self.assertRaises(ValueError):
                loader.set_epoch(-1)
            with self.assertRaises(TypeError):
                loader.set_epoch(1.5)
            loader.set_epoch(np.int64(2))
            self.assertEqual(loader.next().epoch, 2)

    def test_repeat_false_keeps_the_plan(self):
        with numbers().numpy("value", last="trim", repeat=False) as loader:
            self.assertEqual(flat(loader), list(range(20)))
            self.assertIsNone(loader.next())

    def test_length_is_the_number_of_batches_of_an_epoch(self):
        self.assertEqual(len(numbers().numpy()), 3)
        self.assertEqual(len(numbers(drop_remainder=True).numpy()), 2)
        self.assertEqual(len(numbers().numpy(repeat=False)), 3)


class States(unittest.TestCase):
    def test_an_epoch_goes_on_behind_the_state_in_a_world_of_another_size(self):
        with shuffled().numpy("value") as loader:
            whole = [values(loader) for _ in range(2)]
        for stop in range(1, 5):
            with shuffled().numpy("value", rank=0, world=1) as loader:
                for count, _ in enumerate(loader, 1):
                    if count == stop:
                        break
                state = json.loads(json.dumps(loader.state_dict()))
            parts = []
            for rank in range(2):
                with shuffled().numpy("value", rank=rank, world=2) as loader:
                    loader.load_state_dict(state)
                    parts.append([values(loader), values(loader)])
            joined = [[a + b for a, b in zip(*epochs)] for epochs in zip(*parts)]
            self.assertEqual(joined, [whole[0][stop:], whole[1]], stop)

    def test_a_batch_has_the_state_behind_it(self):
        with shuffled().numpy() as loader:
            batches = list(loader)
            second = [batch["value"].tolist() for batch in loader]
        for i, batch in enumerate(batches):
            with shuffled().numpy() as loader:
                loader.load_state_dict(batch.state_dict())
                rest = [other["value"].tolist() for other in loader]
            expected = [other["value"].tolist() for other in batches[i + 1:]] or second
            self.assertEqual(rest, expected, i)

    def test_set_epoch_behind_a_state_of_that_epoch_keeps_its_place(self):
        with shuffled().numpy("value") as loader:
            whole = [values(loader) for _ in range(2)]
            loader.load_state_dict({"millrace": "", "epoch": 0, "inside": False})
            next(iter(loader))
            state = loader.state_dict()
        with shuffled().numpy("value") as loader:
            loader.load_state_dict(state)
            for epoch in range(2):
                loader.set_epoch(epoch)
                self.assertEqual(values(loader), whole[epoch][1:] if epoch == 0 else whole[1])

    def test_a_state_of_another_plan_is_refused_unless_forced(self):
        with shuffled().numpy() as loader:
            loader.next()
            state = loader.state_dict()
        with shuffled(size=4).numpy() as loader:
            with self.assertRaises(mr.FailedPrecondition):
                loader.load_state_dict(state)
        with shuffled(size=4).numpy() as loader:
            loader.load_state_dict(state, force=True)
            self.assertEqual(loader.next().index, 1)

    def test_a_pickled_loader_goes_on_where_it_was(self):
        with shuffled().numpy("value") as loader:
            whole = values(loader)
            loader.set_epoch(0)
            next(iter(loader))
            with pickle.loads(pickle.dumps(loader)) as other:
                other.load_state_dict(other.state_dict())
                self.assertEqual(values(other), whole[1:])

    def test_peek_does_not_move_the_stream(self):
        with shuffled().numpy() as loader:
            seen = loader.peek()["value"].tolist()
            self.assertEqual(loader.next()["value"].tolist(), seen)

    def test_a_closed_loader_goes_on_where_it_was(self):
        loader = shuffled().numpy()
        first = loader.next()
        loader.close()
        second = loader.next()
        loader.close()
        self.assertEqual((first.index, second.index), (0, 1))


class Ranks(unittest.TestCase):
    def test_ranks_read_their_rows_of_each_batch(self):
        whole = values(shuffled().numpy("value"))
        parts = [values(shuffled().numpy("value", rank=rank, world=4)) for rank in range(4)]
        self.assertEqual([sum(rows, []) for rows in zip(*parts)], whole)

    def test_the_environment_tells_the_rank(self):
        with _environment(RANK="1", WORLD_SIZE="2", LOCAL_RANK="1", LOCAL_WORLD_SIZE="2",
                          MASTER_ADDR="127.0.0.1", MASTER_PORT="29500",
                          TORCHELASTIC_RUN_ID="none"):
            loader = shuffled().numpy("value")
            found = values(loader)
            self.assertEqual(loader.launcher[:2], (1, 2))
        self.assertEqual(found, values(shuffled().numpy("value", rank=1, world=2)))

    def test_without_a_launcher_the_rank_is_0_of_1(self):
        self.assertEqual(mr.detect_launcher()[:2], (0, 1))

    def test_a_worker_of_ray_train_tells_its_rank(self):
        class Context:
            get_world_rank = staticmethod(lambda: 1)
            get_world_size = staticmethod(lambda: 2)

        class Single(Context):
            get_world_rank = staticmethod(lambda: 0)
            get_world_size = staticmethod(lambda: 1)
            get_experiment_name = staticmethod(lambda: "train-1")

        with (_modules(**{"ray.train": types.SimpleNamespace(get_context=Single)}),
              _environment(SLURM_PROCID="1", SLURM_NTASKS="2")):
            self.assertEqual(mr.detect_launcher(), (0, 1, "ray.train"))
        with _modules(**{"ray.train": types.SimpleNamespace(get_context=Context)}):
            self.assertEqual(mr.detect_launcher(), (1, 2, "ray.train"))
            found = values(shuffled().numpy("value"))
        self.assertEqual(found, values(shuffled().numpy("value", rank=1, world=2)))

    def test_a_barrier_task_of_spark_tells_its_rank(self):
        class Task:
            partitionId = staticmethod(lambda: 2)
            getTaskInfos = staticmethod(lambda: ["a:1", "a:2", "b:1"])

        get = types.SimpleNamespace(get=Task)
        with _modules(pyspark=types.SimpleNamespace(BarrierTaskContext=get)):
            self.assertEqual(mr.detect_launcher(), (2, 3, "pyspark"))

    def test_a_driver_of_ray_or_spark_has_no_rank_and_is_warned(self):
        def refuse():
            raise RuntimeError("this is no worker")

        class Alone:  # as older versions of Ray say outside of a worker
            get_world_rank = staticmethod(lambda: 0)
            get_world_size = staticmethod(lambda: 1)
            get_experiment_name = staticmethod(lambda: None)

        class Trial:  # of Ray Tune, which has no ranks
            get_world_rank = staticmethod(lambda: None)
            get_world_size = staticmethod(lambda: None)
            get_experiment_name = staticmethod(lambda: "tune-1")

        class Unready:
            partitionId = staticmethod(lambda: 0)
            getTaskInfos = staticmethod(refuse)

        nothing = types.SimpleNamespace(get=lambda: None)
        refusing = types.SimpleNamespace(get=refuse)
        for modules in ({"ray": 1, "ray.train": types.SimpleNamespace(get_context=refuse)},
                        {"ray": 1, "ray.train": types.SimpleNamespace(get_context=Alone)},
                        {"ray": 1, "ray.train": types.SimpleNamespace(get_context=Trial)},
                        {"pyspark": types.SimpleNamespace(
                            BarrierTaskContext=types.SimpleNamespace(get=Unready))},
                        {"pyspark": types.SimpleNamespace(BarrierTaskContext=nothing)},
                        {"pyspark": types.SimpleNamespace(BarrierTaskContext=refusing)}):
            with self.subTest(modules), _modules(**modules):
                self.assertEqual(mr.detect_launcher(), (0, 1, "no launcher"))
                with self.assertLogs("millrace", "WARNING") as logs:
                    shuffled().numpy().open().close()
                self.assertIn(f"rank 0 of 1 (no launcher): {next(iter(modules))} is imported",
                              logs.output[0])
                with self.assertNoLogs("millrace", "WARNING"):
                    shuffled().numpy(rank=0, world=1).open().close()

    def test_a_rank_without_a_world_is_refused(self):
        with self.assertRaisesRegex(ValueError, "together"):
            shuffled().numpy(rank=1)


class Batches(unittest.TestCase):
    def test_arrays_share_the_memory_and_outlive_the_loader(self):
        loader = numbers().numpy()
        batch = loader.next()
        array = batch["value"]
        self.assertEqual(array.ctypes.data, batch.tensor("value").address)
        self.assertEqual(array.ctypes.data % 64, 0)
        loader.close()
        del batch, loader
        self.assertEqual(array.tolist(), list(range(8)))

    def test_views_may_be_written_unless_the_loader_says_no(self):
        batch = numbers().numpy().next()
        batch["value"][0] = 7
        self.assertEqual(batch["value"][0], 7)
        with self.assertRaises(ValueError):
            numbers().numpy(writable=False).next()["value"][0] = 7

    def test_padding_is_told_or_left_out(self):
        padded = list(numbers().numpy())[-1]
        self.assertEqual(padded["value"].tolist(), [16, 17, 18, 19, 0, 0, 0, 0])
        self.assertEqual(padded.valid.tolist(), [True] * 4 + [False] * 4)
        self.assertEqual((padded.rows, padded.valid_rows), (8, 4))
        trimmed = list(numbers().numpy(last="trim"))[-1]
        self.assertEqual(trimmed["value"].tolist(), [16, 17, 18, 19])
        self.assertEqual((trimmed.rows, trimmed.valid.tolist()), (4, [True] * 4))
        self.assertEqual(trimmed.ids.tolist(), [[0, row, 0] for row in range(16, 20)])

    def test_a_partial_batch_is_dropped(self):
        loader = numbers().numpy("value", last="drop")
        self.assertEqual(len(loader), 2)
        self.assertEqual([flat(loader), flat(loader)], [list(range(16))] * 2)
        self.assertEqual(loader.plan, numbers(drop_remainder=True).repeat())
        halves = [flat(numbers().numpy("value", last="drop", rank=rank, world=2))
                  for rank in range(2)]
        self.assertEqual(halves, [[0, 1, 2, 3, 8, 9, 10, 11], [4, 5, 6, 7, 12, 13, 14, 15]])
        plan = mr.range(20).ragged_batch(8)
        self.assertEqual(len(list(plan.numpy(last="drop", repeat=False))), 2)

    def test_rows_between_others_are_left_out_too(self):
        records = [b'{"x": 1}', b"damage", b'{"x": 3}', b'{"x": 4}']
        plan = (mr.memory(records).parse_json(mr.feature("x", int)).batch(4)
                .options(on_damage=mr.on_damage("mask", max_count=9)))
        padded = plan.numpy().next()
        self.assertEqual(padded["x"].tolist(), [1, 0, 3, 4])
        trimmed = plan.numpy(last="trim").next()
        self.assertEqual(trimmed["x"].tolist(), [1, 3, 4])
        self.assertEqual(trimmed.ids[:, 1].tolist(), [0, 2, 3])
        (row, sample_id, error), = trimmed.damaged
        self.assertEqual((row, sample_id), (1, (0, 1, 0)))
        self.assertIsInstance(error, mr.DataLoss)

    def test_a_ragged_field_is_trimmed_by_its_splits(self):
        records = [b'{"x": [1, 2]}', b"damage", b'{"x": []}', b'{"x": [4]}']
        plan = (mr.memory(records).parse_json(mr.feature("x", int, shape=[-1])).ragged_batch(4)
                .options(on_damage=mr.on_damage("mask", max_count=9)))
        batch = plan.numpy(last="trim").next()
        self.assertEqual(batch["x"].tolist(), [1, 2, 4])
        self.assertEqual(batch["x/row_splits"].tolist(), [0, 2, 2, 3])

    def test_a_data_frame_has_the_samples(self):
        try:
            import pandas  # noqa: F401
        except ImportError:
            self.skipTest("pandas is not installed")
        records = [b'{"x": [1, 2], "y": 5}', b'{"x": [], "y": 6}', b'{"x": [4], "y": 7}']
        plan = mr.memory(records).parse_json(
            mr.feature("x", int, shape=[-1]), mr.feature("y", int)).ragged_batch(4)
        frame = plan.numpy().next().to_pandas()
        self.assertEqual([list(cell) for cell in frame["x"]], [[1, 2], [], [4]])
        self.assertEqual(list(frame["y"]), [5, 6, 7])

    def test_it_is_a_mapping(self):
        batch = numbers().numpy().next()
        self.assertEqual(list(batch), ["value"])
        self.assertEqual(dict(batch)["value"].tolist(), list(range(8)))
        self.assertIn("value", batch)
        self.assertEqual(len(batch), 1)
        with self.assertRaisesRegex(KeyError, "no field 'image': the batch has"):
            batch["image"]

    def test_keys_choose_fields(self):
        plan = mr.memory([b'{"a": 1, "b": 2}']).parse_json(
            mr.feature("a", int), mr.feature("b", int)).batch(1)
        self.assertEqual(plan.numpy("b").__iter__().__next__().tolist(), [2])
        a, b = next(iter(plan.numpy(("a", "b"))))
        self.assertEqual((a.tolist(), b.tolist()), ([1], [2]))

    def test_dlpack_shares_the_memory(self):
        batch = numbers().numpy().next()
        array = np.from_dlpack(batch.tensor("value"))
        self.assertEqual(array.ctypes.data, batch["value"].ctypes.data)
        del batch
        self.assertEqual(array.tolist(), list(range(8)))

    def test_spec_tells_the_fields(self):
        self.assertEqual(numbers().numpy().spec, (mr.Field("value", "int64", ()),))


    def test_a_notebook_shows_images_and_values(self):
        plan = data.images(20).decode_image().resize(8, 6).batch(20)
        shown = plan.numpy().next()._repr_html_()
        self.assertEqual(shown.count("<img "), 16)
        self.assertIn("<td>3</td>", shown)  # a label
        self.assertIn("and 4 more rows", shown)
        png = base64.b64decode(shown.split("base64,")[4].split('"')[0])
        again = mr.memory([data.example(png, 0)]).parse_example(
            mr.feature("image/encoded", bytes)).decode_image().resize(8, 6).batch(1).numpy().next()
        self.assertEqual(again["image"].shape, (1, 8, 6, 3))
        self.assertTrue((again["image"] == 3).all())


class Stats(unittest.TestCase):
    """Of a stream that the test itself feeds, so that it says when a call waits."""

    def setUp(self):
        self.feed = mr.PushSource()
        plan = mr.push(self.feed).parse_json(mr.feature("x", int)).batch(2)
        self.loader = plan.numpy("x", last="trim")

    def push(self, count):
        for i in range(count):
            self.feed.push(b'{"x": %d}' % i)

    def check(self, stats, **expected):
        self.assertEqual({name: stats[name] for name in expected}, expected)
        self.assertGreater(stats["seconds"], 0)
        self.assertAlmostEqual(stats["samples_per_second"], stats["samples"] / stats["seconds"])
        self.assertAlmostEqual(stats["wait_fraction"], stats["wait_seconds"] / stats["seconds"])
        self.assertLessEqual(stats["wait_fraction"], 1)

    def test_a_loader_that_was_not_used_has_delivered_nothing(self):
        self.check(self.loader.stats(), batches=0, samples=0, waits=0, wait_seconds=0)

    def test_batches_samples_and_waits_are_those_of_the_loader(self):
        self.push(3)
        self.feed.finish()
        with numbers().numpy() as other:
            other.next()
            with self.loader as loader:
                self.assertEqual(len(list(loader)), 2)
        self.check(loader.stats(), batches=2, samples=3)
        self.check(other.stats(), batches=1, samples=8)

    def test_a_call_that_finds_no_batch_is_a_wait_whatever_comes_of_it(self):
        self.loader.open()
        for count in (1, 2):
            with self.assertRaises(mr.TimeLimit):
                self.loader.next(timeout=0)
            stats = self.loader.stats()
            self.check(stats, batches=0, samples=0, waits=count)
            self.assertGreater(stats["wait_seconds"], 0)

    def test_each_for_has_figures_of_its_own_which_stay_behind_its_end(self):
        with shuffled().numpy("value") as loader:
            for _ in loader:
                break
            stats = loader.stats()
            self.check(stats, batches=1, samples=8)
            self.assertEqual(loader.stats(), stats)
            list(loader)
            self.check(loader.stats(), batches=5, samples=40)
        self.check(loader.stats(), batches=5, samples=40)

    def test_without_a_for_they_are_of_all_since_the_opening_or_set_epoch(self):
        with shuffled().numpy("value") as loader:
            loader.next()
            loader.next()
            self.check(loader.stats(), batches=2, samples=16)
            loader.set_epoch(3)
            loader.next()
            self.check(loader.stats(), batches=1, samples=8)

    def test_a_batch_that_peek_has_seen_counts_when_it_is_delivered(self):
        with shuffled().numpy("value") as loader:
            loader.peek()
            list(loader)
            self.check(loader.stats(), batches=5, samples=40)

    def test_a_copy_has_figures_of_its_own(self):
        with shuffled().numpy("value") as loader:
            loader.next()
            other = pickle.loads(pickle.dumps(loader))
            self.check(other.stats(), batches=0, samples=0)
            with copy.copy(loader) as third:
                third.next()
                self.check(loader.stats(), batches=1, samples=8)

    def test_metrics_are_those_of_the_context(self):
        context = mr.Context(threads=1)
        with numbers().numpy(context=context) as loader:
            list(loader)
            self.assertLessEqual(set(loader.metrics), set(context.metrics))
            self.assertEqual(loader.metrics["millrace_batches_total"], 3)
            self.assertIn("# TYPE millrace_batches_total counter\nmillrace_batches_total 3\n",
                          context.prometheus())


class Errors(unittest.TestCase):
    def test_a_missing_file_is_not_found(self):
        with self.assertRaises(FileNotFoundError) as caught:
            mr.tfrecord("/nowhere/x.tfrecord").parse_example(mr.feature("x", int)).batch(1) \
                .numpy().open()
        self.assertIsInstance(caught.exception, mr.NotFound)

    def test_damage_names_its_record(self):
        with tempfile.NamedTemporaryFile(suffix=".jsonl") as file:
            file.write(b'{"x": 1}\n{"x": }\n')
            file.flush()
            loader = mr.text(file.name).parse_json(mr.feature("x", int)).batch(1).numpy()
            loader.next()
            with self.assertRaises(mr.DataLoss) as caught:
                loader.next()
        record = caught.exception.record
        self.assertEqual((record.file, record.offset, record.ordinal), (file.name, 9, 1))
        self.assertEqual(caught.exception.code, 3)

    def test_locate_says_where_a_sample_came_from(self):
        with tempfile.NamedTemporaryFile(suffix=".jsonl") as file:
            file.write(b'{"x": 1}\n{"x": 2}\n')
            file.flush()
            loader = mr.text(file.name).parse_json(mr.feature("x", int)).batch(2).numpy()
            self.assertEqual(loader.locate(loader.next().ids[1]), (file.name, 9, 1))

    def test_a_budget_that_is_full_is_retryable(self):
        context = mr.Context(threads=1, memory_budget="16MiB")
        loader = mr.range(1 << 20).batch(1 << 17).numpy(context=context)
        held = []
        with self.assertRaises(mr.OutOfBudget) as caught:
            while len(held) < 100:
                held.append(loader.next())
        self.assertTrue(caught.exception.retryable)
        last = held[-1].index
        del held
        self.assertEqual(loader.next().index, last + 1)

    def test_a_for_that_ran_out_of_memory_is_gone_on_with(self):
        context = mr.Context(threads=1, memory_budget="16MiB")
        loader = mr.range(1 << 22).batch(1 << 17).numpy(context=context)
        held = []
        with self.assertRaises(mr.OutOfBudget):
            for batch in loader:
                held.append(batch)
        last = held[-1].index
        del held, batch
        self.assertEqual(next(iter(loader)).index, last + 1)

    def test_what_does_not_fit_the_data_is_told_at_the_line_of_its_stage(self):
        plan = data.images(3).decode_image()
        plan, line = plan.batch(3), sys._getframe().f_lineno
        with self.assertRaisesRegex(mr.PlanError, f"loader_test.py:{line}: stage 'batch': .*resize"):
            plan.numpy().open()

    def test_wrong_options_are_told_at_once(self):
        with self.assertRaisesRegex(ValueError, "'pad', 'trim' or 'drop'"):
            numbers().numpy(last="keep")
        with self.assertRaisesRegex(ValueError, "not a number of bytes"):
            mr.Context(memory_budget="2 gigs")
        with self.assertRaisesRegex(ValueError, "not a number of bytes"):
            mr.PushSource(max_bytes=-1)
        with self.assertRaisesRegex(ValueError, "timeout"):
            numbers().numpy().next(timeout=-1)
        with self.assertRaisesRegex(KeyError, "no field 'image': batches have value"):
            numbers().numpy("image").open()
        with self.assertRaisesRegex(ValueError, "not a state"):
            numbers().numpy().load_state_dict({"millrace": ""})
        with self.assertRaises(TypeError):
            mr.memory([[1, 2, 3]])

    def test_a_timeout_is_a_time_limit(self):
        feed = mr.PushSource("none")
        waiting = mr.push(feed).parse_json(mr.feature("x", int)).batch(1).numpy()
        with self.assertRaises(TimeoutError):
            waiting.next(timeout=0.01)
        feed.push(b'{"x": 5}')
        self.assertEqual(waiting.next()["x"].tolist(), [5])


def _modules(**modules):
    """Makes modules of these names seem imported."""
    return unittest.mock.patch.dict(sys.modules, modules)


@contextlib.contextmanager
def _environment(**variables):
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


if __name__ == "__main__":
    unittest.main()

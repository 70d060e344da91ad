"""Diagnoses of loaders: what they have, and the time and the loader that they are of."""
import copy
import json
import pickle
import unittest

import data
import millrace as mr

VERDICTS = {f"{degree} input-bound" for degree in ("NOT", "MODERATELY", "HIGHLY")}


def numbers(count=20, size=8):
    return mr.range(count).batch(size)


def samples(loader):
    return loader.diagnose().dict["samples"]


class Content(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        plan = data.images(60).decode_image().resize(8, 6).batch(4)
        with plan.numpy() as loader:
            list(loader)
            cls.diagnosis = loader.diagnose()

    def test_it_says_its_sentence(self):
        diagnosis = self.diagnosis
        self.assertIn(diagnosis.verdict, VERDICTS)
        self.assertTrue(diagnosis.sentence.startswith(f"{diagnosis.verdict} (waits "))
        self.assertEqual(str(diagnosis), diagnosis.sentence)
        self.assertEqual(repr(diagnosis), f"<Diagnosis: {diagnosis.sentence}>")

    def test_the_numbers_are_those_of_its_json(self):
        diagnosis = self.diagnosis
        self.assertEqual(diagnosis.dict, json.loads(diagnosis.json))
        self.assertEqual(diagnosis.dict["samples"], 60)
        self.assertEqual(diagnosis.dict["wait_fraction"], diagnosis.wait_fraction)
        self.assertTrue(0 <= diagnosis.wait_fraction <= 1)
        self.assertIn("decode_image", [part["name"].split("+")[0] for part in
                                       diagnosis.dict["parts"]])

    def test_causes_and_parts_sum_to_the_whole(self):
        numbers = self.diagnosis.dict
        self.assertEqual(sum(numbers["wait_ns_by_cause"].values()), numbers["wait_ns"])
        whole = numbers["cpu_us_per_sample"]
        self.assertAlmostEqual(sum(part["us"] for part in numbers["parts"]), whole,
                               delta=1e-6 * whole)

    def test_changes_have_their_effect(self):
        self.assertTrue(self.diagnosis.what_ifs)
        for change in self.diagnosis.what_ifs:
            with self.subTest(change.what):
                self.assertGreaterEqual(change.gain, 0)
                self.assertGreater(change.samples_per_second, 0)
                self.assertIn(change.at_least, (False, True))
        change = self.diagnosis.change
        if change is not None:
            self.assertIn(change, self.diagnosis.what_ifs)
            self.assertIn(f"(+{100 * change.gain:.0f} %)", self.diagnosis.sentence)

    def test_a_copy_is_the_same(self):
        for other in (copy.copy(self.diagnosis), pickle.loads(pickle.dumps(self.diagnosis))):
            self.assertEqual(other.json, self.diagnosis.json)


class Settings(unittest.TestCase):
    def settings(self, context_options, **options):
        context = mr.Context(memory_budget="64MiB", **context_options)
        with numbers().numpy(context=context, **options) as loader:
            list(loader)
            diagnosis = loader.diagnose()
        found = {change.what: change.setting for change in diagnosis.what_ifs}
        return found, diagnosis.dict["host"]["usable_cores"]

    def test_they_are_named_as_python_has_them(self):
        found, _ = self.settings({}, prefetch=3)
        self.assertEqual(found["twice the open batches"], "prefetch=6")
        self.assertEqual(found["twice the memory budget"], 'Context(memory_budget="128MiB")')
        self.assertIsNone(found["storage twice as fast"])

    def test_the_one_that_limits_threads_is_named(self):
        for threads, options, setting in (
                (1, {}, "Context(threads=2)"), (2, {"cpu_budget": 1}, "cpu_budget=2"),
                (1, {"cpu_budget": 1}, "cpu_budget=2 and Context(threads=2)")):
            with self.subTest(setting):
                found, cores = self.settings({"threads": threads}, **options)
                if cores < 2:
                    self.skipTest("the process may use one core")
                self.assertEqual(found["+1 thread"], setting)


class Time(unittest.TestCase):
    def test_nothing_is_known_of_a_loader_that_was_not_opened(self):
        with self.assertRaisesRegex(mr.FailedPrecondition, "nothing was measured"):
            numbers().numpy().diagnose()

    def test_nothing_is_known_before_the_first_batch(self):
        with numbers().numpy() as loader:
            diagnosis = loader.diagnose()
        self.assertIn("the consumer asked for no batch", str(diagnosis))
        self.assertIsNone(diagnosis.change)

    def test_it_is_the_time_of_stats(self):
        with numbers().numpy() as loader:
            loader.next()
            self.assertEqual(samples(loader), loader.stats()["samples"])
            for count, _ in enumerate(loader, 1):
                self.assertEqual(samples(loader), loader.stats()["samples"])
                self.assertEqual(samples(loader), min(8 * count, 20))
            loader.set_epoch(2)
            loader.next()
            self.assertEqual((samples(loader), loader.stats()["samples"]), (8, 8))

    def test_that_of_a_for_stays_behind_its_end(self):
        with numbers().numpy() as loader:
            list(loader)
            of_for = loader.diagnose().json
            self.assertEqual(loader.diagnose().json, of_for)
            loader.next()
            self.assertEqual(loader.diagnose().json, of_for)
            list(loader)
            self.assertNotEqual(loader.diagnose().json, of_for)
            of_for = loader.diagnose().json
        self.assertEqual(loader.diagnose().json, of_for)

    def test_without_a_for_it_stays_behind_close(self):
        with numbers().numpy() as loader:
            loader.next()
        self.assertEqual(samples(loader), 8)

    def test_a_state_moves_its_beginning(self):
        with numbers().numpy() as loader:
            loader.next()
            state = loader.state_dict()
            loader.next()
            self.assertEqual(samples(loader), 16)
            loader.load_state_dict(state)
            self.assertEqual(samples(loader), 0)
            list(loader)
            self.assertEqual(samples(loader), 12)
        with numbers().numpy() as other:
            other.load_state_dict(state)
            other.next()
            self.assertEqual(samples(other), 8)

    def test_each_loader_of_a_context_has_its_own(self):
        context = mr.Context(threads=1)
        with numbers().numpy(context=context) as one, numbers().numpy(context=context) as other:
            one.next()
            list(other)
            self.assertEqual((samples(one), samples(other)), (8, 20))

    def test_a_copy_of_a_loader_has_its_own(self):
        with numbers().numpy() as loader:
            loader.next()
            other = pickle.loads(pickle.dumps(loader))
            with self.assertRaises(mr.FailedPrecondition):
                other.diagnose()
            with other:
                self.assertEqual(samples(other), 0)

    def test_an_error_and_cancel_leave_it(self):
        plan = mr.memory([b'{"x": 1}', b"{"]).parse_json(mr.feature("x", int)).batch(1)
        with plan.numpy() as loader:
            with self.assertRaises(mr.DataLoss):
                list(loader)
            self.assertEqual(samples(loader), 1)
        with numbers().numpy() as loader:
            loader.next()
            loader.cancel()
            self.assertEqual(samples(loader), 8)

    def test_loaders_of_torch_have_it(self):
        data.needs("torch")
        loader = numbers().torch("value")
        list(loader)
        self.assertEqual(samples(loader), 20)
        loader.close()


if __name__ == "__main__":
    unittest.main()

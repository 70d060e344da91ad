"""`millrace explain --analyze`, and the verdict at the end of `run`: structure and sums, no times."""

import json
import math
import pathlib
import tempfile
import unittest

from cli_testutil import SOURCE, convert_slice, millrace, run_json

TRAIN = SOURCE / "examples/fashion_mnist/train.pbtxt"
CAUSES = ["work", "reading", "budget", "order", "ring", "workers", "source", "hand-off"]
RESOURCES = ["worker CPU", "reading", "memory budget", "serial parts", "consumer"]


def verdict_of(diagnosis):
    """The verdict that the limits give for its waits."""
    for limit, word in ((0.05, "NOT"), (0.2, "MODERATELY")):
        if diagnosis["wait_fraction"] < limit:
            return f"{word} input-bound"
    return "HIGHLY input-bound"


def numbers(value):
    """Yields every number of a JSON value."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for part in value:
            yield from numbers(part)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield value


class DiagnosisTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.scratch.name)
        convert_slice(cls.folder, "train", 500, 3)
        cls.plan = [TRAIN, "--var", f"DATA={cls.folder}", "--var", "BATCH=8"]

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def analyze(self, *args):
        done = millrace("explain", *self.plan, "--analyze", "--seconds", 0.5, *args)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def check_sums(self, diagnosis):
        causes = diagnosis["wait_ns_by_cause"]
        self.assertEqual(list(causes), CAUSES)
        self.assertEqual(sum(causes.values()), diagnosis["wait_ns"])
        self.assertLessEqual(1e-9 * diagnosis["wait_ns"], 1.001 * diagnosis["seconds"])
        measured = diagnosis["cpu_us_per_sample"]
        self.assertGreater(measured, 0)
        parts = sum(part["us"] for part in diagnosis["parts"])
        self.assertLess(abs(parts - measured), 0.05 * measured, diagnosis["parts"])
        self.assertEqual([use["name"] for use in diagnosis["resources"]], RESOURCES)
        for number in numbers(diagnosis):
            self.assertTrue(math.isfinite(number) and number >= 0, diagnosis)

    def check_verdict(self, diagnosis):
        """The words agree with the numbers, however fast this machine is."""
        self.assertEqual(diagnosis["verdict"], verdict_of(diagnosis))
        percent = f"{100 * diagnosis['wait_fraction']:.1f} %"
        begin = f"{diagnosis['verdict']} (waits {percent}): "
        if diagnosis["verdict"] == "NOT input-bound":
            self.assertEqual(diagnosis["binding"][0], "consumer")
            self.assertIsNone(diagnosis["change"])
            begin += "the consumer takes "
        else:
            self.assertNotIn("consumer", diagnosis["binding"][:1])
            begin += "bound by "
        self.assertEqual(diagnosis["sentence"][:len(begin)], begin)

    def test_json_has_sums_that_are_exact(self):
        diagnosis = json.loads(self.analyze("--json"))
        self.check_sums(diagnosis)
        self.assertIsNone(diagnosis["pace"])
        names = [part["name"] for part in diagnosis["parts"]]
        self.assertEqual(names[0], "source")
        self.assertIn("batch", names)
        self.assertEqual(names[-1], "not attributed")
        for part in diagnosis["parts"]:
            self.assertEqual("p99_us" in part, "bytes_in" in part)
        for what_if in diagnosis["what_ifs"]:
            self.assertGreaterEqual(what_if["samples_per_second"],
                                    diagnosis["samples_per_second"], what_if)
        self.assertGreater(diagnosis["samples"], 0)
        self.assertGreaterEqual(diagnosis["host"]["usable_cores"], 1)

    def test_json_has_the_facts_of_storage_the_consumer_and_switches(self):
        diagnosis = json.loads(self.analyze("--json", "--pace", 80))
        reads = diagnosis["reads"]
        self.assertLessEqual(reads["p50_ms"], reads["p99_ms"])
        self.assertLessEqual(reads["in_flight"], 1.001 * reads["under_way"])  # while there were any
        if reads["page_cache_share"] is not None:
            self.assertLessEqual(reads["page_cache_share"], 1)
        self.assertGreater(diagnosis["consumer"]["ms_per_batch"], 0)
        self.assertIsNone(diagnosis["copies"])
        for kind in ("voluntary", "involuntary"):
            self.assertIn(f"{kind}_switches_per_second", diagnosis["host"])

    def test_threads_are_those_of_the_flag_and_none_are_withdrawn(self):
        diagnosis = json.loads(self.analyze("--json", "--threads", 3))
        self.assertEqual(diagnosis["host"]["threads"], 3)

    def test_the_verdict_is_that_of_the_waits(self):
        for args, pace in ((["--pace", 80], 80), ([], None)):
            diagnosis = json.loads(self.analyze("--json", *args))
            self.check_sums(diagnosis)
            self.check_verdict(diagnosis)
            self.assertEqual(diagnosis["pace"], pace)

    def test_the_screen_has_80_columns_and_all_parts(self):
        lines = self.analyze().split("\n")
        for line in lines:
            self.assertLessEqual(len(line), 80, line)
        text = "\n".join(lines)
        for part in ("train.pbtxt  plan ", "stage (CPU time per sample)", "source", "sum",
                     "the consumer waited", "resource", "what if", "usable cores",
                     "consumer: ", "context switches a second: ", " input-bound (waits "):
            self.assertIn(part, text)

    def test_a_stream_that_ends_early_is_measured_as_far_as_it_goes(self):
        ends = [SOURCE / "examples/fashion_mnist/eval.pbtxt", "--var", f"DATA={self.folder}"]
        convert_slice(self.folder, "t10k", 100, 2)
        done = millrace("explain", *ends, "--analyze", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["samples"], 100)

    def test_run_ends_with_the_verdict(self):
        done = millrace("run", *self.plan, "--batches", 50)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout.split("\n")[-2],
                         r"^verdict: (NOT|MODERATELY|HIGHLY) input-bound \(waits [\d.]+ %\): ")

    def test_run_reports_the_diagnosis_behind_the_first_batch(self):
        report = run_json(*self.plan, "--batches", 50)
        self.assertEqual(report["diagnosis"]["samples"], report["samples"] - 8)
        self.check_sums(report["diagnosis"])
        self.check_verdict(report["diagnosis"])
        self.assertEqual(run_json(*self.plan, "--batches", 1)["diagnosis"]["samples"], 8)

    def test_a_run_reports_its_pace(self):
        diagnosis = run_json(*self.plan, "--batches", 6, "--pace", 80)["diagnosis"]
        self.check_verdict(diagnosis)
        self.assertEqual(diagnosis["pace"], 80)

    def test_flags_of_the_analysis_need_it(self):
        for args in (["--json"], ["--seconds", 1], ["--pace", 5], ["--threads", 1],
                     ["--prefetch", 3]):
            done = millrace("explain", *self.plan, *args)
            self.assertEqual(done.returncode, 2, args)
            self.assertIn("--analyze", done.stderr)
        job = SOURCE / "examples/fashion_mnist/job.pbtxt"
        done = millrace("explain", job, "--job", "--analyze")
        self.assertEqual(done.returncode, 2)
        self.assertIn("plans", done.stderr)


if __name__ == "__main__":
    unittest.main()

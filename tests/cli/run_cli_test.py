"""`millrace run` and `explain` on real shards: digests, pace, damage."""

import json
import pathlib
import tempfile
import unittest

from cli_testutil import SOURCE, convert_slice, millrace, millrace_to_full, run_json

EXAMPLES = SOURCE / "examples/fashion_mnist"


class RunTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.scratch.name)
        cls.shards = convert_slice(cls.folder, "train", 500, 3)
        convert_slice(cls.folder, "t10k", 100, 2)
        cls.train = [EXAMPLES / "train.pbtxt", "--var", f"DATA={cls.folder}", "--var", "BATCH=64"]

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def test_json_has_every_field(self):
        report = run_json(*self.train, "--batches", 16)
        self.assertEqual(set(report), {"samples", "batches", "seconds", "samples_per_second",
                                       "wait_fraction", "wait", "au", "accelerator", "accelerators",
                                       "digest", "records_bad", "records_damaged",
                                       "fetched_bytes", "fetched_bytes_per_record_byte",
                                       "cpu_seconds_per_1000_samples", "peak_rss_bytes",
                                       "diagnosis"})
        self.assertEqual(report["batches"], 16)
        self.assertEqual(report["samples"], 1000)  # 2 epochs of 500 rows, 8 batches each
        self.assertEqual(report["records_bad"], 0)
        self.assertEqual(report["records_damaged"], {})
        self.assertIsNone(report["au"])

    def test_digest_is_the_same_for_every_number_of_threads(self):
        # S-RANDOM-2.
        digests = {run_json(*self.train, "--batches", 20, "--threads", t, "--digest")["digest"]
                   for t in (1, 2, 8)}
        self.assertEqual(len(digests), 1)

    def test_digests_of_the_ranks_add_up(self):
        # S-RANK-2.
        def digest(*args):
            report = run_json(*self.train, "--batches", 20, "--digest", *args)
            return int(report["digest"], 16)
        whole = digest()
        for world in (2, 3):
            parts = sum(digest("--rank", r, "--world", world) for r in range(world))
            self.assertEqual(parts % 2**64, whole)

    def test_a_copied_data_set_gives_the_same_digest(self):
        # S-FINGERPRINT-4.
        with tempfile.TemporaryDirectory() as other:
            for shard in self.shards:
                (pathlib.Path(other) / shard.name).write_bytes(shard.read_bytes())
            args = ["--batches", 9, "--digest"]
            moved = run_json(EXAMPLES / "train.pbtxt", "--var", f"DATA={other}", "--var",
                             "BATCH=64", *args)
            self.assertEqual(moved["digest"], run_json(*self.train, *args)["digest"])

    def test_pace_reports_utilisation(self):
        report = run_json(*self.train, "--batches", 8, "--pace", 5000)
        self.assertGreater(report["au"], 0)
        self.assertLessEqual(report["au"], 1)

    def test_seconds_end_the_emulated_work_of_a_slow_accelerator(self):
        # A batch of 64 at 0.001 img/s would take 18 hours.
        report = run_json(*self.train, "--seconds", 1, "--pace", "1e-3")
        self.assertEqual(report["batches"], 1)

    def test_wrong_values_of_flags_exit_with_2_and_name_the_flag(self):
        for args, named in ((["--rank", 5, "--world", 2], "--rank 5"), (["--world", 0], "--world"),
                            (["--rank=-1"], "--rank"), (["--prefetch", 4096], "--prefetch"),
                            (["--batches", "-1"], "--batches"), (["--batches=-1"], "--batches"),
                            (["--seconds", "nan"], "--seconds"), (["--seconds", "inf"], "--seconds"),
                            (["--pace", "1e-300"], "--pace"), (["--pace", "inf"], "--pace"),
                            (["--pace", "nan"], "--pace"), (["--threads=-1"], "--threads"),
                            (["--var", "DATA"], "--var"), (["--var", "DATA=again"], "DATA")):
            done = millrace("run", *self.train, "--batches", 1, *args) \
                if "batches" not in str(args) else millrace("run", *self.train, *args)
            self.assertEqual(done.returncode, 2, (args, done.stderr))
            self.assertIn(named, done.stderr)
        for args in (["--rank", 5, "--world", 2], ["--world", 0], ["--rank=-1"], ["--var", "DATA"]):
            self.assertEqual(millrace("explain", *self.train, *args).returncode, 2, args)

    def test_explain_prints_a_plan_or_all_stages(self):
        stages = millrace("explain", "--stages")
        self.assertEqual(stages.returncode, 0, stages.stderr)
        self.assertRegex(stages.stdout, r"\n  flip +The image mirrored")
        for args, named in (([], "file is required"), (["--stages", "x"], "takes no file")):
            done = millrace("explain", *args)
            self.assertEqual(done.returncode, 2, args)
            self.assertIn(named, done.stderr)

    def test_out_of_range_errors_of_the_work_are_no_usage_errors(self):
        done = millrace("run", *self.train, "--batches", 1, "--world", 65, "--rank", 64)
        self.assertEqual(done.returncode, 1, done.stderr)  # the batch has 64 rows

    def test_output_that_cannot_be_written_is_an_error(self):
        for args in (["run", *self.train, "--batches", 2, "--json"],
                     ["run", *self.train, "--batches", 2], ["explain", *self.train]):
            done = millrace_to_full(*args)
            self.assertEqual(done.returncode, 1, args)
            self.assertIn("standard output", done.stderr)

    def test_explain_and_run_of_little_data_report_no_progress(self):
        self.assertEqual(millrace("explain", *self.train).stderr, "")
        self.assertEqual(millrace("run", EXAMPLES / "eval.pbtxt", "--var", f"DATA={self.folder}")
                         .stderr, "")

    def test_an_endless_plan_needs_a_limit(self):
        done = millrace("run", *self.train)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--batches", done.stderr)

    def test_eval_plan_ends_by_itself(self):
        report = run_json(EXAMPLES / "eval.pbtxt", "--var", f"DATA={self.folder}")
        self.assertEqual(report["samples"], 100)

    def test_damage_is_an_error_that_names_file_offset_and_ordinal(self):
        with tempfile.TemporaryDirectory() as other:
            for shard in self.shards:
                (pathlib.Path(other) / shard.name).write_bytes(shard.read_bytes())
            bad = pathlib.Path(other) / self.shards[1].name
            data = bytearray(bad.read_bytes())
            data[30] ^= 0x40
            bad.write_bytes(bytes(data))
            done = millrace("run", EXAMPLES / "train.pbtxt", "--var", f"DATA={other}",
                            "--batches", 100, "--json")
            self.assertEqual(done.returncode, 1)
            report = json.loads(done.stdout)
            self.assertEqual(report["records_bad"], 1)
            for expected in (self.shards[1].name, "record 0", "offset 0"):
                self.assertIn(expected, report["error"])
            plain = millrace("run", EXAMPLES / "train.pbtxt", "--var", f"DATA={other}", "--var",
                             "BATCH=500", "--batches", 100)
            self.assertEqual(plain.returncode, 1)
            self.assertEqual(plain.stdout, "")  # no batch came, so there is nothing to sum up
            self.assertIn(self.shards[1].name, plain.stderr)

    def test_a_misspelt_field_is_named_with_its_place(self):
        plan = self.folder / "misspelt.pbtxt"
        text = (EXAMPLES / "train.pbtxt").read_text()
        plan.write_text(text.replace("drop_remainder", "drop_remaindr")
                        if "drop_remainder" in text else text.replace("size:", "sise:"))
        done = millrace("run", plan, "--var", f"DATA={self.folder}", "--batches", 1)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"misspelt\.pbtxt:\d+:\d+: ")
        self.assertIn("did you mean", done.stderr)

    def test_explain_shows_both_plans(self):
        done = millrace("explain", *self.train, "--world", 2)
        self.assertEqual(done.returncode, 0, done.stderr)
        for expected in ("global_shuffle", "map_into_batch", "500", "normalize"):
            self.assertIn(expected, done.stdout)


if __name__ == "__main__":
    unittest.main()

"""`millrace run` with emulated accelerators: the reports, --find-max, and files as DLIO writes
them."""

import json
import pathlib
import random
import subprocess
import tempfile
import unittest

from cli_testutil import SOURCE, millrace, run_json, write_tfrecord
from example_testutil import example

RECIPES = SOURCE / "examples/mlperf_storage"
RECORDS = 24
SIDE = 31  # DLIO's records are square
ENDLESS = """
stage { range { count: 1000 } }
stage { batch { size: 8 } }
stage { repeat {} }
"""
# Of which few accelerators of a million samples a second can be fed.
LARGE_BATCHES = ENDLESS.replace("1000", "800000").replace("8 }", "400000 }")


class AcceleratorTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.scratch.name)
        cls.endless = cls.folder / "endless.pbtxt"
        cls.endless.write_text(ENDLESS)
        cls.large_batches = cls.folder / "large_batches.pbtxt"
        cls.large_batches.write_text(LARGE_BATCHES)
        draw = random.Random(1)
        cls.images = [draw.randbytes(SIDE * SIDE) for _ in range(RECORDS)]
        for file in range(2):
            write_tfrecord(cls.folder / f"img_{file}_of_2.tfrecord",
                           [example({"image": [image], "size": [SIDE]})
                            for image in cls.images[file::2]])

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def dlio(self, *args, folder=None, side=SIDE):
        return [RECIPES / "resnet50.pbtxt", "--var", f"DATA={folder or self.folder}", "--var",
                "BATCH=5", "--var", f"BYTES={side * side}", *args]

    def test_the_report_says_what_was_emulated(self):
        report = run_json(self.endless, "--batches", 9, "--accelerator", "h100-storage",
                          "--accelerators", 3)
        self.assertEqual(report["accelerator"]["name"], "h100-storage")
        self.assertEqual(report["accelerator"]["batch"], 400)
        self.assertEqual(report["accelerator"]["compute_seconds"], 0.224)
        self.assertAlmostEqual(report["accelerator"]["samples_per_second"], 400 / 0.224)
        self.assertEqual(report["accelerators"], 3)
        self.assertEqual(report["wait"]["steps"], 6)  # without the first of each
        self.assertGreater(report["au"], 0)
        self.assertLessEqual(report["wait"]["p50_seconds"], report["wait"]["p99_seconds"])
        self.assertLessEqual(report["wait"]["p99_seconds"], report["wait"]["max_seconds"])
        self.assertGreaterEqual(report["cpu_seconds_per_1000_samples"], 0)
        text = millrace("run", self.endless, "--batches", 4, "--accelerator", "a100-train").stdout
        self.assertIn("1 emulated accelerator a100-train of 3180 img/s: utilisation", text)
        self.assertIn("waits of 3 steps", text)

    def test_a_pace_is_an_accelerator_without_a_name(self):
        report = run_json(self.endless, "--batches", 4, "--pace", 5000)
        self.assertEqual(report["accelerator"], {"name": None, "samples_per_second": 5000})
        self.assertEqual(report["accelerators"], 1)
        self.assertIsNone(run_json(self.endless, "--batches", 2)["accelerator"])

    def test_accelerators_change_no_batch(self):
        plain = run_json(self.endless, "--batches", 20, "--digest")
        many = run_json(self.endless, "--batches", 20, "--digest", "--pace", 5000, "--accelerators", 4)
        self.assertEqual(many["digest"], plain["digest"])

    def test_of_a_run_without_a_counted_step_the_utilisation_is_not_known(self):
        self.assertIsNone(run_json(self.endless, "--batches", 1, "--pace", 5000)["au"])
        text = millrace("run", self.endless, "--batches", 1, "--pace", 5000).stdout
        self.assertIn("utilisation not known", text)

    def find_max(self, *args, plan=None):
        return ["run", plan or self.endless, "--find-max", "--seconds", 0.05, "--warmup", 0, *args]

    def test_find_max_reports_every_try(self):
        done = millrace(*self.find_max("--pace", 1e6, "--json", plan=self.large_batches))
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        limit = report["au_limit"]
        self.assertEqual(limit, 0.9)
        fed = [t["accelerators"] for t in report["tries"] if t["au"] >= limit]
        starved = [t["accelerators"] for t in report["tries"] if t["au"] < limit]
        self.assertEqual(report["max_accelerators"], max(fed, default=0))
        self.assertTrue(starved or report["max_accelerators"] == 4096, report)
        self.assertEqual(report["seconds_per_try"], 0.05)
        self.assertEqual(report["warmup_seconds"], 0)
        self.assertGreater(report["stream_samples_per_second"], 0)

    def test_a_try_goes_on_until_a_step_was_counted(self):
        # A step of 0.4 s, in which a try of 0.05 s would see nothing and call them starved.
        done = millrace(*self.find_max("--pace", 1e6, "--json", plan=self.large_batches))
        report = json.loads(done.stdout)
        self.assertTrue(all(t["au"] > 0 for t in report["tries"]), report)
        self.assertEqual(report["or_more"], report["max_accelerators"] == 4096)

    def test_a_step_longer_than_a_try_is_said_once(self):
        done = millrace(*self.find_max("--pace", 1e6, plan=self.large_batches))
        self.assertEqual(done.stderr.count("a step takes 0.4 s, longer than --seconds 0.05"), 1)
        self.assertNotIn("a step takes", millrace(*self.find_max("--pace", 1e12)).stderr)

    def damaged(self, name, policy, bad=(1,)):
        """A plan for ever over 64 records, of which those of numbers `bad` are damaged."""
        path = self.folder / "damaged" / f"{name}.tfrecord"
        path.parent.mkdir(exist_ok=True)
        write_tfrecord(path, [bytes([i]) * 20 for i in range(64)])
        data = bytearray(path.read_bytes())
        for record in bad:
            data[36 * record + 14] ^= 1  # in its payload
        path.write_bytes(bytes(data))
        plan = self.folder / f"{name}.pbtxt"
        plan.write_text(f"""
            {policy}
            stage {{ tfrecord {{ files: "{path}" }} }}
            stage {{ decode_raw {{ shape: [20] }} }}
            stage {{ batch {{ size: 8 }} }}
            stage {{ repeat {{}} }}
        """)
        return plan

    def test_find_max_tells_of_damage(self):
        plan = self.damaged("dropped", 'on_damage { policy: "skip" max_share: 1 }')
        report = json.loads(millrace(*self.find_max("--pace", 20000, "--json", plan=plan)).stdout)
        self.assertGreater(report["records_damaged"]["data_crc"], 0)
        self.assertNotIn("error", report)
        text = millrace(*self.find_max("--pace", 20000, plan=plan)).stdout
        self.assertRegex(text, r"damaged: \d+ samples, data_crc")

    def test_a_stream_without_one_good_sample_is_measured_as_0(self):
        policy = 'on_damage { policy: "mask" max_share: 1 }'
        plan = self.damaged("masked", policy, range(64))
        done = millrace(*self.find_max("--pace", 20000, "--json", plan=plan))
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        self.assertEqual(report["stream_samples_per_second"], 0)
        self.assertEqual(report["stream_accelerators"], 0)
        self.assertEqual(report["max_accelerators"], 0)
        text = millrace(*self.find_max("--pace", 20000, plan=plan)).stdout
        self.assertIn("the stream alone: 0 samples/s", text)
        self.assertRegex(text, r"damaged: \d+ samples, data_crc")
        self.assertIn("0 emulated accelerators fed", text)

    def test_an_error_is_in_the_json_too(self):
        plan = self.damaged("fatal", "")
        done = millrace(*self.find_max("--pace", 20000, "--json", plan=plan))
        self.assertEqual(done.returncode, 1)
        report = json.loads(done.stdout)
        self.assertIn("fatal.tfrecord", report["error"])
        self.assertIsNone(report["max_accelerators"])
        self.assertIsNone(report["stream_samples_per_second"])
        self.assertIn("fatal.tfrecord", done.stderr)
        for words in ([], ["--find-max", "--pace", 1]):
            done = millrace("run", self.folder / "none.pbtxt", "--json", *words)
            self.assertEqual(done.returncode, 1)
            self.assertIn("none.pbtxt", json.loads(done.stdout)["error"])

    def test_a_host_that_cannot_feed_one_says_so(self):
        done = millrace(*self.find_max("--pace", 1e12))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("1 emulated: utilisation 0.0", done.stdout)
        self.assertIn("0 emulated accelerators fed at a utilisation of 0.90 or more", done.stdout)

    def test_flags_that_do_not_fit_exit_with_2(self):
        once = self.folder / "once.pbtxt"
        once.write_text(ENDLESS.replace("repeat {}", "repeat { epochs: 1 }"))
        for args, text in (([self.endless, "--find-max"], "--accelerator or --pace"),
                           ([self.endless, "--accelerators", 2], "--accelerator or --pace"),
                           ([self.endless, "--accelerators", 0, "--pace", 1], "--accelerators"),
                           ([self.endless, "--accelerator", "h200", "--seconds", 1], "h100-storage"),
                           ([self.endless, "--accelerator", "h100-train", "--pace", 1], "excludes"),
                           ([self.endless, "--find-max", "--pace", 1, "--batches", 1], "--batches"),
                           ([self.endless, "--find-max", "--pace", 1, "--digest"], "--digest"),
                           ([self.endless, "--find-max", "--pace", 1, "--accelerators", 2],
                            "--accelerators"),
                           ([self.endless, "--warmup", 2, "--batches", 1], "--find-max"),
                           ([self.endless, "--warmup", 0, "--pace", 1], "--find-max"),
                           ([once, "--find-max", "--pace", 1], "for ever")):
            done = millrace("run", *args)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(text, done.stderr)

    def test_files_of_dlio_are_read_as_they_are(self):
        report = run_json(*self.dlio("--accelerator", "h100-storage"))
        self.assertEqual(report["samples"], 5 * 20)  # 5 epochs of 4 batches of 5
        self.assertEqual(report["records_bad"], 0)

    def test_damage_of_a_file_of_dlio_is_found(self):
        with tempfile.TemporaryDirectory() as other:
            path = pathlib.Path(other) / "img_0_of_1.tfrecord"
            data = bytearray((self.folder / "img_0_of_2.tfrecord").read_bytes())
            data[500] ^= 1
            path.write_bytes(bytes(data))
            done = millrace("run", *self.dlio(folder=other))
            self.assertEqual(done.returncode, 1)
            self.assertIn("img_0_of_1.tfrecord", done.stderr)

    def test_records_of_another_length_are_named(self):
        done = millrace("run", *self.dlio(side=SIDE + 1))
        self.assertEqual(done.returncode, 1)
        self.assertIn("img_", done.stderr)
        self.assertIn(str(SIDE * SIDE), done.stderr)

    def test_from_end_to_end_jpegs_become_float_batches(self):
        photos = self.folder / "photos"
        draw = random.Random(2)
        for i in range(12):
            path = photos / f"class{i % 3}" / f"{i}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            pixels = b"P6\n%d %d\n255\n" % (240, 230) + draw.randbytes(3 * 240 * 230)
            path.write_bytes(
                subprocess.run(["cjpeg"], input=pixels, capture_output=True, check=True).stdout)
        shards = self.folder / "shards"
        done = millrace("records", "convert", "--from", "images", "--images", photos, "--out", shards,
                        "--shards", 2)
        self.assertEqual(done.returncode, 0, done.stderr)
        plan = [RECIPES / "resnet50_e2e.pbtxt", "--var", f"DATA={shards}", "--var", "BATCH=4"]
        report = run_json(*plan, "--accelerator", "h100-train", "--digest")
        self.assertEqual(report["samples"], 5 * 12)
        self.assertEqual(report["digest"], run_json(*plan, "--digest")["digest"])
        explained = millrace("explain", *plan).stdout
        self.assertIn("float32[224, 224, 3]", explained)


if __name__ == "__main__":
    unittest.main()

"""`millrace run` with emulated accelerators: the reports, --find-max, and files as DLIO writes them."""

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


class AcceleratorTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.scratch.name)
        cls.endless = cls.folder / "endless.pbtxt"
        cls.endless.write_text(ENDLESS)
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

    def find_max(self, *args):
        return ["run", self.endless, "--find-max", "--seconds", 0.05, "--warmup", 0, *args]

    def test_find_max_reports_every_try(self):
        done = millrace(*self.find_max("--pace", 20, "--json"))
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

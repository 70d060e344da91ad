"""Real JPEGs: `records convert --from images`, and the ImageNet example over what it writes."""

import json
import os
import pathlib
import random
import subprocess
import tarfile
import tempfile
import unittest
import unittest.mock

from cli_testutil import SOURCE, millrace, run_json

PLAN = SOURCE / "examples/imagenet/train.pbtxt"
CLASSES = 3
IMAGES = 24


def write_jpeg(path, draw):
    """Writes a JPEG of blurred noise, of a size and a chroma sampling of its own, with cjpeg."""
    width, height = draw.randrange(150, 420), draw.randrange(150, 420)
    row = bytes(draw.randrange(256) for _ in range(3 * width))
    pixels = b"".join(bytes((value + 3 * y) % 256 for value in row) for y in range(height))
    image = b"P6\n%d %d\n255\n" % (width, height) + pixels
    command = ["cjpeg", "-quality", "85", "-sample", draw.choice(["1x1", "2x1", "2x2"])]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(subprocess.run(command, input=image, capture_output=True, check=True).stdout)


class ImagesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.scratch.name)
        draw = random.Random(1)
        for i in range(IMAGES):
            write_jpeg(cls.folder / "photos" / f"class{i % CLASSES}" / f"{i:03}.jpg", draw)
        with tarfile.open(cls.folder / "photos.tar", "w") as tar:
            tar.add(cls.folder / "photos", arcname=".")
        for name in ("photos", "photos.tar"):
            done = millrace("records", "convert", "--from", "images", "--images", cls.folder / name,
                            "--out", cls.folder / f"{name}-shards", "--shards", 3)
            assert done.returncode == 0, done.stderr

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def digest(self, *args, data="photos-shards"):
        report = run_json(PLAN, "--var", f"DATA={self.folder / data}", "--var", "BATCH=8",
                          "--batches", 2 * IMAGES // 8, "--digest", *args)
        self.assertEqual(report["records_bad"], 0)
        return report["samples"], int(report["digest"], 16)

    def test_every_image_is_in_the_shards_with_its_class(self):
        for name in ("photos", "photos.tar"):
            shards = sorted((self.folder / f"{name}-shards").glob("*.tfrecord"))
            self.assertEqual(len(shards), 3)
            done = millrace("records", "inspect", *shards)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stdout, rf"3 shards +{IMAGES} ")
            self.assertIn("image/class/label", done.stdout)

    def converted(self, name, *args):
        """Converts the photos with these flags and returns the shards' records."""
        out = self.folder / name
        done = millrace("records", "convert", "--from", "images", "--images", self.folder / "photos",
                        "--out", out, "--shards", 2, *args)
        self.assertEqual(done.returncode, 0, done.stderr)
        return b"".join(path.read_bytes() for path in sorted(out.glob("*.tfrecord")))

    def test_images_are_shrunk_and_small_ones_pass(self):
        out = self.folder / "shrunk"
        limit = 300
        one = self.converted("shrunk", "--max-resolution", limit, "--threads", 1)
        self.assertEqual(self.converted("shrunk4", "--max-resolution", f"0{limit}",  # decimal
                                        "--threads", 4), one)
        lines = millrace("records", "cat", *sorted(out.glob("*.tfrecord"))).stdout.splitlines()
        sides = {}
        for line in lines:
            features = json.loads(line)["features"]
            sides[features["image/filename"][0]] = (features["image/height"][0],
                                                    features["image/width"][0])
        small, large = 0, 0
        folders = self.folder / "folders"
        done = millrace("records", "convert", "--from", "tfrecord", "--to", "images",
                        out / "*.tfrecord", "--out", folders)
        self.assertEqual(done.returncode, 0, done.stderr)
        for name, (height, width) in sides.items():
            original = (self.folder / "photos" / name).read_bytes()
            written = (folders / "data-00000-of-00001" / name).read_bytes()
            real = subprocess.run(["djpeg", "-pnm"], input=written, capture_output=True, check=True)
            self.assertEqual(real.stdout.split(b"\n", 2)[1], b"%d %d" % (width, height))
            before = subprocess.run(["djpeg", "-pnm"], input=original, capture_output=True,
                                    check=True).stdout.split(b"\n", 2)[1].split()
            if max(map(int, before)) <= limit:
                self.assertEqual(written, original)
                small += 1
            else:
                self.assertEqual(max(height, width), limit)
                large += 1
        self.assertGreater(small, 0)
        self.assertGreater(large, 0)

    def formats(self, name):
        lines = millrace("records", "cat", *sorted((self.folder / name).glob("*.tfrecord")))
        return [json.loads(line)["features"]["image/format"][0]
                for line in lines.stdout.splitlines()]

    def test_write_modes_are_stored_and_read_back(self):
        jpg = self.converted("jpg", "--write-mode", "jpg")
        self.assertEqual(jpg, self.converted("same"), "JPEGs of the right size pass")
        self.converted("raw", "--write-mode", "raw")
        self.assertEqual(set(self.formats("raw")), {"png"})
        self.converted("smart", "--write-mode", "smart", "--smart-threshold", 280 * 280 * 3)
        self.assertEqual(set(self.formats("smart")), {"png", "jpeg"})
        draws = ("--write-mode", "proportion", "--write-seed", 3)
        some = self.converted("some1", *draws, "--threads", 1)
        self.assertEqual(self.converted("some4", *draws, "--threads", 4), some)
        self.assertEqual(set(self.formats("some1")), {"png", "jpeg"})
        self.assertNotEqual(self.converted("other", *draws[:2], "--write-seed", 4), some)
        # Raw is without a loss: what a pipeline makes of it is what it makes of the JPEGs.
        plan = self.folder / "write_modes.pbtxt"
        plan.write_text("""
            stage { tfrecord { files: "${DATA}/*.tfrecord" } }
            stage { parse_example { feature { key: "image/encoded" dtype: BYTES } } }
            stage { decode_image {} }
            stage { resize { height: 64 width: 64 } }
            stage { batch { size: 8 } }
        """)
        digests = set()
        for name in ("jpg", "raw", "smart", "some1"):
            report = run_json(plan, "--var", f"DATA={self.folder / name}", "--digest")
            self.assertEqual((report["samples"], report["records_bad"]), (IMAGES, 0))
            digests.add(report["digest"])
        self.assertEqual(len(digests), 1)

    def test_flags_of_images_are_checked(self):
        for args, text in ((["--max-resolution", 5, "--min-resolution", 5], "--min-resolution"),
                           (["--max-resolution", 0], "max_resolution"),
                           (["--jpeg-quality", 101], "--jpeg-quality"),
                           (["--image-encoding", "gif"], '"gif"; there are: jpeg, raw'),
                           (["--write-mode", "png"], "there are: raw, jpg, smart, proportion"),
                           (["--write-mode", "smart"], "smart_threshold"),
                           (["--write-mode", "jpg", "--smart-threshold", 9], "smart_threshold"),
                           (["--write-mode", "raw", "--write-seed", 9], "write_seed"),
                           (["--write-mode", "raw", "--jpeg-quality", 9], "jpeg_quality"),
                           (["--compress-probability", 0.5], "compress_probability"),
                           (["--write-mode", "proportion", "--compress-probability", 2],
                            "--compress-probability"),
                           (["--write-mode", "raw", "--image-encoding", "raw"],
                            "--image-encoding")):
            done = millrace("records", "convert", "--from", "images", "--images",
                            self.folder / "photos", "--out", self.folder / "none", *args)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(text, done.stderr)

    def test_two_epochs_are_the_same_bits_for_every_number_of_threads(self):
        # S-RANDOM-2.
        digests = {self.digest("--threads", threads) for threads in (1, 2, 8)}
        self.assertEqual(len(digests), 1)
        self.assertEqual(digests.pop()[0], 2 * IMAGES)

    def test_the_vector_units_of_the_machine_change_no_bit(self):
        # S-RANDOM-2. Kernels of ours and those of libjpeg-turbo are chosen when the program runs;
        # that the limits bind is simd_level_test.cc's.
        digests = {self.digest()}
        for limits in ({"MILLRACE_SIMD": "none"}, {"MILLRACE_SIMD": "sse4.2"},
                       {"MILLRACE_SIMD": "avx2"}, {"JSIMD_FORCENONE": "1"},
                       {"JSIMD_FORCESSE2": "1"}, {"MILLRACE_SIMD": "none", "JSIMD_FORCENONE": "1"}):
            with unittest.mock.patch.dict(os.environ, limits):
                digests.add(self.digest())
        self.assertEqual(len(digests), 1)

    def test_two_ranks_together_see_what_one_sees(self):
        # S-RANK-2.
        samples, whole = self.digest()
        ranks = [self.digest("--rank", rank, "--world", 2) for rank in range(2)]
        self.assertEqual(sum(rank[0] for rank in ranks), samples)
        self.assertEqual(sum(rank[1] for rank in ranks) % 2**64, whole)

    def test_a_tar_holds_the_images_of_its_folder(self):
        def contents(name):
            shards = sorted((self.folder / f"{name}-shards").glob("*.tfrecord"))
            lines = millrace("records", "cat", *shards).stdout.splitlines()
            return sorted(json.dumps(json.loads(line)["features"]) for line in lines)
        self.assertEqual(len(contents("photos")), IMAGES)
        self.assertEqual(len(contents("photos.tar")), IMAGES)
        self.assertEqual(contents("photos"), contents("photos.tar"))


class FolderTest(unittest.TestCase):
    """Folders as people have them: S-SOURCE-7 at the command line."""

    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.scratch.name)
        odd = SOURCE / "tests/fixtures/odd"
        for name in ("cat/turned_6.jpg", "dog/turned_3.jpg", "dog/turned.png"):
            path = self.folder / "photos" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes((odd / path.name).read_bytes())
        (self.folder / "photos/bee").mkdir()
        (self.folder / "photos/dog/x.webp").write_bytes(b"RIFF")

    def tearDown(self):
        self.scratch.cleanup()

    def convert(self, *args, out="out"):
        return millrace("records", "convert", "--from", "images", "--images",
                        self.folder / "photos", "--out", self.folder / out, "--overwrite", *args)

    def labels(self):
        lines = millrace("records", "cat", *(self.folder / "out").glob("*.tfrecord")).stdout
        return [json.loads(line)["features"]["image/class/label"] for line in lines.splitlines()]

    def test_convert_tells_once_of_empty_classes_and_of_what_it_leaves_out(self):
        done = self.convert()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.labels(), [[1], [2], [2]])
        warnings = [line for line in done.stderr.splitlines() if "warning" in line]
        self.assertEqual(len(warnings), 2, done.stderr)
        self.assertIn("'bee' (label 0)", warnings[1])
        self.assertIn("dog/x.webp", warnings[0])
        strict = self.convert("--strict")
        self.assertEqual(strict.returncode, 1)
        self.assertIn("dog/x.webp", strict.stderr)
        verified = millrace("records", "verify", self.folder / "photos", "--json")
        self.assertEqual(verified.returncode, 0)
        self.assertIn("dog/x.webp", json.loads(verified.stdout)["notes"][0])

    def test_convert_tells_all_that_cannot_be_converted(self):
        (self.folder / "photos/cat/page.jpg").write_bytes(b"<html>404</html>")
        (self.folder / "photos/dog/empty.png").write_bytes(b"")
        bad = self.folder / "bad.jsonl"
        failed = self.convert("--quarantine", bad, out="new/deeper")
        self.assertEqual(failed.returncode, 1)
        for name in ("cat/page.jpg", "dog/empty.png"):
            self.assertIn(name, failed.stderr)
        self.assertIn("(and 1 more of 5 records)", failed.stderr)
        self.assertFalse((self.folder / "new").exists())
        self.assertEqual([pathlib.Path(json.loads(line)["file"]).name
                          for line in bad.read_text().splitlines()], ["page.jpg", "empty.png"])
        verified = millrace("records", "verify", "--from", bad)
        self.assertEqual(verified.returncode, 1)
        self.assertIn("2 of 2 places are damaged", verified.stdout)
        skipped = self.convert("--on-damage", "skip", "--quarantine", bad)
        self.assertEqual(skipped.returncode, 0, skipped.stderr)
        self.assertEqual(self.labels(), [[1], [2], [2]])
        self.assertIn("left out: 1 image of kinds that are not read", skipped.stdout)
        self.assertIn("left out: 2 that cannot be converted", skipped.stdout)
        self.assertIn("dog/empty.png", skipped.stdout)
        self.assertEqual(len(bad.read_text().splitlines()), 2)  # each once

    # S-ERROR-8.
    def test_convert_shows_what_cannot_be_seen_in_the_name_of_a_class(self):
        (self.folder / "photos/cat").rename(self.folder / "photos/\u200bcat")
        done = self.convert()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("1  <U+200B>cat\n", done.stdout)

    def test_convert_decodes_images_where_it_is_asked_to(self):
        whole = (self.folder / "photos/cat/turned_6.jpg").read_bytes()
        (self.folder / "photos/cat/cut.jpg").write_bytes(whole[:len(whole) * 2 // 3])
        self.assertEqual(self.convert().returncode, 0)
        done = self.convert("--check-images", "decode")
        self.assertEqual(done.returncode, 1)
        self.assertIn("cat/cut.jpg", done.stderr)

    def test_convert_names_the_way_out_where_names_tell_no_class(self):
        (self.folder / "flat").mkdir()
        (self.folder / "flat/a.png").write_bytes(
            (self.folder / "photos/dog/turned.png").read_bytes())
        done = millrace("records", "convert", "--from", "images", "--images", self.folder / "flat",
                        "--out", self.folder / "none")
        self.assertEqual(done.returncode, 1)
        for word in ("--label", "subfolder"):
            self.assertIn(word, done.stderr)
        self.assertFalse((self.folder / "none").exists())

    def test_a_file_of_classes_fixes_the_labels(self):
        (self.folder / "classes.txt").write_text("dog\nant\ncat\n")
        done = self.convert("--classes", self.folder / "classes.txt")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.labels(), [[2], [0], [0]])
        (self.folder / "classes.txt").write_text("dog\n")
        self.assertIn("'cat'", self.convert("--classes", self.folder / "classes.txt").stderr)

    def test_a_loop_of_links_is_named_by_every_command(self):
        (self.folder / "photos/cat/loop").symlink_to("..")
        plan = self.folder / "plan.pbtxt"
        plan.write_text("stage { image_folder { path: \"%s\" } }\n"
                        "stage { decode_image { field: \"record\" } }\n"
                        "stage { center_crop { height: 9 width: 9 } }\n"
                        "stage { batch { size: 2 } }\n" % (self.folder / "photos"))
        verified = millrace("records", "verify", self.folder / "photos")
        for done, code in ((self.convert(), 1), (millrace("run", plan), 1),
                           (millrace("explain", plan), 1), (verified, 66)):
            self.assertEqual(done.returncode, code)
            self.assertIn("photos/cat/loop", done.stdout + done.stderr)

    # S-CONVERT-1.
    def test_convert_turns_raw_pixels_and_what_it_is_asked_to(self):
        # turned_6, turned_3 and turned.png (6) are 37 x 26 pixels as they are stored.
        for args, widths in (([], [37, 37, 37]), (["--upright"], [26, 26, 37]),
                             (["--image-encoding", "raw"], [26, 26, 37]),
                             (["--write-mode", "raw"], [37, 37, 37]),
                             (["--max-resolution", 20, "--upright"], [14, 14, 20])):
            done = self.convert(*args)
            self.assertEqual(done.returncode, 0, done.stderr)
            lines = millrace("records", "cat", *(self.folder / "out").glob("*.tfrecord")).stdout
            found = sorted(json.loads(line)["features"]["image/width"][0]
                           for line in lines.splitlines())
            self.assertEqual(found, widths, args)


if __name__ == "__main__":
    unittest.main()

"""`millrace records` and the program's manners: exit codes, messages, JSON."""

import gzip
import json
import os
import pathlib
import signal
import struct
import subprocess
import tarfile
import tempfile
import time
import unittest

from cli_testutil import BIN, convert_slice, millrace, millrace_to_full, run_json


class RecordsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.scratch.name)
        cls.shards = convert_slice(cls.folder, "train", 300, 4)

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def test_convert_writes_the_shards_it_names(self):
        self.assertEqual([s.name for s in self.shards],
                         [f"train-{i:05d}-of-00004.tfrecord" for i in range(4)])

    def test_convert_does_not_overwrite_unless_told(self):
        before = self.shards[0].read_bytes()
        args = ["records", "convert", "--from", "idx", "--images", self.folder / "train-images",
                "--labels", self.folder / "train-labels", "--out", self.folder,
                "--prefix", "train", "--shards", 4]
        refused = millrace(*args)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("train-00000-of-00004.tfrecord", refused.stderr)
        self.assertEqual(millrace(*args, "--overwrite").returncode, 0)
        self.assertEqual(self.shards[0].read_bytes(), before)  # conversion is deterministic

    def convert(self, source, target, files, *args):
        """Converts and returns the shards."""
        prefix = f"{source}-{target}"
        done = millrace("records", "convert", "--from", source, "--to", target, *files,
                        "--out", self.folder / "converted", "--prefix", prefix, "--overwrite", *args)
        self.assertEqual(done.returncode, 0, done.stderr)
        return sorted((self.folder / "converted").glob(f"{prefix}-*-of-*"))

    def features(self, shards):
        lines = millrace("records", "cat", *shards).stdout.splitlines()
        return [json.loads(line)["features"] for line in lines]

    def test_convert_goes_through_every_container_and_comes_back(self):
        taken = "image/class/label=cls,image/width=width"
        expected = [{"cls": f["image/class/label"], "width": f["image/width"]}
                    for f in self.features(self.shards)]
        schema = "cls:int64,width:int64"
        first = self.convert("tfrecord", "tfrecord", self.shards, "--features", taken)
        rows = self.convert("tfrecord", "csv", first, "--shards", 3)
        self.assertEqual(len(rows), 3)
        objects = self.convert("csv", "jsonl", rows, "--header", "--schema", schema)
        with open(objects[0]) as lines:
            self.assertEqual(json.loads(lines.readline()),
                             {name: values[0] for name, values in expected[0].items()})
        tars = self.convert("jsonl", "tar", objects, "--schema", schema, "--compression", "gzip")
        with tarfile.open(tars[0]) as archive:
            self.assertEqual(archive.getnames()[:3],
                             ["000000000.cls", "000000000.width", "000000001.cls"])
        last = self.convert("tar", "tfrecord", tars, "--schema", schema, "--features", "cls,width")
        self.assertEqual(self.features(last), expected)
        self.assertEqual(b"".join(p.read_bytes() for p in last), first[0].read_bytes())

    def test_convert_to_a_folder_of_images_comes_back(self):
        photos = self.convert("tfrecord", "images", self.shards)
        back = millrace("records", "convert", "--from", "images", "--images", photos[0],
                        "--out", self.folder / "converted", "--prefix", "back")
        self.assertEqual(back.returncode, 0, back.stderr)
        self.assertIn("300 images", back.stdout)
        def contents(shards):
            return sorted(json.dumps([f["image/class/label"], f["image/encoded"]])
                          for f in self.features(shards))
        self.assertEqual(contents((self.folder / "converted").glob("back-*.tfrecord")),
                         contents(self.shards))

    def test_convert_to_idx_gives_the_file_that_was_read(self):
        idx = self.convert("tfrecord", "idx", self.shards)[0]
        for kind in ("images-idx3", "labels-idx1"):
            self.assertEqual((idx / f"{kind}-ubyte").read_bytes(),
                             (self.folder / f"train-{kind.split('-')[0]}").read_bytes())

    def test_convert_that_is_killed_goes_on_with_the_same_bytes(self):
        lines = self.folder / "lines.txt"
        lines.write_text("".join(f"line {i}\n" for i in range(1990)) + 10 * ("x" * 200000 + "\n"))

        for to, extension in (("tfrecord", "tfrecord"), ("tar", "tar")):
            args = ["records", "convert", "--from", "text", "--to", to, "--feature", "txt",
                    "--shards", 200, lines]
            whole = self.folder / f"whole-{to}"
            done = millrace(*args, "--out", whole)
            self.assertEqual(done.returncode, 0, done.stderr)
            out = self.folder / f"killed-{to}"
            with subprocess.Popen([BIN, *map(str, args), "--out", str(out)],
                                  stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as killed:
                while not list(out.glob(".data.convert-*/*.facts")) and killed.poll() is None:
                    time.sleep(0.001)
                killed.kill()
                self.assertEqual(killed.wait(), -signal.SIGKILL)
            self.assertEqual(list(out.glob("data-*")), [])
            left = {path.name: path.stat().st_ino for path in out.glob(f".data.convert-*/*.{extension}")
                    if path.with_name(path.name + ".facts").exists()}
            self.assertGreater(len(left), 0)
            again = millrace(*args, "--out", out)
            self.assertEqual(again.returncode, 0, again.stderr)
            shards = sorted(whole.glob("data-*"))
            self.assertEqual(len(shards), 200)
            for shard in shards:
                self.assertEqual((out / shard.name).read_bytes(), shard.read_bytes())
            kept = {name: (out / name).stat().st_ino for name in left}
            self.assertEqual(kept, left)  # what was whole is not written again
            self.assertEqual([path.name for path in out.glob(".*")], [])

    def test_convert_refuses_pairs_that_make_no_sense_and_says_what_would(self):
        for args, text in ((["--from", "text", "--to", "csv", "x"], "csv and jsonl read lines as samples"),
                           (["--from", "csv", "x"], "schema: needed to read csv"),
                           (["--from", "csv", "--schema", "a:int", "x"], "bytes, int64 or float32"),
                           (["--from", "tfrecord"], "files: none given"),
                           (["--from", "fixed_length", "x"], "record_bytes: needed"),
                           (["--from", "text", "--header", "x"], "header: only csv has one"),
                           (["--from", "text", "--jpeg-quality", 3, "x"], "jpeg_quality: no image"),
                           (["--from", "text", "--jpeg-quality", 3, "--image-encoding", "raw", "x"],
                            "jpeg_quality: no image")):
            done = millrace("records", "convert", *args, "--out", self.folder / "nothing")
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(text, done.stderr)
        self.assertFalse((self.folder / "nothing").exists())

    def test_commands_that_fail_leave_no_folder(self):
        no_records = self.folder / "page.tfrecord"
        no_records.write_text("<html><body>not found</body></html>")
        twin = self.folder / "twin/page.tfrecord"
        twin.parent.mkdir()
        twin.write_bytes(no_records.read_bytes())
        out = self.folder / "made"
        for args in (["convert", "--from", "tfrecord", no_records, "--out"],
                     ["split", no_records, "--out"], ["sample", "--share", 0.5, no_records, "--out"],
                     ["index", "--dali", no_records, "--out-folder"],
                     ["repair", no_records, twin, "--out"]):
            done = millrace("records", *args, out / "for" / "it")
            self.assertEqual(done.returncode, 1, (args, done.stdout))
            self.assertFalse(out.exists(), args)

    def test_prefixes_do_not_leave_the_folder(self):
        out = self.folder / "inside"
        for prefix in ("../x", "/tmp/x", "", "a/b", ".", ".."):
            for args in (["convert", "--from", "tfrecord"], ["split"], ["merge"],
                         ["sample", "--count", 1]):
                done = millrace("records", *args, *self.shards, "--out", out, "--prefix", prefix)
                self.assertEqual(done.returncode, 2, (prefix, args, done.stderr))
                self.assertIn("prefix: ", done.stderr)
        self.assertFalse(out.exists())

    def test_split_merge_and_sample_copy_records(self):
        out = self.folder / "resharded"
        split = millrace("records", "split", *self.shards, "--out", out, "--prefix", "split",
                         "--shards", 3, "--shuffle", 1, "--compression", "gzip")
        self.assertEqual(split.returncode, 0, split.stderr)
        self.assertIn("300 records", split.stdout)
        manifest = json.loads((out / "split.manifest.json").read_text())
        self.assertEqual([shard["file"] for shard in manifest["shards"]],
                         [f"split-{i:05d}-of-00003.tfrecord" for i in range(3)])
        merge = millrace("records", "merge", *self.shards, "--out", out, "--prefix", "one")
        self.assertEqual(merge.returncode, 0, merge.stderr)
        self.assertEqual((out / "one-00000-of-00001.tfrecord").read_bytes(),
                         b"".join(shard.read_bytes() for shard in self.shards))
        for how, count in ((["--count", 7], 7), (["--share", 0.1], 30)):
            sample = millrace("records", "sample", *self.shards, "--out", out, "--prefix", "few",
                              "--overwrite", *how)
            self.assertEqual(sample.returncode, 0, sample.stderr)
            self.assertIn(f"{count} records", sample.stdout)
        for how in ([], ["--count", 7, "--share", 0.1], ["--share", 0]):
            sample = millrace("records", "sample", *self.shards, "--out", out, *how)
            self.assertEqual(sample.returncode, 2, sample.stderr)
            self.assertIn("--share", sample.stderr)

    def test_quarantined_records_are_read_again_and_repaired(self):
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch)
            shard = folder / "a.tfrecord"
            data = bytearray(self.shards[0].read_bytes())
            data[20] ^= 1  # in the payload of record 0
            shard.write_bytes(data)
            plan = folder / "plan.pbtxt"
            plan.write_text(f'stage {{ tfrecord {{ files: "{shard}" }} }}\n'
                            'stage { parse_example { feature { key: "image/class/label" '
                            'name: "label" dtype: INT64 } } }\n'
                            'stage { batch { size: 8 } }\n'
                            'on_damage { policy: "skip" max_count: 1 }\n')
            listed = folder / "bad.jsonl"
            run = millrace("run", plan, "--quarantine", listed, "--json")
            self.assertEqual(run.returncode, 0, run.stderr)
            report = json.loads(run.stdout)
            self.assertEqual((report["samples"], report["records_bad"]), (74, 1))
            self.assertEqual(report["records_damaged"], {"data_crc": 1})
            line = json.loads(listed.read_text())
            self.assertEqual((line["file"], line["ordinal"], line["reason"]),
                             (str(shard), 0, "data_crc"))
            again = millrace("records", "verify", "--from", listed)
            self.assertEqual(again.returncode, 1, again.stderr)
            self.assertIn("1 of 1 places are damaged", again.stdout)
            mended = millrace("records", "repair", shard, "--out", folder / "out")
            self.assertEqual(mended.returncode, 0, mended.stderr)
            self.assertIn("74 records", mended.stdout)
            self.assertEqual(shard.read_bytes(), data)
            whole = millrace("records", "verify", folder / "out" / "a.tfrecord")
            self.assertEqual(whole.returncode, 0, whole.stdout)
            nothing = millrace("records", "verify")
            self.assertEqual(nothing.returncode, 2)

    def test_inspect_counts_records_and_features(self):
        done = millrace("records", "inspect", *self.shards)
        self.assertEqual(done.returncode, 0, done.stderr)
        for expected in ("300", "image/encoded", "image/class/label"):
            self.assertIn(expected, done.stdout)

    @staticmethod
    def tfrecord2idx(path):
        """What DALI's tool of that name writes for a file."""
        data, offset, lines = path.read_bytes(), 0, []
        while offset < len(data):
            size = struct.unpack_from("<Q", data, offset)[0] + 16
            lines.append(f"{offset} {size}\n")
            offset += size
        return "".join(lines)

    def test_index_makes_the_indexes_that_pipelines_use(self):
        cache = self.folder / "cache"
        env = {"XDG_CACHE_HOME": str(cache)}
        done = millrace("records", "index", *self.shards, env=env)
        self.assertEqual(done.returncode, 0, done.stderr)
        for shard in self.shards:
            self.assertRegex(done.stdout, rf"{shard} +75 ")
        self.assertIn("4 files, 300 records", done.stdout)
        self.assertEqual(len(list(cache.glob("millrace/*.index"))), 4)
        self.assertFalse(list(self.folder.glob("*.idx")))

    def test_index_writes_what_dali_reads_and_replaces_nothing_unless_told(self):
        folder = self.folder / "made" / "idx"
        args = ["records", "index", "--dali", "--out-folder", folder, *self.shards]
        done = millrace(*args)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(path.name for path in folder.iterdir()),
                         [f"{shard.name}.idx" for shard in self.shards])
        for shard in self.shards:
            self.assertEqual((folder / f"{shard.name}.idx").read_text(), self.tfrecord2idx(shard))

        mine = folder / f"{self.shards[2].name}.idx"
        mine.write_text("mine")
        (folder / f"{self.shards[0].name}.idx").unlink()
        refused = millrace(*args)
        self.assertEqual(refused.returncode, 1)
        self.assertIn(f"{folder / self.shards[1].name}.idx: exists", refused.stderr)
        self.assertEqual(mine.read_text(), "mine")
        self.assertEqual(len(list(folder.iterdir())), 3)  # nothing was begun
        self.assertEqual(millrace(*args, "--overwrite").returncode, 0)
        self.assertEqual(mine.read_text(), self.tfrecord2idx(self.shards[2]))

    def test_index_names_the_idx_as_it_is_told(self):
        shard = self.folder / "alone.tfrecord"
        shard.write_bytes(self.shards[0].read_bytes())
        self.assertEqual(millrace("records", "index", "--dali", shard).returncode, 0)
        beside = self.folder / "alone.tfrecord.idx"
        self.assertEqual(beside.read_text(), self.tfrecord2idx(shard))
        other = self.folder / "other.idx"
        done = millrace("records", "index", "--dali", "--out", other, shard)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(other.read_text(), self.tfrecord2idx(shard))
        two = millrace("records", "index", "--dali", "--out", other, *self.shards[:2])
        self.assertEqual(two.returncode, 1)
        self.assertIn("--out names the .idx of one file", two.stderr)
        self.assertEqual(millrace("records", "index", "--out", other, shard).returncode, 2)

    def test_index_of_compressed_files_has_no_idx(self):
        zipped = self.folder / "zipped.tfrecord.gz"
        zipped.write_bytes(gzip.compress(self.shards[0].read_bytes()))
        self.assertEqual(millrace("records", "index", zipped).returncode, 0)
        refused = millrace("records", "index", "--dali", zipped)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("is compressed", refused.stderr)
        self.assertFalse((self.folder / "zipped.tfrecord.gz.idx").exists())

    def test_index_of_damage_is_an_error(self):
        torn = self.folder / "torn-index.tfrecord"
        torn.write_bytes(self.shards[0].read_bytes()[:-1])
        done = millrace("records", "index", "--dali", torn)
        self.assertEqual(done.returncode, 1)
        self.assertIn("torn-index.tfrecord", done.stderr)
        self.assertFalse((self.folder / "torn-index.tfrecord.idx").exists())

    def test_index_says_which_containers_need_none(self):
        with tempfile.TemporaryDirectory() as scratch:
            rows = pathlib.Path(scratch) / "rows.csv"
            rows.write_text("a,b\n1,2\n")
            done = millrace("records", "index", rows)
            self.assertEqual(done.returncode, 1)
            self.assertIn("index takes TFRecord alone", done.stderr)
            self.assertIn("fixed_length and idx need none", done.stderr)

    def test_a_plan_reads_by_the_idx_files(self):
        folder = self.folder / "plan-idx"
        folder.mkdir()
        self.assertEqual(millrace("records", "index", "--dali", "--out-folder", folder,
                                  *self.shards).returncode, 0)
        plan = self.folder / "dali.pbtxt"
        stages = ('stage { parse_example { feature { key: "image/class/label" dtype: INT64 } } }\n'
                  "stage { batch { size: 30 } }\n")
        digests = []
        for index in ("", f'dali_index: "{folder}/*.idx"'):
            plan.write_text(f'stage {{ tfrecord {{ files: "{self.folder}/train-*-of-*.tfrecord" '
                            f"{index} }} }}\n{stages}")
            digests.append(run_json(plan, "--digest")["digest"])
        self.assertEqual(digests[0], digests[1])
        first = folder / f"{self.shards[0].name}.idx"
        first.write_text("7" + first.read_text())
        wrong = millrace("run", plan)
        self.assertEqual(wrong.returncode, 1)
        self.assertIn(f"{first}:", wrong.stderr)

    def test_verify_passes_clean_shards(self):
        done = millrace("records", "verify", *self.shards, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        self.assertEqual(report["records"], 300)
        self.assertEqual(report["damage"], [])

    def test_verify_lists_every_damaged_place(self):
        damaged = self.folder / "damaged.tfrecord"
        data = bytearray(self.shards[0].read_bytes())
        first = int.from_bytes(data[:8], "little")
        data[20] ^= 1                    # payload of record 0
        data[12 + first + 4 + 20] ^= 1   # payload of record 1
        damaged.write_bytes(bytes(data) + b"\x01\x02\x03")
        done = millrace("records", "verify", damaged, "--json")
        self.assertEqual(done.returncode, 1)
        found = [(d["ordinal"], d["offset"], d["reason"]) for d in json.loads(done.stdout)["damage"]]
        self.assertEqual(found, [(0, 0, "data_crc"), (1, 16 + first, "data_crc"),
                                 (75, len(data), "truncated_header")])
        plain = millrace("records", "verify", damaged)
        self.assertEqual(plain.returncode, 1)
        self.assertEqual(plain.stdout.count("damaged.tfrecord"), 3, plain.stdout)

    def test_verify_and_cat_go_on_behind_lost_framing(self):
        damaged = self.folder / "lost.tfrecord"
        data = bytearray(self.shards[0].read_bytes())
        data[3] ^= 1  # the length of record 0
        damaged.write_bytes(data)
        done = millrace("records", "verify", damaged, "--json")
        self.assertEqual(done.returncode, 1)
        report = json.loads(done.stdout)
        self.assertEqual(report["records"], 74)
        self.assertEqual([d["reason"] for d in report["damage"]], ["length_crc"])
        cat = millrace("records", "cat", damaged)
        self.assertEqual(cat.returncode, 1)
        self.assertEqual(len(cat.stdout.splitlines()), 74)
        self.assertIn("record 0 at offset 0", cat.stderr)

    def test_verify_and_repair_know_other_containers(self):
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch)
            rows = folder / "rows.csv"
            rows.write_text("name,size\na,1\nb\nc,3\n")
            done = millrace("records", "verify", rows, "--json")
            self.assertEqual(done.returncode, 1, done.stderr)
            found = [(d["offset"], d["ordinal"], d["reason"])
                     for d in json.loads(done.stdout)["damage"]]
            self.assertEqual(found, [(14, 2, "example")])
            mended = millrace("records", "repair", rows, "--out", folder / "out", "--container",
                              "csv", "--header")
            self.assertEqual(mended.returncode, 0, mended.stderr)
            self.assertEqual((folder / "out/rows.csv").read_text(), "name,size\na,1\nc,3\n")
            fixed = millrace("records", "verify", rows, "--container", "fixed_length",
                             "--record-bytes", 7)
            self.assertEqual(fixed.returncode, 1)
            self.assertIn("rows.csv", fixed.stdout)
            refused = millrace("records", "repair", rows, "--out", folder / "out2", "--container",
                               "fixed_length", "--record-bytes", 7)
            self.assertEqual(refused.returncode, 1)
            self.assertIn("cannot be repaired", refused.stderr)
            for wrong in (["--container", "fixed_length"], ["--container", "zip"],
                          ["--container", "text", "--header"],
                          ["--container", "csv", "--delimiter", ";;"]):
                self.assertEqual(millrace("records", "verify", rows, *wrong).returncode, 2, wrong)

    def test_verify_takes_files_patterns_and_folders_together(self):
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch)
            (folder / "photos/cat").mkdir(parents=True)
            (folder / "photos/cat/1.png").write_bytes(b"no image")
            for name in "ab":
                (folder / f"{name}.csv").write_text("1,2\n3\n5,6\n")
            done = millrace("records", "verify", folder / "photos", folder / "*.csv", "--json")
            self.assertEqual(done.returncode, 1, done.stderr)
            found = [pathlib.Path(d["file"]).name for d in json.loads(done.stdout)["damage"]]
            self.assertEqual(found, ["a.csv", "b.csv", "1.png"])
            refused = millrace("records", "verify", folder / "photos", "--container", "csv")
            self.assertEqual(refused.returncode, 2, refused.stdout)
            self.assertIn("folder of images", refused.stderr)

    def test_delimiters_are_the_same_words_for_all_commands(self):
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch)
            rows = folder / "rows"
            rows.write_text("a\tb,c\n1\t2\n")
            csv = ["--container", "csv", "--header", "--delimiter"]
            for command in (["verify", rows], ["repair", rows, "--out", folder / "out"]):
                done = millrace("records", *command, *csv, "\\t")
                self.assertEqual(done.returncode, 0, done.stderr)
                wrong = millrace("records", *command, *csv, '"')
                self.assertEqual(wrong.returncode, 2, wrong.stdout)
                self.assertIn("a quote", wrong.stderr)
            convert = millrace("convert", rows, "--out", folder / "x", "--delimiter", '"')
            self.assertEqual(convert.returncode, 2, convert.stdout)

    def test_quarantined_rows_are_read_again_as_what_they_are(self):
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch)
            rows = folder / "rows"
            rows.write_text("name,size\na,1\nb\n")
            listed = folder / "bad.jsonl"
            listed.write_text("".join(json.dumps(
                {"file": str(rows), "offset": offset, "ordinal": ordinal, "position": 0,
                 "reason": "example"}) + "\n" for offset, ordinal in ((10, 0), (14, 1))))
            csv = ["--container", "csv", "--header"]
            done = millrace("records", "verify", "--from", listed, "--json", *csv)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertEqual([c["damaged"] for c in json.loads(done.stdout)["checks"]],
                             [False, True])
            wrong = millrace("records", "verify", "--from", listed, "--header")
            self.assertEqual(wrong.returncode, 2, wrong.stdout)

    def test_repair_tells_of_files_before_one_that_cannot_be_copied(self):
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch)
            (folder / "a.csv").write_text("1,2\n3\n5,6\n")
            (folder / "b.csv").write_text("\"x\n1,2\n3,4\n")
            done = millrace("records", "repair", folder / "a.csv", folder / "b.csv", "--container",
                            "csv", "--out", folder / "out", "--header")
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertIn("names the columns is damaged", done.stderr)
            self.assertIn("a.csv", done.stdout)
            self.assertTrue((folder / "out/a.csv").exists())
            self.assertFalse((folder / "out/b.csv").exists())

    def test_a_folder_without_images_is_not_passed_over(self):
        done = millrace("records", "verify", self.folder)
        self.assertEqual(done.returncode, 66, done.stdout)
        self.assertIn("1 unreadable", done.stdout)
        self.assertIn(f"if its files hold records, name them: {self.folder}/*", done.stderr)
        for command in ("inspect", "cat"):
            done = millrace("records", command, self.folder)
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertIn("no .jpg, .jpeg, .jpe, .jfif or .png inside", done.stderr)

    def test_verify_reads_the_headers_of_images_in_a_folder(self):
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch)
            (folder / "cat").mkdir()
            (folder / "cat/1.png").write_bytes(b"no image")
            done = millrace("records", "verify", folder)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn("cat/1.png", done.stdout)

    def test_cat_prints_a_record_per_line_of_json(self):
        done = millrace("records", "cat", self.shards[0], "--count", 3)
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual(len(rows), 3)
        self.assertEqual(rows[0]["ordinal"], 0)
        self.assertIn("image/class/label", rows[0]["features"])

    def damaged_copy(self, name, offset=20):
        """A copy of the first shard with a flipped bit at `offset` (20: in record 0's payload)."""
        data = bytearray(self.shards[0].read_bytes())
        data[offset] ^= 1
        copy = self.folder / name
        copy.write_bytes(data)
        return copy

    def test_cat_prints_the_good_records_and_then_the_error(self):
        damaged = self.damaged_copy("catbad.tfrecord")
        for args, ordinals in ((["--count", 3], [1, 2, 3]), ([], [*range(1, 75), *range(75)])):
            done = millrace("records", "cat", damaged, self.shards[1], *args)
            rows = [json.loads(line) for line in done.stdout.splitlines()]
            self.assertEqual(done.returncode, 1)
            self.assertEqual(done.stderr.count("record 0 at offset 0"), 1, done.stderr)
            self.assertEqual([row["ordinal"] for row in rows], ordinals)

    def labels(self, *args):
        done = millrace("records", "cat", *args)
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        return [row["features"]["image/class/label"][0] for row in rows], done

    def test_cat_where_prints_the_records_that_match(self):
        everything, _ = self.labels(*self.shards)
        for where, keeps in (("`image/class/label` in (3, 5)", lambda x: x in (3, 5)),
                             ("`image/class/label` < 2 or `image/class/label`[0] == 9",
                              lambda x: x < 2 or x == 9),
                             ("len(`image/encoded`) > 0 and not `image/class/label` >= 1.5",
                              lambda x: x < 1.5)):
            found, done = self.labels(*self.shards, "--where", where)
            expected = [label for label in everything if keeps(label)]
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(found, expected)
            self.assertEqual(done.stderr, f"matched {len(expected)} of 300 records\n")
        found, done = self.labels(*self.shards, "--where", "`image/class/label` == 3", "--count", 2)
        self.assertEqual(found, [3, 3])
        self.assertIn("matched 2 of ", done.stderr)

    def test_cat_where_counts_records_without_the_feature(self):
        found, done = self.labels(self.shards[0], "--where", "weight > 1 or `image/class/label` == 1")
        self.assertEqual((found, done.returncode), ([], 0))
        self.assertEqual(done.stderr, "matched 0 of 75 records (75 without feature weight)\n")

    def test_cat_where_tells_records_that_cannot_be_judged(self):
        found, done = self.labels(self.shards[0], "--where", "`image/class/label`[1] == 3")
        self.assertEqual((found, done.returncode), ([], 1))
        self.assertIn("record 0 at offset 0: field \"image/class/label\" has shape [1]; the predicate "
                      "reads image/class/label[1] (and 74 more", done.stderr)
        _, done = self.labels(self.shards[0], "--where", "`image/class/label` == 'boot'")
        self.assertIn("cannot compare image/class/label, a number, with \"boot\", bytes", done.stderr)
        found, done = self.labels(self.shards[0], "--where",
                                  "len(`image/class/label`) > 1 and `image/class/label`[1] == 3")
        self.assertEqual((found, done.returncode), ([], 0))

    def test_cat_where_passes_damage_over_and_tells_it(self):
        damaged = self.damaged_copy("wherebad.tfrecord")
        found, done = self.labels(damaged, "--where", "`image/class/label` >= 0")
        self.assertEqual((len(found), done.returncode), (74, 1))
        self.assertIn("matched 74 of 74 records\n", done.stderr)
        self.assertIn("record 0 at offset 0", done.stderr)

    def test_a_wrong_predicate_exits_with_2_and_names_the_column(self):
        done = millrace("records", "cat", "x", "--where", "label = 3")
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stderr, "millrace: usage: --where: column 7: unexpected character =; "
                                      "a comparison is written ==\n")
        self.assertEqual(millrace("records", "cat", "x", "--where", "").returncode, 2)

    def test_inspect_of_damage_prints_it_and_exits_with_1(self):
        done = millrace("records", "inspect", self.damaged_copy("inspectbad.tfrecord"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("1 damaged", done.stdout)
        self.assertIn("record 0 at offset 0", done.stdout)
        self.assertIn("Exit code 1", millrace("records", "inspect", "--help").stdout)

    def test_inspect_tells_unreadable_files_from_damaged_ones(self):
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        for unreadable in ("/dev/zero", pipe):
            done = millrace("records", "inspect", unreadable, self.shards[0])
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"{unreadable}: not a regular file", done.stderr)
            self.assertIn("unreadable", done.stdout)
            self.assertNotIn("damaged", done.stdout)
            self.assertIn("image/encoded", done.stdout)  # the rest of the report
        self.assertEqual(millrace("records", "verify", pipe).returncode, 66)
        self.assertEqual(millrace("records", "cat", pipe).returncode, 1)

    def test_verify_tells_unreadable_files_from_damaged_ones(self):
        images = self.folder / "images" / "cat"
        images.mkdir(parents=True)
        broken = images / "1.jpg"
        broken.symlink_to("/proc/self/mem")  # reading it at 0 is EIO
        for path, file in (("/dev/zero", "/dev/zero"), (images.parent, str(broken))):
            done = millrace("records", "verify", path, self.shards[0])
            self.assertEqual(done.returncode, 66, done.stdout)
            self.assertIn(file, done.stderr)
            self.assertIn("0 damaged places in 0 files, 1 unreadable", done.stdout)
            report = json.loads(millrace("records", "verify", "--json", path).stdout)
            self.assertEqual([entry["file"] for entry in report["unreadable"]], [file])
            self.assertEqual((report["damaged"], report["damage"]), (0, []))
        damaged = self.folder / "damaged.tfrecord"
        damaged.write_bytes(b"no record")
        done = millrace("records", "verify", damaged, "/dev/zero")
        self.assertEqual(done.returncode, 1)
        self.assertIn("1 damaged places in 1 files, 1 unreadable", done.stdout)
        done = millrace("records", "inspect", images.parent)
        self.assertEqual(done.returncode, 1)
        self.assertIn("unreadable", done.stdout)
        self.assertNotIn("damaged", done.stdout)

    def test_verify_from_tells_files_that_cannot_be_read(self):
        bad = self.folder / "bad.jsonl"
        bad.write_text('{"file":"/dev/zero","ordinal":3,"offset":64,"reason":"data_crc"}\n')
        done = millrace("records", "verify", "--from", bad)
        self.assertEqual(done.returncode, 66, done.stdout)
        self.assertIn("unreadable: not a regular file", done.stdout)
        self.assertIn("0 of 1 places are damaged, 1 are in files that cannot be read", done.stdout)
        check = json.loads(millrace("records", "verify", "--json", "--from", bad).stdout)
        self.assertEqual((check["damaged"], check["unreadable"]), (0, 1))

    def test_output_that_cannot_be_written_is_an_error(self):
        for args in (["cat", self.shards[0]], ["cat", "--count", 1, self.shards[0]],
                     ["verify", "--json", self.shards[0]], ["inspect", self.shards[0]]):
            done = millrace_to_full("records", *args)
            self.assertEqual(done.returncode, 1, args)
            self.assertIn("standard output", done.stderr)
        self.assertEqual(millrace_to_full("--help").returncode, 1)

    def test_quick_work_reports_no_progress(self):
        for command in ("inspect", "verify"):
            self.assertEqual(millrace("records", command, *self.shards).stderr, "")

    def test_wrong_values_of_flags_exit_with_2_and_name_the_flag(self):
        convert = ["convert", "--images", "x", "--out", "y", "--from", "idx"]
        for args, named in (([*convert, "--shards", 0], "--shards"),
                            ([*convert, "--shards=-3"], "--shards"),
                            ([*convert, "--shuffle=-1"], "--shuffle"),
                            ([*convert, "--compression", "lzo"], "there are: gzip, none, zlib, zstd"),
                            ([*convert[:-1], "foo"],
                             '--from: there is no "foo"; there are: csv, fixed_length, idx'),
                            ([*convert[:-1], "cvs"], '; did you mean "csv"?'),
                            (["cat", "x", "--container", "cvs"], '; did you mean "csv"?'),
                            (["cat", "x", "--count=-1"], "--count"),
                            (["cat", "x", "--count", "-1"], "--count"),
                            (["verify", "x", "--max-places=-1"], "--max-places"),
                            (["inspect", "x", "--records=-1"], "--records")):
            done = millrace("records", *args)
            self.assertEqual(done.returncode, 2, (args, done.stderr))
            self.assertIn(named, done.stderr)

    def test_an_unknown_subcommand_is_named_with_those_there_are(self):
        done = millrace("nonsense")
        self.assertEqual(done.returncode, 2)
        self.assertIn('"nonsense" is no subcommand of millrace; there are: records, explain, run, '
                      "show, top, tune, audit, doctor, bench, train", done.stderr)
        self.assertIn('"inspekt" is no subcommand of records; did you mean "inspect"?',
                      millrace("records", "inspekt", "x").stderr)

    def test_an_unknown_flag_is_named_with_the_nearest(self):
        for args, named in ((["run", "x", "--bathces", 3],
                             '"--bathces" is no flag of run; did you mean "--batches"?'),
                            (["run", "x", "--bathces=3"],
                             '"--bathces" is no flag of run; did you mean "--batches"?'),
                            (["show", "x", "--uot", "page"],  # --out is missing too
                             '"--uot" is no flag of show; did you mean "--out"?'),
                            (["records", "cat", "x", "-z"], '"-z" is no flag of cat; '),
                            (["explain", "x", "--nothing-like-it"], "there are: --help, "),
                            (["--vresion"], 'no flag of millrace; did you mean "--version"?')):
            done = millrace(*args)
            self.assertEqual(done.returncode, 2, args)
            self.assertIn(named, done.stderr, args)

    def test_a_glob_that_matches_nothing_is_an_error_with_the_nearest_names(self):
        done = millrace("records", "inspect", self.folder / "trian-*.tfrecord")
        self.assertEqual(done.returncode, 1)
        self.assertIn("trian-*", done.stderr)
        self.assertIn("train-00000-of-00004.tfrecord", done.stderr)

    def test_wrong_command_lines_exit_with_2(self):
        for args in (["records"], ["records", "convert"], ["run"], ["nonsense"],
                     ["records", "inspect", "--no-such-flag", "x"]):
            self.assertEqual(millrace(*args).returncode, 2, args)

    def test_help_and_version_exit_with_0(self):
        for args in (["--help"], ["records", "convert", "--help"], ["run", "--help"],
                     ["train", "--help"], ["explain", "--help"]):
            done = millrace(*args)
            self.assertEqual(done.returncode, 0, args)
            self.assertIn("Example", done.stdout)
        version = millrace("--version").stdout
        self.assertRegex(version, r"millrace \d+\.\d+\.\d+ \(.+\)")
        self.assertRegex(version, r"\nvectors: \w+")


if __name__ == "__main__":
    unittest.main()

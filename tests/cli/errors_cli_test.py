"""Errors that say what is so: names, schemes, indexes that are not kept, places."""

import json
import pathlib
import tarfile
import tempfile
import unittest

from cli_testutil import millrace, write_tfrecord

POINTER = ("version https://git-lfs.github.com/spec/v1\noid sha256:" + 64 * "4" +
           "\nsize 12345\n")


class ErrorsTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.shard = self.folder / "a.tfrecord"
        write_tfrecord(self.shard, [b"one", b"two"])

    def fails(self, *args, text, code=1, env=None):
        done = millrace(*args, env=env)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.assertIn(text, done.stderr)
        return done.stderr

    def test_an_index_that_is_not_kept_fails_the_command_that_makes_it(self):
        (self.folder / "file").write_text("")
        in_file = {"XDG_CACHE_HOME": str(self.folder / "file")}
        self.fails("records", "index", self.shard, text="Not a directory", env=in_file)
        nowhere = {"XDG_CACHE_HOME": "", "HOME": ""}
        self.fails("records", "index", self.shard, text="no folder for indexes", env=nowhere)
        kept = {"XDG_CACHE_HOME": str(self.folder / "cache")}
        done = millrace("records", "index", self.shard, env=kept)
        self.assertEqual(done.returncode, 0, done.stderr)
        # DALI's index needs no folder.
        done = millrace("records", "index", "--dali", self.shard, env=in_file)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_schemes_that_are_not_read_or_written_are_said_not_to_be(self):
        for url in ("s3://bucket/a.tfrecord", "gs://bucket/a.tfrecord", "hdfs://n/a.tfrecord"):
            scheme = url[:url.index(":") + 3]
            for command in ("verify", "inspect", "cat", "index"):
                self.fails("records", command, url, text=f"{scheme} is not a scheme")
            self.fails("records", "convert", "--from", "tfrecord", self.shard, "--out", url,
                       text=f"{scheme} is not a scheme", code=2)
            self.fails("records", "split", self.shard, "--out", url, text=f"{scheme} is not")
            plan = self.folder / "plan.pbtxt"
            plan.write_text(f'stage {{ tfrecord {{ files: "{url}" }} }}\n'
                            'stage { padded_batch { size: 1 } }\nlanes: 1\n')
            self.fails("run", plan, text=f"{scheme} is not a scheme")
        self.assertEqual(sorted(p.name for p in self.folder.iterdir()), ["a.tfrecord", "plan.pbtxt"])

    def test_file_urls_are_read(self):
        done = millrace("records", "cat", f"file://{self.shard}")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, millrace("records", "cat", self.shard).stdout)

    def test_pointers_and_pages_are_named_everywhere(self):
        for name in ("a.txt", "a.csv", "a.tar", "b.tfrecord", "t10k-images-idx3-ubyte"):
            path = self.folder / name
            path.write_text(POINTER)
            done = millrace("records", "verify", path)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn("Git LFS pointer", done.stdout)
        for name in ("a.jsonl", "a.csv"):
            (self.folder / name).write_text("<!DOCTYPE html>\n<html></html>\n")
            for command in ("verify", "inspect"):
                done = millrace("records", command, self.folder / name)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn("HTML page", done.stdout)
            self.fails("records", "cat", self.folder / name, text="HTML page")
            self.fails("records", "convert", "--from", name[2:], "--schema", "x:int64", "--out",
                       self.folder / "out", self.folder / name, text="HTML page")
        # Lines of HTML are lines.
        page = self.folder / "a.txt"
        page.write_text("<!DOCTYPE html>\n<html></html>\n")
        for command in ("verify", "inspect", "cat"):
            done = millrace("records", command, page)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("a.txt begins like an HTML page", done.stderr)
        plan = self.folder / "plan.pbtxt"
        plan.write_text(POINTER)
        self.fails("explain", plan, text="Git LFS pointer")
        words = self.folder / "words.txt"
        words.write_text("<!DOCTYPE html>\n<html></html>\n")
        self.fails("records", "cat", f"list:{words}", text="HTML page")
        images = self.folder / "images" / "cat"
        images.mkdir(parents=True)
        (images / "1.jpg").write_text(POINTER)
        self.fails("records", "convert", "--from", "images", "--images", images.parent, "--out",
                   self.folder / "out", text="Git LFS pointer")

    def test_damage_in_a_tar_names_its_record_and_a_missing_member_what_there_is(self):
        path = self.folder / "a.tar"
        with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
            for i in range(4):
                for ending in ("png", "cls"):
                    member = self.folder / f"{i}.{ending}"
                    member.write_text(str(i))
                    tar.add(member, arcname=member.name)
        plan = self.folder / "plan.pbtxt"
        plan.write_text(f'stage {{ tar {{ files: "{path}" }} }}\n'
                        'stage { parse_tar { feature { key: "jpg" name: "image" dtype: BYTES } } }\n'
                        'stage { padded_batch { size: 1 } }\nlanes: 1\n')
        self.fails("run", plan, text="'jpg' is missing; the sample has png, cls")
        whole = path.read_bytes()
        flipped = bytearray(whole)
        flipped[2 * 2048] ^= 1
        # The header of a first member, which may have been of the sample in front of it; the bytes
        # of a first member, and those of a second one.
        for damaged, place in ((flipped, f"{path}: record 1 at offset 2048: "),
                               (whole[:2 * 2048 + 600], f"{path}: record 2 at offset 4096: "),
                               (whole[:2 * 2048 + 1700], f"{path}: record 2 at offset 4096: ")):
            path.write_bytes(damaged)
            self.fails("run", plan, text=f"error: {place}")
            for command in ("verify", "inspect", "cat"):
                done = millrace("records", command, path)
                self.assertEqual(done.returncode, 1, done.stdout)
                self.assertIn(place, done.stdout + done.stderr)
            self.fails("records", "convert", "--from", "tar", "--schema", "cls:int64,png:int64",
                       path, "--out", self.folder / "out", text=f"error: {place}")

    def test_verify_from_says_each_address_once(self):
        data = bytearray(self.shard.read_bytes())
        data[12] ^= 1
        self.shard.write_bytes(data)
        listed = self.folder / "bad.jsonl"
        line = json.dumps({"file": str(self.shard), "offset": 0, "ordinal": 0, "position": 3,
                           "reason": "data_crc"}) + "\n"
        listed.write_text(line + line.replace('"position": 3', '"position": 9'))
        done = millrace("records", "verify", "--from", listed)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(done.stdout.count(str(self.shard)), 1, done.stdout)
        self.assertEqual(done.stdout.count("at offset"), 1, done.stdout)
        self.assertIn("1 of 1 places are damaged", done.stdout)


if __name__ == "__main__":
    unittest.main()

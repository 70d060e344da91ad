"""`millrace records inspect` and `cat` of containers beside TFRecord."""

import csv
import gzip
import io
import json
import pathlib
import struct
import tarfile
import tempfile
import unittest

from cli_testutil import SOURCE, convert_slice, millrace, run_json


class ContainersTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.scratch.cleanup)
        cls.shards = convert_slice(pathlib.Path(cls.scratch.name), "train", 20, 1)

    def check_reads(self, folder, source, stage, cut, samples):
        """A plan with the stage that was printed reads so many samples."""
        plan = folder / "plan.pbtxt"
        plan.write_text(f"stage {{ {source} }}\n{stage}\nstage {{ {cut} {{ size: {samples} }} }}\n")
        self.assertEqual(run_json(plan)["samples"], samples)

    def other_containers(self, folder):
        """The same three samples in containers that Python writes."""
        samples = [{"id": i, "size": i + 0.5, "name": f"n{i}"} for i in range(3)]
        with open(folder / "rows.csv", "w", newline="") as out:
            rows = csv.DictWriter(out, ["id", "size", "name"])
            rows.writeheader()
            rows.writerows(samples)
        (folder / "lines.jsonl").write_text("".join(json.dumps(s) + "\n" for s in samples))
        with tarfile.open(folder / "samples.tar", "w") as tar:
            for number, sample in enumerate(samples):
                for name, value in sample.items():
                    member = tarfile.TarInfo(f"{number}.{name}")
                    member.size = len(str(value))
                    tar.addfile(member, io.BytesIO(str(value).encode()))
        return samples

    def test_cat_prints_other_containers_by_their_names(self):
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch)
            samples = self.other_containers(folder)
            for args, text in ((["rows.csv", "--container", "csv", "--header"], str),
                               (["lines.jsonl"], lambda value: value),
                               (["samples.tar"], str)):
                done = millrace("records", "cat", folder / args[0], *args[1:])
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual([json.loads(line)["features"] for line in done.stdout.splitlines()],
                                 [{key: [text(value)] for key, value in sample.items()}
                                  for sample in samples])
            (folder / "text.txt").write_text("größe\nb\n")
            done = millrace("records", "cat", folder / "text.txt", "--count", 1)
            self.assertEqual(json.loads(done.stdout)["payload"], "größe")
            refused = millrace("records", "cat", folder / "samples.tar", "--where", "`id` > 1")
            self.assertEqual(refused.returncode, 1)
            self.assertIn("samples of tar", refused.stderr)

    def check_idx(self, path):
        """What is said of three images of 2 x 2 pixels, 0 to 11."""
        done = millrace("records", "cat", path)
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([(line["ordinal"], line["offset"], line["bytes"]) for line in lines],
                         [(0, 16, 4), (1, 20, 4), (2, 24, 4)])
        done = millrace("records", "cat", "--raw", path)
        self.assertEqual(done.stdout, bytes(range(12)).decode())
        done = millrace("records", "inspect", path)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, f"{path} +3 .* ok +4 / 4 / 4\n")

    def test_idx_is_known_by_its_name(self):
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch)
            images = struct.pack(">IIII", 0x803, 3, 2, 2) + bytes(range(12))
            for name, data in (("train-images-idx3-ubyte", images),
                               ("t10k-images-idx3-ubyte.gz", gzip.compress(images))):
                (folder / name).write_bytes(data)
                self.check_idx(folder / name)
            cut = folder / "cut-idx3-ubyte"
            cut.write_bytes(images[:-2])
            for command in ("inspect", "cat", "verify"):
                done = millrace("records", command, cut)
                self.assertEqual(done.returncode, 1, command)
                self.assertIn("record 2 at offset 24", done.stdout + done.stderr)

    def test_a_folder_of_images_is_known(self):
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch)
            images = {}
            for name, fixture in (("cat/1.png", "png/rgb.png"), ("cat/2.jpg", "jpeg/grey.jpg"),
                                  ("dog/1.png", "png/grey.png")):
                images[name] = (SOURCE / "tests/fixtures" / fixture).read_bytes()
                (folder / name).parent.mkdir(exist_ok=True)
                (folder / name).write_bytes(images[name])
            done = millrace("records", "cat", folder)
            self.assertEqual(done.returncode, 0, done.stderr)
            lines = [json.loads(line) for line in done.stdout.splitlines()]
            self.assertEqual([(line["file"], line["bytes"]) for line in lines],
                             [(str(folder / name), len(data)) for name, data in images.items()])
            for line, data in zip(lines, images.values()):
                self.assertEqual(line["features"]["image"],
                                 [{"bytes": len(data), "begins": data[:16].hex()}])
            done = millrace("records", "inspect", folder)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stdout, f"{folder} +3 ")
            self.assertRegex(done.stdout, "image +bytes +3 .*1 jpeg; 2 png")
            (folder / "dog/1.png").write_bytes(b"none")
            for command in ("inspect", "cat", "verify"):
                done = millrace("records", command, folder)
                self.assertEqual(done.returncode, 1, command)
                self.assertIn(str(folder / "dog/1.png"), done.stdout + done.stderr)

    def test_inspect_prints_a_stage_that_parses_the_records(self):
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch)
            self.other_containers(folder)
            types = [("id", "INT64"), ("size", "FLOAT32"), ("name", "BYTES")]
            for name, source, flags in (
                    ("rows.csv", "csv { files: \"%s\" header: true }", ["--header"]),
                    ("lines.jsonl", "text { files: \"%s\" }", []),
                    ("samples.tar", "tar { files: \"%s\" }", [])):
                done = millrace("records", "inspect", "--schema", folder / name, *flags)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn("# Guessed from all 3 records", done.stdout)
                for key, dtype in types:
                    self.assertIn(f'feature {{ key: "{key}" dtype: {dtype} }}', done.stdout)
                self.assertIn("--schema 'id:int64,size:float32,name:bytes'", done.stdout)
                self.check_reads(folder, source % (folder / name), done.stdout, "padded_batch", 3)
            refused = millrace("records", "inspect", "--schema", *folder.iterdir())
            self.assertEqual(refused.returncode, 1)
            shards = millrace("records", "inspect", "--schema", self.shards[0], "--records", 5)
            self.assertIn("the first 5 records", shards.stdout)
            self.assertIn('feature { key: "image/class/label" dtype: INT64 }', shards.stdout)

    def test_inspect_takes_an_empty_list_for_one_of_any_size(self):
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch)
            lines = folder / "lines.jsonl"
            lines.write_text('{"x": [1, 2], "y": 1}\n{"x": [], "y": null}\n')
            stage = millrace("records", "inspect", "--schema", lines).stdout
            self.assertIn('key: "x" dtype: INT64 shape: -1', stage)
            self.assertIn('key: "y" dtype: INT64 default_int: 0', stage)
            self.check_reads(folder, f'text {{ files: "{lines}" }}', stage, "ragged_batch", 2)

    def test_inspect_prints_the_option_that_nan_of_json_needs(self):
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch)
            lines = folder / "lines.jsonl"
            lines.write_text('{"x": NaN}\n{"x": 2}\n')
            stage = millrace("records", "inspect", "--schema", lines).stdout
            self.assertIn("--allow-nan --schema 'x:float32'", stage)
            self.check_reads(folder, f'text {{ files: "{lines}" }}', stage, "batch", 2)
            done = millrace("records", "convert", "--from", "jsonl", "--allow-nan", "--schema",
                            "x:float32", lines, "--out", folder / "out")
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_utf16_is_named_where_a_schema_is_asked_for(self):
        with tempfile.TemporaryDirectory() as scratch:
            rows = pathlib.Path(scratch) / "rows.csv"
            rows.write_bytes("a,b\n1,2\n".encode("utf-16"))
            done = millrace("records", "inspect", "--schema", "--header", rows)
            self.assertEqual(done.returncode, 1)
            self.assertIn("UTF-16", done.stderr)

    def test_header_needs_no_container_where_names_tell_csv(self):
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch)
            (folder / "a.csv").write_text("x,y\n1,2\n")
            (folder / "b.tsv").write_text("x\ty\n1\t2\n")
            (folder / "c").write_text("x,y\n1,2\n")
            for name in ("a.csv", "b.tsv"):
                done = millrace("records", "cat", "--header", folder / name)
                self.assertEqual(json.loads(done.stdout)["features"], {"x": ["1"], "y": ["2"]})
            for names in (["c"], ["a.csv", "c"], ["a.csv", "b.tsv"]):
                done = millrace("records", "cat", "--header", *(folder / name for name in names))
                self.assertEqual(done.returncode, 2)
                self.assertIn("--container csv", done.stderr)

    def test_cat_refuses_names_that_are_there_twice(self):
        with tempfile.TemporaryDirectory() as scratch:
            rows = pathlib.Path(scratch) / "rows.csv"
            rows.write_text("a,a,b\n1,2,3\n")
            done = millrace("records", "cat", "--header", rows)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn("'a' is there 2 times", done.stderr)

    def test_inspect_says_what_its_numbers_count(self):
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch)
            self.other_containers(folder)
            done = millrace("records", "inspect", folder / "samples.tar", folder / "rows.csv")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("records: whole ones", done.stdout)
            first = millrace("records", "inspect", self.shards[0], "--records", 3)
            self.assertIn("Not all of each file was read", first.stdout)


if __name__ == "__main__":
    unittest.main()

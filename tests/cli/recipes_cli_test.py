"""The recipes in examples/ that are not ImageNet's own, over small data that is made here."""

import json
import pathlib
import random
import struct
import subprocess
import tempfile
import unittest

from cli_testutil import SOURCE, millrace, run_json

EXAMPLES = SOURCE / "examples"
RECORDS = 40
COUNTS = [f"I{i}" for i in range(1, 14)]
CATEGORIES = [f"C{i}" for i in range(1, 27)]


def write_jpeg(path, draw, width, height):
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = draw.randbytes(3 * width * height)
    image = b"P6\n%d %d\n255\n" % (width, height) + pixels
    path.write_bytes(subprocess.run(["cjpeg"], input=image, capture_output=True, check=True).stdout)


def varint(number):
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(out) + bytes([number])


def sub_message(number, payload):
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def bytes_feature(value):
    return sub_message(1, sub_message(1, value))


def float_feature(values):
    return sub_message(2, sub_message(1, struct.pack(f"<{len(values)}f", *values)))


def int64_feature(values):
    return sub_message(3, sub_message(1, b"".join(map(varint, values))))


def example(features):
    """A tf.train.Example."""
    entries = (sub_message(1, name.encode()) + sub_message(2, feature)
               for name, feature in features.items())
    return sub_message(1, b"".join(sub_message(1, entry) for entry in entries))


def crc32c_table():
    table = []
    for crc in range(256):
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        table.append(crc)
    return table


def masked_crc32c(data, table=tuple(crc32c_table())):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def write_tfrecord(path, records):
    with open(path, "wb") as file:
        for record in records:
            length = struct.pack("<Q", len(record))
            file.write(length + struct.pack("<I", masked_crc32c(length)))
            file.write(record + struct.pack("<I", masked_crc32c(record)))


def click(draw):
    """A line of Criteo's: counts and categories may be missing, counts negative."""
    counts = [draw.choice(["", "-1", "0", str(draw.randrange(10_000))]) for _ in COUNTS]
    categories = [draw.choice(["", f"{draw.randrange(2**32):08x}"]) for _ in CATEGORIES]
    return "\t".join([str(draw.randrange(2)), *counts, *categories])


class RecipesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.scratch.name)

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def convert(self, name, *args):
        """Converts something to TFRecord shards and returns their folder."""
        out = self.folder / name
        done = millrace("records", "convert", "--out", out, "--shards", 2, *args)
        self.assertEqual(done.returncode, 0, done.stderr)
        return out

    def images(self, size):
        photos = self.folder / f"photos{size}"
        if not photos.exists():
            draw = random.Random(size)
            for i in range(RECORDS):
                write_jpeg(photos / f"class{i % 4}" / f"{i}.jpg", draw, size, size)
        return self.convert(f"shards{size}", "--from", "images", "--images", photos)

    def clicks(self):
        path = self.folder / "train.txt"
        draw = random.Random(3)
        path.write_text("".join(click(draw) + "\n" for _ in range(RECORDS)))
        return path

    def examples(self, name, lines, schema):
        path = self.folder / f"{name}.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return self.convert(name, "--from", "jsonl", path, "--schema", schema)

    def expect_fields(self, recipe, flags, *fields):
        """Runs two epochs, checks that every record came, and that a batch has these fields."""
        flags = [word for flag in (*flags, "BATCH=8") for word in ("--var", flag)]
        report = run_json(EXAMPLES / recipe, *flags, "--batches", 2 * RECORDS // 8, "--digest")
        self.assertEqual(report["samples"], 2 * RECORDS)
        self.assertEqual(report["records_bad"], 0)
        done = millrace("explain", EXAMPLES / recipe, *flags)
        self.assertEqual(done.returncode, 0, done.stderr)
        for field in fields:
            self.assertIn(field, done.stdout)

    def digest_in_order(self, recipe, *flags):
        """The digest of an epoch of the recipe without its shuffle."""
        lines = (EXAMPLES / recipe).read_text().splitlines()
        kept = [line for line in lines if "global_shuffle" not in line]
        self.assertEqual(len(kept), len(lines) - 1)
        plan = self.folder / "in_order.pbtxt"
        plan.write_text("\n".join(kept))
        flags = [word for flag in (*flags, "BATCH=8") for word in ("--var", flag)]
        return run_json(plan, *flags, "--batches", RECORDS // 8, "--digest")["digest"]

    def test_each_header_has_a_command_of_one_line_for_its_own_file(self):
        recipes = sorted(EXAMPLES.glob("*/train*.pbtxt"))
        self.assertGreaterEqual(len(recipes), 7)
        for recipe in recipes:
            commands = [line for line in recipe.read_text().splitlines()
                        if line.startswith("#   millrace ")]
            self.assertEqual(len(commands), 1, recipe)
            self.assertIn(str(recipe.relative_to(SOURCE)), commands[0])

    def test_cifar(self):
        self.expect_fields("cifar/train.pbtxt", [f"DATA={self.images(32)}"],
                           "image: float32[32, 32, 3]", "label: int64[]")

    def scenes(self, name, box):
        """Shards of images with up to four boxes each and their classes."""
        folder = self.folder / name
        draw, records = random.Random(6), []
        for i in range(RECORDS):
            photo = folder / "photos" / f"{i}.jpg"
            write_jpeg(photo, draw, draw.randrange(40, 90), draw.randrange(40, 90))
            boxes = [box(draw) for _ in range(i % 5)]
            records.append(example({
                "image/encoded": bytes_feature(photo.read_bytes()),
                "boxes": float_feature([x for one in boxes for x in one]),
                "classes": int64_feature([draw.randrange(80) for _ in boxes])}))
        for shard in range(2):
            write_tfrecord(folder / f"train-{shard}.tfrecord", records[shard::2])
        return folder

    def test_detection(self):
        def box(draw):
            left, top = draw.uniform(0, 0.6), draw.uniform(0, 0.6)
            return left, top, left + draw.uniform(0.1, 0.4), top + draw.uniform(0.1, 0.4)

        self.expect_fields("detection/train.pbtxt", [f"DATA={self.scenes('scenes', box)}"],
                           "image: float32[320, 320, 3]", "boxes: float32[?, 4]", "classes: int64[?]")

    def test_detection_names_a_box_that_ends_before_it_begins(self):
        shards = self.scenes("inverted", lambda draw: (0.75, 0.25, 0.5, 0.5))
        done = millrace("run", EXAMPLES / "detection/train.pbtxt", "--var", f"DATA={shards}", "--var",
                        "BATCH=8", "--batches", 5)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("boxes: box 0 has its second corner left of or above its first", done.stderr)

    def test_imagenet_as_torchvision_and_dali_have_it(self):
        images = self.images(260)
        self.expect_fields("imagenet/train_torchvision.pbtxt", [f"DATA={images}"],
                           "image: float32[3, 224, 224]", "label: int64[]")
        self.expect_fields("imagenet/train_dali.pbtxt", [f"DATA={images}"],
                           "image: float16[3, 224, 224]", "label: int64[]")

    def test_tabular_is_the_same_of_examples_and_of_the_lines_they_were_made_of(self):
        path = self.clicks()
        schema = ",".join(["label:int64", *(f"{name}:int64?" for name in COUNTS),
                           *(f"{name}:bytes?" for name in CATEGORIES)])
        shards = self.convert("clicks", "--from", "csv", path, "--delimiter", "\t", "--schema", schema)
        fields = ("dense: float32[13]", "sparse: int64[26]", "label: int64[]")
        self.expect_fields("tabular/train.pbtxt", [f"DATA={shards}"], *fields)
        self.expect_fields("tabular/train_tsv.pbtxt", [f"DATA={path}"], *fields)
        digest = self.digest_in_order("tabular/train.pbtxt", f"DATA={shards}")
        self.assertEqual(self.digest_in_order("tabular/train_tsv.pbtxt", f"DATA={path}"), digest)
        other = self.digest_in_order("tabular/train.pbtxt", f"DATA={shards}", "BINS=1000")
        self.assertNotEqual(other, digest)

    def test_text(self):
        draw = random.Random(4)
        rows = [{"tokens": [draw.randrange(100) for _ in range(draw.randrange(20))]}
                for _ in range(RECORDS)]
        shards = self.examples("tokens", rows, "tokens:int64[]")
        self.expect_fields("text/train.pbtxt", [f"DATA={shards}", "LENGTH=12"],
                           "tokens: int64[12]", "attention_mask: int64[12]")

    def test_words_are_their_numbers_in_the_vocabulary(self):
        draw = random.Random(5)
        words = [f"word{i}" for i in range(50)]
        lines = [draw.choices(words, k=draw.randrange(20)) for _ in range(RECORDS)]
        text, vocabulary = self.folder / "corpus.txt", self.folder / "vocab.txt"
        text.write_text("".join(" ".join(line) + "\n" for line in lines))
        vocabulary.write_text("".join(word + "\n" for word in words))
        flags = [f"DATA={text}", f"VOCAB={vocabulary}", "LENGTH=12"]
        self.expect_fields("text/train_words.pbtxt", flags,
                           "tokens: int64[12]", "attention_mask: int64[12]")

    def test_a_run_does_not_go_on_with_another_vocabulary(self):
        text, vocabulary = self.folder / "few.txt", self.folder / "few_vocab.txt"
        token = self.folder / "run.token"
        text.write_text("a b\n" * RECORDS)
        vocabulary.write_text("a\nb\n")
        command = ["run", EXAMPLES / "text/train_words.pbtxt", "--var", f"DATA={text}", "--var",
                   f"VOCAB={vocabulary}", "--var", "BATCH=8", "--batches", 2, "--token-file", token]
        self.assertEqual(millrace(*command).returncode, 0)
        self.assertEqual(millrace(*command).returncode, 0)
        vocabulary.write_text("b\na\n")
        done = millrace(*command)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("plan fingerprint", done.stderr)

    def test_an_unknown_word_names_the_record_the_field_and_the_word(self):
        text, vocabulary = self.folder / "one.txt", self.folder / "one_vocab.txt"
        text.write_text("a\na c\n")
        vocabulary.write_text("a\n")
        plan = self.folder / "strict.pbtxt"
        plan.write_text(f"""
stage {{ text {{ files: "{text}" }} }}
stage {{ vocabulary {{ field: "record" file: "{vocabulary}" split: "whitespace" }} }}
stage {{ ragged_batch {{ size: 2 }} }}
""")
        done = millrace("run", plan)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(f'{text}: record 1', done.stderr)
        self.assertIn('record: token "c" is not in', done.stderr)


if __name__ == "__main__":
    unittest.main()

"""`millrace show`: the pages' pixels are the batches', and nothing in them is what data says it
is."""

import base64
import html
import html.parser
import os
import pathlib
import random
import re
import struct
import tempfile
import unittest
import zlib

from cli_testutil import SOURCE, convert_slice, millrace, write_tfrecord
from example_testutil import example

HEIGHT, WIDTH = 12, 9
IMAGES = 10
HOSTILE = b'<script>alert(1)</script>" onload="x\' &amp;\x00\x01\xff\xc3'


def unfilter(kind, line, above, bpp):
    """One row of a PNG, by the filters of its specification."""
    out = bytearray(line)
    for i, value in enumerate(line):
        a = out[i - bpp] if i >= bpp else 0
        b = above[i]
        c = above[i - bpp] if i >= bpp else 0
        p = a + b - c
        paeth = min((a, b, c), key=lambda x: abs(p - x))
        out[i] = (value + (0, a, b, (a + b) // 2, paeth)[kind]) & 255
    return bytes(out)


def decode_png(png):
    """(width, height, channels, pixels) of an 8-bit grey or RGB PNG."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    at, data = 8, b""
    while at < len(png):
        size, kind = struct.unpack(">I4s", png[at:at + 8])
        chunk = png[at + 8:at + 8 + size]
        if kind == b"IHDR":
            width, height, depth, color = struct.unpack(">IIBB", chunk[:10])
        elif kind == b"IDAT":
            data += chunk
        at += size + 12
    assert depth == 8 and color in (0, 2)
    channels = 1 if color == 0 else 3
    raw, stride = zlib.decompress(data), width * channels
    pixels, above = b"", bytes(stride)
    for y in range(height):
        start = y * (stride + 1)
        above = unfilter(raw[start], raw[start + 1:start + 1 + stride], above, channels)
        pixels += above
    return width, height, channels, pixels


def encode_png(width, height, pixels):
    """An RGB PNG without filters."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    lines = b"".join(b"\0" + pixels[i:i + 3 * width] for i in range(0, len(pixels), 3 * width))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b""))


def window(title):
    """(first row, last row, first column, last column) of the crop that a title tells of."""
    match = re.search(r"-> rows (\d+) to (\d+), columns (\d+) to (\d+)", title)
    return tuple(map(int, match.groups()))


class Page(html.parser.HTMLParser):
    """What a browser would see: tags, images, captions."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.text, self.tags, self.images, self.titles, self.captions = text, [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, [name for name, _ in attrs]))
        if tag == "img":
            attrs = dict(attrs)
            self.titles.append(attrs["title"])
            prefix = "data:image/png;base64,"
            assert attrs["src"].startswith(prefix)
            self.images.append(decode_png(base64.b64decode(attrs["src"][len(prefix):])))

    def handle_data(self, data):
        self.captions.append(data)

    def rows(self):
        """The texts of the cells of all tables, row by row."""
        return [[html.unescape(re.sub("<[^>]*>", "", cell))
                 for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row)]
                for row in re.findall(r"<tr>(.*?)</tr>", self.text, re.DOTALL)]


class ShowTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.scratch.name)
        draw = random.Random(4)
        cls.images = [draw.randbytes(HEIGHT * WIDTH * 4) for _ in range(IMAGES)]

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def show(self, plan, *args, out="page.html", code=0):
        path = self.folder / "plan.pbtxt"
        path.write_text(plan)
        done = millrace("show", path, "-o", self.folder / out, *args)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def page(self, plan, *args):
        self.show(plan, *args)
        return Page((self.folder / "page.html").read_text(encoding="utf-8"))

    def raw(self, channels, stages, shape=None, batch="batch { size: 4 }"):
        """A plan over raw images [HEIGHT, WIDTH, channels], and their bytes."""
        size = HEIGHT * WIDTH * channels
        images = [image[:size] for image in self.images]
        (self.folder / "raw.bin").write_bytes(b"".join(images))
        plan = f"""
            stage {{ fixed_length {{ files: "{self.folder}/raw.bin" record_bytes: {size} }} }}
            stage {{ decode_raw {{ output: "image" shape: {shape or [HEIGHT, WIDTH, channels]} }} }}
            {stages}
            stage {{ {batch} }}
        """
        return plan, images

    def pixels(self, page):
        return [image[3] for image in page.images]

    def test_uint8_pixels_are_the_batch_s(self):
        for channels in (1, 3):
            plan, images = self.raw(channels, "")
            page = self.page(plan, "--batches", 3)
            self.assertEqual(self.pixels(page), images)
            self.assertEqual(page.images[0][:3], (WIDTH, HEIGHT, channels))

    def test_rows_and_batches_are_limited(self):
        plan, images = self.raw(3, "")
        self.assertEqual(self.pixels(self.page(plan)), images[:4])
        page = self.page(plan, "--batches", 2, "--rows", 3)
        self.assertEqual(self.pixels(page), images[:3] + images[4:7])

    def test_normalised_images_are_mapped_back_by_the_plan(self):
        normalize = """stage { normalize { field: "image" mean: [123.675, 116.28, 103.53]
                                           stddev: [58.395, 57.12, 57.375] } }"""
        for more in ("", "stage { transpose {} }", 'stage { pad_channels { value: 7 } }',
                     'stage { cast { field: "image" dtype: FLOAT32 scale: 0.25 } }',
                     "stage { pad_channels {} } stage { transpose {} }"):
            plan, images = self.raw(3, normalize + more)
            page = self.page(plan)
            self.assertEqual(self.pixels(page), images[:4], more)
            self.assertIn("mapped back", page.text)
            self.assertNotIn("stretched", page.text)

    def test_scaled_images_are_mapped_back_too(self):
        plan, images = self.raw(
            1, 'stage { cast { field: "image" dtype: FLOAT32 scale: 0.003921569 } }')
        page = self.page(plan)
        self.assertEqual(self.pixels(page), images[:4])
        self.assertIn("mapped back", page.text)

    def test_halves_show_what_is_left_of_the_pixels(self):
        plan, images = self.raw(3, 'stage { cast { field: "image" dtype: FLOAT16 } }')
        page = self.page(plan)
        self.assertEqual(self.pixels(page), images[:4])
        self.assertNotIn("mapped back", page.text)

    def test_a_fourth_channel_is_shown_beside_the_others(self):
        plan, images = self.raw(4, "")
        page = self.page(plan, "--rows", 1)
        self.assertEqual([image[2] for image in page.images], [3, 1])
        first = images[0]
        self.assertEqual(page.images[0][3], b"".join(first[i:i + 3] for i in range(0, len(first), 4)))
        self.assertEqual(page.images[1][3], first[3::4])
        self.assertIn("fourth channel", page.text)

    def test_a_channel_that_was_added_to_raw_pixels_is_left_out(self):
        for channels in (1, 3):
            for more in ("stage { pad_channels { value: 7 } }",
                         "stage { flip { probability: 0 } } stage { pad_channels {} }"):
                plan, images = self.raw(channels, more)
                page = self.page(plan)
                self.assertEqual(self.pixels(page), images[:4], more)
                self.assertNotIn("fourth channel", page.text)
        plan, _ = self.raw(3, "stage { transpose { perm: [1, 2, 0] } } stage { pad_channels {} }",
                           shape=[3, HEIGHT, WIDTH])
        page = self.page(plan)
        self.assertEqual([image[2] for image in page.images], [3] * 4)

    def test_mixed_images_keep_their_range(self):
        # Pixels of 100 to 120, which would become 0 to 255 if they were stretched.
        draw = random.Random(6)
        images = [bytes(draw.randrange(100, 121) for _ in range(HEIGHT * WIDTH * 3))
                  for _ in range(8)]
        write_tfrecord(self.folder / "labelled.tfrecord",
                       [example({"pixels": [image], "label": [i % 3]})
                        for i, image in enumerate(images)])
        for mix in ("mixup { num_classes: 3 }", "cutmix { num_classes: 3 }",
                    "mixup_or_cutmix { num_classes: 3 }"):
            page = self.page(f"""
                stage {{ tfrecord {{ files: "{self.folder}/labelled.tfrecord" }} }}
                stage {{ parse_example {{ feature {{ key: "pixels" dtype: BYTES }}
                                          feature {{ key: "label" dtype: INT64 }} }} }}
                stage {{ decode_raw {{ field: "pixels" output: "image"
                                       shape: [{HEIGHT}, {WIDTH}, 3] }} }}
                stage {{ normalize {{ mean: [110, 111, 112] stddev: [4, 5, 6] }} }}
                stage {{ batch {{ size: 8 }} }}
                stage {{ {mix} }}
            """)
            self.assertEqual(len(page.images), 8)
            for image in page.images:
                self.assertTrue(all(100 <= pixel <= 120 for pixel in image[3]), mix)
            self.assertNotIn("stretched", page.text)
            self.assertIn("mapped back", page.text)
            self.assertTrue(any(image[3] not in images for image in page.images), mix)

    def test_a_mask_has_the_stages_of_its_image(self):
        draw = random.Random(7)
        masks = [draw.randbytes(HEIGHT * WIDTH) for _ in range(4)]
        write_tfrecord(self.folder / "masks.tfrecord",
                       [example({"pixels": [self.images[i][:HEIGHT * WIDTH * 3]], "mask": [mask]})
                        for i, mask in enumerate(masks)])
        page = self.page(f"""
            stage {{ tfrecord {{ files: "{self.folder}/masks.tfrecord" }} }}
            stage {{ parse_example {{ feature {{ key: "pixels" dtype: BYTES }}
                                      feature {{ key: "mask" dtype: BYTES }} }} }}
            stage {{ decode_raw {{ field: "pixels" output: "image" shape: [{HEIGHT}, {WIDTH}, 3] }} }}
            stage {{ decode_raw {{ field: "mask" output: "segments" shape: [{HEIGHT}, {WIDTH}, 1] }} }}
            stage {{ random_crop {{ height: 6 width: 5 mask: "segments" }} }}
            stage {{ flip {{ mask: "segments" }} }}
            stage {{ batch {{ size: 4 }} }}
        """)
        titles = [t for t in page.titles if t.startswith("segments")]
        pixels = [i[3] for i, t in zip(page.images, page.titles) if t.startswith("segments")]
        of_images = [t for t in page.titles if t.startswith("image")]
        self.assertEqual(len(titles), 4)
        for title, image, shown, mask in zip(titles, of_images, pixels, masks):
            self.assertEqual(window(title), window(image))
            self.assertEqual("-> acted" in title, "-> acted" in image)
            self.assertIn("flip", title)
            top, bottom, left, right = window(title)
            rows = [mask[y * WIDTH + left:y * WIDTH + right + 1] for y in range(top, bottom + 1)]
            step = -1 if "-> acted" in title else 1
            self.assertEqual(shown, b"".join(row[::step] for row in rows))

    def test_random_erasing_is_not_said_to_have_erased(self):
        # No rectangle of that shape fits, so images stay as they are.
        plan, images = self.raw(3, """stage { random_erasing { probability: 1 area: [0.9, 0.9]
                                                               aspect: [50, 50] } }""")
        page = self.page(plan)
        self.assertEqual(self.pixels(page), images[:4])
        for title in page.titles:
            self.assertIn("-> acted, if one of ten rectangles fitted", title)

    def test_large_images_are_shown_reduced(self):
        # Rows of 0 and 255 by turns: the mean of each pair is 128.
        height, width = 700, 3
        size = height * width
        (self.folder / "tall.bin").write_bytes((bytes(width) + b"\xff" * width) * (height // 2))
        page = self.page(f"""
            stage {{ fixed_length {{ files: "{self.folder}/tall.bin" record_bytes: {size} }} }}
            stage {{ decode_raw {{ output: "image" shape: [{height}, {width}, 1] }} }}
            stage {{ batch {{ size: 1 }} }}
        """)
        self.assertEqual(page.images[0], (2, 350, 1, b"\x80" * 700))
        self.assertIn("shown at 1/2 of 3 x 700", "".join(page.captions))

    def test_a_plan_that_uses_the_page_s_own_names_is_shown_all_the_same(self):
        pixels = bytes(3 * 16 * 16)
        write_tfrecord(self.folder / "named.tfrecord",
                       [example({"image/encoded": [encode_png(16, 16, pixels)]})])
        page = self.page(f"""
            stage {{ tfrecord {{ files: "{self.folder}/named.tfrecord" }} }}
            stage {{ parse_example {{ feature {{ key: "image/encoded" dtype: BYTES }} }} }}
            stage {{ decode_image {{}} }}
            stage {{ name: "millrace_note_extents_2" flip {{}} }}
            stage {{ random_crop {{ height: 8 width: 8 }} }}
            stage {{ batch {{ size: 1 }} }}
        """)
        self.assertEqual(page.images[0][:2], (8, 8))

    def test_long_text_is_cut_between_characters(self):
        text = "a" * 79 + "\u00e9" * 10  # the 80th byte is half a character
        write_tfrecord(self.folder / "text.tfrecord",
                       [example({"text": [text.encode()], "pixels": [bytes(16 * 16 * 3)]})])
        page = self.page(f"""
            stage {{ tfrecord {{ files: "{self.folder}/text.tfrecord" }} }}
            stage {{ parse_example {{ feature {{ key: "text" dtype: BYTES }}
                                      feature {{ key: "pixels" dtype: BYTES }} }} }}
            stage {{ decode_raw {{ field: "pixels" output: "image" shape: [16, 16, 3] }} }}
            stage {{ padded_batch {{ size: 1 }} }}
        """)
        self.assertIn('text: "' + "a" * 79 + '"... 99 bytes', "".join(page.captions))

    def test_values_of_unknown_origin_are_stretched_and_it_says_so(self):
        values = [-2.0, 0.0, 1.0, 3.0] * 3
        values[1], values[5] = float("nan"), float("inf")
        write_tfrecord(self.folder / "floats.tfrecord", [example({"map": values})])
        page = self.page(f"""
            stage {{ tfrecord {{ files: "{self.folder}/floats.tfrecord" }} }}
            stage {{ parse_example {{ feature {{ key: "map" dtype: FLOAT32 shape: [2, 6, 1] }} }} }}
            stage {{ batch {{ size: 1 }} }}
        """)
        expected = [0, 0, 153, 255, 0, 255, 153, 255, 0, 102, 153, 255]
        self.assertEqual(list(page.images[0][3]), expected)
        self.assertIn("stretched: black is -2, white 3", page.text)
        self.assertIn("a guess from its extents", page.text)

    def test_channels_first_is_found_in_the_plan_and_guessed_without_one(self):
        chw = [b"".join(image[c::3] for c in range(3))
               for image in (whole[:HEIGHT * WIDTH * 3] for whole in self.images)]
        plan, _ = self.raw(3, "", shape=[3, HEIGHT, WIDTH])
        (self.folder / "raw.bin").write_bytes(b"".join(chw))
        images = [whole[:HEIGHT * WIDTH * 3] for whole in self.images]
        page = self.page(plan)
        self.assertEqual(self.pixels(page), images[:4])
        self.assertIn("[channels, height, width] is a guess", page.text)
        plan, _ = self.raw(3, "stage { transpose { perm: [1, 2, 0] } }", shape=[3, HEIGHT, WIDTH])
        (self.folder / "raw.bin").write_bytes(b"".join(chw))
        page = self.page(plan)
        self.assertEqual(self.pixels(page), images[:4])
        self.assertNotIn("a guess", page.text)

    def test_hovering_tells_options_and_whether_a_stage_acted(self):
        plan, images = self.raw(3, "stage { flip { probability: 0.5 } }")
        page = self.page(plan, "--batches", 3)
        flips = 0
        for image, title, original in zip(page.images, page.titles, images):
            lines = [original[i:i + 3 * WIDTH] for i in range(0, len(original), 3 * WIDTH)]
            flipped = b"".join(line[i:i + 3] for line in lines
                               for i in range(3 * WIDTH - 3, -1, -3))
            acted = "-> acted" in title
            self.assertEqual(image[3], flipped if acted else original)
            self.assertNotEqual(acted, "-> did nothing" in title)
            self.assertIn("probability: 0.5", title)
            self.assertIn("decode_raw", title)
            flips += acted
        self.assertGreater(flips, 0)
        self.assertLess(flips, IMAGES)

    def test_hovering_tells_what_colours_drew(self):
        stages = ('stage { brightness { factor: [0.5, 1.5] probability: 0.5 } } '
                  'stage { color_jitter { saturation: 0.5 hue: 0.1 probability: 0 } }')
        plan, images = self.raw(3, stages)
        page = self.page(plan, "--batches", 3)
        factors = set()
        for image, title, original in zip(page.images, page.titles, images):
            match = re.search(r"-> acted  -> factor (\S+)", title)
            self.assertNotIn("saturation 0", title)  # drawn only where it acts
            self.assertEqual(match is None, image[3] == original, title)
            if match is None:
                continue
            factor = float(match[1])
            factors.add(factor)
            for got, was in zip(image[3], original):
                self.assertLessEqual(abs(got - min(was * factor, 255)), 1.1)
        self.assertGreater(len(factors), 1)

    def test_hovering_tells_what_jitter_affine_and_policies_drew(self):
        stages = """stage { color_jitter { brightness: 0.3 hue: 0.1 } }
                    stage { affine { degrees: [-9, 9] translate: [0.5, 0.5] } }
                    stage { auto_augment { policy: "trivial_augment" } }
                    stage { auto_augment { policy: "rand_augment" magnitude: 3 } }"""
        plan, _ = self.raw(3, stages)
        names, orders = set(), set()
        for title in self.page(plan, "--batches", 3).titles:
            jitter, affine, one, two = [line.split("  -> ")[-1] for line in title.splitlines()[2:]]
            orders.add(tuple(re.findall("brightness|hue", jitter)))
            self.assertEqual(len(re.findall(r"(?:brightness|hue) -?\d", jitter)), 2)
            degrees, right, down = re.match(
                r"(\S+) degrees, scale 1, shear 0 and 0 degrees, (\S+) pixels to the right and "
                r"(\S+) down$", affine).groups()
            self.assertLessEqual(abs(float(degrees)), 9)
            self.assertLessEqual(abs(int(right)), WIDTH // 2 + 1)
            self.assertLessEqual(abs(int(down)), HEIGHT // 2 + 1)
            names.add(one.split()[0])
            self.assertEqual(len(two.split(", ")), 2)
        self.assertEqual(orders, {("brightness", "hue"), ("hue", "brightness")})
        self.assertGreater(len(names), 2)

    def test_hovering_tells_where_a_random_crop_lies(self):
        plan, images = self.raw(3, """stage { pad { top: 2 left: 3 right: 1 } }
                                      stage { flip { probability: 0 } }
                                      stage { random_crop { height: 6 width: 5 } }""")
        page = self.page(plan, "--batches", 3)
        windows = set()
        for image, title, original in zip(page.images, page.titles, images):
            lines = [bytes(3 * (WIDTH + 4))] * 2
            lines += [bytes(9) + original[i:i + 3 * WIDTH] + bytes(3)
                      for i in range(0, len(original), 3 * WIDTH)]
            top, bottom, left, right = window(title)
            self.assertEqual((bottom - top + 1, right - left + 1), (6, 5))
            self.assertEqual(image[3], b"".join(line[3 * left:3 * right + 3]
                                                for line in lines[top:bottom + 1]))
            windows.add((top, left))
        self.assertGreater(len(windows), 3)

    def test_hovering_tells_where_a_resized_crop_lies(self):
        # Red is twice the column, green twice the row: their means are those of the window.
        sizes = [(100, 80), (60, 120), (90, 90), (40, 30)]
        records = []
        for width, height in sizes:
            pixels = b"".join(bytes((2 * x, 2 * y, 7)) for y in range(height) for x in range(width))
            records.append(example({"image/encoded": [encode_png(width, height, pixels)]}))
        write_tfrecord(self.folder / "ramps.tfrecord", records)
        page = self.page(f"""
            stage {{ tfrecord {{ files: "{self.folder}/ramps.tfrecord" }} }}
            stage {{ parse_example {{ feature {{ key: "image/encoded" dtype: BYTES }} }} }}
            stage {{ decode_image {{}} }}
            stage {{ random_resized_crop {{ height: 32 width: 32 area: [0.2, 0.9] }} }}
            stage {{ normalize {{ mean: [1, 2, 3] stddev: [4, 5, 6] }} }}
            stage {{ repeat {{ epochs: 5 }} }}
            stage {{ batch {{ size: 4 }} }}
        """, "--batches", 5)
        self.assertEqual(len(page.images), 20)
        for i, (image, title) in enumerate(zip(page.images, page.titles)):
            top, bottom, left, right = window(title)
            width, height = sizes[i % 4]
            self.assertTrue(0 <= top <= bottom < height and 0 <= left <= right < width, title)
            self.assertAlmostEqual(sum(image[3][0::3]) / 32**2, left + right, delta=1.5)
            self.assertAlmostEqual(sum(image[3][1::3]) / 32**2, top + bottom, delta=1.5)
        self.assertGreater(len(set(map(window, page.titles))), 16)

    def test_a_plan_that_cannot_be_opened_is_told_by_its_own_lines(self):
        plan, _ = self.raw(3, '\n\nstage { flip { field: "imag" } }')
        line = 1 + plan[:plan.index("flip")].count("\n")
        self.assertIn(f"plan.pbtxt:{line}:", self.show(plan, code=1).stderr)

    def test_padding_rows_are_left_out(self):
        plan, images = self.raw(3, "")
        page = self.page(plan, "--batches", 9)  # 10 rows in batches of 4
        self.assertEqual(self.pixels(page), images)

    def test_images_of_padded_and_ragged_batches_have_their_own_size(self):
        sizes = [(9, 3), (2, 3), (5, 3)]
        pixels = [random.Random(i).randbytes(h * 3 * 3) for i, (h, _) in enumerate(sizes)]
        write_tfrecord(self.folder / "sizes.tfrecord", [example({"pixels": [p]}) for p in pixels])
        for batch in ("padded_batch", "ragged_batch"):
            page = self.page(f"""
                stage {{ tfrecord {{ files: "{self.folder}/sizes.tfrecord" }} }}
                stage {{ parse_example {{ feature {{ key: "pixels" dtype: BYTES }} }} }}
                stage {{ decode_raw {{ field: "pixels" output: "image" shape: [-1, 3, 3] }} }}
                stage {{ {batch} {{ size: 3 }} }}
            """)
            self.assertEqual(self.pixels(page), pixels, batch)
            self.assertEqual([image[1] for image in page.images], [9, 2, 5])

    def test_hostile_bytes_are_text_and_nothing_else(self):
        # In a label, in the name of a field, and in the name of a file.
        folder = self.folder / '<b>"x'
        folder.mkdir(exist_ok=True)
        images = [bytes(16 * 16 * 3)] * 2
        write_tfrecord(folder / "a'<i>.tfrecord",
                       [example({"<img src=x>": [label], "pixels": [image]})
                        for label, image in zip((HOSTILE, b"<script>x</script>"), images)])
        page = self.page(f"""
            name: "</title><script>y</script>"
            stage {{ tfrecord {{ files: "{str(folder).replace('"', chr(92) + '"')}/*" }} }}
            stage {{ parse_example {{
              feature {{ key: "<img src=x>" dtype: BYTES }}
              feature {{ key: "pixels" dtype: BYTES }}
            }} }}
            stage {{ decode_raw {{ field: "pixels" output: "image" shape: [16, 16, 3] }} }}
            stage {{ padded_batch {{ size: 2 }} }}
        """)
        known = {"html", "head", "meta", "style", "title", "body", "h1", "h2", "p", "details",
                 "summary", "ol", "li", "section", "figure", "img", "figcaption", "span"}
        for tag, attributes in page.tags:
            self.assertIn(tag, known)
            self.assertFalse([a for a in attributes if a.startswith("on")], tag)
        self.assertEqual(len(page.images), 2)  # no tag of an image came from a name
        caption = "".join(page.captions)
        self.assertIn('<img src=x>: "<script>x</script>"', caption)
        self.assertIn("a'<i>.tfrecord", caption)
        self.assertNotIn("\x00", page.text)
        self.assertIn("default-src 'none'", page.text)

    def test_a_field_of_the_data_named_like_splits_leads_nowhere(self):
        for values in ([10**12, 10**12], [-(10**12), 5]):
            path = self.folder / "splits.tfrecord"
            write_tfrecord(path, [example({"x/row_splits": [value], "x": [1.5, 2.5, 3.5],
                                           "pixels": [bytes(16 * 16 * 3)]}) for value in values])
            page = self.page(f"""
                stage {{ tfrecord {{ files: "{path}" }} }}
                stage {{ parse_example {{
                  feature {{ key: "x" dtype: FLOAT32 shape: 3 }}
                  feature {{ key: "x/row_splits" dtype: INT64 }}
                  feature {{ key: "pixels" dtype: BYTES }}
                }} }}
                stage {{ decode_raw {{ field: "pixels" output: "image" shape: [16, 16, 3] }} }}
                stage {{ batch {{ size: 2 }} }}
            """)
            self.assertIn("x: [1.5, 2.5, 3.5]", "".join(page.captions))

    def test_a_plan_without_images_is_a_table(self):
        page = self.page("""stage { range { count: 9 } } stage { batch { size: 4 } }""",
                         "--batches", 3)
        head = ["row", "value", "from"]
        batches = [[head] + [[str(row), str(i), f"record {i}, range record {i}"]
                             for row, i in enumerate(records)]
                   for records in (range(4), range(4, 8), range(8, 9))]
        self.assertEqual(page.rows(), sum(batches, []))
        self.assertEqual(page.images, [])
        self.assertIn("value: 4 values, 4 to 7, mean 5.5", page.captions)
        self.assertNotIn("Hold the mouse", page.text)

    def test_tokens_stand_beside_their_words(self):
        (self.folder / "words.txt").write_text("the <cat> sat\nthe dog\n")
        (self.folder / "vocab.txt").write_text("[PAD]\n[UNK]\nthe\n<cat>\n")
        plan = f"""
            stage {{ text {{ files: "{self.folder}/words.txt" }} }}
            stage {{ vocabulary {{ field: "record" output: "tokens" file: "vocab.txt"
                                   split: "whitespace" default_id: 1 }} }}
        """
        page = self.page(plan + 'stage { pad_tokens { field: "tokens" length: 3 } }'
                         "stage { padded_batch { size: 2 } }")
        cells = [row[page.rows()[0].index("tokens")] for row in page.rows()[1:]]
        self.assertEqual(cells, ["the2 <cat>3 [UNK]1", "the2 [UNK]1 [PAD]0"])
        page = self.page(plan + "stage { ragged_batch { size: 2 } }")
        cells = [row[page.rows()[0].index("tokens")] for row in page.rows()[1:]]
        self.assertEqual(cells, ["the2 <cat>3 [UNK]1", "the2 [UNK]1"])
        self.assertIn("length of tokens: 2 values, 2 to 3, mean 2.5", page.captions)
        # Numbers that another stage has made of them are no tokens any more.
        page = self.page(plan + 'stage { clip { field: "tokens" max: 2 } }'
                         "stage { ragged_batch { size: 2 } }")
        self.assertNotIn("&lt;cat&gt;<sub>", page.text)

    def test_histograms_count_all_finite_values_of_the_batch(self):
        values = [float(i) / 4 for i in range(96)] + [float("nan"), float("inf")]
        write_tfrecord(self.folder / "numbers.tfrecord",
                       [example({"x": [value], "label": [i % 3], "<b>": [1.5]})
                        for i, value in enumerate(values)])
        page = self.page(f"""
            stage {{ tfrecord {{ files: "{self.folder}/numbers.tfrecord" }} }}
            stage {{ parse_example {{ feature {{ key: "{{x,<b>}}" dtype: FLOAT32 }}
                                      feature {{ key: "label" dtype: INT64 }} }} }}
            stage {{ batch {{ size: 98 }} }}
        """, "--rows", 5)
        self.assertEqual(len(page.rows()), 6)
        self.assertIn("x: 96 values, 0 to 23.75, mean 11.875; 2 not finite", page.captions)
        self.assertIn("label: 98 values, 0 to 2, mean 0.989796", page.captions)
        self.assertIn("<b>: 98 values, 1.5 to 1.5, mean 1.5", page.captions)
        bars = re.findall(r'title="([^"]*): (\d+)"', page.text)
        self.assertEqual([int(count) for _, count in bars[:24]], [4] * 24)
        self.assertEqual(bars[24:], [("1.5", "98"), ("0", "33"), ("1", "33"), ("2", "32")])

    def test_a_page_appears_whole_or_not_at_all(self):
        plan, _ = self.raw(3, "")
        page = self.folder / "kept.html"
        page.write_text("before")
        damaged = plan.replace("stage { batch", 'stage { decode_image { field: "image" } } stage { batch')
        self.show(damaged, out="kept.html", code=1)
        path = self.folder / "short.bin"
        path.write_bytes(self.images[0][:HEIGHT * WIDTH * 3] + b"short")
        self.show(plan.replace("raw.bin", "short.bin"), out="kept.html", code=1)
        self.assertEqual(page.read_text(), "before")
        self.assertEqual([name for name in os.listdir(self.folder) if "kept" in name], ["kept.html"])
        self.show(plan, out="kept.html")
        self.assertIn("<figure>", page.read_text())

    def test_a_page_that_cannot_be_written_is_an_error(self):
        plan, _ = self.raw(3, "")
        done = self.show(plan, out="no/such/folder.html", code=1)
        self.assertIn("no/such", done.stderr)

    def test_wrong_flags_exit_with_2(self):
        for args in (["--batches", 0], ["--rows", 0], ["--rows", 5000], ["--var", "X"]):
            self.show(self.raw(3, "")[0], *args, code=2)
        self.assertEqual(millrace("show", "plan.pbtxt").returncode, 2)

    def test_the_example_of_fashion_mnist_is_shown(self):
        convert_slice(self.folder, "t10k", 40, 1)
        plan = (SOURCE / "examples/fashion_mnist/eval.pbtxt").read_text()
        page = self.page(plan, "--var", f"DATA={self.folder}", "--rows", 6)
        self.assertEqual([image[:3] for image in page.images], [(28, 28, 1)] * 6)
        self.assertEqual(len(re.findall(r"label: \d", "".join(page.captions))), 6)
        self.assertIn("mapped back", page.text)


if __name__ == "__main__":
    unittest.main()

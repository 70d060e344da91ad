#!/usr/bin/env python3
"""Writes the seed corpus of the fuzz targets: make_corpus.py FOLDER

One folder per target (fuzz_NAME.cc reads FOLDER/NAME). Inputs that are there stay, so that what a
long run has found is kept.
"""
import gzip
import io
import pathlib
import re
import struct
import sys
import tarfile
import zlib

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF)


def frame(payload):
    length = struct.pack("<Q", len(payload))
    return length + masked(length) + payload + masked(payload)


def varint(value):
    value &= (1 << 64) - 1
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def field(number, payload):
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def feature(values):
    if isinstance(values[0], bytes):
        return field(1, b"".join(field(1, value) for value in values))
    if isinstance(values[0], float):
        return field(2, field(1, struct.pack(f"<{len(values)}f", *values)))
    return field(3, field(1, b"".join(varint(value) for value in values)))


def entry(key, value):
    return field(1, field(1, key.encode()) + field(2, value))


def example(**features):
    return field(1, b"".join(entry(key, feature(values)) for key, values in features.items()))


def sequence(context=b"", **lists):
    """A SequenceExample: its context, and by key the values of every step."""
    return context + field(2, b"".join(
        entry(key, b"".join(field(1, feature(values)) for values in steps))
        for key, steps in lists.items()))


EXAMPLES = [example(), example(a=[1]), example(image=[b"\xff\xd8\xff", b""], label=[-1, 2**40]),
            example(x=[1.5, float("nan"), -0.0], y=[0] * 40, z=[b"text"])]


def framing():
    shard = frame(b"") + frame(b"abc") + frame(bytes(300))
    for choice in (0, 1, 0x40, 0x41):
        first = bytes([choice])
        yield first
        yield first + shard
        yield first + shard[:-1]
        yield first + shard + b"stray"
        yield first + shard[:13] + b"\x07" + shard[14:]
    yield b"\x00" + struct.pack("<Q", 1 << 62) + bytes(8)


def inflate():
    text = b"the same words again and again, " * 40
    stored = zlib.compressobj(0, zlib.DEFLATED, 31)
    fixed = zlib.compressobj(9, zlib.DEFLATED, 31, 9, zlib.Z_FIXED)
    streams = [(0, gzip.compress(text)), (0, gzip.compress(b"") + gzip.compress(text)),
               (0, stored.compress(text) + stored.flush()), (0, fixed.compress(text) + fixed.flush()),
               (1, zlib.compress(text)), (1, zlib.compress(b""))]
    # A header with an extra field, a name, a comment and a CRC of its own.
    head = b"\x1f\x8b\x08\x1e" + bytes(6) + b"\x03\x00abc" + b"name\0" + b"comment\0"
    head += struct.pack("<H", zlib.crc32(head) & 0xFFFF)
    streams.append((0, head + gzip.compress(text)[10:]))
    for kind, stream in streams:
        for chunk in (0x00, 0xF0):
            yield bytes([kind | chunk]) + stream
        yield bytes([kind]) + stream[:-3]
        yield bytes([kind]) + stream + b"x"


def example_messages():
    yield b""
    yield from EXAMPLES


def sequence_example():
    lists = {"a": [[1], [-1], [2**40]], "b": [[0.5, float("nan")]] * 2, "c": [[b"abc"], [b"\0\xff\0"]]}
    yield b""
    yield sequence(**lists)
    yield sequence(EXAMPLES[2], **lists)
    yield sequence(EXAMPLES[1], a=[], b=[], c=[], other=[[b"x", b"y"], [1]])
    yield sequence(a=[[1]], b=[], c=[]) + sequence(a=[[2], [3]])
    for key, step in (("a", [1, 2]), ("b", [1.5]), ("c", [b"ab"]), ("b", [7])):
        yield sequence(**{**lists, key: lists[key] + [step]})


def index():
    # Behind the key: count, longest, digest, sum of the begins, container, sum of the header.
    begins = struct.pack("<5I", 0, 20, 40, 60, 65536)
    body = struct.pack("<6Q", 4, 65460, 0, 0, 0, 0)
    for choice in (0, 1, 2):
        yield bytes([choice]) + body + begins
        yield bytes([choice]) + body + begins[:-1]
    yield bytes([0]) + struct.pack("<6Q", 2**60, 2**60, 0, 0, 0, 0) + begins
    yield bytes([0]) + struct.pack("<6Q", 4, 2**60, 0, 0, 0, 0) + begins
    yield bytes([0]) + body + struct.pack("<5I", 0, 60, 40, 2**32 - 1, 65536)


def dali_index():
    lines = [b"0 20\n", b"20 16\n", b"36 1000\n", b"1036 20000\n", b"21036 44500\n"]
    yield b""
    yield b"".join(lines)
    yield b"".join(lines[::2])
    yield b"".join(lines[1:])[:-1]
    yield b"".join(reversed(lines))
    for line in (b"36 15\n", b"20 17\n", b"65520 17\n", b"18446744073709551615 16\n", b"36  16\n",
                 b"x\n", b"36 16\r\n", b"1" * 100):
        yield b"".join(lines[:2]) + line


def zstd_frame(payload, rle=False):
    """A frame of one block, raw or of one repeated byte (RFC 8878)."""
    block = len(payload) << 3 | rle << 1 | 1
    return (b"\x28\xb5\x2f\xfd\x60" + struct.pack("<H", len(payload) - 256) +
            struct.pack("<I", block)[:3] + (payload[:1] if rle else payload))


def zstd():
    text = b"the same words again and again, " * 10
    skipped = b"\x50\x2a\x4d\x18" + struct.pack("<I", 5) + b"12345"
    for chunk in (0x00, 0xF0):
        first = bytes([chunk])
        yield first + zstd_frame(text)
        yield first + zstd_frame(bytes(500), rle=True) + skipped + zstd_frame(text)
        yield first + zstd_frame(text)[:-7]
        # Of 500 bytes: an empty raw block, an empty compressed one, and a byte 500 times.
        yield first + b"\x28\xb5\x2f\xfd\x60\xf4\0" + b"\0\0\0\x04\0\0\xa3\x0f\0x"
        yield first + skipped


def archive():
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, payload in (("a/1.jpg", b"image"), ("a/1.cls", b"7"), ("b/" + "n" * 120 + ".txt", b""),
                              ("2.seg.png", bytes(700))):
            member = tarfile.TarInfo(name)
            member.size = len(payload)
            tar.addfile(member, io.BytesIO(payload))
    return out.getvalue()


def tar():
    yield archive()
    yield archive()[:2048]
    gnu = io.BytesIO()
    with tarfile.open(fileobj=gnu, mode="w", format=tarfile.GNU_FORMAT) as long_names:
        long_names.addfile(tarfile.TarInfo("x" * 200 + ".txt"))
    yield gnu.getvalue()


def container():
    idx = b"\0\0\x08\x03" + struct.pack(">III", 3, 2, 2) + bytes(12)
    samples = [frame(b"abc") + frame(b""), bytes(40), b"a\nb\r\n\nlast",
               b'a,b\r\n1,"x\ny"\r\n\r\n2,""""\n', archive(), idx]
    for kind, sample in enumerate(samples):
        for flags in (0, 96, 192):  # multiples of the number of kinds
            yield bytes([kind + flags]) + sample
            yield bytes([kind + flags]) + sample[:-1]


def resync():
    shard = frame(b"abc") + frame(bytes(50)) + frame(b"")
    for choice in (0, 0x20, 1):
        yield bytes([choice]) + shard[:3] + b"\x07" + shard[4:]
        yield bytes([choice]) + shard[:16] + shard[20:]
        yield bytes([choice]) + b"stray" + shard + shard[:-2]
    members = gzip.compress(shard)
    yield b"\2" + members[:-3] + members + members
    yield b"\3" + zlib.compress(shard)[:-3]
    long = zstd_frame(frame(bytes(300)))
    yield b"\4" + long[:-1] + long
    yield b"\5" + bytes(10)
    yield b"\6" + b"a\nb\r\n\nlast"
    yield b"\7" + b'1,2\n3\n4,"5\n6,7\n8,"9"\n'
    bad = bytearray(archive())
    bad[3] ^= 1
    yield b"\x08" + bytes(bad)
    yield b"\x08" + archive() + archive()


def csv_json():
    for row in (b"1,a,2.5", b'"x","a ""b""",', b'"1\n2",3\r\n', b'"open', b'a"b,c'):
        yield b"\2" + row
        yield b"\0" + row.replace(b",", b"\t")
    for record in (b'{"i": 1, "f": [1, 2.5, -0.0, 1e-3], "b": "text \\u00e4", "a": {"i": [1, 2]}}',
                   b'{"a.i": [3, 4], "f": null, "other": [[[{"x": true}]]]}', b"{}", b"[1]", b'{"i": 1',
                   b'{"i": 9223372036854775808, "f": 1e999}', b'{"b": "\xff"}', b'{"i": 1, "i": 2}'):
        yield b"\1" + record


def pbtxt():
    for path in sorted(ROOT.glob("examples/*/*.pbtxt")) + sorted(ROOT.glob("bench/*.pbtxt")):
        yield path.read_bytes()
    yield b'stage { range { count: 10 } } stage { filter { predicate: "value[0] in (1, 2)" } }\n' \
          b'stage { batch { size: ${SIZE:-4} } }'
    yield b'stage { tfrecord { files: "${DATA}" } } stage { batch { size: 4 drop_remainder: true } }'


def state():
    for numbers in ([0], [1, 2, 3], [2, 10, 0, 2, 10, 0, 4, 1, 5, 1, 6, 1, 7, 1], [2**63, 2**64 - 1]):
        yield b"\0" + b"".join(bytes([8]) + struct.pack("<Q", number) for number in numbers)
    text = b"millrace-state 1 semantics=1 plan=0123456789abcdef data=0123456789abcdef batch=12"
    yield b"\1" + text
    yield b"\1" + text + b" state=AQIDBA"


def jpeg():
    """Small files of each kind (cjpeg -quality 70 -optimize), each read in several ways."""
    for number, path in enumerate(sorted((ROOT / "tests/fixtures/jpeg").glob("*.jpg"))):
        whole = path.read_bytes()
        for choice in (0, 1, 0x08, 0x10, 0x05, 0x2D, 0x55):  # grey or RGB; kernels; tracks
            yield bytes([choice, 0, 0, 255, 255]) + whole
        yield bytes([0x11, 40 * number, 60, 99, 50]) + whole
        yield bytes([1, 0, 0, 128, 255]) + whole[:len(whole) * 3 // 4]
    # Noise by the standard tables: codes of up to 16 bits, large values, stuffed bytes.
    for path in sorted((ROOT / "tests/fixtures/jpeg/noise").glob("*.jpg")):
        for choice in (0x01, 0x0D, 0x15):
            yield bytes([choice, 0, 0, 255, 255]) + path.read_bytes()


def png_chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(color_type, depth, interlaced=0, chunks=(), height=5, width=7):
    channels = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[color_type]
    # An interlaced image has a filter byte for each row of each of its seven passes.
    starts = ([(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2),
               (1, 0, 2, 1)] if interlaced else [(0, 0, 1, 1)])
    rows = b""
    for top, left, down, across in starts:
        columns = len(range(left, width, across))
        for y in range(top, height, down):
            size = (columns * channels * depth + 7) // 8
            rows += bytes([y % 5]) + bytes((31 * i + y) % 256 for i in range(size)) if size else b""
    head = struct.pack(">IIBBBBB", width, height, depth, color_type, 0, 0, interlaced)
    return (b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", head) + b"".join(chunks) +
            png_chunk(b"IDAT", zlib.compress(rows)) + png_chunk(b"IEND", b""))


def image():
    """PNGs of every kind and small JPEGs, under several options."""
    palette = png_chunk(b"PLTE", bytes(range(48)))
    tiff = b"MM\0\x2a" + struct.pack(">IHHHIHHI", 8, 1, 0x112, 3, 1, 6, 0, 0)
    files = [png(color_type, depth, interlaced, [palette] if color_type == 3 else [])
             for color_type, depths in ((0, (1, 2, 4, 8, 16)), (2, (8, 16)), (3, (1, 4)), (4, (8, 16)),
                                        (6, (8, 16)))
             for depth in depths for interlaced in (0, 1)]
    files.append(png(2, 8, 0, [png_chunk(b"eXIf", tiff), png_chunk(b"gAMA", bytes(4)),
                               png_chunk(b"tRNS", bytes(6)),
                               png_chunk(b"iCCP", b"p\0\0" + zlib.compress(bytes(500))),
                               png_chunk(b"zTXt", b"k\0\0" + zlib.compress(bytes(500)))]))
    files += [path.read_bytes() for path in sorted((ROOT / "tests/fixtures/jpeg").glob("*.jpg"))]
    for number, whole in enumerate(files):
        for choice in (1, 3, 4, 5 + 8 * (number % 8)):
            yield bytes([choice, 0, 0, 255, 255]) + whole
        yield bytes([13, 90, 60, 99, 50]) + whole
        yield bytes([5, 0, 0, 128, 255]) + whole[:len(whole) * 3 // 4]
        yield bytes([1 + 64 * (1 + number % 3), 60, 90, 99, 50]) + whole  # 1/2, 1/4, 1/8
        yield bytes([7, 9, 0, 128, 255]) + whole[:2] + b"\xff\xe1" + struct.pack(
            ">H", len(tiff) + 8) + b"Exif\0\0" + tiff + whole[2:]


def ops():
    """Every map with numbers at and beyond its limits."""
    numbers = ("0", "1", "-1", "3", "0.5", "1e30", "nan", "inf", "-inf", "64", "65536", "4294967295")
    maps = {
        "decode_image": "max_pixels max_scans max_memory_bytes channels",
        "resize": "height width", "center_crop": "height width", "random_crop": "height width",
        "random_resized_crop": "height width area area aspect aspect",
        "pad": "top bottom left right value", "pad_channels": "channels value",
        "transpose": "perm perm perm", "flip": "probability", "brightness": "factor probability",
        "contrast": "factor factor", "saturation": "factor", "hue": "factor", "sharpness": "factor",
        "grayscale": "probability", "invert": "probability", "equalize": "probability",
        "autocontrast": "probability", "posterize": "bits", "solarize": "threshold",
        "gaussian_blur": "kernel_size sigma sigma",
        "color_jitter": "brightness contrast saturation hue",
        "affine": "degrees translate translate scale shear_x shear_y fill",
        "random_erasing": "area area aspect aspect value probability", "cutout": "size value",
        "auto_augment": "num_ops magnitude num_magnitude_bins fill",
        "normalize": "mean mean mean stddev stddev stddev", "cast": "scale", "one_hot": "depth",
        "label_smoothing": "smoothing", "peek_image_shape": "apply_exif_orientation",
        "aug_mix": "severity mixture_width chain_depth alpha fill",
        "vocabulary": "default_id oov_buckets digest", "pad_tokens": "length value",
        "scale": "factor offset min max", "log": "min offset", "bucketize": "boundary boundary",
        "hash": "num_bins salt", "clip": "min max", "fill_missing": "value missing", "stack": ""}
    # Fields that have no default, or not one of the samples'.
    always = {"vocabulary": 'field: "words" file: "/proc/self/fd/900"', "pad_tokens": 'field: "tokens"',
              "scale": 'field: "floats"', "log": 'field: "scores"', "bucketize": 'field: "scores"',
              "hash": 'field: "words" field: "label"', "clip": 'field: ["floats", "label"]',
              "fill_missing": 'field: "floats"', "stack": 'field: ["label", "other_label"] output: "both"'}
    good = {"resize": "height: 3 width: 9", "random_resized_crop": "height: 4 width: 4",
            "gaussian_blur": "kernel_size: 5", "posterize": "bits: 3", "cutout": "size: 3",
            "cast": 'field: "floats" dtype: INT32', "one_hot": "depth: 5",
            "label_smoothing": 'field: "scores"', "pad": 'left: 9 mode: "reflect"',
            "normalize": "mean: [0, 1, 2] stddev: [1, 2, 3]", "center_crop": "height: 9 width: 2",
            "random_crop": "height: 2 width: 2", "vocabulary": 'split: "whitespace" oov_buckets: 2',
            "pad_tokens": 'length: 5 side: "left" mask: "m" lengths: "n"', "scale": "min: 1 max: 9",
            "bucketize": "boundary: [-1, 0, 3] right: true", "hash": "num_bins: [7, 1000] salt: 1",
            "clip": "min: -1 max: 3", "fill_missing": "value: 2 missing: 255", "affine": "degrees: [-360, 360] scale: [0.1, 9]"}
    for name, fields in maps.items():
        fixed = always.get(name, "")
        yield f"stage {{ {name} {{ {fixed} {good.get(name, '')} }} }}".encode()
        for begin in range(len(numbers)):
            text = " ".join(f"{field}: {numbers[(begin + i) % len(numbers)]}"
                            for i, field in enumerate(fields.split()))
            yield f"stage {{ {name} {{ {fixed} {text} }} }}".encode()
    along = 'mask: "mask" boxes { field: "boxes" label: "names" %s }'
    for name, fields in (("random_resized_crop", "height: 4 width: 6"), ("random_crop", "height: 3 width: 2"),
                         ("center_crop", "height: 3 width: 9"), ("resize", "height: 9 width: 3"),
                         ("flip", "probability: 1"), ("pad", "left: 2 bottom: 3")):
        for words in ("", 'format: "xywh" normalized: true', "min_area_share: 0.5"):
            boxes = (along % words).replace('label: "names" ', "")
            yield f"stage {{ {name} {{ {fields} {boxes} }} }} stage {{ flip {{}} }}".encode()
        yield f"stage {{ {name} {{ {fields} {along % ''} }} }}".encode()
    yield b"stage { peek_image_shape { apply_exif_orientation: true } } stage { decode_image {} }"
    for image in ("floats", "grey"):
        for method in ("nearest", "bilinear", "bicubic", "area"):
            yield (f'stage {{ resize {{ field: "{image}" height: 9 width: 4 method: "{method}" }} }} '
                   f'stage {{ affine {{ field: "{image}" degrees: 45 }} }}').encode()
    for policy in ("rand_augment", "trivial_augment", "imagenet"):
        yield f'stage {{ auto_augment {{ policy: "{policy}" }} }} stage {{ flip {{}} }}'.encode()


def fused():
    """Chains that the optimizer makes one op of, and some that it leaves apart."""
    heads = ("decode_image {} random_resized_crop { height: 4 width: 6 }",
             "decode_image { allow_truncated: true } random_resized_crop { height: 4 width: 6 }",
             "decode_image { verify_full: true channels: 1 } random_resized_crop { height: 9 width: 2 }",
             "decode_image { dct_downscale: true } random_resized_crop { height: 2 width: 2 area: [1, 1] }",
             "decode_image { apply_exif_orientation: true } random_crop { height: 4 width: 3 }",
             "decode_image {} resize { shorter: 5 }", "decode_image {} resize { height: 3 width: 4 antialias: true }",
             "decode_image {} random_resized_crop { height: 4 width: 6 boxes {} }", "decode_image {}")
    tails = ("flip {} normalize { mean: [1, 2, 3] stddev: [4, 5, 6] } transpose {} cast { field: \"image\" dtype: FLOAT16 }",
             "flip { vertical: true } pad_channels { channels: 4 value: 7 } cast { field: \"image\" dtype: BFLOAT16 scale: 0.1 }",
             "cast { field: \"image\" dtype: FLOAT32 } flip {} flip { vertical: true } transpose {}",
             "normalize { mean: 9 stddev: 0.5 } flip {}", "brightness { factor: 2 } flip { probability: 1 }", "")
    stage = re.compile(r"(\w+) (\{(?:[^{}]|\{[^{}]*\})*\})")
    for head in heads:
        for tail in tails:
            yield stage.sub(r"stage { \1 \2 }", f"{head} {tail}").encode()
    for field in ("raw", "floats"):
        words = " ".join(part % field for part in (
            'random_crop { field: "%s" height: 5 width: 4 }', 'flip { field: "%s" }',
            'normalize { field: "%s" mean: [1, 2, 3] stddev: [4, 5, 6] }', 'transpose { field: "%s" }'))
        yield stage.sub(r"stage { \1 \2 }", words).encode()


def mixing():
    """Stages behind a batch whose rows hold samples or none."""
    numbers = ("0", "0.001", "1", "1000", "0.5", "nan")
    for kind, name in enumerate(("mixup", "cutmix", "mixup_or_cutmix")):
        for rows in (0xFF, 0, 0xA5):
            for index, number in enumerate(numbers):
                alpha = {"mixup": "alpha", "cutmix": "alpha", "mixup_or_cutmix": "cutmix_alpha"}[name]
                text = f"stage {{ {name} {{ {alpha}: {number} group: {2 << index} }} }}"
                yield bytes([kind + 4 * index, rows, index]) + text.encode()
        yield b"\3\xff\0" + (f'stage {{ {name} {{ label: "class" num_classes: 3 }} }} stage {{ {name} '
                              f'{{ probability: 0.5 }} }}').encode()


TARGETS = {"framing": framing, "inflate": inflate, "example": example_messages,
           "sequence_example": sequence_example, "index": index, "dali_index": dali_index,
           "zstd": zstd, "tar": tar, "container": container, "resync": resync,
           "csv_json": csv_json, "pbtxt": pbtxt, "state": state,
           "jpeg": jpeg, "image": image, "ops": ops, "fused": fused, "mixing": mixing}


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    for name, seeds in TARGETS.items():
        folder = pathlib.Path(sys.argv[1]) / name
        folder.mkdir(parents=True, exist_ok=True)
        for number, seed in enumerate(seeds()):
            (folder / f"seed-{number:02}").write_bytes(seed)


if __name__ == "__main__":
    main()

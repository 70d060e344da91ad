#!/usr/bin/env python3
"""Writes tests/fixtures/odd: images as cameras, phones and editors write them, with what Pillow
makes of them in table.txt; and what Pillow writes to say an orientation.

Usage: make_odd_images.py      needs Pillow and djpeg of libjpeg-turbo
"""
import io
import pathlib
import struct
import subprocess
import zlib

import PIL
from PIL import Image, ImageOps

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / "tests/fixtures/odd"
HEADER = f"""\
# By scripts/make_odd_images.py with Pillow {PIL.__version__}:
# FILE WIDTH HEIGHT CRC32 UPRIGHT_WIDTH UPRIGHT_HEIGHT UPRIGHT_CRC32, of the RGB pixels as stored
# and as ImageOps.exif_transpose turns them.
# exif ORIENTATION HEX: the Exif data that say it.
"""


def picture(mode="RGB", size=(37, 26)):
    """Returns an image without symmetry."""
    image = Image.new("RGB", size)
    image.putdata([((7 * x) % 256, (9 * y) % 256, (3 * x * y) % 256)
                   for y in range(size[1]) for x in range(size[0])])
    return image.convert(mode)


def jpeg(mode="RGB", **options):
    """Returns the bytes of a JPEG."""
    out = io.BytesIO()
    picture(mode).save(out, "JPEG", quality=90, **options)
    return out.getvalue()


def exif(orientation):
    """Returns what Pillow writes of an orientation, with its header."""
    data = Image.Exif()
    data[0x0112] = orientation
    return data.tobytes()


def segments(data):
    """Yields (marker, offset, end) of the segments up to the first scan's, SOS included."""
    at = 2
    while True:
        marker, length = struct.unpack(">HH", data[at:at + 4])
        yield marker, at, at + 2 + length
        if marker == 0xFFDA:
            return
        at += 2 + length


def offset_of(data, wanted):
    """Returns where the first segment of that marker begins, and where it ends."""
    return next((at, end) for marker, at, end in segments(data) if marker == wanted)


def with_spectral_end(data, end):
    """What Samsung's cameras write: a baseline scan that says Se = 0."""
    _, behind = offset_of(data, 0xFFDA)
    return data[:behind - 2] + bytes([end]) + data[behind - 1:]


def with_jfif(data, major):
    """JFIF of another major version."""
    at, _ = offset_of(data, 0xFFE0)
    return data[:at + 9] + bytes([major]) + data[at + 10:]


def with_adobe(data, transform):
    """Adobe's marker instead of JFIF's."""
    at, end = offset_of(data, 0xFFE0)
    adobe = b"\xff\xee\x00\x0eAdobe" + struct.pack(">HHHB", 100, 0, 0, transform)
    return data[:at] + adobe + data[end:]


def with_junk(data, junk):
    """Bytes of no segment in front of the quantisation tables and of the scan."""
    for marker in (0xFFDA, 0xFFDB):
        at, _ = offset_of(data, marker)
        data = data[:at] + junk + data[at:]
    return data


def with_app1(data, payload):
    """The payload as the first APP1 segment."""
    at, end = offset_of(data, 0xFFE0)
    return data[:end] + b"\xff\xe1" + struct.pack(">H", 2 + len(payload)) + payload + data[end:]


def long_exif(orientation):
    """The orientation as a LONG, little endian."""
    tiff = b"II*\0" + struct.pack("<IHHHIII", 8, 1, 0x0112, 4, 1, orientation, 0)
    return b"Exif\0\0" + tiff


def chunk(kind, data):
    """Returns a chunk of a PNG."""
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(depth, color_type, rows, before=b"", size=(37, 26)):
    """Returns a PNG of packed rows, with these chunks in front of its pixels."""
    pixels = zlib.compress(b"".join(b"\0" + row for row in rows))
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", *size, depth, color_type, 0, 0, 0))
    return (b"\x89PNG\r\n\x1a\n" + header + before + chunk(b"IDAT", pixels) +
            chunk(b"IEND", b""))


def long_palette(depth, extra=b""):
    """A PNG of `depth` bits to a pixel with a palette of 256 colours."""
    palette = bytes(v for i in range(256) for v in (i, 255 - i, (7 * i) % 256))
    width, height = 37, 26
    rows = []
    for y in range(height):
        bits = "".join(format((x * y + x) % (1 << depth), f"0{depth}b") for x in range(width))
        bits += "0" * (-len(bits) % 8)
        rows.append(bytes(int(bits[i:i + 8], 2) for i in range(0, len(bits), 8)))
    return png(depth, 3, rows, chunk(b"PLTE", palette) + extra)


def turned_png(payload):
    """A PNG with an eXIf chunk."""
    image = picture()
    width, height = image.size
    pixels = image.tobytes()
    rows = [pixels[y * width * 3:(y + 1) * width * 3] for y in range(height)]
    return png(8, 2, rows, chunk(b"eXIf", payload))


def files():
    """Returns all of them by name."""
    junk = b"\x00\x01junk\xff\x00\xff\x00\x02"
    made = {
        "se0.jpg": with_spectral_end(jpeg(), 0),
        "se0_444.jpg": with_spectral_end(jpeg(subsampling=0), 0),
        "se0_grey.jpg": with_spectral_end(jpeg("L"), 0),
        "jfif2.jpg": with_jfif(jpeg(), 2),
        "jfif2_progressive.jpg": with_jfif(jpeg(progressive=True), 2),
        "adobe9.jpg": with_adobe(jpeg(), 9),
        "adobe9_progressive.jpg": with_adobe(jpeg(progressive=True), 9),
        "junk.jpg": with_junk(jpeg(), junk),
        "junk_grey.jpg": with_junk(jpeg("L"), junk),
        "junk_progressive.jpg": with_junk(jpeg(progressive=True), junk),
        "turned_long.jpg": with_app1(jpeg(), long_exif(6)),
        "turned_doubled.jpg": with_app1(jpeg(), b"Exif\0\0" + exif(8)),
        "turned.png": turned_png(exif(6)[6:]),
        "turned_headed.png": turned_png(exif(5)),
        "turned_grey.jpg": with_app1(jpeg("L"), exif(6)),
    }
    for depth in (1, 2, 4):
        made[f"long_palette_{depth}.png"] = long_palette(depth)
    made["long_palette_trns.png"] = long_palette(
        4, chunk(b"bKGD", b"\xc8") + chunk(b"hIST", b"\0\1" * 256) + chunk(b"tRNS", b"\x80" * 256))
    for orientation in range(2, 9):
        made[f"turned_{orientation}.jpg"] = with_app1(jpeg(), exif(orientation))
    return made


def sums(image):
    """Returns width, height and CRC-32 of its RGB pixels."""
    rgb = image.convert("RGB")
    return f"{rgb.width} {rgb.height} {zlib.crc32(rgb.tobytes())}"


def check_djpeg(data, image):
    """libjpeg-turbo's own program has the same pixels, with a warning (2) or without."""
    run = subprocess.run(["djpeg", "-rgb", "-pnm"], input=data, check=False, capture_output=True)
    assert run.returncode in (0, 2), run.stderr
    assert run.stdout.endswith(image.convert("RGB").tobytes())


def main():
    lines = []
    for name, data in sorted(files().items()):
        image = Image.open(io.BytesIO(data))
        image.load()
        if name.endswith(".jpg"):
            check_djpeg(data, image)
        lines.append(f"{name} {sums(image)} {sums(ImageOps.exif_transpose(image))}\n")
        (FOLDER / name).write_bytes(data)
    lines += [f"exif {orientation} {exif(orientation).hex()}\n" for orientation in range(2, 9)]
    (FOLDER / "table.txt").write_text(HEADER + "".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()

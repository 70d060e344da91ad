"""What several rows read: files that are made once, and the program that times streams."""
import os
import pathlib
import shutil
import statistics
import subprocess
import sys

from rows import BIN, DATA, Skip, measure, run_json


def made_once(folder, fill):
    """`folder`. Where it is missing, `fill` writes one beside it, which is renamed when whole."""
    if not folder.exists():
        part = folder.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        fill(part)
        part.rename(folder)
    return folder


def record_file(record_bytes, total_bytes):
    """A TFRecord file of equal records, made once."""
    path = DATA / f"{record_bytes}b-{total_bytes}.tfrecord"
    if not path.exists():
        DATA.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        subprocess.run([BIN / "bench_make_records", part, str(record_bytes), str(total_bytes)],
                       check=True)
        part.rename(path)
    return path


def http_shards():
    """A folder of 8 TFRecord files of 110,000-byte records, 105 MB in all, made once."""
    def fill(folder):
        for i in range(8):
            subprocess.run([BIN / "bench_make_records", folder / f"part-{i}.tfrecord", "110000",
                            str(105_000_000 // 8)], check=True)

    return made_once(DATA / "http_shards", fill)


def text_file(members):
    """A gzip file of members of 64 MiB of text in records of 600 bytes, made once."""
    def fill(folder):
        subprocess.run([BIN / "bench_make_text", folder / "text.tfrecord", "600", str(64 << 20),
                        str(members)], check=True)

    return made_once(DATA / f"text-{members}", fill) / "text.tfrecord"


def index_folder(shards, records):
    """Links of one shard of empty records: the indexes are whole, the data is next to nothing."""
    def fill(folder):
        shard = folder / "shard-0000.tfrecord"
        subprocess.run([BIN / "bench_make_records", shard, "1", str(records * 17)], check=True)
        for i in range(1, shards):
            os.link(shard, folder / f"shard-{i:04}.tfrecord")

    folder = DATA / f"index-{shards}x{records}"
    if not folder.exists():
        made_once(folder, fill)
        stream_row("first_batch", folder)  # makes the indexes
    return folder


def test_data(name):
    folder = os.environ.get("MILLRACE_TEST_DATA")
    if not folder:
        raise Skip("MILLRACE_TEST_DATA is not set")
    path = pathlib.Path(folder) / name
    if not path.exists():
        raise Skip(f"{path} does not exist")
    return path


def imagenet_tar():
    return test_data("imagenet-sample.tar")


def imagenet_shards(tar):
    """Converts the images of `tar` once."""
    def fill(folder):
        subprocess.run([BIN / "millrace", "records", "convert", "--from", "images", "--images", tar,
                        "--out", folder, "--prefix", "imagenet", "--shards", "8"], check=True,
                       stdout=sys.stderr)

    return made_once(DATA / "imagenet", fill)


def imagenet_500px_tar():
    """The images of the sample, at most 500 pixels wide and high, made anew when what makes them
    is."""
    tar = DATA / "imagenet-500px.tar"
    made_of = (imagenet_tar(), BIN / "bench_recode_jpegs")
    if not tar.exists() or tar.stat().st_mtime < max(os.stat(p).st_mtime for p in made_of):
        DATA.mkdir(parents=True, exist_ok=True)
        part = tar.with_suffix(".part")
        subprocess.run([BIN / "bench_recode_jpegs", imagenet_tar(), part], check=True)
        part.rename(tar)
    return tar


def stream_row(row, *words, cache="cache"):
    """The JSON of bench_stream_rows; indexes are kept beside the data."""
    os.environ["XDG_CACHE_HOME"] = str(DATA / cache)
    return run_json([BIN / "bench_stream_rows", row, *words])


def opening_row(name, repeats, note, *words, cache="cache"):
    """From opening to a first batch; `note` makes a text of the figures beside the time."""
    rows = []

    def ms(field):
        def run():
            rows.append(stream_row(*words, cache=cache))
            return rows[-1][field]
        return run

    row = measure(name, "ms", ms("ms"), ms("raw_ms"), repeats)
    row["note"] = note(lambda field: statistics.median(row[field] for row in rows))
    return row

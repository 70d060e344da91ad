#!/usr/bin/env python3
"""The train path of Millrace and of its peers, turn by turn: one table of medians and a chart.

Run it by bench/peers/run.sh; loaders.py says what the peers do and at which settings. Every turn is
a process of its own that counts what it delivers for some seconds, the page cache warm. Raw
libjpeg-turbo (bench_raw_jpeg), which decodes crops of the same distribution and does nothing else,
takes its turns with them: quote the ratio, the machine is another one every hour.
"""

import argparse
import glob
import hashlib
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tarfile

from chart import bar_chart
from install import STATE, reason
from machine import BIN, PEERS, ROOT, THREADS, put_between, today

MARKS = "<!-- train_path: `bench/peers/run.sh --publish` writes this -->\n", "<!-- end of train_path -->\n"
START_SECONDS = 120  # what a turn may take beside its seconds
RAW, OWN = "raw libjpeg-turbo", "Millrace"

# name: (label, how it stands, the file of requirements that installs it)
ROWS = {
    "raw": (RAW, "region decode only, {threads} threads, files in memory", None),
    "millrace": (OWN, "`examples/imagenet/train.pbtxt`, {threads} threads", None),
    "millrace.torch": ("Millrace in PyTorch", "`plan.torch`, {threads} threads", "pytorch"),
    "dali": ("DALI, CPU", "`image_random_crop`, {threads} threads, `device_id=None`", "dali"),
    "tf.data": ("tf.data", "`decode_and_crop_jpeg`, pool of {threads} threads", "tensorflow"),
    "torchvision": ("PyTorch, torchvision.io", "DataLoader, {threads} workers, files", "pytorch"),
    "pillow": ("PyTorch, Pillow", "DataLoader, {threads} workers, files", "pytorch"),
}


class Skip(Exception):
    """The row cannot be measured here; the text says why."""


def run(command, timeout=None):
    """What `command` prints; its processes end with it, whatever happens."""
    words = [str(word) for word in command]
    environment = dict(os.environ, XDG_CACHE_HOME=str(PEERS / "data" / "cache"),
                       PYTHONPATH=str(ROOT / "build" / "release" / "python"))
    try:
        child = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                 text=True, errors="replace", start_new_session=True,
                                 env=environment)
    except OSError as error:
        raise Skip(str(error)) from error
    try:
        out, complaints = child.communicate(timeout=timeout)
    except subprocess.TimeoutExpired as error:
        raise Skip(f"no end after {timeout:g} s") from error
    finally:
        try:
            os.killpg(child.pid, signal.SIGKILL)  # workers of a data loader too
        except ProcessLookupError:
            pass
        child.wait()
    if child.returncode != 0:
        raise Skip(reason(complaints))
    return out


def last_json(out):
    try:
        return json.loads(out.strip().splitlines()[-1])
    except (IndexError, json.JSONDecodeError) as error:
        raise Skip(f"it printed no figures but {out.strip()[-80:]!r}") from error


# The data, as each loader takes it, made once: shards, DALI's indexes, a tar, files in folders.


def source_of(options):
    """(what says which data it is, the command that makes shards of it, without --out)"""
    if not options.data:
        folder = os.environ.get("MILLRACE_TEST_DATA")
        if not folder:
            sys.exit("give --data, or MILLRACE_TEST_DATA a folder with imagenet-sample.tar")
        tar = pathlib.Path(folder, "imagenet-sample.tar").resolve()
        return str(tar), ["convert", "--from", "images", "--images", tar]
    path = pathlib.Path(options.data)
    pattern = str((path / "*.tfrecord" if path.is_dir() else path).resolve())
    files = sorted(glob.glob(pattern))
    if not files:
        sys.exit(f"{pattern}: no such files")
    state = [(file, os.stat(file).st_size, os.stat(file).st_mtime_ns) for file in files]
    return f"{pattern}, {options.images} of {state}", ["sample", pattern, "--count", str(options.images)]


def make_shards(command, out):
    tail = ["--out", out, "--shards", "8", "--prefix", "images"]
    try:
        run([BIN / "millrace", "records", *command, *tail])
    except Skip:
        if command[0] != "sample":
            raise
        # Fewer records than asked for, mostly: then all. Another trouble shows again.
        run([BIN / "millrace", "records", *command[:2], "--share", "1", *tail, "--overwrite"])


def unpack(tar, folder):
    """FOLDER/CLASS/NUMBER.jpg of a tar with NUMBER.jpg and NUMBER.cls, as PyTorch's ImageFolder
    takes them."""
    images, classes = {}, {}
    with tarfile.open(tar) as members:
        for member in members:
            name = pathlib.PurePath(member.name)
            of = {".jpg": images, ".cls": classes}.get(name.suffix)
            if of is not None:
                of[name.stem] = members.extractfile(member).read()
    for number, image in images.items():
        place = folder / f"{int(classes[number]):04}"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{number}.jpg").write_bytes(image)


def prepare(options):
    identity, command = source_of(options)
    folder = PEERS / "data" / f"train_path-{hashlib.sha256(identity.encode()).hexdigest()[:12]}"
    if folder.exists():
        return folder
    print(f"preparing {folder}", file=sys.stderr)
    part = folder.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    try:
        make_shards(command, part / "shards")
        shards = part / "shards" / "*.tfrecord"
        run([BIN / "millrace", "records", "index", "--dali", "--out-folder", part / "idx", shards])
        run([BIN / "millrace", "records", "convert", "--from", "tfrecord", "--to", "tar", shards,
             "--features", "image/encoded=jpg,image/class/label=cls", "--out", part / "tar"])
        tar, = (part / "tar").glob("*.tar")
        unpack(tar, part / "files")
    except Skip as error:
        sys.exit(f"{command[-1] if command[0] == 'convert' else command[1]}: {error}")
    part.rename(folder)
    return folder


# A turn gives images per second, and the version of what ran.


def raw_turn(folder, options):
    tar, = (folder / "tar").glob("*.tar")
    row = last_json(run([BIN / "bench_raw_jpeg", tar, THREADS, options.seconds],
                        options.seconds + START_SECONDS))
    return row["images_per_second"], ""


def millrace_turn(folder, options):
    row = last_json(run([BIN / "millrace", "run", "examples/imagenet/train.pbtxt", "--var",
                         f"DATA={folder / 'shards'}", "--var", f"BATCH={options.batch}",
                         "--seconds", options.seconds, "--threads", THREADS, "--json"],
                        options.seconds + START_SECONDS))
    return row["samples_per_second"], ""


def check_installed(peer):
    failed = STATE / f"{peer}.failed"
    if failed.exists():
        raise Skip(f"not installed: {failed.read_text(encoding='utf-8')}")


def torch_turn(folder, options):
    check_installed("pytorch")
    row = last_json(run([sys.executable, ROOT / "bench" / "python" / "images.py", "torch",
                         folder / "shards", "--batch", options.batch, "--seconds", options.seconds,
                         "--threads", THREADS], options.seconds + START_SECONDS))
    return row["samples_per_second"], ""


def peer_turn(name, folder, options):
    check_installed(ROWS[name][2])
    row = last_json(run([sys.executable, ROOT / "bench" / "peers" / "loaders.py", name, folder,
                         "--batch", options.batch, "--seconds", options.seconds],
                        options.seconds + START_SECONDS))
    return row["images_per_second"], row["version"]


def turn(name, folder, options):
    own = {"raw": raw_turn, "millrace": millrace_turn, "millrace.torch": torch_turn}.get(name)
    return own(folder, options) if own else peer_turn(name, folder, options)


def measure(names, repeats, take_turn):
    """{name: {"values", "version"} or {"skipped"}}; a row that fails once takes no more turns."""
    rows = {name: {"values": [], "version": ""} for name in names}
    for _ in range(repeats):
        for name in names:
            if "skipped" in rows[name]:
                continue
            try:
                value, rows[name]["version"] = take_turn(name)
                rows[name]["values"].append(value)
            except Skip as why:
                print(f"{name} skipped: {why}", file=sys.stderr)
                rows[name] = {"skipped": str(why)}
    return rows


def figures(row, rows):
    """(median, its ratio to raw decode's or None, spread) of a row, or None of a skipped one."""
    if "skipped" in row:
        return None
    median = statistics.median(row["values"])
    raw = rows.get("raw", {}).get("values")
    spread = (max(row["values"]) - min(row["values"])) / median
    return median, median / statistics.median(raw) if raw else None, spread


def table(rows):
    lines = ["| loader | setting | images/s | ratio to raw decode | spread |", "| --- | --- | --- | --- | --- |"]
    for name, row in rows.items():
        label, setting, _ = ROWS[name]
        label += f" ({row['version']})" if row.get("version") else ""
        setting = setting.format(threads=THREADS)
        if found := figures(row, rows):
            median, ratio, spread = found
            ratio = "" if ratio is None else f"{ratio:.2f}"
            lines.append(f"| {label} | {setting} | {median:,.0f} | {ratio} | {spread:.0%} |")
        else:
            why = row["skipped"].replace("|", "\\|")
            lines.append(f"| {label} | {setting} | skipped: {why} | | |")
    return "\n".join(lines) + "\n"


def chart(rows, how):
    bars = []
    for name, row in rows.items():
        kind = {"raw": "limit", "millrace": "own", "millrace.torch": "own"}.get(name, "peer")
        words, value = "skipped", None
        if found := figures(row, rows):
            value, ratio, _ = found
            words = f"{value:,.0f}" + ("" if ratio is None else f" ({ratio:.2f})")
        bars.append((ROWS[name][0], value, words, kind))
    return bar_chart("ImageNet train path on the CPU: JPEG to normalised batches",
                     "crop of 8 to 100 % decoded, resized to 224 x 224, flipped, float32; in brackets: "
                     "by raw libjpeg-turbo, which only decodes such crops",
                     "images per second", bars, [*how, *versions(rows)])


def versions(rows):
    """One line of the packages that ran, or none."""
    ran = {ROWS[name][0].split(",")[0]: row["version"] for name, row in rows.items()
           if row.get("version")}
    return [", ".join(f"{package} {version}" for package, version in ran.items())] if ran else []


def publish(text, document, picture, svg):
    """Puts `text` between the marks of `document`, and the chart where the README shows it."""
    put_between(document, MARKS, text)
    picture.write_text(svg, encoding="utf-8")


def arguments():
    parser = argparse.ArgumentParser(prog="run.sh train_path", description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="folder of *.tfrecord, or a pattern in quotes: Examples with "
                        "image/encoded and image/class/label (default: imagenet-sample.tar in "
                        "MILLRACE_TEST_DATA)")
    parser.add_argument("--images", type=int, default=2000, help="of --data, drawn at random")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=3, help="turns of each loader")
    parser.add_argument("--seconds", type=float, default=5, help="of each turn")
    parser.add_argument("--only", action="append", choices=ROWS, help="only this loader; repeatable")
    parser.add_argument("--publish", action="store_true",
                        help="write the table into bench/README.md, the chart into docs/")
    parser.add_argument("--check-only", action="store_true", help=argparse.SUPPRESS)  # for run.sh
    return parser.parse_args()


def main():
    options = arguments()
    options.repeats = max(options.repeats, 1)
    if options.check_only:
        source_of(options)
        return
    folder = prepare(options)
    rows = measure([name for name in ROWS if name in (options.only or ROWS)], options.repeats,
                   lambda name: turn(name, folder, options))
    images = sum(1 for _ in (folder / "files").rglob("*.jpg"))
    turns = "one turn" if options.repeats == 1 else f"medians of {options.repeats} turns"
    how = [today(), f"{images:,} images, batches of {options.batch}, page cache warm; "
           f"{turns} of {options.seconds:g} s"]
    text, svg = f"{'; '.join(how)}:\n\n{table(rows)}", chart(rows, how)
    print(text)
    (PEERS / "train_path.md").write_text(text, encoding="utf-8")
    (PEERS / "train_path.svg").write_text(svg, encoding="utf-8")
    print(f"written: {PEERS / 'train_path.md'}, {PEERS / 'train_path.svg'}", file=sys.stderr)
    if options.publish:
        publish(text, ROOT / "bench" / "README.md", ROOT / "docs" / "train_path.svg", svg)


if __name__ == "__main__":
    main()

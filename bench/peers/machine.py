"""What the tables say of the machine, where the peers' things lie, and where a table goes."""

import datetime
import os
import pathlib
import platform
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BIN = ROOT / "build" / "release" / "bin"
PEERS = ROOT / "build" / "peers"
THREADS = len(os.sched_getaffinity(0))


def processor():
    fields = dict(re.findall(r"^(.*?)\s*:\s*(.*)$",
                             pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE))
    name = fields.get("model name") or platform.processor() or "unknown processor"
    flags = fields.get("flags", "").split()
    vectors = next((text for flag, text in (("avx512bw", "AVX-512"), ("avx2", "AVX2"))
                    if flag in flags), "no AVX2")
    return f"{name} ({vectors})"


def today():
    return f"{datetime.date.today()}, {processor()}, {THREADS} cores"


def put_between(document, marks, text):
    """Puts `text` between two marks, lines of a document that stay."""
    before, mark, rest = document.read_text(encoding="utf-8").partition(marks[0])
    _, end, after = rest.partition(marks[1])
    if not mark or not end:
        raise ValueError(f"{document}: the marks of the table are not there")
    document.write_text(before + mark + text + end + after, encoding="utf-8")

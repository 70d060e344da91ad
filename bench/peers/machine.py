"""What the tables say of the machine, and where the peers' things lie."""

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

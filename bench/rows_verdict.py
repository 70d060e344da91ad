"""The rows of `scripts/bench.sh verdict`: what `millrace explain --analyze` says of pipelines that
one resource limits, and what then happens.

Each row makes a pipeline that is short of one thing, asks which rate a change would bring, and
makes the change. The value is the rate that was told, the limit the rate that came.
"""
import contextlib
import os
import pathlib
import subprocess
import sys

from http_servers import slow_server
from rows import BIN, DATA, need_cores, paired, run_json
from rows_data import http_shards, imagenet_shards, imagenet_tar, record_file

SECONDS = 4
LATENCY_MS = 1  # of the slow disk
BURN = "while True: pass"


def analyze(plan, *flags, threads=2):
    """The diagnosis of a plan."""
    os.environ.update(XDG_CACHE_HOME=str(DATA / "cache"), no_proxy="127.0.0.1")
    return run_json([BIN / "millrace", "explain", "--analyze", plan, "--seconds", SECONDS,
                     "--threads", threads, "--json", *flags])


def names(diagnosis, limits, part):
    """True if it names one of the limits, and the costliest part of the work, if there is one."""
    if part:
        costliest = max(diagnosis["parts"], key=lambda each: each["share"])["name"]
        if costliest != part or f"CPU in {part} (" not in diagnosis["sentence"]:
            return False
    return bool(set(limits) & set(diagnosis["binding"]))


def told(row, limits, what, before, after, repeats, part=""):
    """Turns of `before`, which is to name one of `limits`, and the `part` of the work that binds,
    and to tell the rate after the change that begins with `what`; and of `after`, where the change
    was made."""
    rates, came, named = [], [], []
    for _ in range(repeats):
        diagnosis = before()
        rates.append(next(each["samples_per_second"] for each in diagnosis["what_ifs"]
                          if each["what"].startswith(what)))
        named.append(names(diagnosis, limits, part))
        came.append(after()["samples_per_second"])
    found = paired(row, "samples/s", rates, came)
    found["named"] = named.count(True)
    words = " or ".join(limits) + (f" in {part}" if part else "")
    found["note"] += f"; {words} named in {named.count(True)} of {len(named)}"
    return found


def images(*flags):
    shards = imagenet_shards(imagenet_tar())
    return lambda threads=2, more=(): analyze(
        "examples/imagenet/train.pbtxt", "--var", f"DATA={shards}", "--var", "BATCH=64", *flags,
        *more, threads=threads)


def verdict_cpu(repeats):
    need_cores(2)
    run = images()
    return told("verdict_cpu", ["worker CPU"], "+1 thread", lambda: run(threads=1), run, repeats)


def verdict_consumer(repeats):
    run = images()
    return told("verdict_consumer", ["consumer"], "consumer twice as fast",
                lambda: run(more=("--pace", "250")), lambda: run(more=("--pace", "500")), repeats)


def at_crossing(name, part, repeats):
    """The consumer takes `part` of what the workers can make; one of the two is named."""
    run = images()
    ceiling = run()["samples_per_second"]
    return told(name, ["worker CPU", "consumer"], "consumer twice as fast",
                lambda: run(more=("--pace", f"{part * ceiling:.1f}")), run, repeats)


def verdict_crossing(repeats):
    return at_crossing("verdict_crossing", 1.0, repeats)


def verdict_below_crossing(repeats):
    return at_crossing("verdict_below_crossing", 0.9, repeats)


def verdict_above_crossing(repeats):
    return at_crossing("verdict_above_crossing", 1.1, repeats)


def verdict_ring(repeats):
    need_cores(2)
    run = images("--prefetch", "1")
    return told("verdict_ring", ["ring", "worker CPU"], "twice the open batches", run,
                images("--prefetch", "2"), repeats)


@contextlib.contextmanager
def burners(count):
    """Programs that compute all the time."""
    running = [subprocess.Popen([sys.executable, "-c", BURN]) for _ in range(count)]
    try:
        yield
    finally:
        for each in running:
            each.kill()
            each.wait()


def verdict_neighbour(repeats):
    need_cores(2)
    run = images()

    def beside():
        with burners(1):
            return run()

    return told("verdict_neighbour", ["worker CPU", "start of workers"],
                "no other programs on the cores", beside, run, repeats)


def far_plan(url, name, batch=64, files="part-{0..7}"):
    plan = DATA / f"{name}.pbtxt"
    plan.write_text(
        f'seed: 1\nstage {{ tfrecord {{ files: "{url}/{files}.tfrecord" }} }}\n'
        "stage { global_shuffle {} }\n"
        'stage { decode_raw { field: "record" dtype: UINT8 shape: 110000 } }\n'
        f"stage {{ batch {{ size: {batch} }} }}\nstage {{ repeat {{ epochs: 0 }} }}\n")
    return plan


def far(latency_ms, rate, *flags):
    """A plan over a server of its own, so far away."""
    def run():
        with slow_server(http_shards(), "--latency-ms", str(latency_ms), "--rate",
                         str(rate)) as url:
            return analyze(far_plan(url, "verdict"), *flags)

    return run


def verdict_rate(repeats):
    return told("verdict_rate", ["reading"], "storage twice as fast", far(2, 1_000_000),
                far(1, 2_000_000), repeats)


def verdict_latency(repeats):
    return told("verdict_latency", ["reading"], "storage twice as fast", far(80, 0), far(40, 0),
                repeats)


def verdict_budget(repeats):
    """Room for a few records at once, which come from far away."""
    return told("verdict_budget", ["memory budget"], "twice the memory budget",
                far(40, 0, "--memory-budget-mib", "16"), far(40, 0, "--memory-budget-mib", "32"),
                repeats)


def verdict_far_consumer(repeats):
    """A server that is slow, and a consumer that is slower."""
    return told("verdict_far_consumer", ["consumer"], "consumer twice as fast",
                far(2, 1_000_000, "--pace", "60"), far(2, 1_000_000, "--pace", "120"), repeats)


def verdict_order(repeats):
    """Numbers of 100 bytes, shuffled in a buffer: one worker has the order at a time."""
    need_cores(2)
    path = record_file(100, 1_048_576 * 116)
    run = [f"bench/small_shuffle.pbtxt", "--var", f"FILE={path}"]
    return told("verdict_order", ["serial parts", "worker CPU"], "consumer twice as fast",
                lambda: analyze(*run), lambda: analyze(*run), repeats)


def local_plan(name, image, *stages):
    """A plan over local files, whose records are images of the extents `image`."""
    plan = DATA / f"{name}.pbtxt"
    ops = "".join(f"stage {{ {stage} }}\n" for stage in stages)
    plan.write_text(
        f'seed: 1\nstage {{ tfrecord {{ files: "{http_shards()}/part-{{0..7}}.tfrecord" }} }}\n'
        "stage { global_shuffle {} }\n"
        f'stage {{ decode_raw {{ output: "image" dtype: UINT8 shape: [{image}] }} }}\n{ops}'
        "stage { batch { size: 64 } }\nstage { repeat { epochs: 0 } }\n")
    return plan


def slow_op_plan():
    """Images of 220 x 500 that one op makes eight times as large; nothing else takes long."""
    return local_plan("slow_op", "220, 500, 1",
                      'resize { height: 440 width: 2000 method: "bicubic" }')


def verdict_slow_op(repeats):
    """The worker is named, and the op that it spends its time on."""
    need_cores(2)
    plan = slow_op_plan()
    return told("verdict_slow_op", ["worker CPU"], "+1 thread", lambda: analyze(plan, threads=1),
                lambda: analyze(plan), repeats, part="resize")


def on_slow_disk(plan, rate):
    """The diagnosis, with two workers, of a plan over files on a disk of `rate` bytes per second;
    0: as many as one likes."""
    return run_json([BIN / "bench_throttled_files", plan, 2, SECONDS, LATENCY_MS, rate])


def verdict_slow_file(repeats):
    plan = local_plan("slow_file", "110000")
    return told("verdict_slow_file", ["reading"], "storage twice as fast",
                lambda: on_slow_disk(plan, 20e6), lambda: on_slow_disk(plan, 40e6), repeats)


def verdict_slow_file_op(repeats):
    """A disk with 0.6 of the bytes that the workers can use. Twice as fast, they limit."""
    plan = slow_op_plan()
    rate = 0.6 * 110_000 * on_slow_disk(plan, 0)["samples_per_second"]
    return told("verdict_slow_file_op", ["reading"], "storage twice as fast",
                lambda: on_slow_disk(plan, rate), lambda: on_slow_disk(plan, 2 * rate), repeats)


def as_told(row):
    return 0.9 <= row["ratio"] <= 1.1 and row["named"] == row["repeats"]


TARGETS = ["millrace", "bench_make_records", "bench_throttled_files"]
ROWS = [verdict_cpu, verdict_consumer, verdict_crossing, verdict_below_crossing,
        verdict_above_crossing, verdict_ring, verdict_neighbour, verdict_rate, verdict_latency,
        verdict_budget, verdict_far_consumer, verdict_order, verdict_slow_op, verdict_slow_file,
        verdict_slow_file_op]
BARS = {row.__name__: ("named in every turn, ratio 0.9 to 1.1", as_told) for row in ROWS}

#!/usr/bin/env python3
"""How long a program in Python waits for a batch that is ready; prints a JSON object.

Usage: batches.py COMMAND [--library numpy|torch] [--folder FOLDER]

Batches are taken as a program takes them, from the iterator of a loader.
"""
import argparse
import itertools
import json
import statistics
import sys
import threading
import time

import numpy as np

import images
import millrace as mr

ROUNDS = 2000
WARM = 200
ROWS = 64
PIXELS = 224 * 224 * 3  # of 64 rows, as float32: 38.5 MB


def stream(plan, keys, library="numpy", **options):
    """The batches of a plan, over all epochs."""
    loader = getattr(plan, library)(keys, **options)
    return itertools.chain.from_iterable(itertools.repeat(loader))


def time_of_next(batches):
    """Seconds until the next batch is there as its arrays; it is dropped behind that."""
    begin = time.perf_counter()
    _batch = next(batches)
    return time.perf_counter() - begin


def times_of_small(batches, rounds=ROUNDS):
    """Seconds of each of many batches, which are ready nearly always."""
    for _ in range(WARM):
        next(batches)
    taken = []
    while len(taken) < rounds:
        time.sleep(0.001)  # time to make more
        taken += [time_of_next(batches) for _ in range(16)]
    return taken


def times_of_large(batches, rounds, pause):
    """Seconds of each of some batches, before each of which the pipeline has had `pause` seconds.
    The program drops a batch before it takes the next one."""
    for _ in range(4):
        next(batches)
    taken = []
    for _ in range(rounds):
        time.sleep(pause)
        taken.append(time_of_next(batches))
    return taken


def numbers(library="numpy"):
    return stream(mr.range(1 << 40).batch(ROWS).prefetch(32), "value", library)


def batch(library):
    """A batch with one field, and a NumPy view of memory that is there, in microseconds."""
    taken = times_of_small(numbers(library))
    memory = bytearray(8 * ROWS)
    views = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        np.frombuffer(memory, np.int64)
        views.append(time.perf_counter() - begin)
    return {"us": 1e6 * statistics.median(taken), "limit_us": 1e6 * statistics.median(views)}


def fields(library):
    """A batch with eight fields, and one with one of them, in microseconds."""
    names = list("abcdefgh")
    records = mr.Memory([b"1,2,3,4,5,6,7,8"] * 65536)
    plan = (mr.memory(records).parse_csv(*(mr.feature(name, int) for name in names), column=names)
            .batch(8).prefetch(32))
    eight = times_of_small(stream(plan, tuple(names), library))
    one = times_of_small(stream(plan, ("a",), library))
    return {"us": 1e6 * statistics.median(eight), "limit_us": 1e6 * statistics.median(one)}


def handover(library):
    """38.5 MB, made, as one array, a copy of as much, and 8 bytes, made, in milliseconds."""
    def taken(plan):
        batches = stream(plan.prefetch(2), "value", library)
        return 1e3 * statistics.median(times_of_large(batches, 15, 0.2))

    large = mr.range(PIXELS).one_hot(PIXELS, field="value").batch(ROWS)
    memory = np.zeros((ROWS, PIXELS), np.float32)
    copies = []
    for _ in range(10):
        begin = time.perf_counter()
        memory.copy()
        copies.append(time.perf_counter() - begin)
    return {"ms": taken(large), "small_ms": taken(mr.range(1 << 40).batch(1)),
            "limit_ms": 1e3 * statistics.median(copies)}


def cold(library, folder):
    """Images and labels of a batch of ImageNet, behind whose pixels nothing is in the caches, and
    a batch of a few numbers, in microseconds."""
    batches = stream(images.plan_of(folder, ROWS), ("image", "label"), library)
    taken = times_of_large(batches, 20, 0.2)
    small = times_of_small(numbers(library))
    return {"us": 1e6 * statistics.median(taken), "limit_us": 1e6 * statistics.median(small)}


def busy(library):
    """The slowest in a hundred beside a thread of Python that computes, and alone, in ms."""
    def slowest():
        return 1e3 * sorted(times_of_small(numbers(library)))[ROUNDS * 99 // 100]

    alone = slowest()
    done = threading.Event()

    def compute():
        while not done.is_set():
            sum(range(1000))

    thread = threading.Thread(target=compute)
    thread.start()
    try:
        return {"ms": slowest(), "limit_ms": alone}
    finally:
        done.set()
        thread.join()


COMMANDS = {"batch": batch, "fields": fields, "handover": handover, "cold": cold, "busy": busy}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=COMMANDS)
    parser.add_argument("--library", choices=("numpy", "torch"), default="numpy")
    parser.add_argument("--folder")
    options = parser.parse_args()
    if options.library == "torch":
        images.import_torch()
    words = [options.folder] if options.command == "cold" else []
    print(json.dumps(COMMANDS[options.command](options.library, *words)))


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Measures the Python package inside a process; prints a JSON object. bench/rows_python.py calls it.

Usage: measure_python.py images FOLDER EPOCHS | batch | handover | busy
"""
import json
import statistics
import sys
import threading
import time

import numpy as np

import millrace as mr

ROUNDS = 2000
WARM = 200


def ready_loader(size, prefetch=32):
    """Returns a loader whose next batches are ready nearly always."""
    return mr.range(1 << 30).batch(size).prefetch(prefetch).numpy(writable=True).open()


def times_of_batches(loader, rounds):
    """Seconds that it took to get a batch, and the array of its field, of batches that were ready."""
    core, taken = loader._core, []
    for _ in range(WARM):
        core.next()["value"]
    while len(taken) < rounds:
        time.sleep(0.001)  # time to make more
        for _ in range(16):
            begin = time.perf_counter()
            core.next()["value"]
            taken.append(time.perf_counter() - begin)
    return taken


def time_of_ready(core):
    """Seconds that it took to get a batch that was ready, and the array of its field, and that."""
    while True:
        begin = time.perf_counter()
        try:
            array = core.next(0)["value"]
            return time.perf_counter() - begin, array
        except mr.TimeLimit:
            time.sleep(0.01)


def batch():
    """One field as a NumPy array, in microseconds; and a NumPy view of memory that is there."""
    taken = times_of_batches(ready_loader(64), ROUNDS)
    memory = bytearray(512)
    views = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        np.frombuffer(memory, np.int64)
        views.append(time.perf_counter() - begin)
    return {"us": 1e6 * statistics.median(taken), "view_us": 1e6 * statistics.median(views)}


def handover():
    """38.5 MB, made, into a NumPy array, and a copy of as much, in milliseconds."""
    elements = 38_535_168 // 8
    loader = ready_loader(elements, prefetch=2)
    core, taken, copies = loader._core, [], []
    for _ in range(20):
        time.sleep(0.2)
        seconds, array = time_of_ready(core)
        taken.append(seconds)
        begin = time.perf_counter()
        array.copy()
        copies.append(time.perf_counter() - begin)
        del array  # its memory is needed for another batch
    return {"ms": 1e3 * statistics.median(taken), "copy_ms": 1e3 * statistics.median(copies)}


def busy():
    """The slowest in a hundred beside a thread of Python that computes, in milliseconds; and alone."""
    alone = sorted(times_of_batches(ready_loader(64), ROUNDS))[ROUNDS * 99 // 100]
    done = threading.Event()

    def compute():
        while not done.is_set():
            sum(range(1000))

    thread = threading.Thread(target=compute)
    thread.start()
    try:
        beside = sorted(times_of_batches(ready_loader(64), ROUNDS))[ROUNDS * 99 // 100]
    finally:
        done.set()
        thread.join()
    return {"p99_ms": 1e3 * beside, "alone_p99_ms": 1e3 * alone}


def images(folder, epochs):
    """Images by second of processor time of an ImageNet plan, one thread, all of Python's included."""
    plan = mr.load("examples/imagenet/train.pbtxt", DATA=folder, BATCH=64)
    loader = plan.numpy(context=mr.Context(threads=1))
    count, begin = 0, time.process_time()
    for _ in range(int(epochs)):
        for one in loader:
            count += one["image"].shape[0] * one["label"].ndim
    return {"images_per_cpu_second": count / (time.process_time() - begin)}


if __name__ == "__main__":
    name, *arguments = sys.argv[1:]
    print(json.dumps({"batch": batch, "handover": handover, "busy": busy,
                      "images": images}[name](*arguments)))

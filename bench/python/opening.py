#!/usr/bin/env python3
"""How long it takes from a plan, or from a state, to a first batch; prints a JSON object.

Usage: opening.py open | first | resume FOLDER
"""
import json
import statistics
import sys
import tempfile
import time

import images
import millrace as mr

BATCH = 64
PLACES = 9
TRIES = 3


def milliseconds(function):
    begin = time.perf_counter()
    function()
    return 1e3 * (time.perf_counter() - begin)


def opening(folder):
    """Plan and loader of ImageNet, opened where the index is there, and where it is not."""
    loaders = []  # closing them is not measured

    def ms(**options):
        return milliseconds(
            lambda: loaders.append(images.plan_of(folder, BATCH).numpy(**options).open()))

    with_index = ms()
    with tempfile.TemporaryDirectory() as empty:
        return {"ms": with_index, "limit_ms": ms(index_folder=empty)}


def first(folder):
    """The first batch of ImageNet, opening included, and the time that a later batch takes."""
    loader = images.plan_of(folder, BATCH).numpy(context=mr.Context())
    first_ms = milliseconds(loader.next)
    later = [milliseconds(loader.next) for _ in range(100)]
    return {"ms": first_ms, "limit_ms": statistics.mean(later[20:])}


def ms_to_batch(plan, state):
    """From a new loader, behind a state if one is given, to its next batch."""
    loader = plan.numpy("value")

    def read():
        if state is not None:
            loader.load_state_dict(state)
        next(iter(loader))

    try:
        return milliseconds(read)
    finally:
        loader.close()


def resume(folder):
    """Behind the states of several places in an epoch, the slowest; and at its beginning. Of each,
    the median of some tries."""
    plan = (mr.tfrecord(f"{folder}/*.tfrecord").global_shuffle()
            .decode_raw(dtype="uint8", shape=1, output="value").batch(1024))
    with plan.numpy("value") as loader:
        batches, states = len(loader), []
        for place in range(1, PLACES + 1):
            loader._core.seek(batches * place // (PLACES + 1))
            states.append(loader.state_dict() | {"inside": True})

    def ms(state):
        return statistics.median(ms_to_batch(plan, state) for _ in range(TRIES))

    return {"ms": max(map(ms, states)), "limit_ms": ms(None)}


if __name__ == "__main__":
    print(json.dumps({"open": opening, "first": first, "resume": resume}[sys.argv[1]](sys.argv[2])))

#!/usr/bin/env python3
"""The time from Ctrl-C to KeyboardInterrupt, in a wait for a batch that does not come, and in one of
Python's own; prints a JSON object with the median of each and the slowest in a hundred.

Usage: interrupt.py
"""
import json
import os
import random
import signal
import statistics
import threading
import time

import millrace as mr

TURNS = 100
SLICE = 0.1  # seconds after which a wait looks at signals: the turns begin anywhere in one


def milliseconds_of(wait, after):
    """The time from a signal, so many seconds behind the begin of a wait, to its exception."""
    sent, begun = [], threading.Event()

    def interrupt():
        begun.wait()
        time.sleep(after)
        sent.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        begun.set()
        wait()
    except KeyboardInterrupt:
        took = 1e3 * (time.perf_counter() - sent[0])
        thread.join()
        return took
    raise RuntimeError("the wait ended without an exception")


def main():
    loader = mr.push(mr.PushSource()).parse_json(mr.feature("x", int)).batch(1).numpy().open()
    draw = random.Random(1)
    own, bare = [], []
    for _ in range(TURNS):
        after = 0.01 + SLICE * draw.random()
        own.append(milliseconds_of(loader.next, after))
        bare.append(milliseconds_of(lambda: time.sleep(10), after))
    print(json.dumps({"ms": statistics.median(own), "limit_ms": statistics.median(bare),
                      "p99_ms": sorted(own)[TURNS * 99 // 100]}))


if __name__ == "__main__":
    main()

"""The rows of bench/peers/run.sh goals that need PyTorch or other loaders."""
import argparse
import functools
import statistics
import sys

import ddp
import rows_python
import train_path
from machine import THREADS
from rows import Skip, summary

PEERS_OF_TRAIN_PATH = [name for name, (_, _, peer) in train_path.ROWS.items()
                       if peer and name != "millrace.torch"]


def check_torch():
    try:
        train_path.check_installed("pytorch")
    except train_path.Skip as why:
        raise Skip(str(why)) from why


def inside(name, unit, repeats, *words):
    check_torch()
    return rows_python.row_of(name, unit, repeats, *words, "--library", "torch",
                              python=sys.executable)


def torch_batch(repeats):
    return inside("torch_batch", "us", repeats, "batches", "batch")


def torch_cold(repeats):
    return inside("torch_cold", "us", repeats, "batches", "cold", "--folder",
                  rows_python.folder_of_images())


def torch_images(repeats):
    check_torch()
    return rows_python.images_row("torch_images", rows_python.per_cpu_second, "torch",
                                  rows_python.ONE_THREAD, repeats, python=sys.executable)


def torch_rate(repeats):
    check_torch()
    limits = ("--threads", THREADS, "--seconds", 4)
    return rows_python.images_row("torch_rate", lambda run: run["samples_per_second"], "torch",
                                  limits, repeats, python=sys.executable)


def torch_peers(repeats):
    """Images per second in PyTorch beside the best of the peers, all in turns of one run."""
    options = argparse.Namespace(data=None, batch=64, seconds=4)
    folder = train_path.prepare(options)
    rows = train_path.measure(["millrace.torch", *PEERS_OF_TRAIN_PATH], min(repeats, 3),
                              lambda name: train_path.turn(name, folder, options))
    return peers_row(rows)


def peers_row(rows):
    skipped = [f"{name} skipped: {row['skipped']}"
               for name, row in rows.items() if "skipped" in row]
    there = {name: row["values"] for name, row in rows.items() if "skipped" not in row}
    peers = {name: values for name, values in there.items() if name != "millrace.torch"}
    if "millrace.torch" not in there or not peers:
        raise Skip("; ".join(skipped))
    best = max(peers, key=lambda name: statistics.median(peers[name]))
    row = summary("torch_peers", "images/s", there["millrace.torch"], peers[best])
    row["all_ran"] = not skipped
    figures = (f"{name} {statistics.median(values):,.0f}" for name, values in peers.items())
    row["note"] = "; ".join([*figures, *skipped])
    return row


def gradient_row(way, seconds):
    """What the sums of gradients add to a step, beside what Gloo's add."""
    added = {way: [1e3 * step for step in steps]
             for way, steps in ddp.added_seconds(seconds).items()}
    row = summary(f"torch_{way}", "ms", added[way], added["gloo"])
    row["note"] = f"a step without sums {1e3 * statistics.median(seconds['none']):.1f} ms"
    return row


@functools.cache
def seconds_of_steps(steps):
    check_torch()
    return ddp.measure(rows_python.PACKAGE, steps)


def torch_hook(repeats):
    return gradient_row("hook", seconds_of_steps(8 * repeats))


def torch_own(repeats):
    return gradient_row("own", seconds_of_steps(8 * repeats))


ROWS = [torch_batch, torch_cold, torch_images, torch_rate, torch_peers, torch_hook, torch_own]

BARS = {
    "torch_batch": ("<= 3 us", lambda row: row["value"] <= 3),
    "torch_cold": ("<= 100 us", lambda row: row["value"] <= 100),
    "torch_images": ("ratio >= 0.99", lambda row: row["ratio"] >= 0.99),
    "torch_rate": ("ratio >= 0.99", lambda row: row["ratio"] >= 0.99),
    # None: a peer that did not run may have been the best.
    "torch_peers": ("ratio >= 3 to the best peer",
                    lambda row: row["ratio"] >= 3 and (row["all_ran"] or None)),
    "torch_hook": ("ratio <= 0.6", lambda row: row["ratio"] <= 0.6),
    "torch_own": ("ratio <= 0.3", lambda row: row["ratio"] <= 0.3),
}

#!/usr/bin/env python3
"""Images of an ImageNet plan through Python, counted as `millrace run` counts them; prints JSON.

Both open the files first; the clocks, of the time and of the process, run from there to the last
batch.
"""
import argparse
import itertools
import json
import os
import pathlib
import sys
import time

import millrace as mr

ROOT = pathlib.Path(__file__).resolve().parents[2]


def plan_of(folder, batch):
    return mr.load(ROOT / "examples/imagenet/train.pbtxt", DATA=folder, BATCH=batch)


def import_torch():
    """Imports torch as bench/peers/install.py has installed it, which says why."""
    sys.setdlopenflags(os.RTLD_LAZY)
    import torch
    return torch


def open_loader(options):
    plan, context = plan_of(options.folder, options.batch), mr.Context(threads=options.threads)
    keys = ("image", "label")
    if options.library == "numpy":
        return plan.numpy(keys, last="trim", context=context).open()
    import_torch()
    loader = plan.torch(keys, layout="channels_last", context=context)
    loader.loader.open()
    return loader


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("library", choices=("numpy", "torch"))
    parser.add_argument("folder")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--threads", type=int, default=0, help="0: usable cores")
    parser.add_argument("--batches", type=int, default=0, help="0: no limit")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    options = parser.parse_args()
    batches = itertools.chain.from_iterable(itertools.repeat(open_loader(options)))
    images, begin, cpu = 0, time.perf_counter(), time.process_time()
    for number in itertools.count(1):
        pictures, labels = next(batches)
        images += len(labels)
        seconds = time.perf_counter() - begin
        if number == options.batches or seconds >= options.seconds:
            break
    print(json.dumps({"samples": images, "samples_per_second": images / seconds,
                      "cpu_seconds_per_1000_samples": 1e3 * (time.process_time() - cpu) / images,
                      "shape": list(pictures.shape)}))


if __name__ == "__main__":
    main()

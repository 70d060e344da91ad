#!/usr/bin/env python3
"""Training steps of a network in PyTorch on the CPU, on one batch of drawn values; prints JSON.

channels_last, SGD with momentum: medians of `--steps` steps, by the clock and by the processor time
of the process over its threads. `--bfloat16` is autocast.
"""

import argparse
import contextlib
import json
import statistics
import time

import torch
import torchvision
from torch import nn


def lenet():
    """The network of `millrace model lenet`."""
    return nn.Sequential(
        nn.Conv2d(1, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(64 * 7 * 7, 512), nn.ReLU(), nn.Linear(512, 10))


NETWORKS = {"lenet": (lenet, (1, 28, 28)), "resnet50": (torchvision.models.resnet50, (3, 224, 224))}


def step_times(options):
    torch.set_num_threads(options.threads)
    make, image = NETWORKS[options.network]
    model = make().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6, momentum=0.9)
    images = torch.randn(options.batch, *image).to(memory_format=torch.channels_last)
    labels = torch.randint(10, (options.batch,))
    cast = (torch.autocast("cpu", dtype=torch.bfloat16) if options.bfloat16
            else contextlib.nullcontext())

    def step():
        optimizer.zero_grad(set_to_none=True)
        with cast:
            output = model(images)
        nn.functional.cross_entropy(output.float(), labels).backward()
        optimizer.step()

    step()
    step()
    wall, cpu = [], []
    for _ in range(options.steps):
        before = time.perf_counter(), time.process_time()
        step()
        wall.append(time.perf_counter() - before[0])
        cpu.append((time.process_time() - before[1]) / options.threads)
    return statistics.median(wall), statistics.median(cpu)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("network", choices=sorted(NETWORKS))
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--bfloat16", action="store_true")
    options = parser.parse_args()
    wall, cpu = step_times(options)
    print(json.dumps({"step_ms": 1e3 * wall, "step_cpu_ms": 1e3 * cpu,
                      "images_per_second": options.batch / wall,
                      "images_per_cpu_second": options.batch / cpu,
                      "version": torch.__version__}))


if __name__ == "__main__":
    main()

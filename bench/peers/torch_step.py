#!/usr/bin/env python3
"""A training step of ResNet-50 in PyTorch on one GPU, on one batch that stays there; prints JSON.

bfloat16 autocast, channels_last, fused SGD with momentum: the median of `--steps` steps, by events
of the device. `--compile MODE` adds torch.compile in that mode. What a loader has to feed, and the
peer of a trainer.
"""

import argparse
import json
import statistics

import torch
import torchvision


def step_seconds(options):
    torch.backends.cudnn.benchmark = True
    model = torchvision.models.resnet50().cuda().to(memory_format=torch.channels_last)
    run = torch.compile(model, mode=options.compile) if options.compile else model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, fused=True)
    images = torch.randn(options.batch, 3, 224, 224, device="cuda")
    images = images.to(memory_format=torch.channels_last)
    labels = torch.randint(1000, (options.batch,), device="cuda")

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(run(images), labels)
        loss.backward()
        optimizer.step()

    for _ in range(10):
        step()
    events = [torch.cuda.Event(enable_timing=True) for _ in range(options.steps + 1)]
    events[0].record()
    for event in events[1:]:
        step()
        event.record()
    torch.cuda.synchronize()
    return statistics.median(a.elapsed_time(b) / 1e3 for a, b in zip(events, events[1:]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--compile", choices=["default", "reduce-overhead", "max-autotune"])
    options = parser.parse_args()
    seconds = step_seconds(options)
    print(json.dumps({"batch": options.batch, "compile": options.compile,
                      "step_us": round(seconds * 1e6), "images_per_second": options.batch / seconds,
                      "version": torch.__version__, "gpu": torch.cuda.get_device_name()}))


if __name__ == "__main__":
    main()

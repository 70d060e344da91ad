#!/usr/bin/env python3
"""JPEG files that arrive on a GPU as batches of torch: plan.torch(device="cuda") beside DataLoader.

Both make float32 batches of random crops of 224 x 224, flipped and normalised, of the same images.
Without a step the program waits for the bytes alone. With one, a kernel stands for it that spins
for `--step-us`; the utilisation is the rate beside that of the same steps on one batch that stays
on the GPU. The host runs two steps ahead at most, as a trainer that looks at its loss does. Prints
lines "NAME VALUE UNIT".

  FOLDER/shards  TFRecord shards of the images, for Millrace
  FOLDER/files   the JPEG files in folders of classes, for DataLoader
"""

import argparse
import itertools
import pathlib
import time
from collections import deque

import torch

import loaders

WARM_UP_STEPS = 8
AHEAD = 2


def millrace(options):
    import millrace as mr

    plan = mr.load(options.plan, DATA=options.folder / "shards", BATCH=options.batch)
    context = mr.Context(threads=options.threads)
    loader = plan.torch(("image", "label"), device="cuda", layout="channels_last", context=context)
    while True:
        yield from loader


def data_loader(options):
    from torch.utils.data import DataLoader, RandomSampler
    from torchvision.datasets import ImageFolder
    from torchvision.io import ImageReadMode, decode_image, read_file
    from torchvision.transforms import v2

    images = ImageFolder(
        str(options.folder / "files"),
        loader=lambda path: decode_image(read_file(path), mode=ImageReadMode.RGB),
        transform=v2.Compose([
            v2.RandomResizedCrop(loaders.SIDE, scale=loaders.AREA, ratio=loaders.ASPECT,
                                 antialias=False),
            v2.RandomHorizontalFlip(), v2.ToDtype(torch.float32, scale=True),
            v2.Normalize([mean / 255 for mean in loaders.MEAN],
                         [dev / 255 for dev in loaders.STDDEV])]))
    # One epoch is longer than a run: between two of them its workers would have nothing ready.
    order = RandomSampler(images, replacement=True, num_samples=1 << 24)
    batches = DataLoader(images, options.batch, sampler=order, pin_memory=True,
                         num_workers=options.threads, prefetch_factor=4)
    for pictures, labels in batches:
        yield pictures.to("cuda", non_blocking=True), labels.to("cuda", non_blocking=True)


def cycles_per_us():
    """The clock of the kernel that spins."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda._sleep(1000)
    begin.record()
    torch.cuda._sleep(20_000_000)
    end.record()
    end.synchronize()
    return 20_000_000 / (begin.elapsed_time(end) * 1e3)


def run(batches, seconds, step_us, clock):
    """Returns images per second."""
    ends = deque()

    def step():
        pictures, labels = next(batches)
        pictures[:1].sum()  # it reads the batch
        if step_us:
            torch.cuda._sleep(round(step_us * clock))
        ends.append(torch.cuda.Event(enable_timing=True))
        ends[-1].record()
        if len(ends) > AHEAD:
            ends.popleft().synchronize()
        return len(labels)

    for _ in range(WARM_UP_STEPS):
        step()
    first, images, begin = ends[-1], 0, time.perf_counter()
    while time.perf_counter() - begin < seconds:
        images += step()
    ends[-1].synchronize()
    return images / (first.elapsed_time(ends[-1]) / 1e3)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("loader", choices=("millrace", "data_loader"))
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--plan", type=pathlib.Path, required=True)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--threads", type=int, default=loaders.THREADS)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--step-us", type=float, default=0)
    options = parser.parse_args()
    clock = cycles_per_us()
    name = f"{options.loader}.threads_{options.threads}.batch_{options.batch}"
    batches = {"millrace": millrace, "data_loader": data_loader}[options.loader](options)
    print(f"{name}.rate {run(batches, options.seconds, 0, clock):.0f} images/s")
    if not options.step_us:
        return
    resident = itertools.repeat(next(batches))
    most = run(resident, options.seconds / 2, options.step_us, clock)
    rate = run(batches, options.seconds, options.step_us, clock)
    name += f".step_{options.step_us:.0f}us"
    print(f"{name}.rate {rate:.0f} images/s")
    print(f"{name}.resident {most:.0f} images/s")
    print(f"{name}.utilisation {100 * rate / most:.2f} %")


if __name__ == "__main__":
    main()

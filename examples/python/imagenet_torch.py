"""Trains a small network of torch on images in TFRecord shards, on GPUs where there are any.

    torchrun --nproc-per-node 2 imagenet_torch.py "/data/imagenet/train-*.tfrecord"
"""
import os
import sys

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import millrace as mr

EPOCHS = int(os.environ.get("EPOCHS", "1"))
BATCH = int(os.environ.get("BATCH", "64"))


def make_net() -> nn.Module:
    def block(inputs: int, outputs: int) -> nn.Module:
        return nn.Sequential(nn.Conv2d(inputs, outputs, 3, stride=2, padding=1),
                             nn.BatchNorm2d(outputs), nn.ReLU())
    return nn.Sequential(block(3, 16), block(16, 32), block(32, 64), nn.AdaptiveAvgPool2d(1),
                         nn.Flatten(), nn.Linear(64, 1000))


def find_device() -> torch.device:
    if not torch.cuda.is_available():
        return torch.device("cpu")
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    return torch.device("cuda", torch.cuda.current_device())


def main(files: str) -> None:
    device = find_device()
    if "RANK" in os.environ:
        torch.distributed.init_process_group("gloo" if device.type == "cpu" else "nccl")
    torch.manual_seed(0)
    net = make_net().to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    if torch.distributed.is_initialized():
        net = DistributedDataParallel(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)

    # The batch of all ranks, of which each gets its rows, on the device.
    loader = mr.recipes.imagenet_train(files, BATCH).torch(
        ("image", "label"), device=device, layout="channels_last")
    for epoch in range(EPOCHS):
        loader.set_epoch(epoch)
        for step, (images, labels) in enumerate(loader):
            loss = nn.functional.cross_entropy(net(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: {step + 1} steps, loss {loss.item():.4f}")
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])

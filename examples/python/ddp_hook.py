"""Trains a network of torch on Fashion-MNIST, data-parallel on CPUs; Millrace reads the images, and
sums the gradients for DistributedDataParallel.

    torchrun --nproc-per-node 2 ddp_hook.py build/fashion_mnist

The folder is the one that scripts/quickstart.sh fills.
"""
import os
import sys

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import millrace as mr

EPOCHS = int(os.environ.get("EPOCHS", "1"))


def make_loader(folder: str) -> mr.torch.TorchLoader:
    plan = (mr.tfrecord(f"{folder}/train*.tfrecord").global_shuffle()
            .parse_example(mr.feature("image/encoded", bytes),
                           mr.feature("image/class/label", int, name="label"))
            .decode_image(channels=1).normalize(mean=72.94, stddev=90.02).resize(28, 28)
            .batch(256, drop_remainder=True).prefetch(2).options(seed=1))
    return plan.torch(("image", "label"))


def main(folder: str) -> None:
    torch.distributed.init_process_group("gloo")
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))
    model = DistributedDataParallel(net, gradient_as_bucket_view=True)
    mr.torch.reduce_gradients(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    loader = make_loader(folder)
    try:
        for epoch in range(EPOCHS):
            for images, labels in loader:
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(model(images), labels)
                loss.backward()
                optimizer.step()
            ranks = mr.default_communicator()
            mean = ranks.all_reduce(loss.detach(), "average").item()
            if ranks.rank == 0:
                print(f"epoch {epoch}: loss {mean:.4f} on {ranks.size} ranks", flush=True)
    except mr.PeerLost as lost:
        sys.exit(f"rank {lost.rank} is gone in step {lost.step}: {lost}")
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])

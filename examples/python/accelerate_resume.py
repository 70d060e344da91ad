"""Accelerate, saved in the middle of an epoch and loaded again with the loader's state.

    python accelerate_resume.py build/fashion_mnist
"""
import sys
import tempfile

import torch
from accelerate import Accelerator
from torch import nn

import millrace as mr

STEPS, STOP = 120, 80  # behind a step of the optimizer: gradients that wait are not saved


def make_loader(folder: str) -> mr.torch.TorchLoader:
    plan = (mr.tfrecord(f"{folder}/train*.tfrecord").global_shuffle()
            .parse_example(mr.feature("image/encoded", bytes),
                           mr.feature("image/class/label", int, name="label"))
            .decode_image(channels=1).resize(28, 28).normalize(mean=72.94, stddev=90.02)
            .batch(512).options(seed=1))
    return plan.torch(("image", "label"))


def train(folder: str, steps: int, first: int = 0, load: str = "", save: str = "") -> nn.Module:
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=4)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(net.parameters(), 0.05)
    net, optimizer, loader = accelerator.prepare(net, optimizer, make_loader(folder))
    if load:
        accelerator.load_state(load)
    step = first
    while step < steps:
        for images, labels in loader:
            with accelerator.accumulate(net):
                accelerator.backward(nn.functional.cross_entropy(net(images), labels))
                optimizer.step()
                optimizer.zero_grad()
            step += 1
            if step == steps:
                break
    if save:
        accelerator.save_state(save)
    return net


def main(folder: str) -> None:
    whole = train(folder, STEPS)
    with tempfile.TemporaryDirectory() as saved:
        train(folder, STOP, save=saved)
        resumed = train(folder, STEPS, first=STOP, load=saved)
    assert all(torch.equal(*pair) for pair in zip(whole.parameters(), resumed.parameters()))
    print(f"resumed at step {STOP} of {STEPS}: the weights are equal to the bit")


if __name__ == "__main__":
    main(sys.argv[1])

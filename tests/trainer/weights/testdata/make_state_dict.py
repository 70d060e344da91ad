"""Writes state_dict.safetensors: a small model's state_dict as PyTorch and safetensors write it.

    python3 make_state_dict.py        with the packages torch and safetensors

The element at (o, i, ...) of a tensor is its number in PyTorch's order, divided by four, which all
of the float dtypes hold exactly.
"""
import pathlib

import torch
from safetensors.torch import save_file


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 2, (3, 1))
        self.bn = torch.nn.BatchNorm2d(2)
        self.fc = torch.nn.Linear(2 * 2 * 3, 2)  # of an image of two rows and three columns


def main():
    net = Net()
    dtypes = {"conv.weight": torch.float16, "conv.bias": torch.bfloat16, "bn.weight": torch.float64}
    tensors = {}
    for name, tensor in net.state_dict().items():
        if tensor.is_floating_point():
            values = torch.arange(tensor.numel(), dtype=torch.float32) / 4
            tensor = values.reshape(tensor.shape).to(dtypes.get(name, torch.float32))
        tensors[name] = tensor.contiguous()
    save_file(tensors, pathlib.Path(__file__).with_name("state_dict.safetensors"))


main()

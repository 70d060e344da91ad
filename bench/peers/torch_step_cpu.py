#!/usr/bin/env python3
"""Training steps of a network in PyTorch on the CPU, on one batch of drawn values; prints JSON.

channels_last, SGD with momentum or Adam: medians of `--steps` steps, by the clock and by the
processor time of the process over its threads. `--bfloat16` is autocast.
"""

import argparse
import contextlib
import json
import statistics
import time

import torch
import torch_models
from torch import nn

WARM_STEPS = 2  # which are not counted


def prepare(model):
    return model.to(memory_format=torch.channels_last)


def drawn(*shape):
    values = torch.randn(*shape)
    return values.to(memory_format=torch.channels_last) if len(shape) == 4 else values


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=1e-6, momentum=0.9)


def adam(model):
    return torch.optim.Adam(model.parameters(), lr=1e-6, fused=True)


class Classification:
    """Steps of a classifier of images."""

    def __init__(self, make, image, classes, make_optimizer):
        self.make, self.image, self.classes = make, image, classes
        self.make_optimizer = make_optimizer

    def begin(self, batch, cast):
        """Returns the models, and the step."""
        model = prepare(self.make())
        optimizer = self.make_optimizer(model)
        images = drawn(batch, *self.image)
        labels = torch.randint(self.classes, (batch,))

        def step():
            optimizer.zero_grad(set_to_none=True)
            with cast:
                output = model(images)
            nn.functional.cross_entropy(output.float(), labels).backward()
            optimizer.step()

        return [model], step


class Adversarial:
    """Steps of CosmoGAN, as those of an adversarial job: three backward passes by the same weights,
    of which each computes the gradients that are needed, and two updates."""

    def begin(self, batch, cast):
        """Returns the models, and the step."""
        generator = prepare(torch_models.cosmogan_generator())
        discriminator = prepare(torch_models.cosmogan_discriminator())
        of_generator = list(generator.parameters())
        of_discriminator = list(discriminator.parameters())
        optimizers = [adam(generator), adam(discriminator)]
        real = drawn(batch, 1, 256, 256)
        yes, no = torch.ones(batch, 1), torch.zeros(batch, 1)

        def judge(maps):
            with cast:
                return discriminator(maps)

        def loss(judgement, target):
            return nn.functional.binary_cross_entropy_with_logits(judgement.float(), target)

        def step():
            for optimizer in optimizers:
                optimizer.zero_grad(set_to_none=True)
            with cast:
                maps = generator(torch.randn(batch, 64))
            of_made = judge(maps)
            loss(of_made, yes).backward(inputs=of_generator, retain_graph=True)
            loss(of_made, no).backward(inputs=of_discriminator)
            loss(judge(real), yes).backward(inputs=of_discriminator)
            for optimizer in optimizers:
                optimizer.step()

        return [generator, discriminator], step


NETWORKS = {"lenet": Classification(torch_models.lenet, (1, 28, 28), 10, sgd),
            "resnet50": Classification(torch_models.resnet50, (3, 224, 224), 10, sgd),
            "hep_cnn": Classification(torch_models.hep_cnn, (3, 224, 224), 2, adam),
            "cosmogan": Adversarial()}


def time_steps(step, steps, threads):
    """The medians by the clock, and by the processor time over the threads, in seconds."""
    for _ in range(WARM_STEPS):
        step()
    wall, cpu = [], []
    for _ in range(steps):
        before = time.perf_counter(), time.process_time()
        step()
        wall.append(time.perf_counter() - before[0])
        cpu.append((time.process_time() - before[1]) / threads)
    return statistics.median(wall), statistics.median(cpu)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("network", choices=sorted(NETWORKS))
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--bfloat16", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    cast = (torch.autocast("cpu", dtype=torch.bfloat16) if options.bfloat16
            else contextlib.nullcontext())
    models, step = NETWORKS[options.network].begin(options.batch, cast)
    wall, cpu = time_steps(step, options.steps, options.threads)
    print(json.dumps({"step_ms": 1e3 * wall, "step_cpu_ms": 1e3 * cpu,
                      "images_per_second": options.batch / wall,
                      "images_per_cpu_second": options.batch / cpu,
                      "parameters": sum(tensor.numel() for model in models
                                        for tensor in model.parameters()),
                      "version": torch.__version__}))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Writes tests/trainer/testdata/{optimizers,schedules}.txt with torch.optim.

Needs the versions of bench/peers/requirements/pytorch.txt, in an environment of its own:

    python3 -m venv VENV && VENV/bin/python bench/peers/install.py pytorch
    VENV/bin/python scripts/make_optimizer_fixtures.py tests/trainer/testdata

Run it only when the set changes, and commit what it writes. Optimizers are float32. LARS, which
PyTorch lacks, is written out here in PyTorch's operations. A case has these lines:

    case NAME
    spec THE OPTIMIZER OF A JOB
    start WEIGHTS
    step RATE | GRADIENT | WEIGHTS AFTER IT      for each step

Those of schedules:

    case NAME
    spec THE OPTIMIZER OF A JOB
    steps STEPS OF AN EPOCH, STEPS IN ALL
    rates RATE OF EACH STEP
"""

import os
import sys

sys.setdlopenflags(os.RTLD_LAZY)  # bench/peers/install.py says why
import torch  # noqa: E402

STEPS = 12
SIZE = 6  # weights; the last one has a gradient of 0 at every other step


class Lars(torch.optim.Optimizer):
    """You, Gitman and Ginsburg 2017, with the rate outside of the momentum."""

    def __init__(self, params, momentum, weight_decay, trust, epsilon=0.0):
        super().__init__(params, {"lr": 0.0})
        self.options = (momentum, weight_decay, trust, epsilon)

    @torch.no_grad()
    def step(self):
        momentum, decay, trust, epsilon = self.options
        for group in self.param_groups:
            for w in group["params"]:
                velocity = self.state[w].setdefault("momentum", torch.zeros_like(w))
                ratio = trust * w.norm() / (w.grad.norm() + decay * w.norm() + epsilon)
                velocity.mul_(momentum).add_(ratio * (w.grad + decay * w))
                w.sub_(group["lr"] * velocity)


CASES = {
    "sgd": ("", torch.optim.SGD, {}),
    "sgd_momentum": ("momentum: 0.9 weight_decay: 0.01", torch.optim.SGD,
                     {"momentum": 0.9, "weight_decay": 0.01}),
    "sgd_nesterov": ("sgd { momentum: 0.8 nesterov: true }", torch.optim.SGD,
                     {"momentum": 0.8, "nesterov": True}),
    "adam": ("adam {}", torch.optim.Adam, {}),
    "adam_decay": ("adam { beta1: 0.5 beta2: 0.9 epsilon: 0.001 } weight_decay: 0.1",
                   torch.optim.Adam, {"betas": (0.5, 0.9), "eps": 0.001, "weight_decay": 0.1}),
    "adamw": ("adamw {} weight_decay: 0.1", torch.optim.AdamW, {"weight_decay": 0.1}),
    "adamw_betas": ("adamw { beta1: 0.8 beta2: 0.95 epsilon: 1e-4 } weight_decay: 0.5",
                    torch.optim.AdamW,
                    {"betas": (0.8, 0.95), "eps": 1e-4, "weight_decay": 0.5}),
    "rmsprop": ("rmsprop {}", torch.optim.RMSprop, {}),
    "rmsprop_momentum": ("rmsprop { alpha: 0.9 epsilon: 0.01 momentum: 0.7 } weight_decay: 0.01",
                         torch.optim.RMSprop,
                         {"alpha": 0.9, "eps": 0.01, "momentum": 0.7, "weight_decay": 0.01}),
    "rmsprop_centered": ("rmsprop { alpha: 0.9 centered: true momentum: 0.5 }",
                         torch.optim.RMSprop, {"alpha": 0.9, "momentum": 0.5, "centered": True}),
    "lars": ("lars {} weight_decay: 0.01", Lars,
             {"momentum": 0.9, "weight_decay": 0.01, "trust": 0.001}),
    "lars_trust": ("lars { momentum: 0.5 trust_coefficient: 0.5 epsilon: 0.1 }", Lars,
                   {"momentum": 0.5, "weight_decay": 0.0, "trust": 0.5, "epsilon": 0.1}),
}


PER_EPOCH = 5
TOTAL = 30
SCHEDULERS = torch.optim.lr_scheduler
SCHEDULES = {
    "cosine": ("cosine { end_lr: 0.01 }", SCHEDULERS.CosineAnnealingLR,
               {"T_max": TOTAL, "eta_min": 0.01}),
    "step": ("step { epoch: 1 epoch: 3 epoch: 4 factor: 0.5 }", SCHEDULERS.MultiStepLR,
             {"milestones": [5, 15, 20], "gamma": 0.5}),
    "polynomial": ("polynomial { power: 2 }", SCHEDULERS.PolynomialLR,
                   {"total_iters": TOTAL, "power": 2}),
    "linear": ("polynomial {}", SCHEDULERS.PolynomialLR, {"total_iters": TOTAL}),
    "exponential": ("exponential { factor: 0.5 }", SCHEDULERS.ExponentialLR,
                    {"gamma": 0.5 ** (1 / PER_EPOCH)}),
    "cosine_restarts": ("cosine_restarts { epochs: 2 }", SCHEDULERS.CosineAnnealingWarmRestarts,
                        {"T_0": 10}),
    "cosine_restarts_longer": ("cosine_restarts { epochs: 1 multiplier: 2 end_lr: 0.02 }",
                               SCHEDULERS.CosineAnnealingWarmRestarts,
                               {"T_0": 5, "T_mult": 2, "eta_min": 0.02}),
    "one_cycle": ("one_cycle {}", SCHEDULERS.OneCycleLR, {"max_lr": 0.1, "total_steps": TOTAL}),
    "one_cycle_parts": ("one_cycle { pct_start: 0.45 div_factor: 10 final_div_factor: 100 }",
                        SCHEDULERS.OneCycleLR,
                        {"max_lr": 0.1, "total_steps": TOTAL, "pct_start": 0.45,
                         "div_factor": 10, "final_div_factor": 100}),
}


def text(values):
    return " ".join(f"{value:.9g}" for value in values.tolist())


def run(name, spec, make, options):
    generator = torch.Generator().manual_seed(sum(map(ord, name)))
    weights = torch.nn.Parameter(torch.randn(SIZE, generator=generator))
    optimizer = make([weights], **options)
    lines = [f"case {name}", f"spec {spec}", f"start {text(weights.detach())}"]
    for step in range(STEPS):
        gradient = torch.randn(SIZE, generator=generator)
        gradient[-1] *= step % 2
        rate = 0.1 / (1 + step % 5)
        for group in optimizer.param_groups:
            group["lr"] = rate
        weights.grad = gradient.clone()
        optimizer.step()
        lines.append(f"step {rate!r} | {text(gradient)} | {text(weights.detach())}")
    return lines


def rates(name, spec, make, options):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
    schedule = make(optimizer, **options)
    values = []
    for step in range(TOTAL):
        values.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        if step + 1 < TOTAL:
            schedule.step()
    return [f"case {name}", f"spec {spec}", f"steps {PER_EPOCH} {TOTAL}",
            "rates " + " ".join(map(repr, values))]


def main():
    for name, cases, make in (("optimizers", CASES, run), ("schedules", SCHEDULES, rates)):
        path = os.path.join(sys.argv[1], name + ".txt")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"# By scripts/make_optimizer_fixtures.py, PyTorch {torch.__version__}.\n")
            for case, parts in cases.items():
                file.write("\n".join(make(case, *parts)) + "\n")


if __name__ == "__main__":
    main()

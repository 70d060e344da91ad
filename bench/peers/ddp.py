#!/usr/bin/env python3
"""Backward and the sums of gradients of 25.6 million parameters on two ranks of this machine:
DistributedDataParallel with Gloo, the same with Millrace's hook, and millrace.torch.Reducer.

Run it by bench/peers/run.sh ddp. One pair of processes has a copy of the network for each, and one
that sums nothing; their steps take turns, so that all meet the same machine. The slower rank's time
counts.
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import time

from machine import ROOT, today

RANKS = 2
WARMUP = 5  # the hook's reducer is made in the third step
LAYERS, WIDTH = 10, 1600
WAYS = {"none": "no sums at all", "gloo": "DistributedDataParallel, Gloo",
        "hook": "DistributedDataParallel, Millrace's hook", "own": "millrace.torch.Reducer"}


def make_steps(torch, rank):
    """Returns a function for each way, which takes a step and returns its gradients."""
    import millrace as mr
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel

    data = torch.randn(4, WIDTH, generator=torch.Generator().manual_seed(rank))

    def step(way):
        torch.manual_seed(0)
        net = nn.Sequential(*[nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)])
        ddp = DistributedDataParallel(net, gradient_as_bucket_view=True) \
            if way in ("gloo", "hook") else net
        if way == "hook":
            mr.torch.reduce_gradients(ddp)
        reducer = mr.torch.Reducer(net) if way == "own" else None

        def take():
            ddp.zero_grad(set_to_none=False)
            loss = ddp(data).square().mean()
            start = time.perf_counter()
            loss.backward()
            if reducer is not None:
                reducer.finish()
            return time.perf_counter() - start, net

        return take

    return {way: step(way) for way in WAYS}


def rank_main(rank, port, steps):
    """One rank: prints the seconds of each way's steps, each the slower rank's."""
    sys.setdlopenflags(os.RTLD_LAZY)  # install.py says why
    import torch
    import torch.distributed as dist
    torch.set_num_threads(1)
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    seconds = {way: [] for way in WAYS}
    ways = make_steps(torch, rank)
    for turn in range(-WARMUP, steps):
        sums = {}
        for way, take in ways.items():
            dist.barrier()
            took, net = take()
            slower = torch.tensor([took])
            dist.all_reduce(slower, op=dist.ReduceOp.MAX)
            sums[way] = float(sum(each.grad.double().sum() for each in net.parameters()))
            if turn >= 0:
                seconds[way].append(slower.item())
        assert sums["gloo"] == sums["hook"] == sums["own"], sums
    if rank == 0:
        print(json.dumps(seconds))
    dist.destroy_process_group()


def measure(package, steps):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(package)}
    ranks = [subprocess.Popen([sys.executable, __file__, "--rank", str(rank), port, str(steps)],
                              stdout=subprocess.PIPE, text=True, env=environment)
             for rank in range(RANKS)]
    outputs = [rank.communicate(timeout=600)[0] for rank in ranks]
    if any(rank.returncode for rank in ranks):
        raise SystemExit("ddp.py: a rank failed")
    return json.loads(outputs[0])


def added_seconds(seconds):
    """What each step took longer than the one of its turn that sums nothing."""
    return {way: [step - bare for step, bare in zip(each, seconds["none"])]
            for way, each in seconds.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=40, help="steps of each (default 40)")
    parser.add_argument("--package", default=ROOT / "build/release/python",
                        help="the folder that has millrace/ (default build/release/python)")
    arguments = parser.parse_args()
    seconds = measure(arguments.package, arguments.steps)
    medians = {way: statistics.median(each) for way, each in seconds.items()}
    exposed = {way: statistics.median(each) for way, each in added_seconds(seconds).items()}
    print(f"{today()}; {LAYERS * WIDTH * (WIDTH + 1) / 1e6:.1f} M parameters, {RANKS} ranks on one "
          f"host; backward and sums, medians and minima of {arguments.steps} steps\n")
    print("| who | ms | minimum | exposed ms | of Gloo's |\n| --- | --- | --- | --- | --- |")
    for way, name in WAYS.items():
        share = "" if way == "none" else f"{exposed[way] / exposed['gloo']:.2f}"
        print(f"| {name} | {medians[way] * 1e3:.1f} | {min(seconds[way]) * 1e3:.1f} "
              f"| {exposed[way] * 1e3:.1f} | {share} |")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--rank"]:
        rank_main(int(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
    else:
        main()

#!/usr/bin/env python3
"""The gradients of a ResNet-50 reduced over two ranks of this machine: Millrace beside PyTorch's
Gloo.

Run it by bench/peers/run.sh allreduce. Medians of turns in which Millrace and PyTorch take their
turn one after the other, each with two processes of its own; every rank rewrites its gradients
before each call that is timed, and the slower rank's time counts.
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import time

from machine import BIN, ROOT, today

RANKS = 2
WARMUP = 3
CALLS = 15  # of one turn

# What torch.nn.parallel.DistributedDataParallel makes of gradients, and what it could.
SHAPES = {
    "gloo, one buffer": "one",
    "gloo, 25 MiB buckets (DistributedDataParallel's)": "buckets",
    "gloo, per tensor": "tensors",
}
BUCKET_BYTES = 25 << 20


def resnet50_sizes():
    """Elements of the 161 parameters, in the order of the forward pass."""
    sizes = [64 * 3 * 49, 64, 64]
    inputs = 64
    for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(blocks):
            sizes += [inputs * width, width, width, width * width * 9, width, width,
                      width * 4 * width, width * 4, width * 4]
            if block == 0:
                sizes += [inputs * width * 4, width * 4, width * 4]
            inputs = width * 4
    return sizes + [2048 * 1000, 1000]


def pieces(shape):
    sizes = resnet50_sizes()
    if shape == "one":
        return [sum(sizes)]
    if shape == "tensors":
        return sizes
    buckets, held = [], 0
    for size in reversed(sizes):
        if held and (held + size) * 4 > BUCKET_BYTES:
            buckets.append(held)
            held = 0
        held += size
    return buckets + [held]


def rank_main(rank, port, shape):
    """One rank of PyTorch: prints the median of its calls, each the slower rank's."""
    sys.setdlopenflags(os.RTLD_LAZY)  # install.py says why
    import torch
    import torch.distributed as dist
    torch.set_num_threads(1)
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    tensors = [torch.empty(size) for size in pieces(shape)]
    seconds = []
    for turn in range(-WARMUP, CALLS):
        for tensor in tensors:
            tensor.fill_(rank + 1.0)
        dist.barrier()
        start = time.perf_counter()
        for work in [dist.all_reduce(tensor, async_op=True) for tensor in tensors]:
            work.wait()
        took = torch.tensor([time.perf_counter() - start])
        dist.all_reduce(took, op=dist.ReduceOp.MAX)
        assert all(tensor[-1] == 3 for tensor in tensors)
        if turn >= 0:
            seconds.append(took.item())
    if rank == 0:
        print(json.dumps({"seconds": statistics.median(seconds)}))
    dist.destroy_process_group()


def torch_turn(shape):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    ranks = [subprocess.Popen([sys.executable, __file__, "--rank", str(rank), port, shape],
                              stdout=subprocess.PIPE, text=True, env=environment)
             for rank in range(RANKS)]
    outputs = [rank.communicate(timeout=300)[0] for rank in ranks]
    if any(rank.returncode for rank in ranks):
        raise SystemExit(f"allreduce.py: PyTorch failed with {shape}")
    return json.loads(outputs[0])["seconds"]


def millrace_turn():
    """The seconds of a whole gradient in shared memory."""
    output = subprocess.run(
        [ROOT / "scripts" / "mpirun.sh", "-np", str(RANKS), BIN / "bench_collective_rows", "push",
         str(CALLS)], stdout=subprocess.PIPE, check=True, text=True).stdout
    return json.loads(output.strip().splitlines()[-1])["push_warm"] / 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5, help="turns (default 5)")
    arguments = parser.parse_args()
    turns = {name: [] for name in SHAPES}
    ours = []
    for _ in range(arguments.repeats):
        ours.append(millrace_turn())
        for name, shape in SHAPES.items():
            turns[name].append(torch_turn(shape))
    own = statistics.median(ours)
    print(f"{today()}; 161 gradients, {sum(resnet50_sizes()) * 4 / 1e6:.1f} MB of float32, "
          f"{RANKS} ranks on one host; medians of {arguments.repeats} turns\n")
    print("| who | ms | Millrace is faster by |\n| --- | --- | --- |")
    print(f"| Millrace, shared memory | {own * 1e3:.2f} | |")
    for name, seconds in turns.items():
        median = statistics.median(seconds)
        print(f"| PyTorch {name} | {median * 1e3:.1f} | {median / own:.1f} |")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--rank"]:
        rank_main(int(sys.argv[2]), sys.argv[3], sys.argv[4])
    else:
        main()

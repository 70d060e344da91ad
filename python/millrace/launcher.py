"""Which rank this process is, and of how many."""

import sys
from typing import NamedTuple

from millrace import _core

__all__ = ["Launcher", "detect_launcher"]


class Launcher(NamedTuple):
    """The rank of this process, the number of ranks, and where both were found."""

    rank: int
    world: int
    source: str


def detect_launcher() -> Launcher:
    """Says which rank this process is.

    Asks torch.distributed and jax.distributed, where the program has initialised them, and then the
    environment: torchrun, Open MPI, MPICH, PMIx, Slurm, TF_CONFIG and Kubernetes. Without any of
    them the process is rank 0 of 1. Variables that disagree are an error.
    """
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return Launcher(distributed.get_rank(), distributed.get_world_size(), "torch.distributed")
    jax = sys.modules.get("jax")
    if jax is not None and jax.distributed.is_initialized():
        return Launcher(jax.process_index(), jax.process_count(), "jax.distributed")
    found, rank, world, _, source = _core.detect_launcher()
    if not found:
        return Launcher(0, 1, "no launcher")
    return Launcher(rank, world or 1, source)

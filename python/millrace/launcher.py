"""Which rank this process is, and of how many."""

import sys
from typing import Any, NamedTuple, Optional

from millrace import _core
from millrace.context import log

__all__ = ["Launcher", "detect_launcher"]


class Launcher(NamedTuple):
    """The rank of this process, the number of ranks, and where both were found."""

    rank: int
    world: int
    source: str


_NONE = Launcher(0, 1, "no launcher")


def detect_launcher() -> Launcher:
    """Says which rank this process is.

    Asks torch.distributed and jax.distributed, where the program has initialised them, the context
    of a worker of Ray Train, and a barrier task of Spark. Then it looks at the environment:
    torchrun, Open MPI, MPICH, PMIx, Slurm, TF_CONFIG and Kubernetes. Without any of them the
    process is rank 0 of 1. Variables that disagree are an error.
    """
    for ask in (_ask_torch, _ask_jax, _ask_ray, _ask_spark, _ask_environment):
        found = ask()
        if found is not None:
            return found
    return _NONE


def find_ranks() -> Launcher:
    """Returns what detect_launcher() does, and writes it to the log: as a warning where a program
    of Ray or Spark has no rank, since each of its processes would read all rows."""
    found = detect_launcher()
    text = "rank {} of {} ({})".format(*found)
    cluster = next((name for name in ("ray", "pyspark") if name in sys.modules), None)
    if found is _NONE and cluster is not None:
        log(1, f"{text}: {cluster} is imported, but this is neither a worker of Ray Train nor a "
               "barrier task of Spark. If others read the same plan, give rank= and world=")
    else:
        log(0, text)
    return found


def _ask_torch() -> Optional[Launcher]:
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return Launcher(distributed.get_rank(), distributed.get_world_size(), "torch.distributed")


def _ask_jax() -> Optional[Launcher]:
    jax = sys.modules.get("jax")
    if jax is None or not jax.distributed.is_initialized():
        return None
    return Launcher(jax.process_index(), jax.process_count(), "jax.distributed")


def _ask_ray() -> Optional[Launcher]:
    train = sys.modules.get("ray.train")
    if train is None:
        return None
    try:
        context: Any = train.get_context()
        rank, world = context.get_world_rank(), context.get_world_size()
        # Outside of a worker older versions say 0 of 1, and name no experiment.
        is_worker = world != 1 or context.get_experiment_name() is not None
    except Exception:  # this is no worker; of which class that is depends on the version
        return None
    # A trial of Ray Tune has a context too, but no ranks.
    is_rank = isinstance(rank, int) and isinstance(world, int)
    return Launcher(rank, world, "ray.train") if is_worker and is_rank else None


def _ask_spark() -> Optional[Launcher]:
    spark = sys.modules.get("pyspark")
    if spark is None:
        return None
    try:
        task: Any = spark.BarrierTaskContext.get()
        return Launcher(task.partitionId(), len(task.getTaskInfos()), "pyspark")
    except Exception:  # this is no barrier task, or there is none
        return None


def _ask_environment() -> Optional[Launcher]:
    found, rank, world, _, source = _core.detect_launcher()
    return Launcher(rank, world or 1, source) if found else None

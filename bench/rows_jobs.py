"""Trainings whose steps several rows time: jobs of bench/jobs over data that is made once."""
import os
import subprocess

from rows import BIN, DATA, run_json
from rows_data import made_once

TARGETS = ["bench_make_tensors", "bench_train_steps"]
RECORDS = 64  # of each folder of tensors: the data lies in the page cache


def drawn_tensors(field, *shape):
    """A folder of Examples with `field`, floats of `shape`, and a label, made once."""
    def fill(folder):
        subprocess.run([BIN / "bench_make_tensors", folder / "train.tfrecord", str(RECORDS), field,
                        *map(str, shape)], check=True)

    return made_once(DATA / "-".join(["tensors", field, *map(str, shape)]), fill)


def hep_events():
    return drawn_tensors("image", 224, 224, 3)


def cosmogan_maps():
    return drawn_tensors("map", 256, 256, 1)


def time_steps(job, data, batch, steps, replicas=1, threads=0, cores=None, env=None, **variables):
    """What bench_train_steps prints of the job, and its rates of images. `cores` binds the process,
    and within it each replica to its part of them."""
    words = [f"{name}={value}" for name, value in
             {"DATA": data, "BATCH": batch, **variables}.items()]
    bound = [] if cores is None else ["taskset", "-c", ",".join(map(str, cores))]
    caches = {"XDG_CACHE_HOME": str(DATA / "cache")}
    turn = run_json([*bound, BIN / "bench_train_steps", f"bench/jobs/{job}.pbtxt", replicas,
                     threads, steps, *words], env={**caches, **(env or {})})
    for rate, time in (("images_per_second", "step_ms"), ("images_per_cpu_second", "step_cpu_ms"),
                       ("mean_images_per_second", "mean_step_ms")):
        turn[rate] = 1e3 * batch / turn[time]
    return turn


def usable_cores(count):
    return sorted(os.sched_getaffinity(0))[:count]

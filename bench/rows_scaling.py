"""Rows of the area `trainer` that scale: one rank and two, each on a core of its own."""
import functools
import pathlib
import statistics
import subprocess

import rows_jobs
from rows import BIN, DATA, Skip, need_cores, paired
from rows_data import made_once
from rows_jobs import cosmogan_maps, hep_events, time_steps, usable_cores

FASHION_MNIST = pathlib.Path("/usr/share/datasets/fashion-mnist")


def fashion_mnist():
    """A folder of 15,000 of Fashion-MNIST's images, made once."""
    def fill(folder):
        subprocess.run([BIN / "millrace", "records", "convert", "--from", "idx",
                        "--images", FASHION_MNIST / "train-images-idx3-ubyte.gz",
                        "--labels", FASHION_MNIST / "train-labels-idx1-ubyte.gz",
                        "--out", folder, "--prefix", "train", "--shards", "8"],
                       check=True, stdout=subprocess.DEVNULL)
        for path in sorted(folder.glob("*.tfrecord"))[2:]:
            path.unlink()

    if not FASHION_MNIST.exists():
        raise Skip(f"no {FASHION_MNIST}")
    return made_once(DATA / "fashion_mnist", fill)


# Of each job of bench/jobs: its data, the batch of one rank, and the steps that are timed.
JOBS = {"lenet": (fashion_mnist, 64, 200), "hep_cnn": (hep_events, 8, 3),
        "cosmogan": (cosmogan_maps, 8, 2)}


@functools.cache
def rates(job, repeats):
    """Images by second, turn by turn: of one rank, of two with twice its batch (weak), and of two
    with its batch (strong). The turns take them in either order."""
    need_cores(2)
    make_data, batch, steps = JOBS[job]
    data = make_data()
    runs = {"one": (1, batch), "weak": (2, 2 * batch), "strong": (2, batch)}
    turns = []
    for turn in range(repeats):
        names = list(reversed(runs)) if turn % 2 else list(runs)
        turns.append({name: time_steps(job, data, runs[name][1], steps, replicas=runs[name][0],
                                       cores=usable_cores(runs[name][0]))["images_per_second"]
                      for name in names})
    return turns


def scaling(kind, job, repeats):
    """The rate of two ranks by that of one. The limit is 2, so the ratio is the efficiency."""
    turns = rates(job, repeats)
    row = paired(f"{kind}_scaling_2_{job}", "times", [turn[kind] / turn["one"] for turn in turns],
                 [2] * len(turns))
    one, two = (statistics.median(turn[name] for turn in turns) for name in ("one", kind))
    row["note"] = (f"efficiency {row['ratio']:.1%}: one rank {one:,.1f} images/s, two {two:,.1f}; "
                   + row["note"])
    return row


def weak_scaling_2_lenet(repeats):
    return scaling("weak", "lenet", repeats)


def strong_scaling_2_lenet(repeats):
    return scaling("strong", "lenet", repeats)


def weak_scaling_2_hep_cnn(repeats):
    return scaling("weak", "hep_cnn", repeats)


def strong_scaling_2_hep_cnn(repeats):
    return scaling("strong", "hep_cnn", repeats)


def weak_scaling_2_cosmogan(repeats):
    return scaling("weak", "cosmogan", repeats)


def strong_scaling_2_cosmogan(repeats):
    return scaling("strong", "cosmogan", repeats)


TARGETS = ["millrace", *rows_jobs.TARGETS]
ROWS = [weak_scaling_2_lenet, strong_scaling_2_lenet, weak_scaling_2_hep_cnn,
        strong_scaling_2_hep_cnn, weak_scaling_2_cosmogan, strong_scaling_2_cosmogan]
BARS = {row.__name__: ("ratio >= 0.95", lambda row: row["ratio"] >= 0.95)
        for row in ROWS if row.__name__.startswith("weak_")}

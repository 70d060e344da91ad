"""Rows of the area `trainer` that update weights: the optimizer over ResNet-50's parameters."""
from rows import BIN, need_cores, run_json

PROGRAM = BIN / "bench_optimizer_rows"
THREADS = 2


def updates(name, optimizer, repeats):
    """Bytes per second of the arrays that an update reads and writes, beside a plain loop."""
    need_cores(THREADS)
    run = run_json([PROGRAM, optimizer, THREADS, max(repeats, 15)])
    return {"name": name, "value": run["update"] / 1e9, "unit": "GB/s", "limit": run["limit"] / 1e9,
            "ratio": run["ratio"], "value_spread": run["update_spread"],
            "limit_spread": run["limit_spread"], "repeats": run["turns"],
            "note": f"ratios of the turns {run['least']:.3f} to {run['most']:.3f}"}


def adam_102mb(repeats):
    return updates("adam_102mb", "adam {}", repeats)


def lars_102mb(repeats):
    return updates("lars_102mb", "lars { momentum: 0.9 }", repeats)


def sgd_102mb(repeats):
    return updates("sgd_102mb", "sgd { momentum: 0.9 }", repeats)


TARGETS = ["bench_optimizer_rows"]
ROWS = [adam_102mb, lars_102mb, sgd_102mb]
BARS = {row.__name__: ("ratio >= 0.85", lambda row: row["ratio"] >= 0.85) for row in ROWS}

"""Rows of the benches: a value and its limit, measured turn by turn."""
import json
import os
import pathlib
import resource
import statistics
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
BIN = ROOT / "build" / "release" / "bin"
DATA = ROOT / "build" / "bench_data"
RECORD_SECONDS = 1  # each record measurement reads its file again until so much time has passed


class Skip(Exception):
    """The row cannot be measured here; the text says why."""


def run_json(command, env=None):
    """The JSON object that `command` prints as its last line; `env` is added to its environment."""
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, text=True,
                          env={**os.environ, **(env or {})})
    if done.returncode != 0:
        raise RuntimeError(f"{words[0]} ended with {done.returncode}")
    text = done.stdout.strip()
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return json.loads(text.splitlines()[-1])


def samples_per_core(command):
    """Samples of a `millrace run --json` by the processor time of the whole program."""
    words = [str(word) for word in command]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        raise Skip((done.stderr.strip().splitlines() or ["it failed"])[-1])
    seconds = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return json.loads(done.stdout.strip().splitlines()[-1])["samples"] / seconds


def spread(figures):
    return (max(figures) - min(figures)) / statistics.median(figures)


def summary(name, unit, values, limits):
    middle, bound = statistics.median(values), statistics.median(limits)
    return {"name": name, "value": middle, "unit": unit, "limit": bound, "ratio": middle / bound,
            "value_spread": spread(values), "limit_spread": spread(limits), "repeats": len(values)}


def measure(name, unit, value, limit, repeats):
    values, limits = [], []
    for _ in range(repeats):
        values.append(value())
        limits.append(limit())
    return summary(name, unit, values, limits)


def paired(name, unit, values, limits):
    """A row whose ratio is the median of the turns' own ratios."""
    row = summary(name, unit, values, limits)
    ratios = [value / limit for value, limit in zip(values, limits)]
    row["ratio"], row["ratio_spread"] = statistics.median(ratios), spread(ratios)
    row["note"] = f"ratios of the turns {min(ratios):.3f} to {max(ratios):.3f}"
    return row


def measure_paired(name, unit, value, limit, repeats):
    """Value and limit follow each other in every turn, in the next one in reverse, and their ratio
    is taken within the turn: a machine that gets slower or faster does so to both alike."""
    turns = []
    for turn in range(repeats):
        both = (value, limit)
        figures = {run: run() for run in (reversed(both) if turn % 2 else both)}
        turns.append([figures[run] for run in both])
    return paired(name, unit, *zip(*turns))


def measure_scaling(name, value_rate, limit_rate, repeats):
    """Rates of two threads by those of one.

    Within a turn the four runs alternate, and the next turn has them in reverse, so that a machine
    which gets slower or faster does so to both scalings alike.
    """
    values, limits = [], []
    for turn in range(repeats):
        runs = [(rate, threads) for threads in (1, 2) for rate in (value_rate, limit_rate)]
        rates = {run: run[0](run[1]) for run in (reversed(runs) if turn % 2 else runs)}
        values.append(rates[value_rate, 2] / rates[value_rate, 1])
        limits.append(rates[limit_rate, 2] / rates[limit_rate, 1])
    return paired(name, "times", values, limits)


def need_cores(count):
    if len(os.sched_getaffinity(0)) < count:
        raise Skip(f"fewer than {count} cores")


def judge(row, bars):
    """Adds the row's bar, and whether it is met where the machine can tell."""
    row["bar"], holds = bars[row["name"]]
    met = holds(row)
    if met is not None:
        row["met"] = met


def run_rows(benches, bars, repeats, done):
    """The rows of `benches` in their order, with their bars; `done` sees each as it is there."""
    found = []
    for bench in benches:
        name = bench.__name__
        try:
            row = bench(repeats)
            if name in bars:
                judge(row, bars)
        except Skip as reason:
            row = {"name": name, "skipped": str(reason)}
            if name in bars:
                row["bar"] = bars[name][0]
        found.append(row)
        done(row)
    return found

"""The row `tune` of `scripts/bench.sh pipeline`: what `millrace tune` finds, beside a search of every
value of a grid."""
import itertools
import os
import random
import re
import statistics
import subprocess

from rows import BIN, DATA, ROOT, run_json, spread
from rows_data import imagenet_shards, imagenet_tar, made_once

GRID_SECONDS = 1  # of each point of the grid
TURN_SECONDS = 3  # of the two plans that are compared in the end


def criteo_lines():
    """Lines as Criteo's: a label, 13 counts, 26 categories; made once."""
    def fill(folder):
        draw = random.Random(1)
        with open(folder / "train.txt", "w") as lines:
            for _ in range(200_000):
                counts = [str(draw.randrange(1000)) for _ in range(13)]
                words = [f"{draw.randrange(1 << 32):08x}" for _ in range(26)]
                lines.write("\t".join([str(draw.randrange(2)), *counts, *words]) + "\n")

    return made_once(DATA / "criteo", fill) / "train.txt"


def corpus():
    """A text of lines of 50 to 400 words and its vocabulary, made once."""
    def fill(folder):
        draw = random.Random(1)
        words = [f"word{i}" for i in range(20_000)]
        (folder / "vocab.txt").write_text("".join(word + "\n" for word in words))
        with open(folder / "corpus.txt", "w") as lines:
            for _ in range(50_000):
                lines.write(" ".join(draw.choices(words, k=draw.randrange(50, 400))) + "\n")

    return made_once(DATA / "corpus", fill)


def examples():
    """The plans and their variables."""
    folder = corpus()
    return [("imagenet/train", {"DATA": imagenet_shards(imagenet_tar()), "BATCH": 64}),
            ("tabular/train_tsv", {"DATA": criteo_lines()}),
            ("text/train_words", {"DATA": folder / "corpus.txt", "VOCAB": folder / "vocab.txt"})]


def words_of(variables):
    return [word for name, value in variables.items() for word in ("--var", f"{name}={value}")]


def rate(plan, variables, seconds):
    done = run_json([BIN / "millrace", "run", plan, *words_of(variables), "--seconds", seconds,
                     "--json"])
    return done["samples_per_second"]


def tuned(plan, variables, out):
    subprocess.run([str(word) for word in
                    [BIN / "millrace", "tune", plan, *words_of(variables), "-o", out,
                     "--overwrite"]], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return out


def grid():
    """All settings that the exhaustive search tries."""
    cores = len(os.sched_getaffinity(0))
    return [{"threads": threads, "run_us": run, "prefetch": ring}
            for threads, run, ring in itertools.product(range(1, cores + 1),
                                                        (25, 50, 100, 200, 400), (2, 4, 8, 16))]


def with_settings(plan, settings, out):
    text = re.sub(r"prefetch \{[^}]*\}", f"prefetch {{ batches: {settings['prefetch']} }}",
                  (ROOT / plan).read_text())
    out.write_text(f"{text}\nperformance {{ threads: {settings['threads']} "
                   f"run_us: {settings['run_us']} }}\n")
    return out


def best_of_grid(plan, variables, out):
    def measured(settings):
        return rate(with_settings(plan, settings, out), variables, GRID_SECONDS)

    best = max(grid(), key=measured)
    return with_settings(plan, best, out)


def tune(repeats):
    """Rates of the tuned plans by those of the best ones of the grid, the least of the examples."""
    folder = DATA / "tune"
    folder.mkdir(parents=True, exist_ok=True)
    ratios = {}
    for name, variables in examples():
        plan = f"examples/{name}.pbtxt"
        mine = tuned(plan, variables, folder / "tuned.pbtxt")
        best = best_of_grid(plan, variables, folder / "best.pbtxt")
        ratios[name] = [rate(mine, variables, TURN_SECONDS) / rate(best, variables, TURN_SECONDS)
                        for _ in range(repeats)]
    middles = {name: statistics.median(of) for name, of in ratios.items()}
    least = min(middles, key=middles.get)
    return {"name": "tune", "value": middles[least], "unit": "of it", "limit": 1.0,
            "ratio": middles[least], "value_spread": spread(ratios[least]), "limit_spread": 0.0,
            "repeats": repeats,
            "note": ", ".join(f"{name} {middle:.3f}" for name, middle in middles.items())}


TARGETS = ["millrace"]
ROWS = [tune]
BARS = {"tune": ("ratio >= 0.98", lambda row: row["ratio"] >= 0.98)}

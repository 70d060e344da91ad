"""The rows of `scripts/bench.sh augment`."""
import os
import resource
import statistics

from rows import BIN, RECORD_SECONDS, measure, measure_scaling, need_cores, run_json
from rows_data import imagenet_500px_tar, imagenet_shards, imagenet_tar, test_data

TRAIN = "examples/imagenet/train.pbtxt"
H100 = 1786  # images/s of ResNet-50 that MLPerf Storage gives an emulated H100


def jpeg_row(name, tar, row, repeats):
    def rate(words):
        return lambda: run_json([BIN / "bench_jpeg_rows", tar, words, 2])["per_second"]

    return measure(name, "images/s", rate(row), rate(row + "_limit"), repeats)


def jpeg_region(repeats):
    return jpeg_row("jpeg_region", imagenet_tar(), "region", repeats)


def jpeg_full(repeats):
    return jpeg_row("jpeg_full", imagenet_tar(), "full", repeats)


def jpeg_500px(repeats):
    return jpeg_row("jpeg_500px", imagenet_500px_tar(), "region", repeats)


def tabular(repeats):
    def rate(words):
        return lambda: run_json([BIN / "bench_field_rows", words, RECORD_SECONDS])["per_second"]

    return measure("tabular", "records/s", rate("tabular"), rate("tabular_limit"), repeats)


def hostile_jpeg(repeats):
    """The longest time that one damaged or forged file takes; it has no bar."""
    tar = test_data("hostile-jpeg.tar.xz")
    turns = []

    def longest(row):
        def run():
            turn = run_json([BIN / "bench_hostile_jpegs", tar, row])
            if row == "ours":
                turns.append(turn)
            return turn["max_ms"]
        return run

    row = measure("hostile_jpeg", "ms", longest("ours"), longest("limit"), repeats)
    median = statistics.median(turn["median_ms"] for turn in turns)
    row["note"] = f"{turns[-1]['file']}; median of {turns[-1]['files']} files {median:.4f} ms"
    return row


def png_small(repeats):
    def rate(row):
        return lambda: run_json([BIN / "bench_png_rows", row, 2])["per_second"]

    return measure("png_small", "images/s", rate("small"), rate("small_limit"), repeats)


def train_rate(threads):
    """Images per second of the train path once it is warm, by the clock of one process."""
    return run_json([BIN / "bench_train_rate", TRAIN, imagenet_shards(imagenet_tar()), threads, 3])[
        "images_per_second"]


def raw_rate(threads):
    return run_json([BIN / "bench_raw_jpeg", imagenet_tar(), threads, 3])["images_per_second"]


def resize_normalize(repeats):
    tar = imagenet_tar()
    turns = [run_json([BIN / "bench_resize_rows", tar, RECORD_SECONDS]) for _ in range(repeats)]
    levels = [name for name in turns[0] if name not in ("height", "width", "copy")]

    def figures(name):
        each = iter([turn[name] for turn in turns])
        return lambda: next(each)

    row = measure("resize_normalize", "us", figures(levels[0]), figures("copy"), repeats)
    row["levels"] = {name: statistics.median(turn[name] for turn in turns) for name in levels}
    row["note"] = (f"of {turns[0]['height']} x {turns[0]['width']}; " +
                   ", ".join(f"{name} {us:.1f}" for name, us in row["levels"].items()))
    return row


def image_ops(repeats):
    turns = [run_json([BIN / "bench_image_rows", 0.2]) for _ in range(repeats)]
    levels = [name for name in turns[0] if name != "copy"]
    means = iter([statistics.mean(turn[levels[0]].values()) for turn in turns])
    copies = iter([turn["copy"] for turn in turns])
    row = measure("image_ops", "us", lambda: next(means), lambda: next(copies), repeats)
    row["levels"] = {level: {op: statistics.median(turn[level][op] for turn in turns)
                             for op in turns[0][level]} for level in levels}
    row["note"] = f"{' / '.join(levels)}: " + ", ".join(
        f"{op} {' / '.join(format(row['levels'][level][op], '.1f') for level in levels)}"
        for op in row["levels"][levels[0]])
    return row


def train_path(repeats):
    need_cores(2)
    return measure("train_path", "images/s", lambda: train_rate(2), lambda: raw_rate(2),
                   repeats)


def train_scaling_2(repeats):
    need_cores(2)
    return measure_scaling("train_scaling_2", train_rate, raw_rate, repeats)


def rand_augment(repeats):
    """Per core, for the two plans differ by less than the machine does from hour to hour.

    User time: what the kernel takes to clear a slab's first pages varies by more than that, too.
    """
    shards = imagenet_shards(imagenet_tar())

    def per_core(plan):
        def cpu(batches):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            run = run_json([BIN / "millrace", "run", plan, "--var", f"DATA={shards}", "--threads", 1,
                            "--batches", batches, "--json"])
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            return run["samples"], after.ru_utime - before.ru_utime

        def run():
            (few, short), (many, long) = cpu(4), cpu(16)
            return (many - few) / (long - short)
        return run

    row = measure("rand_augment", "images/s", per_core("bench/rand_augment.pbtxt"), per_core(TRAIN),
                  repeats)
    row["note"] = f"costs {1 - row['ratio']:.0%}"
    return row


def h100_per_core(repeats):
    """The pace per core at which an emulated accelerator is still busy for 90 % of the time."""
    cores = len(os.sched_getaffinity(0))
    shards = imagenet_shards(imagenet_tar())

    def utilisation(pace):
        run = run_json([BIN / "millrace", "run", TRAIN, "--var", f"DATA={shards}", "--pace",
                        f"{pace:.0f}", "--threads", cores, "--seconds", 8, "--json"])
        return run["au"] or 0  # null: not one step was counted

    def best_pace():
        low, high = 0.5 * H100 * cores, 4 * H100 * cores
        for _ in range(5):
            pace = (low * high) ** 0.5
            low, high = (pace, high) if utilisation(pace) >= 0.9 else (low, pace)
        return low / cores

    return measure("h100_per_core", "images/s", best_pace, lambda: H100, repeats)


TARGETS = ["millrace", "bench_field_rows", "bench_hostile_jpegs", "bench_image_rows",
           "bench_jpeg_rows", "bench_png_rows", "bench_raw_jpeg", "bench_recode_jpegs",
           "bench_resize_rows", "bench_train_rate"]
ROWS = [jpeg_region, jpeg_full, jpeg_500px, hostile_jpeg, png_small, resize_normalize,
        image_ops, train_path, train_scaling_2, rand_augment, h100_per_core, tabular]


def met_at_levels(row, most):
    """Whether each level that the machine has is fast enough; None where it has none of them."""
    there = [level for level in most if level in row["levels"]]
    return all(row["levels"][level] <= most[level] for level in there) if there else None


# What rows should reach: in words, and as a test of the row, None where the machine cannot tell.
# Shown, never asserted.
BARS = {
    "jpeg_region": ("ratio >= 2", lambda row: row["ratio"] >= 2),
    "jpeg_full": ("ratio >= 2", lambda row: row["ratio"] >= 2),
    "jpeg_500px": ("ratio >= 2", lambda row: row["ratio"] >= 2),
    "png_small": ("ratio >= 0.9", lambda row: row["ratio"] >= 0.9),
    "resize_normalize": ("<= 40 us with AVX-512, <= 60 us with AVX2",
                         lambda row: met_at_levels(row, {"AVX3": 40, "AVX2": 60})),
    "train_path": ("ratio >= 1.7", lambda row: row["ratio"] >= 1.7),
    "train_scaling_2": ("ratio >= 0.97", lambda row: row["ratio"] >= 0.97),
    "rand_augment": ("ratio >= 0.8", lambda row: row["ratio"] >= 0.8),
    "h100_per_core": ("ratio >= 1", lambda row: row["ratio"] >= 1),
}

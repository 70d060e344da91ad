"""Rows of the area `collectives`: ranks are processes under mpirun on this machine."""
import os

from rows import BIN, ROOT, Skip, measure, need_cores, run_json, summary

PROGRAM = BIN / "bench_collective_rows"
LEAST_TURNS = 15  # of every row, for the medians of fewer wander
# The segmented ring of Open MPI, by pieces of 1 MiB.
RING = ("--mca", "coll_tuned_use_dynamic_rules", "1", "--mca", "coll_tuned_allreduce_algorithm", "5",
        "--mca", "coll_tuned_allreduce_algorithm_segmentsize", str(1 << 20))


def ranks(count, row, turns, *settings):
    if not PROGRAM.exists():
        raise Skip("this build has no MPI")
    return run_json([ROOT / "scripts" / "mpirun.sh", "-np", count, *settings, PROGRAM, row, turns])


def of_two(row, repeats):
    """What two ranks print of `row`, and of how many turns."""
    need_cores(2)
    turns = max(repeats, LEAST_TURNS)
    return ranks(2, row, turns), turns


def best_of_mpi(plain, ring, state):
    """(MPI's time by push's, push's, MPI's, way) of the way with the least ratio within its run."""
    ways = [(name, plain) for name in ("mpi", "chunks_1_mib", "chunks_2_mib", "chunks_4_mib")]
    timed = [(name, run[f"push_{state}"], run[f"{name}_{state}"]) for name, run in ways]
    timed.append(("ring", ring[f"push_{state}"], ring[f"mpi_{state}"]))
    return min((ms / push, push, ms, name) for name, push, ms in timed)


def resnet50_shm(repeats):
    """Milliseconds; the limit is the best of MPI's ways, the ratio how many times faster push is.

    Both runs have push beside MPI's ways, so that each of these is compared within its run."""
    plain, turns = of_two("resnet50", repeats)
    ring = ranks(2, "ring", turns, *RING)
    ratio, push, limit, way = best_of_mpi(plain, ring, "warm")
    ratio_cold, push_cold, _, way_cold = best_of_mpi(plain, ring, "cold")
    row = summary("resnet50_shm", "ms", [push], [limit])
    row.update(repeats=turns, ratio=ratio, ratio_cold=ratio_cold,
               of_loop=plain["loop_warm"] / plain["push_warm"],
               of_loop_cold=plain["loop_cold"] / plain["push_cold"])
    row["note"] = (f"best of MPI {way}; cold {push_cold:.2f} ms, {ratio_cold:.2f} times {way_cold}; "
                   f"{row['of_loop']:.0%} of the loop, cold {row['of_loop_cold']:.0%}; "
                   f"one default call {plain['mpi_warm']:.1f} ms")
    return row


def resnet50_user_buffers(repeats):
    """Gradients in user buffers; the limit is the same with gradients in buckets."""
    own, turns = of_two("user_buffers", repeats)
    row = summary("resnet50_user_buffers", "ms", [own["user_buffers_warm"]], [own["push_warm"]])
    row.update(repeats=turns,
               note=f"cold {own['user_buffers_cold']:.2f} of {own['push_cold']:.2f} ms")
    return row


def resnet50_mpi(repeats):
    """As resnet50_shm, of ranks that share no memory; the ratio is MPI's time by ours.

    Both runs have our time beside MPI's ways, so that each of these is compared within its run. The
    note has MPI's ways over a buffer in huge pages, where the reducer's memory is."""
    need_cores(2)
    turns = max(repeats, LEAST_TURNS)
    plain, ring = ranks(2, "messages", turns), ranks(2, "messages", turns, *RING)
    ways = {name: (plain["messages"], ms) for name, ms in plain.items() if name != "messages"}
    ways |= {name.replace("mpi", "ring"): (ring["messages"], ms)
             for name, ms in ring.items() if name in ("mpi", "mpi_huge")}

    def best(huge):
        return min((ms / own, own, ms, name) for name, (own, ms) in ways.items()
                   if name.endswith("_huge") == huge)

    ratio, own, limit, way = best(huge=False)
    row = summary("resnet50_mpi", "ms", [own], [limit])
    row.update(repeats=turns, ratio=ratio, ratio_huge=best(huge=True)[0])
    row["note"] = (f"best of MPI {way}; {row['ratio_huge']:.3f} of {best(huge=True)[3]} with its "
                   f"buffer in huge pages, {best(huge=True)[2]:.1f} ms")
    return row


def small_161(repeats):
    own, turns = of_two("small_161", repeats)
    row = summary("small_161", "ms", [own["push"]], [own["mpi"]])
    row.update(repeats=10 * turns, ratio=own["mpi"] / own["push"])
    return row


def overlap_spare(repeats):
    """What is exposed is Finish: a thread of each rank's reduces, and MarkReady only tells it.

    The limit is a step that has the last bucket's gradients alone, by turns with the whole one. The
    note has both with MarkReady, and the last bucket's sums where both ranks are awake, which no
    step that sleeps reaches (docs/decisions/0036-exposed-time.md)."""
    own, turns = of_two("overlap_spare", repeats)
    row = summary("overlap_spare", "ms", [own["overlapped_finishing"]],
                  [own["last_bucket_finishing"]])
    row.update(repeats=turns, ratio_with_marking=own["overlapped"] / own["last_bucket"],
               ratio_of_sums=own["overlapped_finishing"] / own["last_bucket_warm"],
               ratio_of_sums_cold=own["overlapped_finishing"] / own["last_bucket_cold"],
               note=f"with MarkReady {own['overlapped']:.3f} and {own['last_bucket']:.3f}; "
                    f"its sums alone {own['last_bucket_warm']:.3f}, from memory "
                    f"{own['last_bucket_cold']:.3f}; "
                    f"all of it after backward {own['after']:.2f} ms")
    return row


def overlap_busy(repeats):
    """The limit is what is exposed where all is reduced after backward. The ranks have all cores."""
    own, turns = of_two("overlap_busy", repeats)
    row = summary("overlap_busy", "ms", [own["overlapped"]], [own["after"]])
    skewed, skewed_after = own["skewed_overlapped"], own["skewed_after"]
    row.update(repeats=turns, ratio_skewed=skewed / skewed_after,
               note=f"with 10 % skew {skewed:.2f} of {skewed_after:.2f} ms")
    return row


def oversubscribed_4(repeats):
    """On two cores, of however many there are."""
    need_cores(2)
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(cores)[:2])  # the ranks inherit it
    try:
        return measure("oversubscribed_4", "ms", lambda: ranks(4, "push", 5)["push_warm"],
                       lambda: ranks(2, "push", 5)["push_warm"], max(repeats, LEAST_TURNS))
    finally:
        os.sched_setaffinity(0, cores)


def startup(repeats):
    """Of 2 ranks by ResNet-50, started anew for each turn, since a start has no warm memory; the
    limit is the bar. The note has 64 ranks as threads."""
    turns = max(repeats, LEAST_TURNS)
    starts = [ranks(2, "startup", 1) for _ in range(turns)]
    threads = run_json([PROGRAM, "startup_threads", turns])["startup"]
    row = summary("startup", "ms", [start["reducer"] for start in starts], [100])
    row.update(threads_ms=threads, note=f"64 ranks as threads {threads:.1f} ms")
    return row


def loss_seen(repeats):
    """Milliseconds until all others know that a rank is killed, and beside it that it is stopped or
    has another plan; the limit is the bar of the first."""
    turns = max(repeats, LEAST_TURNS)
    own = run_json([BIN / "bench_loss_rows", turns])
    row = summary("loss_seen", "ms", [own["killed"]], [5000])
    row.update(repeats=turns, slowest={what: own[f"{what}_slowest"]
                                       for what in ("killed", "stopped", "unlike")})
    row["note"] = (f"stopped {own['stopped']:.0f} ms, unlike plans {own['unlike']:.1f} ms; slowest "
                   + ", ".join(f"{what} {ms:.0f}" for what, ms in row["slowest"].items()))
    return row


TARGETS = ["bench_collective_rows", "bench_loss_rows"]
ROWS = [resnet50_shm, resnet50_user_buffers, resnet50_mpi, small_161, overlap_spare, overlap_busy,
        oversubscribed_4, startup, loss_seen]

# What rows should reach: in words, and as a test of the row. Shown, never asserted.
BARS = {
    "resnet50_shm": (">= 2.5 times MPI warm, 2 cold, >= 85 % of the loop",
                     lambda row: row["ratio"] >= 2.5 and row["ratio_cold"] >= 2
                     and row["of_loop"] >= 0.85),
    "resnet50_mpi": (">= 0.95 of MPI's speed", lambda row: row["ratio"] >= 0.95),
    "small_161": (">= 10 times faster", lambda row: row["ratio"] >= 10),
    "overlap_spare": ("ratio <= 1.2", lambda row: row["ratio"] <= 1.2),
    "overlap_busy": ("ratio <= 1.3, skewed too",
                     lambda row: row["ratio"] <= 1.3 and row["ratio_skewed"] <= 1.3),
    "oversubscribed_4": ("ratio <= 4", lambda row: row["ratio"] <= 4),
    "startup": ("<= 100 ms, 64 threads <= 1 s",
                lambda row: row["value"] <= 100 and row["threads_ms"] <= 1000),
    "loss_seen": ("<= 5 s killed or stopped, <= 1 s unlike plans, in each turn",
                  lambda row: max(row["slowest"]["killed"], row["slowest"]["stopped"]) <= 5000
                  and row["slowest"]["unlike"] <= 1000),
}

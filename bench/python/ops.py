#!/usr/bin/env python3
"""Processor time that functions of Python cost inside the pipeline; prints a JSON object.

Usage: ops.py run | batch
"""
import json
import statistics
import sys
import time

import millrace as mr

BATCH = 64
BATCHES = 1000
TURNS = 5


def microseconds(plan, context):
    """Processor time of the process for a number of batches of a plan."""
    with plan.numpy(context=context) as loader:
        for _ in range(100):
            loader.next()
        begin = time.process_time()
        for _ in range(BATCHES):
            loader.next()
        return 1e6 * (time.process_time() - begin)


def difference(one, other):
    """The median of what `one` costs more than `other`, turn by turn, and of what `other` costs."""
    context = mr.Context(threads=1)
    turns = [(microseconds(one, context), microseconds(other, context)) for _ in range(TURNS)]
    return (statistics.median(a - b for a, b in turns), statistics.median(b for _, b in turns))


def numbers(*ops):
    plan = mr.range(1 << 40)
    for op in ops:
        plan = plan.op(op)
    return plan.batch(BATCH).prefetch(4)


def batch():
    """An op on batches that looks at a field, in microseconds by batch; and a batch without it."""
    @mr.batch_op()
    def look(batch):
        batch["value"]

    plan = mr.range(1 << 40).batch(BATCH).prefetch(4)
    more, plain = difference(plan.op(look), plan)
    return {"us": more / BATCHES, "limit_us": plain / BATCHES}


def per_run(names):
    """What an op that looks at the field it reads and at those that it writes costs more than no
    op, in microseconds by run; and what a batch without it costs."""
    calls = 0

    @mr.op(reads="value", writes=[mr.field(name, "int64") for name in names], rows=BATCH)
    def look(run):
        nonlocal calls
        calls += 1
        run["value"]
        for name in names:
            run.out[name]

    more, plain = difference(numbers(look), numbers())
    return more * TURNS / calls, plain / BATCHES


def run():
    """With two fields, and with eight."""
    two, plain = per_run(["value"])
    return {"us": two, "eight_fields_us": per_run(list("abcdefg"))[0], "limit_us": plain}


if __name__ == "__main__":
    print(json.dumps({"run": run, "batch": batch}[sys.argv[1]]()))

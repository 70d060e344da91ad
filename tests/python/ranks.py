"""Ranks for tests: threads of this process, and processes that run programs."""
import subprocess
import sys
import tempfile
import threading

import millrace as mr

# The beginning of a program of one rank.
CONNECT = """
import os, signal, sys
import numpy as np
import millrace as mr
rank, world = int(sys.argv[2]), int(sys.argv[3])
# A rank that fails on purpose waits until rank 0 is where it is to hear of it.
def ready():
    print("ready", flush=True)
def await_go():
    sys.stdin.readline()
comm = mr.Communicator.connect(rank=rank, world=world, rendezvous="file:" + sys.argv[1])
"""


def in_threads(size, body, **options):
    """Returns what body(group) returns on each rank, by rank. Raises what one raises."""
    groups = mr.Communicator.threads(size, **options)
    results = [None] * size
    errors = []

    def run(group):
        try:
            results[group.rank] = body(group)
        except BaseException as error:
            errors.append(error)
            group.abort(str(error))

    threads = [threading.Thread(target=run, args=(group,)) for group in groups]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results


class Processes:
    """`size` ranks, each a process that runs a program: CONNECT and what follows."""

    def __init__(self, program, size=2, beginning=CONNECT):
        self._folder = tempfile.TemporaryDirectory()
        self.ranks = [subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", beginning + program, self._folder.name, str(rank),
             str(size)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for rank in range(size)]

    def __enter__(self):
        return self

    def __exit__(self, *error):
        for process in self.ranks:
            process.kill()
            process.communicate()
        self._folder.cleanup()

    def go(self, rank):
        """Lets a rank that is in await_go() go on when rank 0 has called ready()."""
        assert self.ranks[0].stdout.readline() == "ready\n"
        self.ranks[rank].stdin.write("go\n")
        self.ranks[rank].stdin.flush()

    def said(self, rank):
        """Returns what a rank has printed until its end. Raises if it ended with an error."""
        process = self.ranks[rank]
        printed, errors = process.communicate(timeout=100)
        if process.returncode != 0:
            raise AssertionError(f"rank {rank} ended with {process.returncode}: {printed}{errors}")
        return printed


def said_by_all(program, size=2, beginning=CONNECT):
    """Runs a program on all ranks, and returns what each has printed."""
    with Processes(program, size, beginning) as processes:
        return [processes.said(rank) for rank in range(size)]

#!/usr/bin/env python3
"""Starts SIZE processes of one program with the variables of torchrun.

When one fails, the others have ten seconds to notice before they are killed. Exits with the code of
the lowest rank that failed.

Usage: run_ranks.py SIZE PROGRAM [ARGUMENT...]
"""
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from free_port import free_port  # noqa: E402

GRACE_S = 10


def start(size, command):
    """Returns the processes, by rank."""
    port = free_port()
    processes = []
    for rank in range(size):
        env = dict(os.environ, RANK=str(rank), WORLD_SIZE=str(size), LOCAL_RANK=str(rank),
                   LOCAL_WORLD_SIZE=str(size), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
        processes.append(subprocess.Popen(command, env=env))
    return processes


def main():
    """Returns the exit code."""
    size = int(sys.argv[1])
    processes = start(size, sys.argv[2:])
    failed_at = None
    try:
        while any(process.poll() is None for process in processes):
            if failed_at is None and any(process.poll() for process in processes):
                failed_at = time.monotonic()
            if failed_at is not None and time.monotonic() - failed_at > GRACE_S:
                print("run_ranks: ranks that have not ended:",
                      [rank for rank, process in enumerate(processes) if process.poll() is None])
                break
            time.sleep(0.02)
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
            process.wait()
    return next((process.returncode for process in processes if process.returncode), 0)


if __name__ == "__main__":
    sys.exit(main())

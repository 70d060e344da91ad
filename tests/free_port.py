"""Ports for tests that run at the same time."""

import os
import socket

HELD = []  # the names of this process's ports, which it keeps to its end


def reserve(port):
    """Takes `port` for this process until it ends, among all tests of this machine.

    By the name of a socket that the kernel gives to one only; tests/collectives/processes.h uses
    the same names.
    """
    name = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        name.bind(f"\0millrace-test-port-{port}")
    except OSError:
        name.close()
        return False
    HELD.append(name)
    return True


def free_port():
    """A port that nobody has at this moment and no other test gets.

    It is outside of those that the kernel gives away by itself, to connections for one.
    """
    first = 20000 + os.getpid() % 10000
    for port in range(first, 32768):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        if reserve(port):
            return port
    raise RuntimeError("no free port")

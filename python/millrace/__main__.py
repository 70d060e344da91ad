"""The command `millrace`: python -m millrace."""
from __future__ import annotations

import os
import signal
import sys

from . import _core

__all__ = ["main"]


def main() -> int:
    """Runs the command line of this process, and returns its exit code."""
    # As in a program of C: Ctrl-C ends it, and so does a pipe that nothing reads any more.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    return _core.main([b"millrace", *map(os.fsencode, sys.argv[1:])])


if __name__ == "__main__":
    sys.exit(main())

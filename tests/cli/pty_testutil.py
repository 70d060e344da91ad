"""A terminal of 80 columns and 24 rows in which a test runs the program."""

import fcntl
import os
import re
import select
import struct
import subprocess
import termios
import time

from cli_testutil import BIN, TIMEOUT

CONTROL = re.compile(rb"\x1b\[(\?)?([0-9;]*)([A-Za-z])")


class Screen:
    """What a terminal shows, by the control sequences that the program uses; others fail."""

    def __init__(self, columns=80, rows=24):
        self.columns, self.rows = columns, rows
        self.cells = [[" "] * columns for _ in range(rows)]
        self.row = self.column = 0
        self.cursor_shown = True
        self.rest = b""  # the beginning of a sequence

    def lines(self):
        return ["".join(row).rstrip() for row in self.cells]

    def text(self):
        return "\n".join(self.lines())

    def feed(self, data):
        data, at = self.rest + data, 0
        while at < len(data):
            if data[at:at + 1] == b"\x1b":
                found = CONTROL.match(data, at)
                if not found:
                    break
                self.control(found[1] is not None, found[2].decode(), found[3].decode())
                at = found.end()
                continue
            self.put(chr(data[at]))
            at += 1
        self.rest = data[at:]

    def put(self, char):
        if char == "\r":
            self.column = 0
        elif char == "\n":
            self.row += 1
            if self.row == self.rows:
                self.cells = self.cells[1:] + [[" "] * self.columns]
                self.row -= 1
        elif char >= " ":
            if self.column == self.columns:
                self.put("\r")
                self.put("\n")
            self.cells[self.row][self.column] = char
            self.column += 1

    def control(self, private, number, letter):
        count = int(number or 0)
        if private:
            assert count == 25 and letter in "hl", (number, letter)
            self.cursor_shown = letter == "h"
        elif letter == "H":
            assert not number, number
            self.row = self.column = 0
        elif letter == "A":
            self.row = max(0, self.row - max(1, count))
        elif letter == "K":
            assert count == 0
            self.cells[self.row][self.column:] = [" "] * (self.columns - self.column)
        elif letter == "J":
            first = self.row + 1 if count == 0 else 0
            assert count in (0, 2)
            if count == 0:
                self.control(False, "", "K")
            for row in range(first, self.rows):
                self.cells[row] = [" "] * self.columns
        else:
            raise AssertionError(f"an unknown sequence: {number} {letter}")


class Terminal:
    """The program in a terminal of its own; `with` ends it."""

    def __init__(self, *args, env=None, stdout=None, cwd=None):
        self.screen = Screen()
        self.main, self.side = os.openpty()
        size = struct.pack("HHHH", self.screen.rows, self.screen.columns, 0, 0)
        fcntl.ioctl(self.side, termios.TIOCSWINSZ, size)
        self.before = termios.tcgetattr(self.side)
        self.output = b""

        def take_terminal():
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen(
            [BIN, *map(str, args)], stdin=self.side, stdout=stdout or self.side, stderr=self.side,
            env={**os.environ, **(env or {})}, cwd=cwd, start_new_session=True,
            preexec_fn=take_terminal)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.main)
        os.close(self.side)

    def take(self, seconds):
        """Takes in what comes within `seconds`; returns whether something came."""
        ready, _, _ = select.select([self.main], [], [], seconds)
        if not ready:
            return False
        data = os.read(self.main, 65536)
        self.output += data
        self.screen.feed(data)
        return True

    def wait_for(self, condition, what):
        """Takes in output until `condition(screen)` holds, and returns its value."""
        end = time.monotonic() + TIMEOUT
        while True:
            value = condition(self.screen)
            if value:
                return value
            if time.monotonic() > end:
                raise AssertionError(f"{what} does not come:\n{self.screen.text()}")
            self.take(0.1)

    def wait_for_text(self, pattern):
        return self.wait_for(lambda screen: re.search(pattern, screen.text(), re.M), pattern)

    def type(self, keys):
        os.write(self.main, keys)

    def end(self):
        """Waits for the program's end, and returns its exit code."""
        end = time.monotonic() + TIMEOUT
        while self.process.poll() is None:
            if time.monotonic() > end:
                raise AssertionError(f"the program does not end:\n{self.screen.text()}")
            self.take(0.05)
        while self.take(0):
            pass
        return self.process.returncode

    def is_restored(self):
        return self.screen.cursor_shown and termios.tcgetattr(self.side) == self.before

#!/usr/bin/env python3
"""Serves files over HTTP as a store far away does: each answer begins after a latency, and each
connection has a rate of its own.

    slow_server.py (FOLDER | --upstream URL) [--latency-ms 50] [--rate 20000000] [--log FILE]

Answers are the files of FOLDER, with an ETag of size and time, or those of the server at URL
(http://HOST:PORT), where each connection has one of its own. Prints its port as the first line.
Requests are GETs. The log has a line for each answer with bytes of a file: path, first and last
byte. Ends when its standard input does.
"""
import argparse
import asyncio
import os
import pathlib
import re
import sys
import time
import urllib.parse

PIECE = 256 << 10
RANGE = re.compile(r"bytes=(\d+)-(\d*)$")


def headers_of(head):
    """The headers of a request or an answer."""
    lines = head.decode("latin-1").split("\r\n")[1:]
    return {name.strip().lower(): value.strip()
            for name, _, value in (line.partition(":") for line in lines)}


class Folder:
    """Answers with the files of a folder."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)

    async def answer(self, request):
        """Yields the head of the answer, then its body in pieces."""
        target = request.split(b" ")[1].decode("latin-1")
        try:
            file = open(self.folder / urllib.parse.unquote(target).lstrip("/"), "rb")
        except OSError:
            yield b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
            return
        with file:
            first, last, head = self.head(file, headers_of(request).get("range", ""))
            yield head
            file.seek(first)
            while file.tell() <= last:
                yield file.read(min(PIECE, last + 1 - file.tell()))

    @staticmethod
    def head(file, wanted):
        stat = os.fstat(file.fileno())
        found = RANGE.match(wanted)
        first = int(found[1]) if found else 0
        last = min(int(found[2]) if found and found[2] else stat.st_size, stat.st_size - 1)
        part = f"206 Partial Content\r\nContent-Range: bytes {first}-{last}/{stat.st_size}"
        return first, last, (
            f"HTTP/1.1 {part if found else '200 OK'}\r\nETag: \"{stat.st_size:x}-"
            f"{stat.st_mtime_ns:x}\"\r\nContent-Length: {last - first + 1}\r\n\r\n").encode()

    def close(self):
        pass


class Upstream:
    """Answers with what another server says."""

    def __init__(self, url):
        self.at = urllib.parse.urlsplit(url)
        self.reader = self.writer = None

    async def answer(self, request):
        """Yields the head of the answer, then its body in pieces."""
        if self.writer is None:
            self.reader, self.writer = await asyncio.open_connection(
                self.at.hostname, self.at.port or 80)
        self.writer.write(request)
        head = await self.reader.readuntil(b"\r\n\r\n")
        yield head
        left = int(headers_of(head)["content-length"])
        while left > 0:
            piece = await self.reader.read(min(PIECE, left))
            if not piece:
                raise ConnectionError("the server behind this one broke off")
            left -= len(piece)
            yield piece

    def close(self):
        if self.writer is not None:
            self.writer.close()


class Server:
    def __init__(self, options):
        self.options = options
        self.log = open(options.log, "w", buffering=1) if options.log else None

    async def connection(self, reader, writer):
        options = self.options
        origin = Upstream(options.upstream) if options.upstream else Folder(options.folder)
        try:
            while True:
                request = await reader.readuntil(b"\r\n\r\n")
                await asyncio.sleep(options.latency_ms / 1000)
                await self.send(request, origin.answer(request), writer)
        except (asyncio.IncompleteReadError, OSError, asyncio.CancelledError):
            pass
        finally:
            origin.close()
            writer.close()

    async def send(self, request, answer, writer):
        head = await anext(answer)
        self.note(request, head)
        writer.write(head)
        await writer.drain()
        begin, sent = time.monotonic(), 0
        async for piece in answer:
            writer.write(piece)
            await writer.drain()
            sent += len(piece)
            rate = self.options.rate
            ahead = sent / rate - (time.monotonic() - begin) if rate else 0
            if ahead > 0:
                await asyncio.sleep(ahead)

    def note(self, request, head):
        """Adds an answer with bytes of a file to the log."""
        told = headers_of(head)
        size = int(told.get("content-length", "0"))
        if self.log and size > 0 and head.split(b" ")[1] in (b"200", b"206"):
            part = re.match(r"bytes (\d+)-(\d+)/", told.get("content-range", ""))
            first, last = (int(part[1]), int(part[2])) if part else (0, size - 1)
            self.log.write(f"{request.split(b' ')[1].decode('latin-1')} {first} {last}\n")


async def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    origin = parser.add_mutually_exclusive_group(required=True)
    origin.add_argument("folder", nargs="?")
    origin.add_argument("--upstream", metavar="URL", help="server whose answers are passed on")
    parser.add_argument("--latency-ms", type=float, default=50, help="before each answer")
    parser.add_argument("--rate", type=float, default=20e6,
                        help="bytes per second of a connection; 0: no limit")
    parser.add_argument("--log", help="file that gets a line for each answer")
    server = Server(parser.parse_args())
    listening = await asyncio.start_server(server.connection, "127.0.0.1", 0, backlog=1024)
    print(listening.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    os._exit(0)  # whatever is under way


if __name__ == "__main__":
    asyncio.run(main())

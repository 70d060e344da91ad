#!/usr/bin/env python3
"""Serves a folder over HTTP as a store far away does: each answer begins after a latency, and each
connection has a rate of its own.

    slow_server.py FOLDER [--latency-ms 50] [--rate 20000000] [--log FILE]

Prints its port as the first line. Answers range requests, with an ETag of size and time. The log
has a line for each request: path, first and last byte. Ends when its standard input does.
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


class Server:
    def __init__(self, options):
        self.folder = options.folder
        self.latency = options.latency_ms / 1000
        self.rate = options.rate
        self.log = open(options.log, "w", buffering=1) if options.log else None

    async def connection(self, reader, writer):
        try:
            while True:
                request = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                headers = {name.strip().lower(): value.strip() for name, _, value in
                           (line.partition(":") for line in request[1:])}
                await self.answer(request[0].split()[1], headers.get("range", ""), writer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def answer(self, target, wanted, writer):
        if self.latency > 0:
            await asyncio.sleep(self.latency)
        path = pathlib.Path(self.folder) / urllib.parse.unquote(target).lstrip("/")
        try:
            with open(path, "rb") as file:
                await self.send(file, target, wanted, writer)
        except OSError:
            writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()

    async def send(self, file, target, wanted, writer):
        stat = os.fstat(file.fileno())
        found = RANGE.match(wanted)
        first = int(found[1]) if found else 0
        last = min(int(found[2]) if found and found[2] else stat.st_size, stat.st_size - 1)
        if self.log:
            self.log.write(f"{target} {first} {last}\n")
        part = f"206 Partial Content\r\nContent-Range: bytes {first}-{last}/{stat.st_size}"
        writer.write(f"HTTP/1.1 {part if found else '200 OK'}\r\nETag: \"{stat.st_size:x}-"
                     f"{stat.st_mtime_ns:x}\"\r\nContent-Length: {last - first + 1}\r\n\r\n".encode())
        begin, sent = time.monotonic(), 0
        file.seek(first)
        while sent < last - first + 1:
            piece = file.read(min(PIECE, last - first + 1 - sent))
            writer.write(piece)
            await writer.drain()
            sent += len(piece)
            ahead = sent / self.rate - (time.monotonic() - begin) if self.rate else 0
            if ahead > 0:
                await asyncio.sleep(ahead)


async def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--latency-ms", type=float, default=50, help="before each answer")
    parser.add_argument("--rate", type=float, default=20e6,
                        help="bytes per second of a connection; 0: no limit")
    parser.add_argument("--log", help="file that gets a line for each request")
    server = Server(parser.parse_args())
    listening = await asyncio.start_server(server.connection, "127.0.0.1", 0, backlog=1024)
    print(listening.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    os._exit(0)  # whatever is under way


if __name__ == "__main__":
    asyncio.run(main())

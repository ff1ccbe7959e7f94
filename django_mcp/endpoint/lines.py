"""Lines in and out of file descriptors, each in a thread of its own, so that neither end can block the event loop.

Threads, because an event loop cannot wait for every kind of file that may be a standard stream.
"""

import asyncio
import os
import sys
import threading
from collections.abc import AsyncGenerator, Callable
from queue import SimpleQueue
from typing import Protocol

CHUNK = 64 * 1024
MOST_CHUNKS = 16
"""Chunks read ahead of who takes the lines."""


def take_streams() -> tuple[int, int]:
    """The descriptors of stdin and stdout, from now on for the caller alone.

    Whoever else reads finds nothing, and whoever else prints does so on stderr: ``print``, C libraries and
    subprocesses. What was printed before and still waits in a buffer goes there too.
    """
    incoming, outgoing = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    sys.stdout.flush()
    sys.stdout = sys.stderr
    return incoming, outgoing


class Lines(Protocol):
    """Where lines come from."""

    def lines(self) -> AsyncGenerator[bytes | None, None]:
        """Lines without their ends, as they come; None for one that is too long. Ends with the client's end."""


class LineReader:
    """Lines from a file descriptor.

    Args:
        descriptor: to read from.
        limit: the longest line in bytes; of a longer one no more than that is kept.
    """

    def __init__(self, descriptor: int, limit: int) -> None:
        self._descriptor = descriptor
        self._limit = limit
        self._loop = asyncio.get_running_loop()
        self._chunks: asyncio.Queue[bytes] = asyncio.Queue()
        self._room = threading.Semaphore(MOST_CHUNKS)
        threading.Thread(target=self._read, name="django-mcp-in", daemon=True).start()

    async def lines(self) -> AsyncGenerator[bytes | None, None]:
        """Lines without their ends, as they come; None for one that is too long. Ends with the file."""
        parts: list[bytes] = []
        length = 0
        while chunk := await self._chunks.get():
            self._room.release()
            *ends, rest = chunk.split(b"\n")
            for end in ends:
                yield b"".join([*parts, end]) if length + len(end) <= self._limit else None
                parts, length = [], 0
            length += len(rest)
            parts = [*parts, rest] if length <= self._limit else []
        if length:
            yield b"".join(parts) if parts else None

    def _read(self) -> None:
        chunk = b"-"
        while chunk:
            self._room.acquire()
            try:
                chunk = os.read(self._descriptor, CHUNK)
            except OSError:  # gone, which is an end too
                chunk = b""
            try:
                self._loop.call_soon_threadsafe(self._chunks.put_nowait, chunk)
            except RuntimeError:  # the loop is closed: nobody reads any more
                return


class LineWriter:
    """Lines to a file descriptor, whole and one after the other.

    Args:
        descriptor: to write to.
        broken: called from the thread that writes, once nobody reads any more.
    """

    def __init__(self, descriptor: int, broken: Callable[[], object]) -> None:
        self._descriptor = descriptor
        self._broken = broken
        self._lines: SimpleQueue[bytes | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="django-mcp-out", daemon=True)
        self._thread.start()

    def write(self, line: bytes) -> None:
        """Have it written. From any thread; never waits."""
        self._lines.put(line)

    def close(self, patience: float) -> None:
        """Wait until all is written, for at most *patience* seconds: nobody may be reading."""
        self._lines.put(None)
        self._thread.join(patience)

    def _work(self) -> None:
        while (line := self._lines.get()) is not None:
            try:
                self._write(line + b"\n")
            except OSError:
                self._broken()
                return

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._descriptor, view) :]

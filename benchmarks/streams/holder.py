"""Holds streams open. Runs as a process of its own, which takes commands as lines of JSON and answers each with one.

``{"do": "open", "kind": "modern", "count": 10000}``, ``tell``, ``fill``, ``close``: see ``Holder``. Times are seconds.
"""

import argparse
import asyncio
import contextlib
import json
import re
import resource
import socket
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, cast

from benchmarks.load import loop_factory
from benchmarks.measurement import quantile
from benchmarks.process import HOST
from benchmarks.streams import kinds
from benchmarks.streams.kinds import SESSION, Kind

KINDS: dict[str, Callable[[int], Kind]] = {
    "modern": kinds.listening,
    "legacy": kinds.in_session,
    "bare": kinds.bare,
    "sdk": kinds.of_sdk,
}
AT_ONCE = 64
"""Streams that are being opened at a time."""
PATIENCE = 120.0
"""Seconds for whatever has to come."""
NAMED = re.compile(rb"mcp-session-id: *([!-~]+)", re.IGNORECASE)


class Stream(asyncio.Protocol):
    """One connection: requests that are answered, and then the stream."""

    __slots__ = ("_at", "_buffer", "_holder", "_kind", "_session", "done", "opened", "transport")

    def __init__(self, holder: "Holder", kind: Kind) -> None:
        self._holder = holder
        self._kind = kind
        self._at = 0
        self._buffer = b""
        self._session = b""
        self.opened = False
        self.done: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self._send()

    def _send(self) -> None:
        assert self.transport is not None
        self.transport.write(self._kind.requests[self._at].replace(SESSION, self._session))

    def data_received(self, data: bytes) -> None:
        if self.opened:
            self._holder.heard(self, data)
            return
        self._buffer += data
        if self._at < len(self._kind.requests) - 1:
            self._answered()
        elif self._kind.opened in self._buffer:
            self._buffer = b""
            self.opened = True
            self.done.set_result("")
        elif not self._buffer.startswith(b"HTTP/1.1 200"):
            self._fail(f"no stream: {self._buffer[:300]!r}")

    def _answered(self) -> None:
        """Go on to the next request when the answer to this one is complete."""
        head, separator, body = self._buffer.partition(b"\r\n\r\n")
        length = re.search(rb"content-length: *(\d+)", head, re.IGNORECASE)
        if not separator or (length is not None and len(body) < int(length[1])):
            return
        if not head.startswith(b"HTTP/1.1 2"):
            self._fail(f"not answered: {self._buffer[:300]!r}")
            return
        if named := NAMED.search(head):
            self._session = named[1]
        self._buffer = b""
        self._at += 1
        self._send()

    def _fail(self, message: str) -> None:
        if not self.done.done():
            self.done.set_result(message)

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(f"connection lost: {exc}")
        self._holder.lost(self)


class Telling:
    """One thing that all streams are to hear."""

    def __init__(self, word: bytes, count: int) -> None:
        self.word = word
        self.count = count
        self.began = time.monotonic()
        self.heard: dict[Stream, float] = {}
        self.over = asyncio.Event()

    def hear(self, stream: Stream, data: bytes) -> None:
        """Note when a stream heard of it first."""
        if self.word in data and stream not in self.heard:
            self.heard[stream] = time.monotonic() - self.began
            if len(self.heard) == self.count:
                self.over.set()


class Holder:
    """All of them."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._streams: set[Stream] = set()
        self._telling: Telling | None = None
        self._lost = 0
        self._closed = asyncio.Event()

    async def open(self, kind: str, count: int) -> dict[str, Any]:
        """Open as many more."""
        began = time.monotonic()
        made = KINDS[kind](self.port)
        waiting = iter(range(count))
        problems: list[str] = []

        async def some() -> None:
            for _ in waiting:
                problem = await self._open_one(made)
                if problem:
                    problems.append(problem)

        await asyncio.gather(*(some() for _ in range(min(AT_ONCE, count))))
        return {"opened": len(self._streams), "seconds": time.monotonic() - began, "problems": problems[:3]}

    async def _open_one(self, kind: Kind) -> str:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(PATIENCE):
                _, stream = await loop.create_connection(lambda: Stream(self, kind), HOST, self.port)
                problem = await stream.done
        except (OSError, TimeoutError) as error:
            return f"{type(error).__name__}: {error}"
        if not problem:
            self._streams.add(stream)
        return problem

    async def tell(self, kind: str, word: str) -> dict[str, Any]:
        """Have the server tell all streams, and wait until they have heard."""
        telling = self._telling = Telling(word.encode(), len(self._streams))
        answer = await self._ask(KINDS[kind](self.port).tell[word])
        told = time.monotonic() - telling.began
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                await telling.over.wait()
        self._telling = None
        times = sorted(telling.heard.values())
        return {
            "heard": len(times),
            "answered": told,
            "first": times[0] if times else 0.0,
            "median": quantile(times, 0.5),
            "last": times[-1] if times else 0.0,
            "answer": answer[:100].decode("latin-1"),
        }

    async def deafen(self, count: int) -> dict[str, Any]:
        """Open streams that are never read, with the smallest buffer the system has."""
        kind = kinds.listening(self.port, uri=kinds.LONG)
        for _ in range(count):
            connection = socket.socket()
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(connection, (HOST, self.port))
            _, stream = await loop.create_connection(lambda: Stream(self, kind), sock=connection)
            if problem := await stream.done:
                return {"problems": [problem]}
            assert stream.transport is not None
            stream.transport.pause_reading()
            self._streams.add(stream)
        return {"opened": len(self._streams), "problems": []}

    async def fill(self, times: int) -> dict[str, Any]:
        """Have the server tell of the long resource, and nobody read it."""
        began = time.monotonic()
        answer = await self._ask(kinds.call(self.port, "announce_updates", uri=kinds.LONG, times=times))
        return {"seconds": time.monotonic() - began, "answer": answer[:100].decode("latin-1")}

    async def close(self) -> dict[str, Any]:
        """Close all."""
        began = time.monotonic()
        lost_before = self._lost
        for stream in list(self._streams):
            assert stream.transport is not None
            stream.transport.abort()
        if self._streams:
            self._closed.clear()
            await self._closed.wait()
        return {"seconds": time.monotonic() - began, "lost": lost_before}

    async def _ask(self, request: bytes) -> bytes:
        reader, writer = await asyncio.open_connection(HOST, self.port)
        writer.write(request)
        async with asyncio.timeout(PATIENCE):
            answer = await reader.read(4096)
        writer.close()
        return answer

    def heard(self, stream: Stream, data: bytes) -> None:
        """Something came in a stream."""
        if self._telling is not None:
            self._telling.hear(stream, data)

    def lost(self, stream: Stream) -> None:
        """A stream ended."""
        if stream in self._streams:
            self._streams.discard(stream)
            self._lost += 1
            if not self._streams:
                self._closed.set()


async def serve(port: int) -> None:
    """Do as told, until there is nothing more to do."""
    holder = Holder(port)
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        command = json.loads(line)
        answer = await getattr(holder, command.pop("do"))(**command)
        print(json.dumps(answer), flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Read commands until the end of the input."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.streams.holder", description=__doc__.partition("\n")[0])
    parser.add_argument("--port", type=int, required=True, help=f"where on {HOST} the server listens")
    options = parser.parse_args(argv)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(serve(options.port))
    return 0


def allow_many_files() -> int:
    """As many open files as the system lets this process and its children have; how many."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return most


if __name__ == "__main__":
    sys.exit(main())

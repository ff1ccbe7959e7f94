"""A proxy that gives every request to the next of several servers.

A server process that forgets nothing between two requests needs luck to be found by both; here it never is: what
follows a request goes to another process.
"""

import asyncio
import contextlib
import itertools
import re
import threading
from collections.abc import Sequence
from typing import Self

HOST = "127.0.0.1"
MAX_HEAD = 64 * 1024
CONNECTION = re.compile(rb"\r\n(?:connection|keep-alive):[^\r]*", re.IGNORECASE)


class Balancer:
    """A proxy in a thread of its own, from ``with`` to the end of the block.

    Attributes:
        served: how many requests each server got.
    """

    def __init__(self, port: int, servers: Sequence[int]) -> None:
        self.port = port
        self.servers = servers
        self.served = dict.fromkeys(servers, 0)
        self._next = itertools.cycle(servers)
        self._listens = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="balancer")

    def __enter__(self) -> Self:
        self._thread.start()
        self._listens.wait()
        if self._failure is not None:
            raise self._failure
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._main.cancel)
        self._thread.join()

    def _run(self) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._main = asyncio.current_task()
        try:
            server = await asyncio.start_server(self._connected, HOST, self.port, limit=MAX_HEAD)
        except OSError as error:
            self._failure = error
            return
        finally:
            self._listens.set()
        try:
            await asyncio.Event().wait()  # not serve_forever, whose end waits for streams that are still open
        finally:
            server.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, EOFError, asyncio.LimitOverrunError), contextlib.closing(writer):
            head = await last_head(reader)
            port = next(self._next)
            self.served[port] += 1
            there_reader, there_writer = await asyncio.open_connection(HOST, port)
            with contextlib.closing(there_writer):
                there_writer.write(head)
                await first_to_end(copy(reader, there_writer), answer(there_reader, writer))


async def last_head(reader: asyncio.StreamReader) -> bytes:
    """The head of a message, made to say that none follows on this connection: so each request gets its own."""
    head = await reader.readuntil(b"\r\n\r\n")
    return CONNECTION.sub(b"", head[:-4]) + b"\r\nConnection: close\r\n\r\n"


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """What the server says."""
    with contextlib.suppress(OSError, EOFError, asyncio.LimitOverrunError):
        writer.write(await last_head(reader))
        await copy(reader, writer)


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Bytes as they come, until one side has no more or the other takes no more."""
    with contextlib.suppress(OSError):
        while data := await reader.read(MAX_HEAD):
            writer.write(data)
            await writer.drain()


async def first_to_end(*copies: object) -> None:
    """Whichever side closes, the other connection has to be closed too: that is how a client cancels."""
    tasks = [asyncio.ensure_future(each) for each in copies]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()

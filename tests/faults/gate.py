"""A way to a service that can be shut: what goes through it is cut off, and what knocks is refused."""

import asyncio
import contextlib
import threading
from collections.abc import Coroutine
from typing import Any, Self

from tests.conformance.balancer import HOST, copy, first_to_end
from tests.conformance.legs import ATTEMPTS
from tests.ports import free_port


class Gate:
    """A TCP proxy in a thread of its own, from ``with`` to the end of the block.

    Args:
        host: of the service.
        port: of the service.
    """

    def __init__(self, host: str, port: int) -> None:
        self.port = free_port()
        self._to = (host, port)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="gate")
        self._server: asyncio.Server | None = None
        self._through: set[asyncio.Task[None]] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        for attempt in range(ATTEMPTS):
            try:
                self.open()
            except OSError:
                if attempt == ATTEMPTS - 1:
                    raise
                self.port = free_port()
            else:
                break
        return self

    def __exit__(self, *_: object) -> None:
        self.shut()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def open(self) -> None:
        """Let everybody through."""
        self._do(self._open())

    def shut(self) -> None:
        """Let nobody through, and break the connections there are."""
        self._do(self._shut())

    def _do(self, what: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(what, self._loop).result(10)

    async def _open(self) -> None:
        self._server = await asyncio.start_server(self._connected, HOST, self.port)

    async def _shut(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        through = list(self._through)
        for task in through:
            task.cancel()
        await asyncio.gather(*through, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._server is None:  # it was shut while somebody was on the doorstep
            writer.close()
            return
        task = asyncio.current_task()
        assert task is not None
        self._through.add(task)
        try:
            with contextlib.suppress(OSError, asyncio.CancelledError), contextlib.closing(writer):
                there_reader, there_writer = await asyncio.open_connection(*self._to)
                with contextlib.closing(there_writer):
                    await first_to_end(copy(reader, there_writer), copy(there_reader, writer))
        finally:
            self._through.discard(task)

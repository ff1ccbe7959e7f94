"""The way to an endpoint in the same process: the connection that ``mcp_stdio`` has, without the pipes."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, Self

from django_mcp.core.principal import Principal
from django_mcp.core.server import MCPServer
from django_mcp.protocol.jsonrpc import decode, encode
from django_mcp.transports.stdio import Connection, django_request

Message = dict[str, Any]


class Link:
    """Messages to and from an endpoint. A context manager, on the event loop.

    Args:
        server: the endpoint.
        principal: who calls.
    """

    def __init__(self, server: MCPServer, principal: Principal) -> None:
        self._loop = asyncio.get_running_loop()
        self._sent: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._received: asyncio.Queue[bytes] = asyncio.Queue()
        self._connection = Connection(server, principal, partial(django_request, server), self._take)

    async def __aenter__(self) -> Self:
        """Begin to read."""
        self._reading = self._loop.create_task(self._connection.read(self))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the client's end, as a client does that has its answer."""
        self._sent.put_nowait(None)
        await self._connection.end()
        self._reading.cancel()
        with suppress(asyncio.CancelledError):
            await self._reading

    async def lines(self) -> AsyncGenerator[bytes | None, None]:
        """What the client sends."""
        while (line := await self._sent.get()) is not None:
            yield line

    def send(self, message: Message) -> None:
        """Send a message."""
        self._sent.put_nowait(encode({"jsonrpc": "2.0", **message}))

    async def receive(self) -> Message:
        """The next message of the endpoint."""
        message: Message = decode(await self._received.get())
        return message

    def _take(self, line: bytes) -> None:
        self._loop.call_soon_threadsafe(self._received.put_nowait, line)

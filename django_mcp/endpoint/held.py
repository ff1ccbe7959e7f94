"""The connections of parked streams: one task holds each, and waits for nothing but that its client leaves.

What a stream says is said by a task that lives as long as that takes.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, MutableMapping, Sequence
from contextlib import aclosing
from typing import Any

from django_mcp.endpoint.frames import PING, frame, frame_for_many
from django_mcp.revisions.base import Event
from django_mcp.revisions.subscriptions import ParkedStream

MOST_BYTES = 64 * 1024
"""What is handed to the server at once: more of what a client does not read is not made into bytes."""
MOST_ENTRIES = 100
"""Entries that are told at once."""

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class HeldStream:
    """One of them.

    Args:
        stream: what is said.
        headers: with which the answer begins.
        receive: the connection's, of ASGI.
        send: likewise.
    """

    __slots__ = ("_error", "_headers", "_holding", "_is_over", "_receive", "_send", "_speaking", "_stream")

    def __init__(
        self, stream: ParkedStream, headers: Sequence[tuple[bytes, bytes]], receive: Receive, send: Send
    ) -> None:
        self._stream = stream
        self._headers: Sequence[tuple[bytes, bytes]] | None = headers
        self._receive = receive
        self._send = send
        self._holding: asyncio.Task[Any] | None = None
        self._speaking: asyncio.Task[None] | None = None
        self._is_over = False
        self._error: Exception | None = None

    async def hold(self) -> None:
        """Begin the stream, and come back when it has ended or its client has left."""
        self._holding = asyncio.current_task()
        try:
            await self._begin()
            while (await self._receive())["type"] != "http.disconnect":
                pass
        except OSError:  # some servers tell so that the client is gone
            pass
        except asyncio.CancelledError:
            if not self._is_over:
                raise
            self._holding.uncancel()  # type: ignore[union-attr]
        finally:
            self._holding = None
            self._stream.close()
            if self._speaking is not None:
                self._speaking.cancel()
        if self._error is not None:
            raise self._error

    async def _begin(self) -> None:
        async with aclosing(self._stream.begin()) as events:
            async for event in events:
                if self._headers is not None:  # they go out with the first event
                    await self._send({"type": "http.response.start", "status": 200, "headers": self._headers})
                    self._headers = None
                await self._write(frame(event))
        subscription = self._stream.subscription
        assert subscription is not None  # noqa: S101
        subscription.ready = self._speak_soon
        if subscription.waits:
            self._speak_soon()

    def _speak_soon(self) -> None:
        if self._speaking is None:
            self._speaking = asyncio.get_running_loop().create_task(self._speak())

    async def _speak(self) -> None:
        """Say all there is to say."""
        try:
            await self._say_all()
        except OSError:
            self._let_go()
        except Exception as error:  # noqa: BLE001 - it is raised where the server waits
            self._error = error
            self._let_go()
        finally:
            self._speaking = None

    async def _say_all(self) -> None:
        stream, subscription = self._stream, self._stream.subscription
        assert subscription is not None  # noqa: S101
        while not stream.is_over and (taken := subscription.take()) is not None:
            entries = [entry for entry in taken if entry is not None]
            if not entries:
                await self._write(PING)
            for start in range(0, len(entries), MOST_ENTRIES):
                if not stream.is_over:
                    await self._say(await stream.tell(entries[start : start + MOST_ENTRIES]))
        if subscription.ended or stream.is_over:
            if not stream.is_over:
                await self._say(stream.part())
            await self._send({"type": "http.response.body", "body": b""})
            self._let_go()

    async def _say(self, events: Iterable[Event]) -> None:
        data = bytearray()
        for event in events:
            data += frame_for_many(event)
            if len(data) > MOST_BYTES:
                await self._write(bytes(data))
                data.clear()
        if data:
            await self._write(bytes(data))

    async def _write(self, data: bytes) -> None:
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    def _let_go(self) -> None:
        """Have the task that holds the connection come back."""
        self._is_over = True
        if self._holding is not None:
            self._holding.cancel()

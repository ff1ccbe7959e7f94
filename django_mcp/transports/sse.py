"""Server-sent events: framing, responses that become streams, and connections of parked streams."""

import asyncio
import contextvars
import threading
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, MutableMapping, Sequence
from contextlib import aclosing, suppress
from functools import lru_cache
from typing import Any

from django_mcp.conf import settings
from django_mcp.core.after_fork import clear_after_fork
from django_mcp.core.failures import report_crash
from django_mcp.protocol.jsonrpc import one_line
from django_mcp.revisions.base import KEEP_ALIVE, EventStream, MCPResponse, SSEEvent, encode_failure
from django_mcp.revisions.subscriptions import ParkedStream
from django_mcp.transports.base import Headers

PING = b":\r\n\r\n"
"""A comment, which keeps proxies from closing an idle connection."""
MAX_CACHED_BYTES = 1024
"""Maximum bytes of an event whose frame is cached."""


def frame(event: SSEEvent) -> bytes:
    if event is KEEP_ALIVE:
        return PING
    # An id without data is still an event; a retry alone is not.
    data = one_line(event.data).decode() if event.data or event.id else None
    kind = event.kind if event.data else None
    from sse_starlette import ServerSentEvent  # noqa: PLC0415 - imports Starlette, needed for streams only

    return ServerSentEvent(data=data, event=kind, id=event.id or None, retry=event.retry).encode()


def frame_for_many(event: SSEEvent) -> bytes:
    return _kept(event) if len(event.data) < MAX_CACHED_BYTES else frame(event)


@lru_cache(maxsize=128)
def _kept(event: SSEEvent) -> bytes:
    return frame(event)


MAX_WAITING_BYTES = 64 * 1024
"""Maximum bytes passed to the server at once; more is framed after the client has read them."""
MAX_ENTRIES = 100
"""Maximum number of entries converted at once."""

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class HeldStream:
    """The ASGI connection of a parked stream."""

    __slots__ = ("_error", "_headers", "_holding", "_is_over", "_receive", "_send", "_stream", "_writing")

    def __init__(
        self, stream: ParkedStream, headers: Sequence[tuple[bytes, bytes]], receive: Receive, send: Send
    ) -> None:
        self._stream = stream
        self._headers: Sequence[tuple[bytes, bytes]] | None = headers
        self._receive = receive
        self._send = send
        self._holding: asyncio.Task[Any] | None = None
        self._writing: asyncio.Task[None] | None = None
        self._is_over = False
        self._error: Exception | None = None

    async def hold(self) -> None:
        """Begin the stream; return when it has ended or the client disconnected."""
        self._holding = asyncio.current_task()
        try:
            await self._write_first()
            while (await self._receive())["type"] != "http.disconnect":
                pass
        except OSError:  # raised by some servers after a disconnect
            pass
        except asyncio.CancelledError:
            if not self._is_over:
                raise
            # _release() cancelled this task to wake it. The server did not.
            self._holding.uncancel()  # type: ignore[union-attr]
        except Exception as error:  # noqa: BLE001 - it is logged
            self._error = error
        finally:
            self._holding = None
            self._stream.close()
            if self._writing is not None:
                self._writing.cancel()
        if self._error is not None:
            await self._end(self._error)

    async def _end(self, error: Exception) -> None:
        # The error is sent if nothing was sent yet. Otherwise the client reconnects.
        body = encode_failure(None, error)
        with suppress(OSError):
            if self._headers is None:
                await self._send({"type": "http.response.body", "body": b""})
                return
            headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
            await self._send({"type": "http.response.start", "status": 500, "headers": headers})
            await self._send({"type": "http.response.body", "body": body})

    async def _write_first(self) -> None:
        async with aclosing(self._stream.first_events()) as events:
            async for event in events:
                if self._headers is not None:  # they go out with the first event
                    await self._send({"type": "http.response.start", "status": 200, "headers": self._headers})
                    self._headers = None
                await self._write(frame(event))
        subscription = self._stream.subscription
        assert subscription is not None  # noqa: S101
        subscription.ready = self._schedule_write
        # Entries that arrived before ready was set woke nothing.
        if subscription.has_entries:
            self._schedule_write()

    def _schedule_write(self) -> None:
        # One writer at a time, which takes all that is buffered: the output of two would mix.
        if self._writing is None:
            self._writing = asyncio.get_running_loop().create_task(self._write_safely())

    async def _write_safely(self) -> None:
        try:
            await self._write_pending()
        except OSError:
            self._release()
        except Exception as error:  # noqa: BLE001 - it is logged where the server waits
            self._error = error
            self._release()
        finally:
            self._writing = None

    async def _write_pending(self) -> None:
        stream, subscription = self._stream, self._stream.subscription
        assert subscription is not None  # noqa: S101
        while not stream.is_over and (taken := subscription.take()) is not None:
            entries = [entry for entry in taken if entry is not None]
            if not entries:
                await self._write(PING)
            for start in range(0, len(entries), MAX_ENTRIES):
                if stream.is_over or subscription.revoked:
                    break
                events = await stream.events_for(entries[start : start + MAX_ENTRIES])
                if not subscription.revoked:  # meanwhile
                    await self._write_events(events)
        if subscription.ended or stream.is_over:
            if not stream.is_over:
                await self._write_events(stream.closing_events())
            await self._send({"type": "http.response.body", "body": b""})
            self._release()

    async def _write_events(self, events: Iterable[SSEEvent]) -> None:
        data = bytearray()
        for event in events:
            data += frame_for_many(event)
            if len(data) > MAX_WAITING_BYTES:
                await self._write(bytes(data))
                data.clear()
        if data:
            await self._write(bytes(data))

    async def _write(self, data: bytes) -> None:
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    def _release(self) -> None:
        # hold() takes a cancellation without this for the server's.
        self._is_over = True
        if self._holding is not None:
            self._holding.cancel()


DISCONNECT_WATCH_DELAY = 0.1
"""Seconds before a call starts to watch for a disconnect; most calls are done by then."""
MAX_WAITING = 1000
MAX_BYTES = 1024 * 1024
"""Maximum number and bytes of events queued for a client that does not read.

Beyond them notifications are dropped, resumable streams end and other sources wait; the response is always sent.
"""

EVENT_HEADERS: Headers = (
    ("Content-Type", "text/event-stream"),
    ("Cache-Control", "no-store"),
    ("X-Accel-Buffering", "no"),
)


class BufferedResponse:
    """A response stream for transports that send nothing before the call is done."""

    is_live = False
    is_request = False

    def __init__(self, *, takes_events: bool, can_hold: bool) -> None:
        self.takes_events = takes_events
        self.can_hold = can_hold
        self._frames: dict[int, bytes] = {}
        self._optional: deque[int] = deque()
        self._count = self._bytes = 0

    @property
    def frames(self) -> Sequence[bytes]:
        return tuple(self._frames.values())

    @property
    def opened(self) -> bool:
        return self._count > 0

    def send(self, event: SSEEvent) -> None:
        # If there are too many progress and log messages, the last ones are kept.
        self._count += 1
        self._frames[self._count] = data = frame(event)
        self._bytes += len(data)
        if event.is_optional:
            self._optional.append(self._count)
        while len(self._optional) > 1 and (len(self._optional) > MAX_WAITING or self._bytes > MAX_BYTES):
            self._bytes -= len(self._frames.pop(self._optional.popleft()))

    def close(self) -> None:
        """Do nothing: all is sent at the end."""

    def watch(self, gone: Callable[[], None]) -> None:
        """Do nothing: a disconnect cannot be detected."""

    async def body(self, answer: MCPResponse) -> AsyncIterator[bytes]:
        for data in self.frames:
            yield data
        if answer.body:
            yield frame(SSEEvent(answer.body))
        if answer.stream is not None:
            async with aclosing(answer.stream) as stream:
                async for event in stream:
                    yield frame(event)


class LiveResponse:
    """A response stream on an ASGI connection, opened by the first event or a keep-alive.

    Attributes:
        answering: this event loop's connections with running calls; remove this one after its call.
        is_done: nothing may be sent any more, as the client is gone or has its answer; what is sent is dropped.
    """

    can_hold = True
    is_live = True

    __slots__ = (
        "_broken",
        "_bytes",
        "_frames",
        "_given",
        "_is_quiet",
        "_keep_alive",
        "_loop",
        "_receive",
        "_send",
        "_started",
        "_thread",
        "_watching",
        "_writing",
        "answering",
        "gone",
        "is_done",
        "is_request",
        "opened",
        "takes_events",
    )

    def __init__(
        self,
        receive: Callable[[], Awaitable[MutableMapping[str, Any]]],
        send: Callable[[MutableMapping[str, Any]], Awaitable[None]],
        *,
        takes_events: bool,
        headers: Headers,
    ) -> None:
        self.takes_events = takes_events
        self.opened = self.is_request = False
        self._receive = receive
        self._send = send
        self._given = headers
        self._thread = threading.get_ident()
        self._loop = asyncio.get_running_loop()
        self._frames: list[bytes] = []
        self._bytes = 0
        self.is_done = self._started = self._is_quiet = False
        self._broken: Callable[[], None] | None = None
        self.gone: Callable[[], None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._writing: asyncio.Task[None] | None = None
        # Inlined, because every call passes here, but only long ones need keep-alives.
        keep_alive = _keep_alives.get(self._loop) or _new_keep_alive(self._loop)
        self._keep_alive, self.answering = keep_alive, keep_alive.wires
        self.answering.add(self)
        if not keep_alive.is_running:
            keep_alive.start()

    def send(self, event: SSEEvent) -> None:
        self.opened = True
        data, can_resume = frame(event), bool(event.id)
        if threading.get_ident() == self._thread:
            self._offer(data, can_resume)
        else:
            # From a worker thread. The frames belong to the event loop, which offers them in the order of these
            # calls.
            self._loop.call_soon_threadsafe(self._offer, data, can_resume)

    def watch(self, gone: Callable[[], None]) -> None:
        self.gone = gone
        self._keep_alive.watch(self)

    def watch_connection(self) -> None:
        """Call what was given to ``watch`` when the client disconnects."""
        if self.gone is not None:
            self._watching = self._loop.create_task(self._until_gone(self.gone))

    def unwatch(self) -> None:
        self.answering.discard(self)
        if self.gone is not None:
            self.gone = None
            self._keep_alive.unwatch(self)
        if self._watching is not None:
            self._watching.cancel()
            self._watching = None

    def close(self) -> None:
        if threading.get_ident() != self._thread:
            # Behind what this thread has sent before.
            self._loop.call_soon_threadsafe(self.close)
        elif not self.is_done:
            self._put(b"")
            self.is_done = True

    def abandon(self) -> None:
        """Drop what is sent from now on: the server has done with the connection."""
        self.is_done = True
        self._frames.clear()
        if self._writing is not None:
            self._writing.cancel()

    async def finish(self, answer: MCPResponse) -> HeldStream | None:
        """Send the response, and events until the client disconnects.

        Returns:
            a parked stream's connection to hold, which does not refer to this object.
        """
        if isinstance(answer.stream, ParkedStream) and not self.opened and not answer.body:
            self.unwatch()
            return HeldStream(answer.stream, self._headers(), self._receive, self._send)
        self.opened = True
        self.unwatch()
        if answer.body and not self.is_done:
            self._frames.append(frame(SSEEvent(answer.body)))
        if answer.stream is not None:
            # Who left during the call does not say so again.
            await (answer.stream.aclose() if self.is_done else self._follow(answer.stream))
        self._start_writing()
        if self._writing is not None:
            await self._writing
        if not self.is_done:
            self.is_done = True
            await self._send({"type": "http.response.body", "body": b""})
        return None

    async def _follow(self, stream: EventStream) -> None:
        reader = asyncio.current_task()
        assert reader is not None  # noqa: S101
        left = False

        def gone() -> None:
            nonlocal left
            left = self.is_done = True
            reader.cancel()

        self.unwatch()
        self._broken, watching = gone, None
        try:
            async with aclosing(stream):
                watching = asyncio.create_task(self._until_gone(gone))
                async for event in stream:
                    self._put(frame(event))
                    if self._is_full() and self._writing is not None:
                        # wait(), so that an error of the writer is not raised here: it ends the stream by gone().
                        await asyncio.wait([self._writing])
        except asyncio.CancelledError:
            if not left:
                raise
            # gone() cancelled this task to wake it. The server did not.
            reader.uncancel()
        except Exception as error:  # noqa: BLE001 - it is logged; the stream ends, and the client connects again
            report_crash(error, "a stream")
        finally:
            self._broken = None
            if watching is not None:
                watching.cancel()

    async def _until_gone(self, gone: Callable[[], None]) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        gone()

    def _offer(self, data: bytes, can_resume: bool) -> None:
        if not self._is_full():
            self._put(data)
        elif can_resume and not self.is_done:  # a client would not notice a gap
            self.close()

    def keep_alive(self) -> None:
        """Send a comment if the connection was silent since the last call."""
        if self._is_quiet and self._writing is None and (self.opened or (self.is_request and self.takes_events)):
            self.opened = True
            self._put(PING)
            self._is_quiet = False
        else:
            self._is_quiet = True

    def _is_full(self) -> bool:
        return len(self._frames) > MAX_WAITING or self._bytes > MAX_BYTES

    def _put(self, data: bytes) -> None:
        if self.is_done:
            return
        self._is_quiet = False
        self._frames.append(data)
        self._bytes += len(data)
        self._start_writing()

    def _start_writing(self) -> None:
        if self._writing is None and (self._frames or not self._started):
            self._writing = asyncio.create_task(self._write())

    def _headers(self) -> list[tuple[bytes, bytes]]:
        headers = (*self._given, *EVENT_HEADERS)
        return [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]

    async def _write(self) -> None:
        try:
            if not self._started:
                self._started = True
                await self._send({"type": "http.response.start", "status": 200, "headers": self._headers()})
            while self._frames:
                data = b"".join(self._frames)
                # close() queues an empty frame as the last one.
                last = not self._frames[-1]
                self._frames.clear()
                self._bytes = 0
                await self._send({"type": "http.response.body", "body": data, "more_body": not last})
        except Exception as error:
            # Later events are dropped, because the client is gone.
            self.is_done = True
            self._frames.clear()
            if self._broken is not None:
                self._broken()
            if not isinstance(error, OSError):  # which some servers raise after a disconnect
                raise
        finally:
            self._writing = None


_NO_CONTEXT = contextvars.Context()
"""Prevents the timer from keeping the context of the call that started it."""


class _KeepAlive:
    """The timers of an event loop's connections with running calls.

    Twice per ``KEEP_ALIVE_INTERVAL``, connections that were silent between two rounds send a comment. And connections
    whose call has taken ``DISCONNECT_WATCH_DELAY`` are watched for a disconnect. That is one timer for all: one for
    each call would cost most of them, which end before it, more than the rest of their connection.
    """

    __slots__ = ("_begun", "_is_looking", "_loop", "_waited", "is_running", "wires")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.wires: set[LiveResponse] = set()
        self.is_running = self._is_looking = False
        self._loop = loop
        self._begun: set[LiveResponse] = set()  # since the last round
        self._waited: set[LiveResponse] = set()  # before it

    def watch(self, response: LiveResponse) -> None:
        self._begun.add(response)
        if not self._is_looking:
            self._look_later()

    def unwatch(self, response: LiveResponse) -> None:
        self._begun.discard(response)
        self._waited.discard(response)

    def _look_later(self) -> None:
        self._is_looking = True
        self._loop.call_later(DISCONNECT_WATCH_DELAY, self._look, context=_NO_CONTEXT)

    def _look(self) -> None:
        for response in self._waited:
            response.watch_connection()
        self._waited, self._begun, self._is_looking = self._begun, set(), False
        if self._waited:
            self._look_later()

    def start(self) -> None:
        self.is_running = True
        self._loop.call_later(settings.KEEP_ALIVE_INTERVAL / 2, self.tick, context=_NO_CONTEXT)

    def tick(self) -> None:
        self.is_running = False
        for response in tuple(self.wires):
            response.keep_alive()
        if self.wires:
            self.start()


_keep_alives: dict[asyncio.AbstractEventLoop, _KeepAlive] = clear_after_fork({})


def _new_keep_alive(loop: asyncio.AbstractEventLoop) -> _KeepAlive:
    for closed in [loop for loop in _keep_alives if loop.is_closed()]:
        del _keep_alives[closed]
    return _keep_alives.setdefault(loop, _KeepAlive(loop))

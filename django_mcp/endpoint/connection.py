"""A client and an endpoint on one connection that carries all messages both ways, in either era.

There are no headers: a message says itself which version it is of, or the version is what ``initialize`` agreed on.
What a client over HTTP would send as headers, or open a stream for, is done here in its place.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import aclosing, suppress
from functools import partial
from typing import Any

from django.db import Error as DatabaseError

from django_mcp.conf import settings
from django_mcp.core.concurrency import shared_pool
from django_mcp.core.principal import Principal
from django_mcp.core.resources import as_of_now
from django_mcp.core.server import MCPServer
from django_mcp.endpoint.lines import Lines
from django_mcp.protocol import headers
from django_mcp.protocol.errors import InvalidRequest, ProtocolError, RequestId
from django_mcp.protocol.jsonrpc import (
    JSONRPC,
    Message,
    Notification,
    Request,
    decode,
    decode_messages,
    encode_error,
    parse,
)
from django_mcp.pubsub.follower import end_streams
from django_mcp.revisions.base import Answer, Event, Inbound, failure
from django_mcp.revisions.legacy.handler import end_session, open_stream
from django_mcp.revisions.negotiation import choose, spoken

GRACE_SECONDS = 1.0
"""How long calls may still run when the client has closed its end; it kills us after some two seconds."""
PARTING_SECONDS = 0.3
"""How long each of the last words may take."""
RENEWALS = 20
"""How often in the life of an unused session it is used, for it lives as long as this connection."""


class StdioWire:
    """What goes back because of one message. All share one connection, which is live."""

    takes_events = can_hold = is_live = True
    is_request = False

    def __init__(self, write: Callable[[bytes], None]) -> None:
        self.opened = False
        self._write = write
        self._silent = False
        self._gone: Callable[[], object] | None = None

    def send(self, event: Event) -> None:
        """Write its message. What only tells how to come back is nothing for this client."""
        self.opened = True
        if event.data and not self._silent:
            self._write(event.data)

    def close(self) -> None:
        """There is nothing to come back to, so nothing is closed."""

    def watch(self, gone: Callable[[], object]) -> None:
        """Call *gone* when the client cancels its request; at once where it has."""
        self._gone = gone
        if self._silent:
            gone()

    def cancel(self) -> None:
        """Nothing more goes back for this request (2026-07-28, stdio, Cancellation)."""
        self._silent = True
        if self._gone is not None:
            self._gone()


class Connection:
    """The one client.

    Args:
        server: the endpoint.
        principal: who the client is.
        edge: gives a Django request.
        write: writes a line, from any thread.
    """

    def __init__(
        self,
        server: MCPServer,
        principal: Principal,
        edge: Callable[[], Any],
        write: Callable[[bytes], None],
    ) -> None:
        self._server = server
        self._principal = principal
        self._edge = edge
        self._write = write
        self._agreed: str | None = None
        self._session: Mapping[str, str] = {}
        self._staying: asyncio.Task[None] | None = None
        self._running: dict[RequestId, StdioWire] = {}
        self._calls: set[asyncio.Task[None]] = set()
        self._endless: set[asyncio.Task[None]] = set()

    async def read(self, reader: Lines) -> None:
        """Take lines until there are no more."""
        async for line in reader.lines():
            if line is None:
                self._refuse(InvalidRequest(f"The line is longer than {settings.MAX_BODY_BYTES} bytes."))
            elif line.strip():
                await self._take(line)

    async def end(self) -> None:
        """Let calls finish for a short time, end the streams in the words of their versions, and the session."""
        if self._calls:
            await asyncio.wait(self._calls, timeout=GRACE_SECONDS)
        end_streams()
        if self._staying is not None:
            self._staying.cancel()
        if self._endless:
            await asyncio.wait(self._endless, timeout=PARTING_SECONDS)
        for task in (*self._calls, *self._endless):
            task.cancel()
        if self._session:
            with suppress(ProtocolError, DatabaseError, TimeoutError):
                async with asyncio.timeout(PARTING_SECONDS):
                    await end_session(self._inbound(None, StdioWire(self._write)))

    async def _take(self, line: bytes) -> None:
        try:
            body = decode_messages(line)
            message = None if type(body) is list else parse(body)
        except ProtocolError as error:
            self._refuse(error)
            return
        if isinstance(message, Notification):
            self._note(message)
        task = _start(self._serve(body, message), self._calls)
        if isinstance(message, Request) and message.method == "initialize":
            await task  # what follows needs to know what was agreed on

    def _refuse(self, error: ProtocolError) -> None:
        self._write(encode_error(error.request_id, error))

    def _note(self, message: Notification) -> None:
        """What a notification means for the connection itself."""
        if message.method == "notifications/cancelled":
            request_id = message.params.get("requestId")
            wire = self._running.get(request_id) if type(request_id) is int or type(request_id) is str else None
            if wire is not None:
                wire.cancel()
        elif message.method == "notifications/initialized" and self._session and self._staying is None:
            _start(self._hear_changes(), self._endless)
            self._staying = _start(self._stay(), self._endless)

    async def _serve(self, body: Any, message: Message | None) -> None:
        """Answer a message, or None for a batch. Nothing but a request and a batch is ever answered."""
        request = message if isinstance(message, Request) else None
        wire = StdioWire(self._write)
        if request is not None:
            self._running[request.id] = wire
        try:
            answer = await self._answer(body, request, wire)
            if request is not None or message is None:
                await self._finish(answer, request, wire)
        except asyncio.CancelledError:  # by the client, or at the end
            pass
        finally:
            if request is not None and self._running.get(request.id) is wire:
                del self._running[request.id]

    async def _answer(self, body: Any, request: Request | None, wire: StdioWire) -> Answer:
        inbound = self._inbound(body, wire)
        try:
            # One connection may outlive many changes of rights, and a user object keeps what it had.
            principal = await shared_pool().sync(partial(as_of_now, self._principal, self._server))
            if principal is None:
                raise InvalidRequest(
                    "This user may not sign in any more.", request_id=None if request is None else request.id
                )
            inbound = inbound._replace(principal=principal)
            answer = await choose(inbound.headers, body).serve(inbound)
        except ProtocolError as error:
            return Answer(error.http_status, encode_error(error.request_id, error))
        except Exception as error:  # noqa: BLE001 - which is logged
            return Answer(500, failure(None if request is None else request.id, error))
        if request is not None and request.method == "initialize":
            self._agree(answer)
        return answer

    async def _finish(self, answer: Answer, request: Request | None, wire: StdioWire) -> None:
        if answer.body:
            wire.send(Event(answer.body))
        if answer.stream is None:
            return
        task = asyncio.current_task()
        assert task is not None  # noqa: S101
        wire.watch(task.cancel)
        if request is not None and request.method == "subscriptions/listen":
            self._calls.discard(task)
            self._endless.add(task)
            task.add_done_callback(self._endless.discard)
        async with aclosing(answer.stream) as stream:
            async for event in stream:
                wire.send(event)

    def _agree(self, answer: Answer) -> None:
        """Keep what a client would have to send as headers from now on."""
        result = decode(answer.body).get("result")
        if result is not None:
            self._agreed = result["protocolVersion"]
            given = {name.lower(): value for name, value in answer.headers}
            self._session = {name: value for name, value in given.items() if name == headers.SESSION}

    def _inbound(self, body: Any, wire: StdioWire) -> Inbound:
        header = {headers.VERSION: spoken(body, self._agreed), **self._session}
        pool = shared_pool()
        return Inbound(self._server, self._principal, pool, self._edge, header, body, wire, over_http=False)

    # What goes on beside the calls

    async def _hear_changes(self) -> None:
        """Send on what a client over HTTP would open a stream with GET for."""
        wire = StdioWire(self._write)
        with suppress(ProtocolError, asyncio.CancelledError):
            await self._finish(await open_stream(self._inbound(None, wire)), None, wire)

    async def _stay(self) -> None:
        """Use the session from time to time: it must not expire while the client is connected and silent."""
        ping = {"jsonrpc": JSONRPC, "id": 0, "method": "ping"}
        with suppress(asyncio.CancelledError):
            while True:
                await asyncio.sleep(settings.SESSION_SECONDS / RENEWALS)
                await self._answer(ping, None, StdioWire(self._write))


def _start(coroutine: Coroutine[Any, Any, None], among: set[asyncio.Task[None]]) -> asyncio.Task[None]:
    """A task that is *among* others until it is done."""
    task = asyncio.get_running_loop().create_task(coroutine)
    among.add(task)
    task.add_done_callback(among.discard)
    return task

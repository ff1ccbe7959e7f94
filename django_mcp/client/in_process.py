"""Exchange messages with an endpoint in this process.

Who calls is either found by the endpoint's authenticators, or is whom the test says.
"""

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, NamedTuple, Self

from django.test import RequestFactory

from django_mcp.auth.protected_resource import path_of
from django_mcp.core.channel import no_waiting
from django_mcp.core.concurrency import INLINE, run_inline
from django_mcp.core.permissions import covers
from django_mcp.core.policies import book
from django_mcp.core.principal import Principal
from django_mcp.core.server import MCPServer
from django_mcp.protocol.jsonrpc import decode, encode
from django_mcp.revisions.base import Answer
from django_mcp.transports.authentication import find_caller, too_little
from django_mcp.transports.base import Refusal, RequestHead
from django_mcp.transports.http import Accepts, Admission, Endpoint
from django_mcp.transports.sse import BufferedWire
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


HOST = "testserver"
logger = logging.getLogger("django_mcp")


class Received(NamedTuple):
    """What came back.

    Attributes:
        headers: by lower-case name.
        messages: JSON-RPC, in their order.
        last: id of the last event, where a stream can be taken up after it.
        raised: what the site's code raised and nobody expected; the client is told no more than a number.
    """

    status: int
    headers: Mapping[str, str]
    messages: list[dict[str, Any]]
    last: str
    raised: BaseException | None = None


class _Raised(logging.Handler):
    """Keeps the newest exception that is logged."""

    found: BaseException | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """See ``Handler``."""
        if record.exc_info and record.exc_info[1] is not None:
            self.found = record.exc_info[1]


def send(
    server: MCPServer,
    principal: Principal | None,
    verb: str,
    headers: Mapping[str, str],
    body: bytes = b"",
) -> Received:
    """Send a request.

    Args:
        server: the endpoint.
        principal: who calls; None for whoever the headers say.
        verb: HTTP method.
        headers: by lower-case name.
        body: JSON.
    """
    book.expire()  # what the test decided about tools is to count at once
    raised = _Raised()
    waiting = no_waiting.set(True)
    logger.addHandler(raised)
    try:
        answer, data = run_inline(_serve(server, principal, verb, headers, body))
    finally:
        logger.removeHandler(raised)
        no_waiting.reset(waiting)
    found = {name.lower(): value for name, value in answer.headers}
    if not found.get("content-type", "").startswith("text/event-stream"):
        return Received(answer.status, found, [json.loads(data)] if data else [], "", raised.found)
    return Received(answer.status, found, *_events(data.decode()), raised.found)


async def _serve(
    server: MCPServer, principal: Principal | None, verb: str, headers: Mapping[str, str], body: bytes
) -> tuple[Answer, bytes]:
    endpoint = Endpoint(server)
    head = head_of(server, verb, headers, body)
    if principal is None:
        admitted = await endpoint.admit(head, INLINE)
    else:
        admitted = _admitted(endpoint, principal, head)
    if isinstance(admitted, Answer):
        return admitted, admitted.body
    wire = BufferedWire(takes_events=True, can_hold=False)
    answer = await admitted.answer(body, wire)
    if answer.stream is None and not wire.opened:
        return answer, answer.body
    return answer._replace(headers=admitted.event_headers), b"".join([each async for each in wire.body(answer)])


def head_of(server: MCPServer, verb: str, headers: Mapping[str, str], body: bytes = b"") -> RequestHead:
    """A request's head."""
    given = {"HTTP_" + name.upper().replace("-", "_"): value for name, value in headers.items()}
    kind = headers.get("content-type", "")
    request = RequestFactory().generic(verb, path_of(server), body, kind, **given)  # type: ignore[arg-type]
    return RequestHead(verb, headers, headers.get("host", HOST), lambda: False, lambda: request)


def caller(server: MCPServer, headers: Mapping[str, str]) -> Principal:
    """Who the endpoint takes somebody for who sends these headers.

    Raises:
        AssertionError: nobody whom it lets in.
    """
    try:
        return run_inline(find_caller(head_of(server, "GET", headers), server, INLINE))
    except Refusal as refusal:
        msg = f"The endpoint {server.name!r} does not let this client in: HTTP {refusal.status}, {refusal}"
        raise AssertionError(msg) from None


def _admitted(endpoint: Endpoint, principal: Principal, head: RequestHead) -> Admission | Answer:
    """What the gate makes of a caller it has recognised."""
    server = endpoint.server
    if server.user_passes_test is not None and not server.user_passes_test(principal.user):
        return Refusal(401, "This endpoint is not for this user (user_passes_test).").answer()
    if principal.scopes is not None and not covers(principal.scopes, server.scopes):
        return too_little(server, principal, server.scopes).answer()
    return Admission(endpoint, head, principal, (), Accepts(json=True, events=True), INLINE)


def _events(text: str) -> tuple[list[dict[str, Any]], str]:
    """Messages of an event stream, and the id of its last event."""
    messages, last = [], ""
    for block in text.replace("\r\n", "\n").split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line and not line.startswith(":"))
        last = fields.get("id", last)
        if data := fields.get("data"):
            messages.append(json.loads(data))
    return messages, last

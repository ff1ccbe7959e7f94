"""What the protocol revisions share."""

import logging
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from django_mcp.core import database
from django_mcp.core.channel import Channel
from django_mcp.core.concurrency import Runner
from django_mcp.core.context import Context
from django_mcp.core.database import NOT_MIGRATED, is_unmigrated
from django_mcp.core.principal import Principal
from django_mcp.core.server import MCPServer
from django_mcp.protocol import headers, meta
from django_mcp.protocol.errors import InternalError, RequestId
from django_mcp.protocol.jsonrpc import JSONRPC, Request, Result, UnencodableResult, encode, encode_error, encode_result
from django_mcp.protocol.meta import meta_of

logger = logging.getLogger("django_mcp")


LARGE_BYTES = 64 * 1024
"""Bytes of a body from which on it is not read and checked on the event loop, where all other calls would wait."""


class Event(NamedTuple):
    """One event of a stream (HTML Living Standard, Server-sent events).

    Attributes:
        data: a JSON-RPC message; empty for an event that only primes the client to come back.
        id: where to go on after this one; empty for streams that cannot be resumed.
        retry: milliseconds after which to come back.
        kind: the event's type.
    """

    data: bytes = b""
    id: str = ""
    retry: int | None = None
    kind: str = "message"


KEEP_ALIVE = Event(kind="")
"""Stands for a comment line, which keeps proxies from closing an idle connection."""


class ResponseStream(Protocol):
    """What the edge can do with the connection of a POST while its call runs.

    Attributes:
        takes_events: the client accepts an event stream as the answer.
        can_hold: the connection can be kept open, to wait for what is still to come.
        is_live: what is sent goes out while the call runs.
        opened: the answer is an event stream, for something was sent.
        is_request: what came in is answered by a response alone: set before a call runs. From then on the edge may
            open the stream itself, to keep the connection alive.
    """

    takes_events: bool
    can_hold: bool
    is_live: bool
    is_request: bool

    @property
    def opened(self) -> bool:
        """Whether something was sent."""

    def send(self, event: Event) -> None:
        """Send an event before the answer. May be called from any thread."""

    def close(self) -> None:
        """End the stream here and now."""

    def watch(self, gone: Callable[[], None]) -> None:
        """Call *gone* if the client goes away before the answer."""


class MCPRequest(NamedTuple):
    """One request, authenticated and decoded.

    Attributes:
        headers: by lower-case name.
        body: the JSON value.
        runner: how the edge runs a site's code.
        edge: gives a Django request for it.
        response: the way back to the client while the call runs.
        over_http: headers repeat the body, and a stream that was let go can be taken up again.
        is_large: the body is larger than LARGE_BYTES, so it is read and checked outside of the event loop.
    """

    server: MCPServer
    principal: Principal
    runner: Runner
    edge: Callable[[], Any]
    headers: Mapping[str, str]
    body: Any
    response: ResponseStream
    over_http: bool = True
    is_large: bool = False


class EventStream(Protocol):
    """Events as they come: an asynchronous generator, or what can be read like one."""

    def __aiter__(self) -> AsyncIterator[Event]:
        """Read it."""

    def aclose(self) -> Awaitable[None]:
        """It is wanted no more."""


class MCPResponse(NamedTuple):
    """What goes back: an HTTP status and one JSON text, or none, or a stream.

    Where the response stream was opened, *body* is the stream's last message.

    Attributes:
        headers: further headers.
        stream: events as they come, after those that were sent already; closed when the client goes.
    """

    status: int
    body: bytes = b""
    headers: Sequence[tuple[str, str]] = ()
    stream: EventStream | None = None


ACCEPTED = MCPResponse(202)


class Revision(Protocol):
    """A family of protocol versions."""

    async def serve(self, mcp_request: MCPRequest) -> MCPResponse:
        """Answer one body.

        Raises:
            ProtocolError: nothing could be answered under a request's id.
        """


def capabilities(server: MCPServer, response: ResponseStream) -> dict[str, Any]:
    """The ``ServerCapabilities``: what is registered, and notifications where a stream can be held open for them."""
    declared: dict[str, Any] = {name: dict(value) for name, value in server.capabilities.items()}
    if response.can_hold and database.has_database():  # changes come by way of the database
        for name in ("tools", "prompts", "resources"):
            if name in declared:
                declared[name]["listChanged"] = True
        if "resources" in declared:
            declared["resources"]["subscribe"] = True
    return declared


def context_for(
    mcp_request: MCPRequest, request: Request, client: Any, capabilities: Mapping[str, Any], channel: Channel
) -> Context:
    """The context of a call.

    Args:
        mcp_request: the POST it came in.
        request: the request.
        client: what the client says it is, unread.
        capabilities: what the client declared.
        channel: leads back to it.
    """
    context = Context(
        mcp_request.server,
        mcp_request.principal,
        mcp_request.runner,
        mcp_request.edge,
        request.id,
        request.method,
        request.params,
        client,
        capabilities,
        channel,
    )
    context.is_large = mcp_request.is_large
    return context


def response(
    request_id: RequestId,
    result: Result,
    version: str,
    finish: Callable[[Result, MCPServer], dict[str, Any]],
    server: MCPServer,
) -> bytes:
    """The response that carries a result.

    Args:
        request_id: of the request.
        result: of the method.
        version: under which the encoding of a result that many requests share is kept.
        finish: puts the marks of *version* on a result.
        server: whose result it is.

    Raises:
        InternalError: it cannot be encoded.
    """
    try:
        kept = result.encoded
        if kept is None:
            return encode_result(request_id, finish(result, server))
        if version not in kept:
            kept[version] = encode(finish(result, server))
        return encode_result(request_id, kept[version])
    except UnencodableResult as error:
        raise _unencodable(request_id, error) from None


def adopt_key(request: Request, mcp_request: MCPRequest) -> None:
    """Take the header ``Idempotency-Key`` for the key of a call that has none itself; so it is kept for all rounds.

    Raises:
        InvalidParams: it is malformed.
    """
    if request.method == "tools/call" and meta.IDEMPOTENCY_KEY not in meta_of(request.params):
        key = headers.idempotency_key(mcp_request.headers[headers.IDEMPOTENCY_KEY])
        request.params["_meta"] = {**meta_of(request.params), meta.IDEMPOTENCY_KEY: key}


def failure(request_id: RequestId | None, error: Exception) -> bytes:
    """The response that stands for what nobody expected; the log has the exception."""
    reference = secrets.token_hex(4)
    logger.error("[%s] request %r failed", reference, request_id, exc_info=error)
    message = f"Internal server error. Details are in the server's log under reference {reference}."
    if is_unmigrated(error):
        message = NOT_MIGRATED
    return encode_error(request_id, InternalError(message))


def notification(method: str, params: Mapping[str, Any]) -> bytes:
    """A notification's JSON.

    Raises:
        TypeError: the parameters cannot be encoded.
    """
    try:
        return encode({"jsonrpc": JSONRPC, "method": method, "params": params})
    except UnencodableResult as error:
        msg = f"{method} cannot be encoded as JSON: {error}"
        raise TypeError(msg) from None


def _unencodable(request_id: RequestId, error: Exception) -> InternalError:
    """The error for a result that JSON cannot hold; the log says which."""
    reference = secrets.token_hex(4)
    logger.error("[%s] the result of request %r cannot be encoded: %s", reference, request_id, error)
    message = f"The result cannot be encoded as JSON. Details are in the server's log under reference {reference}."
    return InternalError(message)

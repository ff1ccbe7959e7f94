"""Requests, responses, streams and events as the protocol revisions share them."""

import logging
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from django_mcp.core import database
from django_mcp.core.concurrency import Runner
from django_mcp.core.database import NOT_MIGRATED, is_unmigrated
from django_mcp.core.failures import report_crash
from django_mcp.core.principal import Principal
from django_mcp.core.server import MCPServer
from django_mcp.protocol import headers, meta
from django_mcp.protocol.errors import InternalError, RequestId
from django_mcp.protocol.jsonrpc import (
    JSONRPC,
    Request,
    Result,
    UnencodableResult,
    encode,
    encode_error,
    encode_fields,
    encode_result,
)
from django_mcp.protocol.meta import meta_of

logger = logging.getLogger("django_mcp")


LARGE_BYTES = 64 * 1024
"""Larger bodies are parsed in a worker thread, to keep the event loop free."""


class SSEEvent(NamedTuple):
    """An event of a stream (HTML Living Standard, Server-sent events).

    Attributes:
        data: a JSON-RPC message; empty for an event that only makes the client reconnect.
        id: where to resume after this event; empty if the stream cannot be resumed.
        retry: milliseconds before reconnecting.
        is_optional: a progress or log message, which may be left out if there are too many.
    """

    data: bytes = b""
    id: str = ""
    retry: int | None = None
    kind: str = "message"
    is_optional: bool = False


KEEP_ALIVE = SSEEvent(kind="")
"""Stands for a comment, which keeps proxies from closing an idle connection."""


class ResponseStream(Protocol):
    """The transport's connection for one POST while its call runs.

    Attributes:
        takes_events: the client accepts an event stream.
        can_hold: the connection can be kept open after the call.
        is_live: events are sent while the call runs.
        opened: the response is an event stream, because something was sent.
        is_request: set before a request runs; then the transport may open the stream for keep-alives.
    """

    takes_events: bool
    can_hold: bool
    is_live: bool
    is_request: bool

    @property
    def opened(self) -> bool:
        """True if something was sent."""

    def send(self, event: SSEEvent) -> None:
        """Send an event before the response. Thread-safe."""

    def close(self) -> None:
        """End the stream now."""

    def watch(self, gone: Callable[[], None]) -> None:
        """Call *gone* if the client disconnects before the response."""


class MCPRequest(NamedTuple):
    """One authenticated and decoded request.

    Attributes:
        headers: by lower-case name.
        body: the JSON value.
        get_django_request: returns a Django request.
        over_http: headers repeat the body, and streams can be resumed.
        is_large: the body exceeds ``LARGE_BYTES``.
        stream_kind: see ``Channel.stream_kind``.
    """

    server: MCPServer
    principal: Principal
    runner: Runner
    get_django_request: Callable[[], Any]
    headers: Mapping[str, str]
    body: Any
    response: ResponseStream
    over_http: bool = True
    is_large: bool = False
    stream_kind: str = ""


class EventStream(Protocol):
    """An asynchronous generator of events, or an equivalent."""

    def __aiter__(self) -> AsyncIterator[SSEEvent]:
        """Iterate over the events."""

    def aclose(self) -> Awaitable[None]:
        """Stop the stream."""


class MCPResponse(NamedTuple):
    """An HTTP status with a JSON text, a stream or neither.

    Attributes:
        body: JSON; the last message of the stream if the response stream was opened.
        stream: events after those already sent; closed when the client disconnects.
    """

    status: int
    body: bytes = b""
    headers: Sequence[tuple[str, str]] = ()
    stream: EventStream | None = None


ACCEPTED = MCPResponse(202)


class Revision(Protocol):
    """A group of protocol versions."""

    async def serve(self, mcp_request: MCPRequest) -> MCPResponse:
        """Answer one body.

        Raises:
            ProtocolError: no response with a request id is possible.
        """


def capabilities(server: MCPServer, response: ResponseStream) -> dict[str, Any]:
    """Return the ``ServerCapabilities``; change notifications require a transport that can hold a stream open."""
    declared: dict[str, Any] = {name: dict(value) for name, value in server.capabilities.items()}
    if response.can_hold and database.has_database():  # changes are published through the database
        for name in ("tools", "prompts", "resources"):
            if name in declared:
                declared[name]["listChanged"] = True
        if "resources" in declared:
            declared["resources"]["subscribe"] = True
    return declared


Finish = Callable[[Result, MCPServer], tuple[Mapping[str, Any], Mapping[str, Any]]]
"""Returns the fields of a result as a protocol version has them, and the members that the version adds."""


def encode_response(request_id: RequestId, result: Result, version: str, finish: Finish, server: MCPServer) -> bytes:
    """Return the encoded response for a result.

    Args:
        request_id: id of the request.
        result: the method's result.
        version: cache key of the encoding of a shared result.
        finish: of *version*.
        server: the endpoint.

    Raises:
        InternalError: the result cannot be encoded.
    """
    try:
        if (kept := result.encoded) is not None and version in kept:
            return encode_result(request_id, kept[version])
        fields, added = finish(result, server)
        if kept is not None:
            kept[version] = encode({**fields, **added})
            return encode_result(request_id, kept[version])
        if result.data is not None and fields is result.fields:
            return encode_result(request_id, result.data, added)
        if result.parts is None:
            return encode_result(request_id, fields, added)
        own = {name: data for name, data in result.parts.items() if fields[name] is result.fields[name]}
        return encode_result(request_id, encode_fields(fields, own), added)
    except UnencodableResult as error:
        raise _unencodable(request_id, error) from None


def adopt_idempotency_key(request: Request, mcp_request: MCPRequest) -> None:
    """Use the header ``Idempotency-Key`` for a call without a key of its own.

    Raises:
        InvalidParams: the header is malformed.
    """
    if request.method == "tools/call" and meta.IDEMPOTENCY_KEY not in meta_of(request.params):
        key = headers.idempotency_key(mcp_request.headers[headers.IDEMPOTENCY_KEY])
        request.params["_meta"] = {**meta_of(request.params), meta.IDEMPOTENCY_KEY: key}


def encode_failure(request_id: RequestId | None, error: BaseException) -> bytes:
    """Log an unexpected exception; return the response."""
    message = report_crash(error, f"request {request_id!r}")
    if is_unmigrated(error):
        message = NOT_MIGRATED
    return encode_error(request_id, InternalError(message))


def encode_notification(method: str, params: Mapping[str, Any]) -> bytes:
    """Return an encoded notification.

    Raises:
        TypeError: the parameters cannot be encoded.
    """
    try:
        return encode({"jsonrpc": JSONRPC, "method": method, "params": params})
    except UnencodableResult as error:
        msg = f"{method} cannot be encoded as JSON: {error}"
        raise TypeError(msg) from None


def _unencodable(request_id: RequestId, error: Exception) -> InternalError:
    reference = secrets.token_hex(4)
    logger.error("[%s] the result of request %r cannot be encoded: %s", reference, request_id, error)
    message = f"The result cannot be encoded as JSON. Details are in the server's log under reference {reference}."
    return InternalError(message)

"""The MCP endpoint over HTTP: checks of the head, reading of the body, and the response.

Order of checks: Host, Origin, OPTIONS, method, caller, size, type, then the message.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache, partial
from typing import Any, NamedTuple, TypeVar

from django.db import InterfaceError, OperationalError
from django.urls import set_script_prefix

from django_mcp.auth.base import Misconfigured, RequestHead
from django_mcp.conf import settings
from django_mcp.core import dispatch
from django_mcp.core.concurrency import AROUND_JOBS, Runner
from django_mcp.core.database import is_unmigrated
from django_mcp.core.failures import as_call_error, log_survived, must_propagate
from django_mcp.core.principal import Principal
from django_mcp.core.rate_limited_log import log_once, log_rate_limited
from django_mcp.core.server import MCPServer
from django_mcp.protocol.errors import InternalError, ProtocolError
from django_mcp.protocol.jsonrpc import MAX_ID_LENGTH, check_messages, decode, decode_messages, encode_error, id_of
from django_mcp.revisions.base import LARGE_BYTES, MCPRequest, MCPResponse, ResponseStream, SSEEvent, encode_failure
from django_mcp.revisions.legacy.handler import end_session, open_stream
from django_mcp.revisions.legacy.http_sse import MESSAGES, STREAM, open_events, receive_message
from django_mcp.revisions.negotiation import choose
from django_mcp.transports.authentication import find_caller, require_scopes
from django_mcp.transports.base import (
    MAX_HOST_LENGTH,
    Headers,
    Refusal,
    check_origin,
    is_our_host,
    preflight,
    unknown_host,
)
from django_mcp.transports.sse import EVENT_HEADERS, frame

T = TypeVar("T")

JSON = "application/json"
EVENTS = "text/event-stream"
_JSON_HEADER = ("Content-Type", JSON)
JSON_ONLY: Headers = (_JSON_HEADER,)
"""The headers of most responses."""


def keep_script_prefix(prefix: str) -> None:
    """Set the prefix that ``reverse()`` uses, such as ``"/shop"``, in this context and its worker threads.

    Django sets it only in the thread of a request.
    """
    if prefix != "/":
        set_script_prefix(prefix)
        AROUND_JOBS.set(partial(_below, prefix))


def _below(prefix: str, function: Callable[[], T]) -> T:
    set_script_prefix(prefix)
    return function()


class Endpoint:
    """One ``MCPServer`` over HTTP.

    Attributes:
        verbs: handlers by HTTP method; None for a POST, whose body decides.
    """

    verbs: Mapping[str, Callable[[MCPRequest], Awaitable[MCPResponse]] | None] = {
        "POST": None,
        "GET": open_stream,
        "DELETE": end_session,
    }

    def __init__(self, server: MCPServer) -> None:
        self.server = server

    async def admit(  # noqa: C901 - every request passes here
        self, head: RequestHead, runner: Runner
    ) -> "AuthenticatedRequest | MCPResponse":
        """Check a request before its body is read; return it authenticated, or a response."""
        cors: Headers = ()
        headers = head.headers
        try:
            if len(head.host) > MAX_HOST_LENGTH or not is_our_host(head.host):
                raise unknown_host(head.host)
            if "origin" in headers:
                cors = check_origin(head)
            if head.method not in self.verbs:
                return self._not_served(head, cors)
            if runner.is_overloaded:
                raise overloaded()
            principal = await find_caller(head, self.server, runner)
            kinds = _ANY
            if head.method == "POST":
                check_size(headers.get("content-length", ""))
                if "content-encoding" in headers:
                    check_encoding(headers["content-encoding"])
                kinds = accepts(headers.get("content-type", ""), headers.get("accept", "*/*"))
            return AuthenticatedRequest(self, head, principal, cors, kinds, runner)
        except Refusal as refusal:
            if refusal.is_of_caller:
                return await log_refusal(refusal, self.server, runner, head.get_django_request, None, cors)
            return refusal.answer(cors)
        except BaseException as error:
            if must_propagate(error):
                raise
            return await answer_crash(
                as_call_error(error), self.server, None, runner, head.get_django_request, None, (*cors, _JSON_HEADER)
            )

    def _not_served(self, head: RequestHead, cors: Headers) -> MCPResponse:
        if head.method == "OPTIONS":
            return MCPResponse(204, headers=(*cors, *preflight(head.headers)))
        allow = ", ".join((*self.verbs, "OPTIONS"))
        instead = "POST to send a message" if "POST" in self.verbs else "GET to open a stream"
        raise Refusal(405, f"Method {head.method} is not allowed here; use {instead}.", [("Allow", allow)])


async def log_refusal(
    refusal: Refusal,
    server: MCPServer,
    runner: Runner,
    get_django_request: Callable[[], Any],
    message: Any,
    cors: Headers,
) -> MCPResponse:
    if dispatch.observer is not None:
        try:
            # One row for each HTTP request, however many messages it has.
            about = message if refusal.about is None else refusal.about
            await dispatch.observer.refused(server, refusal.principal, runner, get_django_request, about, str(refusal))
        except ProtocolError as error:
            return MCPResponse(503, encode_error(id_of(message), error), (*cors, _JSON_HEADER))
    return refusal.answer(cors)


async def answer_crash(
    error: BaseException,
    server: MCPServer,
    principal: Principal | None,
    runner: Runner,
    get_django_request: Callable[[], Any],
    message: Any,
    headers: Headers = (),
) -> MCPResponse:
    """Log and record an unexpected exception outside of ``dispatch``; return the response."""
    if isinstance(error, Misconfigured):
        log_once(logging.ERROR, str(error))
        return MCPResponse(503, encode_error(None, InternalError(MISCONFIGURED)), headers)
    body = encode_failure(id_of(message), error)
    if isinstance(error, OperationalError | InterfaceError) or is_unmigrated(error):  # it may be temporary
        return MCPResponse(503, body, headers)
    if dispatch.observer is not None:
        reason = decode(body)["error"]["message"]
        try:
            await dispatch.observer.refused(server, principal, runner, get_django_request, message, reason, error)
        except BaseException as fault:
            if must_propagate(fault):
                raise
            log_survived(fault, "recording the request")
    return MCPResponse(500, body, headers)


def error_response(error: BaseException) -> MCPResponse:
    # Nothing is left that could record it.
    return MCPResponse(500, encode_failure(None, as_call_error(error)), JSON_ONLY)


MISCONFIGURED = (
    "This endpoint is not configured correctly and serves no requests. "
    "The site's administrator finds the reason with 'manage.py check'."
)


class Accepts(NamedTuple):
    """The content types that a client accepts as response to a POST."""

    json: bool
    events: bool


_ANY = Accepts(json=True, events=True)


class AuthenticatedRequest(NamedTuple):
    """A request whose body may be read."""

    endpoint: Endpoint
    head: RequestHead
    principal: Principal
    cors: Headers
    accepts: Accepts
    runner: Runner

    @property
    def event_headers(self) -> Headers:
        return (*self.cors, *EVENT_HEADERS)

    async def answer(self, body: bytes, response: ResponseStream) -> MCPResponse:
        """Return the response, or the end of the stream if *response* was opened."""
        head, value = self.head, None
        try:
            is_large = len(body) > LARGE_BYTES
            if head.method == "POST":
                if is_large:
                    value = await self.runner.checks.sync(partial(decode_messages, body))
                else:
                    value = decode(body)
                    if len(body) > MAX_ID_LENGTH or type(value) is list:  # no other body can exceed a limit
                        check_messages(value)
            server, get_django_request = self.endpoint.server, head.get_django_request
            if self.principal.steps_up:
                await require_scopes(server, self.principal, self.runner, get_django_request, value)
            mcp_request = MCPRequest(
                server,
                self.principal,
                self.runner,
                get_django_request,
                head.headers,
                value,
                response,
                is_large=is_large,
            )
            serve = self.endpoint.verbs[head.method] or choose(head.headers, value).serve
            answer = await serve(mcp_request)
        except Refusal as refusal:
            return await log_refusal(
                refusal, self.endpoint.server, self.runner, head.get_django_request, value, self.cors
            )
        except ProtocolError as error:
            answer = MCPResponse(error.http_status, encode_error(error.request_id, error), error.headers)
        except BaseException as error:
            if must_propagate(error):
                raise
            server, get_django_request = self.endpoint.server, head.get_django_request
            answer = await answer_crash(
                as_call_error(error), server, self.principal, self.runner, get_django_request, value
            )
        if answer.body and answer.stream is None and self.accepts.json and not (answer.headers or self.cors):
            return MCPResponse(answer.status, answer.body, JSON_ONLY)  # the common case
        return self._with_headers(answer)

    def too_large(self) -> MCPResponse:
        return _too_large().answer(self.cors)

    def _with_headers(self, answer: MCPResponse) -> MCPResponse:
        headers = (*self.cors, *answer.headers)
        if answer.stream is not None:
            return answer._replace(headers=(*headers, *EVENT_HEADERS))
        if not answer.body:
            return answer._replace(headers=headers)
        if not self.accepts.json and answer.status == 200:  # noqa: PLR2004
            # The client accepts only event streams.
            return MCPResponse(200, frame(SSEEvent(answer.body)), (*headers, *EVENT_HEADERS))
        return answer._replace(headers=(*headers, _JSON_HEADER))


def overloaded() -> Refusal:
    """Return a 503, which keeps the queue short for waiting requests."""
    jobs = (
        "More than %s calls are queued for a worker thread (DJANGO_MCP: MAX_QUEUED_CALLS, WORKER_THREADS); "
        "requests are rejected."
    )
    log_rate_limited(logging.WARNING, jobs, settings.MAX_QUEUED_CALLS)
    return Refusal(503, "The server is overloaded. Retry later.", [("Retry-After", "1")])


def check_size(content_length: str) -> None:
    """Check ``Content-Length``; without it the body is counted while read.

    Raises:
        Refusal: 413 above ``MAX_BODY_BYTES``.
    """
    # Check the number of digits first, for int() raises on thousands of them.
    if content_length.isdecimal() and (len(content_length) > 18 or int(content_length) > settings.MAX_BODY_BYTES):  # noqa: PLR2004
        raise _too_large()


def check_encoding(content_encoding: str) -> None:
    """Refuse a compressed body, which could expand to any size (RFC 9110, section 15.5.16).

    Raises:
        Refusal: 415.
    """
    if content_encoding.strip().lower() not in {"", "identity"}:
        text = f"Content-Encoding {content_encoding[:100]!r} is not supported. Send the body uncompressed."
        raise Refusal(415, text, [("Accept-Encoding", "identity")])


def length_required() -> Refusal:
    # For servers that do not delimit a chunked body (RFC 9110, section 15.5.12).
    text = "Content-Length is missing. This server does not read chunked bodies. Send a Content-Length."
    return Refusal(411, text, [("Connection", "close")])


def _too_large() -> Refusal:
    # The rest of the body stays unread, so the connection cannot be reused.
    return Refusal(413, f"The body exceeds {settings.MAX_BODY_BYTES} bytes.", [("Connection", "close")])


@lru_cache(maxsize=64)
def accepts(content_type: str, accept: str) -> Accepts:
    """Check the media types of a POST; return what the client accepts.

    Some clients send ``Accept: */*``, only JSON, or nothing, against the specification. A stream requires
    ``text/event-stream``.

    Raises:
        Refusal: 415 or 406.
    """
    content_type = content_type.partition(";")[0].strip().lower()
    if content_type != JSON:
        given = content_type[:100] or "none"
        raise Refusal(415, f"Content-Type must be application/json, not {given}.")
    json, events = JSON in accept or "*/*" in accept, EVENTS in accept
    if json:
        return Accepts(json=True, events=events)
    types = {media_type.partition(";")[0].strip().lower() for media_type in accept.split(",")}
    json, events = bool(types & {JSON, "application/*", ""}), bool(types & {EVENTS, "text/*"})
    if not json and not events:
        raise Refusal(406, "Accept must allow application/json or text/event-stream.")
    return Accepts(json, events)


class EventsEndpoint(Endpoint):
    """The URL that opens an HTTP+SSE session with its stream."""

    verbs = {"GET": open_events}  # noqa: RUF012 - never changed


class MessagesEndpoint(Endpoint):
    """The URL that receives the messages of an HTTP+SSE session."""

    verbs = {"POST": receive_message}  # noqa: RUF012 - never changed


def events_endpoints(server: MCPServer) -> dict[str, Endpoint]:
    return {STREAM: EventsEndpoint(server), MESSAGES: MessagesEndpoint(server)}


def http_sse_endpoints(server: MCPServer) -> dict[str, Endpoint]:
    if not settings.HTTP_SSE:
        return {}
    return events_endpoints(server)

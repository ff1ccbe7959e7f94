"""The MCP endpoint: from a request's head and body to a response; the HTTP+SSE endpoints.

Order of checks: Host, Origin, OPTIONS, method, who calls, size and type, and only then the message.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache, partial
from typing import Any, NamedTuple, TypeVar

from django.core.exceptions import ImproperlyConfigured
from django.db import InterfaceError, OperationalError
from django.urls import set_script_prefix

from django_mcp.auth.base import RequestHead, authenticators
from django_mcp.conf import settings
from django_mcp.core.concurrency import AROUND_JOBS, Runner
from django_mcp.core.database import is_unmigrated
from django_mcp.core.dispatch import watching
from django_mcp.core.failures import log_rate_limited
from django_mcp.core.principal import Principal
from django_mcp.core.server import MCPServer
from django_mcp.protocol.errors import ProtocolError
from django_mcp.protocol.jsonrpc import MAX_ID_LENGTH, decode, decode_messages, encode_error, id_of
from django_mcp.revisions.base import LARGE_BYTES, Event, MCPRequest, MCPResponse, ResponseStream, failure
from django_mcp.revisions.legacy.handler import end_session, open_stream
from django_mcp.revisions.legacy.http_sse import MESSAGES, STREAM, open_events, receive_message
from django_mcp.revisions.negotiation import choose
from django_mcp.transports.authentication import find_caller, require_scopes
from django_mcp.transports.base import LONGEST, Headers, Refusal, check_origin, is_our_host, preflight, unknown_host
from django_mcp.transports.sse import EVENT_HEADERS, frame

T = TypeVar("T")

JSON = "application/json"
EVENTS = "text/event-stream"
_JSON_HEADER = ("Content-Type", JSON)
JSON_ONLY: Headers = (_JSON_HEADER,)
"""The headers of most answers."""


def keep_script_prefix(prefix: str) -> None:
    """Have ``reverse()`` know, in this context and in the threads that work for it, below which path the site is.

    Django keeps that path for the thread of a request alone.

    Args:
        prefix: the path, such as ``"/shop"``; ``"/"`` for a site that is below none.
    """
    if prefix != "/":
        set_script_prefix(prefix)
        AROUND_JOBS.set(partial(_below, prefix))


def _below(prefix: str, function: Callable[[], T]) -> T:
    set_script_prefix(prefix)
    return function()


class Endpoint:
    """One ``MCPServer`` on HTTP.

    Attributes:
        verbs: HTTP method -> what it does; None for a POST whose body says that.

    Raises:
        ImproperlyConfigured: nobody said who may call it.
    """

    verbs: Mapping[str, Callable[[MCPRequest], Awaitable[MCPResponse]] | None] = {
        "POST": None,
        "GET": open_stream,
        "DELETE": end_session,
    }

    def __init__(self, server: MCPServer) -> None:
        self.server = server
        if not authenticators(server):
            msg = (
                f"{server!r} has no authentication, so it is not served. Set MCPServer(authentication=[…]) or "
                "DJANGO_MCP['AUTHENTICATION']; ['django_mcp.AllowAny'] allows anonymous access."
            )
            raise ImproperlyConfigured(msg)

    async def admit(self, head: RequestHead, runner: Runner) -> "AuthenticatedRequest | MCPResponse":
        """Look at a request before its body is read: who calls, or the answer that ends it."""
        cors: Headers = ()
        headers = head.headers
        try:
            if len(head.host) > LONGEST or not is_our_host(head.host):
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
                return await noted(refusal, self.server, runner, head.edge, None, cors)
            return refusal.answer(cors)

    def _not_served(self, head: RequestHead, cors: Headers) -> MCPResponse:
        """The answer to a method that is none of ``verbs``."""
        if head.method == "OPTIONS":
            return MCPResponse(204, headers=(*cors, *preflight(head.headers)))
        allow = ", ".join((*self.verbs, "OPTIONS"))
        instead = "GET to open a stream" if "POST" in self.verbs else "POST to send a message"
        raise Refusal(405, f"Method {head.method} is not allowed here; use {instead}.", [("Allow", allow)])


async def noted(
    refusal: Refusal, server: MCPServer, runner: Runner, edge: Callable[[], Any], message: Any, cors: Headers
) -> MCPResponse:
    """The answer to a request that was turned down, when that is in the log of calls."""
    if watching.observer is not None:
        try:
            await watching.observer.refused(server, refusal.principal, runner, edge, message, str(refusal))
        except ProtocolError as error:
            return MCPResponse(503, encode_error(id_of(message), error), (*cors, _JSON_HEADER))
    return refusal.answer(cors)


class Accepts(NamedTuple):
    """What a client takes as the answer to a POST."""

    json: bool
    events: bool


_ANY = Accepts(json=True, events=True)


class AuthenticatedRequest(NamedTuple):
    """A request that may be read."""

    endpoint: Endpoint
    head: RequestHead
    principal: Principal
    cors: Headers
    accepts: Accepts
    runner: Runner

    @property
    def event_headers(self) -> Headers:
        """The headers of an event stream."""
        return (*self.cors, *EVENT_HEADERS)

    async def answer(self, body: bytes, response: ResponseStream) -> MCPResponse:
        """The answer to the message in *body*, or to a GET or DELETE. Where *response* was opened, it ends it."""
        head, value = self.head, None
        try:
            is_large = len(body) > LARGE_BYTES
            if head.method == "POST":
                if is_large:
                    value = await self.runner.sync(partial(decode_messages, body))
                else:  # in what is short nothing can be too long
                    value = decode_messages(body) if len(body) > MAX_ID_LENGTH else decode(body)
            server, edge = self.endpoint.server, head.edge
            if self.principal.steps_up:
                await require_scopes(server, self.principal, self.runner, edge, value)
            mcp_request = MCPRequest(
                server, self.principal, self.runner, edge, head.headers, value, response, is_large=is_large
            )
            serve = self.endpoint.verbs[head.method] or choose(head.headers, value).serve
            answer = await serve(mcp_request)
        except Refusal as refusal:
            return await noted(refusal, self.endpoint.server, self.runner, head.edge, value, self.cors)
        except ProtocolError as error:
            answer = MCPResponse(error.http_status, encode_error(error.request_id, error), error.headers)
        except Exception as error:  # noqa: BLE001 - it is logged, and the client told no more than where to look
            away = isinstance(error, OperationalError | InterfaceError) or is_unmigrated(
                error
            )  # the database; it may be back soon
            answer = MCPResponse(503 if away else 500, failure(id_of(value), error))
        if answer.body and answer.stream is None and self.accepts.json and not (answer.headers or self.cors):
            return MCPResponse(answer.status, answer.body, JSON_ONLY)  # as most are
        return self._with_headers(answer)

    def too_large(self) -> MCPResponse:
        """The answer to a body that turned out longer than its Content-Length, or had none."""
        return _too_large().answer(self.cors)

    def _with_headers(self, answer: MCPResponse) -> MCPResponse:
        headers = (*self.cors, *answer.headers)
        if answer.stream is not None:
            return answer._replace(headers=(*headers, *EVENT_HEADERS))
        if not answer.body:
            return answer._replace(headers=headers)
        if not self.accepts.json and answer.status == 200:  # noqa: PLR2004
            # A client that wants nothing but events gets its one message as an event.
            return MCPResponse(200, frame(Event(answer.body)), (*headers, *EVENT_HEADERS))
        return answer._replace(headers=(*headers, _JSON_HEADER))


def overloaded() -> Refusal:
    """503, before anything is done: whoever waits already is answered the sooner."""
    jobs = (
        "More than %s calls are queued for a worker thread (DJANGO_MCP: MAX_QUEUED_CALLS, WORKER_THREADS); "
        "requests are rejected."
    )
    log_rate_limited(logging.WARNING, jobs, settings.MAX_QUEUED_CALLS)
    return Refusal(503, "The server is overloaded. Retry later.", [("Retry-After", "1")])


def check_size(content_length: str) -> None:
    """Turn down a body that says it is over ``MAX_BODY_BYTES``; one that does not say is counted as it comes.

    Raises:
        Refusal: 413.
    """
    # The length of the digits first: int() refuses thousands of them with an error of its own.
    if content_length.isdecimal() and (len(content_length) > 18 or int(content_length) > settings.MAX_BODY_BYTES):  # noqa: PLR2004
        raise _too_large()


def check_encoding(content_encoding: str) -> None:
    """Turn down a body that is compressed: a small one could be any length (RFC 9110, section 15.5.16).

    Raises:
        Refusal: 415.
    """
    if content_encoding.strip().lower() not in {"", "identity"}:
        text = f"Content-Encoding {content_encoding[:100]!r} is not supported. Send the body uncompressed."
        raise Refusal(415, text, [("Accept-Encoding", "identity")])


def length_required() -> Refusal:
    """411: a body of which the server does not say where it ends (RFC 9110, section 15.5.12)."""
    text = "Content-Length is missing. This server does not read chunked bodies; send a Content-Length."
    return Refusal(411, text, [("Connection", "close")])


def _too_large() -> Refusal:
    # The rest of the body stays unread, so the connection is of no further use.
    return Refusal(413, f"The body exceeds {settings.MAX_BODY_BYTES} bytes.", [("Connection", "close")])


@lru_cache(maxsize=64)
def accepts(content_type: str, accept: str) -> Accepts:
    """Check the media types of a POST; tell what the client takes.

    Real clients send ``Accept: */*``, only JSON, or nothing; the specification's pair is not insisted on, but a
    stream goes only to those who name it.

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
    types = {each.partition(";")[0].strip().lower() for each in accept.split(",")}
    json, events = bool(types & {JSON, "application/*", ""}), bool(types & {EVENTS, "text/*"})
    if not json and not events:
        raise Refusal(406, "Accept must allow application/json or text/event-stream.")
    return Accepts(json, events)


class EventsEndpoint(Endpoint):
    """Opens a session and its stream."""

    verbs = {"GET": open_events}  # noqa: RUF012 - nobody changes it


class MessagesEndpoint(Endpoint):
    """Takes the messages of a session."""

    verbs = {"POST": receive_message}  # noqa: RUF012 - nobody changes it


def events_endpoints(server: MCPServer) -> dict[str, Endpoint]:
    """Endpoints by what their paths have after the server's own."""
    return {STREAM: EventsEndpoint(server), MESSAGES: MessagesEndpoint(server)}


def http_sse_endpoints(server: MCPServer) -> dict[str, Endpoint]:
    """Endpoints by what their paths have after the server's own; none where they are not wanted."""
    if not settings.HTTP_SSE:
        return {}
    return events_endpoints(server)

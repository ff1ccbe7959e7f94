"""The endpoint without its edges: from a request's head and body to a reply.

Order of checks: Host, Origin, OPTIONS, method, who calls, size and type, and only then the message.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string

from django_mcp.auth.base import Authenticator
from django_mcp.conf import settings
from django_mcp.core.concurrency import Runner
from django_mcp.core.principal import Principal
from django_mcp.core.registry import MCPServer
from django_mcp.endpoint.messages import Head, Headers, Refusal, Reply
from django_mcp.endpoint.origins import check_host, check_origin, preflight
from django_mcp.eras import Inbound, choose
from django_mcp.protocol.errors import ProtocolError
from django_mcp.protocol.jsonrpc import decode, encode_error

JSON = "application/json"
EVENTS = "text/event-stream"
_JSON_HEADER = ("Content-Type", JSON)
_JSON_ONLY = (_JSON_HEADER,)


class Endpoint:
    """One ``MCPServer`` on HTTP.

    Raises:
        ImproperlyConfigured: nobody said who may call it.
    """

    def __init__(self, server: MCPServer) -> None:
        self.server = server
        self.authenticators = [_authenticator(each) for each in server.authentication]
        if not self.authenticators:
            msg = (
                f"{server!r} has no authentication, so it is not served. Give MCPServer(authentication=[…]) or "
                "DJANGO_MCP['AUTHENTICATION']; ['django_mcp.Public'] lets everybody in."
            )
            raise ImproperlyConfigured(msg)

    async def admit(self, head: Head, runner: Runner) -> "Admission | Reply":
        """Look at a request before its body is read: who calls, or the reply that ends it."""
        cors: Headers = ()
        try:
            check_host(head)
            cors = check_origin(head)
            if head.method == "OPTIONS":
                return Reply(204, (*cors, *preflight(head.headers)))
            if head.method != "POST":
                # No stream to GET and no session to DELETE yet.
                raise Refusal(405, f"{head.method} is not served here; POST a message.", [("Allow", "POST, OPTIONS")])
            principal = await self._principal(head, runner)
            check_size(head.headers.get("content-length", ""))
            return Admission(self, head, principal, cors, _accepts(head.headers), runner)
        except Refusal as refusal:
            return refusal.reply(cors)

    async def _principal(self, head: Head, runner: Runner) -> Principal:
        for authenticator in self.authenticators:
            recognise = partial(authenticator.authenticate, head.headers)
            principal = await runner.sync(recognise) if authenticator.blocking else recognise()
            if principal is not None:
                return principal
        raise Refusal(401, "This endpoint needs a credential.", [("WWW-Authenticate", "Bearer")])


class Admission:
    """A POST that may be read."""

    __slots__ = ("as_events", "cors", "endpoint", "head", "principal", "runner")

    def __init__(
        self,
        endpoint: Endpoint,
        head: Head,
        principal: Principal,
        cors: Headers,
        as_events: bool,
        runner: Runner,
    ) -> None:
        self.endpoint = endpoint
        self.head = head
        self.principal = principal
        self.cors = cors
        self.as_events = as_events
        self.runner = runner

    async def answer(self, body: bytes) -> Reply:
        """The reply to the message in *body*."""
        head = self.head
        try:
            value = decode(body)
            inbound = Inbound(self.endpoint.server, self.principal, self.runner, head.edge, head.headers, value)
            answer = await choose(head.headers, value).serve(inbound)
        except ProtocolError as error:
            return self._reply(error.http_status, encode_error(error.request_id, error))
        return self._reply(answer.status, answer.body)

    def too_large(self) -> Reply:
        """The reply to a body that turned out longer than its Content-Length, or had none."""
        return _too_large().reply(self.cors)

    def _reply(self, status: int, body: bytes) -> Reply:
        if not body:
            return Reply(status, self.cors)
        if self.as_events and status == 200:  # noqa: PLR2004
            # A client that wants nothing but events gets its one message as an event.
            return Reply(
                status,
                (
                    *self.cors,
                    ("Content-Type", EVENTS),
                    ("Cache-Control", "no-store"),
                    ("X-Accel-Buffering", "no"),
                ),
                b"event: message\r\ndata: %b\r\n\r\n" % body,
            )
        return Reply(status, (*self.cors, _JSON_HEADER) if self.cors else _JSON_ONLY, body)


def check_size(content_length: str) -> None:
    """Turn down a body that says it is over ``MAX_BODY_BYTES``; one that does not say is counted as it comes.

    Raises:
        Refusal: 413.
    """
    # The length of the digits first: int() refuses thousands of them with an error of its own.
    if content_length.isdecimal() and (len(content_length) > 18 or int(content_length) > settings.MAX_BODY_BYTES):  # noqa: PLR2004
        raise _too_large()


def _too_large() -> Refusal:
    # The rest of the body stays unread, so the connection is of no further use.
    return Refusal(413, f"The body is larger than {settings.MAX_BODY_BYTES} bytes.", [("Connection", "close")])


def _accepts(headers: Mapping[str, str]) -> bool:
    """Check the media types of a POST; tell whether the client takes events only.

    Real clients send ``Accept: */*``, only JSON, or nothing; the specification's pair is not insisted on.

    Raises:
        Refusal: 415 or 406.
    """
    content_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type != JSON:
        given = content_type[:100] or "none"
        raise Refusal(415, f"Content-Type must be application/json, not {given}.")
    accept = headers.get("accept")
    if accept is None or JSON in accept or "*/*" in accept:
        return False
    types = {each.partition(";")[0].strip().lower() for each in accept.split(",")}
    if types & {JSON, "application/*", ""}:
        return False
    if types & {EVENTS, "text/*"}:
        return True
    raise Refusal(406, "Accept must allow application/json or text/event-stream.")


def _authenticator(given: Any) -> Authenticator:
    loaded = import_string(given) if isinstance(given, str) else given
    return loaded() if isinstance(loaded, type) else loaded  # type: ignore[no-any-return]

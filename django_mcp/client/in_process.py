"""HTTP exchanges with an endpoint in this process and thread."""

import json
from collections.abc import Callable, Mapping
from contextlib import aclosing
from typing import Any, NamedTuple

from django.http import HttpRequest

from django_mcp.auth.base import RequestHead
from django_mcp.auth.protected_resource import path_of
from django_mcp.core.channel import Channel, no_waiting
from django_mcp.core.concurrency import INLINE, run_inline
from django_mcp.core.context import Context
from django_mcp.core.failures import crash_listener, must_propagate
from django_mcp.core.permissions import admits, covers
from django_mcp.core.policies import policy_cache
from django_mcp.core.principal import Principal
from django_mcp.core.request import CallSource
from django_mcp.core.server import MCPServer
from django_mcp.protocol.jsonrpc import Request, decode
from django_mcp.protocol.meta import APPS, APPS_SETTINGS
from django_mcp.revisions.base import MCPResponse, SSEEvent
from django_mcp.transports.authentication import find_caller, insufficient_scope
from django_mcp.transports.base import Refusal
from django_mcp.transports.http import Accepts, AuthenticatedRequest, Endpoint, error_response
from django_mcp.transports.sse import BufferedResponse

HOST = "testserver"

Message = dict[str, Any]
Listen = Callable[[Message], object]
"""Callback that receives each notification as it is sent."""


class Received(NamedTuple):
    """A response.

    Attributes:
        headers: by lower-case name.
        last: id of the last event, if the stream can be resumed after it.
        raised: unexpected exception in the site's code, of which the client only receives an error number.
    """

    status: int
    headers: Mapping[str, str]
    messages: list[Message]
    last: str
    raised: BaseException | None = None


class _ListeningResponse(BufferedResponse):
    def __init__(self, listen: Listen | None) -> None:
        super().__init__(takes_events=True, can_hold=False)
        self._listen = listen

    def send(self, event: SSEEvent) -> None:
        super().send(event)
        if self._listen is not None and event.data and "id" not in (message := decode(event.data)):
            self._listen(message)


def send(
    server: MCPServer,
    principal: Principal | None,
    verb: str,
    headers: Mapping[str, str],
    body: bytes = b"",
    *,
    request: HttpRequest | None = None,
    listen: Listen | None = None,
    waits: bool = False,
) -> Received:
    """Send a request and return the response.

    Args:
        principal: the caller; None to authenticate by the headers.
        verb: HTTP method.
        headers: by lower-case name.
        request: the Django request for tools; None to build it from the headers.
        listen: receives notifications as they are sent.
        waits: True if the call may wait for other processes and threads, for example for an approval or a task.
    """
    policy_cache.expire()  # apply policy changes immediately
    raised: list[BaseException] = []
    outer = crash_listener.get()

    def listen_for_crash(error: BaseException) -> None:
        raised.append(error)
        if outer is not None:
            outer(error)

    waiting, listening = no_waiting.set(not waits), crash_listener.set(listen_for_crash)
    try:
        answer, data = run_inline(
            _serve(Endpoint(server), principal, head_of(server, verb, headers, body, request), body, listen)
        )
    except BaseException as error:
        if must_propagate(error):
            raise
        answer = error_response(error)
        data = answer.body
    finally:
        crash_listener.reset(listening)
        no_waiting.reset(waiting)
    last = raised[-1] if raised else None
    found = {name.lower(): value for name, value in answer.headers}
    if not found.get("content-type", "").startswith("text/event-stream"):
        return Received(answer.status, found, [json.loads(data)] if data else [], "", last)
    return Received(answer.status, found, *_events(data.decode()), last)


async def _serve(
    endpoint: Endpoint, principal: Principal | None, head: RequestHead, body: bytes, listen: Listen | None
) -> tuple[MCPResponse, bytes]:
    admitted = await endpoint.admit(head, INLINE) if principal is None else _admit(endpoint, principal, head)
    if isinstance(admitted, MCPResponse):
        return admitted, admitted.body
    response = _ListeningResponse(listen)
    answer = await admitted.answer(body, response)
    if answer.stream is None and not response.opened:
        return answer, answer.body
    if answer.body:
        response.send(SSEEvent(answer.body))
    if answer.stream is not None:
        async with aclosing(answer.stream) as stream:
            async for event in stream:
                response.send(event)
    return answer._replace(headers=admitted.event_headers), b"".join(response.frames)


def head_of(
    server: MCPServer, verb: str, headers: Mapping[str, str], body: bytes = b"", request: HttpRequest | None = None
) -> RequestHead:
    if request is None:
        given = {"HTTP_" + name.upper().replace("-", "_"): value for name, value in headers.items()}
        kind = headers.get("content-type", "")
        from django.test import RequestFactory  # noqa: PLC0415 - imports unittest, and Jinja if installed

        request = RequestFactory().generic(verb, path_of(server), body, kind, **given)  # type: ignore[arg-type]
    return RequestHead(verb, headers, headers.get("host", HOST), lambda: False, lambda: request)


def caller(server: MCPServer, headers: Mapping[str, str]) -> Principal:
    """Return the caller authenticated by the headers, or raise AssertionError."""
    try:
        return run_inline(find_caller(head_of(server, "GET", headers), server, INLINE))
    except Refusal as refusal:
        msg = f"The endpoint {server.name!r} denied access to this client: HTTP {refusal.status}, {refusal}"
        raise AssertionError(msg) from None


def permission_context(
    server: MCPServer, principal: Principal, request: HttpRequest, method: str = "tools/list", **params: Any
) -> Context:
    """Return a context for permission checks outside of a call, as of a client that shows apps."""
    declared = {"extensions": {APPS: APPS_SETTINGS}}
    source = CallSource(server, principal, INLINE, lambda: request)
    return Context(source, Request(0, method, params), Channel(), capabilities=declared)


def refresh_server(server: MCPServer) -> None:
    """Reload the endpoint's primitives and the policies if they changed, as before each call."""
    if server.refresh is not None:
        server.refresh()
    policy_cache.reload_if_due()


def _admit(endpoint: Endpoint, principal: Principal, head: RequestHead) -> AuthenticatedRequest | MCPResponse:
    server = endpoint.server
    if not admits(server, principal.user):
        return Refusal(401, "This user may not use the endpoint (user_passes_test).").answer()
    if not covers(principal.scopes, server.scopes):
        return insufficient_scope(server, principal, server.scopes).answer()
    return AuthenticatedRequest(endpoint, head, principal, (), Accepts(json=True, events=True), INLINE)


def _events(text: str) -> tuple[list[Message], str]:
    messages, last = [], ""
    for block in text.replace("\r\n", "\n").split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line and not line.startswith(":"))
        last = fields.get("id", last)
        if data := fields.get("data"):
            messages.append(json.loads(data))
    return messages, last

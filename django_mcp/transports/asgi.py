"""The ASGI application ``mcp_application``, which serves endpoints beside Django, and its graceful shutdown.

It bypasses Django's request handler and middleware, which would take ten times as long as the rest; a Django request is
built only when needed.

daphne cancels applications and cuts connections when it stops; other servers wait.
"""

import asyncio
import io
import sys
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, MutableMapping
from functools import lru_cache, partial
from typing import Any

from django.core.handlers.asgi import ASGIRequest

from django_mcp.auth.base import RequestHead, RequestHeaders
from django_mcp.auth.protected_resource import path_of
from django_mcp.conf import settings, site_settings
from django_mcp.core.concurrency import shared_pool
from django_mcp.core.request import sent_host
from django_mcp.core.server import servers
from django_mcp.core.signals import server_stopped
from django_mcp.protocol.headers import METHOD, NAME, SESSION, VERSION
from django_mcp.pubsub.follower import end_streams
from django_mcp.revisions.base import MCPResponse
from django_mcp.transports.http import JSON_ONLY, Endpoint, http_sse_endpoints, keep_script_prefix
from django_mcp.transports.sse import LiveResponse

GRACE_SECONDS = 5.0
"""Seconds for calls to finish after daphne was stopped; Docker kills the process after ten."""
FLUSH_SECONDS = 0.1
"""Seconds for the last writes, and for cancelled calls to report."""


class GracefulShutdown:
    """Graceful shutdown under daphne.

    Attributes:
        is_needed: True if the server is daphne; None before the first request.
    """

    def __init__(self) -> None:
        self.is_needed: bool | None = None
        self._stops = False
        self._serving: set[asyncio.Task[None]] = set()

    def detect(self) -> bool:
        if self.is_needed is None:
            reactor: Any = sys.modules.get("twisted.internet.reactor")
            self.is_needed = bool(getattr(reactor, "running", False))
            if self.is_needed:
                reactor.addSystemEventTrigger("before", "shutdown", self._stop)
        return self.is_needed

    async def serve(self, serving: Coroutine[Any, Any, None]) -> None:
        """Serve a connection to its end unless its client disconnects."""
        # A task of its own, which may outlive this coroutine, and a set that keeps it: an event loop keeps weak
        # references only.
        task = asyncio.create_task(serving)
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        try:
            # daphne cancels all connections when it stops. The shield gives their calls a few more seconds.
            await asyncio.shield(task)
        except asyncio.CancelledError:
            if not self._stops:
                task.cancel()
                # The call uses the connection, so it must end first.
                await asyncio.wait([task])
            raise

    def _stop(self) -> object:
        self._stops = True
        end_streams()
        # Loaded by daphne; importing it would make it a dependency.
        deferred: Any = sys.modules["twisted.internet.defer"]
        return deferred.Deferred.fromFuture(asyncio.ensure_future(self._finish()))

    async def _finish(self) -> None:
        if self._serving:
            await asyncio.wait(self._serving, timeout=GRACE_SECONDS)
        # A server that waits for longer than its own limit is killed, and then no stream gets its end.
        for task in self._serving:
            task.cancel()
        await asyncio.sleep(FLUSH_SECONDS)


Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
# Untyped, because each ASGI package has its own types for the three arguments.
Application = Callable[[Any, Any, Any], Awaitable[None]]


class MCPApplication:
    """Serves the endpoints and passes everything else to *django_application*.

    URLs are those under which the URLconf includes ``django_mcp.urls``, else the servers' own paths.
    """

    def __init__(self, django_application: Application) -> None:
        self.django_application = django_application
        self._endpoints: dict[str, Endpoint] = {}
        self._shutdown = GracefulShutdown()
        for server in servers():
            path = path_of(server)
            for suffix, endpoint in {**http_sse_endpoints(server), "": Endpoint(server)}.items():
                for prefix in {path, f"/{server.path}"}:  # with and without FORCE_SCRIPT_NAME, which proxies may strip
                    self._endpoints[prefix + suffix] = self._endpoints[prefix + suffix + "/"] = endpoint

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            path = scope["path"]
            if root := scope.get("root_path"):
                path = path.removeprefix(root)
            endpoint = self._endpoints.get(path)
            if endpoint is not None:
                if below := site_settings.FORCE_SCRIPT_NAME or root:
                    keep_script_prefix(below)
                serving = self._serve(endpoint, scope, receive, send)
                if self._shutdown.is_needed is not False and self._shutdown.detect():
                    serving = self._shutdown.serve(serving)
                await serving
                return
        elif scope["type"] == "lifespan":
            await self._serve_lifespan(scope, receive, send)
            return
        await self.django_application(scope, receive, send)

    async def _serve_lifespan(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Django's application does not support lifespan, but other applications may.
        begun = answered = False

        async def listening() -> MutableMapping[str, Any]:
            nonlocal begun
            message = await receive()
            begun = True
            if message["type"] == "lifespan.shutdown":
                await shared_pool().sync(partial(server_stopped.send_robust, sender=None))
            return message

        async def answering(message: MutableMapping[str, Any]) -> None:
            nonlocal answered
            answered = True
            await send(message)

        try:
            await self.django_application(scope, listening, answering)
        except Exception:
            # An application without lifespan support raises before it answers.
            if answered:
                raise
        if answered:
            return
        if not begun:
            await listening()
        await send({"type": "lifespan.startup.complete"})
        await listening()
        await send({"type": "lifespan.shutdown.complete"})

    async def _serve(self, endpoint: Endpoint, scope: Scope, receive: Receive, send: Send) -> None:
        headers = read_headers(scope["headers"])
        get_django_request = DjangoRequestFactory(scope, headers)
        query = query.decode("latin-1") if (query := scope.get("query_string")) else ""
        host = headers.get("host")
        if host is None or site_settings.USE_X_FORWARDED_HOST:
            host = host_of(scope, headers)
        head = RequestHead(scope["method"], headers, host, get_django_request.is_secure, get_django_request, query)
        admitted = await endpoint.admit(head, shared_pool())
        if isinstance(admitted, MCPResponse):
            await _send(send, admitted)
            return
        first = await receive()
        body = first.get("body", b"")  # usually the whole body
        if first["type"] != "http.request" or first.get("more_body") or len(body) > settings.MAX_BODY_BYTES:
            body = await read_body(receive, first, settings.MAX_BODY_BYTES)
            if body is None:
                return
            if isinstance(body, TooLarge):
                await _send(send, admitted.too_large())
                return
        response = LiveResponse(receive, send, takes_events=admitted.accepts.events, headers=admitted.cors)
        try:
            answer = await admitted.answer(body, response)
        except BaseException:
            response.abandon()  # a call in a session goes on, and must not write where nothing listens any more
            raise
        finally:
            response.answering.discard(response)
            if response.gone is not None or response.opened:
                response.unwatch()
        if response.opened or answer.stream is not None:
            held = await response.finish(answer)
            if held is not None:
                # Free the memory of the request for the life of the stream.
                del headers, get_django_request, head, admitted, body, response, answer
                await held.hold()
        else:
            response.is_done = True  # a task that a tool left may speak later
            await _send(send, answer)


class DjangoRequestFactory:
    """Access to the Django request, which is slow to build."""

    __slots__ = ("_headers", "_scope")

    def __init__(self, scope: Scope, headers: Mapping[str, str]) -> None:
        self._scope = scope
        self._headers = headers

    def __call__(self) -> ASGIRequest:
        return ASGIRequest(self._scope, io.BytesIO())

    def get(self, name: str) -> str | None:
        # Calls need only the address and headers of request.META.
        if name == "REMOTE_ADDR":
            client = self._scope.get("client")
            return None if client is None else client[0]
        return self._headers.get(header_of(name))

    def is_secure(self) -> bool:
        return is_secure(self._scope, self._headers)


_NAMES = {
    name.encode(): name
    for name in (
        "host",
        "user-agent",
        "accept",
        "accept-encoding",
        "connection",
        "content-type",
        "content-length",
        "authorization",
        VERSION,
        METHOD,
        NAME,
        SESSION,
    )
}
"""Common headers, which are not decoded for each request."""


def read_headers(raw: Collection[tuple[bytes, bytes]]) -> RequestHeaders:
    """Return headers by lower-case name; repeated ones are joined by commas."""
    headers = RequestHeaders(
        {_NAMES.get(name) or name.decode("latin-1"): value.decode("latin-1") for name, value in raw}
    )
    if len(headers) < len(raw):  # seldom
        headers.clear()
        for name, value in raw:
            key, text = name.decode("latin-1"), value.decode("latin-1")
            headers[key] = f"{headers[key]}, {text}" if key in headers else text
    return headers


@lru_cache(64)
def header_of(variable: str) -> str:
    """Return the lower-case name of a header by its key in ``request.META``."""
    return variable.removeprefix("HTTP_").replace("_", "-").lower()


def host_of(scope: Scope, headers: Mapping[str, str]) -> str:
    sent = {"HTTP_X_FORWARDED_HOST": headers.get("x-forwarded-host"), "HTTP_HOST": headers.get("host")}
    if (host := sent_host(sent)) is not None:
        return host
    name, port = scope.get("server") or ("", None)
    return f"{name}:{port}" if port else str(name)


def is_secure(scope: Scope, headers: Mapping[str, str]) -> bool:
    if (told_by := site_settings.SECURE_PROXY_SSL_HEADER) is not None:
        name, expected = told_by
        value = headers.get(header_of(name))
        if value is not None:
            return value.partition(",")[0].strip() == str(expected)
    return scope.get("scheme") == "https"


class TooLarge:
    """Returned for a body above the limit."""


async def read_body(receive: Receive, message: MutableMapping[str, Any], limit: int) -> "bytes | TooLarge | None":
    """Return the body, ``TooLarge`` above *limit* bytes, or None if the client disconnected."""
    chunks: list[bytes] = []
    length = 0
    while message["type"] == "http.request":
        chunks.append(message.get("body", b""))
        length += len(chunks[-1])
        if length > limit:
            return TooLarge()
        if not message.get("more_body"):
            return b"".join(chunks)
        message = await receive()
    return None


@lru_cache(maxsize=256)
def _encoded(headers: tuple[tuple[str, str], ...]) -> tuple[tuple[bytes, bytes], ...]:
    return tuple((name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers)


_JSON_ONLY = _encoded(JSON_ONLY)
"""The headers of most responses."""


async def _send(send: Send, answer: MCPResponse) -> None:
    encoded = _JSON_ONLY if answer.headers is JSON_ONLY else _encoded(tuple(answer.headers))
    headers = (*encoded, (b"content-length", b"%d" % len(answer.body)))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})

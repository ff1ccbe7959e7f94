"""The ASGI application beside Django's, and letting running calls finish at shutdown.

daphne cancels its applications the moment it is told to stop, and cuts their connections. Other servers wait first.

Passing through Django's request handler and its middleware would cost ten times the rest together, so nothing
here does; a Django request is built only when a tool asks for one.
"""

import asyncio
import io
import sys
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, MutableMapping
from functools import lru_cache, partial
from typing import Any

from django.core.handlers.asgi import ASGIRequest

from django_mcp.auth.base import RequestHead
from django_mcp.auth.protected_resource import path_of
from django_mcp.conf import settings, site_settings
from django_mcp.core.concurrency import shared_pool
from django_mcp.core.server import servers
from django_mcp.core.signals import server_stopped
from django_mcp.protocol.headers import METHOD, NAME, SESSION, VERSION
from django_mcp.pubsub.follower import end_streams
from django_mcp.revisions.base import MCPResponse
from django_mcp.transports.http import JSON_ONLY, Endpoint, http_sse_endpoints, keep_script_prefix
from django_mcp.transports.sse import LiveResponse

GRACE_SECONDS = 5.0
"""How long calls go on after daphne was told to stop; Docker kills a process ten seconds after it told it."""
PARTING_SECONDS = 0.1
"""For what was written last to leave before connections are cut, and for calls that are cut off to say so."""


class Patience:
    """That of one application.

    Attributes:
        is_needed: whether the server is daphne; None until it serves, for only then it can be told.
    """

    def __init__(self) -> None:
        self.is_needed: bool | None = None
        self._stops = False
        self._serving: set[asyncio.Task[None]] = set()

    def look(self) -> bool:
        """Find out which server this is, where that is not known yet; under daphne, have it wait when it stops."""
        if self.is_needed is None:
            reactor: Any = sys.modules.get("twisted.internet.reactor")
            self.is_needed = bool(getattr(reactor, "running", False))
            if self.is_needed:
                reactor.addSystemEventTrigger("before", "shutdown", self._stop)
        return self.is_needed

    async def serve(self, serving: Coroutine[Any, Any, None]) -> None:
        """Serve a connection; to its end, if it is not its client that has gone."""
        task = asyncio.create_task(serving)
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            if not self._stops:
                task.cancel()
                await asyncio.wait([task])
            raise

    def _stop(self) -> object:
        self._stops = True
        end_streams()
        # Twisted comes with daphne, which has loaded it; nothing here needs it otherwise, so it is not imported.
        deferred: Any = sys.modules["twisted.internet.defer"]
        return deferred.Deferred.fromFuture(asyncio.ensure_future(self._finish()))

    async def _finish(self) -> None:
        if self._serving:
            await asyncio.wait(self._serving, timeout=GRACE_SECONDS)
        for task in self._serving:
            task.cancel()
        await asyncio.sleep(PARTING_SECONDS)


Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
# Loose on purpose: each package that makes ASGI applications has types of its own for the three.
Application = Callable[[Any, Any, Any], Awaitable[None]]


class MCPApplication:
    """Serves the endpoints' URLs, and hands everything else to *django_application*.

    URLs are those under which ``django_mcp.urls`` is included in the URLconf, or where it is not included, the
    servers' own paths.
    """

    def __init__(self, django_application: Application) -> None:
        self.django_application = django_application
        self._endpoints: dict[str, Endpoint] = {}
        self._patience = Patience()
        for server in servers():
            path = path_of(server)
            for suffix, endpoint in {**http_sse_endpoints(server), "": Endpoint(server)}.items():
                for each in {path, f"/{server.path}"}:  # a proxy may take FORCE_SCRIPT_NAME away, or leave it there
                    self._endpoints[each + suffix] = self._endpoints[each + suffix + "/"] = endpoint

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] == "http":
            path = scope["path"]
            if root := scope.get("root_path"):
                path = path.removeprefix(root)
            endpoint = self._endpoints.get(path)
            if endpoint is not None:
                if below := site_settings.FORCE_SCRIPT_NAME or root:
                    keep_script_prefix(below)
                serving = self._serve(endpoint, scope, receive, send)
                if self._patience.is_needed is not False and self._patience.look():
                    serving = self._patience.serve(serving)
                await serving
                return
        elif scope["type"] == "lifespan":
            await self._live(scope, receive, send)
            return
        await self.django_application(scope, receive, send)

    async def _live(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the ASGI lifespan protocol, which Django has not and an application around it may have."""
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
        edge = Edge(scope)
        query = query.decode("latin-1") if (query := scope.get("query_string")) else ""
        host = headers.get("host")
        if host is None or site_settings.USE_X_FORWARDED_HOST:
            host = host_of(scope, headers)
        head = RequestHead(scope["method"], headers, host, edge.is_secure, edge, query)
        admitted = await endpoint.admit(head, shared_pool())
        if isinstance(admitted, MCPResponse):
            await _send(send, admitted)
            return
        first = await receive()
        body = first.get("body", b"")  # most come in one piece
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
        finally:
            response.answering.discard(response)
            if response.overdue is not None or response.opened:
                response.unwatch()
        if response.opened or answer.stream is not None:
            held = await response.finish(answer)
            if held is not None:
                # Of what it took to open the stream nothing is kept for as long as it is open.
                del headers, edge, head, admitted, body, response, answer
                await held.hold()
        else:
            await _send(send, answer)


class Edge:
    """Gives the Django request, which takes longer to make than most calls."""

    __slots__ = ("_scope",)

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    def __call__(self) -> ASGIRequest:
        """The request, without its body."""
        return ASGIRequest(self._scope, io.BytesIO())

    def get(self, name: str) -> str | None:
        """What is wanted of ``request.META`` at every call: the client's address and headers, by the names of CGI."""
        if name == "REMOTE_ADDR":
            client = self._scope.get("client")
            return None if client is None else client[0]
        return read_headers(self._scope["headers"]).get(name.removeprefix("HTTP_").replace("_", "-").lower())

    def is_secure(self) -> bool:
        """Whether the client spoke https."""
        return is_secure(self._scope, read_headers(self._scope["headers"]))


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
"""Those of most requests, which are not decoded each time."""


def read_headers(raw: Collection[tuple[bytes, bytes]]) -> dict[str, str]:
    """Headers by name, which ASGI has in lower case. A second one of the same name is joined to the first."""
    headers = {_NAMES.get(name) or name.decode("latin-1"): value.decode("latin-1") for name, value in raw}
    if len(headers) == len(raw):
        return headers
    joined: dict[str, str] = {}
    for name, value in raw:
        key, text = name.decode("latin-1"), value.decode("latin-1")
        joined[key] = f"{joined[key]}, {text}" if key in joined else text
    return joined


def host_of(scope: Scope, headers: Mapping[str, str]) -> str:
    """The host and port the client sent the request to, by the rules of ``HttpRequest.get_host``."""
    if site_settings.USE_X_FORWARDED_HOST and (forwarded := headers.get("x-forwarded-host")):
        return forwarded
    if (host := headers.get("host")) is not None:
        return host
    name, port = scope.get("server") or ("", None)
    return f"{name}:{port}" if port else str(name)


def is_secure(scope: Scope, headers: Mapping[str, str]) -> bool:
    """Whether the client spoke https, by the rules of ``HttpRequest.scheme``."""
    if (told_by := site_settings.SECURE_PROXY_SSL_HEADER) is not None:
        name, expected = told_by
        value = headers.get(name.removeprefix("HTTP_").replace("_", "-").lower())
        if value is not None:
            return value.partition(",")[0].strip() == str(expected)
    return scope.get("scheme") == "https"


class TooLarge:
    """Stands for a body that was not read to its end."""


async def read_body(receive: Receive, message: MutableMapping[str, Any], limit: int) -> "bytes | TooLarge | None":
    """The whole body, or word that it is longer than *limit* bytes; None where the client has gone.

    Args:
        receive: of the application.
        message: the first that it gave.
        limit: in bytes.
    """
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
"""Those of most answers."""


async def _send(send: Send, answer: MCPResponse) -> None:
    encoded = _JSON_ONLY if answer.headers is JSON_ONLY else _encoded(tuple(answer.headers))
    headers = (*encoded, (b"content-length", b"%d" % len(answer.body)))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})

"""The compatible edge: a Django view, the same under WSGI and ASGI.

It is synchronous: under WSGI no event loop is needed, and under ASGI Django gives it a thread.
"""

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from django.contrib.auth.decorators import login_not_required
from django.core.exceptions import DisallowedHost
from django.core.handlers.asgi import ASGIRequest
from django.db import connections, transaction
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.request import HttpHeaders
from django.http.response import HttpResponseBase
from django.urls import get_script_prefix

from django_mcp.auth.base import RequestHead
from django_mcp.conf import settings, site_settings
from django_mcp.core.concurrency import INLINE, Runner, run_inline, shared_pool
from django_mcp.core.request import set_user
from django_mcp.core.server import MCPServer
from django_mcp.revisions.base import MCPResponse
from django_mcp.transports.http import Endpoint, keep_script_prefix, length_required
from django_mcp.transports.sse import BufferedResponse

MAX_NAMES = 256
"""Keys of ``request.META`` that are remembered."""
View = TypeVar("View", bound=Callable[..., Any])


def mcp_view(server: MCPServer) -> Callable[[HttpRequest], HttpResponseBase]:
    """The view of a server's endpoint.

    It is exempt from three things that are right for pages and wrong here: CSRF protection, for no cookie is
    looked at (a foreign Origin is refused instead); ``LoginRequiredMiddleware``, whose redirect to a form a
    client cannot follow (the endpoint has authenticators of its own); and ``ATOMIC_REQUESTS`` on every
    database, for each tool has its own transaction and what is logged of a failed one must stay.
    """
    endpoint = Endpoint(server)

    def view(request: HttpRequest) -> HttpResponseBase:
        return run_inline(_serve(endpoint, request, INLINE))

    return _exempt(view)


def event_loop_view(endpoint: Endpoint) -> Callable[[HttpRequest], Coroutine[Any, Any, HttpResponseBase]]:
    """The view of an endpoint for which there has to be an event loop; it is exempt from the same."""

    async def view(request: HttpRequest) -> HttpResponseBase:
        keep_script_prefix(get_script_prefix())
        return await _serve(endpoint, request, shared_pool())

    return _exempt(view)


def _exempt(view: View) -> View:
    for alias in connections:
        transaction.non_atomic_requests(using=alias)(view)
    # What csrf_exempt sets, on the function itself: a wrapper would be one more call for each request.
    view.csrf_exempt = True  # type: ignore[attr-defined]
    return login_not_required(view)


async def _serve(endpoint: Endpoint, request: HttpRequest, runner: Runner) -> HttpResponseBase:
    headers = {name: value for key, value in request.META.items() if (name := _HEADERS[key])}
    query = request.META.get("QUERY_STRING", "")
    head = RequestHead(str(request.method), headers, _host(request), request.is_secure, lambda: request, query)
    admitted = await endpoint.admit(head, runner)
    if isinstance(admitted, MCPResponse):
        return _response(admitted)
    # Before anything runs: middleware of the site may have kept this request to see whose it is.
    set_user(request, admitted.principal.user)
    source: Any = request
    if "chunked" in headers.get("transfer-encoding", "").lower() and not isinstance(request, ASGIRequest):
        # Django reads as many bytes as Content-Length says: none. Servers that end the body themselves say so.
        if not request.META.get("wsgi.input_terminated"):
            return _response(length_required().answer(admitted.cors))
        source = request.META["wsgi.input"]
    body = source.read(settings.MAX_BODY_BYTES + 1)
    if len(body) > settings.MAX_BODY_BYTES:
        return _response(admitted.too_large())
    # Only under ASGI can Django go on with a response after the view has returned, without keeping its thread.
    response = BufferedResponse(takes_events=admitted.accepts.events, can_hold=isinstance(request, ASGIRequest))
    answer = await admitted.answer(body, response)
    if answer.stream is not None:
        return StreamingHttpResponse(response.body(answer), headers=dict(answer.headers))
    if response.opened:
        frames = [part async for part in response.body(answer)]
        answer = MCPResponse(200, b"".join(frames), admitted.event_headers)
    return _response(answer)


class _Headers(dict[str, str]):
    """The header, in lower case, that a key of ``request.META`` stands for; empty for none (RFC 3875, section 4.1)."""

    def __missing__(self, key: str) -> str:
        name = (HttpHeaders.parse_header_name(key) or "").lower()
        if len(self) < MAX_NAMES:  # clients think of names of their own
            self[key] = name
        return name


_HEADERS = _Headers()


def _host(request: HttpRequest) -> str:
    """Where it was sent to, by the rules of ``get_host``. It is the endpoint that refuses a foreign one."""
    meta = request.META
    if site_settings.USE_X_FORWARDED_HOST and (forwarded := meta.get("HTTP_X_FORWARDED_HOST")) is not None:
        return str(forwarded)
    if (host := meta.get("HTTP_HOST")) is not None:
        return str(host)
    try:
        return request.get_host()
    except DisallowedHost:
        return ""


def _response(answer: MCPResponse) -> HttpResponse:
    headers = dict(answer.headers)
    headers.pop("Connection", None)  # it is hop-by-hop: not an application's to send under WSGI (PEP 3333)
    response = HttpResponse(answer.body, headers.pop("Content-Type", None), answer.status)
    response.headers["Content-Length"] = str(len(answer.body))
    for name, value in headers.items():
        response.headers[name] = value
    if not answer.body:
        del response["Content-Type"]
    return response

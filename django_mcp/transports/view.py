"""The endpoint as a Django view, under WSGI and ASGI.

It is synchronous: WSGI has no event loop, and under ASGI Django runs it in a thread.
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

from django_mcp.auth.base import RequestHead, RequestHeaders
from django_mcp.conf import settings
from django_mcp.core.concurrency import INLINE, Runner, run_inline, shared_pool
from django_mcp.core.failures import must_propagate
from django_mcp.core.request import sent_host, set_user
from django_mcp.core.server import MCPServer
from django_mcp.revisions.base import MCPResponse
from django_mcp.transports.http import Endpoint, error_response, keep_script_prefix, length_required
from django_mcp.transports.sse import BufferedResponse

MAX_NAMES = 256
"""Maximum number of cached keys of ``request.META``."""
View = TypeVar("View", bound=Callable[..., Any])


def mcp_view(server: MCPServer) -> Callable[[HttpRequest], HttpResponseBase]:
    """Return the view of a server's endpoint.

    It is exempt from CSRF protection, because only ``SessionAuthentication`` reads cookies, and it checks the token
    itself; from ``LoginRequiredMiddleware``, because clients cannot follow a redirect to a form; and from
    ``ATOMIC_REQUESTS``, because each tool has its own transaction and the log of a failed one must persist.
    """
    endpoint = Endpoint(server)

    def view(request: HttpRequest) -> HttpResponseBase:
        try:
            return run_inline(_serve(endpoint, request, INLINE))
        except BaseException as error:
            if must_propagate(error):
                raise
            return _response(error_response(error))

    return _exempt(view)


def event_loop_view(endpoint: Endpoint) -> Callable[[HttpRequest], Coroutine[Any, Any, HttpResponseBase]]:
    """Return the view of an endpoint that needs an event loop, with the same exemptions."""

    async def view(request: HttpRequest) -> HttpResponseBase:
        keep_script_prefix(get_script_prefix())
        try:
            return await _serve(endpoint, request, shared_pool())
        except BaseException as error:
            if must_propagate(error):
                raise
            return _response(error_response(error))

    return _exempt(view)


def _exempt(view: View) -> View:
    for alias in connections:
        transaction.non_atomic_requests(using=alias)(view)
    # As csrf_exempt does, without its wrapper, which costs a call per request.
    view.csrf_exempt = True  # type: ignore[attr-defined]
    return login_not_required(view)


async def _serve(endpoint: Endpoint, request: HttpRequest, runner: Runner) -> HttpResponseBase:
    headers = RequestHeaders({name: value for key, value in request.META.items() if (name := _HEADERS[key])})
    query = request.META.get("QUERY_STRING", "")
    head = RequestHead(str(request.method), headers, _host(request), request.is_secure, lambda: request, query)
    admitted = await endpoint.admit(head, runner)
    if isinstance(admitted, MCPResponse):
        return _response(admitted)
    # Set first, because middleware may hold this request to read its user.
    set_user(request, admitted.principal.user)
    source: Any = request
    if "chunked" in headers.get("transfer-encoding", "").lower() and not isinstance(request, ASGIRequest):
        # Django reads no body without Content-Length; servers that delimit the body set input_terminated.
        if not request.META.get("wsgi.input_terminated"):
            return _response(length_required().answer(admitted.cors))
        source = request.META["wsgi.input"]
    # One byte more than allowed tells a body that is too large from one that just fits.
    body = source.read(settings.MAX_BODY_BYTES + 1)
    if len(body) > settings.MAX_BODY_BYTES:
        return _response(admitted.too_large())
    # Only under ASGI can Django stream a response without occupying the view's thread.
    response = BufferedResponse(takes_events=admitted.accepts.events, can_hold=isinstance(request, ASGIRequest))
    answer = await admitted.answer(body, response)
    if answer.stream is not None:
        return StreamingHttpResponse(response.body(answer), headers=dict(answer.headers))
    if response.opened:
        frames = [part async for part in response.body(answer)]
        answer = MCPResponse(200, b"".join(frames), admitted.event_headers)
    return _response(answer)


class _Headers(dict[str, str]):
    """Lower-case header names by key of ``request.META``, cached; empty for other keys (RFC 3875, section 4.1)."""

    def __missing__(self, key: str) -> str:
        name = (HttpHeaders.parse_header_name(key) or "").lower()
        if len(self) < MAX_NAMES:  # clients choose the names
            self[key] = name
        return name


_HEADERS = _Headers()


def _host(request: HttpRequest) -> str:
    if (host := sent_host(request.META)) is not None:
        return host
    try:
        return request.get_host()
    except DisallowedHost:
        return ""


def _response(answer: MCPResponse) -> HttpResponse:
    headers = dict(answer.headers)
    headers.pop("Connection", None)  # hop-by-hop headers are forbidden under WSGI (PEP 3333)
    response = HttpResponse(answer.body, headers.pop("Content-Type", None), answer.status)
    response.headers["Content-Length"] = str(len(answer.body))
    for name, value in headers.items():
        response.headers[name] = value
    if not answer.body:
        del response["Content-Type"]
    return response

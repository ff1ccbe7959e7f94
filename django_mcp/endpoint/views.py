"""The compatible edge: a Django view, the same under WSGI and ASGI.

It is synchronous: under WSGI no event loop is needed, and under ASGI Django gives it a thread.
"""

from collections.abc import Callable

from django.contrib.auth.decorators import login_not_required
from django.core.exceptions import DisallowedHost
from django.db import connections, transaction
from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt

from django_mcp.conf import settings
from django_mcp.core.concurrency import INLINE, run_inline
from django_mcp.core.registry import MCPServer
from django_mcp.endpoint.gate import Endpoint
from django_mcp.endpoint.messages import Head, Reply


def mcp_view(server: MCPServer) -> Callable[[HttpRequest], HttpResponse]:
    """The view of a server's endpoint.

    It is exempt from three things that are right for pages and wrong here: CSRF protection, for no cookie is
    looked at (a foreign Origin is refused instead); ``LoginRequiredMiddleware``, whose redirect to a form a
    client cannot follow (the endpoint has authenticators of its own); and ``ATOMIC_REQUESTS`` on every
    database, for each tool has its own transaction and what is logged of a failed one must stay.
    """
    endpoint = Endpoint(server)

    def view(request: HttpRequest) -> HttpResponse:
        return _response(run_inline(_serve(endpoint, request)))

    for alias in connections:
        transaction.non_atomic_requests(using=alias)(view)
    return csrf_exempt(login_not_required(view))


async def _serve(endpoint: Endpoint, request: HttpRequest) -> Reply:
    headers = {name.lower(): value for name, value in request.headers.items()}
    head = Head(str(request.method), headers, _host(request), request.is_secure, lambda: request)
    admitted = await endpoint.admit(head, INLINE)
    if isinstance(admitted, Reply):
        return admitted
    body = request.read(settings.MAX_BODY_BYTES + 1)
    if len(body) > settings.MAX_BODY_BYTES:
        return admitted.too_large()
    return await admitted.answer(body)


def _host(request: HttpRequest) -> str:
    try:
        return request.get_host()
    except DisallowedHost:  # the endpoint refuses it too, in words a client understands
        return str(request.META.get("HTTP_HOST", ""))


def _response(reply: Reply) -> HttpResponse:
    response = HttpResponse(reply.body, status=reply.status, headers={"Content-Length": str(len(reply.body))})
    if not reply.body:
        del response["Content-Type"]
    for name, value in reply.headers:
        if name != "Connection":  # hop-by-hop: not an application's to send under WSGI (PEP 3333)
            response[name] = value
    return response

"""Cross-origin reading of Django views, by the one list of origins there is: ``DJANGO_MCP["ALLOWED_ORIGINS"]``.

The endpoint turns a foreign origin down (``endpoint/origins.py``). A view wrapped here serves it all the same, and
only lets no page read the answer: a token endpoint looks at no cookie, so its caller has nothing it was not given.
"""

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

from django.core.exceptions import DisallowedHost
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.cache import patch_vary_headers

from django_mcp.endpoint.origins import cors_headers, is_our_origin, preflight

View = Callable[..., HttpResponseBase]


def with_cors(view: View, *, methods: Iterable[str]) -> View:
    """Wrap a view so that pages of allowed origins may call it and read the answer, errors included.

    Marks on the view, like ``csrf_exempt`` and ``login_not_required``, stay.

    Args:
        view: a synchronous view, called with the request first.
        methods: what it serves, like ``["POST"]``. ``OPTIONS`` is answered here: 204, before the view is asked.
    """
    served = (*methods, "OPTIONS")

    @wraps(view)
    def wrapped(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        response: HttpResponseBase
        if request.method == "OPTIONS":
            response = HttpResponse(status=204, headers={"Allow": ", ".join(served)})
            del response["Content-Type"]
        else:
            response = view(request, *args, **kwargs)
        add_cors(request, response, served)
        return response

    return wrapped


def add_cors(request: HttpRequest, response: HttpResponseBase, methods: Iterable[str]) -> None:
    """Put the CORS headers on *response*, if its request comes from a page of an allowed origin."""
    patch_vary_headers(response, ["Origin"])
    origin = request.headers.get("Origin")
    if origin is None or not is_our_origin(origin, _host(request), secure=request.is_secure()):
        return
    added = [*cors_headers(origin)]
    if request.method == "OPTIONS":
        added += preflight({name.lower(): value for name, value in request.headers.items()}, methods)
    for name, value in added:
        if name != "Vary":
            response[name] = value


def _host(request: HttpRequest) -> str:
    try:
        return request.get_host()
    except DisallowedHost:
        return ""

"""Checks of Host and Origin, CORS headers, and refusals at the level of HTTP.

DNS rebinding lets an attacker's page send requests to a local server under the attacker's host name. So the Host must
be in ``ALLOWED_HOSTS``, and the Origin, which only browsers send, must be allowed (2026-07-28, Streamable HTTP,
Security & Endpoint).

The endpoint refuses a foreign origin. A view wrapped by ``with_cors`` serves it without CORS headers: a token endpoint
ignores cookies, so such a request has no authority of its own.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, wraps
from typing import Any

from django.conf import settings as django_settings
from django.core.exceptions import DisallowedHost
from django.core.signals import setting_changed
from django.http import HttpRequest, HttpResponse
from django.http.request import split_domain_port, validate_host
from django.http.response import HttpResponseBase
from django.utils.cache import patch_vary_headers

from django_mcp.auth.base import RequestHead
from django_mcp.auth.session import is_own_origin
from django_mcp.conf import settings
from django_mcp.core.principal import Principal
from django_mcp.protocol.errors import InvalidRequest
from django_mcp.protocol.jsonrpc import encode_error
from django_mcp.revisions.base import MCPResponse

Headers = Sequence[tuple[str, str]]


class Refusal(Exception):
    """A request refused before its message was read.

    Args:
        status: the HTTP status.
        message: what is wrong, then what to do.
        headers: additional headers.
        body: by default a JSON-RPC error without an id, for clients that only read bodies.

    Attributes:
        is_of_caller: it concerns the caller, so it belongs in the request log.
        principal: the caller, if known.
        about: the message of a batch that was refused, for the request log; None if it is the whole body.
    """

    is_of_caller = False
    principal: Principal | None = None
    about: Any = None

    def __init__(self, status: int, message: str, headers: Headers = (), body: bytes | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers
        self.body = encode_error(None, InvalidRequest(message)) if body is None else body

    def answer(self, headers: Headers = ()) -> MCPResponse:
        kind = ("Content-Type", "application/json")
        return MCPResponse(self.status, self.body, (*headers, *self.headers, kind))


MAX_HOST_LENGTH = 300
"""Maximum length of a host or origin (RFC 1035, section 2.3.4), which also bounds the caches."""
_LOOPBACK = [".localhost", "127.0.0.1", "[::1]"]

_ALLOW_HEADERS = (
    "Authorization, X-API-Key, Content-Type, Accept, MCP-Protocol-Version, Mcp-Method, Mcp-Name, "
    "Mcp-Session-Id, Last-Event-ID, Idempotency-Key"
)


@lru_cache(maxsize=1024)
def is_our_host(host: str) -> bool:
    allowed = django_settings.ALLOWED_HOSTS
    if django_settings.DEBUG and not allowed:
        allowed = _LOOPBACK
    domain, _ = split_domain_port(host)
    return bool(domain) and validate_host(domain, allowed)


@lru_cache(maxsize=1024)
def is_our_origin(origin: str, host: str, *, secure: bool) -> bool:
    return origin in settings.ALLOWED_ORIGINS or is_own_origin(origin, host, secure=secure)


def unknown_host(host: str) -> Refusal:
    return Refusal(400, f"Unknown host {host[:100]!r}. The site's administrator can add it to ALLOWED_HOSTS.")


def check_origin(head: RequestHead) -> Headers:
    """Return the CORS headers for an allowed Origin; none without Origin.

    Raises:
        Refusal: 403 for a foreign Origin, including ``null``.
    """
    origin = head.headers.get("origin")
    if origin is None:
        return ()
    if len(origin) > MAX_HOST_LENGTH or not is_our_origin(origin, head.host, secure=head.secure()):
        message = (
            f"Origin {origin[:100]!r} is not allowed. The site's administrator can add it to "
            "DJANGO_MCP['ALLOWED_ORIGINS']."
        )
        raise Refusal(403, message)
    return cors_headers(origin)


def cors_headers(origin: str) -> Headers:
    """Return the headers that let pages of *origin* read a response, without credentials."""
    return (
        ("Access-Control-Allow-Origin", origin),
        ("Access-Control-Expose-Headers", "WWW-Authenticate, Mcp-Session-Id, Retry-After"),
        ("Vary", "Origin"),
    )


def preflight(headers: Mapping[str, str], methods: Iterable[str] = ("GET", "POST", "DELETE", "OPTIONS")) -> Headers:
    """Return the headers for a CORS preflight request (Fetch standard).

    ``X-CSRFToken`` is left out: session cookies are for the site's own pages, which send no preflight.
    """
    wanted = headers.get("access-control-request-headers", "")
    parameters = [name for header in wanted.split(",") if (name := header.strip()).lower().startswith("mcp-param-")]
    return (
        ("Access-Control-Allow-Methods", ", ".join(methods)),
        ("Access-Control-Allow-Headers", ", ".join([_ALLOW_HEADERS, *parameters])),
        ("Access-Control-Max-Age", "600"),
    )


def _forget(*, setting: str, **_: object) -> None:
    if setting in {"ALLOWED_HOSTS", "DEBUG", "DJANGO_MCP"}:
        is_our_host.cache_clear()
        is_our_origin.cache_clear()


setting_changed.connect(_forget, dispatch_uid="django_mcp.transports.origins")


View = Callable[..., HttpResponseBase]


def with_cors(view: View, *, methods: Iterable[str]) -> View:
    """Let pages of allowed origins call a synchronous view and read its response, errors included.

    Attributes of the view, such as ``csrf_exempt``, are kept. ``OPTIONS`` is answered with 204 without calling the
    view.

    Args:
        view: a synchronous view.
        methods: HTTP methods it serves.
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
    """Add CORS headers for a page of an allowed origin."""
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

"""HTTP requests and responses of the endpoint; allowed hosts, origins and CORS.

An attacker's page can make a browser on the same machine or network send requests to a local server under a
name the attacker controls (DNS rebinding). The Host must therefore be one of ours, and the Origin, which only
browsers send, one we know (2026-07-28, Streamable HTTP, Security & Endpoint).

The endpoint turns a foreign origin down (``endpoint/origins.py``). A view wrapped here serves it all the same, and
only lets no page read the answer: a token endpoint looks at no cookie, so its caller has nothing it was not given.
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
    """A request turned down at the level of HTTP, before its message was looked at.

    Args:
        status: the HTTP status.
        message: what is wrong, then what would be right.
        headers: more headers for the answer.
        body: by default a JSON-RPC error that has no id, for clients that look at bodies only.

    Attributes:
        is_of_caller: it is about who calls, and so one for the log of calls.
        principal: the caller, where they are known.
    """

    is_of_caller = False
    principal: Principal | None = None

    def __init__(self, status: int, message: str, headers: Headers = (), body: bytes | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers
        self.body = encode_error(None, InvalidRequest(message)) if body is None else body

    def answer(self, headers: Headers = ()) -> MCPResponse:
        """The answer, with more headers."""
        kind = ("Content-Type", "application/json")
        return MCPResponse(self.status, self.body, (*headers, *self.headers, kind))


LONGEST = 300
"""Characters of a host or origin: no name is as long (RFC 1035, section 2.3.4), and nothing longer is remembered."""
_LOOPBACK = [".localhost", "127.0.0.1", "[::1]"]

_ALLOW_HEADERS = (
    "Authorization, X-API-Key, Content-Type, Accept, MCP-Protocol-Version, Mcp-Method, Mcp-Name, "
    "Mcp-Session-Id, Last-Event-ID, Idempotency-Key"
)


@lru_cache(maxsize=1024)
def is_our_host(host: str) -> bool:
    """Whether ``ALLOWED_HOSTS`` has the host of a Host header, by Django's own rules."""
    allowed = django_settings.ALLOWED_HOSTS
    if django_settings.DEBUG and not allowed:
        allowed = _LOOPBACK
    domain, _ = split_domain_port(host)
    return bool(domain) and validate_host(domain, allowed)


@lru_cache(maxsize=1024)
def is_our_origin(origin: str, host: str, *, secure: bool) -> bool:
    """Whether pages of *origin* may call: configured ones, and those of the site itself."""
    return origin in settings.ALLOWED_ORIGINS or is_own_origin(origin, host, secure=secure)


def unknown_host(host: str) -> Refusal:
    """400 for a foreign Host, as Django does."""
    return Refusal(400, f"Unknown host {host[:100]!r}. The site's administrator can add it to ALLOWED_HOSTS.")


def check_origin(head: RequestHead) -> Headers:
    """The CORS headers for a known Origin; none where there is no Origin.

    Raises:
        Refusal: 403 for a foreign Origin, ``null`` included.
    """
    origin = head.headers.get("origin")
    if origin is None:
        return ()
    if len(origin) > LONGEST or not is_our_origin(origin, head.host, secure=head.secure()):
        message = (
            f"Origin {origin[:100]!r} is not allowed. The site's administrator can add it to "
            "DJANGO_MCP['ALLOWED_ORIGINS']."
        )
        raise Refusal(403, message)
    return cors_headers(origin)


def cors_headers(origin: str) -> Headers:
    """What lets pages of *origin* read an answer, errors included. No cookies: they are never what identifies it."""
    return (
        ("Access-Control-Allow-Origin", origin),
        ("Access-Control-Expose-Headers", "WWW-Authenticate, Mcp-Session-Id, Retry-After"),
        ("Vary", "Origin"),
    )


def preflight(headers: Mapping[str, str], methods: Iterable[str] = ("GET", "POST", "DELETE", "OPTIONS")) -> Headers:
    """What a browser asks before it sends the real request (Fetch, CORS-preflight request).

    ``X-CSRFToken`` is not in it: session cookies are for pages of the site itself, which need no preflight.
    """
    wanted = headers.get("access-control-request-headers", "")
    parameters = [name for each in wanted.split(",") if (name := each.strip()).lower().startswith("mcp-param-")]
    return (
        ("Access-Control-Allow-Methods", ", ".join(methods)),
        ("Access-Control-Allow-Headers", ", ".join([_ALLOW_HEADERS, *parameters])),
        ("Access-Control-Max-Age", "600"),
    )


def _forget(*, setting: str, **_: object) -> None:
    if setting in {"ALLOWED_HOSTS", "DEBUG", "DJANGO_MCP"}:
        is_our_host.cache_clear()
        is_our_origin.cache_clear()


setting_changed.connect(_forget, dispatch_uid="django_mcp.endpoint.origins")


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

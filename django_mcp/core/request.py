"""``RequestContext``: the data of a call, with its Django request, client address and host.

Credentials are removed from the request, so that tools cannot pass them on and logs cannot store them (2026-07-28,
Authorization, Token Passthrough).
"""

import copy
import ipaddress
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType, SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self
from urllib.parse import parse_qsl, urlencode

from django.conf import settings as django_settings
from django.core.signals import setting_changed
from django.http import HttpRequest, QueryDict
from django.utils.module_loading import import_string
from django.utils.translation import get_language_from_request

from django_mcp.conf import settings
from django_mcp.core.channel import Cancelled, Channel
from django_mcp.core.concurrency import INLINE, Runner, SiteRunner
from django_mcp.core.principal import Principal
from django_mcp.protocol.jsonrpc import Request
from django_mcp.protocol.meta import ClientInfo, meta_of, shows_apps

if TYPE_CHECKING:
    from django_mcp.core.database import Transaction
    from django_mcp.core.deadline import Deadline
    from django_mcp.core.policies import ApprovalGrant
    from django_mcp.core.server import MCPServer

_PORT = re.compile(r":\d*\Z")
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class Meta(Protocol):
    """The part of ``request.META`` used here."""

    def get(self, name: str, /) -> Any:
        """Return the value of a key, or None."""


def address_at(get_django_request: Callable[[], Any]) -> str | None:
    """Return the client's address as text.

    *get_django_request* returns a Django request. One with a ``get`` method like that of ``request.META`` need not
    make it.
    """
    meta: Any = get_django_request if hasattr(get_django_request, "get") else get_django_request().META
    address = address_of(meta)
    return None if address is None else str(address)


def address_of(meta: Meta) -> Address | None:
    """Return the client's address, or None if unknown.

    That is the last entry of ``DJANGO_MCP["CLIENT_ADDRESS_HEADER"]``, written by the site's own proxy, else
    ``REMOTE_ADDR``.
    """
    header = settings.CLIENT_ADDRESS_HEADER
    if header is not None:
        last = str(meta.get(f"HTTP_{header.upper().replace('-', '_')}") or "").rpartition(",")[2]
        if (address := _address(last)) is not None:
            return address
    return _address(str(meta.get("REMOTE_ADDR") or ""))


def sent_host(meta: Meta) -> str | None:
    """Return the host with port that the client or its proxy sent, by the rules of ``HttpRequest.get_host``."""
    if django_settings.USE_X_FORWARDED_HOST and (forwarded := meta.get("HTTP_X_FORWARDED_HOST")) is not None:
        return str(forwarded)
    host = meta.get("HTTP_HOST")
    return None if host is None else str(host)


def host_of(meta: Meta) -> str:
    """Return the host of a request without its port, which may identify a tenant; "" over stdio.

    Tasks store the keys of *meta* that are read here.
    """
    return _PORT.sub("", (sent_host(meta) or "").lower()).removesuffix(".")


@lru_cache(1024)
def _address(text: str) -> Address | None:
    try:
        address = ipaddress.ip_address(text.strip().strip("[]"))
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


HEADERS = ("authorization", "cookie", "proxy-authorization", "x-api-key")
PARAMETERS = frozenset({"api_key", "access_token"})


def without_credentials(request: Any) -> Any:
    """Return a copy of a Django request without credentials, cookies and session."""
    found = copy.copy(request)
    found.META = {name: value for name, value in request.META.items() if name not in _VARIABLES}
    given = found.META.get("QUERY_STRING", "")
    found.META["QUERY_STRING"] = query = _cleaned(given)
    if query != given:
        for whole in ("RAW_URI", "REQUEST_URI"):  # added by some servers
            found.META.pop(whole, None)
    if hasattr(found, "environ"):  # under WSGI
        found.environ = found.META
    if hasattr(found, "scope"):  # under ASGI
        headers = [pair for pair in found.scope.get("headers", ()) if pair[0].decode("latin-1").lower() not in HEADERS]
        found.scope = {**found.scope, "headers": headers, "query_string": query.encode("latin-1")}
    for made_from_them in ("headers", "GET"):
        if hasattr(type(found), made_from_them):  # cached properties, to compute again
            vars(found).pop(made_from_them, None)
    vars(found).pop("session", None)
    found.COOKIES = {}
    return found


def tenant_of(request: Any, path: str) -> str:
    """Return what the function of ``DJANGO_MCP["TENANT"]`` returns for a request."""
    found = import_string(path)(request)
    if not isinstance(found, str):
        raise TypeError(f"{path} must return the name of a tenant as text, not {found!r}.")
    return found


def set_user(request: Any, user: Any) -> None:
    """Set the user of a Django request, as ``AuthenticationMiddleware`` does."""

    async def auser() -> Any:
        return user

    request.user, request.auser = user, auser


def _cleaned(query: str) -> str:
    pairs = parse_qsl(query, keep_blank_values=True)
    kept = [pair for pair in pairs if pair[0] not in PARAMETERS]
    return query if len(kept) == len(pairs) else urlencode(kept)


_VARIABLES = frozenset(f"HTTP_{name.upper().replace('-', '_')}" for name in HEADERS)


MAX_LANGUAGES = 501
"""Characters of ``Accept-Language`` to keep: Django reads 500, and cuts a longer one after a whole language."""


@lru_cache(256)
def _language(accepted: str) -> str:
    # The site's LocaleMiddleware is not involved.
    request: Any = SimpleNamespace(META={"HTTP_ACCEPT_LANGUAGE": accepted}, COOKIES={})
    return get_language_from_request(request)


def _forget_languages(*, setting: str, **_: Any) -> None:
    if setting in {"LANGUAGES", "LANGUAGE_CODE", "USE_I18N"}:
        _language.cache_clear()


setting_changed.connect(_forget_languages, dispatch_uid="django_mcp.core.request.languages")


TRACE = ("traceparent", "tracestate", "baggage")


class Source(Protocol):
    """Where a call comes from: an ``MCPRequest``, or a ``CallSource``."""

    @property
    def server(self) -> "MCPServer":
        """The endpoint."""

    @property
    def principal(self) -> Principal:
        """The caller."""

    @property
    def runner(self) -> Runner:
        """The transport's runner."""

    @property
    def get_django_request(self) -> Callable[[], Any]:
        """Return a Django request; see ``address_at``."""

    @property
    def is_large(self) -> bool:
        """Return True if the parameters are too large to validate on the event loop."""


class CallSource(NamedTuple):
    """A ``Source`` without a request of the protocol."""

    server: "MCPServer"
    principal: Principal
    runner: Runner
    get_django_request: Callable[[], Any]
    is_large: bool = False


@dataclass
class History:
    """What a call wrote into the admin's history.

    Attributes:
        id: stands in the entries, and in the request log.
        keys: of the entries.
    """

    id: str
    keys: list[str]


class RequestContext:
    """The data of a call. Tools get its subclass ``Context``.

    Attributes:
        server: the endpoint's ``MCPServer``.
        principal: the caller.
        runner: runs the package's own code.
        request_id: the JSON-RPC id.
        method: the JSON-RPC method.
        params: the parameters of the request.
        capabilities: capabilities that the client declared.
        channel: sends messages to the client.
        transaction: the tool's transaction, while it runs in one.
        deadline: the running tool's time limit, or None.
        grant: the grant of an approved call.
        history: what the call wrote into the admin's history, with the admin's own words; None for nothing.
        crash: the unexpected exception that ended the call, for the request log; None for any other end.
        is_large: the parameters are too large to validate on the event loop.
        relay: the tool of tool search that the call came through; method and params are those of the named tool. None
            for a direct call.
        tenant: what ``DJANGO_MCP["TENANT"]`` returned for the request; "" without it.
        consume_state: uses up the client's single-use ``requestState`` before the run; returns False if it was
            already used.
    """

    __slots__ = (
        "_client",
        "_get_django_request",
        "_given",
        "_request",
        "_seen",
        "capabilities",
        "channel",
        "consume_state",
        "crash",
        "deadline",
        "grant",
        "history",
        "is_large",
        "method",
        "params",
        "principal",
        "relay",
        "request_id",
        "runner",
        "server",
        "tenant",
        "transaction",
    )

    def __init__(
        self,
        source: Source,
        request: Request,
        channel: Channel,
        client: Any = None,
        capabilities: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self.server = source.server
        self.principal = source.principal
        self.runner: Runner = source.runner
        self._get_django_request = source.get_django_request
        self.is_large = source.is_large
        self._request: Any = None
        self._given: Mapping[str, Any] = {}
        self.request_id, self.method, self.params = request
        self._client = client  # unvalidated
        self.capabilities = capabilities
        self.channel = channel
        self.transaction: Transaction | None = None
        self.deadline: Deadline | None = None
        self.grant: ApprovalGrant | None = None
        self.history: History | None = None
        self.crash: BaseException | None = None
        self.relay: Any = None
        self.consume_state: Callable[[], bool] | None = None
        self.tenant = ""
        self._seen: Counter[str] | None = None

    @property
    def is_relayed(self) -> bool:
        """True if the call came through a tool of tool search."""
        return self.relay is not None

    @property
    def client(self) -> ClientInfo:
        """The client's unverified description of itself."""
        return ClientInfo.read(self._client)

    @property
    def user(self) -> Any:
        """The Django user who calls, or ``AnonymousUser``."""
        return self.principal.user

    @property
    def meta(self) -> Mapping[str, Any]:
        """The request's ``_meta``."""
        return meta_of(self.params)

    @property
    def shows_apps(self) -> bool:
        """True if the client shows MCP Apps: it declares so, or is one of ``DJANGO_MCP["APP_CLIENTS"]``."""
        named = settings.APP_CLIENTS
        return shows_apps(self.capabilities) or (bool(named) and self.client.name in named)

    @property
    def trace(self) -> dict[str, str]:
        """The trace context that the client sent: ``traceparent``, ``tracestate``, ``baggage``.

        Pass it to a tracer, or as headers to services that you call (2026-07-28, Overview, ``_meta``).
        """
        meta = self.meta
        return {key: value for key in TRACE if isinstance(value := meta.get(key), str)}

    @property
    def request(self) -> Any:
        """A Django request for this call, built on first use.

        It has path, headers and ``ctx.user``, for code that needs a request (``build_absolute_uri``, context
        processors), but no credentials, cookies or session. In the ASGI application, no middleware has processed it.
        """
        if self._request is None:
            request = without_credentials(self._get_django_request())
            set_user(request, self.user)  # never that of a session cookie
            self._request, self._given = request, dict(vars(request))
        return self._request

    @property
    def addressed_to(self) -> list[str]:
        """Host, path and tenant of the request; what is kept of a call holds where they are the same."""
        return [host_of(self.request.META), self.request.path.rstrip("/"), self.tenant]

    @property
    def set_on_request(self) -> dict[str, Any]:
        """The attributes that the site has set on ``request``, as its middleware does for pages.

        Not those of the middleware around the Django view: they are of the request to the endpoint, with its session.
        """
        given, nothing = self._given, object()
        now = {} if self._request is None else vars(self._request)
        return {name: value for name, value in now.items() if given.get(name, nothing) is not value}

    @property
    def language(self) -> str:
        """The caller's language: the site's best match for ``Accept-Language``, or its default.

        It is active in the call, unless a context manager of the site activates another.
        """
        source: Any = self._get_django_request
        meta = source if hasattr(source, "get") else (self._request or source()).META
        return _language((meta.get("HTTP_ACCEPT_LANGUAGE") or "")[:MAX_LANGUAGES])

    @property
    def site_runner(self) -> Runner:
        """``runner``, with the site's ``CALL_CONTEXT_MANAGERS`` around each job: for all code of the site."""
        return SiteRunner(self.runner, lambda: self.request) if settings.CALL_CONTEXT_MANAGERS else self.runner

    def inline(self) -> Self:
        """Return a copy for code that runs within this call, in its own thread.

        Waiting for another thread of the pool could deadlock when all of them do so.
        """
        if self._seen is None:
            self._seen = Counter()  # shared: questions asked there count here too
        inner = copy.copy(self)
        inner.runner = INLINE
        return inner

    @property
    def cancelled(self) -> bool:
        """True if the client cancelled or disconnected (where that means the same), or time has run out."""
        return self.channel.cancelled or self.remaining == 0.0

    @property
    def remaining(self) -> float | None:
        """Seconds until the tool's time limit, to pass on to other services; None without a limit."""
        return None if self.deadline is None else self.deadline.remaining

    def check_cancelled(self) -> None:
        """Stop here if the client no longer waits; what the tool wrote is rolled back.

        Raises:
            Cancelled: do not catch it.
        """
        if self.channel.cancelled:
            raise Cancelled
        if self.deadline is not None:
            self.deadline.check()


def require_same(context: RequestContext, argument: str, rows: Any) -> None:
    """Reject an approved call if an argument now identifies other rows, such as a slug that moved to another row.

    All code that finds the rows of an argument must call this. *rows* has the shape of ``Tool.rows_of``.

    Raises:
        ToolError: the call was approved for other rows.
    """
    if context.grant is not None:
        context.grant.require_same(argument, rows)


class StandInRequest(HttpRequest):
    """The Django request of a call that has none, as over stdio, in a task, or from a page of the admin: an empty POST.

    Args:
        path: the endpoint's path.
        meta: metadata that is known. The host is the first of ``ALLOWED_HOSTS`` otherwise.
        path_info: the path without the prefix of the script, if they differ.
        scheme: ``"https"``, if that is known without a header.
    """

    def __init__(self, path: str, meta: Mapping[str, Any], *, path_info: str | None = None, scheme: str = "") -> None:
        super().__init__()
        self.method = "POST"
        self.path, self.path_info = path, path if path_info is None else path_info
        self.META = {"SERVER_NAME": _first_host(), "SERVER_PORT": "80", **meta, "REQUEST_METHOD": "POST"}
        self.GET = QueryDict(self.META.get("QUERY_STRING", ""))
        self._stored_scheme = scheme
        self._body = b""  # Django reads it from a stream that a bare request lacks

    def _get_scheme(self) -> str | None:
        return self._stored_scheme or "http"


def _first_host() -> str:
    return next((host.lstrip(".") for host in django_settings.ALLOWED_HOSTS if "*" not in host), "localhost")

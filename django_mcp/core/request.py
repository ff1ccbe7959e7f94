"""The data of one call: its server, caller, parameters, deadline, and its Django request and client address.

A tool that had the token could pass it on to somebody else's service, and a log could keep it (2026-07-28,
Authorization, Token Passthrough).
"""

import copy
import ipaddress
import re
from collections import Counter
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol, Self
from urllib.parse import parse_qsl, urlencode

from django.conf import settings as django_settings
from django.utils.translation import get_language_from_request

from django_mcp.conf import settings
from django_mcp.core.channel import Cancelled, Channel
from django_mcp.core.concurrency import INLINE, Runner, SiteRunner
from django_mcp.core.principal import Principal
from django_mcp.protocol.errors import RequestId
from django_mcp.protocol.meta import ClientInfo, meta_of

if TYPE_CHECKING:
    from django_mcp.core.database import Transaction
    from django_mcp.core.deadline import Deadline
    from django_mcp.core.policies import ApprovalGrant
    from django_mcp.core.server import MCPServer

_PORT = re.compile(r":\d*\Z")
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class Meta(Protocol):
    """``request.META``, or as much of it as is needed here."""

    def get(self, name: str, /) -> Any:
        """The value of a key; None where there is none."""


def address_at(edge: Callable[[], Any]) -> str | None:
    """The client's address as text, without making a Django request where the edge can do without.

    Args:
        edge: gives a Django request. It may have ``get``, which is as good as that of ``request.META``.
    """
    meta: Any = edge if hasattr(edge, "get") else edge().META
    address = address_of(meta)
    return None if address is None else str(address)


def address_of(meta: Meta) -> Address | None:
    """The client's address; None where the server does not know.

    Args:
        meta: ``request.META``. The address is ``REMOTE_ADDR``, or what ``DJANGO_MCP["CLIENT_ADDRESS_HEADER"]`` says;
            of a list, its last entry, which the site's own proxy wrote.
    """
    header = settings.CLIENT_ADDRESS_HEADER
    if header is not None:
        last = str(meta.get(f"HTTP_{header.upper().replace('-', '_')}") or "").rpartition(",")[2]
        if (address := _address(last)) is not None:
            return address
    return _address(str(meta.get("REMOTE_ADDR") or ""))


def host_of(meta: Meta) -> str:
    """The host a request was sent to, without its port: a tenant may be one. "" over standard input and output.

    Args:
        meta: ``request.META``, of which a task keeps what is read here.
    """
    forwarded = meta.get("HTTP_X_FORWARDED_HOST") if django_settings.USE_X_FORWARDED_HOST else None
    return _PORT.sub("", str(forwarded or meta.get("HTTP_HOST") or "").lower()).removesuffix(".")


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
    """A copy of a Django request without credentials, cookies and session."""
    found = copy.copy(request)
    found.META = {name: value for name, value in request.META.items() if name not in _VARIABLES}
    given = found.META.get("QUERY_STRING", "")
    found.META["QUERY_STRING"] = query = _cleaned(given)
    if query != given:
        for whole in ("RAW_URI", "REQUEST_URI"):  # as servers may add them
            found.META.pop(whole, None)
    if hasattr(found, "environ"):  # under WSGI
        found.environ = found.META
    if hasattr(found, "scope"):  # under ASGI
        headers = [pair for pair in found.scope.get("headers", ()) if pair[0].decode("latin-1").lower() not in HEADERS]
        found.scope = {**found.scope, "headers": headers, "query_string": query.encode("latin-1")}
    for made_from_them in ("headers", "GET"):
        if hasattr(type(found), made_from_them):  # cached there, and made anew when asked for
            vars(found).pop(made_from_them, None)
    vars(found).pop("session", None)
    found.COOKIES = {}
    return found


def set_user(request: Any, user: Any) -> None:
    """Have a Django request be that of *user*, as ``AuthenticationMiddleware`` does."""

    async def auser() -> Any:
        return user

    request.user, request.auser = user, auser


def _cleaned(query: str) -> str:
    pairs = parse_qsl(query, keep_blank_values=True)
    kept = [pair for pair in pairs if pair[0] not in PARAMETERS]
    return query if len(kept) == len(pairs) else urlencode(kept)


_VARIABLES = frozenset(f"HTTP_{name.upper().replace('-', '_')}" for name in HEADERS)


TRACE = ("traceparent", "tracestate", "baggage")


class RequestContext:
    """What is known of one call. Tools get a ``Context``, which adds what they can do in it.

    Attributes:
        server: the endpoint's ``MCPServer``.
        principal: the caller.
        runner: runs the package's own code.
        request_id: the JSON-RPC id.
        method: the JSON-RPC method.
        params: the request's parameters.
        capabilities: what the client declared it can do.
        channel: takes messages to the client.
        transaction: that of the tool, while it runs in one.
        deadline: the time limit of the tool, once it runs; None without one.
        grant: that to run the call, where it had to be approved.
        is_large: the parameters are so large that they are not validated on the event loop.
        is_relayed: the call came through ``call_tool``; method and params are those of the tool it named.
        spend: uses up what the client sent that is good for one run; returns False if it was used already. Called
            before the run.
    """

    __slots__ = (
        "_client",
        "_edge",
        "_request",
        "_seen",
        "capabilities",
        "channel",
        "deadline",
        "grant",
        "is_large",
        "is_relayed",
        "method",
        "params",
        "principal",
        "request_id",
        "runner",
        "server",
        "spend",
        "transaction",
    )

    def __init__(
        self,
        server: "MCPServer",
        principal: Principal,
        runner: Runner,
        edge: Callable[[], Any],
        request_id: RequestId,
        method: str,
        params: dict[str, Any],
        client: Any,
        capabilities: Mapping[str, Any],
        channel: Channel,
    ) -> None:
        self.server = server
        self.principal = principal
        self.runner = runner
        self._edge = edge
        self._request: Any = None
        self.request_id = request_id
        self.method = method
        self.params = params
        self._client = client
        self.capabilities = capabilities
        self.channel = channel
        self.transaction: Transaction | None = None
        self.deadline: Deadline | None = None
        self.grant: ApprovalGrant | None = None
        self.is_relayed = False
        self.is_large = False
        self.spend: Callable[[], bool] | None = None
        self._seen: Counter[str] | None = None

    @property
    def client(self) -> ClientInfo:
        """What the client says it is; unverified."""
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
    def trace(self) -> dict[str, str]:
        """The caller's trace context: ``traceparent``, ``tracestate``, ``baggage``, those that were sent.

        Give it to the tracer, or as headers to the services you call (2026-07-28, Overview, ``_meta``).
        """
        meta = self.meta
        return {key: value for key in TRACE if isinstance(value := meta.get(key), str)}

    @property
    def request(self) -> Any:
        """A Django request for this call, built on first use.

        It carries path, headers and ``ctx.user``, for code that wants one (``build_absolute_uri``, a template's
        context processors). It has no credentials, no cookies and no session. No middleware has seen it at the ASGI
        edge.
        """
        if self._request is None:
            request = without_credentials(self._edge())
            set_user(request, self.user)  # never the one of a session cookie
            self._request = request
        return self._request

    @property
    def language(self) -> str:
        """The language to speak to the caller in: what ``Accept-Language`` prefers of the site's, or the site's own."""
        return get_language_from_request(self.request)

    @property
    def site_runner(self) -> Runner:
        """What runs the site's own code: ``runner``, within the site's ``CALL_CONTEXT_MANAGERS``."""
        return SiteRunner(self.runner, lambda: self.request) if settings.CALL_CONTEXT_MANAGERS else self.runner

    def inline(self) -> Self:
        """The same call, for code that it runs within itself, in the calling thread.

        That thread waits for it. If it waited in turn for another one of the pool, and others did too, none were left.
        """
        if self._seen is None:
            self._seen = Counter()  # what is asked there counts here too
        inner = copy.copy(self)
        inner.runner = INLINE
        return inner

    @property
    def cancelled(self) -> bool:
        """Whether nobody waits for the result any more.

        The client withdrew its request or, where that means the same, closed the connection; or the time is up.
        """
        return self.channel.cancelled or self.remaining == 0.0

    @property
    def remaining(self) -> float | None:
        """Seconds until the tool's time limit, for what it waits for itself, like other services; None without one."""
        return None if self.deadline is None else self.deadline.remaining

    def check_cancelled(self) -> None:
        """Stop here if nobody waits for the result any more; what the tool wrote is rolled back.

        Raises:
            Cancelled: let it through.
        """
        if self.channel.cancelled:
            raise Cancelled
        if self.deadline is not None:
            self.deadline.check()


def require_same(context: RequestContext, argument: str, rows: Any) -> None:
    """Refuse a call that was approved for other rows than those that an argument addresses now.

    What is approved must be what runs, and what addresses a row may come to address another one, like a slug. So
    whatever finds the rows of an argument for a run, asks here once it has them.

    Args:
        context: the call.
        argument: name of the argument.
        rows: the row or rows, in the shape in which ``Tool.rows_of`` gives them.

    Raises:
        ToolError: it was approved for others.
    """
    if context.grant is not None:
        context.grant.require_same(argument, rows)

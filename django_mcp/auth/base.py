"""The interface of authenticators, and the one that lets everybody call."""

import difflib
import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cache, cached_property
from typing import Any, NamedTuple

from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed
from django.utils.module_loading import import_string

from django_mcp.core.principal import Principal
from django_mcp.core.server import MCPServer

PATHS = tuple(
    f"django_mcp.{name}"
    for name in (
        "APIKeyAuthentication",
        "JWTAuthentication",
        "OAuth2Authentication",
        "AllowAny",
        "SessionAuthentication",
    )
)
"""The authenticators that there are."""

_TOKEN = re.compile(r"[!#-+\--\x7f]+")
"""What a bearer token may consist of: ASCII, without spaces, control characters, commas and quotation marks."""


class RequestHead(NamedTuple):
    """A request without its body.

    Attributes:
        headers: by lower-case name; a header sent twice is joined with ", " (RFC 9110, section 5.2).
        host: the host and port it was sent to, as the client knows them.
        secure: tells whether it came over https.
        edge: gives a Django request.
        query: the query string, without the question mark.
    """

    method: str
    headers: Mapping[str, str]
    host: str
    secure: Callable[[], bool]
    edge: Callable[[], Any]
    query: str = ""

    def __repr__(self) -> str:
        """Without headers and query, which hold credentials: error reports show what variables are called."""
        return f"RequestHead({self.method} to {self.host})"


class InvalidToken(Exception):
    """A credential was sent, and it is bad. Whoever calls is not told why."""


class AuthorizationServerAway(Exception):
    """What a credential is to be judged by cannot be had just now: 503.

    It is not the credential's fault, so its holder must not be told to throw it away.

    Args:
        retry_after: seconds after which it may be worth another try.
    """

    def __init__(self, retry_after: float = 10) -> None:
        super().__init__("the authorization server does not answer")
        self.retry_after = retry_after


class BaseAuthentication:
    """Recognises a caller by a request's headers. Sites write their own as subclasses.

    Attributes:
        blocking: whether ``authenticate`` may touch the database or the network. The ASGI edge calls it in a
            worker thread then.
        most_together: how many requests with different credentials ``authenticate_together`` takes.
    """

    blocking: bool = True
    most_together: int = 1

    def __init_subclass__(cls, **keywords: Any) -> None:
        """What a class says of its ``authenticate`` need not be true of one that a subclass puts in its place."""
        super().__init_subclass__(**keywords)
        if _place(cls, "shown") > _place(cls, "authenticate"):
            cls.shown = BaseAuthentication.shown  # type: ignore[method-assign]
        if _place(cls, "authenticate_together") > _place(cls, "authenticate"):
            cls.most_together = 1

    def authenticate(self, head: RequestHead, server: MCPServer) -> Principal | None:
        """The caller; None where the request holds nothing for this authenticator, so that the next one is asked.

        Raises:
            InvalidToken: it does hold something, which is not good.
            AuthorizationServerAway: nobody can say just now whether it is.
        """
        raise NotImplementedError

    def shown(self, head: RequestHead) -> Hashable | None:  # noqa: ARG002
        """All that ``authenticate`` looks at in a request, so that one lookup does for requests that come together.

        Empty, as ``""`` and ``()`` are, where it holds nothing for this authenticator, which is not asked then. None,
        as by default, for what cannot be told: then each request is looked at for itself.

        Raises:
            InvalidToken: what it holds is not good.
        """
        return None

    def authenticate_together(
        self, heads: Sequence[RequestHead], server: MCPServer
    ) -> Sequence[Principal | Exception | None]:
        """Callers of requests that come together, of which no two have the same ``shown``.

        For each what ``authenticate`` gives, or the exception that it raises. It should take hardly longer than one of
        them, for all wait for it; only called where ``most_together`` is more than 1.
        """
        raise NotImplementedError

    def authorization_servers(self, server: MCPServer) -> Sequence[str]:  # noqa: ARG002
        """Issuers whose tokens it takes, for the protected resource metadata (RFC 9728, section 2)."""
        return ()


def _place(kind: type, name: str) -> int:
    """How far up among its bases a class has a method from."""
    return next(place for place, each in enumerate(kind.__mro__) if name in vars(each))


def bearer(headers: Mapping[str, str]) -> str | None:
    """The token of an ``Authorization: Bearer`` header (RFC 6750, section 2.1); None for another scheme, or none.

    Raises:
        InvalidToken: it is followed by anything but one token.
    """
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer":
        return None
    token = token.strip(" ")
    if not _TOKEN.fullmatch(token):
        raise InvalidToken
    return token


@cache
def authenticators(server: MCPServer) -> tuple[BaseAuthentication, ...]:
    """The authenticators of an endpoint, made from what its declaration names."""
    return tuple(_made(each, server) for each in server.authentication)


def _made(given: Any, server: MCPServer) -> BaseAuthentication:
    loaded = _imported(given, server) if isinstance(given, str) else given
    return loaded() if isinstance(loaded, type) else loaded  # type: ignore[no-any-return]


def _imported(path: str, server: MCPServer) -> Any:
    try:
        return import_string(path)
    except ImportError as error:
        owner = f"{server!r}, authentication" if server.names_authentication else 'DJANGO_MCP["AUTHENTICATION"]'
        close = difflib.get_close_matches(path, PATHS, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        msg = f"{owner}: {path!r} cannot be imported ({error}).{hint}"
        raise ImproperlyConfigured(msg) from error


def _forget(*, setting: str, **_: Any) -> None:
    if setting == "DJANGO_MCP":
        authenticators.cache_clear()


setting_changed.connect(_forget, dispatch_uid="django_mcp.auth.base")


class AllowAny(BaseAuthentication):
    """Lets everybody in, as ``AnonymousUser``.

    For endpoints that offer nothing anybody may not have, and for servers that only this machine can reach.
    """

    blocking = False

    @cached_property
    def everybody(self) -> Principal:
        """Who everybody is."""
        from django.contrib.auth.models import AnonymousUser  # noqa: PLC0415 - needs the app registry

        return Principal(kind="public", id="public", user=AnonymousUser())

    def authenticate(self, head: RequestHead, server: MCPServer) -> Principal:  # noqa: ARG002
        """The same principal for every request."""
        return self.everybody

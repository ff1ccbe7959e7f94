"""``BaseAuthentication``, the interface of authentication classes, and ``AllowAny``."""

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
"""Dotted paths of the built-in authentication classes."""

_TOKEN = re.compile(r"[!#-+\--\x7f]+")
"""ASCII without spaces, control characters, commas and quotation marks."""


class RequestHead(NamedTuple):
    """A request without its body.

    Attributes:
        headers: by lower-case name; repeated ones are joined with ", " (RFC 9110, section 5.2).
        host: host and port as the client knows them.
        secure: returns True for https.
        edge: returns a Django request.
        query: the query string without "?".
    """

    method: str
    headers: Mapping[str, str]
    host: str
    secure: Callable[[], bool]
    edge: Callable[[], Any]
    query: str = ""

    def __repr__(self) -> str:
        """Omit headers and query, whose credentials would appear in error reports."""
        return f"RequestHead({self.method} to {self.host})"


class InvalidToken(Exception):
    """An invalid credential. The caller is not informed of the reason."""


class AuthorizationServerAway(Exception):
    """A credential cannot be checked now. The response is 503: after a 401 clients would discard the credential.

    Args:
        retry_after: seconds.
    """

    def __init__(self, retry_after: float = 10) -> None:
        super().__init__("the authorization server does not answer")
        self.retry_after = retry_after


class BaseAuthentication:
    """Base of authentication classes, which recognise the caller by a request's headers.

    Attributes:
        blocking: whether ``authenticate`` may use database or network. The ASGI application calls it in a worker thread
            then.
        most_together: maximum number of requests for ``authenticate_together``.
    """

    blocking: bool = True
    most_together: int = 1

    def __init_subclass__(cls, **keywords: Any) -> None:
        """Reset ``shown`` and ``most_together``, which need not fit an overridden ``authenticate``."""
        super().__init_subclass__(**keywords)
        if _place(cls, "shown") > _place(cls, "authenticate"):
            cls.shown = BaseAuthentication.shown  # type: ignore[method-assign]
        if _place(cls, "authenticate_together") > _place(cls, "authenticate"):
            cls.most_together = 1

    def authenticate(self, head: RequestHead, server: MCPServer) -> Principal | None:
        """Return the caller, or None if the request has no credential for this class, so that the next one is tried.

        Raises:
            InvalidToken: the credential is invalid.
            AuthorizationServerAway: the credential cannot be checked now.
        """
        raise NotImplementedError

    def shown(self, head: RequestHead) -> Hashable | None:  # noqa: ARG002
        """Return all that ``authenticate`` reads of a request, so that concurrent requests share one lookup.

        An empty value, such as ``""`` or ``()``, means no credential for this class, and ``authenticate`` is not
        called. With None, the default, lookups are not shared.

        Raises:
            InvalidToken: the credential is invalid.
        """
        return None

    def authenticate_together(
        self, heads: Sequence[RequestHead], server: MCPServer
    ) -> Sequence[Principal | Exception | None]:
        """Return, for each of several requests, the result of ``authenticate`` or its exception.

        Called if ``most_together`` is more than 1, with requests whose ``shown`` differ. All wait for it, so it should
        be about as fast as one lookup.
        """
        raise NotImplementedError

    def authorization_servers(self, server: MCPServer) -> Sequence[str]:  # noqa: ARG002
        """Return accepted issuers, for the protected resource metadata (RFC 9728, section 2)."""
        return ()


def _place(kind: type, name: str) -> int:
    """Return the position in the MRO of the class with a method."""
    return next(place for place, each in enumerate(kind.__mro__) if name in vars(each))


def bearer(headers: Mapping[str, str]) -> str | None:
    """Return the token of ``Authorization: Bearer`` (RFC 6750, section 2.1), or None.

    Raises:
        InvalidToken: it is not exactly one token.
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
    """Return the authentication instances of an endpoint."""
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
    """Accepts every request as ``AnonymousUser``: for public content, or servers only the local machine can reach."""

    blocking = False

    @cached_property
    def everybody(self) -> Principal:
        """The principal of all requests."""
        from django.contrib.auth.models import AnonymousUser  # noqa: PLC0415 - needs the app registry

        return Principal(kind="public", id="public", user=AnonymousUser())

    def authenticate(self, head: RequestHead, server: MCPServer) -> Principal:  # noqa: ARG002
        """Return ``everybody``."""
        return self.everybody

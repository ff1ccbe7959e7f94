"""``BaseAuthentication``, the interface of authentication classes, and ``AllowAny``."""

import difflib
import logging
import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import cache, cached_property
from typing import Any, NamedTuple

from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed
from django.db import DatabaseError, InterfaceError
from django.utils.module_loading import import_string

from django_mcp import conf
from django_mcp.core.principal import Principal
from django_mcp.core.server import MCPServer

logger = logging.getLogger("django_mcp")

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


class RequestHeaders(dict[str, str]):
    """Headers by lower-case name. Values are not shown where their representation is: error reports show variables."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"RequestHeaders({', '.join(self)})"


class RequestHead(NamedTuple):
    """A request without its body.

    Attributes:
        headers: by lower-case name; repeated ones are joined with ", " (RFC 9110, section 5.2).
        host: host and port as the client knows them.
        secure: returns True for https.
        get_django_request: returns a Django request.
        query: the query string without "?".
    """

    method: str
    headers: Mapping[str, str]
    host: str
    secure: Callable[[], bool]
    get_django_request: Callable[[], Any]
    query: str = ""

    def __repr__(self) -> str:
        # Headers and query are left out: they contain credentials, and error reports show local variables.
        return f"RequestHead({self.method} to {self.host})"


class InvalidToken(Exception):
    """An invalid credential. The caller is not informed of the reason."""


class AuthenticationUnavailable(Exception):
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
    """

    blocking: bool = True

    def __init_subclass__(cls, **keywords: Any) -> None:
        # An inherited credential_key() need not fit an overridden authenticate().
        super().__init_subclass__(**keywords)
        if _place(cls, "credential_key") > _place(cls, "authenticate"):
            cls.credential_key = BaseAuthentication.credential_key  # type: ignore[method-assign]

    def authenticate(self, head: RequestHead, server: MCPServer) -> Principal | None:
        """Return the caller, or None if the request has no credential for this class, so that the next one is tried.

        Raises:
            InvalidToken: the credential is invalid.
            AuthenticationUnavailable: the credential cannot be checked now.
        """
        raise NotImplementedError

    def credential_key(self, head: RequestHead) -> Hashable | None:  # noqa: ARG002
        """Return all that ``authenticate`` reads of a request, so that concurrent requests share one lookup.

        An empty value, such as ``""`` or ``()``, means no credential for this class, and ``authenticate`` is not
        called. With None, the default, lookups are not shared.

        Raises:
            InvalidToken: the credential is invalid.
        """
        return None

    def find_ended(self, principals: Sequence[Principal], server: MCPServer) -> Iterable[Principal]:  # noqa: ARG002
        """Return the callers whose credential lost access to the endpoint, or has other rights than ``Principal`` says.

        Called every ``KEEP_ALIVE_INTERVAL`` with up to 500 callers who have open streams, including callers that other
        classes authenticated. Streams of the returned callers end. It may query the database, once for all callers.
        By default none: a credential ends at ``Principal.expires``, or when its user is deactivated or deleted.
        """
        return ()

    def require_installed(self) -> None:
        """Check that what the class needs is installed. Called once, when an endpoint is made ready.

        Raises:
            Misconfigured: it is not, so the endpoint must not be served.
        """

    def authorization_servers(self, server: MCPServer) -> Sequence[str]:  # noqa: ARG002
        """Return accepted issuers, for the protected resource metadata (RFC 9728, section 2)."""
        return ()


def _place(kind: type, name: str) -> int:
    return next(place for place, owner in enumerate(kind.__mro__) if name in vars(owner))


class OwnAuthentication(BaseAuthentication):
    """Base of this package's classes that read only its own tables, and of a request only their ``credential_key``.

    Attributes:
        is_exact: False for a site's subclasses, which may read other tables and more of the request.
    """

    is_exact = False

    def __init_subclass__(cls, *, is_exact: bool = False, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        cls.is_exact = is_exact

    def authenticate_key(self, key: Any, server: MCPServer) -> Principal:
        """Return the caller with this ``credential_key``, which is neither None nor empty.

        Raises:
            InvalidToken: the credential is invalid.
        """
        raise NotImplementedError


class Credential(str):
    """A credential as text that is not shown where its representation is: error reports show local variables."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'***'"


def bearer(headers: Mapping[str, str]) -> Credential | None:
    """Return the token of ``Authorization: Bearer`` (RFC 6750, section 2.1), or None.

    Raises:
        InvalidToken: it is not exactly one token.
    """
    scheme, _, sent = headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer":
        return None
    token = Credential(sent.strip(" "))
    if not _TOKEN.fullmatch(token):
        raise InvalidToken
    return token


class Misconfigured(ImproperlyConfigured):
    """The endpoint must not be served; the system checks report the same.

    Attributes:
        hint: what to do, or None for the check's own words.
    """

    hint: str | None = None


@cache
def load_authenticators(server: MCPServer) -> tuple[BaseAuthentication, ...]:
    """Return the authentication instances of an endpoint.

    Raises:
        Misconfigured: one of them cannot be made.
    """
    return tuple(_made(given, server) for given in server.authentication)


def authenticators(server: MCPServer) -> tuple[BaseAuthentication, ...]:
    """Return the authentication instances of an endpoint; none if one of them cannot be made, as it is not served."""
    try:
        return load_authenticators(server)
    except Misconfigured:
        return ()


@cache
def required_authenticators(server: MCPServer) -> tuple[BaseAuthentication, ...]:
    """Return the authentication instances with which an endpoint is served.

    Raises:
        Misconfigured: there is none, one cannot be made, or ``DJANGO_MCP`` has faults.
    """
    if wrong := conf.faults():
        raise Misconfigured(" ".join(wrong))
    if not server.authentication:
        raise Misconfigured(
            f"{server!r} has no authentication, so it is not served. "
            f"Set DJANGO_MCP['AUTHENTICATION'] = ['{PATHS[0]}'], or MCPServer(authentication=[…])."
        )
    return load_authenticators(server)


def asks_site(server: MCPServer) -> bool:
    """Return True if ``find_ended`` of an endpoint may run the site's code."""
    inherited = BaseAuthentication.find_ended  # does nothing
    return any(
        not (isinstance(authenticator, OwnAuthentication) and authenticator.is_exact)
        and type(authenticator).find_ended is not inherited
        for authenticator in authenticators(server)
    )


def find_ended(principals: Sequence[Principal], server: MCPServer) -> list[Principal]:
    """Return the callers whose credentials no longer open an endpoint. See ``BaseAuthentication.find_ended``."""
    ended: list[Principal] = []
    for authenticator in authenticators(server):
        try:
            ended += authenticator.find_ended(principals, server)
        except (DatabaseError, InterfaceError):
            raise
        except AuthenticationUnavailable:
            logger.debug("%r cannot tell now which credentials have ended", authenticator)
        except Exception:
            # Fail closed: an unchecked stream would stay open. Clients that still have access reconnect.
            logger.exception("%r.find_ended() failed; the streams of %r are ended", authenticator, server)
            ended += principals
    return ended


def _made(given: Any, server: MCPServer) -> BaseAuthentication:
    loaded = _imported(given, server) if isinstance(given, str) else given
    try:
        made = loaded() if isinstance(loaded, type) else loaded
    except Exception as error:
        raise Misconfigured(str(error) or type(error).__name__) from error
    if not isinstance(made, BaseAuthentication):
        msg = f"{given!r} is not an authentication class"
        raise Misconfigured(msg)
    made.require_installed()
    return made


def _imported(path: str, server: MCPServer) -> Any:
    try:
        return import_string(path)
    except Exception as error:  # importing a module of the site may raise anything
        owner = f"{server!r}, authentication" if server.names_authentication else 'DJANGO_MCP["AUTHENTICATION"]'
        close = difflib.get_close_matches(path, PATHS, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        msg = f"{owner}: {path!r} cannot be imported ({error}).{hint}"
        raise Misconfigured(msg) from error


def _forget(*, setting: str, **_: Any) -> None:
    if setting == "DJANGO_MCP":
        load_authenticators.cache_clear()
        required_authenticators.cache_clear()


setting_changed.connect(_forget, dispatch_uid="django_mcp.auth.base")


class AllowAny(BaseAuthentication):
    """Accepts every request as ``AnonymousUser``: for public content, or servers only the local machine can reach."""

    blocking = False

    @cached_property
    def everybody(self) -> Principal:
        from django.contrib.auth.models import AnonymousUser  # noqa: PLC0415 - needs the app registry

        return Principal(kind="public", id="public", user=AnonymousUser())

    def authenticate(self, head: RequestHead, server: MCPServer) -> Principal:  # noqa: ARG002
        return self.everybody

"""The site's session cookie as a credential, for MCP clients on the site's own pages and origin (RFC 6454)."""

import logging
from functools import lru_cache
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings as django_settings
from django.core.signals import setting_changed
from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import CsrfViewMiddleware

from django_mcp.auth.api_keys import keys_in_query
from django_mcp.auth.base import BaseAuthentication, InvalidToken, RequestHead
from django_mcp.auth.protected_resource import canonical
from django_mcp.conf import settings
from django_mcp.core.principal import Principal
from django_mcp.core.server import MCPServer

_THIS_MACHINE = ("localhost", "127.0.0.1", "[::1]")


@lru_cache(maxsize=1024)
def is_own_origin(origin: str, host: str, *, secure: bool) -> bool:
    """Whether *origin* is that of the site itself, as ``BASE_URL`` says.

    Only where there is no ``BASE_URL`` is it compared with the request. Host and Origin agree in an attack by DNS
    rebinding too, so the Host must then be one that ``ALLOWED_HOSTS`` names.

    Args:
        origin: the Origin header.
        host: host and port of the request, of which the caller has seen that ``ALLOWED_HOSTS`` allows them.
        secure: whether the request came over https.
    """
    if settings.BASE_URL:
        return origin in own_origins(settings.BASE_URL)
    # With "*" in ALLOWED_HOSTS any name may be in the Host header, so it vouches for nothing.
    if "*" in django_settings.ALLOWED_HOSTS or not host:
        return False
    return origin == f"{'https' if secure else 'http'}://{host}"


def own_origins(base_url: str) -> frozenset[str]:
    """The origin of *base_url* as browsers write it; of a site on this machine, by each of the machine's names."""
    try:
        parts = urlsplit(canonical(base_url))
    except ValueError:
        return frozenset()
    port = f":{parts.port}" if parts.port else ""
    given = parts.netloc.removesuffix(port)
    names = _THIS_MACHINE if given in _THIS_MACHINE else (given,)
    return frozenset(f"{parts.scheme}://{name}{port}" for name in names)


def _forget(*, setting: str, **_: Any) -> None:
    if setting in {"ALLOWED_HOSTS", "DJANGO_MCP"}:
        is_own_origin.cache_clear()


setting_changed.connect(_forget, dispatch_uid="django_mcp.auth.origins")


logger = logging.getLogger("django_mcp")


class SessionAuthentication(BaseAuthentication):
    """Whoever is logged in to the site, called from a page of the site.

    A browser adds the cookie to requests of any page there is, so it is taken only with proof that the page is one of
    the site's own: its ``Origin`` (``Sec-Fetch-Site`` where there is none), and Django's CSRF token in the header
    ``X-CSRFToken``. Both are wanted of every method: a GET opens a stream, a DELETE ends a session.

    Nobody is logged in or out by a call, and the session lives no longer for it. A request with another credential is
    not for this authenticator, whatever cookies it has.
    """

    def authenticate(self, head: RequestHead, server: MCPServer) -> Principal | None:  # noqa: ARG002
        """The user of the session; None without a session cookie, and for a session nobody is logged in to.

        Raises:
            InvalidToken: the request may come from another site's page.
        """
        from django.contrib.auth import get_user  # noqa: PLC0415 - not every site has it

        if "cookie" not in head.headers or has_other_credential(head):
            return None
        edge = head.edge()
        key = edge.COOKIES.get(django_settings.SESSION_COOKIE_NAME)
        if not key:
            return None
        if not is_same_origin(head):
            raise InvalidToken
        request = SessionRequest(edge, SessionCopy(_load(key)))
        if reason := _CsrfCheck(_never).reason(request):
            logger.warning("A session cookie was not taken. %s", reason)
            raise InvalidToken
        user: Any = get_user(request)
        if not user.is_authenticated or not user.is_active:
            return None
        return Principal(kind="session", id=str(user.pk), user=user)


def has_other_credential(head: RequestHead) -> bool:
    """Whether the request is to be judged by something else than its cookies."""
    return bool({"authorization", "x-api-key"} & head.headers.keys()) or bool(keys_in_query(head.query))


def is_same_origin(head: RequestHead) -> bool:
    """Whether a browser says that a page of this site made the request (Fetch Metadata, section 2.3)."""
    origin = head.headers.get("origin")
    if origin is None:
        return head.headers.get("sec-fetch-site") == "same-origin"
    return is_own_origin(origin, head.host, secure=head.secure())


class SessionCopy(dict[str, Any]):
    """What a session holds, to read.

    Where ``get_user`` finds the password changed it empties the session, or gives it a new key. Neither may happen
    here, from where no cookie is set that tells the browser.
    """

    def cycle_key(self) -> None:
        """Nothing."""

    def flush(self) -> None:
        """Forget the copy."""
        self.clear()


class SessionRequest(HttpRequest):
    """A request as Django's CSRF check is to see it.

    It has a method that is never exempt, and no body, so the token can only be in the header.
    """

    def __init__(self, edge: HttpRequest, session: SessionCopy) -> None:
        super().__init__()
        self.method = "DELETE"
        self.META = {**edge.META}
        self.COOKIES = edge.COOKIES
        self.session = session  # type: ignore[assignment]
        self._edge = edge

    def _get_scheme(self) -> str | None:
        return self._edge.scheme


class _CsrfCheck(CsrfViewMiddleware):
    """Django's own check, of which a reason is wanted and no page."""

    def reason(self, request: SessionRequest) -> str | None:
        """Why the request is refused; None where it is good."""
        self.process_request(request)
        refused: Any = self.process_view(request, _never, (), {})
        return None if refused is None else str(refused)

    def _reject(self, request: HttpRequest, reason: str) -> Any:  # noqa: ARG002
        return reason


def _load(key: str) -> dict[str, Any]:
    store: Any = import_module(django_settings.SESSION_ENGINE).SessionStore(key)
    return dict(store.load())


def _never(request: HttpRequest) -> HttpResponse:
    """Stands for the view, which the check does not call."""
    raise NotImplementedError

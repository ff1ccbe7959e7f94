"""The site's own session cookie, for MCP clients that are pages of the site itself."""

import logging
from importlib import import_module
from typing import Any

from django.conf import settings as django_settings
from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import CsrfViewMiddleware

from django_mcp.auth.api_keys import keys_in_query
from django_mcp.auth.base import Authenticator, Head, InvalidToken
from django_mcp.auth.origins import is_own_origin
from django_mcp.core.principal import Principal
from django_mcp.core.server import MCPServer

logger = logging.getLogger("django_mcp")


class SiteSession(Authenticator):
    """Whoever is logged in to the site, called from a page of the site.

    A browser adds the cookie to requests of any page there is, so it is taken only with proof that the page is one of
    the site's own: its ``Origin`` (``Sec-Fetch-Site`` where there is none), and Django's CSRF token in the header
    ``X-CSRFToken``. Both are wanted of every method: a GET opens a stream, a DELETE ends a session.

    Nobody is logged in or out by a call, and the session lives no longer for it. A request with another credential is
    not for this authenticator, whatever cookies it has.
    """

    def authenticate(self, head: Head, server: MCPServer) -> Principal | None:  # noqa: ARG002
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


def has_other_credential(head: Head) -> bool:
    """Whether the request is to be judged by something else than its cookies."""
    return bool({"authorization", "x-api-key"} & head.headers.keys()) or bool(keys_in_query(head.query))


def is_same_origin(head: Head) -> bool:
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

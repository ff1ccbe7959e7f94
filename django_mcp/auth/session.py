"""Authentication with the session cookie, for MCP clients on the site's own pages (origin: RFC 6454)."""

import logging
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings as django_settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore as DatabaseStore
from django.core.exceptions import SuspiciousOperation
from django.core.signals import setting_changed
from django.db import DataError, router
from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import CsrfViewMiddleware
from django.utils import timezone

from django_mcp.auth.api_keys import keys_in_query
from django_mcp.auth.base import BaseAuthentication, InvalidToken, RequestHead
from django_mcp.auth.protected_resource import canonical
from django_mcp.conf import settings
from django_mcp.core.principal import Principal
from django_mcp.core.server import MCPServer

logger = logging.getLogger("django_mcp")

_THIS_MACHINE = ("localhost", "127.0.0.1", "[::1]")


def sign_in(user: Any) -> Any:
    """Return a new session, not saved yet, in which a user is signed in, without the signals of a login."""
    session = import_module(django_settings.SESSION_ENGINE).SessionStore()
    session[SESSION_KEY] = user._meta.pk.value_to_string(user)  # noqa: SLF001 - as login() does
    session[BACKEND_SESSION_KEY] = django_settings.AUTHENTICATION_BACKENDS[0]
    session[HASH_SESSION_KEY] = user.get_session_auth_hash() if hasattr(user, "get_session_auth_hash") else ""
    return session


@lru_cache(maxsize=1024)
def is_own_origin(origin: str, host: str, *, secure: bool) -> bool:
    """Return True for the origin of ``BASE_URL`` or, without that setting, of the request's host.

    Host and Origin also agree in DNS rebinding, so the host must be listed in ``ALLOWED_HOSTS``, not matched by "*".

    Args:
        origin: the Origin header.
        host: host and port, already checked against ``ALLOWED_HOSTS``.
    """
    if settings.BASE_URL:
        return origin in own_origins(settings.BASE_URL)
    # With "*" in ALLOWED_HOSTS the Host header proves nothing.
    if "*" in django_settings.ALLOWED_HOSTS or not host:
        return False
    return origin == f"{'https' if secure else 'http'}://{host}"


def own_origins(base_url: str) -> frozenset[str]:
    """Return the origin of *base_url* as browsers write it; for a loopback host, of each of its names."""
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


class _Login:
    """The session of a caller at the time of its call.

    An object, so that the key, which is the credential, is neither in the principal's text nor among its values.
    """

    __slots__ = ("auth_hash", "key")

    def __init__(self, key: str, auth_hash: str) -> None:
        self.key, self.auth_hash = key, auth_hash

    def __deepcopy__(self, memo: object) -> "_Login":
        return self


@dataclass(frozen=True, slots=True)
class SessionPrincipal(Principal):
    """The caller of a session, which open streams look up again.

    Attributes:
        login: None for callers restored without their session, as of a task.
    """

    login: _Login | None = field(default=None, repr=False, compare=False)


class SessionAuthentication(BaseAuthentication):
    """The logged-in user, in calls from the site's own pages.

    Browsers add the cookie to requests of any page. Proof of the site's own is required for every method: its
    ``Origin`` (or ``Sec-Fetch-Site``), and Django's CSRF token in ``X-CSRFToken``.

    Calls do not log in or out, and do not extend the session. Requests with another credential are left to other
    classes.
    """

    def authenticate(self, head: RequestHead, server: MCPServer) -> Principal | None:  # noqa: ARG002
        """Return the logged-in user, or None.

        Raises:
            InvalidToken: the request may come from another site's page.
        """
        from django.contrib.auth import get_user  # noqa: PLC0415 - not installed on every site

        if "cookie" not in head.headers or has_other_credential(head):
            return None
        django_request = head.get_django_request()
        key = django_request.COOKIES.get(django_settings.SESSION_COOKIE_NAME)
        if not key:
            return None
        if not is_same_origin(head):
            raise InvalidToken
        request = SessionRequest(django_request, SessionCopy(_load(key)))
        if reason := _CsrfCheck(_never).reason(request):
            logger.warning("Session cookie rejected: %s", reason)
            raise InvalidToken
        user: Any = get_user(request)
        if not user.is_authenticated or not user.is_active:
            return None
        return SessionPrincipal(kind="session", id=str(user.pk), user=user, login=_Login(key, _auth_hash(user)))

    def find_ended(self, principals: Sequence[Principal], server: MCPServer) -> Iterable[Principal]:  # noqa: ARG002
        from django.contrib.auth import get_user_model  # noqa: PLC0415 - not installed on every site

        callers = [principal for principal in principals if principal.kind == "session"]
        mine = [(principal, getattr(principal, "login", None)) for principal in callers]
        if not mine:
            return []
        model: Any = get_user_model()
        # A replica may not know yet of the new password.
        everybody = model._default_manager.using(router.db_for_write(model))  # noqa: SLF001
        users = everybody.filter(pk__in={principal.user.pk for principal, _ in mine})
        hashes = {user.pk: _auth_hash(user) for user in users}
        live = _live_keys({login.key for _, login in mine if login is not None})
        return [
            principal
            for principal, login in mine
            if hashes.get(principal.user.pk) != (_auth_hash(principal.user) if login is None else login.auth_hash)
            or (login is not None and login.key not in live)
        ]


def has_other_credential(head: RequestHead) -> bool:
    return bool({"authorization", "x-api-key"} & head.headers.keys()) or bool(keys_in_query(head.query))


def is_same_origin(head: RequestHead) -> bool:
    """Return True if the browser names a page of this site as origin (Fetch Metadata, section 2.3)."""
    origin = head.headers.get("origin")
    if origin is None:
        return head.headers.get("sec-fetch-site") == "same-origin"
    return is_own_origin(origin, head.host, secure=head.secure())


class SessionCopy(dict[str, Any]):
    """A read-only copy of a session.

    After a password change ``get_user`` flushes the session or cycles its key, but no cookie can be set here.
    """

    def cycle_key(self) -> None:
        """Do nothing."""

    def flush(self) -> None:
        self.clear()


class SessionRequest(HttpRequest):
    """A request for Django's CSRF check: never exempt, and without a body, so the token must be in the header."""

    def __init__(self, request: HttpRequest, session: SessionCopy) -> None:
        super().__init__()
        # Django's CSRF check skips safe methods.
        self.method = "DELETE"
        self.META = {**request.META}
        self.COOKIES = request.COOKIES
        self.session = session  # type: ignore[assignment]
        self._request = request

    def _get_scheme(self) -> str | None:
        return self._request.scheme


class _CsrfCheck(CsrfViewMiddleware):
    """Django's CSRF check, with a reason instead of a page."""

    def reason(self, request: SessionRequest) -> str | None:
        self.process_request(request)
        refused: Any = self.process_view(request, _never, (), {})
        return None if refused is None else str(refused)

    def _reject(self, request: HttpRequest, reason: str) -> Any:  # noqa: ARG002
        return reason


def _auth_hash(user: Any) -> str:
    return str(user.get_session_auth_hash()) if hasattr(user, "get_session_auth_hash") else ""


def _live_keys(keys: AbstractSet[str]) -> AbstractSet[str]:
    """Return the keys of sessions that have not ended: with one query if they are rows, else each from its store."""
    store = import_module(django_settings.SESSION_ENGINE).SessionStore
    found: set[str] = set()
    if keys and issubclass(store, DatabaseStore):
        rows = store.get_model_class()._default_manager.filter(session_key__in=keys, expire_date__gt=timezone.now())  # noqa: SLF001
        found.update(rows.values_list("session_key", flat=True))
    # The store decides about the others: it may know sessions that are no rows.
    return found | {key for key in keys - found if _load(key)}


def _load(key: str) -> dict[str, Any]:
    store: Any = import_module(django_settings.SESSION_ENGINE).SessionStore(key)
    try:
        return dict(store.load())
    except (DataError, SuspiciousOperation, ValueError):  # no key of this site: cookies may contain NUL, as "\\000"
        return {}


def _never(request: HttpRequest) -> HttpResponse:
    # It stands in for the view, which is not called.
    raise NotImplementedError

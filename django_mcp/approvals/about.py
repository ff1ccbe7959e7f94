"""What is said about a ticket to people and programs: where it is decided, and who asks."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings as site
from django.core.exceptions import SuspiciousOperation
from django.http import HttpRequest
from django.shortcuts import resolve_url
from django.urls import NoReverseMatch, Resolver404, get_script_prefix, resolve, reverse, set_script_prefix
from django.utils import translation

from django_mcp.conf import settings
from django_mcp.models import Approval

PAGE = "admin:django_mcp_approval_change"
REQUESTER_PAGE = "django_mcp_approvals:requester"


def page_url(approval: Approval, request: HttpRequest | None = None) -> str:
    """The absolute address of the page on which a ticket is decided; "" where there is none, or none is known.

    It opens nothing: whoever follows it has to sign in, and to hold the permission.

    Args:
        approval: the ticket.
        request: from which the site's address is taken where there is no ``BASE_URL``.
    """
    try:
        return _absolute(page_path(approval, request), request)
    except (NoReverseMatch, AttributeError, SuspiciousOperation):  # no admin, no ROOT_URLCONF, a host that is not ours
        return ""


def page_path(approval: Approval, request: HttpRequest | None = None) -> str:
    """Return the path of the page on which a ticket is decided.

    Raises:
        NoReverseMatch: the site has no admin.
    """
    with _addresses(request):
        return reverse(PAGE, args=[approval.pk])


def requester_url(approval: Approval, request: HttpRequest | None = None) -> str:
    """Return the absolute URL of the page that is shown to the user who made a call; see ``admin.approvals.requester``.

    It leads approvers on to the page on which the call is decided. The URL of that page is returned where the caller is
    no user, or the site does not serve the requester's page or has no login page to reach it through.

    Args:
        approval: the ticket.
        request: the request from which the site's address is taken where there is no ``BASE_URL``.
    """
    url = page_url(approval, request)
    if not url or approval.user_id is None:
        return url
    try:
        with _addresses(request):
            _check_login_page()
            path = reverse(REQUESTER_PAGE, kwargs={"endpoint": approval.server, "ticket": approval.ticket})
        return _absolute(path, request)
    except (NoReverseMatch, Resolver404):
        return url


def _check_login_page() -> None:
    """Raise NoReverseMatch or Resolver404 if ``LOGIN_URL`` names no page of this site, and no other site."""
    parts = urlsplit(resolve_url(site.LOGIN_URL))
    if not parts.netloc:
        resolve("/" + parts.path.removeprefix(get_script_prefix()).lstrip("/"))


@contextmanager
def _addresses(request: HttpRequest | None) -> Iterator[None]:
    """Reverse names for people: in the site's language, below the path of its host at which the site is.

    Django knows that path only in the main thread, and in threads in which its own handler serves a request.
    """
    before = get_script_prefix()
    below = site.FORCE_SCRIPT_NAME or ("" if request is None else request.META.get("SCRIPT_NAME"))
    with translation.override(_site_language()):
        try:
            set_script_prefix(below or before)
            yield
        finally:
            set_script_prefix(before)


def _absolute(path: str, request: HttpRequest | None) -> str:
    if settings.BASE_URL:
        return settings.BASE_URL + path
    return "" if request is None else request.build_absolute_uri(path)


def _site_language() -> str:
    """Return the site's language as ``LANGUAGES`` has it: under ``i18n_patterns`` there are no pages in any other."""
    try:
        return translation.get_supported_language_variant(site.LANGUAGE_CODE)
    except LookupError:
        return str(site.LANGUAGES[0][0])


def requester(approval: Approval) -> str:
    """Who asks: the user's name, or what else is known of the caller."""
    if approval.user is not None:
        return approval.user.get_username()
    return " ".join(filter(None, (approval.principal_kind, approval.principal_id)))


def client(approval: Approval) -> str:
    """Through what they ask, as it says of itself."""
    said: Any = approval.client
    if isinstance(said, Mapping):
        said = " ".join(str(said[key]) for key in ("name", "version") if said.get(key))
    return str(said or approval.client_id)

"""What is said about a ticket to people and programs: where it is decided, and who asks."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from django.conf import settings as site
from django.core.exceptions import SuspiciousOperation
from django.http import HttpRequest
from django.urls import NoReverseMatch, get_script_prefix, reverse, set_script_prefix
from django.utils import translation

from django_mcp.conf import settings
from django_mcp.models import Approval

PAGE = "admin:django_mcp_approval_change"


def page_url(approval: Approval, request: HttpRequest | None = None) -> str:
    """The absolute address of the page on which a ticket is decided; "" where there is none, or none is known.

    It opens nothing: whoever follows it has to sign in, and to hold the permission.

    Args:
        approval: the ticket.
        request: from which the site's address is taken where there is no ``BASE_URL``.
    """
    try:
        with _addresses(request):
            path = reverse(PAGE, args=[approval.pk])
        if settings.BASE_URL:
            return settings.BASE_URL + path
        return "" if request is None else request.build_absolute_uri(path)
    except (NoReverseMatch, AttributeError, SuspiciousOperation):  # no admin, no ROOT_URLCONF, a host that is not ours
        return ""


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

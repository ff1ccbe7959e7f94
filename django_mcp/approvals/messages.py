"""Messages about an approval request: to models, programs and people, with its page.

The words say where a person decides, and nothing that would let the caller decide itself.
"""

import datetime
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings as site
from django.core.exceptions import SuspiciousOperation
from django.http import HttpRequest
from django.shortcuts import resolve_url
from django.urls import NoReverseMatch, Resolver404, get_script_prefix, resolve, reverse, set_script_prefix
from django.utils import timezone, translation

from django_mcp.conf import settings
from django_mcp.core.context import Context
from django_mcp.models import Approval
from django_mcp.primitives.base import ToolError
from django_mcp.protocol.jsonrpc import Result
from django_mcp.protocol.meta import APPROVAL

PAGE = "admin:django_mcp_approval_change"
REQUESTER_PAGE = "django_mcp_approvals:requester"


def page_url(approval: Approval, request: HttpRequest | None = None) -> str:
    """Return the absolute URL of the page on which a request is decided; "" if there is none, or none is known.

    It opens nothing: whoever follows it has to sign in, and to hold the permission.

    Args:
        approval: the approval request.
        request: from which the site's address is taken where there is no ``BASE_URL``.
    """
    try:
        return _absolute(page_path(approval, request), request)
    except (NoReverseMatch, AttributeError, SuspiciousOperation):  # no admin, no ROOT_URLCONF, a host that is not ours
        return ""


def page_path(approval: Approval, request: HttpRequest | None = None) -> str:
    """Return the path of the page on which an approval request is decided.

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
        approval: the approval request.
        request: the request from which the site's address is taken where there is no ``BASE_URL``.
    """
    url = page_url(approval, request)
    if not url or approval.user_id is None:
        return url
    try:
        with _addresses(request):
            _check_login_page()
            path = reverse(REQUESTER_PAGE, kwargs={"endpoint": approval.server, "approval_id": approval.public_id})
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


REQUIRED, PENDING, DENIED, EXPIRED = "approval_required", "pending", "denied", "expired"
"""Kinds. The first is for a call that nobody had asked about, the second for one that was made again."""

AGAIN = "Once it is approved, make exactly the same call again, and it runs."


class NotApproved(ToolError):
    """A call that does not run.

    Args:
        kind: see above.
        text: for the model.
        approval: its approval request, where it has one.
        url: of the page where it is decided.
    """

    is_of_package = True

    def __init__(self, kind: str, text: str, approval: Approval | None = None, url: str = "") -> None:
        super().__init__(text)
        told: dict[str, Any] = {"kind": kind}
        if approval is not None:
            told["approval_id"] = approval.public_id
        self.meta = {APPROVAL: {**told, "url": url} if url else told}


def url_of(context: Context, approval: Approval) -> str:
    """The page where its caller sees what becomes of it, and approvers are led to decide; empty where there is none."""
    return requester_url(approval, context.request)


def waits(context: Context, approval: Approval, kind: str) -> Result:
    """For a call that was not decided while its client could wait."""
    url = url_of(context, approval)
    where = f" This page shows its state, and takes them to where they decide: {url}" if url else ""
    text = (
        f"This call of {approval.tool} was not run: a person with the right to do so has to approve it first. "
        f"It is on their list as approval request {approval.public_id}.{where}\n{AGAIN} "
        f"{waits_until(approval)}"
    )
    told = NotApproved(kind, text, approval, url)
    return Result({"content": [{"type": "text", "text": text}], "isError": True, "_meta": told.meta})


def waits_until(approval: Approval) -> str:
    """Until when it can be approved, in UTC; the moments of a site without ``USE_TZ`` are in its own time zone."""
    expires = approval.expires
    if timezone.is_naive(expires):
        expires = timezone.make_aware(expires)
    return f"It waits until {expires.astimezone(datetime.UTC):%Y-%m-%d %H:%M} UTC."


def short(context: Context, approval: Approval) -> str:
    """For whoever waits meanwhile."""
    url = url_of(context, approval)
    return f"Waits for approval: {url}" if url else "Waits for approval."


def denied(approval: Approval) -> NotApproved:
    """For a call that somebody refused."""
    reason = f" They say: {approval.reason}" if approval.reason else ""
    text = f"This call was refused by the person who was asked to approve it.{reason} Do not make it again as it is."
    return NotApproved(DENIED, text, approval)


def expired(approval: Approval | None = None) -> NotApproved:
    """For a call that nobody approved in time, or that was approved and is good no longer."""
    text = "This call was not run: nobody approved it in time, or its approval is good no longer."
    return NotApproved(EXPIRED, text, approval)


def anonymous() -> NotApproved:
    """Return the error for a caller who has not signed in: the next such caller could use an approval of theirs."""
    text = (
        "This call was not run: a person has to approve it, and a call can be approved only for a caller who is signed "
        "in. Sign in, or use a credential of your own, and make it again."
    )
    return NotApproved(DENIED, text)


def used() -> NotApproved:
    """For a call whose approval somebody else used up at this very moment."""
    return NotApproved(EXPIRED, "This call was not run: its approval was used up by another call like it.")


def moved(approval: Approval, argument: str) -> NotApproved:
    """Return the error for a call that came to be about another row, by an argument or without, after its approval."""
    what = f"argument {argument!r}" if argument else "it"
    text = (
        f"This call was not run: {what} means another row now than when it was approved. Look which one you mean, and "
        "make the call again for a new approval."
    )
    return NotApproved(EXPIRED, text, approval)

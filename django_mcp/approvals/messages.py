"""Messages and URLs about approval requests, for models, clients and people.

A message links to the page of the decision. It contains nothing with which callers could approve their own calls.
"""

import datetime
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings as site
from django.http import HttpRequest
from django.shortcuts import resolve_url
from django.urls import get_script_prefix, resolve, reverse, set_script_prefix
from django.utils import timezone, translation

from django_mcp.approvals.approvers import is_decided_by_requester
from django_mcp.conf import settings
from django_mcp.core.context import Context
from django_mcp.core.principal import display_name
from django_mcp.models import Approval
from django_mcp.primitives.base import ToolError
from django_mcp.protocol.jsonrpc import Result
from django_mcp.protocol.meta import APPROVAL

PAGE = "admin:django_mcp_approval_change"
REQUESTER_PAGE = "django_mcp_approvals:requester"


def page_url(approval: Approval, request: HttpRequest | None = None) -> str:
    """Return the absolute URL of the page that decides a request, or "" if the site has no such page or address.

    The URL grants no access: the page requires a login and the permission. *request* gives the site's address if
    ``BASE_URL`` is not set.
    """
    try:
        return _absolute(page_path(approval, request), request)
    except Exception:  # noqa: BLE001 - no admin, no ROOT_URLCONF, a host that is not ours, patterns without reverse
        return ""


def page_path(approval: Approval, request: HttpRequest | None = None) -> str:
    """Return the path of the page that decides an approval request.

    Raises:
        NoReverseMatch: the site has no admin.
    """
    with _addresses(request):
        return reverse(PAGE, args=[approval.pk])


def requester_url(approval: Approval, request: HttpRequest | None = None) -> str:
    """Return the absolute URL of the requester's status page, which redirects approvers to the decision.

    Return ``page_url`` instead if the caller is not a user, or if the site serves no requester page or login page.
    """
    url = page_url(approval, request)
    if not url or approval.user_id is None:
        return url
    try:
        with _addresses(request):
            _check_login_page()
            path = reverse(REQUESTER_PAGE, kwargs={"endpoint": approval.server, "approval_id": approval.public_id})
        return _absolute(path, request)
    except Exception:  # noqa: BLE001 - likewise
        return url


def _check_login_page() -> None:
    """Raise NoReverseMatch or Resolver404 if ``LOGIN_URL`` names no page of this site and no other host."""
    parts = urlsplit(resolve_url(site.LOGIN_URL))
    if not parts.netloc:
        resolve("/" + parts.path.removeprefix(get_script_prefix()).lstrip("/"))


@contextmanager
def _addresses(request: HttpRequest | None) -> Iterator[None]:
    # Django sets the prefix only in the main thread and in threads of its own request handler.
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
    try:
        return translation.get_supported_language_variant(site.LANGUAGE_CODE)
    except LookupError:
        # i18n_patterns serves only what LANGUAGES lists.
        return str(site.LANGUAGES[0][0])


def requester(approval: Approval) -> str:
    if approval.user is not None:
        return display_name(approval.user)
    return " ".join(filter(None, (approval.principal_kind, approval.principal_id)))


def client(approval: Approval) -> str:
    reported: Any = approval.client
    if isinstance(reported, Mapping):
        reported = " ".join(str(reported[key]) for key in ("name", "version") if reported.get(key))
    return str(reported or approval.client_id)


REQUIRED, PENDING, DENIED, EXPIRED = "approval_required", "pending", "denied", "expired"
"""Values of ``kind`` in ``_meta``: a new request, a repeated call, a denied one, an expired one."""

AGAIN = "Once it is approved, repeat exactly the same call to run it."


class NotApproved(ToolError):
    """Error of a call that lacks an approval, with one of the kinds above and the URL of the status page."""

    is_of_package = True

    def __init__(self, kind: str, text: str, approval: Approval | None = None, url: str = "") -> None:
        super().__init__(text)
        meta: dict[str, Any] = {"kind": kind}
        if approval is not None:
            meta["approval_id"] = approval.public_id
        self.meta = {APPROVAL: {**meta, "url": url} if url else meta}


def page_url_of(context: Context, approval: Approval) -> str:
    return requester_url(approval, context.request)


def pending_result(context: Context, approval: Approval, kind: str) -> Result:
    url = page_url_of(context, approval)
    where = f" Status page, which takes approvers to the decision: {url}" if url else ""
    whose = "a person with permission to approve it"
    if is_decided_by_requester(approval):
        whose = "the user you act for, in the site's admin with their browser, or by another person with permission"
    text = (
        f"{approval.tool} was not run: this call requires approval by {whose}. "
        f"Approval request {approval.public_id} is pending.{where}\n{AGAIN} "
        f"{pending_text(approval)}"
    )
    error = NotApproved(kind, text, approval, url)
    return Result({"content": [{"type": "text", "text": text}], "isError": True, "_meta": error.meta})


def pending_text(approval: Approval) -> str:
    expires = approval.expires
    # Without USE_TZ, stored times are in the site's time zone.
    if timezone.is_naive(expires):
        expires = timezone.make_aware(expires)
    return f"The request expires at {expires.astimezone(datetime.UTC):%Y-%m-%d %H:%M} UTC."


def short_text(context: Context, approval: Approval) -> str:
    url = page_url_of(context, approval)
    return f"Waiting for approval: {url}" if url else "Waiting for approval."


def denied(approval: Approval) -> NotApproved:
    reason = f" Reason: {approval.reason}" if approval.reason else ""
    text = f"An approver denied this call. Do not retry it unchanged.{reason}"
    return NotApproved(DENIED, text, approval)


def expired(approval: Approval | None = None) -> NotApproved:
    text = (
        "This call was not run: its approval request expired, or its approval is no longer valid. Call again to "
        "request a new approval."
    )
    return NotApproved(EXPIRED, text, approval)


def anonymous() -> NotApproved:
    # Any other anonymous caller could use its approval.
    text = (
        "This call was not run: it requires approval, and only calls of authenticated callers can be approved. Sign in "
        "or use a credential of your own, then retry."
    )
    return NotApproved(DENIED, text)


def used() -> NotApproved:
    text = "This call was not run: an identical call used its approval. Call again to request a new approval."
    return NotApproved(EXPIRED, text)


def moved(approval: Approval, argument: str) -> NotApproved:
    """Return the error of a call that addresses another row than was approved.

    *argument* is "" if no argument names the row.
    """
    what = f"argument {argument!r}" if argument else "it"
    text = (
        f"This call was not run: {what} now refers to a different row than the one approved. Check which row you "
        "mean, then call again to request a new approval."
    )
    return NotApproved(EXPIRED, text, approval)


def changed(approval: Approval) -> NotApproved:
    text = (
        "This call was not run: what it would change is not what was approved any more, as the row or rows that depend "
        "on it have changed. Read it again, then call again to request a new approval."
    )
    return NotApproved(EXPIRED, text, approval)

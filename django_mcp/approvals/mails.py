"""E-mails: what is asked, and where it is decided. None of them has a link that decides."""

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from django.contrib.auth import get_backends
from django.core import mail
from django.core.mail import DNS_NAME, EmailMessage
from django.template.loader import render_to_string

from django_mcp.approvals.about import client, page_url, requester
from django_mcp.approvals.approvers import APPROVE, may_approve
from django_mcp.conf import settings
from django_mcp.core.redaction import redact, redacted, visible
from django_mcp.models import Approval, Notice

APPROVERS = "approvers"
"""Among the addresses: those of whoever may decide."""
SECONDS = 10
"""For each answer of the mail server, where the site has no ``EMAIL_TIMEOUT``."""
LONGEST_NAME, LONGEST_TEXT, MOST_LINES = 100, 3000, 60


def approvers(approval: Approval) -> list[str]:
    """Addresses of all active users who may decide, each once. The requester's only where they may do so themselves."""
    found = {address.casefold(): address for address in map(_address, _who_may(approval)) if address}
    if approval.user is not None and not settings.SELF_APPROVAL:
        found.pop(_address(approval.user).casefold(), None)
    return list(found.values())


def _who_may(approval: Approval) -> Iterator[Any]:
    for backend in get_backends():
        for user in backend.with_perm(APPROVE) if hasattr(backend, "with_perm") else ():
            # The page is in the admin.
            is_able = getattr(user, "is_staff", True) and may_approve(user, approval.server)
            if is_able and (user.pk != approval.user_id or settings.SELF_APPROVAL):
                yield user


def _address(user: Any) -> str:
    return str(getattr(user, user.get_email_field_name(), None) or "")


def send(notice: Notice) -> None:
    """Send one.

    Raises:
        Exception: whatever the site's mail backend raises.
    """
    context = _context(notice.approval)
    subject = render_to_string("django_mcp/approvals/notice_subject.txt", context)
    message = EmailMessage(
        subject=_line(subject, 2 * LONGEST_NAME),
        body=render_to_string("django_mcp/approvals/notice.txt", context),
        to=[notice.target],
        headers={"Auto-Submitted": "auto-generated", "Message-ID": _message_id(notice)},
    )
    _connection().send_messages([message])


def _connection() -> Any:
    """To the mail server. A silent one would be waited for, for ever."""
    mailers: Any = getattr(mail, "mailers", None)  # since Django 6.1, which deprecates the other
    connection: Any = mail.get_connection() if mailers is None else mailers.default
    if getattr(connection, "timeout", SECONDS) is None:
        connection.timeout = SECONDS
    return connection


def _message_id(notice: Notice) -> str:
    """The same each time it is tried, so that one that comes twice is known."""
    host = urlsplit(settings.BASE_URL or "").hostname or DNS_NAME
    return f"<{notice.approval.ticket}.{notice.pk}@{host}>"


def _context(approval: Approval) -> dict[str, Any]:
    return {
        "tool": _line(approval.tool),
        "endpoint": _line(approval.server),
        "requester": _line(requester(approval)),
        "client": _line(client(approval)),
        "arguments": _quoted(redacted(None, approval.arguments, longest=None, whole=None)),
        "preview": _quoted(redacted(None, approval.preview, longest=None, whole=None)) if approval.preview else "",
        "expires": approval.expires,
        "ticket": approval.ticket,
        "url": page_url(approval),
    }


def _line(text: str, longest: int = LONGEST_NAME) -> str:
    """One line, whatever it was, for it may be a header."""
    line = visible(" ".join(text.split()))
    return line if len(line) <= longest else line[: longest - 1] + "…"


def _quoted(value: Any) -> str:
    """A text or a JSON value, shortened. The mark before each line says that it came with the call."""
    text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True)
    lines = visible(redact(text)[:LONGEST_TEXT]).split("\n")
    shown = [f"> {line}" for line in lines[:MOST_LINES]]
    if len(text) > LONGEST_TEXT or len(lines) > MOST_LINES:
        shown.append("> …")
    return "\n".join(shown)

"""What a caller reads of an approval: for programs a kind, a ticket and a page; for models and people, words.

The words say where a person decides, and nothing that would let the caller decide itself.
"""

import datetime
from typing import Any

from django.utils import timezone

from django_mcp.approvals.about import requester_url
from django_mcp.core.context import Context
from django_mcp.models import Approval
from django_mcp.primitives.tool import ToolError
from django_mcp.protocol.jsonrpc import Result
from django_mcp.protocol.meta import APPROVAL

REQUIRED, PENDING, DENIED, EXPIRED = "approval_required", "pending", "denied", "expired"
"""Kinds. The first is for a call that nobody had asked about, the second for one that was made again."""

AGAIN = "Once it is approved, make exactly the same call again, and it runs."


class NotApproved(ToolError):
    """A call that does not run.

    Args:
        kind: see above.
        text: for the model.
        approval: its ticket, where it has one.
        url: of the page where it is decided.
    """

    is_of_package = True

    def __init__(self, kind: str, text: str, approval: Approval | None = None, url: str = "") -> None:
        super().__init__(text)
        told: dict[str, Any] = {"kind": kind}
        if approval is not None:
            told["ticket"] = approval.ticket
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
        f"It is on their list as ticket {approval.ticket}.{where}\n{AGAIN} "
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

"""Telling people and programs that a call waits for approval.

Whoever makes a ticket only writes down who is to be told. They are told in the background, by whatever process.
"""

from urllib.parse import urlsplit

from django.db import router, transaction
from django.utils import timezone

from django_mcp.approvals.background import sender
from django_mcp.approvals.sending import EMAIL, WEBHOOK, deliver_due
from django_mcp.conf import settings
from django_mcp.models import Approval, Notice

__all__ = ["deliver_due", "make", "wake"]


def make(approval: Approval) -> None:
    """Have everybody told whom the settings name. Called in the transaction that makes the ticket.

    Args:
        approval: a new ticket, which is pending.
    """
    now = timezone.now()
    notices = [Notice(approval=approval, kind=kind, target=target, next_attempt=now) for kind, target in _targets()]
    if notices:
        Notice.objects.bulk_create(notices)
        # Robust: the ticket is there, whether or not a thread can be started.
        transaction.on_commit(sender.begin, using=router.db_for_write(Notice), robust=True)


def wake() -> None:
    """Have notices delivered that were left by processes that ended. Cheap; called wherever tickets are looked at."""
    if _targets():
        sender.look()


def _targets() -> list[tuple[str, str]]:
    addresses = {each.casefold(): each for each in settings.APPROVAL_EMAILS}
    found = [(EMAIL, each) for each in addresses.values()]
    if settings.APPROVAL_WEBHOOK:
        found.append((WEBHOOK, _host(settings.APPROVAL_WEBHOOK)))
    return found


def _host(url: str) -> str:
    """Where it goes. The rest of such an address is a secret with many receivers, and is read from the settings."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"[:500]

"""Deleting what has expired."""

import datetime
from collections.abc import Callable, Mapping
from typing import Any

from django.db.models import QuerySet
from django.utils import timezone

from django_mcp.conf import settings
from django_mcp.models import Approval, Call, Event, Session, StandingApproval, Step, Task, ToolCall

MODELS: Mapping[str, Any] = {"sessions": Session, "calls": Call, "events": Event, "steps": Step, "tasks": Task}
CHUNK = 900
"""Rows that are deleted in one transaction, with those that depend on them."""
Note = Callable[[str, int, int], None]
"""Hears of a kind how many are deleted by now, and how many there were."""


def clear(most: int | None = None, note: Note | None = None) -> Mapping[str, int]:
    """Delete expired rows, with those that depend on them; how many of each kind.

    Args:
        most: rows of each kind, the longest expired first; None for all.
        note: hears how far it is, again and again. Without it nothing is counted beforehand.
    """
    now = timezone.now()
    deleted: dict[str, int] = {}
    for kind, model in MODELS.items():
        deleted[kind] = _delete(kind, model.objects.filter(expires__lt=now), "expires", most, note)
    deleted["logged calls"] = clear_log(most, note)
    deleted["approvals"] = clear_approvals(most, note)
    return deleted


def clear_log(most: int | None = None, note: Note | None = None) -> int:
    """Delete calls from the log that are older than ``DJANGO_MCP["CALL_LOG_DAYS"]``; how many.

    Args:
        most: the oldest ones that are deleted; None for all.
        note: see ``clear``.
    """
    if settings.CALL_LOG_DAYS is None:
        return 0
    end = timezone.now() - datetime.timedelta(days=settings.CALL_LOG_DAYS)
    return _delete("logged calls", ToolCall.objects.filter(called__lt=end), "called", most, note)


def clear_approvals(most: int | None = None, note: Note | None = None) -> int:
    """Delete approvals that are over, ``DJANGO_MCP["APPROVAL_LOG_DAYS"]`` after their time was up; how many.

    Args:
        most: that are deleted; None for all.
        note: see ``clear``.
    """
    if settings.APPROVAL_LOG_DAYS is None:
        return 0
    end = timezone.now() - datetime.timedelta(days=settings.APPROVAL_LOG_DAYS)
    over = [Approval.State.DENIED, Approval.State.EXPIRED, Approval.State.CONSUMED]
    old = Approval.objects.filter(state__in=over, expires__lt=end)
    count = _delete("approvals", old, "expires", most, note)
    StandingApproval.objects.filter(expires__lt=end, approvals=None).delete()
    return count


def _delete(kind: str, old: QuerySet[Any], order: str, most: int | None, note: Note | None) -> int:
    """Delete rows, some at a time: what is written meanwhile does not wait for all of them, and few are in memory.

    Args:
        kind: what they are.
        old: which ones. What is not one of them any more when its turn comes stays.
        order: the field by which the oldest are the first.
        most: of them; None for all.
        note: see ``clear``.
    """
    count, total = 0, old.count() if note is not None else 0
    while keys := list(old.order_by(order).values_list("pk", flat=True)[: _room(most, count)]):
        old.filter(pk__in=keys).delete()
        count += len(keys)
        if note is not None:
            note(kind, count, total)
    return count


def _room(most: int | None, count: int) -> int:
    return CHUNK if most is None else min(CHUNK, most - count)

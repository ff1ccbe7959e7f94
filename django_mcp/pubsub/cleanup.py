"""Deletion of expired rows: sessions, calls, events, steps, tasks, log entries and approvals."""

import datetime
from collections.abc import Callable, Mapping
from typing import Any

from django.db.models import QuerySet
from django.utils import timezone

from django_mcp.conf import settings
from django_mcp.models import (
    Approval,
    AutoApprovalRule,
    Call,
    Event,
    RequestLog,
    Session,
    Step,
    Task,
)
from django_mcp.pubsub.event_store import assign_positions

MODELS: Mapping[str, Any] = {"sessions": Session, "calls": Call, "events": Event, "steps": Step, "tasks": Task}
CHUNK_SIZE = 900
"""Rows per transaction of a deletion."""
Note = Callable[[str, int, int], None]
"""Called with kind, number of deleted rows, and total."""


def clear(most: int | None = None, note: Note | None = None) -> Mapping[str, int]:
    """Delete expired rows, and return the number of each kind.

    Args:
        most: maximum per kind, oldest first; None for all.
        note: progress callback. Without it the total is not counted.
    """
    assign_positions()  # which renews events that no stream has read; without streams nothing else does
    now = timezone.now()
    deleted: dict[str, int] = {}
    for kind, model in MODELS.items():
        deleted[kind] = _delete(kind, model.objects.filter(expires__lt=now), "expires", most, note)
    deleted["logged calls"] = clear_log(most, note)
    deleted["approvals"] = clear_approvals(most, note)
    return deleted


def clear_log(most: int | None = None, note: Note | None = None) -> int:
    """Delete request log entries older than ``REQUEST_LOG_DAYS``, and return how many.

    Args:
        most: maximum number, oldest first; None for all.
        note: see ``clear``.
    """
    if settings.REQUEST_LOG_DAYS is None:
        return 0
    end = timezone.now() - datetime.timedelta(days=settings.REQUEST_LOG_DAYS)
    return _delete("logged calls", RequestLog.objects.filter(started_at__lt=end), "started_at", most, note)


def clear_approvals(most: int | None = None, note: Note | None = None) -> int:
    """Delete approvals that ended and expired ``APPROVAL_LOG_DAYS`` ago, and return how many.

    Args:
        most: maximum number; None for all.
        note: see ``clear``.
    """
    if settings.APPROVAL_LOG_DAYS is None:
        return 0
    end = timezone.now() - datetime.timedelta(days=settings.APPROVAL_LOG_DAYS)
    over = [Approval.State.DENIED, Approval.State.EXPIRED, Approval.State.CONSUMED]
    old = Approval.objects.filter(state__in=over, expires__lt=end)
    count = _delete("approvals", old, "expires", most, note)
    AutoApprovalRule.objects.filter(expires__lt=end, approvals=None).delete()
    return count


def _delete(kind: str, old: QuerySet[Any], order: str, most: int | None, note: Note | None) -> int:
    count, total = 0, old.count() if note is not None else 0
    # Deleted in chunks, so that concurrent writes wait only briefly and memory is limited.
    while keys := list(old.order_by(order).values_list("pk", flat=True)[: _room(most, count)]):
        # The condition is repeated: a row may have been renewed since its key was read.
        old.filter(pk__in=keys).delete()
        count += len(keys)
        if note is not None:
            note(kind, count, total)
    return count


def _room(most: int | None, count: int) -> int:
    return CHUNK_SIZE if most is None else min(CHUNK_SIZE, most - count)

"""Deleting what has expired."""

import datetime
from collections.abc import Mapping

from django.utils import timezone

from django_mcp.conf import settings
from django_mcp.models import Approval, Call, Event, Session, StandingApproval, Step, Task, ToolCall

MODELS = (Session, Call, Event, Step, Task)
CHUNK = 900
"""Calls of the log that are deleted in one transaction."""


def clear(most: int | None = None) -> Mapping[str, int]:
    """Delete expired rows, with those that depend on them; how many of each kind.

    Args:
        most: rows of each kind, the longest expired first; None for all.
    """
    deleted: dict[str, int] = {}
    for model in MODELS:
        expired = model.objects.filter(expires__lt=timezone.now())
        if most is not None:
            expired = model.objects.filter(pk__in=list(expired.order_by("expires").values_list("pk", flat=True)[:most]))
        deleted[str(model._meta.verbose_name_plural)] = expired.count()  # noqa: SLF001 - Django's documented API
        expired.delete()
    deleted["logged calls"] = clear_log(most)
    deleted["approvals"] = clear_approvals(most)
    return deleted


def clear_log(most: int | None = None) -> int:
    """Delete calls from the log that are older than ``DJANGO_MCP["CALL_LOG_DAYS"]``; how many.

    Some at a time: what is logged meanwhile does not wait for all of them.

    Args:
        most: the oldest ones that are deleted; None for all.
    """
    if settings.CALL_LOG_DAYS is None:
        return 0
    old = ToolCall.objects.filter(called__lt=timezone.now() - datetime.timedelta(days=settings.CALL_LOG_DAYS))
    count = 0
    while keys := list(old.order_by("called").values_list("pk", flat=True)[: _room(most, count)]):
        ToolCall.objects.filter(pk__in=keys).delete()
        count += len(keys)
    return count


def clear_approvals(most: int | None = None) -> int:
    """Delete approvals that are over, ``DJANGO_MCP["APPROVAL_LOG_DAYS"]`` after their time was up; how many.

    Args:
        most: that are deleted; None for all.
    """
    if settings.APPROVAL_LOG_DAYS is None:
        return 0
    end = timezone.now() - datetime.timedelta(days=settings.APPROVAL_LOG_DAYS)
    over = [Approval.State.DENIED, Approval.State.EXPIRED, Approval.State.CONSUMED]
    old = Approval.objects.filter(state__in=over, expires__lt=end)
    count = 0
    while keys := list(old.order_by("expires").values_list("pk", flat=True)[: _room(most, count)]):
        Approval.objects.filter(pk__in=keys).delete()
        count += len(keys)
    StandingApproval.objects.filter(expires__lt=end, approvals=None).delete()
    return count


def _room(most: int | None, count: int) -> int:
    return CHUNK if most is None else min(CHUNK, most - count)

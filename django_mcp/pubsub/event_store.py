"""Stored events, in the order of their primary key under topics, and deleting expired ones."""

import datetime
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from django.db.models import Max, Q, QuerySet
from django.utils import timezone

from django_mcp.conf import settings
from django_mcp.core import database
from django_mcp.models import Approval, AutoApprovalRule, Call, Event, RequestLog, Session, Step, Task
from django_mcp.pubsub.notify import ring

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
    return _delete("logged calls", RequestLog.objects.filter(started_at__lt=end), "started_at", most, note)


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
    AutoApprovalRule.objects.filter(expires__lt=end, approvals=None).delete()
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


LOOK_BACK_SECONDS = 5
"""How late an entry may become visible: keys are handed out before the transactions that use them commit."""
LOOK_BACK = 1000
"""The same in entries."""
MOST = 1000
"""Entries read at once."""


class Entry(NamedTuple):
    """One entry as readers see it."""

    id: int
    topic: str
    data: str


def append(entries: Iterable[tuple[str, str]]) -> list[int]:
    """Write ``(topic, data)`` pairs, and ring when they are committed.

    Returns:
        their ids, ascending.
    """
    now = timezone.now()
    expires = now + datetime.timedelta(seconds=settings.ELICITATION_TTL)
    rows = [Event(topic=topic, data=data, created=now, expires=expires) for topic, data in entries]
    if database.own_connection().features.can_return_rows_from_bulk_insert:
        Event.objects.bulk_create(rows)
    else:
        for row in rows:
            row.save()
    database.on_commit(ring)
    return [row.pk for row in rows]


def newest() -> int:
    """The id of the newest entry; 0 for none."""
    return Event.objects.aggregate(newest=Max("id"))["newest"] or 0


def since(position: int, topics: Collection[str] | None) -> list[Entry]:
    """Entries of *topics*, or all, after *position*, and some before it that may have become visible late."""
    recent = timezone.now() - datetime.timedelta(seconds=LOOK_BACK_SECONDS)
    # One bound for both: an index is not entered by an "or", and may be walked from its beginning.
    wanted = Q(id__gt=position - LOOK_BACK) & (Q(id__gt=position) | Q(created__gt=recent))
    return _entries(wanted, topics, LOOK_BACK + MOST)  # or after many entries there was no room for what is new


def after(position: int, topics: Sequence[str]) -> list[Entry]:
    """All entries of *topics* after *position*."""
    found: list[Entry] = []
    while True:
        page = _entries(Q(id__gt=position), topics, MOST)
        found += page
        if len(page) < MOST:
            return found
        position = page[-1].id


def latest(position: int, topics: Sequence[str]) -> list[Entry]:
    """Return the last ``MOST`` entries of *topics* after *position*, which a client chooses."""
    rows = Event.objects.filter(id__gt=position, topic__in=topics).order_by("-id").values_list("id", "topic", "data")
    return [Entry(*row) for row in reversed(rows[:MOST])]


def _entries(wanted: Q, topics: Collection[str] | None, most: int) -> list[Entry]:
    if topics is not None:
        wanted &= Q(topic__in=topics)
    rows = Event.objects.filter(wanted).order_by("id").values_list("id", "topic", "data")
    return [Entry(*row) for row in rows[:most]]

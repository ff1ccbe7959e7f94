"""Stored events, in order of primary key, and deletion of expired rows."""

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
"""Rows per transaction of a deletion."""
Note = Callable[[str, int, int], None]
"""Called with kind, number of deleted rows, and total."""


def clear(most: int | None = None, note: Note | None = None) -> Mapping[str, int]:
    """Delete expired rows, and return the number of each kind.

    Args:
        most: maximum per kind, oldest first; None for all.
        note: progress callback. Without it the total is not counted.
    """
    now = timezone.now()
    deleted: dict[str, int] = {}
    for kind, model in MODELS.items():
        deleted[kind] = _delete(kind, model.objects.filter(expires__lt=now), "expires", most, note)
    deleted["logged calls"] = clear_log(most, note)
    deleted["approvals"] = clear_approvals(most, note)
    return deleted


def clear_log(most: int | None = None, note: Note | None = None) -> int:
    """Delete request log entries older than ``CALL_LOG_DAYS``, and return how many.

    Args:
        most: maximum number, oldest first; None for all.
        note: see ``clear``.
    """
    if settings.CALL_LOG_DAYS is None:
        return 0
    end = timezone.now() - datetime.timedelta(days=settings.CALL_LOG_DAYS)
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
    """Delete in chunks: concurrent writes wait only briefly, and memory is limited.

    Args:
        old: the rows. One that no longer matches when its chunk is deleted stays.
        order: the field that orders rows by age.
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
"""How late an event may become visible: keys are assigned before commit."""
LOOK_BACK = 1000
"""The same in events."""
MOST = 1000
"""Events per read."""


class Entry(NamedTuple):
    """A stored event."""

    id: int
    topic: str
    data: str


def append(entries: Iterable[tuple[str, str]]) -> list[int]:
    """Store ``(topic, data)`` pairs, and notify after commit.

    Returns:
        the ids, ascending.
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
    """Return the id of the newest event, or 0."""
    return Event.objects.aggregate(newest=Max("id"))["newest"] or 0


def since(position: int, topics: Collection[str] | None) -> list[Entry]:
    """Return events after *position*, and earlier ones that may have become visible late."""
    recent = timezone.now() - datetime.timedelta(seconds=LOOK_BACK_SECONDS)
    # The common bound lets the database use the index, which an OR alone would not.
    wanted = Q(id__gt=position - LOOK_BACK) & (Q(id__gt=position) | Q(created__gt=recent))
    return _entries(wanted, topics, LOOK_BACK + MOST)  # room for new events after those of the look-back


def after(position: int, topics: Sequence[str]) -> list[Entry]:
    """Return all events of *topics* after *position*."""
    found: list[Entry] = []
    while True:
        page = _entries(Q(id__gt=position), topics, MOST)
        found += page
        if len(page) < MOST:
            return found
        position = page[-1].id


def latest(position: int, topics: Sequence[str]) -> list[Entry]:
    """Return the last ``MOST`` events after *position*; limited, because clients choose *position*."""
    rows = Event.objects.filter(id__gt=position, topic__in=topics).order_by("-id").values_list("id", "topic", "data")
    return [Entry(*row) for row in reversed(rows[:MOST])]


def _entries(wanted: Q, topics: Collection[str] | None, most: int) -> list[Entry]:
    if topics is not None:
        wanted &= Q(topic__in=topics)
    rows = Event.objects.filter(wanted).order_by("id").values_list("id", "topic", "data")
    return [Entry(*row) for row in rows[:most]]

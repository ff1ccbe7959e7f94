"""The log: entries under topics, in the order of their primary key. The truth; the bell only says that it grew."""

import datetime
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from django.db.models import Max, Q
from django.utils import timezone

from django_mcp.conf import settings
from django_mcp.core import database
from django_mcp.live.bell import ring
from django_mcp.models import Event

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
    expires = now + datetime.timedelta(seconds=settings.INPUT_SECONDS)
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

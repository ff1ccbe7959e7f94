"""Stored events and their exact order."""

import datetime
import time
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from django.db import OperationalError
from django.db.models import Exists, F, Min, Q, QuerySet
from django.utils import timezone

from django_mcp.conf import settings
from django_mcp.core import database
from django_mcp.models import (
    Event,
    EventSequence,
)
from django_mcp.pubsub.notify import notify_readers

CHUNK_SIZE = 900
"""Rows per statement or transaction."""
MAX_READ = 1000
"""Events per read."""
SEQUENCE = 1
"""Primary key of the only row of ``EventSequence``."""
RETURNING = ("postgresql", "sqlite")
"""Databases whose ``UPDATE`` has ``RETURNING`` where ``INSERT`` has."""


class Entry(NamedTuple):
    """A stored event. ``id`` is its position."""

    id: int
    topic: str
    data: str


class Page(NamedTuple):
    """Events in their order.

    Attributes:
        position: where to read on.
        is_whole: False if there are more, or may be soon.
    """

    entries: list[Entry]
    position: int
    is_whole: bool


# Writing


def append(entries: Iterable[tuple[str, str]]) -> None:
    """Store ``(topic, data)`` pairs in the open transaction, if any, and notify after commit.

    Readers give them their positions, so writers do not wait for each other, and a transaction may be of any length.
    """
    # SQLite has one writer at a time, which this transaction is until its commit: the positions cost no waiting.
    if database.own_connection().vendor == "sqlite":
        append_numbered(entries)
        return
    # Without positions: giving one would hold a lock until the end of the transaction, for which all other writers
    # wait.
    Event.objects.bulk_create(_rows(entries))
    database.on_commit(notify_readers)


@database.retry_conflicts
def append_numbered(entries: Iterable[tuple[str, str]]) -> list[int]:
    """``append``, and return the positions, ascending.

    Others who give positions wait until the transaction ends: use it at the end of short transactions.
    """
    rows = _rows(entries)
    with database.atomic(savepoint=False):
        last = _lock(len(rows))
        positions = list(range(last - len(rows) + 1, last + 1))
        for row, position in zip(rows, positions, strict=True):
            row.position = position
        Event.objects.bulk_create(rows)
    # Readers that were woken before the commit would find nothing, and sleep.
    database.on_commit(notify_readers)
    return positions


def _rows(entries: Iterable[tuple[str, str]]) -> list[Event]:
    now, expires = timezone.now(), _expiry()
    return [Event(topic=topic, data=data, created=now, expires=expires) for topic, data in entries]


def _expiry() -> datetime.datetime:
    return timezone.now() + datetime.timedelta(seconds=settings.ELICITATION_TTL)


# Positions


def assign_positions() -> bool:
    """Give positions to all committed events that have none, in order of primary key.

    Returns:
        False if that could not be done now; try again soon.
    """
    try:
        while _assign_some(may_wait=True) == CHUNK_SIZE:
            pass  # in transactions of their own, for others not to wait for all
    except OperationalError:
        if database.own_connection().in_atomic_block:
            raise
        return False
    return True


def _assign_now() -> bool:
    # False means that events are left, or that another process is numbering them.
    try:
        count = _assign_some(may_wait=False)
    except OperationalError:  # another process writes for longer than the database waits
        if database.own_connection().in_atomic_block:
            raise
        return False
    return count is not None and count < CHUNK_SIZE


@database.retry_conflicts
def _assign_some(*, may_wait: bool) -> int | None:
    # None means that another process is numbering events.
    with database.atomic():
        if not may_wait and _is_locked():
            return None
        # The lock comes first. What is visible after it was committed before all that gets a later position. Until
        # the commit no other process gives positions, so a reader who sees one sees all before it.
        last = _lock()
        unnumbered = Event.objects.filter(position=None).order_by("pk")
        keys = list(unnumbered.values_list("pk", flat=True)[:CHUNK_SIZE])
        if keys:
            shift = last + 1 - keys[0]
            # By primary key: with another condition MariaDB would wait for rows of open transactions. Keys that are
            # missing leave gaps between positions, which do no harm.
            # They live from now on: a transaction may have been open for longer than its events live.
            Event.objects.filter(pk__in=keys).update(position=F("pk") + shift, expires=_expiry())
            _sequence().update(last=keys[-1] + shift)
        return len(keys)


def _lock(count: int = 0) -> int:
    # An UPDATE locks on every database. SQLite rejects the write of a transaction that began with a SELECT.
    last = _move(count)
    if last is None:
        # The time, so that positions still ascend if the tables were emptied: streams and clients remember positions.
        EventSequence.objects.get_or_create(pk=SEQUENCE, defaults={"last": int(time.time() * 1_000_000)})
        last = _move(count)
        assert last is not None  # noqa: S101
    return last


def _move(count: int) -> int | None:
    # None means that the row of the sequence does not exist yet.
    connection = database.own_connection()
    if connection.vendor not in RETURNING or not connection.features.can_return_columns_from_insert:
        is_there = _sequence().update(last=F("last") + count)
        return _sequence().values_list("last", flat=True).get() if is_there else None
    # One statement instead of two, and a tenth of the ORM's time: each message of a call in a session passes here.
    table, last, key = map(connection.ops.quote_name, (EventSequence._meta.db_table, "last", "id"))  # noqa: SLF001
    with connection.cursor() as cursor:
        cursor.execute(
            f"UPDATE {table} SET {last} = {last} + %s WHERE {key} = %s RETURNING {last}",  # noqa: S608 - names of ours
            [count, SEQUENCE],
        )
        row = cursor.fetchone()
    return None if row is None else int(row[0])


def _is_locked() -> bool:
    # If the lock is free, this takes it. Without SKIP LOCKED it cannot be tried.
    if not database.own_connection().features.has_select_for_update_skip_locked:
        return False
    return not list(_sequence().select_for_update(skip_locked=True).values_list("pk")) and _sequence().exists()


def _sequence() -> "QuerySet[EventSequence]":
    return EventSequence.objects.filter(pk=SEQUENCE)


def _state() -> tuple[int, bool]:
    # This is one query once the sequence exists.
    unnumbered = Event.objects.filter(position=None)
    found = _sequence().annotate(is_behind=Exists(unnumbered)).values_list("last", "is_behind").first()
    return (0, unnumbered.exists()) if found is None else found


# Reading


def newest() -> int:
    """Return the position of the newest event, or 0."""
    last, is_behind = _state()
    if is_behind and assign_positions():
        last, _ = _state()
    return last


def position_at(moment: datetime.datetime) -> int:
    """Return a position before all events stored since a minute before *moment*, for clocks that differ."""
    assign_positions()
    recent = Event.objects.filter(created__gte=moment - datetime.timedelta(minutes=1))
    first: int | None = recent.aggregate(first=Min("position"))["first"]
    return newest() if first is None else first - 1


def since(position: int | None, topics: Collection[str] | None) -> Page:
    """Return the next events of *topics* after *position*, without waiting for other processes.

    Args:
        position: None to begin after the newest.
        topics: None for all.
    """
    last, is_behind = _state()
    is_whole = True
    if is_behind:
        is_whole = _assign_now()
        last, _ = _state()
    # A position from before a failover that lost transactions would be beyond the last.
    position = last if position is None else min(position, last)
    if position == last:
        return Page([], last, is_whole)
    entries = _entries(Q(position__gt=position), topics, MAX_READ)
    if len(entries) == MAX_READ:
        return Page(entries, entries[-1].id, is_whole=False)
    # Some may have got positions after *last* was read.
    return Page(entries, max(last, entries[-1].id) if entries else last, is_whole)


def after(position: int, topics: Sequence[str]) -> list[Entry]:
    _assign_for(topics)
    found: list[Entry] = []
    while True:
        page = _entries(Q(position__gt=position), topics, MAX_READ)
        found += page
        if len(page) < MAX_READ:
            return found
        position = page[-1].id


def latest(position: int, topics: Sequence[str]) -> list[Entry]:
    _assign_for(topics)
    # Limited to MAX_READ, because clients choose the position.
    rows = Event.objects.filter(position__gt=position, topic__in=topics).order_by("-position")[:MAX_READ]
    return _read(rows)[::-1]


def _assign_for(topics: Sequence[str]) -> None:
    if Event.objects.filter(topic__in=topics, position=None).exists():
        assign_positions()


def _entries(wanted: Q, topics: Collection[str] | None, most: int) -> list[Entry]:
    if topics is not None:
        wanted &= Q(topic__in=topics)
    return _read(Event.objects.filter(wanted).order_by("position")[:most])


def _read(events: "QuerySet[Event]") -> list[Entry]:
    found = events.values_list("position", "topic", "data")
    return [Entry(position, topic, data) for position, topic, data in found if position is not None]

"""Time in bins, for databases to group by: with a division, and no function of a time zone for each row."""

import calendar
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

from django.db.models import BigIntegerField, Case, FloatField, Func, Value, When
from django.db.models.functions import Floor
from django.utils import timezone

DAY = 86_400
"""In seconds."""


def edges_of(count: int, seconds: int) -> list[datetime]:
    """When each of the last *count* bins began; this moment is in the last one.

    Bins of a day begin at midnight by the clock of the current time zone, and some have 23 or 25 hours. Others have all
    one length, and the last of them begins at a round time of that clock.
    """
    now = _local_now()
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    if seconds == DAY:
        return [_stored(midnight - timedelta(days=back)) for back in reversed(range(count))]
    since = (now.replace(tzinfo=None) - midnight.replace(tzinfo=None)).total_seconds()
    last = now.replace(microsecond=0) - timedelta(seconds=int(since % seconds))
    return [_stored(last) - timedelta(seconds=seconds * back) for back in reversed(range(count))]


def _local_now() -> datetime:
    now = timezone.now()
    return timezone.localtime(now) if timezone.is_aware(now) else now


def _stored(edge: datetime) -> datetime:
    """In UTC, where differences are what has passed; or as it is, at sites without time zones."""
    return edge if edge.tzinfo is None else edge.astimezone(UTC)


def bin_of(edges: Sequence[datetime], column: str) -> Any:
    """The number of the bin in which the time in *column* lies, as an expression."""
    size = _size(edges)
    since = Epoch(column) - Value(calendar.timegm(edges[0].utctimetuple())) + _put_right(edges, size, column)
    return Floor(since / Value(float(size)), output_field=FloatField())


def _size(edges: Sequence[datetime]) -> int:
    """How many seconds most bins have."""
    gaps = sorted((after - before).total_seconds() for before, after in pairwise(edges))
    return int(gaps[len(gaps) // 2]) if gaps else DAY


def _put_right(edges: Sequence[datetime], size: int, column: str) -> Any:
    """What to add to the seconds since the first edge, for clocks that were changed since."""
    shifts, shift = [], 0
    for at, edge in enumerate(edges):
        missing = size * at - int((edge - edges[0]).total_seconds())
        if missing != shift:
            shift = missing
            # The last hour of a long day is put right too.
            since = min(edge, edges[at - 1] + timedelta(seconds=size))
            shifts.append(When(**{f"{column}__gte": since}, then=Value(shift)))
    return Case(*reversed(shifts), default=Value(0), output_field=BigIntegerField()) if shifts else Value(0)


def within(number: float, edges: Sequence[datetime]) -> int:
    """The bin of that number. What lies ahead, by another machine's clock, belongs to the last."""
    return max(0, min(int(number), len(edges) - 1))


class Epoch(Func):
    """Whole seconds since 1970, which Django has no function for."""

    output_field = BigIntegerField()
    template = "FLOOR(EXTRACT(EPOCH FROM %(expressions)s))"

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:
        """Times are text there."""
        template = "CAST(strftime('%%%%s', %(expressions)s) AS INTEGER)"
        return self.as_sql(compiler, connection, template=template, **context)

    def as_postgresql(self, compiler: Any, connection: Any, **context: Any) -> Any:
        """Where ``EXTRACT`` makes a number of any length, which is slow."""
        template = "FLOOR(DATE_PART('epoch', %(expressions)s))"
        return self.as_sql(compiler, connection, template=template, **context)

    def as_mysql(self, compiler: Any, connection: Any, **context: Any) -> Any:
        """Of what is stored, whatever zone the connection has."""
        template = "TIMESTAMPDIFF(SECOND, '1970-01-01', %(expressions)s)"
        return self.as_sql(compiler, connection, template=template, **context)

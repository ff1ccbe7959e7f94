"""Aggregates of the request log, computed by the database: time bins, duration histograms and totals."""

import calendar
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

from django.db.models import BigIntegerField, Case, CharField, Count, F, FloatField, Func, Max, Q, QuerySet, Value, When
from django.db.models.functions import Concat, Floor, Greatest, Ln
from django.utils import timezone

from django_mcp.audit.outcomes import FAILED, FAILURES, GROUPS
from django_mcp.models import RequestLog

DAY = 86_400
"""Seconds of a day."""


def edges_of(count: int, seconds: int) -> list[datetime]:
    """Return the start of each of the last *count* bins; the last bin contains the current time.

    Bins of a day start at local midnight, so some have 23 or 25 hours. Others have a fixed length, and the last one
    starts at a round local time.
    """
    now = _local_now()
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    if seconds == DAY:
        return [_as_stored(midnight - timedelta(days=back)) for back in reversed(range(count))]
    since = (now.replace(tzinfo=None) - midnight.replace(tzinfo=None)).total_seconds()
    last = now.replace(microsecond=0) - timedelta(seconds=int(since % seconds))
    return [_as_stored(last) - timedelta(seconds=seconds * back) for back in reversed(range(count))]


def _local_now() -> datetime:
    now = timezone.now()
    return timezone.localtime(now) if timezone.is_aware(now) else now


def _as_stored(edge: datetime) -> datetime:
    return edge if edge.tzinfo is None else edge.astimezone(UTC)


def bin_of(edges: Sequence[datetime], column: str) -> Any:
    """Return an expression for the index of the bin that contains the time in *column*."""
    size = _bin_size(edges)
    since = Epoch(column) - Value(calendar.timegm(edges[0].utctimetuple())) + _clock_shift(edges, size, column)
    return Floor(since / Value(float(size)), output_field=FloatField())


def _bin_size(edges: Sequence[datetime]) -> int:
    gaps = sorted((after - before).total_seconds() for before, after in pairwise(edges))
    return int(gaps[len(gaps) // 2]) if gaps else DAY


def _clock_shift(edges: Sequence[datetime], size: int, column: str) -> Any:
    """Return an expression for the seconds to add because of clock changes since the first edge."""
    shifts, shift = [], 0
    for at, edge in enumerate(edges):
        missing = size * at - int((edge - edges[0]).total_seconds())
        if missing != shift:
            shift = missing
            # Includes the last hour of a day with 25 hours.
            since = min(edge, edges[at - 1] + timedelta(seconds=size))
            shifts.append(When(**{f"{column}__gte": since}, then=Value(shift)))
    return Case(*reversed(shifts), default=Value(0), output_field=BigIntegerField()) if shifts else Value(0)


def within(number: float, edges: Sequence[datetime]) -> int:
    # By another machine's clock, times may be in the future. They count in the last bin.
    return max(0, min(int(number), len(edges) - 1))


class Epoch(Func):
    """Whole seconds since 1970."""

    output_field = BigIntegerField()
    template = "FLOOR(EXTRACT(EPOCH FROM %(expressions)s))"

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:
        # SQLite stores times as text.
        template = "CAST(strftime('%%%%s', %(expressions)s) AS INTEGER)"
        return self.as_sql(compiler, connection, template=template, **context)

    def as_postgresql(self, compiler: Any, connection: Any, **context: Any) -> Any:
        # EXTRACT returns numeric, which is slow.
        template = "FLOOR(DATE_PART('epoch', %(expressions)s))"
        return self.as_sql(compiler, connection, template=template, **context)

    def as_mysql(self, compiler: Any, connection: Any, **context: Any) -> Any:
        # TIMESTAMPDIFF ignores the time zone of the connection.
        template = "TIMESTAMPDIFF(SECOND, '1970-01-01', %(expressions)s)"
        return self.as_sql(compiler, connection, template=template, **context)


FACTOR = 1.1
"""Ratio of one duration class to the next, which bounds the relative error of quantiles."""
SHORTEST = 0.01
"""Minimum duration in milliseconds, as 0 has no logarithm."""


def class_of(column: str) -> Any:
    longer = Greatest(F(column), Value(SHORTEST), output_field=FloatField())
    return Floor(Ln(longer) / Value(math.log(FACTOR)), output_field=FloatField())


def quantile(counts: Mapping[int, int], share: float) -> float | None:
    """Return the duration below which a share (such as 0.95) of the durations lies, or None if there are none.

    *counts* is the number of durations by class.
    """
    wanted, before = share * sum(counts.values()), 0
    for number, count in sorted(counts.items()):
        if before + count >= wanted:
            return float(FACTOR ** (number + (wanted - before) / count))
        before += count
    return None


Tool = tuple[str, str]
"""Endpoint and name."""
Client = tuple[str, str]
"""Self-reported name and version."""

OF_TOOLS = Q(method="tools/call")
RAN = Q(outcome__in=(*GROUPS["ok"].outcomes, *FAILED.outcomes))

_BIN, _OUTCOME, _SHIFT = 10_000, 1000, 100
"""Factors and offset that pack bin, outcome and duration class into one number."""

MAX_GROUPS = 50_000
"""Maximum groups read. Names come from callers, who may send a new one with each call."""


@dataclass
class ToolStatistics:
    """Calls of a tool; ``failed`` are errors and crashes, and ``per_day`` ends with today."""

    calls: int = 0
    failed: int = 0
    denied: int = 0
    last_call: datetime | None = None
    per_day: list[int] = field(default_factory=list)


def tool_statistics(days: int = 30) -> dict[Tool, ToolStatistics]:
    """Return the statistics of each called tool for the last *days* days, including today. One query."""
    edges = edges_of(days, DAY)
    rows = (
        RequestLog.objects.filter(OF_TOOLS, started_at__gte=edges[0])
        .values("name", endpoint=unindexed("server"), bin=bin_of(edges, "started_at"))
        .annotate(
            calls=Count("pk"),
            failed=Count("pk", filter=Q(outcome__in=FAILED.outcomes)),
            denied=Count("pk", filter=Q(outcome__in=GROUPS["denied"].outcomes)),
            last=Max("started_at"),
        )
        .order_by("-calls")[:MAX_GROUPS]
    )
    found: dict[Tool, ToolStatistics] = {}
    for row in rows:
        tool = found.setdefault((row["endpoint"], row["name"]), ToolStatistics(per_day=[0] * days))
        tool.calls += row["calls"]
        tool.failed += row["failed"]
        tool.denied += row["denied"]
        tool.last_call = max(tool.last_call or row["last"], row["last"])
        tool.per_day[within(row["bin"], edges)] += row["calls"]
    return found


@dataclass
class Tally:
    """Numbers of calls by key of ``GROUPS``, and of tool calls by duration class."""

    groups: Counter[str] = field(default_factory=Counter)
    durations: Counter[int] = field(default_factory=Counter)

    def add(self, number: int, calls: int) -> None:
        """Add calls with the outcome and duration class packed in *number*."""
        group, lasted = divmod(number, _OUTCOME)
        self.groups[list(GROUPS)[group]] += calls
        if lasted:
            self.durations[lasted - _SHIFT] += calls

    @property
    def calls(self) -> int:
        return self.groups.total()

    @property
    def failures(self) -> int:
        return sum(self.groups[group] for group in FAILURES)

    @property
    def error_rate(self) -> float:
        return self.failures / self.calls if self.calls else 0.0

    @property
    def median(self) -> float | None:
        # In milliseconds.
        return quantile(self.durations, 0.5)

    @property
    def p95(self) -> float | None:
        # In milliseconds.
        return quantile(self.durations, 0.95)


@dataclass
class Activity:
    """Calls in a period: in each bin, by tool, and by client and protocol version."""

    edges: Sequence[datetime]
    bins: list[Tally]
    tools: dict[Tool, Tally] = field(default_factory=dict)
    clients: dict[Client, Counter[str]] = field(default_factory=dict)

    @property
    def total(self) -> Tally:
        found = Tally()
        for bin_ in self.bins:
            found.groups += bin_.groups
            found.durations += bin_.durations
        return found


def activity(edges: Sequence[datetime], server: str = "") -> Activity:
    """Return the calls since the first of *edges*, at one endpoint or all, with three queries."""
    since = RequestLog.objects.filter(started_at__gte=edges[0], **({"server": server} if server else {}))
    found, number = Activity(edges, [Tally() for _ in edges]), _group_number()
    for row in _count_calls(since, number=number + bin_of(edges, "started_at") * Value(float(_BIN))):
        at, rest = divmod(int(row["number"]), _BIN)
        found.bins[within(at, edges)].add(rest, row["calls"])
    for row in _count_calls(since.filter(OF_TOOLS), "name", endpoint=unindexed("server"), number=number):
        found.tools.setdefault((row["endpoint"], row["name"]), Tally()).add(int(row["number"]), row["calls"])
    for row in _count_calls(since, "client_name", "client_version", "protocol"):
        client = row["client_name"], row["client_version"]
        found.clients.setdefault(client, Counter())[row["protocol"]] += row["calls"]
    return found


def _group_number() -> Any:
    # Grouping by one number takes half the time of grouping by two.
    outcomes = [
        When(outcome__in=group.outcomes, then=Value(float(_OUTCOME * at))) for at, group in enumerate(GROUPS.values())
    ]
    other = Value(float(_OUTCOME * list(GROUPS).index("other")))
    lasted = When(OF_TOOLS & RAN, then=class_of("duration") + Value(float(_SHIFT)))
    return Case(*outcomes, default=other, output_field=FloatField()) + Case(
        lasted, default=Value(0.0), output_field=FloatField()
    )


def _count_calls(rows: QuerySet[RequestLog], *columns: str, **expressions: Any) -> Any:
    return rows.values(*columns, **expressions).annotate(calls=Count("pk")).order_by("-calls")[:MAX_GROUPS]


def unindexed(column: str) -> Any:
    # SQLite's planner would follow the column's index, and read the whole log row by row.
    return Concat(F(column), Value(""), output_field=CharField())

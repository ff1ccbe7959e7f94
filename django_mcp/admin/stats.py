"""Aggregates of the request log: time bins, duration histograms, statistics. The database counts."""

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

from django_mcp.models import RequestLog

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


FACTOR = 1.1
"""From one class to the next. A quantile is wrong by less than that; in practice by some hundredths."""
SHORTEST = 0.01
"""In milliseconds. Nothing has no logarithm."""


def class_of(column: str) -> Any:
    """The number of a duration's class, as an expression."""
    longer = Greatest(F(column), Value(SHORTEST), output_field=FloatField())
    return Floor(Ln(longer) / Value(math.log(FACTOR)), output_field=FloatField())


def quantile(counts: Mapping[int, int], share: float) -> float | None:
    """What that share of the durations does not exceed; None where there are no durations.

    Args:
        counts: how many there are of each class.
        share: such as 0.95.
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
"""Name and version, as it says itself."""

_O = RequestLog.Outcome
GROUPS: dict[str, tuple[str, ...]] = {
    "ok": (_O.OK,),
    "error": (_O.ERROR, _O.FAILED, _O.TIMED_OUT),
    "denied": (_O.DENIED,),
    "waiting": (_O.WAITING,),
    "other": (_O.ASKED, _O.TASK, _O.CANCELLED),
}
"""Outcomes, as far as they are told apart here."""
OF_TOOLS = Q(method="tools/call")
RAN = Q(outcome__in=(*GROUPS["ok"], *GROUPS["error"]))

_BIN, _OUTCOME, _SHIFT = 10_000, 1000, 100
"""What bins and outcomes are multiplied with, and what is added to classes of durations, to be one number together."""

MAX_GROUPS = 50_000
"""That are read. Names come from callers, and somebody may think of a new one for each call."""


@dataclass
class ToolStatistics:
    """A tool's calls.

    Attributes:
        calls: how many there were, whatever came of them.
        errors: those that failed or took too long.
        denied: those that were not let through.
        last_call: when.
        per_day: how many on each day, today at the end.
    """

    calls: int = 0
    errors: int = 0
    denied: int = 0
    last_call: datetime | None = None
    per_day: list[int] = field(default_factory=list)


def tool_statistics(days: int = 30) -> dict[Tool, ToolStatistics]:
    """Each tool's calls in so many days, today being one of them. One query; tools without a call are left out."""
    edges = edges_of(days, DAY)
    rows = (
        RequestLog.objects.filter(OF_TOOLS, started_at__gte=edges[0])
        .values("name", endpoint=unindexed("server"), bin=bin_of(edges, "started_at"))
        .annotate(
            calls=Count("pk"),
            errors=Count("pk", filter=Q(outcome__in=GROUPS["error"])),
            denied=Count("pk", filter=Q(outcome__in=GROUPS["denied"])),
            last=Max("started_at"),
        )
        .order_by("-calls")[:MAX_GROUPS]
    )
    found: dict[Tool, ToolStatistics] = {}
    for row in rows:
        tool = found.setdefault((row["endpoint"], row["name"]), ToolStatistics(per_day=[0] * days))
        tool.calls += row["calls"]
        tool.errors += row["errors"]
        tool.denied += row["denied"]
        tool.last_call = max(tool.last_call or row["last"], row["last"])
        tool.per_day[within(row["bin"], edges)] += row["calls"]
    return found


@dataclass
class Tally:
    """Calls that belong together.

    Attributes:
        groups: how many there are of each of ``GROUPS``.
        durations: how many of each class, of tools that ran.
    """

    groups: Counter[str] = field(default_factory=Counter)
    durations: Counter[int] = field(default_factory=Counter)

    def add(self, number: int, calls: int) -> None:
        """So many calls of the outcome and duration that are in *number*."""
        group, lasted = divmod(number, _OUTCOME)
        self.groups[list(GROUPS)[group]] += calls
        if lasted:
            self.durations[lasted - _SHIFT] += calls

    @property
    def calls(self) -> int:
        """All of them."""
        return self.groups.total()

    @property
    def error_rate(self) -> float:
        """Which share failed."""
        return self.groups["error"] / self.calls if self.calls else 0.0

    @property
    def median(self) -> float | None:
        """Of the durations, in milliseconds."""
        return quantile(self.durations, 0.5)

    @property
    def p95(self) -> float | None:
        """What 95 of 100 calls did not take longer than."""
        return quantile(self.durations, 0.95)


@dataclass
class Activity:
    """What went on in a span of time.

    Attributes:
        edges: when each bin began.
        bins: what was called in each.
        tools: what was called of each tool.
        clients: how many calls each made.
        protocols: how many calls each version had.
    """

    edges: Sequence[datetime]
    bins: list[Tally]
    tools: dict[Tool, Tally] = field(default_factory=dict)
    clients: Counter[Client] = field(default_factory=Counter)
    protocols: Counter[str] = field(default_factory=Counter)

    @property
    def total(self) -> Tally:
        """All bins as one."""
        found = Tally()
        for each in self.bins:
            found.groups += each.groups
            found.durations += each.durations
        return found


def activity(edges: Sequence[datetime], server: str = "") -> Activity:
    """What went on since the first of *edges*, at one endpoint or at all, with three queries."""
    since = RequestLog.objects.filter(started_at__gte=edges[0], **({"server": server} if server else {}))
    found, number = Activity(edges, [Tally() for _ in edges]), _number()
    for row in _counted(since, number=number + bin_of(edges, "started_at") * Value(float(_BIN))):
        at, rest = divmod(int(row["number"]), _BIN)
        found.bins[within(at, edges)].add(rest, row["calls"])
    for row in _counted(since.filter(OF_TOOLS), "name", endpoint=unindexed("server"), number=number):
        found.tools.setdefault((row["endpoint"], row["name"]), Tally()).add(int(row["number"]), row["calls"])
    for row in _counted(since, "client_name", "client_version", "protocol"):
        found.clients[row["client_name"], row["client_version"]] += row["calls"]
        found.protocols[row["protocol"]] += row["calls"]
    return found


def _number() -> Any:
    """Outcome and duration of a row. Databases sort one number in half the time that they need for two columns."""
    outcomes = [
        When(outcome__in=outcomes, then=Value(float(_OUTCOME * at))) for at, outcomes in enumerate(GROUPS.values())
    ]
    other = Value(float(_OUTCOME * list(GROUPS).index("other")))
    lasted = When(OF_TOOLS & RAN, then=class_of("duration") + Value(float(_SHIFT)))
    return Case(*outcomes, default=other, output_field=FloatField()) + Case(
        lasted, default=Value(0.0), output_field=FloatField()
    )


def _counted(rows: QuerySet[RequestLog], *columns: str, **expressions: Any) -> Any:
    """The number of rows with the same of all that, the greatest first."""
    return rows.values(*columns, **expressions).annotate(calls=Count("pk")).order_by("-calls")[:MAX_GROUPS]


def unindexed(column: str) -> Any:
    """A column that SQLite does not look for an index of, whose order makes it read the whole log row by row."""
    return Concat(F(column), Value(""), output_field=CharField())

"""The dashboard: figures and charts of the request log over a chosen period."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from itertools import islice
from typing import Any, NamedTuple
from urllib.parse import urlencode

from django.core.cache import cache
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import NoReverseMatch, path, reverse
from django.utils import timezone
from django.utils.formats import date_format, number_format
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext, pgettext

from django_mcp.admin.base import ReadOnlyAdmin
from django_mcp.admin.charts import Axis, Bar, Layer, Mark, Series, bars, lines, sample, stacks, swatch
from django_mcp.admin.stats import DAY, Activity, Tally, Tool, activity, edges_of
from django_mcp.core.redaction import visible
from django_mcp.core.server import servers
from django_mcp.models import Approval

MAX_BARS, MAX_ROWS = 10, 100
"""Maximum bars of a chart, and rows of its table."""
MARKS = 4
"""Maximum labels of a time axis; more do not fit on a phone."""

GROUP_NAMES = {
    "ok": gettext_lazy("OK"),
    "error": gettext_lazy("failed"),
    "denied": gettext_lazy("denied"),
    "waiting": gettext_lazy("pending approval"),
    "other": gettext_lazy("other"),
}


class Figure(NamedTuple):
    """A chart with its table.

    Attributes:
        key: ``id`` in the page.
        columns: headers of the table; the first column names the row.
        legend: swatch, label and total of each series.
        note: sentence below the heading.
        more: number of omitted rows.
    """

    key: str
    title: str
    plot: SafeString
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    legend: Sequence[tuple[SafeString, str, str]] = ()
    note: str = ""
    more: int = 0


def figures(found: Activity, seconds: int) -> list[Figure]:
    """Return the charts that have data; *seconds* is the length of a bin."""
    made = [over_time(found, seconds)]
    if found.total.durations:
        made.append(durations(found, seconds))
    if found.tools:
        made.append(busiest(found))
    if any(tally.durations for tally in found.tools.values()):
        made.append(slowest(found))
    if any(tally.groups["error"] for tally in found.tools.values()):
        made.append(failing(found))
    return [*made, clients(found), protocols(found)]


# Over time


def over_time(found: Activity, seconds: int) -> Figure:
    """Return the chart of calls by outcome."""
    total, key, title = found.total, "calls", _("Calls over time")
    kinds = [kind for kind in GROUP_NAMES if total.groups[kind]] or ["ok"]
    layers = [Layer(kind, str(GROUP_NAMES[kind]), [tally.groups[kind] for tally in found.bins]) for kind in kinds]
    most = max(range(len(found.bins)), key=lambda at: found.bins[at].calls)
    axis = _axis(key, title, found.edges, seconds, count)
    said = _("%(sums)s. Most calls: %(most)s, %(when)s.") % {
        "sums": ", ".join(f"{layer.name}: {count(total.groups[layer.kind])}" for layer in layers),
        "most": count(found.bins[most].calls),
        "when": axis.bins[most],
    }
    rows = [[axis.bins[at], *(count(layer.values[at]) for layer in layers)] for at in range(len(found.bins))]
    return Figure(
        key,
        title,
        stacks(_described(axis, said), layers),
        [_("From"), *(layer.name for layer in layers)],
        rows,
        [(swatch(layer.kind), layer.name, count(total.groups[layer.kind])) for layer in layers],
    )


def durations(found: Activity, seconds: int) -> Figure:
    """Return the chart of median and 95th percentile of tool durations."""
    key, title, total = "durations", _("Tool duration"), found.total
    measures = [
        Series("median", _("median"), [tally.median for tally in found.bins]),
        Series("p95", _("95th percentile"), [tally.p95 for tally in found.bins]),
    ]
    sums = [duration(total.median), duration(total.p95)]
    said = ", ".join(f"{line.name}: {each}" for line, each in zip(measures, sums, strict=True)) + "."
    axis = _axis(key, title, found.edges, seconds, duration)
    rows = [[axis.bins[at], *(duration(line.values[at]) for line in measures)] for at in range(len(found.bins))]
    return Figure(
        key,
        title,
        lines(_described(axis, said), measures),
        [_("From"), *(line.name for line in measures)],
        rows,
        [(sample(line.kind), line.name, each) for line, each in zip(measures, sums, strict=True)],
        note=_("95 of 100 calls are no slower than the 95th percentile."),
    )


def _axis(key: str, title: str, edges: Sequence[datetime], seconds: int, shown: Callable[[float], str]) -> Axis:
    times = [timezone.localtime(edge) if timezone.is_aware(edge) else edge for edge in edges]
    long, short = _formats(seconds, len(edges))
    marks = [Mark(at, date_format(times[at], short)) for at in _marked(times, seconds)]
    return Axis(key, title, "", [date_format(each, long) for each in times], marks, shown)


def _marked(times: Sequence[datetime], seconds: int) -> range:
    """Return the bins with labels: those at midnight if labels are days."""
    step = -(-len(times) // MARKS)
    if seconds == DAY or seconds * len(times) <= 2 * DAY:
        return range(step // 2 if seconds == DAY else 0, len(times), step)
    a_day = DAY // seconds
    midnight = next((at for at, time in enumerate(times) if time.hour * 3600 < seconds), 0)
    return range(midnight, len(times), a_day * -(-step // a_day))


def _formats(seconds: int, bins: int) -> tuple[str, str]:
    """Return the date formats of a bin's full label and of its label on the axis."""
    day = pgettext("a day on an axis, in Django's letters for dates", "j M")
    if seconds == DAY:
        return "DATE_FORMAT", day
    return "DATETIME_FORMAT", day if seconds * bins > 2 * DAY else "TIME_FORMAT"


def _described(axis: Axis, said: str) -> Axis:
    return Axis(axis.key, axis.title, said, axis.bins, axis.marks, axis.shown)


# Tools


def busiest(found: Activity) -> Figure:
    """Return the tools with the most calls."""
    ranked = sorted(found.tools.items(), key=lambda each: (-each[1].calls, each[0]))
    names = named(found.tools)
    rows = [Bar(names[tool], tally.calls, count(tally.calls)) for tool, tally in ranked]
    return _compared("busiest", _("Busiest tools"), "ok", rows, [_("Tool"), _("Calls")])


def slowest(found: Activity) -> Figure:
    """Return the tools with the highest 95th percentile of duration."""
    timed = [(tool, tally.p95 or 0.0, tally.median) for tool, tally in found.tools.items() if tally.durations]
    timed.sort(key=lambda each: (-each[1], each[0]))
    names = named(found.tools)
    rows = [Bar(names[tool], p95, duration(p95), mark=median) for tool, p95, median in timed]
    table = [[row.name, duration(row.mark), row.shown] for row in rows]
    figure = _compared(
        "slowest", _("Slowest tools"), "slow", rows, [_("Tool"), _("median"), _("95th percentile")], table
    )
    return figure._replace(note=_("Bar: 95th percentile. Stroke: median."))


def failing(found: Activity) -> Figure:
    """Return the tools with the highest error rate."""
    failed = [(tool, tally) for tool, tally in found.tools.items() if tally.groups["error"]]
    failed.sort(key=lambda each: (-each[1].error_rate, each[0]))
    names = named(found.tools)
    rows = [Bar(names[tool], tally.error_rate, _rate(tally)) for tool, tally in failed]
    table = [
        [row.name, share(row.value), count(tally.groups["error"]), count(tally.calls)]
        for row, (_tool, tally) in zip(rows, failed, strict=True)
    ]
    columns = [_("Tool"), _("Share"), _("failed"), _("Calls")]
    return _compared("failing", _("Error rate by tool"), "error", rows, columns, table)


def _rate(tally: Tally) -> str:
    return _("%(share)s (%(some)s of %(all)s)") % {
        "share": share(tally.error_rate),
        "some": count(tally.groups["error"]),
        "all": count(tally.calls),
    }


def named(tools: Iterable[Tool]) -> dict[Tool, str]:
    """Return display names of tools, with the endpoint if there are several. Names come from callers: untrusted."""
    tools = list(tools)
    several = len({server for server, _name in tools}) > 1
    return {
        (server, name): visible(f"{name} ({server})" if several else name).replace("\n", " ") for server, name in tools
    }


# Clients


def clients(found: Activity) -> Figure:
    """Return the client versions with the most calls."""
    names = {key: " ".join(filter(None, key)) for key in found.clients}
    return _shares("clients", _("Client versions"), _("Client"), [
        (visible(names[key]) or _("unnamed"), calls) for key, calls in found.clients.most_common()
    ])  # fmt: skip


def protocols(found: Activity) -> Figure:
    """Return the protocol versions by number of calls."""
    return _shares("protocols", _("Protocol versions"), _("Version"), [
        (visible(version) or _("unknown"), calls) for version, calls in found.protocols.most_common()
    ])  # fmt: skip


def _shares(key: str, title: str, what: str, counted: Iterable[tuple[str, int]]) -> Figure:
    counted = list(counted)
    total = sum(calls for _name, calls in counted) or 1
    counted = [(name.replace("\n", " "), calls) for name, calls in counted]
    rows = [Bar(name, calls, f"{count(calls)} · {share(calls / total)}") for name, calls in counted]
    table = [[name, count(calls), share(calls / total)] for name, calls in counted]
    return _compared(key, title, "ok", rows, [what, _("Calls"), _("Share")], table, full=total)


def _compared(
    key: str,
    title: str,
    kind: str,
    rows: Sequence[Bar],
    columns: Sequence[str],
    table: Sequence[Sequence[str]] | None = None,
    full: float = 0,
) -> Figure:
    drawn = rows[:MAX_BARS]
    said = "; ".join(f"{row.name}: {row.shown}" for row in drawn) + "."
    table = [[row.name, row.shown] for row in rows] if table is None else table
    note = ""
    if len(rows) > MAX_BARS:
        note = ngettext("Top %(some)d of %(all)d.", "Top %(some)d of %(all)d.", len(rows)) % {
            "some": MAX_BARS,
            "all": len(rows),
        }
    plot = bars(key, title, said, kind, drawn, full)
    return Figure(key, title, plot, columns, list(islice(table, MAX_ROWS)), (), note, max(0, len(rows) - MAX_ROWS))


# Number formats


def count(value: float) -> str:
    """Format a whole number."""
    return number_format(int(value), use_l10n=True, force_grouping=True)


def share(value: float) -> str:
    """Format a share as a percentage."""
    places = 1 if 0 < value < 0.1 else 0  # noqa: PLR2004 - less than ten percent
    return _("%s %%") % number_format(round(100 * value, places), places, use_l10n=True)


def duration(milliseconds: float | None) -> str:
    """Format a duration in ms or s, with two or three digits."""
    if milliseconds is None:
        return "–"
    value, unit = (milliseconds, _("%s ms")) if milliseconds < 1000 else (milliseconds / 1000, _("%s s"))  # noqa: PLR2004
    places = 1 if value < 10 else 0  # noqa: PLR2004
    return unit % number_format(round(value, places), places, use_l10n=True, force_grouping=True)


class Period(NamedTuple):
    """A period to look back, as *bins* of *seconds*; results are cached for *kept* seconds."""

    name: str
    words: Any
    bins: int
    seconds: int
    kept: int


PERIODS = (
    Period("hour", gettext_lazy("last hour"), 60, 60, 5),
    Period("day", gettext_lazy("24 hours"), 48, 1800, 60),
    Period("week", gettext_lazy("7 days"), 28, 6 * 3600, 60),
    Period("month", gettext_lazy("30 days"), 30, DAY, 300),
    Period("quarter", gettext_lazy("90 days"), 90, DAY, 600),
)
USUAL = PERIODS[1]


class OverviewAdmin(ReadOnlyAdmin):
    """The dashboard, for users who may view the request log."""

    def get_urls(self) -> list[Any]:
        """Return the page, under its own name and under the one that the admin index links to."""
        view = self.admin_site.admin_view(self.overview_view)
        return [path("", view, name=name) for name in ("django_mcp_overview_changelist", "django_mcp_overview")]

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002
        """Allow users who may view the request log."""
        return request.user.has_perm("django_mcp.view_requestlog")

    has_module_permission = has_view_permission

    def overview_view(self, request: HttpRequest) -> HttpResponse:
        """Render the dashboard.

        Raises:
            PermissionDenied: the user may not view the request log.
        """
        if not self.has_view_permission(request):
            raise PermissionDenied
        request.current_app = self.admin_site.name
        period = next((each for each in PERIODS if each.name == request.GET.get("period")), USUAL)
        server = request.GET.get("endpoint", "")
        server = server if server in {each.name for each in servers()} else ""
        found, then = _kept(period, server)
        context = {
            **self.admin_site.each_context(request),
            "title": capfirst(self.opts.verbose_name_plural),
            "opts": self.opts,
            "period": period,
            "then": then,
            "periods": [(each.words, _query(each, server), each is period) for each in PERIODS],
            "endpoints": _endpoints(period, server),
            "facts": _facts(found),
            "waiting": self._waiting(request),
            "figures": figures(found, period.seconds) if found.total.calls else [],
        }
        return TemplateResponse(request, "admin/django_mcp/overview.html", context)

    def _waiting(self, request: HttpRequest) -> tuple[str, str]:
        """Return the number of pending calls, and the URL of the approvals page for users who may view it."""
        now = timezone.now()
        waiting = Approval.objects.filter(state=Approval.State.PENDING, expires__gt=now).count()
        may = any(request.user.has_perm(f"django_mcp.{each}") for each in ("view_approval", "approve_tool_call"))
        try:
            address = reverse("admin:django_mcp_approval_changelist", current_app=self.admin_site.name) if may else ""
        except NoReverseMatch:  # the site unregistered the page
            address = ""
        return count(waiting), address


def _kept(period: Period, server: str) -> tuple[Activity, datetime]:
    """Return the activity and when it was computed. Cached, as a large log takes seconds."""
    key = f"django_mcp:overview:{period.name}:{server}:{timezone.get_current_timezone_name()}"
    kept: tuple[Activity, datetime] | None = cache.get(key)
    if kept is None:
        kept = activity(edges_of(period.bins, period.seconds), server), timezone.now()
        cache.set(key, kept, period.kept)
    return kept


def _query(period: Period, server: str) -> str:
    return "?" + urlencode({"period": period.name, **({"endpoint": server} if server else {})})


def _endpoints(period: Period, chosen: str) -> list[tuple[str, str, bool]]:
    names = [each.name for each in servers()]
    every = (str(gettext_lazy("all")), _query(period, ""), not chosen)
    return [every, *((name, _query(period, name), name == chosen) for name in names)] if len(names) > 1 else []


def _facts(found: Activity) -> list[tuple[Any, str, str]]:
    total = found.total
    errors, denied = total.groups["error"], total.groups["denied"]
    return [
        (gettext_lazy("calls"), count(total.calls), ""),
        (gettext_lazy("errors"), count(errors), share(errors / total.calls) if errors else ""),
        (gettext_lazy("denials"), count(denied), share(denied / total.calls) if denied else ""),
        (gettext_lazy("median duration"), duration(total.median), ""),
        (gettext_lazy("95th percentile"), duration(total.p95), ""),
    ]

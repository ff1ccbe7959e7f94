"""The overview: figures, pending approvals, requests over time, failing and slow tools, clients; linked to the log."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from urllib.parse import urlencode

from django.core.cache import cache
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import path
from django.utils import timezone
from django.utils.formats import date_format, number_format
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext, pgettext

from django_mcp.admin.approval_cards import make_cards, record_views
from django_mcp.admin.approval_decisions import PERIODS as APPROVAL_PERIODS
from django_mcp.admin.approval_states import pending_count, pending_q
from django_mcp.admin.base import ReadOnlyAdmin, address_in
from django_mcp.admin.charts import Bin, Layer, stacked_bars, swatch
from django_mcp.admin.display import duration
from django_mcp.admin.stats import DAY, Activity, Tool, activity, edges_of
from django_mcp.approvals.approvers import APPROVE
from django_mcp.audit.outcomes import FAILED, FAILURES, GROUPS
from django_mcp.core.redaction import one_line
from django_mcp.core.server import servers
from django_mcp.models import Approval

MAX_CARDS = 3
"""Pending approvals that can be decided on the page; the others are on their own."""
MAX_ROWS = 8
"""Rows of a table of tools or clients."""
MAX_NAME = 200
"""Characters of a name from outside that are shown."""
MARKS = 4
"""Labels under the axis of time, as many as a phone has room for."""


class Period(NamedTuple):
    """A period to look back at.

    Attributes:
        name: value of the query parameter.
        words: label.
        bins: number of bars.
        seconds: length of a bin.
        kept: seconds for which the figures are cached.
    """

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


class Log:
    """Addresses of the request log with filters.

    Args:
        address: of the log; empty where the site took it out, and then every address is empty.
        since: start of the period.
        server: name of the chosen endpoint, or empty.
    """

    def __init__(self, address: str, since: datetime, server: str) -> None:
        self._address = address
        self._shared = {"since": moment(since), **({"server": server} if server else {})}

    def filtered(self, **filters: str) -> str:
        return f"{self._address}?{urlencode({**self._shared, **filters})}" if self._address else ""


def moment(at: datetime) -> str:
    # As the filter of the log takes it: in UTC where the site has time zones.
    return at.isoformat(timespec="seconds").replace("+00:00", "Z")


class Chart(NamedTuple):
    """The chart of requests over time.

    Attributes:
        plot: the SVG.
        legend: a swatch, a name, a number and an address for each kind of outcome.
        columns: headings of the table of the same numbers.
        rows: label, address and numbers of each bin with requests, the newest first.
    """

    plot: SafeString
    legend: Sequence[tuple[SafeString, str, str, str]]
    columns: Sequence[str]
    rows: Sequence[tuple[str, str, Sequence[str]]]


def over_time(found: Activity, seconds: int, log: Log) -> Chart:
    """Return the requests of each bin by their outcome."""
    total = found.total
    kinds = [kind for kind in GROUPS if total.groups[kind]] or ["ok"]
    layers = [Layer(kind, str(GROUPS[kind].label), [tally.groups[kind] for tally in found.bins]) for kind in kinds]
    bins = _bins(found.edges, seconds, log)
    most = max(range(len(bins)), key=lambda at: found.bins[at].calls)
    description = _("%(sums)s. Most requests: %(most)s, %(when)s.") % {
        "sums": ", ".join(f"{layer.name}: {count(total.groups[layer.kind])}" for layer in layers),
        "most": count(found.bins[most].calls),
        "when": bins[most].label,
    }
    return Chart(
        stacked_bars("requests", _("Requests"), description, bins, layers, count),
        [
            (
                swatch(layer_.kind),
                layer_.name,
                count(total.groups[layer_.kind]),
                log.filtered(outcome=GROUPS[layer_.kind].value),
            )
            for layer_ in layers
        ],
        [_("From"), *(layer.name for layer in layers)],
        [
            (bins[at].label, bins[at].address, [count(layer.values[at]) for layer in layers])
            for at in reversed(range(len(bins)))
            if found.bins[at].calls
        ],
    )


def _bins(edges: Sequence[datetime], seconds: int, log: Log) -> list[Bin]:
    times = [timezone.localtime(edge) if timezone.is_aware(edge) else edge for edge in edges]
    long, short = _formats(seconds, len(edges))
    marked = _labelled_bins(times, seconds)
    return [
        Bin(
            date_format(time, long),
            log.filtered(**_span(edges, at)),
            date_format(time, short) if at in marked else "",
        )
        for at, time in enumerate(times)
    ]


def _span(edges: Sequence[datetime], at: int) -> dict[str, str]:
    # The last bin is open.
    end = {"until": moment(edges[at + 1])} if at + 1 < len(edges) else {}
    return {"since": moment(edges[at]), **end}


def _labelled_bins(times: Sequence[datetime], seconds: int) -> range:
    """Return the bins with a label: those of midnight, where a label is a day."""
    step = -(-len(times) // MARKS)
    if seconds == DAY or seconds * len(times) <= 2 * DAY:
        return range(step // 2 if seconds == DAY else 0, len(times), step)
    a_day = DAY // seconds
    midnight = next((at for at, time in enumerate(times) if time.hour * 3600 < seconds), 0)
    return range(midnight, len(times), a_day * -(-step // a_day))


def _formats(seconds: int, bins: int) -> tuple[str, str]:
    """Return the date formats of a bin: in full, and below the axis."""
    day = pgettext("a day on an axis, in Django's letters for dates", "j M")
    if seconds == DAY:
        return "DATE_FORMAT", day
    return "DATETIME_FORMAT", day if seconds * bins > 2 * DAY else "TIME_FORMAT"


class Table(NamedTuple):
    """Rows of tools or clients.

    Attributes:
        key: id of its section.
        title: heading.
        note: a sentence below the heading.
        columns: headings.
        rows: name and address, then the text and the address of each number; an address may be empty.
        more: number of rows that are left out.
    """

    key: str
    title: str
    note: str
    columns: Sequence[str]
    rows: Sequence[tuple[tuple[str, str], Sequence[tuple[str, str]]]]
    more: int


def failing_tools(found: Activity, log: Log) -> Table:
    """Return the tools that failed, by number of failures."""
    names = tool_labels(found.tools)
    failed = [(tool, tally) for tool, tally in found.tools.items() if tally.failures]
    failed.sort(key=lambda row: (-row[1].failures, row[0]))
    rows = [
        (
            (names[tool], log.filtered(**_tool_query(tool))),
            [
                *(
                    (count(tally.groups[group]), log.filtered(**_tool_query(tool), outcome=GROUPS[group].value))
                    for group in FAILURES
                ),
                (share(tally.error_rate), ""),
                (count(tally.calls), log.filtered(**_tool_query(tool))),
            ],
        )
        for tool, tally in failed[:MAX_ROWS]
    ]
    columns = [_("Tool"), *(GROUPS[group].heading for group in FAILURES), FAILED.heading, _("Calls")]
    return Table("failing", _("Failing tools"), "", columns, rows, max(0, len(failed) - MAX_ROWS))


def slow_tools(found: Activity, log: Log) -> Table:
    """Return the tools that ran, the slowest first."""
    names = tool_labels(found.tools)
    timed = [(tool, tally, tally.p95 or 0.0) for tool, tally in found.tools.items() if tally.durations]
    timed.sort(key=lambda row: (-row[2], row[0]))
    rows = [
        (
            (names[tool], log.filtered(**_tool_query(tool))),
            [
                (duration(p95), ""),
                (duration(tally.median), ""),
                (count(tally.calls), log.filtered(**_tool_query(tool))),
            ],
        )
        for tool, tally, p95 in timed[:MAX_ROWS]
    ]
    note = _("95 of 100 calls are no slower than the 95th percentile.")
    columns = [_("Tool"), _("95th percentile"), _("Median"), _("Calls")]
    return Table("slow", _("Slow tools"), note, columns, rows, max(0, len(timed) - MAX_ROWS))


def clients(found: Activity, log: Log) -> Table:
    """Return the clients by name, with their versions and those of the protocol they speak, the busiest first."""
    versions: dict[str, set[str]] = defaultdict(set)
    protocols: dict[str, Counter[str]] = defaultdict(Counter)
    for (name, version), requests in found.clients.items():
        versions[name] |= {version} - {""}
        protocols[name] += requests
    ranked = sorted(protocols.items(), key=lambda row: (-row[1].total(), row[0]))
    total = sum(protocol.total() for protocol in protocols.values()) or 1
    rows = [
        (
            (one_line(name, MAX_NAME) or _("unnamed"), log.filtered(client_name=name) if name else ""),
            [
                (one_line(", ".join(sorted(versions[name])), MAX_NAME), ""),
                (", ".join(sorted(one_line(name, MAX_NAME) or _("unknown") for name in requests)), ""),
                (count(requests.total()), log.filtered(client_name=name) if name else ""),
                (share(requests.total() / total), ""),
            ],
        )
        for name, requests in ranked[:MAX_ROWS]
    ]
    note = _("Name and version are self-reported.")
    columns = [_("Client"), _("Versions"), _("Protocol versions"), _("Requests"), _("Share")]
    return Table("clients", _("Clients"), note, columns, rows, max(0, len(ranked) - MAX_ROWS))


def _tool_query(tool: Tool) -> dict[str, str]:
    server, name = tool
    return {"server": server, "name": name}


def tool_labels(tools: Iterable[Tool]) -> Mapping[Tool, str]:
    """Return the names of tools, with their endpoints where there are several. Callers send names, so any text."""
    tools = list(tools)
    several = len({server for server, _name in tools}) > 1
    return {(server, name): one_line(f"{name} ({server})" if several else name, MAX_NAME) for server, name in tools}


def count(value: float) -> str:
    return number_format(int(value), use_l10n=True, force_grouping=True)


def share(value: float) -> str:
    places = 1 if 0 < value < 0.1 else 0  # noqa: PLR2004 - less than ten percent
    return _("%s %%") % number_format(round(100 * value, places), places, use_l10n=True)


class Figure(NamedTuple):
    """A number at the top of the page, and what it links to."""

    name: str
    value: str
    note: str
    address: str


class OverviewAdmin(ReadOnlyAdmin):
    """The landing page, for users who may view the request log."""

    def get_urls(self) -> list[Any]:
        # Under its own name, and under that by which admin sites link models.
        view = self.admin_site.admin_view(self.overview_view)
        return [path("", view, name=name) for name in ("django_mcp_overview_changelist", "django_mcp_overview")]

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002
        return request.user.has_perm("django_mcp.view_requestlog")

    has_module_permission = has_view_permission

    def overview_view(self, request: HttpRequest) -> HttpResponse:
        """Show the page.

        Raises:
            PermissionDenied: the user may not view the request log.
        """
        if not self.has_view_permission(request):
            raise PermissionDenied
        request.current_app = self.admin_site.name
        period = next((choice for choice in PERIODS if choice.name == request.GET.get("period")), USUAL)
        server = request.GET.get("endpoint", "")
        server = server if server in {endpoint.name for endpoint in servers()} else ""
        found, counted_at = _cached_activity(period, server)
        log = Log(address_in(self.admin_site, "requestlog_changelist"), found.edges[0], server)
        context = {
            **self.admin_site.each_context(request),
            "title": _("MCP overview"),
            "opts": self.opts,
            "media": self.media,
            "counted_at": counted_at,
            "period_choices": [(choice.words, _query(choice, server), choice is period) for choice in PERIODS],
            "endpoints": _endpoints(period, server),
            "log_address": log.filtered(),
            "has_requests": bool(found.total.calls),
            **self._pending(request, found, log),
        }
        if found.total.calls:
            tables = [failing_tools(found, log), slow_tools(found, log), clients(found, log)]
            context["chart"] = over_time(found, period.seconds, log)
            context["tables"] = [table for table in tables if table.rows]
        return TemplateResponse(request, "admin/django_mcp/overview.html", context)

    def _pending(self, request: HttpRequest, found: Activity, log: Log) -> dict[str, Any]:
        may_view = request.user.has_perm(APPROVE) or request.user.has_perm("django_mcp.view_approval")
        address = address_in(self.admin_site, "approval_changelist") if may_view else ""
        rows = Approval.objects.filter(pending_q())
        pending, total = pending_count(request), found.total
        names = {name for name, _version in found.clients}
        figures = [
            Figure(_("Pending approvals"), count(pending), "", address),
            *(
                Figure(
                    str(GROUPS[group].heading),
                    count(total.groups[group]),
                    share(total.groups[group] / total.calls) if total.groups[group] else "",
                    log.filtered(outcome=GROUPS[group].value),
                )
                for group in FAILURES
            ),
            Figure(_("Requests"), count(total.calls), "", log.filtered()),
            Figure(_("Clients"), count(len(names)), "", "#clients" if found.clients else ""),
        ]
        shown = []
        if address:
            shown = make_cards(rows.select_related("user", "task").order_by("-pk")[:MAX_CARDS], request.user)
            record_views(shown, request.user)
        more = pending - len(shown)
        return {
            "figures": figures,
            "cards": shown,
            "approvals_address": address,
            "more_words": ngettext("%d more pending approval", "%d more pending approvals", more) % more
            if more
            else "",
            "back": "overview",
            "periods": APPROVAL_PERIODS,
        }


def _cached_activity(period: Period, server: str) -> tuple[Activity, datetime]:
    # A long log takes seconds to count.
    key = f"django_mcp:overview:{period.name}:{server}:{timezone.get_current_timezone_name()}"
    kept: tuple[Activity, datetime] | None = cache.get(key)
    if kept is None:
        kept = activity(edges_of(period.bins, period.seconds), server), timezone.now()
        cache.set(key, kept, period.kept)
    return kept


def _query(period: Period, server: str) -> str:
    return "?" + urlencode({"period": period.name, **({"endpoint": server} if server else {})})


def _endpoints(period: Period, chosen: str) -> list[tuple[str, str, bool]]:
    names = [server.name for server in servers()]
    every = (_("all"), _query(period, ""), not chosen)
    return [every, *((name, _query(period, name), name == chosen) for name in names)] if len(names) > 1 else []

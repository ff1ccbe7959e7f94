"""Admin of the request log: list, filters, dates and CSV export. Read-only."""

import calendar
import csv
import datetime
import json
from collections.abc import AsyncIterator, Generator, Iterable, Iterator
from functools import cached_property
from typing import Any, ClassVar

from asgiref.sync import sync_to_async
from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.contrib.auth import get_user_model
from django.core.exceptions import PermissionDenied
from django.core.handlers.asgi import ASGIRequest
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponseBase, StreamingHttpResponse
from django.urls import URLPattern, path
from django.utils import formats, timezone
from django.utils.safestring import SafeString
from django.utils.text import Truncator, capfirst
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_mcp.admin.base import STYLES, BoundedPaginator, ReadOnlyAdmin
from django_mcp.admin.display import as_json, as_text
from django_mcp.core.database import keys_of
from django_mcp.core.server import every_server
from django_mcp.models import APIKey, RequestLog

FIELD = "started_at"
_LEVELS = ("year", "month", "day")


class CallList(ChangeList):
    """Change list with a date hierarchy computed from the first and last entry.

    Django's own looks up the dates of all rows, which is too slow for a large log.
    """

    @cached_property
    def dates(self) -> dict[str, Any]:
        """Return the context of Django's date hierarchy template."""
        chosen = self._chosen()
        first, last = _bounds()
        if first is None or last is None:
            return {"show": False}
        if not chosen and first.year == last.year:
            chosen = [first.year, first.month] if first.month == last.month else [first.year]
        shown = [self._choice(chosen, each) for each in _below(chosen, first, last)]
        return {"show": True, "back": self._back(chosen), "choices": shown}

    def _chosen(self) -> list[int]:
        found: list[int] = []
        for level in _LEVELS:
            value = self.params.get(f"{FIELD}__{level}")
            text = str(value[0] if isinstance(value, list) else value)
            if not text.isdecimal() or len(text) > 4:  # noqa: PLR2004 - a year
                break
            found.append(int(text))
        return found

    def _choice(self, chosen: list[int], each: datetime.date) -> dict[str, str]:
        given = [each.year, each.month, each.day][: len(chosen) + 1]
        if len(chosen) == len(_LEVELS):
            return {"title": _title(each, len(chosen))}
        return {"title": _title(each, len(given)), "link": self._link(given)}

    def _back(self, chosen: list[int]) -> dict[str, str] | None:
        if not chosen:
            return None
        if len(chosen) == 1:
            return {"title": _("All dates"), "link": self._link([])}
        return {
            "title": _title(datetime.date(chosen[0], chosen[1], 1), len(chosen) - 1),
            "link": self._link(chosen[:-1]),
        }

    def _link(self, given: list[int]) -> str:
        new = {f"{FIELD}__{level}": value for level, value in zip(_LEVELS, given, strict=False)}
        return str(self.get_query_string(new, [f"{FIELD}__"]))


def _bounds() -> tuple[datetime.date | None, datetime.date | None]:
    times = [RequestLog.objects.order_by(order).values_list(FIELD, flat=True).first() for order in (FIELD, f"-{FIELD}")]
    first, last = (None if each is None else _local_date(each).date() for each in times)
    return first, last


def _local_date(moment: datetime.datetime) -> datetime.datetime:
    return timezone.localtime(moment) if timezone.is_aware(moment) else moment


def _below(chosen: list[int], first: datetime.date, last: datetime.date) -> Iterator[datetime.date]:
    match chosen:
        case []:
            yield from (datetime.date(year, 1, 1) for year in range(first.year, last.year + 1))
        case [year]:
            months = (datetime.date(year, month, 1) for month in range(1, 13))
            yield from (each for each in months if first.replace(day=1) <= each <= last)
        case [year, month]:
            days = (datetime.date(year, month, day) for day in range(1, calendar.monthrange(year, month)[1] + 1))
            yield from (each for each in days if first <= each <= last)
        case [year, month, day]:
            yield datetime.date(year, month, day)


def _title(day: datetime.date, level: int) -> str:
    if level == 1:
        return str(day.year)
    return capfirst(formats.date_format(day, "YEAR_MONTH_FORMAT" if level == 2 else "MONTH_DAY_FORMAT"))  # noqa: PLR2004


CHUNK = 2000
"""Rows read and sent at a time."""
COLUMNS = tuple(each.attname for each in RequestLog._meta.concrete_fields)  # noqa: SLF001 - Django's documented API
_FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def exported(rows: QuerySet[RequestLog], *, on_loop: bool) -> StreamingHttpResponse:
    """Return a streaming CSV response.

    *on_loop* must be True under ASGI, where Django would read a synchronous iterator completely before sending.
    """
    values = rows.select_related(None).defer(None).order_by("-started_at", "-pk").values_list(*COLUMNS)
    parts = _csv(values.iterator(chunk_size=CHUNK))
    response = _File(parts, on_loop=on_loop, content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = 'attachment; filename="calls.csv"'
    response["X-Content-Type-Options"] = "nosniff"
    return response


class _File(StreamingHttpResponse):
    """Streaming response that ends its query when it is closed, as the browser may disconnect early."""

    def __init__(self, parts: Generator[str, None, None], *, on_loop: bool, content_type: str) -> None:
        super().__init__(_awaited(parts) if on_loop else parts, content_type=content_type)
        self._parts = parts

    def close(self) -> None:
        self._parts.close()
        super().close()


async def _awaited(parts: Iterator[str]) -> AsyncIterator[str]:
    while (part := await sync_to_async(lambda: next(parts, None))()) is not None:
        yield part


class _Line:
    """File-like object whose ``write`` returns the text."""

    def write(self, text: str) -> str:
        return text


def _csv(rows: Iterable[tuple[Any, ...]]) -> Generator[str, None, None]:
    writer = csv.writer(_Line())
    yield str(writer.writerow(COLUMNS))
    for lines in _in_chunks(writer.writerow([_cell(each) for each in row]) for row in rows):
        yield "".join(lines)


def _in_chunks(lines: Iterable[str]) -> Iterator[list[str]]:
    chunk: list[str] = []
    for line in lines:
        chunk.append(line)
        if len(chunk) >= CHUNK // 10:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _cell(value: Any) -> str:
    """Return a CSV cell. Texts that a spreadsheet could run as a formula get an apostrophe in front."""
    if value is None:
        return ""
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False)
    if hasattr(value, "isoformat"):
        return str(value.isoformat())
    text = str(value)
    return f"'{text}" if text.startswith(_FORMULAS) and not isinstance(value, int | float) else text


RECENT = 2000
"""Number of newest entries from which filter choices are collected."""
MAX_CHOICES = 30
METHODS = (
    "tools/call",
    "tools/list",
    "resources/read",
    "resources/list",
    "resources/templates/list",
    "prompts/get",
    "prompts/list",
)


class _ByColumn(admin.SimpleListFilter):
    """Filter by the value of a column."""

    column: str

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:  # noqa: ARG002
        found = dict(self.choices_now(request))
        chosen = self.used_parameters.get(self.parameter_name or "")
        if chosen:
            found.setdefault(str(chosen), str(chosen))
        return sorted(found.items(), key=lambda each: each[1].lower())

    def choices_now(self, request: HttpRequest) -> Iterable[tuple[str, str]]:
        """Return values and labels."""
        raise NotImplementedError

    def has_output(self) -> bool:
        """Show the filter even if it has a single choice."""
        return bool(self.lookup_choices)

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:  # noqa: ARG002
        value = self.value()
        return queryset if value is None else queryset.filter(**{self.column: value})


class EndpointFilter(_ByColumn):
    """Filter by endpoint."""

    title = gettext_lazy("endpoint")
    parameter_name = column = "server"

    def choices_now(self, request: HttpRequest) -> Iterable[tuple[str, str]]:  # noqa: ARG002
        """Return all endpoints."""
        return [(each.name, each.name) for each in every_server()]


class MethodFilter(_ByColumn):
    """Filter by method."""

    title = gettext_lazy("method")
    parameter_name = column = "method"

    def choices_now(self, request: HttpRequest) -> Iterable[tuple[str, str]]:  # noqa: ARG002
        """Return the common methods."""
        return [(each, each) for each in METHODS]


class ToolFilter(_ByColumn):
    """Filter by tool."""

    title = gettext_lazy("tool")
    parameter_name = column = "name"

    def choices_now(self, request: HttpRequest) -> Iterable[tuple[str, str]]:  # noqa: ARG002
        """Return the tools of all endpoints."""
        return [(name, name) for server in every_server() for name in server.tools]


class ClientFilter(_ByColumn):
    """Filter by self-reported client name."""

    title = gettext_lazy("client")
    parameter_name = column = "client_name"

    def choices_now(self, request: HttpRequest) -> Iterable[tuple[str, str]]:
        """Return recent clients."""
        return [(name, name) for name in _recent(request, "client_name") if name][:MAX_CHOICES]


class UserFilter(_ByColumn):
    """Filter by user."""

    title = gettext_lazy("user")
    parameter_name = column = "user"

    def choices_now(self, request: HttpRequest) -> Iterable[tuple[str, str]]:
        """Return recent users."""
        keys = [key for key in _recent(request, "user") if key is not None][:MAX_CHOICES]
        users = get_user_model()._default_manager.in_bulk(keys)  # noqa: SLF001 - Django's documented API
        return [(str(key), user.get_username()) for key, user in users.items()]

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        """Return the user's entries, or none if the value is not a primary key."""
        try:
            return super().queryset(request, queryset)
        except (ValueError, TypeError):
            return queryset.none()


class PeriodFilter(admin.SimpleListFilter):
    """Filter by age."""

    title = gettext_lazy("period")
    parameter_name = "period"
    periods = (
        ("hour", gettext_lazy("the last hour"), datetime.timedelta(hours=1)),
        ("day", gettext_lazy("the last 24 hours"), datetime.timedelta(days=1)),
        ("week", gettext_lazy("the last 7 days"), datetime.timedelta(days=7)),
        ("month", gettext_lazy("the last 30 days"), datetime.timedelta(days=30)),
    )

    def lookups(self, request: HttpRequest, model_admin: Any) -> Any:  # noqa: ARG002
        """Return the periods."""
        return [(key, words) for key, words, _ in self.periods]

    def queryset(self, request: HttpRequest, queryset: QuerySet[RequestLog]) -> QuerySet[RequestLog]:  # noqa: ARG002
        """Return the entries of the chosen period."""
        for key, _words, length in self.periods:
            if key == self.value():
                return queryset.filter(started_at__gte=timezone.now() - length)
        return queryset


def _recent(request: HttpRequest, column: str) -> list[Any]:
    """Return distinct values of the newest entries, newest first. Cached on the request."""
    rows: list[dict[str, Any]] | None = getattr(request, "_recent_calls", None)
    if rows is None:
        rows = [
            dict(each) for each in RequestLog.objects.order_by("-started_at").values("client_name", "user")[:RECENT]
        ]
        request._recent_calls = rows  # type: ignore[attr-defined]  # noqa: SLF001 - of this page alone
    return list(dict.fromkeys(each[column] for each in rows))


SEARCHED = 50_000
"""Number of newest entries that a text search covers. Searches by id cover all."""
IDS = ("trace_id", "task_id", "approval")
WORDS = ("name", "caller", "principal_id", "client_name", "client_id", "credential", "error", "arguments")


class RequestLogAdmin(ReadOnlyAdmin):
    """Lists log entries, newest first."""

    list_display = ("time", "what", "about", "state", "who", "client", "took", "said")
    list_display_links = ("time", "what")
    list_filter = (
        PeriodFilter,
        "outcome",
        EndpointFilter,
        MethodFilter,
        ToolFilter,
        ClientFilter,
        UserFilter,
    )
    search_fields = ("name",)  # shows the search box; see get_search_results
    search_help_text = gettext_lazy(
        "Full id of a trace, task or approval request, or words in the newest 50,000 entries (tool, caller, client, "
        "error, arguments)."
    )
    date_hierarchy = "started_at"
    ordering = ("-started_at",)
    sortable_by = ("time",)
    list_per_page = 100
    list_max_show_all = 100
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    paginator = BoundedPaginator
    actions = None
    change_list_template = "admin/django_mcp/requestlog/change_list.html"
    fieldsets: ClassVar[Any] = (
        (None, {"fields": ("exact", "method", "name", "server", "outcome", "words", "given")}),
        (
            gettext_lazy("Caller"),
            {"fields": ("person", "principal", "credential", "client_id", "client", "protocol", "address")},
        ),
        (gettext_lazy("Result"), {"fields": ("result_kind", "result_size", "duration", "queries")}),
        (gettext_lazy("Related"), {"fields": ("approval", "task_id", "trace_id")}),
    )

    class Media:
        """Stylesheets."""

        css = STYLES

    # List

    def get_queryset(self, request: HttpRequest) -> QuerySet[RequestLog]:
        """Defer large columns that the list does not show."""
        found: QuerySet[RequestLog] = super().get_queryset(request)
        match = request.resolver_match
        if match is None or "object_id" in match.kwargs or "export" in str(match.url_name):
            return found.select_related("user")
        return found.defer("arguments", "user", "trace_id", "approval", "task_id")

    def get_search_results(
        self,
        request: HttpRequest,  # noqa: ARG002
        queryset: Any,
        search_term: str,
    ) -> "tuple[QuerySet[RequestLog], bool]":
        """Search ids in all entries, and text only in the newest ones, as no index supports it."""
        term = search_term.strip()
        if not term:
            return queryset, False
        newest = RequestLog.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
        words = Q()
        for part in term.split()[:5]:
            words &= Q.create([(f"{name}__icontains", part) for name in WORDS], connector=Q.OR)
        by_id = Q.create([(name, term) for name in IDS], connector=Q.OR)
        if term.isalnum() and len(term) == len("0af7651916cd43dd8448eb211c80319c"):
            return queryset.filter(by_id), False
        return queryset.filter(Q(pk__gt=newest - SEARCHED) & (words | by_id)), False

    def get_urls(self) -> list[URLPattern]:
        """Add the CSV export."""
        view = self.admin_site.admin_view(self.export_view)
        name = f"{self.opts.app_label}_{self.opts.model_name}_export"
        return [path("export.csv", view, name=name), *super().get_urls()]

    def export_view(self, request: HttpRequest) -> HttpResponseBase:
        """Export the filtered entries as CSV."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        rows = self.get_changelist_instance(request).get_queryset(request)
        return exported(rows, on_loop=isinstance(request, ASGIRequest))

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[CallList]:  # noqa: ARG002
        """Use the change list with a computed date hierarchy."""
        return CallList

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> Any:
        """Add the query string for the export."""
        most = BoundedPaginator.most
        return super().changelist_view(
            request, {**(extra_context or {}), "query": request.GET.urlencode(), "most": most}
        )

    @admin.display(description=gettext_lazy("time"), ordering="started_at")
    def time(self, row: RequestLog) -> str:
        """Return the local time to the second."""
        return _local(row.started_at).strftime("%Y-%m-%d %H:%M:%S")

    @admin.display(description=gettext_lazy("time"))
    def exact(self, row: RequestLog) -> str:
        """Return the local time to the millisecond, with its UTC offset if ``USE_TZ`` is set."""
        return _local(row.started_at).isoformat(" ", "milliseconds")

    @admin.display(description=gettext_lazy("method"), ordering="method")
    def what(self, row: RequestLog) -> str:
        """Return the method."""
        return row.method or "–"

    @admin.display(description=gettext_lazy("name"))
    def about(self, row: RequestLog) -> SafeString | str:
        """Return the name of the tool, prompt or resource, and the endpoint."""
        return Truncator(f"{row.name} · {row.server}" if row.name else row.server).chars(60)

    @admin.display(description=gettext_lazy("outcome"))
    def state(self, row: RequestLog) -> str:
        """Return the outcome."""
        return str(row.get_outcome_display())

    @admin.display(description=gettext_lazy("caller"))
    def who(self, row: RequestLog) -> str:
        """Return the caller's name at that time, or the type of caller."""
        return row.caller or row.principal_kind or "–"

    @admin.display(description=gettext_lazy("client"))
    def client(self, row: RequestLog) -> str:
        """Return the client's self-reported name and version."""
        return Truncator(f"{row.client_name} {row.client_version}".strip()).chars(40) or "–"

    @admin.display(description=gettext_lazy("duration"))
    def took(self, row: RequestLog) -> str:
        """Return the duration."""
        return _("%s ms") % f"{row.duration:.1f}"

    @admin.display(description=gettext_lazy("error"))
    def said(self, row: RequestLog) -> str:
        """Return the start of the error message."""
        return Truncator(row.error).chars(60)

    @admin.display(description=gettext_lazy("error"))
    def words(self, row: RequestLog) -> SafeString | str:
        """Return the error message."""
        return as_text(row.error) if row.error else "–"

    @admin.display(description=gettext_lazy("arguments"))
    def given(self, row: RequestLog) -> SafeString | str:
        """Return the redacted arguments."""
        return "–" if row.arguments is None else as_json(row.arguments)

    @admin.display(description=gettext_lazy("caller"))
    def person(self, row: RequestLog) -> str:
        """Return the username, with the one at that time if it has changed."""
        now = "" if row.user is None else str(getattr(row.user, get_user_model().USERNAME_FIELD))
        if not now:
            return row.caller or "–"
        return now if row.caller in {"", now} else f"{now} ({row.caller})"

    @admin.display(description=gettext_lazy("authenticated with"))
    def principal(self, row: RequestLog) -> str:
        """Return the name of the API key, or kind and id of the caller."""
        if row.principal_kind == "api_key":
            for key in APIKey.objects.filter(pk__in=keys_of(APIKey, [row.principal_id])):
                return _("API key “%s”") % key.name
        return f"{row.principal_kind} {row.principal_id}".strip() or "–"


def _local(moment: datetime.datetime) -> datetime.datetime:
    return timezone.localtime(moment) if timezone.is_aware(moment) else moment

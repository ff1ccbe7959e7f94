"""The request log in the admin: list, filters, one entry with what it belongs to, and export. Read-only."""

import csv
import datetime
import json
import re
import unicodedata
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple
from urllib.parse import urlencode

from asgiref.sync import sync_to_async
from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import ERROR_FLAG
from django.contrib.auth import get_user_model
from django.core.exceptions import PermissionDenied
from django.core.handlers.asgi import ASGIRequest
from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect, StreamingHttpResponse
from django.urls import URLPattern, path
from django.utils import formats, timezone
from django.utils.dateparse import parse_date, parse_datetime
from django.utils.safestring import SafeString
from django.utils.text import Truncator
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from django_mcp.admin.base import BoundedPaginator, ReadOnlyAdmin, StrictFiltersList, address_in, page_of
from django_mcp.admin.display import NOTHING, as_json, as_text, lasted
from django_mcp.audit.outcomes import FILTERS, GROUP_OF
from django_mcp.core.database import keys_of
from django_mcp.core.principal import display_name
from django_mcp.core.server import every_server, servers
from django_mcp.models import APIKey, Approval, OAuthClient, Playground, RequestLog, Task, Tools

CHUNK = 2000
"""Rows that are read, and sent, at once."""
COLUMNS = tuple(field.attname for field in RequestLog._meta.concrete_fields)  # noqa: SLF001 - Django's documented API
_SEPARATORS = ";|\\t\\r\\n\\v\\f\\x1c-\\x1f\\x85\\u2028\\u2029"
"""Characters at which spreadsheets may end a cell. Quotes around a cell do not help if they split at semicolons."""
_SKIPPED = rf"[\s\"'`{_SEPARATORS}]"
_BEFORE_FORMULA = re.compile(rf"(?<!{_SKIPPED}){_SKIPPED}++(?=[=+\-@＝＋－＠])")
"""A whole run of skipped characters. The lookbehind and the possessive ``++`` keep the search linear in the text."""
_LAST_SEPARATOR = re.compile(rf"[{_SEPARATORS}](?=[^{_SEPARATORS}]*\Z)")
_AT_START = re.compile(r"[\t\r\n=+\-@＝＋－＠]")


def exported(rows: QuerySet[RequestLog], *, on_loop: bool) -> StreamingHttpResponse:
    """Return a response that sends the rows as CSV.

    Args:
        rows: of the log.
        on_loop: it is sent by an event loop, which would collect what does not wait before it sends anything.
    """
    values = rows.select_related(None).defer(None).order_by("-started_at", "-pk").values_list(*COLUMNS)
    parts = _csv(values.iterator(chunk_size=CHUNK))
    response = _File(parts, on_loop=on_loop, content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = 'attachment; filename="request-log.csv"'
    response["X-Content-Type-Options"] = "nosniff"
    return response


class _File(StreamingHttpResponse):
    """Ends its query when it is closed, in the thread that reads: a browser may leave before the end."""

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
    """Stands for a file: what is written is given back."""

    def write(self, text: str) -> str:
        return text


def _csv(rows: Iterable[tuple[Any, ...]]) -> Generator[str, None, None]:
    writer = csv.writer(_Line())
    yield str(writer.writerow(COLUMNS))
    outcome, words = COLUMNS.index("outcome"), dict(RequestLog.Outcome.choices)
    named = ([*row[:outcome], words.get(row[outcome], row[outcome]), *row[outcome + 1 :]] for row in rows)
    for lines in _in_chunks(writer.writerow([_cell(cell) for cell in row]) for row in named):
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
    """Return a value as a text in which no spreadsheet finds a formula, whatever it takes for the end of a cell.

    An apostrophe before a formula makes it a text. JSON stays JSON: the separator before the formula is escaped.
    """
    if value is None:
        return ""
    if isinstance(value, dict | list):
        text = json.dumps(value, ensure_ascii=False)
        return _before_formulas(text, lambda separator: f"\\u{ord(separator):04x}")
    if hasattr(value, "isoformat"):
        return str(value.isoformat())
    text = str(value)
    if isinstance(value, int | float):
        return text
    guarded = _before_formulas(text, lambda separator: f"{separator}'")
    run = _BEFORE_FORMULA.match(text)
    is_formula = _AT_START.match(text) or (run and not _LAST_SEPARATOR.search(run[0]))
    return f"'{guarded}" if is_formula else guarded


def _before_formulas(text: str, replaced: Callable[[str], str]) -> str:
    """Replace the last separator before each formula. What is before it in the same cell is then no formula."""

    def guard(found: re.Match[str]) -> str:
        return _LAST_SEPARATOR.sub(lambda separator: replaced(separator[0]), found[0], 1)

    return _BEFORE_FORMULA.sub(guard, text)


RECENT = 2000
"""Newest rows in which clients and users to choose from are looked for."""
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
    """Filter by the value of one column."""

    column: str

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:  # noqa: ARG002
        """Return the choices, and the chosen value if it is not among them."""
        found = dict(self.choices_now(request))
        chosen = self.used_parameters.get(self.parameter_name or "")
        if chosen:
            found.setdefault(str(chosen), str(chosen))
        return sorted(found.items(), key=lambda each: each[1].lower())

    def choices_now(self, request: HttpRequest) -> Iterable[tuple[str, str]]:
        raise NotImplementedError

    def has_output(self) -> bool:
        """Show the filter with one choice too: the next request may bring another."""
        return bool(self.lookup_choices)

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:  # noqa: ARG002
        value = self.value()
        return queryset if value is None else queryset.filter(**{self.column: value})


class EndpointFilter(_ByColumn):
    """Filter by endpoint."""

    title = gettext_lazy("endpoint")
    parameter_name = column = "server"

    def choices_now(self, request: HttpRequest) -> Iterable[tuple[str, str]]:  # noqa: ARG002
        return [(endpoint.name, endpoint.name) for endpoint in every_server()]


class MethodFilter(_ByColumn):
    """Filter by method."""

    title = gettext_lazy("method")
    parameter_name = column = "method"

    def choices_now(self, request: HttpRequest) -> Iterable[tuple[str, str]]:  # noqa: ARG002
        return [(method, method) for method in METHODS]


class ToolFilter(_ByColumn):
    """Filter by tool."""

    title = gettext_lazy("tool")
    parameter_name = column = "name"

    def choices_now(self, request: HttpRequest) -> Iterable[tuple[str, str]]:  # noqa: ARG002
        return [(name, name) for server in every_server() for name in server.tools]


class ClientFilter(_ByColumn):
    """Filter by the self-reported name of the client."""

    title = gettext_lazy("client")
    parameter_name = column = "client_name"

    def choices_now(self, request: HttpRequest) -> Iterable[tuple[str, str]]:
        return [(name, name) for name in _recent(request, "client_name") if name][:MAX_CHOICES]


class UserFilter(_ByColumn):
    """Filter by user."""

    title = gettext_lazy("user")
    parameter_name = column = "user"

    def choices_now(self, request: HttpRequest) -> Iterable[tuple[str, str]]:
        """Return the users of the newest requests."""
        keys = [key for key in _recent(request, "user") if key is not None][:MAX_CHOICES]
        users = get_user_model()._default_manager.in_bulk(keys)  # noqa: SLF001 - Django's documented API
        return [(str(key), display_name(user)) for key, user in users.items()]

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:  # noqa: ARG002
        """Return the user's rows; none if the value is no key of a user."""
        value = self.value()
        return queryset if value is None else queryset.filter(user__in=keys_of(get_user_model(), [value]))


class OutcomeFilter(admin.SimpleListFilter):
    """Filter by outcome; errors and crashes together are "failed"."""

    title = gettext_lazy("outcome")
    parameter_name = "outcome"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Any:  # noqa: ARG002
        return [*((value, group.label) for value, group in FILTERS.items()), *RequestLog.Outcome.choices]

    def queryset(self, request: HttpRequest, queryset: QuerySet[RequestLog]) -> QuerySet[RequestLog]:  # noqa: ARG002
        """Return the rows with the chosen outcomes."""
        value = self.value()
        if value is None:
            return queryset
        return queryset.filter(outcome__in=FILTERS[value].outcomes if value in FILTERS else [value])


class PeriodFilter(admin.ListFilter):
    """Filter by a period that ends now, or by a span: ``since`` and ``until``, dates or times in ISO 8601.

    A time without an offset is one of the current time zone. ``until`` is exclusive; a date includes its day.
    """

    title = gettext_lazy("period")
    parameter_name = "period"
    span = ("since", "until")
    periods = (
        ("hour", gettext_lazy("last hour"), datetime.timedelta(hours=1)),
        ("day", gettext_lazy("last 24 hours"), datetime.timedelta(days=1)),
        ("week", gettext_lazy("last 7 days"), datetime.timedelta(days=7)),
        ("month", gettext_lazy("last 30 days"), datetime.timedelta(days=30)),
        ("quarter", gettext_lazy("last 90 days"), datetime.timedelta(days=90)),
    )

    def __init__(self, request: HttpRequest, params: dict[str, Any], model: Any, model_admin: Any) -> None:
        super().__init__(request, params, model, model_admin)
        for name in (self.parameter_name, *self.span):
            if name in params and (value := params.pop(name)[-1]):
                self.used_parameters[name] = value
        self.since, self.until = self._moment("since"), self._moment("until")

    def _moment(self, name: str) -> datetime.datetime | None:
        """Return the time of a parameter.

        Raises:
            IncorrectLookupParameters: it is neither a date nor a time.
        """
        text: str = self.used_parameters.get(name, "")  # type: ignore[assignment]
        if not text:
            return None
        try:
            day = parse_date(text)
            found = parse_datetime(text) if day is None else datetime.datetime.combine(day, datetime.time())
            if found is None:
                raise IncorrectLookupParameters(f"{name} is not a date or time in ISO 8601")
            if day is not None and name == "until":
                found += datetime.timedelta(days=1)
            found = _stored(found)
            _local(found)  # a time at the edge of the calendar has no local time
        except (ValueError, OverflowError) as error:
            raise IncorrectLookupParameters(str(error)) from None
        return found

    def expected_parameters(self) -> list[str | None]:
        return [self.parameter_name, *self.span]

    def has_output(self) -> bool:
        return True

    def choices(self, changelist: Any) -> Iterator[dict[str, Any]]:
        """Yield all, and each period."""
        chosen = "" if self.words else self.used_parameters.get(self.parameter_name, "")
        query = changelist.get_query_string
        yield {
            "selected": not chosen and not self.words,
            "query_string": query(remove=[self.parameter_name, *self.span]),
            "display": _("All"),
        }
        today = timezone.localdate() if timezone.is_aware(timezone.now()) else datetime.datetime.now().date()  # noqa: DTZ005
        for named, back in ((_("today"), 0), (_("yesterday"), 1)):
            day = str(today - datetime.timedelta(days=back))
            yield {
                "selected": self.days == {"since": day, "until": day},
                "query_string": query({"since": day, "until": day}, [self.parameter_name]),
                "display": named,
            }
        for key, words, _length in self.periods:
            yield {
                "selected": key == chosen,
                "query_string": query({self.parameter_name: key}, [*self.span]),
                "display": words,
            }

    @property
    def words(self) -> str:
        """The chosen span; empty without one."""
        ends = [_shown(end) for end in (self.since, self.until)]
        if all(ends):
            return " – ".join(ends)
        return _("since %s") % ends[0] if ends[0] else _("until %s") % ends[1] if ends[1] else ""

    @property
    def days(self) -> dict[str, str]:
        """The chosen span as values of date fields."""
        last = self.until and self.until - datetime.timedelta(microseconds=1)
        return {
            name: "" if at is None else f"{_local(at):%Y-%m-%d}"
            for name, at in (("since", self.since), ("until", last))
        }

    def queryset(self, request: HttpRequest, queryset: QuerySet[RequestLog]) -> QuerySet[RequestLog]:  # noqa: ARG002
        """Return the rows of the period."""
        if self.since is not None:
            queryset = queryset.filter(started_at__gte=self.since)
        if self.until is not None:
            queryset = queryset.filter(started_at__lt=self.until)
        for key, _words, length in self.periods:
            if not self.words and key == self.used_parameters.get(self.parameter_name):
                return queryset.filter(started_at__gte=timezone.now() - length)
        return queryset


def _stored(at: datetime.datetime) -> datetime.datetime:
    """Return a time as the database takes it: aware if the site has time zones, else naive."""
    if timezone.is_aware(at):
        return at if timezone.is_aware(timezone.now()) else timezone.make_naive(at)
    return timezone.make_aware(at) if timezone.is_aware(timezone.now()) else at


def _shown(at: datetime.datetime | None) -> str:
    return "" if at is None else str(formats.date_format(_local(at), "DATETIME_FORMAT"))


def _recent(request: HttpRequest, column: str) -> list[Any]:
    """Return values of the newest rows, the newest first; they are read once for a page."""
    rows: list[dict[str, Any]] | None = getattr(request, "_recent_calls", None)
    if rows is None:
        rows = [dict(row) for row in RequestLog.objects.order_by("-started_at").values("client_name", "user")[:RECENT]]
        request._recent_calls = rows  # type: ignore[attr-defined]  # noqa: SLF001 - of this page alone
    return list(dict.fromkeys(row[column] for row in rows))


class Filter(NamedTuple):
    """A filter as a button with a menu.

    Attributes:
        spec: Django's filter.
        chosen: label of the choice; empty if there is none.
        without: query without it.
        choices: as ``ListFilter.choices`` yields them.
    """

    spec: Any
    chosen: str
    without: str
    choices: Sequence[Mapping[str, Any]]


class Entry(NamedTuple):
    """A row of the list.

    Attributes:
        row: of the log.
        address: its page.
        group: key of ``outcomes.GROUPS``, for its colour and icon.
        client: name and version, self-reported.
        time: local, in the site's format.
        second: local, to the second.
        exact: local, to the millisecond.
        took: duration with its unit.
    """

    row: RequestLog
    address: str
    group: str
    client: str
    time: str
    second: str
    exact: str
    took: str


class LogList(StrictFiltersList):
    """Rows of two lines, and filters above them instead of beside them."""

    def get_filters(self, request: HttpRequest) -> Any:
        """Return Django's filters, and that there is no column of filters."""
        specs, _has_filters, *rest = super().get_filters(request)
        return specs, False, *rest

    def filters(self) -> list[Filter]:
        """Return the filters for the template."""
        found = []
        for spec in self.filter_specs:
            choices = list(spec.choices(self))
            chosen = getattr(spec, "words", "") or next(
                (str(choice["display"]) for choice in choices[1:] if choice["selected"]), ""
            )
            parameters = [parameter for parameter in spec.expected_parameters() if parameter]
            found.append(Filter(spec, chosen, self.get_query_string(remove=parameters), choices))
        return found

    def entries(self) -> list[Entry]:
        """Return the rows for the template."""
        return [
            Entry(
                row,
                self.url_for_result(row),
                GROUP_OF.get(row.outcome, "other"),
                Truncator(f"{row.client_name} {row.client_version}".strip()).chars(40),
                time_of(row),
                f"{_local(row.started_at):%H:%M:%S}",
                exact_of(row),
                lasted(row.outcome, row.duration),
            )
            for row in self.result_list
        ]

    def kept_parameters(self) -> list[tuple[str, str]]:
        """Return the parameters that a form with another period keeps."""
        return [
            (name, value)
            for name, values in self.filter_params.items()
            if name not in {"period", "since", "until"}
            for value in values
        ]

    def other_order(self) -> str:
        return str(self.get_query_string({"o": "-0" if self.is_oldest_first() else "0"}))

    def is_oldest_first(self) -> bool:
        return self.params.get("o") == "0"


MAX_SAME = 100
"""Entries with the same error that are counted."""
SEARCHED = 50_000
"""Newest rows whose words are searched; ids are found wherever they are."""
IDS = ("trace_id", "task_id", "approval", "client_id")
"""Columns with an index, which a term is compared with as a whole."""
WORDS = (
    *("name", "caller", "principal_id", "client_name", "client_id", "credential", "error", "arguments"),
    *("exception_type", "exception_place"),
)
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}", re.IGNORECASE)


def _has_id(term: str) -> Q:
    """Return the filter for rows with an id. A trace id may be in capitals, or within a ``traceparent``."""
    traced = _TRACEPARENT.fullmatch(term)
    trace = (traced[1] if traced else term).lower()
    return Q.create([(name, trace if name == "trace_id" else term) for name in IDS], connector=Q.OR)


def _has_word(word: str) -> Q:
    """Return the filter for rows with a word in any column of ``WORDS``."""
    forms = _forms_of(word)
    # In arguments, JSON has a backslash before quotes and backslashes.
    in_json = dict.fromkeys([*forms, *(json.dumps(form, ensure_ascii=False)[1:-1] for form in forms)])
    found = ((name, form) for name in WORDS for form in (in_json if name == "arguments" else forms))
    return Q.create([(f"{name}__icontains", form) for name, form in found], connector=Q.OR)


def _forms_of(word: str) -> list[str]:
    """Return the ways to write a word: letters with accents are one character or two, and of any case.

    SQLite, and PostgreSQL in the locale C, know the case of ASCII letters only.
    """
    if word.isascii():
        return [word]
    cases = (word, word.lower(), word.upper(), word.capitalize())
    return list(dict.fromkeys(unicodedata.normalize(form, case) for case in cases for form in ("NFC", "NFD")))


class RequestLogAdmin(ReadOnlyAdmin):
    """Requests, the newest first."""

    list_display = ("time",)
    list_filter = (PeriodFilter, OutcomeFilter, ToolFilter, UserFilter, ClientFilter, MethodFilter, EndpointFilter)
    linked_lookups = ("client_id",)  # from the pages of OAuth clients
    search_fields = ("name",)  # for the box; see get_search_results
    search_help_text = gettext_lazy(
        "Full id of a trace, task, approval request or OAuth client, or words in the newest 50,000 entries (tool, "
        "caller, client, error, arguments)."
    )
    ordering = ("-started_at",)
    sortable_by = ("time",)
    list_per_page = 100
    list_max_show_all = 100
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    paginator = BoundedPaginator
    actions = None
    change_list_template = "admin/django_mcp/requestlog/change_list.html"
    change_form_template = "admin/django_mcp/requestlog/change_form.html"
    fieldsets: ClassVar[Any] = (
        (
            None,
            {
                "fields": (
                    *(("outcome", "exact"), "words", ("exception_type", "exception_place"), "given"),
                    ("name", "method", "server"),
                )
            },
        ),
        (
            gettext_lazy("Caller"),
            {"fields": (("person", "principal", "credential"), ("client", "protocol"), "client_id", "address")},
        ),
        (gettext_lazy("Result"), {"fields": (("took", "queries"), ("result_kind", "result_size"))}),
        (gettext_lazy("Related"), {"fields": (("approval", "task_id"), "trace_id")}),
    )
    """Related fields share a line. Empty fields are left out."""

    class Media:
        """The script of the package."""

        js = ("django_mcp/admin.js",)

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        """Leave out what is empty."""
        found = super().get_fieldsets(request, obj)
        if obj is None:
            return found
        lines = [(label, list(self._filled(obj, options["fields"]))) for label, options in found]
        return [(label, {"fields": fields}) for label, fields in lines if fields]

    def _filled(self, row: RequestLog, lines: Any) -> Iterator[tuple[str, ...]]:
        for line in lines:
            names = (line,) if isinstance(line, str) else line
            shown = (getattr(self, name)(row) if hasattr(self, name) else getattr(row, name) for name in names)
            nothing = {None, "", NOTHING}
            if kept := tuple(name for name, value in zip(names, shown, strict=True) if value not in nothing):
                yield kept

    def get_queryset(self, request: HttpRequest) -> QuerySet[RequestLog]:
        """Return the rows; for the list without columns that may be long and are not shown there."""
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
        """Search all rows by id, else the newest by words: no index helps to find a word in a million texts."""
        term = search_term.replace("\0", "").strip()
        if not term:
            return queryset, False
        has_id = _has_id(term)
        if RequestLog.objects.filter(has_id).exists():
            return queryset.filter(has_id), False
        newest = RequestLog.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
        words = Q(pk__gt=newest - SEARCHED)
        for word in term.split()[:5]:
            words &= _has_word(word)
        return queryset.filter(words), False

    def get_urls(self) -> list[URLPattern]:
        """Add the export."""
        view = self.admin_site.admin_view(self.export_view)
        name = f"{self.opts.app_label}_{self.opts.model_name}_export"
        return [path("export.csv", view, name=name), *super().get_urls()]

    def export_view(self, request: HttpRequest) -> HttpResponseBase:
        """Send the rows that the filters leave as a CSV file."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        try:
            rows = self.get_changelist_instance(request).get_queryset(request)
        except IncorrectLookupParameters:  # as on the page of the list
            return HttpResponseRedirect(f"../?{ERROR_FLAG}=1")
        return exported(rows, on_loop=isinstance(request, ASGIRequest))

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[LogList]:  # noqa: ARG002
        return LogList

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> Any:
        shown = {"title": _("Request log"), "query": request.GET.urlencode(), "most": BoundedPaginator.most}
        return super().changelist_view(request, {**shown, **(extra_context or {})})

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        """Add links to what the entry belongs to."""
        row = self.get_object(request, object_id)
        related = [] if row is None else list(self._related(request, row))
        return super().change_view(request, object_id, form_url, {**(extra_context or {}), "related": related})

    def _related(self, request: HttpRequest, row: RequestLog) -> Iterator[tuple[str, str, str]]:
        """Yield a label, a name and an address for each page that the user may see."""
        for label, name, model, key in self._targets(row):
            if address := page_of(request, self.admin_site, model, key):
                yield label, name, address
        if row.trace_id:
            yield _("Trace"), row.trace_id, f"../../?q={row.trace_id}"
        if row.error and row.name:
            same = RequestLog.objects.filter(name=row.name, server=row.server, error=row.error).values("pk")
            number = same[: MAX_SAME + 1].count()
            words = _("more than %d times") % MAX_SAME if number > MAX_SAME else ngettext("once", "%d times", number)
            query = urlencode({"name": row.name, "outcome": row.outcome})
            yield _("Same error"), words % number if "%d" in words else words, f"../../?{query}"
        if address := self._playground_address(request, row):
            yield _("Playground"), _("Try again"), address

    def _playground_address(self, request: HttpRequest, row: RequestLog) -> str:
        """Return the URL of the playground's page of the called tool, or "" if the user may not call it there."""
        site, is_there = self.admin_site, any(server.name == row.server for server in servers())
        if row.method != "tools/call" or not is_there or not site.is_registered(Playground):
            return ""
        if not site.get_model_admin(Playground).has_view_permission(request):
            return ""
        address = address_in(site, "playground_call")
        return address and f"{address}?{urlencode({'endpoint': row.server, 'kind': 'tool', 'key': row.name})}"

    def _targets(self, row: RequestLog) -> Iterator[tuple[str, str, type[Model], Any]]:
        """Yield a label, a name, a model and a key."""
        server = next((endpoint for endpoint in every_server() if endpoint.name == row.server), None)
        if server is not None and row.method == "tools/call" and row.name in server.tools:
            yield _("Tool"), row.name, Tools, f"{row.server}.{row.name}"
        if row.approval:
            key = Approval.objects.filter(public_id=row.approval).values_list("pk", flat=True).first()
            yield _("Approval"), row.approval, Approval, key
        if row.task_id:
            key = Task.objects.filter(task_id=row.task_id).values_list("pk", flat=True).first()
            yield _("Task"), row.task_id, Task, key
        if row.user is not None:
            yield _("User"), display_name(row.user), get_user_model(), row.user.pk
        if row.principal_kind == "api_key":
            for api_key in APIKey.objects.filter(pk__in=keys_of(APIKey, [row.principal_id])):
                yield _("API key"), api_key.name, APIKey, api_key.pk
        if row.client_id:
            yield _("OAuth client"), row.client_name or row.client_id, OAuthClient, row.client_id

    @admin.display(description=gettext_lazy("time"), ordering="started_at")
    def time(self, row: RequestLog) -> str:
        return time_of(row)

    @admin.display(description=gettext_lazy("time"))
    def exact(self, row: RequestLog) -> str:
        """Return the time in the site's format, and to the millisecond as other logs have it."""
        return f"{time_of(row)} ({exact_of(row)})"

    @admin.display(description=gettext_lazy("client"))
    def client(self, row: RequestLog) -> str:
        return Truncator(f"{row.client_name} {row.client_version}".strip()).chars(40) or NOTHING

    @admin.display(description=gettext_lazy("duration"))
    def took(self, row: RequestLog) -> str:
        return lasted(row.outcome, row.duration)

    @admin.display(description=gettext_lazy("error"))
    def words(self, row: RequestLog) -> SafeString | str:
        return as_text(row.error) if row.error else NOTHING

    @admin.display(description=gettext_lazy("arguments"))
    def given(self, row: RequestLog) -> SafeString | str:
        return NOTHING if row.arguments is None else as_json(row.arguments)

    @admin.display(description=gettext_lazy("caller"))
    def person(self, row: RequestLog) -> str:
        """Return the user, and their name at the time if it was another one."""
        if row.user is None:
            return row.caller or NOTHING
        now = display_name(row.user)
        return (
            now
            if row.caller in {"", row.user.get_username()}
            else _("%(now)s (then %(then)s)")
            % {
                "now": now,
                "then": row.caller,
            }
        )

    @admin.display(description=gettext_lazy("authenticated with"))
    def principal(self, row: RequestLog) -> str:
        """Return the name of an API key; otherwise kind and id."""
        if row.principal_kind == "api_key":
            for key in APIKey.objects.filter(pk__in=keys_of(APIKey, [row.principal_id])):
                return _("API key “%s”") % key.name
        return f"{row.principal_kind} {row.principal_id}".strip() or NOTHING


def time_of(row: RequestLog) -> str:
    return str(formats.date_format(_local(row.started_at), "DATETIME_FORMAT"))


def exact_of(row: RequestLog) -> str:
    """Return the local time of an entry to the millisecond, with its distance from UTC."""
    return _local(row.started_at).isoformat(" ", "milliseconds")


def _local(moment: datetime.datetime) -> datetime.datetime:
    return timezone.localtime(moment) if timezone.is_aware(moment) else moment

"""The request log in the admin: list and one entry with what it belongs to. Read-only."""

import re
from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple
from urllib.parse import urlencode

from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import ERROR_FLAG
from django.contrib.auth import get_user_model
from django.core.exceptions import PermissionDenied
from django.core.handlers.asgi import ASGIRequest
from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.urls import URLPattern, path
from django.utils import formats
from django.utils.safestring import SafeString
from django.utils.text import Truncator
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from django_mcp.admin.base import BoundedPaginator, FiltersAboveList, ReadOnlyAdmin, address_in, has_word, page_of
from django_mcp.admin.display import NOTHING, as_json, as_text, lasted
from django_mcp.admin.request_log_csv import csv_response
from django_mcp.admin.request_log_filters import (
    ClientFilter,
    EndpointFilter,
    MethodFilter,
    OutcomeFilter,
    PeriodFilter,
    ToolFilter,
    UserFilter,
    localtime,
)
from django_mcp.audit.outcomes import GROUP_OF
from django_mcp.core.database import keys_of
from django_mcp.core.principal import display_name
from django_mcp.core.server import server_named, servers
from django_mcp.model_resources.writes import has_history
from django_mcp.models import APIKey, Approval, OAuthClient, Playground, RequestLog, Task, Tools


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


class LogList(FiltersAboveList):
    """Rows of two lines."""

    def entries(self) -> list[Entry]:
        return [
            Entry(
                row,
                self.url_for_result(row),
                GROUP_OF.get(row.outcome, "other"),
                Truncator(f"{row.client_name} {row.client_version}".strip()).chars(40),
                time_of(row),
                f"{localtime(row.started_at):%H:%M:%S}",
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
IDS = ("trace_id", "task_id", "approval", "history_id", "client_id")
"""Columns with an index, which a term is compared with as a whole."""
WORDS = (
    *("name", "caller", "principal_id", "client_name", "client_id", "credential", "error", "arguments"),
    *("exception_type", "exception_place"),
)
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}", re.IGNORECASE)


def _has_id(term: str) -> Q:
    # A trace id may be in capitals, or within a traceparent.
    traced = _TRACEPARENT.fullmatch(term)
    trace = (traced[1] if traced else term).lower()
    return Q.create([(name, trace if name == "trace_id" else term) for name in IDS], connector=Q.OR)


class RequestLogAdmin(ReadOnlyAdmin):
    """Requests, the newest first."""

    list_display = ("time",)  # what Django sorts by; the cells are in the template, two lines for several facts
    list_filter = (PeriodFilter, OutcomeFilter, ToolFilter, UserFilter, ClientFilter, MethodFilter, EndpointFilter)
    linked_lookups = ("client_id",)  # from the pages of OAuth clients
    search_fields = ("name",)  # for the box; see get_search_results
    search_help_text = gettext_lazy(
        "Full id of a trace, task, approval request, history entry or OAuth client, or words in the newest 50,000 "
        "entries (tool, caller, client, error, arguments)."
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
        (gettext_lazy("Related"), {"fields": (("approval", "task_id"), "history_id", "trace_id")}),
    )
    """Related fields share a line. Empty fields are left out."""

    class Media:
        """The script of the package."""

        js = ("django_mcp/admin.js",)

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
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
        # The list leaves out columns that may be long and are not shown there.
        found: QuerySet[RequestLog] = super().get_queryset(request)
        match = request.resolver_match
        if match is None or "object_id" in match.kwargs or "export" in str(match.url_name):
            return found.select_related("user")
        return found.defer("arguments", "user", "trace_id", "approval", "task_id", "history_id", "log_entries")

    def get_search_results(
        self,
        request: HttpRequest,  # noqa: ARG002
        queryset: Any,
        search_term: str,
    ) -> "tuple[QuerySet[RequestLog], bool]":
        term = search_term.replace("\0", "").strip()
        if not term:
            return queryset, False
        has_id = _has_id(term)
        if RequestLog.objects.filter(has_id).exists():
            return queryset.filter(has_id), False
        # No index helps to find a word in a million texts, so words are searched in the newest rows only.
        newest = RequestLog.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
        words = Q(pk__gt=newest - SEARCHED)
        for word in term.split()[:5]:
            words &= has_word(RequestLog, WORDS, word)
        return queryset.filter(words), False

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.export_view)
        name = f"{self.opts.app_label}_{self.opts.model_name}_export"
        return [path("export.csv", view, name=name), *super().get_urls()]

    def export_view(self, request: HttpRequest) -> HttpResponseBase:
        if not self.has_view_permission(request):
            raise PermissionDenied
        try:
            rows = self.get_changelist_instance(request).get_queryset(request)
        except IncorrectLookupParameters:  # as on the page of the list
            return HttpResponseRedirect(f"../?{ERROR_FLAG}=1")
        return csv_response(rows, on_loop=isinstance(request, ASGIRequest))

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[LogList]:  # noqa: ARG002
        return LogList

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> Any:
        shown = {"title": _("Request log"), "query": request.GET.urlencode(), "most": BoundedPaginator.most}
        return super().changelist_view(request, {**shown, **(extra_context or {})})

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        row = self.get_object(request, object_id)
        related = [] if row is None else list(self._related(request, row))
        return super().change_view(request, object_id, form_url, {**(extra_context or {}), "related": related})

    def _related(self, request: HttpRequest, row: RequestLog) -> Iterator[tuple[str, str, str]]:
        for label, name, model, key in self._targets(row):
            if address := page_of(request, self.admin_site, model, key):
                yield label, name, address
        yield from self._history(request, row)
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

    def _history(self, request: HttpRequest, row: RequestLog) -> Iterator[tuple[str, str, str]]:
        if not row.log_entries or not has_history():
            return
        for entry in LogEntry.objects.filter(pk__in=row.log_entries.split(",")[:MAX_SAME]).select_related(
            "content_type"
        ):
            model = None if entry.content_type is None else entry.content_type.model_class()
            address = page_of(request, self.admin_site, LogEntry, entry.pk)
            if not address and model is not None and not entry.is_deletion():
                address = page_of(request, self.admin_site, model, entry.object_id, "history")
            if address:
                yield _("History"), f"{entry.object_repr}: {entry.get_change_message()}", address

    def _playground_address(self, request: HttpRequest, row: RequestLog) -> str:
        site, is_there = self.admin_site, any(server.name == row.server for server in servers())
        if row.method != "tools/call" or not is_there or not site.is_registered(Playground):
            return ""
        if not site.get_model_admin(Playground).has_view_permission(request):
            return ""
        address = address_in(site, "playground_call")
        return address and f"{address}?{urlencode({'endpoint': row.server, 'kind': 'tool', 'key': row.name})}"

    def _targets(self, row: RequestLog) -> Iterator[tuple[str, str, type[Model], Any]]:
        server = server_named(row.server)
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
        # With their name at the time of the request, if it was another one.
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
        if row.principal_kind == "api_key":
            for key in APIKey.objects.filter(pk__in=keys_of(APIKey, [row.principal_id])):
                return _("API key “%s”") % key.name
        return f"{row.principal_kind} {row.principal_id}".strip() or NOTHING


def time_of(row: RequestLog) -> str:
    return str(formats.date_format(localtime(row.started_at), "DATETIME_FORMAT"))


def exact_of(row: RequestLog) -> str:
    return localtime(row.started_at).isoformat(" ", "milliseconds")

"""The log of calls in the admin: to be read, searched and taken along, and never changed."""

import datetime
from typing import TYPE_CHECKING, Any, ClassVar

from django.contrib import admin
from django.contrib.auth import get_user_model
from django.core.exceptions import PermissionDenied
from django.core.handlers.asgi import ASGIRequest
from django.db.models import Q
from django.http import HttpRequest, HttpResponseBase
from django.urls import URLPattern, path
from django.utils import timezone
from django.utils.safestring import SafeString
from django.utils.text import Truncator
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_mcp.admin.call_dates import CallList
from django_mcp.admin.call_export import exported
from django_mcp.admin.call_filters import (
    ClientFilter,
    EndpointFilter,
    MethodFilter,
    PeriodFilter,
    ToolFilter,
    UserFilter,
)
from django_mcp.admin.choices import STYLES
from django_mcp.admin.paging import BoundedPaginator
from django_mcp.admin.read_only import ReadOnlyAdmin
from django_mcp.admin.shown import as_json, as_text
from django_mcp.models import ToolCall

if TYPE_CHECKING:
    from django.db.models import QuerySet

SEARCHED = 50_000
"""Newest rows whose words are searched; ids are found wherever they are."""
IDS = ("trace_id", "task_id", "approval")
WORDS = ("name", "caller", "principal_id", "client_name", "client_id", "credential", "error", "arguments")


class ToolCallAdmin(ReadOnlyAdmin):
    """Calls, the newest first."""

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
    search_fields = ("name",)  # for the box; see get_search_results
    search_help_text = gettext_lazy(
        "A trace, task or ticket by its whole id; or words of the newest 50,000 calls: tool, caller, client, error, "
        "arguments."
    )
    date_hierarchy = "called"
    ordering = ("-called",)
    sortable_by = ("time",)
    list_per_page = 100
    list_max_show_all = 100
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    paginator = BoundedPaginator
    actions = None
    change_list_template = "admin/django_mcp/toolcall/change_list.html"
    fieldsets: ClassVar[Any] = (
        (None, {"fields": ("exact", "method", "name", "server", "outcome", "words", "given")}),
        (
            gettext_lazy("Caller"),
            {"fields": ("person", "principal", "credential", "client_id", "client", "protocol", "address")},
        ),
        (gettext_lazy("Result"), {"fields": ("result_kind", "result_size", "duration", "queries")}),
        (gettext_lazy("Belongs to"), {"fields": ("approval", "task_id", "trace_id")}),
    )

    class Media:
        """Its styles."""

        css = STYLES

    # What is shown

    def get_queryset(self, request: HttpRequest) -> "QuerySet[ToolCall]":
        """In a list without what may be long and is not shown there."""
        found: QuerySet[ToolCall] = super().get_queryset(request)
        match = request.resolver_match
        if match is None or "object_id" in match.kwargs or "export" in str(match.url_name):
            return found.select_related("user")
        return found.defer("arguments", "user", "trace_id", "approval", "task_id")

    def get_search_results(
        self,
        request: HttpRequest,  # noqa: ARG002
        queryset: Any,
        search_term: str,
    ) -> "tuple[QuerySet[ToolCall], bool]":
        """By ids all there are; by words of the newest ones, for no index helps to find a word in a million texts."""
        term = search_term.strip()
        if not term:
            return queryset, False
        newest = ToolCall.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
        words = Q()
        for part in term.split()[:5]:
            words &= Q.create([(f"{name}__icontains", part) for name in WORDS], connector=Q.OR)
        by_id = Q.create([(name, term) for name in IDS], connector=Q.OR)
        if term.isalnum() and len(term) == len("0af7651916cd43dd8448eb211c80319c"):
            return queryset.filter(by_id), False
        return queryset.filter(Q(pk__gt=newest - SEARCHED) & (words | by_id)), False

    def get_urls(self) -> list[URLPattern]:
        """And the export."""
        view = self.admin_site.admin_view(self.export_view)
        name = f"{self.opts.app_label}_{self.opts.model_name}_export"
        return [path("export.csv", view, name=name), *super().get_urls()]

    def export_view(self, request: HttpRequest) -> HttpResponseBase:
        """All that the filters leave, as a CSV file."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        rows = self.get_changelist_instance(request).get_queryset(request)
        return exported(rows, on_loop=isinstance(request, ASGIRequest))

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[CallList]:  # noqa: ARG002
        """With dates that are not looked for in the log."""
        return CallList

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> Any:
        """With the query of the export."""
        most = BoundedPaginator.most
        return super().changelist_view(
            request, {**(extra_context or {}), "query": request.GET.urlencode(), "most": most}
        )

    @admin.display(description=gettext_lazy("time"), ordering="called")
    def time(self, row: ToolCall) -> str:
        """To the second, and sorted as it is read: what belongs together was called within one minute."""
        return _local(row.called).strftime("%Y-%m-%d %H:%M:%S")

    @admin.display(description=gettext_lazy("time"))
    def exact(self, row: ToolCall) -> str:
        """To the millisecond, with its distance from UTC where the site has time zones: to be found in other logs."""
        return _local(row.called).isoformat(" ", "milliseconds")

    @admin.display(description=gettext_lazy("method"), ordering="method")
    def what(self, row: ToolCall) -> str:
        """The method, or what took its place."""
        return row.method or "–"

    @admin.display(description=gettext_lazy("about"))
    def about(self, row: ToolCall) -> SafeString | str:
        """The tool, prompt or resource, and where."""
        return Truncator(f"{row.name} · {row.server}" if row.name else row.server).chars(60)

    @admin.display(description=gettext_lazy("outcome"))
    def state(self, row: ToolCall) -> str:
        """In words."""
        return str(row.get_outcome_display())

    @admin.display(description=gettext_lazy("caller"))
    def who(self, row: ToolCall) -> str:
        """Their name at that time, or their kind."""
        return row.caller or row.principal_kind or "–"

    @admin.display(description=gettext_lazy("client"))
    def client(self, row: ToolCall) -> str:
        """As it says of itself."""
        return Truncator(f"{row.client_name} {row.client_version}".strip()).chars(40) or "–"

    @admin.display(description=gettext_lazy("took"))
    def took(self, row: ToolCall) -> str:
        """How long."""
        return _("%s ms") % f"{row.duration:.1f}"

    @admin.display(description=gettext_lazy("error"))
    def said(self, row: ToolCall) -> str:
        """The beginning of its words."""
        return Truncator(row.error).chars(60)

    @admin.display(description=gettext_lazy("error"))
    def words(self, row: ToolCall) -> SafeString | str:
        """All of them."""
        return as_text(row.error) if row.error else "–"

    @admin.display(description=gettext_lazy("arguments"))
    def given(self, row: ToolCall) -> SafeString | str:
        """Without secrets."""
        return "–" if row.arguments is None else as_json(row.arguments)

    @admin.display(description=gettext_lazy("caller"))
    def person(self, row: ToolCall) -> str:
        """The user, and their name at that time where it was another one."""
        now = "" if row.user is None else str(getattr(row.user, get_user_model().USERNAME_FIELD))
        if not now:
            return row.caller or "–"
        return now if row.caller in {"", now} else f"{now} ({row.caller})"

    @admin.display(description=gettext_lazy("recognised as"))
    def principal(self, row: ToolCall) -> str:
        """Kind and id."""
        return f"{row.principal_kind} {row.principal_id}".strip() or "–"


def _local(moment: datetime.datetime) -> datetime.datetime:
    """In the current time zone, where the site has any."""
    return timezone.localtime(moment) if timezone.is_aware(moment) else moment

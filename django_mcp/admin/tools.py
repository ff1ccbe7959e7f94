"""Admin of tools: list with filters and actions, and detail page."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar
from urllib.parse import urlencode

from django.contrib import admin, messages
from django.contrib.admin.utils import quote, unquote
from django.core.exceptions import PermissionDenied
from django.db.models import Case, QuerySet, When
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.template.loader import render_to_string
from django.urls import URLPattern
from django.utils.functional import lazy
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import Truncator
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_mcp.admin import tool_rows
from django_mcp.admin.base import FiltersAboveList, StrictFiltersAdmin, VirtualModelAdmin, client_list
from django_mcp.admin.display import NOTHING, as_json, client_names, lasted
from django_mcp.admin.stats import unindexed
from django_mcp.admin.tool_policies import (
    DECISIONS,
    DEFAULT,
    POLICY,
    SEEN,
    SHOWN,
    TOO_LATE,
    Change,
    ChangedMeanwhile,
    OverrideForm,
    ToolPolicyActions,
    audience,
    confirm_weakening,
    decision_label,
    find_weakened,
    logged_tool,
    posted_fields,
    read_undo_token,
)
from django_mcp.admin.tool_rows import (
    DAYS,
    ToolRow,
    decided_words,
    differences,
    find_orphaned_policies,
    find_tool_row,
    load_tool_rows,
)
from django_mcp.approvals import tool_definitions, unmatched_policies
from django_mcp.conf import settings
from django_mcp.core.server import servers
from django_mcp.models import RequestLog, ToolPolicy, Tools

Test = Callable[[ToolRow], bool]


def _is(value: str) -> Test:
    return lambda tool_row: tool_row.decision.name.lower() == value


def _says(hint: str) -> Test:
    return lambda tool_row: bool(tool_row.tool.annotations.get(hint))


def tool_rows_of(request: HttpRequest) -> Mapping[Any, ToolRow]:
    """Return the tools of the list by primary key of their snapshot, loaded once for a request."""
    found: dict[Any, ToolRow] | None = getattr(request, "_mcp_tool_rows", None)
    if found is None:
        every = load_tool_rows(with_calls=request.user.has_perm("django_mcp.view_requestlog"))
        # A tool whose definition cannot be built has no row; the page names it.
        found = {tool_row.snapshot.pk: tool_row for tool_row in every if tool_row.snapshot is not None}
        request._mcp_tool_rows = found  # type: ignore[attr-defined]  # noqa: SLF001 - of this page alone
        request._mcp_failing = [tool_row for tool_row in every if tool_row.snapshot is None]  # type: ignore[attr-defined]  # noqa: SLF001
    return found


def _matching(request: HttpRequest, queryset: "QuerySet[Tools]", test: Test) -> "QuerySet[Tools]":
    return queryset.filter(pk__in=[pk for pk, tool_row in tool_rows_of(request).items() if test(tool_row)])


class EndpointFilter(admin.SimpleListFilter):
    """Filter by endpoint."""

    title = gettext_lazy("endpoint")
    parameter_name = "endpoint"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Any:  # noqa: ARG002
        return [(server.name, server.name) for server in servers()]

    def queryset(self, request: HttpRequest, queryset: "QuerySet[Tools]") -> "QuerySet[Tools]":  # noqa: ARG002
        return queryset.filter(server=self.value()) if self.value() else queryset


class _TestFilter(admin.SimpleListFilter):
    """Base of filters by what is in no column: tests of tools, with their labels."""

    tests: ClassVar[Mapping[str, tuple[Any, Test]]]

    def lookups(self, request: HttpRequest, model_admin: Any) -> Any:  # noqa: ARG002
        return [(name, label) for name, (label, _test) in self.tests.items()]

    def queryset(self, request: HttpRequest, queryset: "QuerySet[Tools]") -> "QuerySet[Tools]":
        known = self.tests.get(self.value() or "")
        return queryset if known is None else _matching(request, queryset, known[1])


class DecisionFilter(_TestFilter):
    """Filter by policy."""

    title = gettext_lazy("decision")
    parameter_name = "decision"
    tests: ClassVar[Any] = {
        **{str(value): (label, _is(value)) for value, label in ToolPolicy.Decision.choices},
        "decided": (gettext_lazy("set explicitly"), lambda tool_row: tool_row.own is not None),
        "overridden": (gettext_lazy("with overrides"), lambda tool_row: bool(tool_row.override_words)),
    }


class HintFilter(_TestFilter):
    """Filter by hints."""

    title = gettext_lazy("hints")
    parameter_name = "hint"
    tests: ClassVar[Any] = {
        "read-only": (gettext_lazy("read-only"), lambda tool_row: tool_row.tool.read_only),
        "writes": (gettext_lazy("writes"), lambda tool_row: not tool_row.tool.read_only),
        "destructive": (gettext_lazy("destructive"), lambda tool_row: tool_row.is_destructive),
        "idempotent": (gettext_lazy("idempotent"), _says("idempotentHint")),
        "open-world": (gettext_lazy("open world"), _says("openWorldHint")),
        "unsaid": (gettext_lazy("no hints"), lambda tool_row: not tool_row.tool.annotations),
    }


class ChangedFilter(_TestFilter):
    """Filter by changes of the definition."""

    title = gettext_lazy("changed")
    parameter_name = "changed"
    tests: ClassVar[Any] = {"yes": (gettext_lazy("since approval"), lambda tool_row: tool_row.is_changed)}


def _has(words: Sequence[str]) -> Test:
    def has(tool_row: ToolRow) -> bool:
        text = f"{tool_row.key} {tool_row.title} {tool_row.description} {tool_row.source}".casefold()
        return all(word in text for word in words)

    return has


class ToolList(FiltersAboveList):
    """Rows of the table, each with its tool of this process."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        tool_rows, may_change = tool_rows_of(request), self.model_admin.has_change_permission(request)
        for row in self.result_list:
            row.tool_row, row.may_change = tool_rows[row.pk], may_change

    def url_for_result(self, result: Any) -> str:
        return f"{quote(result.tool_row.key)}/change/"


LAST_CALLS = 20
NONE = format_html('<span class="mcp-none mcp-quiet">{}</span>', NOTHING)
LAST_DAYS = lazy(lambda: _("Last %(days)s days") % {"days": DAYS}, str)()


def _set_selected(decision: str) -> Any:
    def set_selected(model_admin: "ToolsAdmin", request: HttpRequest, queryset: "QuerySet[Tools]") -> Any:
        tool_rows = tool_rows_of(request)
        chosen = [tool_rows[pk] for pk in queryset.order_by().values_list("pk", flat=True)]
        # With those of other pages, which this page did not show, the action is about what there is now.
        across = request.POST.get("select_across") == "1"
        changes = [
            Change(
                tool_row.server.name,
                tool_row.tool.key,
                decision,
                seen=request.POST.get(f"{SEEN}{tool_row.key}", tool_row.chosen if across else ""),
            )
            for tool_row in chosen
        ]
        return model_admin.set_general(request, [change for change in changes if change.seen != decision], [*chosen])

    return set_selected


class ToolsAdmin(VirtualModelAdmin, StrictFiltersAdmin):
    """List and pages of tools, with the permissions to view and change tool policies."""

    template_dir, permission_model = "tools", "toolpolicy"
    acts_with = "change_toolpolicy"
    nothing_yet = gettext_lazy("There are no tools.")
    list_display = ("name", "endpoint", "kind", "callers", "policy", "calls", "failures")
    list_filter = (EndpointFilter, DecisionFilter, HintFilter, ChangedFilter)
    search_fields = ("tool",)  # for the box; see get_search_results
    search_help_text = gettext_lazy("Name, title, description or source")
    ordering = ("server", "tool")
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    change_list_template = "admin/django_mcp/tools/change_list.html"

    def get_urls(self) -> list[URLPattern]:
        return [url for url in super().get_urls() if not str(url.name).endswith(("_add", "_delete"))]

    # Permissions

    def has_approve_permission(self, request: HttpRequest) -> bool:
        return self.has_change_permission(request) or request.user.has_perm("django_mcp.change_toolsnapshot")

    # List

    def get_queryset(self, request: HttpRequest) -> "QuerySet[Tools]":
        """Return the tools of this process, with what the list is sorted by."""
        tool_rows = tool_rows_of(request)
        called = [
            (pk, tool_row.calls.calls, tool_row.failure_rate) for pk, tool_row in tool_rows.items() if tool_row.calls
        ]
        found: QuerySet[Tools] = super().get_queryset(request).filter(pk__in=tool_rows).defer("definition")
        return found.annotate(
            mcp_calls=Case(*(When(pk=pk, then=calls) for pk, calls, _rate in called if calls), default=0),
            mcp_failures=Case(*(When(pk=pk, then=rate) for pk, _calls, rate in called if rate), default=0.0),
        )

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ToolList]:  # noqa: ARG002
        return ToolList

    def get_list_display(self, request: HttpRequest) -> Any:
        return self.list_display if self.can_view_log(request) else self.list_display[:-2]

    def get_search_results(
        self, request: HttpRequest, queryset: "QuerySet[Tools]", search_term: str
    ) -> "tuple[QuerySet[Tools], bool]":
        words = search_term.casefold().split()
        return _matching(request, queryset, _has(words)) if words else queryset, False

    def get_actions(self, request: HttpRequest) -> Any:
        if not self.has_change_permission(request):
            return {}
        return {
            decision: (_set_selected(decision), decision, _("Set the policy to: %s") % decision_label(decision))
            for decision in DECISIONS
        }

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """List the tools of all endpoints. On POST, set the policy of some.

        Raises:
            PermissionDenied: the user may not view or change tool policies.
        """
        if not self.has_view_permission(request):
            raise PermissionDenied
        if request.method == "POST" and ("_save" in request.POST or not request.POST.get("action")):
            return self._decide_about_some(request, [*tool_rows_of(request).values()])
        changed = sum(tool_row.is_changed for tool_row in tool_rows_of(request).values())
        unmatched = find_orphaned_policies()
        shown = {
            "changed": changed,
            "may_change": self.has_change_permission(request),
            "failing": [(row, self.address_of(row.key)) for row in request._mcp_failing],  # type: ignore[attr-defined]  # noqa: SLF001
            "orphaned_policies": [
                (policy, audience(policy), decided_words(policy), problem) for policy, problem in unmatched
            ],
        }
        return super().changelist_view(request, {**shown, **(extra_context or {})})

    @admin.display(description=gettext_lazy("tool"), ordering="tool")
    def name(self, row: Any) -> SafeString:
        summary = Truncator(row.tool_row.summary).chars(200)
        return format_html('<span translate="no" title="{}">{}</span>', summary, row.tool_row.name_in_parts)

    @admin.display(description=gettext_lazy("endpoint"), ordering="server")
    def endpoint(self, row: Any) -> str:
        return str(row.server)

    @admin.display(description=gettext_lazy("kind"))
    def kind(self, row: Any) -> SafeString:
        context = {"tool_row": row.tool_row, "address": self.address_of(row.tool_row.key)}
        return render_to_string("admin/django_mcp/tools/kind.html", context)

    @admin.display(description=gettext_lazy("allowed callers"))
    def callers(self, row: Any) -> SafeString:
        words = "; ".join(row.tool_row.callers)
        return format_html('<span title="{}">{}</span>', words, words)

    @admin.display(description=gettext_lazy("policy"))
    def policy(self, row: Any) -> SafeString:
        context = {"tool_row": row.tool_row, "may_change": row.may_change}
        return render_to_string("admin/django_mcp/tools/policy_select.html", context)

    @admin.display(description=LAST_DAYS, ordering="-mcp_calls")
    def calls(self, row: Any) -> SafeString:
        called = row.tool_row
        return format_html("{} <span>{}</span>", called.plot, called.count_words) if called.calls.calls else NONE

    @admin.display(description=gettext_lazy("failures"), ordering="-mcp_failures")
    def failures(self, row: Any) -> SafeString | str:
        return row.tool_row.failure_words if row.tool_row.failure_rate else NONE

    def _decide_about_some(self, request: HttpRequest, every: list[ToolRow]) -> HttpResponse:
        if not self.has_change_permission(request):
            raise PermissionDenied
        if "undo" in request.POST:
            return self._undo(request, request.POST["undo"], every)
        if "delete_orphan" in request.POST:
            return self._remove(
                request, [row for row, _problem in find_orphaned_policies()], request.POST["delete_orphan"], every
            )
        return self.set_general(request, _requested_changes(request.POST, every), every)

    def set_general(self, request: HttpRequest, changes: Sequence[Change], every: Sequence[ToolRow]) -> HttpResponse:
        shown = [(f"{SEEN}{change.key}", change.seen) for change in changes]
        fields = [*((f"{POLICY}{change.key}", change.decision) for change in changes), *shown]
        return self._set(request, changes, every, fields)

    def _undo(self, request: HttpRequest, token: str, every: Sequence[ToolRow]) -> HttpResponse:
        actions, found = ToolPolicyActions(self, request), read_undo_token(request, token)
        if found is None:
            self.message_user(request, TOO_LATE, messages.WARNING)
            return HttpResponseRedirect(request.get_full_path())
        nonce, state = found
        changes = actions.changes_of_undo(state)
        # It asks first if that weakens a control.
        asking = self._ask(request, changes, every, [("undo", token)])
        if asking is None:
            actions.undo(nonce, changes)
        return asking or HttpResponseRedirect(request.get_full_path())

    def _remove(
        self, request: HttpRequest, rows: Iterable[ToolPolicy], shown: str, every: Sequence[ToolRow]
    ) -> HttpResponse:
        """Remove a policy, given as primary key and the decision that the page showed."""
        pk, _colon, seen = shown.partition(":")
        row = next((policy for policy in rows if str(policy.pk) == pk), None)
        if row is None:
            self.message_user(request, _("This policy no longer exists."), messages.WARNING)
            return HttpResponseRedirect(request.get_full_path())
        change = Change(row.server, row.tool, DEFAULT, row.group, row.client_id, seen)
        return self._set(request, [change], every, posted_fields(request.POST))

    def _set(
        self,
        request: HttpRequest,
        changes: Sequence[Change],
        every: Sequence[ToolRow],
        fields: Iterable[tuple[str, str]],
    ) -> HttpResponse:
        asking = self._ask(request, changes, every, fields)
        if asking is None:
            ToolPolicyActions(self, request).decide(changes)
        return asking or HttpResponseRedirect(request.get_full_path())

    def _ask(
        self,
        request: HttpRequest,
        changes: Sequence[Change],
        every: Sequence[ToolRow],
        fields: Iterable[tuple[str, str]],
    ) -> HttpResponse | None:
        """Return the page that asks first, if a control is weakened and what the author saw still applies."""
        try:
            for change in changes:
                change.check()
        except ChangedMeanwhile:  # told where they are stored
            return None
        return confirm_weakening(self, request, find_weakened(every, changes), fields)

    # Detail

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:  # noqa: ARG002
        tool_row = find_tool_row(object_id, with_calls=False)
        return None if tool_row is None else logged_tool(tool_row.server.name, tool_row.tool.key)

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",  # noqa: ARG002
        extra_context: Any = None,  # noqa: ARG002
    ) -> HttpResponse:
        """Show a tool. On POST, change its policies or approve its definition.

        Raises:
            PermissionDenied: the user may not view or change tool policies.
        """
        if not self.has_view_permission(request):
            raise PermissionDenied
        tool_row = find_tool_row(unquote(object_id), with_calls=self.can_view_log(request))
        if tool_row is None:
            return self._get_obj_does_not_exist_redirect(request, self.opts, unquote(object_id))  # type: ignore[attr-defined, no-any-return]
        form = OverrideForm(request.POST if "override" in request.POST else None)
        if request.method == "POST":
            answer = self._change(request, tool_row, form)
            if answer is not None:
                return answer
        names = client_names([*(row.client_id for row in tool_row.overrides), *tool_row.limited])
        problems = unmatched_policies.find_problems(tool_row.overrides)
        context = {
            "tool_row": tool_row,
            "overrides": [(row, names.get(row.client_id, ""), problems.get(row.pk, "")) for row in tool_row.overrides],
            "limited": [(client_id, names.get(client_id, "")) for client_id in tool_row.limited],
            "form": form,
            "clients": client_list(),
            "may_approve": self.has_approve_permission(request),
            "digest": tool_definitions.current_definition(tool_row.tool).digest,
            "differences": _differences(tool_row),
            "days": DAYS,
            "holds": settings.BLOCK_CHANGED_TOOLS,
            "place": tool_rows.place_of(tool_row.tool),
            "scope_words": tool_rows.scope_words(tool_row.tool),
            "input_schema": as_json(tool_row.tool.definition["inputSchema"]),
            "output_schema": _output_schema(tool_row),
            "can_view_log": self.can_view_log(request),
            "last_calls": self._last_calls(request, tool_row),
            "calls_address": self._calls_address(tool_row),
        }
        return self.page(request, "detail", tool_row.title or tool_row.tool.name, context)

    def _change(self, request: HttpRequest, tool_row: ToolRow, form: OverrideForm) -> HttpResponse | None:
        """Do what was asked, and return the response; None if the form has errors to show."""
        given = request.POST
        if "approve_definition" in given:
            if not self.has_approve_permission(request):
                raise PermissionDenied
            ToolPolicyActions(self, request).approve_definition(tool_row, given["approve_definition"])
            return HttpResponseRedirect(request.get_full_path())
        if not self.has_change_permission(request):
            raise PermissionDenied
        if "remove" in given:
            return self._remove(request, tool_row.overrides, given["remove"], [tool_row])
        if "override" not in given:
            return self.set_general(request, _requested_changes(given, [tool_row]), [tool_row])
        if not form.is_valid():
            return None
        if given.get(SHOWN) != tool_row.state:
            words = _("Nothing was changed: the policies of this tool are not the ones that the page showed.")
            self.message_user(request, f"{words} {_('Check it, then decide again.')}", messages.ERROR)
            return HttpResponseRedirect(request.get_full_path())
        change = Change(tool_row.server.name, tool_row.tool.key, **form.cleaned_data)
        rows = {(row.group_id, row.client_id): row.decision for row in tool_row.rows}
        change = replace(change, seen=rows.get(change.audience, DEFAULT))
        return self._set(request, [change], [tool_row], posted_fields(given))

    def _last_calls(self, request: HttpRequest, tool_row: ToolRow) -> list[tuple[RequestLog, str, str]]:
        if not self.can_view_log(request):
            return []
        # Force the index on name, which is selective; SQLite would choose the one on the endpoint.
        rows = RequestLog.objects.alias(endpoint=unindexed("server"), verb=unindexed("method"))
        rows = rows.filter(name=tool_row.tool.key, endpoint=tool_row.server.name, verb="tools/call")
        rows = rows.order_by("-started_at")[:LAST_CALLS]
        return [(row, self.address("requestlog_change", row.pk), lasted(row.outcome, row.duration)) for row in rows]

    def _calls_address(self, tool_row: ToolRow) -> str:
        query = urlencode({"server": tool_row.server.name, "name": tool_row.tool.key})
        listing = self.address("requestlog_changelist")
        return f"{listing}?{query}" if listing else ""


def _requested_changes(given: QueryDict, every: Iterable[ToolRow]) -> list[Change]:
    found = []
    for tool_row in every:
        decision, seen = given.get(f"{POLICY}{tool_row.key}"), given.get(f"{SEEN}{tool_row.key}", "")
        if decision in DECISIONS and decision != seen:
            found.append(Change(tool_row.server.name, tool_row.tool.key, decision, seen=seen))
    return found


def _differences(tool_row: ToolRow) -> Any:
    if tool_row.snapshot is None or not tool_row.is_changed:
        return []
    return differences(tool_row.snapshot.definition, tool_definitions.current_definition(tool_row.tool).definition)


def _output_schema(tool_row: ToolRow) -> Any:
    schema = tool_row.tool.definition.get("outputSchema")
    return "" if schema is None else as_json(schema)

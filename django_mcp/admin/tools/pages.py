"""The two pages of tools: all of them, and one."""

from typing import Any
from urllib.parse import urlencode

from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.urls import URLPattern, path

from django_mcp.admin.own_pages import OwnPagesAdmin, page_queries
from django_mcp.admin.shown import as_json
from django_mcp.admin.statistics import unindexed
from django_mcp.admin.tools import words
from django_mcp.admin.tools.changing import DECISIONS, Changing, whom
from django_mcp.admin.tools.choosing import Choosing
from django_mcp.admin.tools.differences import differences
from django_mcp.admin.tools.forms import OverrideForm, client_list
from django_mcp.admin.tools.lines import DAYS, Line, decided_words, find, left_over, lines
from django_mcp.approvals import tool_policies
from django_mcp.conf import settings
from django_mcp.models import ToolCall, ToolPolicy

PER_PAGE = 100
LAST_CALLS = 20


class ToolsAdmin(OwnPagesAdmin):
    """Whoever may see policies sees tools, and whoever may change policies decides about them."""

    folder, behind = "tools", "toolpolicy"

    def get_urls(self) -> list[URLPattern]:
        """Under the names by which admin sites link models, and histories objects."""
        view = self.admin_site.admin_view
        return [
            path("", view(self.list_view), name="django_mcp_tools_changelist"),
            path("<path:object_id>/change/", view(self.tool_view), name="django_mcp_tools_change"),
        ]

    # Who may

    def has_accept_permission(self, request: HttpRequest) -> bool:
        """To say that a tool that changed is right."""
        return self.has_change_permission(request) or request.user.has_perm("django_mcp.change_knowntool")

    # All of them

    def list_view(self, request: HttpRequest) -> HttpResponseBase:
        """Every tool of every endpoint. By POST, decide about some.

        Raises:
            PermissionDenied: they may not see, or not decide.
        """
        if not self.has_view_permission(request):
            raise PermissionDenied
        sees_calls = self.sees_calls(request)
        every = lines(with_calls=sees_calls)
        if request.method == "POST":
            return self._decide_about_some(request, every)
        choosing = Choosing(request.GET, with_calls=sees_calls)
        found = choosing.apply(every)
        page = Paginator(found, PER_PAGE).get_page(request.GET.get("p"))
        context = {
            "choosing": choosing,
            "page": page,
            "page_queries": page_queries(request, page),
            "number": len(every),
            "changed": sum(each.is_changed for each in every),
            "days": DAYS,
            "sees_calls": sees_calls,
            "decisions": ToolPolicy.Decision.choices,
            "rows": [(each, self.address_of(each.key)) for each in page],
            "left_over": [(each, whom(each), decided_words(each)) for each in left_over()],
        }
        return self.page(request, "list", str(self.opts.verbose_name_plural).capitalize(), context)

    def _decide_about_some(self, request: HttpRequest, every: list[Line]) -> HttpResponse:
        if not self.has_change_permission(request):
            raise PermissionDenied
        if "forget" in request.POST:
            Changing(self, request).forget(left_over(), request.POST["forget"])
            return HttpResponseRedirect(request.get_full_path())
        decision, _space, key = request.POST.get("decide", "").partition(" ")
        keys = [key] if decision else request.POST.getlist("_selected_action")
        decision = decision or request.POST.get("action", "")
        if decision in DECISIONS:
            wanted = set(keys)
            Changing(self, request).decide([each for each in every if each.key in wanted], decision)
        return HttpResponseRedirect(request.get_full_path())

    # One of them

    def tool_view(self, request: HttpRequest, object_id: str) -> HttpResponseBase:
        """All that is known of a tool. By POST, decide about it.

        Raises:
            PermissionDenied: they may not see, or not decide.
        """
        if not self.has_view_permission(request):
            raise PermissionDenied
        line = find(unquote(object_id), with_calls=self.sees_calls(request))
        if line is None:
            return self._get_obj_does_not_exist_redirect(request, self.opts, unquote(object_id))  # type: ignore[attr-defined, no-any-return]
        form = OverrideForm(request.POST if "override" in request.POST else None)
        if request.method == "POST" and self._change(request, line, form):
            return HttpResponseRedirect(request.get_full_path())
        context = {
            "line": line,
            "form": form,
            "clients": client_list(),
            "may_accept": self.has_accept_permission(request),
            "digest": tool_policies.known(line.tool).digest,
            "differences": _differences(line),
            "days": DAYS,
            "holds": settings.HOLD_CHANGED_TOOLS,
            "place": words.place_of(line.tool),
            "scope_words": words.scope_words(line.tool),
            "input_schema": as_json(line.tool.definition["inputSchema"]),
            "output_schema": _output_schema(line),
            "sees_calls": self.sees_calls(request),
            "last_calls": self._last_calls(request, line),
            "calls_address": self._calls_address(line),
            "notes": self.notes(line.key),
        }
        return self.page(request, "tool", line.title or line.tool.name, context)

    def _change(self, request: HttpRequest, line: Line, form: OverrideForm) -> bool:
        """Do what was asked; False where the form has errors to show."""
        given, changing = request.POST, Changing(self, request)
        if "accept" in given:
            if not self.has_accept_permission(request):
                raise PermissionDenied
            changing.accept(line, given["accept"])
            return True
        if not self.has_change_permission(request):
            raise PermissionDenied
        if "override" in given:
            if not form.is_valid():
                return False
            changing.override(line, form)
        elif "remove" in given:
            changing.remove(line, given["remove"])
        elif given.get("decide") in DECISIONS:
            changing.decide([line], given["decide"])
        return True

    def _last_calls(self, request: HttpRequest, line: Line) -> list[tuple[ToolCall, str]]:
        if not self.sees_calls(request):
            return []
        # By its name, of which there are few; SQLite would rather look through all calls of the endpoint.
        rows = ToolCall.objects.alias(endpoint=unindexed("server"), verb=unindexed("method"))
        rows = rows.filter(name=line.tool.key, endpoint=line.server.name, verb="tools/call")
        rows = rows.order_by("-called")[:LAST_CALLS]
        return [(each, self.address("toolcall_change", each.pk)) for each in rows]

    def _calls_address(self, line: Line) -> str:
        query = urlencode({"server": line.server.name, "name": line.tool.key})
        listing = self.address("toolcall_changelist")
        return f"{listing}?{query}" if listing else ""


def _differences(line: Line) -> Any:
    if line.known is None or not line.is_changed:
        return []
    return differences(line.known.definition, tool_policies.known(line.tool).definition)


def _output_schema(line: Line) -> Any:
    schema = line.tool.definition.get("outputSchema")
    return "" if schema is None else as_json(schema)

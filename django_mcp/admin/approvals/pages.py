"""The page on which people decide about calls."""

from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.auth import get_user_model
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest, HttpResponseRedirect
from django.shortcuts import render
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.cache import get_conditional_response
from django.utils.text import capfirst
from django.utils.translation import gettext_lazy

from django_mcp.admin.approvals.cards import Card, cards, is_waiting, note_shown, state_words, tag
from django_mcp.admin.approvals.decisions import PERIODS, decide
from django_mcp.admin.approvals.lists import ApprovalList, StateFilter, WaitingList
from django_mcp.admin.approvals.looking import STYLES, LookingAdmin
from django_mcp.admin.approvals.values import line
from django_mcp.approvals.messages import client
from django_mcp.models import Approval

LIVE = "x-mcp-live"
"""The header of requests that the page's script makes: it wants no page."""


class ApprovalAdmin(LookingAdmin):
    """Calls that wait, and what became of others."""

    change_list_template = "admin/django_mcp/approval/list.html"
    list_display = ("tool", "caller_name", "client_name", "state_now", "decided_by", "created")
    list_filter = (StateFilter, "server", "tool", "created")
    list_select_related = ("user", "decided_by", "task")
    date_hierarchy = "created"
    ordering = ("-pk",)
    actions = None
    show_full_result_count = False

    class Media:
        """Its styles, and what keeps the page up to date."""

        css = STYLES
        js = ("django_mcp/approvals.js",)

    def get_urls(self) -> list[URLPattern]:
        """And what the page's script asks for, and where forms are sent to."""
        wrap, name = self.admin_site.admin_view, f"{self.opts.app_label}_{self.opts.model_name}"
        return [
            path("waiting/", wrap(self.waiting_view), name=f"{name}_waiting"),
            path("<int:pk>/waiting/", wrap(self.one_waiting_view), name=f"{name}_waiting_one"),
            path("<int:pk>/decide/", wrap(self.decide_view), name=f"{name}_decide"),
            *super().get_urls(),
        ]

    def get_search_fields(self, request: HttpRequest) -> tuple[str, ...]:  # noqa: ARG002
        """The user model may have another name for names."""
        return ("tool", "ticket", "client_id", "principal_id", "reason", f"user__{get_user_model().USERNAME_FIELD}")

    # The list

    def get_changelist(self, request: HttpRequest, **_options: Any) -> type[ApprovalList]:
        """With what waits; or that alone."""
        match = request.resolver_match
        return WaitingList if match is not None and (match.url_name or "").endswith("_waiting") else ApprovalList

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """Cards of what waits, above the rows of what does not."""
        title = {"title": capfirst(self.opts.verbose_name_plural), **(extra_context or {})}
        answer = super().changelist_view(request, title)
        if isinstance(answer, TemplateResponse) and answer.context_data and "cl" in answer.context_data:
            shown, count = answer.context_data["cl"].cards(request.user)
            answer.context_data |= self._waiting(request, shown, count)
            answer.context_data["live_url"] = self._url("waiting") + self._query(request.GET.urlencode())
        return answer

    def waiting_view(self, request: HttpRequest) -> HttpResponse:
        """The cards alone; nothing where they are those that the script has."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        try:
            page: Any = self.get_changelist_instance(request)
        except IncorrectLookupParameters:
            return HttpResponseBadRequest()
        return self._fragment(request, *page.cards(request.user))

    def one_waiting_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """The same of one ticket."""
        row = self.get_object(request, str(pk))
        if not self.has_view_permission(request, row):
            raise PermissionDenied
        shown = cards([row], request.user) if row is not None and is_waiting(row) else []
        return self._fragment(request, shown, len(shown))

    def _fragment(self, request: HttpRequest, shown: list[Card], count: int) -> HttpResponse:
        etag = tag(shown, count, request.user)
        same = get_conditional_response(request, etag=etag)
        if same is not None and same.status_code == 304:  # noqa: PLR2004 - Not Modified
            return same
        context = {"opts": self.opts, **self._waiting(request, shown, count)}
        answer = render(request, "admin/django_mcp/approval/waiting.html", context)
        answer.headers["ETag"] = etag
        return answer

    def _waiting(self, request: HttpRequest, shown: list[Card], count: int) -> dict[str, Any]:
        note_shown(shown, request.user)
        return {
            "cards": shown,
            "waiting_count": count,
            "waiting_tag": tag(shown, count, request.user),
            "query": request.GET.urlencode(),
            "periods": PERIODS,
        }

    # One ticket

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        """What is known of it; while it waits, with the form that decides."""
        del form_url
        row = self.get_object(request, object_id)
        if not self.has_view_permission(request, row) or request.method not in {"GET", "HEAD"}:
            raise PermissionDenied
        if row is None:
            return self._get_obj_does_not_exist_redirect(request, self.opts, object_id)  # type: ignore[attr-defined, no-any-return]
        (card,) = cards([row], request.user)
        waiting = [card] if is_waiting(row) else []
        request.current_app = self.admin_site.name
        context = {
            **self.admin_site.each_context(request),
            "title": capfirst(self.opts.verbose_name),
            "opts": self.opts,
            "media": self.media,
            "card": card,
            "row": row,
            "state": state_words(row),
            "is_detail": True,
            "events": list(row.events.select_related("by").order_by("pk")),
            "live_url": self._url("waiting_one", row.pk) if waiting else "",
            **self._waiting(request, waiting, len(waiting)),
            **(extra_context or {}),
        }
        return TemplateResponse(request, "admin/django_mcp/approval/detail.html", context)

    def decide_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Decide, by POST; and say what came of it, on the page that asked or, to the script, alone."""
        row = self.get_object(request, str(pk))
        if not self.has_view_permission(request, row):
            raise PermissionDenied
        if row is None:
            return self._get_obj_does_not_exist_redirect(request, self.opts, str(pk))  # type: ignore[attr-defined, no-any-return]
        page = self._url("change", row.pk)
        if request.method != "POST":  # after a login on the way
            return HttpResponseRedirect(page)
        level, words = decide(request, row)
        if level == messages.SUCCESS:
            self.log_change(request, row, words)
        if LIVE in request.headers:
            return render(
                request, "admin/django_mcp/approval/said.html", {"level": messages.DEFAULT_TAGS[level], "words": words}
            )
        self.message_user(request, words, level)
        if request.POST.get("back") == "list":
            page = self._url("changelist") + self._query(request.POST.get("query", ""))
        return HttpResponseRedirect(page)

    # Columns

    @admin.display(description=gettext_lazy("caller"), ordering="principal_id")
    def caller_name(self, row: Approval) -> str:
        """Who asked."""
        person: str = row.person  # type: ignore[attr-defined] # see ApprovalList
        return person

    @admin.display(description=gettext_lazy("client"))
    def client_name(self, row: Approval) -> str:
        """What that says it is."""
        return line(client(row)) or "–"

    @admin.display(description=gettext_lazy("state"), ordering="state")
    def state_now(self, row: Approval) -> str:
        """What became of it."""
        return state_words(row)

    def _url(self, view: str, *args: Any) -> str:
        name = f"admin:{self.opts.app_label}_{self.opts.model_name}_{view}"
        return reverse(name, args=args, current_app=self.admin_site.name)

    @staticmethod
    def _query(query: str) -> str:
        return f"?{query}" if query else ""

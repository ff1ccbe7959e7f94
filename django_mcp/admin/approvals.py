"""Admin of approvals: pending calls as cards, and the list and history of decided ones."""

from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.options import IncorrectLookupParameters
from django.core.exceptions import PermissionDenied
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest, HttpResponseRedirect
from django.shortcuts import render
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from django.utils.cache import get_conditional_response
from django.utils.text import capfirst
from django.utils.translation import gettext_lazy

from django_mcp.admin.approval_cards import Card, etag_of, make_cards, record_views
from django_mcp.admin.approval_decisions import PERIODS, decide
from django_mcp.admin.approval_states import (
    OUTCOMES,
    State,
    ended_q,
    is_cancelled,
    is_pending,
    outcome_q,
    pending_q,
    state_words,
)
from django_mcp.admin.base import ApproverReadOnlyAdmin, StrictFiltersList, address_in, user_lookups, values_of_url
from django_mcp.admin.display import NOTHING, line
from django_mcp.approvals.approvers import may_decide
from django_mcp.approvals.messages import client
from django_mcp.models import OVER, Approval, Task

MAX_CARDS = 50
"""Maximum cards on a page."""


class ApprovalList(StrictFiltersList):
    """Change list of decided and expired requests; ``pending`` holds the pending ones, newest first."""

    pending: QuerySet[Approval]

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> QuerySet[Approval]:
        """Return the ended requests, and set ``pending``."""
        found = super().get_queryset(request, exclude_parameters)
        if exclude_parameters is None:  # otherwise the call only counts facets
            self.pending = found.filter(pending_q()).order_by("-pk")
        return found.filter(ended_q()).defer("arguments", "preview", "parts")

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        for card in make_cards(self.result_list, request.user):
            card.row.person = card.person  # type: ignore[attr-defined]

    def cards(self, user: Any) -> tuple[list[Card], int]:
        rows = list(self.pending.select_related("user", "task")[: MAX_CARDS + 1])
        return make_cards(rows[:MAX_CARDS], user), len(rows) if len(rows) <= MAX_CARDS else self.pending.count()


class PendingList(ApprovalList):
    """Change list of pending requests only, for the polling script."""

    def get_results(self, request: HttpRequest) -> None:  # noqa: ARG002
        self.result_count = self.full_result_count = 0
        self.result_list = self.root_queryset.none()
        self.can_show_all, self.multi_page = True, False


class StateFilter(admin.SimpleListFilter):
    """Filter by current state or outcome."""

    title = gettext_lazy("state")
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Any:  # noqa: ARG002
        states = [(value, capfirst(label)) for value, label in State.choices if value != State.CONSUMED]
        return [*states, *OUTCOMES.items()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Approval]) -> QuerySet[Approval] | None:  # noqa: ARG002
        now, is_over = timezone.now(), Q(task__status=Task.Status.CANCELLED)
        match self.value():
            case State.PENDING:
                return queryset.filter(pending_q())
            case State.APPROVED:
                return queryset.filter(state=State.APPROVED, expires__gt=now).exclude(is_over)
            case State.EXPIRED:
                is_old = Q(state__in=[State.PENDING, State.APPROVED], expires__lte=now)
                is_unwanted = Q(state=State.PENDING, task__status__in=OVER) | Q(state=State.APPROVED) & is_over
                return queryset.filter(Q(state=State.EXPIRED) | is_old | is_unwanted)
            case State.DENIED | State.CONSUMED as state:
                return queryset.filter(state=state)
            case str(run) if run in OUTCOMES:
                return queryset.filter(outcome_q(run))
        return None


FRAGMENT_HEADER = "x-mcp-fragment"
"""Header of requests by the page's script, which expect a fragment."""


class ApprovalAdmin(ApproverReadOnlyAdmin):
    """Lists and decides approval requests."""

    change_list_template = "admin/django_mcp/approval/list.html"
    nothing_yet = gettext_lazy("No decided approvals yet.")
    list_display = ("tool", "caller_name", "client_name", "state_now", "decided_by", "created")
    list_filter = (StateFilter, "server", "tool", "created")
    list_select_related = ("user", "decided_by", "task")
    ordering = ("-pk",)
    actions = None
    show_full_result_count = False

    class Media:
        """The polling script."""

        js = ("django_mcp/approvals.js",)

    def get_urls(self) -> list[URLPattern]:
        wrap, name = self.admin_site.admin_view, f"{self.opts.app_label}_{self.opts.model_name}"
        return [
            path("pending/", wrap(self.pending_view), name=f"{name}_pending"),
            path("<int:pk>/pending/", wrap(self.one_pending_view), name=f"{name}_pending_one"),
            path("<int:pk>/decide/", wrap(self.decide_view), name=f"{name}_decide"),
            *super().get_urls(),
        ]

    def get_search_fields(self, request: HttpRequest) -> tuple[str, ...]:  # noqa: ARG002
        return ("tool", "public_id", "client_id", "principal_id", "reason", *user_lookups())

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        # Who may decide nothing but their own call opens its page, not the list.
        return super().has_view_permission(request, obj) or (obj is not None and may_decide(obj, request.user))

    # The list

    def get_changelist(self, request: HttpRequest, **_options: Any) -> type[ApprovalList]:
        match = request.resolver_match
        return PendingList if match is not None and (match.url_name or "").endswith("_pending") else ApprovalList

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        answer = super().changelist_view(request, extra_context)
        if isinstance(answer, TemplateResponse) and answer.context_data and "cl" in answer.context_data:
            shown, count = answer.context_data["cl"].cards(request.user)
            answer.context_data |= self._pending(request, shown, count)
            answer.context_data["polling_url"] = self._url("pending") + self._query(request.GET.urlencode())
        return answer

    def pending_view(self, request: HttpRequest) -> HttpResponse:
        """Return the cards of pending requests, or 304 if they have not changed."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        try:
            page: Any = self.get_changelist_instance(request)
            with values_of_url(request):
                shown, count = page.cards(request.user)
        except IncorrectLookupParameters:
            return HttpResponseBadRequest()
        return self._fragment(request, shown, count)

    def one_pending_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Return the card of one pending request, or 304 if it has not changed."""
        row = self.get_object(request, str(pk))
        if not self.has_view_permission(request, row):
            raise PermissionDenied
        shown = make_cards([row], request.user) if row is not None and is_pending(row) else []
        return self._fragment(request, shown, len(shown))

    def _fragment(self, request: HttpRequest, shown: list[Card], count: int) -> HttpResponse:
        etag = etag_of(shown, count, request.user)
        same = get_conditional_response(request, etag=etag)
        if same is not None and same.status_code == 304:  # noqa: PLR2004 - Not Modified
            return same
        context = {"opts": self.opts, **self._pending(request, shown, count)}
        answer = render(request, "admin/django_mcp/approval/pending.html", context)
        answer.headers["ETag"] = etag
        return answer

    def _pending(self, request: HttpRequest, shown: list[Card], count: int) -> dict[str, Any]:
        record_views(shown, request.user)
        return {
            "cards": shown,
            "pending_count": count,
            "pending_etag": etag_of(shown, count, request.user),
            "query": request.GET.urlencode(),
            "periods": PERIODS,
        }

    # One approval request

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        del form_url
        row = self.get_object(request, object_id)
        if not self.has_view_permission(request, row) or request.method not in {"GET", "HEAD"}:
            raise PermissionDenied
        if row is None:
            return self._get_obj_does_not_exist_redirect(request, self.opts, object_id)  # type: ignore[attr-defined, no-any-return]
        (card,) = make_cards([row], request.user)
        pending = [card] if is_pending(row) else []
        request.current_app = self.admin_site.name
        context = {
            **self.admin_site.each_context(request),
            "title": capfirst(self.opts.verbose_name),
            "opts": self.opts,
            "media": self.media,
            "card": card,
            "row": row,
            "state": state_words(row),
            "is_cancelled": is_cancelled(row),
            "is_detail": True,
            "has_list": self.has_view_permission(request),
            "events": list(row.events.select_related("by").order_by("pk")),
            "polling_url": self._url("pending_one", row.pk) if pending else "",
            **self._pending(request, pending, len(pending)),
            **(extra_context or {}),
        }
        return TemplateResponse(request, "admin/django_mcp/approval/detail.html", context)

    def decide_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Process a decision. Redirect with a message, or return the message alone to the script."""
        row = self.get_object(request, str(pk))
        if not self.has_view_permission(request, row):
            raise PermissionDenied
        if row is None:
            return self._get_obj_does_not_exist_redirect(request, self.opts, str(pk))  # type: ignore[attr-defined, no-any-return]
        page = self._url("change", row.pk)
        if request.method != "POST":  # redirected here after a login
            return HttpResponseRedirect(page)
        level, words = decide(request, row)
        if FRAGMENT_HEADER in request.headers:
            return render(
                request,
                "admin/django_mcp/approval/message.html",
                {"level": messages.DEFAULT_TAGS[level], "words": words},
            )
        self.message_user(request, words, level)
        match request.POST.get("back"):
            case "list":
                page = self._url("changelist") + self._query(request.POST.get("query", ""))
            case "overview":
                page = address_in(self.admin_site, "overview") or page
        return HttpResponseRedirect(page)

    # Columns

    @admin.display(description=gettext_lazy("caller"), ordering="principal_id")
    def caller_name(self, row: Approval) -> str:
        person: str = row.person  # type: ignore[attr-defined] # see ApprovalList
        return person

    @admin.display(description=gettext_lazy("client"))
    def client_name(self, row: Approval) -> str:
        return line(client(row)) or NOTHING

    @admin.display(description=gettext_lazy("state"), ordering="state")
    def state_now(self, row: Approval) -> str:
        return state_words(row)

    def _url(self, view: str, *args: Any) -> str:
        name = f"admin:{self.opts.app_label}_{self.opts.model_name}_{view}"
        return reverse(name, args=args, current_app=self.admin_site.name)

    @staticmethod
    def _query(query: str) -> str:
        return f"?{query}" if query else ""

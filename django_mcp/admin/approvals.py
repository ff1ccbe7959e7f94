"""Admin of approvals: pending calls, decisions and history; also the requester's page.

The requester's page is outside the admin, which admits only staff, but shows the call in the same way.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.admin.options import IncorrectLookupParameters, get_content_type_for_model
from django.contrib.auth import SESSION_KEY
from django.contrib.auth.mixins import LoginRequiredMixin
from django.core.exceptions import PermissionDenied
from django.db.models import Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBadRequest, HttpResponseRedirect
from django.shortcuts import render
from django.template.response import TemplateResponse
from django.urls import NoReverseMatch, URLPattern, path, reverse
from django.utils import timezone
from django.utils.cache import get_conditional_response
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.translation import get_language, gettext_lazy
from django.utils.translation import gettext as _
from django.views import View

from django_mcp.admin.base import ApproverReadOnlyAdmin, StrictFiltersList, address_in, user_lookups, values_of_url
from django_mcp.admin.display import (
    NOTHING,
    Preview,
    client_names,
    line,
    names_of,
    preview_of,
    shown_arguments,
    shown_value,
)
from django_mcp.approvals import decisions
from django_mcp.approvals import messages as approval_messages
from django_mcp.approvals.approval_requests import is_withdrawn
from django_mcp.approvals.decisions import may_decide, not_shown
from django_mcp.approvals.messages import client, page_path
from django_mcp.approvals.notices import APPROVE, may_approve
from django_mcp.audit.outcomes import FAILED, GROUPS
from django_mcp.core import database
from django_mcp.core.redaction import visible
from django_mcp.core.server import servers
from django_mcp.model_resources.writes import has_history
from django_mcp.models import OVER, Approval, ApprovalEvent, Task
from django_mcp.oauth.consent import page, protect, title_of

State = Approval.State
KINDS = {
    "api_key": gettext_lazy("with an API key"),
    "oauth": gettext_lazy("through an OAuth client"),
    "public": gettext_lazy("not signed in"),
    "session": gettext_lazy("signed in to the site"),
    "user": gettext_lazy("on the server’s command line"),
}
"""Display names of ``Principal.kind``."""


def pending_q() -> Q:
    wanted = Q(task=None) | ~Q(task__status__in=OVER)
    return Q(state=State.PENDING, expires__gt=timezone.now()) & wanted


def pending_count(request: HttpRequest) -> int:
    """Return the number of approval requests that can still be decided, counted once for a request."""
    found: int | None = getattr(request, "_mcp_pending", None)
    if found is None:
        found = Approval.objects.filter(pending_q()).count()
        request._mcp_pending = found  # type: ignore[attr-defined]  # noqa: SLF001 - ours
    return found


def ended_q() -> Q:
    return ~Q(state=State.PENDING) | Q(expires__lte=timezone.now()) | Q(task__status__in=OVER)


def is_pending(row: Approval) -> bool:
    is_wanted = row.task is None or row.task.status not in OVER
    return row.state == State.PENDING and row.expires > timezone.now() and is_wanted


def state_of(row: Approval) -> State:
    """Return the current state: a request past its expiry has expired even if the row was not updated yet."""
    if row.state == State.PENDING and not is_pending(row):
        return State.EXPIRED
    if row.state == State.APPROVED and row.expires <= timezone.now():
        return State.EXPIRED
    return State(row.state)


RUNS = {
    "started": gettext_lazy("Started"),
    "interrupted": gettext_lazy("Interrupted"),
    "done": GROUPS["ok"].heading,
    "failed": FAILED.heading,
}
"""Display names of the outcome of an approved call, for approvers and the requester."""
WITHDRAWN, CANCELLED = gettext_lazy("Withdrawn"), gettext_lazy("Cancelled")


def is_cancelled(row: Approval) -> bool:
    """Return True for a request that was not used, and whose task was cancelled before it expired."""
    task = row.task
    is_unused = row.state in {State.PENDING, State.APPROVED, State.EXPIRED} and not is_withdrawn(row)
    return is_unused and task is not None and task.status == Task.Status.CANCELLED and task.updated < row.expires


def run_of(row: Approval) -> str:
    """Return the key of ``RUNS`` for a used approval request."""
    if row.outcome:
        return "done" if row.outcome == "ok" else "failed"
    return "interrupted" if row.task is not None and row.task.is_over else "started"


def outcome_q(run: str) -> Q:
    """Return the filter for used approval requests with this outcome, the inverse of ``run_of``."""
    used, is_over = Q(state=State.CONSUMED), Q(task__status__in=OVER)
    match run:
        case "done":
            return used & Q(outcome="ok")
        case "failed":
            return used & ~Q(outcome__in=["", "ok"])
        case "interrupted":
            return used & Q(outcome="") & is_over
    return used & Q(outcome="") & (Q(task=None) | ~is_over)


def state_words(row: Approval) -> str:
    """Return the display name of the state, or of the outcome once the approval is used."""
    state = state_of(row)
    if is_withdrawn(row):
        return str(WITHDRAWN)
    if is_cancelled(row):
        return str(CANCELLED)
    return str(RUNS[run_of(row)] if state == State.CONSUMED else capfirst(state.label))


def seen(row: Approval) -> str:
    """Return a digest of all that a card shows of the call.

    The form sends it back, so that a decision applies only to what the approver saw.
    """
    shown = [row.public_id, row.digest, row.version, row.arguments, row.preview, row.preview_digest, row.client]
    shown.append(row.withheld)
    return hashlib.sha256(json.dumps(shown, sort_keys=True).encode()).hexdigest()[:32]


@dataclass
class Card:
    """A call as shown to a user."""

    row: Approval
    person: str
    user: Any
    registered: str = ""
    """The name with which the OAuth client registered."""

    @cached_property
    def tool(self) -> str:
        return line(self.row.tool)

    @cached_property
    def description(self) -> str:
        """Description of the tool in the language of the page; empty if the tool was removed."""
        server = next((endpoint for endpoint in servers() if endpoint.name == self.row.server), None)
        tool = None if server is None else server.tools.get(self.row.tool)
        return "" if tool is None else visible(str(tool.definition.get("description", "")))

    @cached_property
    def email(self) -> str:
        """The requester's e-mail address; empty if unknown."""
        user = self.row.user
        return "" if user is None else line(getattr(user, user.get_email_field_name(), "") or "")

    @cached_property
    def kind(self) -> str:
        return str(KINDS.get(self.row.principal_kind) or line(self.row.principal_kind))

    @cached_property
    def client(self) -> str:
        return line(approval_messages.client(self.row)) or NOTHING

    @cached_property
    def client_id(self) -> str:
        return line(self.row.client_id)

    @cached_property
    def seen(self) -> str:
        """Return the digest of the shown call."""
        return seen(self.row)

    @cached_property
    def arguments(self) -> list[tuple[str, SafeString, str]]:
        return shown_arguments(self.row.arguments, (self.row.withheld or {}).get("arguments", {}))

    @cached_property
    def not_shown(self) -> list[str]:
        return [line(name) for name in not_shown(self.row)]

    @cached_property
    def preview(self) -> Preview:
        return preview_of(self.row.preview)

    @cached_property
    def choices(self) -> list[tuple[str, str, SafeString | None]]:
        """Return the arguments that an auto-approval rule can require; those not sent have defaults."""
        sent = self.row.arguments if isinstance(self.row.arguments, dict) else {}
        return [
            (part, line(part), shown_value(sent[part]) if part in sent else None) for part in self.row.parts if part
        ]

    @cached_property
    def may_decide(self) -> bool:
        return is_pending(self.row) and may_decide(self.row, self.user)

    @property
    def why_not(self) -> str:
        """Return why the user may not decide."""
        if not self.user.has_perm(APPROVE):
            return _("Read only: deciding requires the permission “Can approve tool calls”.")
        if not may_approve(self.user, self.row.server):
            return _("Read only: you may not decide calls at this endpoint.")
        return _("You requested this call, so another person has to decide.")


def cards(rows: Iterable[Approval], user: Any) -> list[Card]:
    """Return a card for each row, with at most three queries."""
    rows = list(rows)
    nameless = [row for row in rows if row.user is None or row.principal_kind == "api_key"]
    names = names_of((row.principal_kind, row.principal_id) for row in nameless)
    clients = client_names(row.client_id for row in rows)
    return [
        Card(
            row,
            line(names.get((row.principal_kind, row.principal_id), row.user)),
            user,
            clients.get(row.client_id, ""),
        )
        for row in rows
    ]


def tag(shown: Sequence[Card], count: int, user: Any) -> str:
    state = [get_language(), user.pk, count, [[card.row.pk, card.seen, card.may_decide] for card in shown]]
    return f'"{hashlib.sha256(json.dumps(state, default=str).encode()).hexdigest()[:32]}"'


def note_shown(shown: Iterable[Card], user: Any) -> None:
    """Record that a user who may decide has viewed the calls, once for each user."""
    keys = [card.row.pk for card in shown if card.may_decide]
    if not keys:
        return
    events: QuerySet[ApprovalEvent] = ApprovalEvent.objects.filter(kind=ApprovalEvent.Kind.SHOWN, by=user)
    known = set(events.filter(approval__in=keys).values_list("approval_id", flat=True))
    now = timezone.now()
    made = [{"approval_id": key, "kind": ApprovalEvent.Kind.SHOWN, "at": now, "by": user} for key in keys]
    ApprovalEvent.objects.bulk_create(ApprovalEvent(**event) for event in made if event["approval_id"] not in known)


APPROVE_ACTION, APPROVE_MORE, DENY_ACTION = "approve", "approve_more", "deny"
MINUTE, HOUR = 60, 60 * 60
PERIODS = (
    (15 * MINUTE, gettext_lazy("15 minutes")),
    (HOUR, gettext_lazy("one hour")),
    (4 * HOUR, gettext_lazy("4 hours")),
    (24 * HOUR, gettext_lazy("one day")),
)
"""Lifetimes of auto-approval rules."""
MAX_CALLS = 1000
LONGEST_REASON = 1000

Said = tuple[int, str]
"""Level and text of a message."""


class DecisionForm(forms.Form):
    """The form of a card. Templates render it by hand, so that a page can contain many."""

    decision = forms.ChoiceField(choices=[(action, action) for action in (APPROVE_ACTION, APPROVE_MORE, DENY_ACTION)])
    seen = forms.CharField(max_length=64)
    reason = forms.CharField(max_length=LONGEST_REASON, required=False)
    calls = forms.IntegerField(min_value=1, max_value=MAX_CALLS, required=False)
    unlimited = forms.BooleanField(required=False)
    seconds = forms.TypedChoiceField(coerce=int, choices=PERIODS, required=False)
    names = forms.MultipleChoiceField(required=False)
    unseen = forms.BooleanField(required=False)

    def __init__(self, row: Approval, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        names = self.fields["names"]
        assert isinstance(names, forms.MultipleChoiceField)  # noqa: S101
        names.choices = [(part, part) for part in row.parts if part]

    def clean(self) -> dict[str, Any]:
        """Require a number of further calls, or that they are unlimited, and a period."""
        given = super().clean() or self.cleaned_data
        if given.get("decision") == APPROVE_MORE:
            if "calls" not in self.errors and not given.get("unlimited") and given.get("calls") is None:
                self.add_error("calls", _("Enter a number of calls, or tick “Unlimited”."))
            if "seconds" not in self.errors and not given.get("seconds"):
                self.add_error("seconds", _("Choose a period."))
        return given


def decide(request: HttpRequest, row: Approval) -> Said:
    """Process a decision and return the message for the user.

    Raises:
        PermissionDenied: the user may not decide, or has no session: a person has to decide, so other authentication
            of the site does not count.
    """
    if SESSION_KEY not in request.session:
        raise PermissionDenied
    form = DecisionForm(row, request.POST)
    if not form.is_valid():
        problems = [f"{name}: {' '.join(map(str, words))}" for name, words in form.errors.items()]
        return messages.ERROR, _("Not decided. %s") % " ".join(problems)
    return decide_seen(row, request.user, form.cleaned_data)


def decide_seen(row: Approval, user: Any, given: dict[str, Any], *, via: str = "") -> Said:
    """Decide with the fields of ``DecisionForm``, if the call is the one that the user has seen.

    Return the message for the user. *via* is added to the history, and to the admin's.

    Raises:
        PermissionDenied: the user may not decide.
    """
    with database.atomic():
        row = Approval.objects.select_for_update().get(pk=row.pk)
        if row.state == State.PENDING and given["seen"] != seen(row):
            return messages.ERROR, _("This call has changed since you opened the page. Review it again, then decide.")
        is_told = given["decision"] == DENY_ACTION or given["unseen"]
        if not is_told and (hidden := decisions.not_shown(row)):
            words = _("Not decided: parts of this call are hidden (%s). Select the check box to approve it anyway.")
            return messages.ERROR, words % ", ".join(map(line, hidden))
        if _do(row, user, given, via):
            words = _done(row, given)
            if has_history():
                LogEntry.objects.create(
                    user_id=user.pk,
                    content_type=get_content_type_for_model(row),
                    object_id=str(row.pk),
                    object_repr=str(row)[:200],
                    action_flag=CHANGE,
                    change_message=f"{words} ({via})" if via else words,
                )
            return messages.SUCCESS, words
    return messages.WARNING, too_late(row, user)


def _do(row: Approval, user: Any, given: dict[str, Any], via: str) -> bool:
    match given["decision"]:
        case "deny":
            return decisions.deny(row, user, reason=given["reason"], via=via)
        case "approve":
            return decisions.approve(row, user, reason=given["reason"], unseen=given["unseen"], via=via)
    calls = None if given["unlimited"] else given["calls"] + 1
    more = {"names": given["names"], "calls": calls, "seconds": given["seconds"], "unseen": given["unseen"]}
    return decisions.approve(row, user, reason=given["reason"], **more)


def _done(row: Approval, given: dict[str, Any]) -> str:
    match given["decision"]:
        case "deny":
            return _("You denied the call of %s. Your reason is sent to the requester.") % line(row.tool)
        case "approve":
            return _("You approved the call of %s. It runs once.") % line(row.tool)
    return _("You approved the call of %s and similar calls.") % line(row.tool)


def too_late(row: Approval, user: Any) -> str:
    """Return why a decision had no effect."""
    row.refresh_from_db()
    if row.state in {State.APPROVED, State.CONSUMED, State.DENIED}:
        words = {
            "who": _("You") if row.decided_by == user else line(row.decided_by or _("Another user")),
            "tool": line(row.tool),
            "reason": f" “{line(row.reason)}”" if row.reason else "",
        }
        if row.state == State.DENIED:
            return _("Already decided: %(who)s denied this call of %(tool)s.%(reason)s") % words
        return _("Already decided: %(who)s approved this call of %(tool)s.") % words
    if row.task is not None and row.task.status in OVER:
        is_cancelled = row.task.status == Task.Status.CANCELLED
        cancelled, ended = (
            _("Not decided: the task of this call of %s was cancelled."),
            _("Not decided: the task of this call of %s has ended."),
        )
        return (cancelled if is_cancelled else ended) % line(row.tool)
    if is_withdrawn(row):
        told = {"tool": line(row.tool), "why": line(row.reason)}
        return _("Not decided: the approval request for %(tool)s was withdrawn. %(why)s") % told
    if row.state == State.EXPIRED or row.expires <= timezone.now():
        return _("Not decided: the approval request for %s has expired.") % line(row.tool)
    return _("Not decided: you requested this call, so another person has to decide.")


MOST = 50
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
        """Add the names of callers."""
        super().get_results(request)
        for card in cards(self.result_list, request.user):
            card.row.person = card.person  # type: ignore[attr-defined]

    def cards(self, user: Any) -> tuple[list[Card], int]:
        rows = list(self.pending.select_related("user", "task")[: MOST + 1])
        return cards(rows[:MOST], user), len(rows) if len(rows) <= MOST else self.pending.count()


class PendingList(ApprovalList):
    """Change list of pending requests only, for the polling script."""

    def get_results(self, request: HttpRequest) -> None:  # noqa: ARG002
        """Skip the ended requests."""
        self.result_count = self.full_result_count = 0
        self.result_list = self.root_queryset.none()
        self.can_show_all, self.multi_page = True, False


class StateFilter(admin.SimpleListFilter):
    """Filter by current state or outcome."""

    title = gettext_lazy("state")
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Any:  # noqa: ARG002
        states = [(value, capfirst(label)) for value, label in State.choices if value != State.CONSUMED]
        return [*states, *RUNS.items()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Approval]) -> QuerySet[Approval] | None:  # noqa: ARG002
        """Return the rows in the chosen state."""
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
            case str(run) if run in RUNS:
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
        """Add the fragments of the polling script and the target of the forms."""
        wrap, name = self.admin_site.admin_view, f"{self.opts.app_label}_{self.opts.model_name}"
        return [
            path("pending/", wrap(self.pending_view), name=f"{name}_pending"),
            path("<int:pk>/pending/", wrap(self.one_pending_view), name=f"{name}_pending_one"),
            path("<int:pk>/decide/", wrap(self.decide_view), name=f"{name}_decide"),
            *super().get_urls(),
        ]

    def get_search_fields(self, request: HttpRequest) -> tuple[str, ...]:  # noqa: ARG002
        return ("tool", "public_id", "client_id", "principal_id", "reason", *user_lookups())

    # The list

    def get_changelist(self, request: HttpRequest, **_options: Any) -> type[ApprovalList]:
        match = request.resolver_match
        return PendingList if match is not None and (match.url_name or "").endswith("_pending") else ApprovalList

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """Show cards of pending requests above the list of ended ones."""
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
        shown = cards([row], request.user) if row is not None and is_pending(row) else []
        return self._fragment(request, shown, len(shown))

    def _fragment(self, request: HttpRequest, shown: list[Card], count: int) -> HttpResponse:
        etag = tag(shown, count, request.user)
        same = get_conditional_response(request, etag=etag)
        if same is not None and same.status_code == 304:  # noqa: PLR2004 - Not Modified
            return same
        context = {"opts": self.opts, **self._pending(request, shown, count)}
        answer = render(request, "admin/django_mcp/approval/pending.html", context)
        answer.headers["ETag"] = etag
        return answer

    def _pending(self, request: HttpRequest, shown: list[Card], count: int) -> dict[str, Any]:
        note_shown(shown, request.user)
        return {
            "cards": shown,
            "pending_count": count,
            "pending_etag": tag(shown, count, request.user),
            "query": request.GET.urlencode(),
            "periods": PERIODS,
        }

    # One approval request

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        """Show an approval request, with the form of the decision while it is pending."""
        del form_url
        row = self.get_object(request, object_id)
        if not self.has_view_permission(request, row) or request.method not in {"GET", "HEAD"}:
            raise PermissionDenied
        if row is None:
            return self._get_obj_does_not_exist_redirect(request, self.opts, object_id)  # type: ignore[attr-defined, no-any-return]
        (card,) = cards([row], request.user)
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


REFRESH_SECONDS = 30
"""Seconds between reloads of the requester's page while the call is pending."""

STATES = {
    "pending": (
        gettext_lazy("Pending approval"),
        gettext_lazy("Once it is approved, your client must repeat exactly the same call to run it."),
        gettext_lazy("Once it is approved, it continues automatically."),
    ),
    "approved": (
        gettext_lazy("Approved"),
        gettext_lazy("If it has not run yet, have your client repeat exactly the same call."),
        gettext_lazy("It continues automatically."),
    ),
    "denied": (gettext_lazy("Denied"), *[gettext_lazy("It was not run.")] * 2),
    "expired": (
        gettext_lazy("Expired"),
        *[gettext_lazy("It was not run. If your client makes the call again, it needs a new approval.")] * 2,
    ),
    "withdrawn": (
        WITHDRAWN,
        *[gettext_lazy("It was not run. Access to it was revoked, or the tool or its policy was changed.")] * 2,
    ),
    "cancelled": (CANCELLED, *[gettext_lazy("It was not run, because its task was cancelled.")] * 2),
    "started": (
        RUNS["started"],
        gettext_lazy(
            "It was approved and started, and its outcome is not recorded yet. If your client stopped waiting without "
            "a result, the server may have stopped. The call may have taken effect; check before retrying."
        ),
        gettext_lazy("It was approved and is running. Your client gets the result."),
    ),
    "interrupted": (
        RUNS["interrupted"],
        *[
            gettext_lazy(
                "It was approved and started, but stopped before its outcome was recorded. "
                "It may have taken effect; check before retrying."
            )
        ]
        * 2,
    ),
    "done": (RUNS["done"], *[gettext_lazy("It was approved and succeeded. Your client has the result.")] * 2),
    "failed": (
        RUNS["failed"],
        *[gettext_lazy("It was approved and failed. Your client has the error message.")] * 2,
    ),
}
"""Title and explanation of each state or outcome, for calls and for tasks."""


class RequesterView(LoginRequiredMixin, View):
    """The requester's page, ``/mcp/approvals/<id>/``. Redirects approvers to the admin."""

    http_method_names = ("get", "head", "options")

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        return protect(super().dispatch(request, *args, **kwargs))  # type: ignore[arg-type]

    def get(self, request: HttpRequest, endpoint: str, approval_id: str) -> HttpResponse:
        """Show the call.

        Raises:
            Http404: the approval request does not exist or is another user's.
        """
        found = Approval.objects.filter(public_id=approval_id, server=endpoint).select_related("task").first()
        if found is None:
            raise Http404
        if may_decide(found, request.user) and may_open_admin(request):
            try:
                return HttpResponseRedirect(page_path(found))
            except NoReverseMatch:
                pass
        if found.user_id != request.user.pk:
            raise Http404
        (card,) = cards([found], request.user)
        is_pending = state_of(found) == State.PENDING
        title, text = describe(found)
        context = {
            "title": title,
            "text": text,
            "card": card,
            "row": found,
            "is_pending": is_pending,
            "is_notified": is_pending and found.notices.filter(delivered__isnull=False).exists(),
            "refresh_seconds": REFRESH_SECONDS,
            "endpoint_title": next((title_of(server) for server in servers() if server.name == endpoint), endpoint),
        }
        return page(request, "approvals/requester.html", context)


def may_open_admin(request: HttpRequest) -> bool:
    """Return True if the admin's pages are shown to the user. Those of a site whose users lack ``is_staff`` fail."""
    try:
        return admin.site.has_permission(request)
    except AttributeError:
        return False


def describe(row: Approval) -> tuple[str, str]:
    """Return the title and explanation of the state for the requester."""
    state: str = state_of(row)
    if state == State.CONSUMED:
        state = run_of(row)
    elif is_withdrawn(row):
        state = "withdrawn"
    elif is_cancelled(row):
        state = "cancelled"
    title, text, text_of_task = STATES[state]
    return str(title), str(text if row.task_id is None else text_of_task)

"""Decisions with the form of a card: for the call that was shown, with a message for the approver."""

from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.admin.options import get_content_type_for_model
from django.contrib.auth import SESSION_KEY
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_mcp.admin.approval_cards import card_digest
from django_mcp.admin.approval_states import State
from django_mcp.admin.display import (
    line,
)
from django_mcp.approvals import decisions
from django_mcp.approvals.approval_requests import is_withdrawn
from django_mcp.approvals.approvers import may_decide
from django_mcp.core import database
from django_mcp.model_resources.writes import has_history
from django_mcp.models import OVER, Approval, Task

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
MAX_REASON_LENGTH = 1000

DecisionMessage = tuple[int, str]
"""Level and text of a message."""


class DecisionForm(forms.Form):
    """The form of a card. Templates render it by hand, so that a page can contain many."""

    decision = forms.ChoiceField(choices=[(action, action) for action in (APPROVE_ACTION, APPROVE_MORE, DENY_ACTION)])
    seen = forms.CharField(max_length=64)
    reason = forms.CharField(max_length=MAX_REASON_LENGTH, required=False)
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
        given = super().clean() or self.cleaned_data
        if given.get("decision") == APPROVE_MORE:
            if "calls" not in self.errors and not given.get("unlimited") and given.get("calls") is None:
                self.add_error("calls", _("Enter a number of calls, or tick “Unlimited”."))
            if "seconds" not in self.errors and not given.get("seconds"):
                self.add_error("seconds", _("Choose a period."))
        return given


def decide(request: HttpRequest, row: Approval) -> DecisionMessage:
    """Process a decision and return the message for the user.

    Raises:
        PermissionDenied: the user may not decide, or has no session: a person has to decide, so other authentication
            of the site does not count.
    """
    user: Any = request.user
    # Nor does a token beside the session of another account.
    if request.session.get(SESSION_KEY) != user._meta.pk.value_to_string(user):  # noqa: SLF001 - as Django's login()
        raise PermissionDenied
    form = DecisionForm(row, request.POST)
    if not form.is_valid():
        problems = [f"{name}: {' '.join(map(str, words))}" for name, words in form.errors.items()]
        return messages.ERROR, _("Not decided. %s") % " ".join(problems)
    return decide_card(row, user, form.cleaned_data, in_admin=True)


def decide_card(
    row: Approval, user: Any, given: dict[str, Any], *, via: str = "", in_admin: bool = False
) -> DecisionMessage:
    """Decide with the fields of ``DecisionForm``, if the call is the one that the user has seen.

    Return the message for the user. *via* is added to the history, and to the admin's; for *in_admin* see
    ``decisions.approve``.

    Raises:
        PermissionDenied: the user may not decide.
    """
    with database.atomic():
        # Locked, so that what was compared with the page is what is decided.
        row = Approval.objects.select_for_update().get(pk=row.pk)
        if row.state == State.PENDING and given["seen"] != card_digest(row):
            return messages.ERROR, _("This call has changed since you opened the page. Review it again, then decide.")
        is_allowed = given["decision"] == DENY_ACTION or given["unseen"]
        if not is_allowed and (hidden := decisions.find_hidden_parts(row)):
            words = _("Not decided: parts of this call are hidden (%s). Select the check box to approve it anyway.")
            return messages.ERROR, words % ", ".join(map(line, hidden))
        if _apply_decision(row, user, given, {"via": via, "in_admin": in_admin}):
            words = _success_message(row, given)
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
    return messages.WARNING, explain_failure(row, user)


def _apply_decision(row: Approval, user: Any, given: dict[str, Any], place: dict[str, Any]) -> bool:
    match given["decision"]:
        case "deny":
            return decisions.deny(row, user, reason=given["reason"], **place)
        case "approve":
            return decisions.approve(row, user, reason=given["reason"], unseen=given["unseen"], **place)
    calls = None if given["unlimited"] else given["calls"] + 1
    more = {"names": given["names"], "calls": calls, "seconds": given["seconds"], "unseen": given["unseen"]}
    return decisions.approve(row, user, reason=given["reason"], **more, **place)


def _success_message(row: Approval, given: dict[str, Any]) -> str:
    match given["decision"]:
        case "deny":
            return _("You denied the call of %s. Your reason is sent to the requester.") % line(row.tool)
        case "approve":
            return _("You approved the call of %s. It runs once.") % line(row.tool)
    return _("You approved the call of %s and similar calls.") % line(row.tool)


def explain_failure(row: Approval, user: Any) -> str:  # noqa: PLR0911 - one for each reason
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
        names = {"tool": line(row.tool), "why": line(row.reason)}
        return _("Not decided: the approval request for %(tool)s was withdrawn. %(why)s") % names
    if row.state == State.EXPIRED or row.expires <= timezone.now():
        return _("Not decided: the approval request for %s has expired.") % line(row.tool)
    if may_decide(row, user):  # it was not in the admin
        return _("Not decided. Decide your own call in the site’s admin, signed in with your browser.")
    return _("Not decided: you requested this call, so another person has to decide.")

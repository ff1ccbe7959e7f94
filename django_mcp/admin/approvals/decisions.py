"""What somebody decides about a call, from the form they send to the words that tell them what came of it."""

from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth import SESSION_KEY
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_mcp.admin.approvals.cards import seen
from django_mcp.admin.approvals.values import line
from django_mcp.approvals import decisions
from django_mcp.core import database
from django_mcp.models import OVER, Approval

State = Approval.State
APPROVE, APPROVE_MORE, REFUSE = "approve", "approve_more", "refuse"
MINUTE, HOUR = 60, 60 * 60
PERIODS = (
    (15 * MINUTE, gettext_lazy("15 minutes")),
    (HOUR, gettext_lazy("one hour")),
    (4 * HOUR, gettext_lazy("4 hours")),
    (24 * HOUR, gettext_lazy("one day")),
)
"""For how long further calls can be approved."""
MOST_CALLS = 1000
LONGEST_REASON = 1000

Said = tuple[int, str]
"""The level of a message, and its words."""


class DecisionForm(forms.Form):
    """What the form of a card sends. The template writes it, so that a page can hold many.

    Args:
        row: the ticket it is about.
    """

    decision = forms.ChoiceField(choices=[(each, each) for each in (APPROVE, APPROVE_MORE, REFUSE)])
    seen = forms.CharField(max_length=64)
    reason = forms.CharField(max_length=LONGEST_REASON, required=False)
    calls = forms.IntegerField(min_value=1, max_value=MOST_CALLS, required=False)
    seconds = forms.TypedChoiceField(coerce=int, choices=PERIODS, required=False)
    names = forms.MultipleChoiceField(required=False)
    unseen = forms.BooleanField(required=False)

    def __init__(self, row: Approval, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        names = self.fields["names"]
        assert isinstance(names, forms.MultipleChoiceField)  # noqa: S101
        names.choices = [(each, each) for each in row.parts if each]


def decide(request: HttpRequest, row: Approval) -> Said:
    """Do what the form of a request says.

    Raises:
        PermissionDenied: they may not decide; or are no person with a session, whatever else recognises them.
    """
    if SESSION_KEY not in request.session:
        raise PermissionDenied
    form = DecisionForm(row, request.POST)
    if not form.is_valid():
        problems = [f"{name}: {' '.join(map(str, words))}" for name, words in form.errors.items()]
        return messages.ERROR, _("Nothing was decided. %s") % " ".join(problems)
    with database.atomic():
        row = Approval.objects.select_for_update().get(pk=row.pk)
        if row.state == State.PENDING and form.cleaned_data["seen"] != seen(row):
            return messages.ERROR, _("This call is not as you saw it any more. Look at it again, and then decide.")
        is_told = form.cleaned_data["decision"] == REFUSE or form.cleaned_data["unseen"]
        if not is_told and (hidden := decisions.not_shown(row)):
            words = _("Nothing was decided: not all of this call is shown (%s). Tick that you approve it all the same.")
            return messages.ERROR, words % ", ".join(map(line, hidden))
        if _do(row, request.user, form.cleaned_data):
            return messages.SUCCESS, _done(row, form.cleaned_data)
    return messages.WARNING, too_late(row, request.user)


def _do(row: Approval, user: Any, given: dict[str, Any]) -> bool:
    match given["decision"]:
        case "refuse":
            return decisions.deny(row, user, reason=given["reason"])
        case "approve":
            return decisions.approve(row, user, reason=given["reason"], unseen=given["unseen"])
    calls = None if given["calls"] is None else given["calls"] + 1
    more = {"names": given["names"], "calls": calls, "seconds": given["seconds"] or HOUR, "unseen": given["unseen"]}
    return decisions.approve(row, user, reason=given["reason"], **more)


def _done(row: Approval, given: dict[str, Any]) -> str:
    match given["decision"]:
        case "refuse":
            return _("You refused the call of %s. Whoever asked reads why.") % line(row.tool)
        case "approve":
            return _("You approved the call of %s. It runs once.") % line(row.tool)
    return _("You approved the call of %s, and further ones like it.") % line(row.tool)


def too_late(row: Approval, user: Any) -> str:
    """Why nothing came of a decision."""
    row.refresh_from_db()
    if row.state in {State.APPROVED, State.CONSUMED, State.DENIED}:
        words = {
            "who": _("You yourself") if row.decided_by == user else line(row.decided_by or _("Somebody")),
            "tool": line(row.tool),
            "reason": f" “{line(row.reason)}”" if row.reason else "",
        }
        if row.state == State.DENIED:
            return _("Too late: %(who)s refused this call of %(tool)s before you.%(reason)s") % words
        return _("Too late: %(who)s approved this call of %(tool)s before you.") % words
    if row.task is not None and row.task.status in OVER:
        return _("Nothing was decided: whoever asked for this call of %s does not want it any more.") % line(row.tool)
    if row.state == State.EXPIRED or row.expires <= timezone.now():
        return _("Nothing was decided: the time of this call of %s is up, so it was refused.") % line(row.tool)
    return _("Nothing was decided: this call was made in your name, so somebody else has to decide.")

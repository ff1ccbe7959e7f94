"""The current state of approval requests, as pages show it and filter by it."""

from django.db.models import Q
from django.http import HttpRequest
from django.utils import timezone
from django.utils.text import capfirst
from django.utils.translation import gettext_lazy

from django_mcp.approvals.approval_requests import is_withdrawn
from django_mcp.audit.outcomes import FAILED, GROUPS
from django_mcp.models import OVER, Approval, Task

State = Approval.State


def pending_q() -> Q:
    wanted = Q(task=None) | ~Q(task__status__in=OVER)
    return Q(state=State.PENDING, expires__gt=timezone.now()) & wanted


def pending_count(request: HttpRequest) -> int:
    # Counted once for a request.
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


OUTCOMES = {
    "started": gettext_lazy("Started"),
    "interrupted": gettext_lazy("Interrupted"),
    "done": GROUPS["ok"].heading,
    "failed": FAILED.heading,
}
"""Display names of the outcome of an approved call, for approvers and the requester."""
WITHDRAWN, CANCELLED = gettext_lazy("Withdrawn"), gettext_lazy("Cancelled")


def is_cancelled(row: Approval) -> bool:
    task = row.task
    is_unused = row.state in {State.PENDING, State.APPROVED, State.EXPIRED} and not is_withdrawn(row)
    return is_unused and task is not None and task.status == Task.Status.CANCELLED and task.updated < row.expires


def outcome_of(row: Approval) -> str:
    """Return the key of ``OUTCOMES`` for a used approval request."""
    if row.outcome:
        return "done" if row.outcome == "ok" else "failed"
    return "interrupted" if row.task is not None and row.task.is_over else "started"


def outcome_q(run: str) -> Q:
    """Return the filter for used approval requests with this outcome, the inverse of ``outcome_of``."""
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
    state = state_of(row)
    if is_withdrawn(row):
        return str(WITHDRAWN)
    if is_cancelled(row):
        return str(CANCELLED)
    return str(OUTCOMES[outcome_of(row)] if state == State.CONSUMED else capfirst(state.label))

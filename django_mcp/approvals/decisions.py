"""Approve and deny approval requests, and release the tasks that wait for them."""

import datetime
from collections.abc import Iterable
from typing import Any

from django.contrib.auth import get_user_model
from django.core.exceptions import PermissionDenied
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils import timezone

from django_mcp.approvals import approval_requests, auto_approvals, messages
from django_mcp.approvals.notices import may_approve
from django_mcp.conf import settings
from django_mcp.core import database
from django_mcp.core.context import Context
from django_mcp.core.redaction import SECRET
from django_mcp.models import OVER, Approval, Task
from django_mcp.primitives.tool import Tool
from django_mcp.tasks import store
from django_mcp.tasks.api import check_room, make, record
from django_mcp.tasks.backends import start as start_task


def park(context: Context, tool: Tool, approval: Approval | None, *, start: bool = False) -> Task:
    """Return the task of a pending call; repeated calls get the same one. Blocks.

    Its lease expires with the approval request. The task is then recovered like one whose worker stopped, finds no
    approval, and ends with that error. So it ends even if every process that knew of it has stopped.

    Args:
        context: of the call.
        tool: that is called.
        approval: its approval request.
        start: it may run already.

    Raises:
        ToolError: the caller has too many tasks.
    """
    with database.atomic():
        if approval is not None and not start:
            # No join: PostgreSQL locks no rows that may be missing.
            approval = Approval.objects.select_for_update().get(pk=approval.pk)
            if approval.task is not None:
                return approval.task
        if start:
            check_room(context)
        task = make(context, tool, None)
        if approval is not None and not start:
            task.needs_approval, task.message, task.lease = True, messages.short(context, approval), approval.expires
            task.expires = approval.expires + datetime.timedelta(seconds=settings.TASK_TTL)
            task.save(update_fields=["needs_approval", "message", "lease", "expires"])
            Approval.objects.filter(pk=approval.pk).update(task=task)
            if approval.state != Approval.State.PENDING:  # it was decided at this very moment
                database.on_commit(lambda: release(task))
        if start:
            record(context, task)
    if start:
        context.channel.is_recorded = True
        start_task(task)
    return task


def release(task: Task) -> None:
    """Run a task whose approval request was decided: it goes on, or finds that it was refused."""
    found = Task.objects.filter(pk=task.pk, status=Task.Status.WORKING, worker="")
    if found.update(lease=store.lease_end(), message=""):
        start_task(task)


State = Approval.State


def approve(
    approval: Approval,
    by: Any,
    *,
    reason: str = "",
    names: Iterable[str] = (),
    calls: int | None = 1,
    seconds: float = 0,
    unseen: bool = False,
) -> bool:
    """Approve a call, and perhaps further ones like it.

    Args:
        approval: its approval request.
        by: the user who decides.
        reason: for the log.
        names: arguments in which further calls must agree with this one.
        calls: how many calls in all; None for any number in that time.
        seconds: for how long further calls are approved; 0 for this call alone.
        unseen: whether they say that they approve what they cannot be shown; see ``not_shown``.

    Returns:
        False where somebody else decided first, or the time is up, or it is their own call.

    Raises:
        PermissionDenied: they may not decide.
        ValueError: something of the call is not shown, and they do not say that they approve it all the same.
    """
    if not unseen and (hidden := not_shown(approval)):
        msg = f"not shown to approvers: {', '.join(hidden)}; pass unseen=True to approve the call all the same"
        raise ValueError(msg)
    fields = {"expires": timezone.now() + datetime.timedelta(seconds=settings.APPROVAL_GRANT_TTL)}
    with database.atomic():
        if not _decide(approval, by, State.APPROVED, reason, fields):
            return False
        if seconds and (calls is None or calls > 1):
            more = None if calls is None else calls - 1
            auto_approvals.make(approval, by, names, more, seconds)
    return True


def deny(approval: Approval, by: Any, *, reason: str = "") -> bool:
    """Refuse a call. The caller reads the reason. See ``approve``."""
    with database.atomic():
        return _decide(approval, by, State.DENIED, reason, {})


def _decide(approval: Approval, by: Any, state: str, reason: str, more: dict[str, Any]) -> bool:
    approver = _as_they_are_now(by, approval.server)
    fields = {"state": state, "decided": timezone.now(), "decided_by": approver, "reason": reason, **more}
    if not _open_to(approver).filter(pk=approval.pk).update(**fields):
        return False
    approval.refresh_from_db()
    by_themselves = " (their own call)" if approval.user_id == approver.pk else ""
    approval_requests.note(approval, state, approver, f"{reason}{by_themselves}")
    approval_requests.tell(approval)
    if approval.task is not None:
        task = approval.task
        database.on_commit(lambda: release(task))
    return True


def _as_they_are_now(user: Any, server: str) -> Any:
    """The user as the database has them in this very transaction, whatever they might do when the page was made.

    Raises:
        PermissionDenied: they may not decide, or not any more.
    """
    found = get_user_model()._default_manager.filter(pk=user.pk, is_active=True).first()  # noqa: SLF001 - Django's API
    if found is None or not may_approve(found, server):
        raise PermissionDenied
    return found


def _open_to(approver: Any) -> "QuerySet[Approval]":
    """Tickets about which they may decide; part of the very statement that decides."""
    is_active = Exists(get_user_model()._default_manager.filter(pk=approver.pk, is_active=True))  # noqa: SLF001 - likewise
    # No join: an UPDATE would look for its rows first, and two at once would both find that nobody has decided.
    unwanted = Exists(Task.objects.filter(pk=OuterRef("task"), status__in=OVER))
    found = Approval.objects.filter(is_active, ~unwanted, state=State.PENDING, expires__gt=timezone.now())
    # Whose user is none made it is nobody's own.
    return found if settings.SELF_APPROVAL else found.filter(Q(user=None) | ~Q(user=approver))


def not_shown(approval: Approval) -> list[str]:
    """Return what approvers are not shown of a call although its caller chose it: arguments, and ``"preview"``.

    What is too long, or too deep, is cut; and an argument that is called like a secret is hidden. What the tool's
    author declared as a secret is none of them: by that they said that nobody has to read it.
    """
    withheld: dict[str, Any] = approval.withheld or {}
    names = [name for name, why in withheld.get("arguments", {}).items() if why != SECRET]
    return [*names, *(["preview"] if "preview" in withheld else [])]


def may_decide(approval: Approval, user: Any) -> bool:
    """Whether it makes sense to offer it; what counts is looked at again when they decide."""
    own = approval.user_id is not None and approval.user_id == user.pk
    return (settings.SELF_APPROVAL or not own) and may_approve(user, approval.server)

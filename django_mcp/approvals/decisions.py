"""Approving and denying approval requests, and releasing the tasks that wait for them."""

import datetime
from collections.abc import Iterable
from typing import Any

from django.contrib.auth import get_user_model
from django.core.exceptions import PermissionDenied
from django.db import router
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _

from django_mcp.approvals import approval_requests, auto_approvals, messages
from django_mcp.approvals.approvers import is_own, may_add_rule, may_approve, may_decide
from django_mcp.approvals.fingerprint import version
from django_mcp.auth.api_keys import State as KeyState
from django_mcp.auth.api_keys import state_of as key_state
from django_mcp.conf import settings
from django_mcp.core import database
from django_mcp.core.context import Context
from django_mcp.core.permissions import groups_of
from django_mcp.core.policies import policy_cache
from django_mcp.core.principal import Principal
from django_mcp.core.redaction import SECRET
from django_mcp.core.server import server_named
from django_mcp.models import OVER, APIKey, Approval, ClientPolicy, Task
from django_mcp.primitives.tool import Tool
from django_mcp.tasks import store
from django_mcp.tasks.api import check_room, create, record
from django_mcp.tasks.backends import start as start_task


def create_pending_task(context: Context, tool: Tool, approval: Approval | None, *, start: bool = False) -> Task:
    """Return the task of a pending call; repeated calls get the same one. Blocks.

    Its lease expires with the approval request. Any process then recovers it like a task whose worker stopped, finds no
    approval and ends it with that error. With *start* the task runs now, without waiting for a decision.

    Raises:
        ToolError: the caller has too many tasks.
    """
    task, is_new = _find_or_create(context, tool, approval, start=start)
    if start and is_new:
        context.channel.is_recorded = True
        start_task(task)
    return task


@database.retry_conflicts
def _find_or_create(context: Context, tool: Tool, approval: Approval | None, *, start: bool) -> tuple[Task, bool]:
    with database.atomic():
        if approval is not None and not start:
            # Locked, so that concurrent identical calls get one task.
            # No join: PostgreSQL cannot lock the nullable side of an outer join.
            approval = Approval.objects.select_for_update().get(pk=approval.pk)
            if approval.task is not None:
                return approval.task, False
        if start:
            check_room(context)
        task = create(context, tool, None)
        if approval is not None and not start:
            task.needs_approval, task.message, task.lease = (
                True,
                messages.short_text(context, approval),
                approval.expires,
            )
            task.expires = approval.expires + datetime.timedelta(seconds=settings.TASK_TTL)
            task.save(update_fields=["needs_approval", "message", "lease", "expires"])
            Approval.objects.filter(pk=approval.pk).update(task=task)
            if approval.state != Approval.State.PENDING:  # decided meanwhile
                # After the commit, or a worker would look for a row that it cannot see yet.
                database.on_commit(lambda: resume_task(task))
        if start:
            record(context, task)
    return task, True


def resume_task(task: Task) -> None:
    """Start a task whose approval request was decided. If it was denied, the task ends with that error."""
    found = Task.objects.filter(pk=task.pk, status=Task.Status.WORKING, worker="")
    # A worker that runs the task keeps it. A decision and a recovery may both start it; one worker then claims it.
    if found.update(lease=store.lease_end(), message=""):
        start_task(task)


State = Approval.State


@database.retry_conflicts
def approve(
    approval: Approval,
    by: Any,
    *,
    reason: str = "",
    names: Iterable[str] = (),
    calls: int | None = 1,
    seconds: float = 0,
    unseen: bool = False,
    via: str = "",
    in_admin: bool = False,
) -> bool:
    """Approve a call, and optionally further calls like it.

    Args:
        approval: the approval request.
        by: the user who decides.
        reason: kept in the history.
        names: arguments in which further calls must agree with this one.
        calls: total number of calls; None for any number within ``seconds``.
        seconds: for how long further calls are approved; 0 for this call only.
        unseen: approve although parts of the call are hidden; see ``find_hidden_parts``.
        via: where the user decided, for the history, if not in the admin.
        in_admin: True if the user's browser is signed in to the admin and decides there. Users decide their own call
            in no other place.

    Returns:
        False if the request was already decided, has expired, was withdrawn, or is the approver's own. It is withdrawn
        if its caller has lost access, or the tool or its policy has changed.

    Raises:
        PermissionDenied: the user may not approve calls at this endpoint, or may approve this one and not further ones.
        ValueError: parts of the call are hidden and ``unseen`` is False.
    """
    if not unseen and (hidden := find_hidden_parts(approval)):
        msg = f"not shown to approvers: {', '.join(hidden)}; pass unseen=True to approve the call anyway"
        raise ValueError(msg)
    fields = {"expires": timezone.now() + datetime.timedelta(seconds=settings.APPROVAL_GRANT_TTL)}
    with database.atomic():
        approver = _reload_approver(by, approval, in_admin)  # before a reason is looked for, which withdraws it
        adds_rule = seconds and (calls is None or calls > 1)
        if adds_rule and not may_add_rule(approver, approval.server, approval.tool, approval.user_id):
            raise PermissionDenied
        why = find_withdrawal_reason(approval)
        if approval.state == State.PENDING and why:
            approval_requests.expire(approval, why)
            return False
        if not _decide(approval, by, State.APPROVED, reason, fields, via, in_admin):
            return False
        if adds_rule:
            more = None if calls is None else calls - 1
            auto_approvals.create_rule(approval, by, names, more, seconds)
    return True


@database.retry_conflicts
def deny(approval: Approval, by: Any, *, reason: str = "", via: str = "", in_admin: bool = False) -> bool:
    """Deny a call. The reason is sent to the caller. See ``approve`` for the arguments, the return value and errors."""
    with database.atomic():
        return _decide(approval, by, State.DENIED, reason, {"unique_key": None}, via, in_admin)


def _decide(
    approval: Approval, by: Any, state: str, reason: str, more: dict[str, Any], via: str, in_admin: bool
) -> bool:
    approver = _reload_approver(by, approval, in_admin)
    fields = {"state": state, "decided": timezone.now(), "decided_by": approver, "reason": reason, **more}
    is_left_to_them = is_own(approval, approver) and may_decide(approval, approver, in_admin=in_admin)
    # Conditional: of several people who decide at the same time, one does; the call may also have expired or been
    # withdrawn since it was read.
    if not _decidable_by(approver, also_own=is_left_to_them).filter(pk=approval.pk).update(**fields):
        return False
    approval.refresh_from_db()
    by_themselves = " (their own call)" if is_own(approval, approver) else ""
    approval_requests.record_event(
        approval, state, approver, f"{reason}{by_themselves}{f' ({via})' if via else ''}".strip()
    )
    approval_requests.publish_event(approval)
    if approval.task is not None:
        # A worker must see the decision, so the task waits for its commit.
        task = approval.task
        database.on_commit(lambda: resume_task(task))
    return True


def _reload_approver(user: Any, approval: Approval, in_admin: bool) -> Any:
    """Read the user in the current transaction, as permissions may have changed since the page was rendered.

    Raises:
        PermissionDenied: the user is inactive or may not approve.
    """
    rows = get_user_model()._default_manager.using(router.db_for_write(get_user_model()))  # noqa: SLF001 - Django's API
    found = rows.filter(pk=user.pk, is_active=True).first()  # of the primary: a replica may lag
    if found is None or not (may_approve(found, approval.server) or may_decide(approval, found, in_admin=in_admin)):
        raise PermissionDenied
    return found


def _decidable_by(approver: Any, *, also_own: bool) -> "QuerySet[Approval]":
    is_active = Exists(get_user_model()._default_manager.filter(pk=approver.pk, is_active=True))  # noqa: SLF001 - likewise
    # No join: an UPDATE would select its rows first, and two concurrent decisions could both succeed.
    unwanted = Exists(Task.objects.filter(pk=OuterRef("task"), status__in=OVER))
    # Deciding updates this queryset, in one statement.
    found = Approval.objects.filter(is_active, ~unwanted, state=State.PENDING, expires__gt=timezone.now())
    # A request without a user belongs to no approver.
    return found if also_own else found.filter(Q(user=None) | ~Q(user=approver))


def find_withdrawal_reason(approval: Approval) -> str:
    """Return why a call could not run although it is approved, or "".

    What ends access withdraws requests at once. This also finds what was changed without a signal, such as in SQL or by
    a new release.
    """
    user, client_id = approval.user, approval.client_id
    if user is not None and not getattr(user, "is_active", True):
        return _("The user was deactivated.")
    policy = ClientPolicy.objects.filter(client_id=client_id).first() if client_id else None
    if policy is not None and policy.blocked:
        return _("The client was blocked.")
    is_limited = policy is not None and policy.read_only
    if approval.principal_kind == "api_key":
        key = APIKey.objects.filter(pk__in=database.keys_of(APIKey, [approval.principal_id])).first()
        if key is None or key_state(key) is not KeyState.ACTIVE:
            return _("The API key is no longer valid.")
        is_limited = key.read_only
    server = server_named(approval.server)
    tool = None if server is None else server.tools.get(approval.tool)
    if server is None or tool is None or tool.find_failure() is not None:
        return ""  # this process may not serve it
    if policy_cache.is_due:
        policy_cache.reload_if_due()
    principal = Principal(
        approval.principal_kind, approval.principal_id, user, client_id=client_id or None, read_only=is_limited
    )
    groups = groups_of(user) if user is not None and server.policies.needs_groups(tool) else ()
    if version(tool, server.policies.of(tool, principal, groups)) != approval.version:
        return _("The tool or its policy was changed.")
    return ""


def find_hidden_parts(approval: Approval) -> list[str]:
    """Return the names of arguments that the caller chose and approvers cannot see, and ``"preview"`` if it was cut.

    These are values cut for length or depth and arguments hidden because their name suggests a secret. Arguments that
    the tool's author declared as secret are not included: their author accepted that approvers do not see them.
    """
    withheld: dict[str, Any] = approval.withheld or {}
    names = [name for name, why in withheld.get("arguments", {}).items() if why != SECRET]
    return [*names, *(["preview"] if "preview" in withheld else [])]

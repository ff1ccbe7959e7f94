"""Approval request rows: lookup, creation, use and expiry.

Each state change is one conditional ``UPDATE``, so only one of several concurrent approvers or callers succeeds.
"""

import datetime
import hashlib
import json
import logging
import secrets
from collections.abc import Mapping
from typing import Any

from django.contrib.auth import get_user_model
from django.db import IntegrityError
from django.db.models import F, Q, QuerySet
from django.utils import timezone

from django_mcp.approvals import notices
from django_mcp.approvals.previews import Plain
from django_mcp.conf import settings
from django_mcp.core import database
from django_mcp.core.context import Context
from django_mcp.core.redaction import CUT, declared
from django_mcp.core.server import every_server
from django_mcp.models import OVER, Approval, ApprovalEvent, AutoApprovalRule, Task
from django_mcp.primitives.base import ToolError
from django_mcp.primitives.tool import Tool
from django_mcp.pubsub import event_store, once

logger = logging.getLogger("django_mcp")

State, Kind = Approval.State, ApprovalEvent.Kind
MAX_ARGUMENT, MAX_ARGUMENTS = 20_000, 200_000
"""Maximum characters shown to approvers: of one argument, and of all arguments."""
OPEN_STATES = [State.PENDING, State.APPROVED]


def topic(public_id: str) -> str:
    return f"approval:{public_id}"


def record_event(approval: Approval, kind: str, by: Any = None, text: str = "") -> None:
    ApprovalEvent.objects.create(approval=approval, kind=kind, at=timezone.now(), by=by, note=text)


def publish_event(approval: Approval) -> None:
    event_store.append([(topic(approval.public_id), "")])


# Lookup


@database.retry_conflicts
def find_current(digest: str, version: str) -> Approval | None:
    """Return the current approval request of a call: pending, approved, or recently denied.

    Requests that have passed their expiry, or whose tool or policy has changed, are expired first.
    """
    notices.wake()
    with database.atomic():
        for row in _stale(Approval.objects.filter(digest=digest), version):
            expire(row)
    found = Approval.objects.filter(digest=digest, version=version, expires__gt=timezone.now())
    return found.filter(state__in=[*OPEN_STATES, State.DENIED]).order_by("-pk").first()


def _stale(rows: "QuerySet[Approval]", version: str) -> "QuerySet[Approval]":
    is_over = Q(state=State.PENDING, task__status__in=OVER)  # the requester cancelled the task
    return rows.filter(Q(expires__lte=timezone.now()) | ~Q(version=version) | is_over, state__in=OPEN_STATES)


@database.retry_conflicts
def expire(approval: Approval, why: str = "") -> bool:
    """Expire an approval request. Return False if its state has changed meanwhile.

    *why* is the reason of a request that is withdrawn before its time.
    """
    fields = {"state": State.EXPIRED, "unique_key": None, **({"reason": why} if why else {})}
    with database.atomic():
        # Conditional: a person may decide, or a call use it, between the read of the row and this.
        if not Approval.objects.filter(pk=approval.pk, state=approval.state).update(**fields):
            return False
        record_event(approval, Kind.EXPIRED, text=why)
        publish_event(approval)
        # End the waiting task's lease: the next worker recovers it and finds the approval expired.
        waiting = Task.objects.filter(approvals=approval, status=Task.Status.WORKING, worker="")
        waiting.update(lease=timezone.now())
    return True


@database.retry_conflicts
def withdraw(why: str, *wanted: Q, **of: Any) -> int:
    """Expire what waits or is approved but not used, and revoke auto-approval rules. Return how many requests ended.

    A newer decision counts for them: they do not come back if it is taken back.

    Args:
        why: the reason, for approvers and the history.
        wanted: conditions on fields that requests and rules have: endpoint, tool, caller, client and user.
        of: likewise.
    """
    now = timezone.now()
    with database.atomic():
        number = sum(
            expire(approval, why) for approval in Approval.objects.filter(*wanted, **of, state__in=OPEN_STATES)
        )
        rules = AutoApprovalRule.objects.filter(*wanted, **of, revoked=None, expires__gt=now)
        rules.exclude(remaining=0).update(revoked=now)
    return number


def withdraw_writing(why: str, **of: Any) -> int:
    """``withdraw``, but only for tools that change something, as far as this process knows."""
    rows = Approval.objects.filter(**of, state__in=OPEN_STATES), AutoApprovalRule.objects.filter(**of, revoked=None)
    asked = {which for kind in rows for which in kind.order_by().values_list("server", "tool").distinct()}
    reading = {(server.name, key) for server in every_server() for key, tool in server.tools.items() if tool.read_only}
    wanted = Q(pk=None)
    for server, tool in asked - reading:
        wanted |= Q(server=server, tool=tool)
    return withdraw(why, wanted, **of)


def is_withdrawn(approval: Approval) -> bool:
    return approval.state == State.EXPIRED and bool(approval.reason)


def expire_all() -> int:
    due = Approval.objects.filter(state__in=OPEN_STATES, expires__lte=timezone.now())
    return sum(expire(approval) for approval in due[:1000])


# Creation


def count_pending(context: Context) -> int:
    principal = context.principal
    mine = Approval.objects.filter(principal_kind=principal.kind, principal_id=principal.id, state=State.PENDING)
    return mine.filter(server=context.server.name, expires__gt=timezone.now()).count()


def check_limit(context: Context) -> None:
    """Check that the caller may have another pending approval request.

    Raises:
        ToolError: the caller has ``MAX_APPROVALS_PER_CALLER`` already.
    """
    if count_pending(context) >= settings.MAX_APPROVALS_PER_CALLER:
        raise ToolError(
            f"{settings.MAX_APPROVALS_PER_CALLER} of your calls are already waiting for approval, the maximum. "
            "Wait until one is decided or expires, then retry."
        )


def create_request(context: Context, fields: Mapping[str, Any]) -> tuple[Approval, bool]:
    """Create the approval request of a call; *fields* are those of ``request_fields``.

    Return it, and False if a concurrent identical call created it first.

    Raises:
        ToolError: the caller has too many pending requests.
    """
    try:
        return _create(context, fields), True
    # Of concurrent calls the unique key of open requests lets in one; the others wait for the same decision.
    except IntegrityError:
        found = find_current(fields["digest"], fields["version"])
        if found is None:
            raise ToolError("An identical call was made at the same time. Retry in a few seconds.") from None
        return found, False


@database.retry_conflicts
def _create(context: Context, fields: Mapping[str, Any]) -> Approval:
    with database.atomic():
        # Or concurrent calls would each count before any of them has created its request.
        once.lock("approvals", context.server.name, context.principal.kind, context.principal.id)
        check_limit(context)
        made = Approval.objects.create(**fields, public_id=secrets.token_urlsafe(16))
        record_event(made, Kind.PROPOSED)
        notices.make(made)
    return made


def request_fields(context: Context, tool: Tool, preview: Plain | None = None) -> dict[str, Any]:
    principal, user, now = context.principal, context.user, timezone.now()
    preview = preview or Plain(None)
    shown = "" if preview.value is None else json.dumps(preview.value, sort_keys=True)
    arguments, withheld = declared(
        tool, context.params.get("arguments") or {}, longest=MAX_ARGUMENT, whole=MAX_ARGUMENTS
    )
    return {
        "server": context.server.name,
        "tool": tool.key,
        "principal_kind": principal.kind,
        "principal_id": principal.id,
        "client_id": principal.client_id or "",
        "user": user if isinstance(user, get_user_model()) and user.pk is not None else None,
        "client": context.client._asdict(),
        "arguments": arguments,
        "withheld": {"arguments": withheld, **({} if preview.is_whole else {"preview": CUT})},
        "preview": preview.value,
        "preview_digest": hashlib.sha256(shown.encode()).hexdigest() if shown else "",
        "created": now,
        "expires": now + datetime.timedelta(seconds=settings.APPROVAL_REQUEST_TTL),
    }


# Use


@database.retry_conflicts
def use(approval: Approval, run: str, round: int) -> bool:  # noqa: A002 - as ``Dialogue`` has it
    """Use an approved request, or start the next round of the call that used it. Return False if neither is possible.

    A round that has started never runs again. The row outlives the next round, which needs it.

    Args:
        approval: the approval request.
        run: id of the call's dialogue.
        round: number of the dialogue's round.
    """
    now = timezone.now()
    rows = Approval.objects.filter(pk=approval.pk)
    is_good = rows.filter(state=State.APPROVED, expires__gt=now)
    # Durable: rolling back an outer transaction would make the approval usable again.
    with database.atomic(durable=True):
        if approval.state == State.CONSUMED:
            # Conditional: of two answers to the same question, one starts the next round.
            this = rows.filter(state=State.CONSUMED, run=run, rounds=round)
            return bool(this.update(rounds=F("rounds") + 1, expires=once.expiry()))
        used = {"state": State.CONSUMED, "unique_key": None, "consumed": now, "run": run, "rounds": round + 1}
        # Conditional: of two calls that find it approved, one uses it.
        if not is_good.update(**used, expires=once.expiry()):
            return False
        record_event(approval, Kind.EXECUTED)
    return True


def find_used(digest: str, version: str, run: str, round: int) -> Approval | None:  # noqa: A002 - likewise
    """Return the approval request that an earlier round of the same call used, or None in the first round."""
    if round == 0:
        return None
    found = Approval.objects.filter(digest=digest, version=version, state=State.CONSUMED)
    return found.filter(run=run, rounds=round).first()


def record_outcome(approval: Approval, outcome: str) -> None:
    # The tool has run already, so errors are only logged.
    try:
        _record_outcome(approval, outcome)
    except Exception:
        logger.exception("The outcome of the approved call %s could not be recorded", approval.public_id)


@database.retry_conflicts
def _record_outcome(approval: Approval, outcome: str) -> None:
    with database.atomic():
        Approval.objects.filter(pk=approval.pk).update(outcome=outcome)
        record_event(approval, Kind.RETURNED, text=outcome)

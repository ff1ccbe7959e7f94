"""Rows of approval requests; each change of state is one conditional ``UPDATE``, so that of several approvers and
callers who act at the same time, one succeeds.
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
from django_mcp.models import OVER, Approval, ApprovalEvent, Task
from django_mcp.primitives.base import ToolError
from django_mcp.primitives.tool import Tool
from django_mcp.pubsub import event_store

logger = logging.getLogger("django_mcp")

State, Kind = Approval.State, ApprovalEvent.Kind
LONGEST, WHOLE = 20_000, 200_000
"""Characters of one argument, and of all, that people can read who decide."""
LIVE = [State.PENDING, State.APPROVED]


def topic(public_id: str) -> str:
    """Under which is logged that an approval request was decided."""
    return f"approval:{public_id}"


def note(approval: Approval, kind: str, by: Any = None, text: str = "") -> None:
    """Note that something happened to it."""
    ApprovalEvent.objects.create(approval=approval, kind=kind, at=timezone.now(), by=by, note=text)


def tell(approval: Approval) -> None:
    """Wake whoever waits for it."""
    event_store.append([(topic(approval.public_id), "")])


# Finding


def current(digest: str, version: str) -> Approval | None:
    """Return the current approval request of a call: pending, approved, or recently denied.

    Requests whose time is up, or whose tool or policy has changed, are expired first.
    """
    notices.wake()
    with database.atomic():
        for row in _stale(Approval.objects.filter(digest=digest), version):
            expire(row)
    found = Approval.objects.filter(digest=digest, version=version, expires__gt=timezone.now())
    return found.filter(state__in=[*LIVE, State.DENIED]).order_by("-pk").first()


def _stale(rows: "QuerySet[Approval]", version: str) -> "QuerySet[Approval]":
    is_over = Q(state=State.PENDING, task__status__in=OVER)  # whoever asked does not want it any more
    return rows.filter(Q(expires__lte=timezone.now()) | ~Q(version=version) | is_over, state__in=LIVE)


def expire(approval: Approval) -> bool:
    """It is good no longer; False where something else became of it."""
    with database.atomic():
        if not Approval.objects.filter(pk=approval.pk, state=approval.state).update(state=State.EXPIRED):
            return False
        note(approval, Kind.EXPIRED)
        tell(approval)
        # A task that waits for it is run by whoever next looks at it, and finds that it has expired.
        waiting = Task.objects.filter(approvals=approval, status=Task.Status.WORKING, worker="")
        waiting.update(lease=timezone.now())
    return True


def expire_all() -> int:
    """Those whose time is up; how many. A task that waits for one finds that out by itself."""
    due = Approval.objects.filter(state__in=LIVE, expires__lte=timezone.now())
    return sum(expire(each) for each in due[:1000])


# Asking


def waiting(context: Context) -> int:
    """How many calls of a caller wait."""
    principal = context.principal
    mine = Approval.objects.filter(principal_kind=principal.kind, principal_id=principal.id, state=State.PENDING)
    return mine.filter(server=context.server.name, expires__gt=timezone.now()).count()


def check_room(context: Context) -> None:
    """See whether one more call of a caller may wait.

    Raises:
        ToolError: it may not.
    """
    if waiting(context) >= settings.MAX_APPROVALS_PER_CALLER:
        raise ToolError(
            f"{settings.MAX_APPROVALS_PER_CALLER} of your calls are already waiting for approval, the maximum. "
            "Wait until one is decided or expires, then retry."
        )


def propose(context: Context, fields: Mapping[str, Any]) -> tuple[Approval, bool]:
    """Make the approval request of a call; return it, and False if another try of the call was faster.

    Args:
        context: of the call.
        fields: of the row, as ``fields_of`` has them.

    Raises:
        ToolError: the caller has too many.
    """
    check_room(context)
    try:
        with database.atomic():
            made = Approval.objects.create(**fields, public_id=secrets.token_urlsafe(16))
            note(made, Kind.PROPOSED)
            notices.make(made)
    except IntegrityError:
        found = current(fields["digest"], fields["version"])
        if found is None:
            raise ToolError("An identical call was made at the same time. Retry in a few seconds.") from None
        return found, False
    return made, True


def fields_of(context: Context, tool: Tool, preview: Plain | None = None) -> dict[str, Any]:
    """Of a row: who asks for what."""
    principal, user, now = context.principal, context.user, timezone.now()
    preview = preview or Plain(None)
    shown = "" if preview.value is None else json.dumps(preview.value, sort_keys=True)
    arguments, withheld = declared(tool, context.params.get("arguments") or {}, longest=LONGEST, whole=WHOLE)
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


# Using


def use(approval: Approval, run: str, round: int) -> bool:  # noqa: A002 - as ``Dialogue`` has it
    """Use up an approved request, or go on with the next round of the call that did. False where that may not be.

    Args:
        approval: the approval request.
        run: id of the call's dialogue.
        round: of it. A round that was run already does not run again, whatever became of it.
    """
    now = timezone.now()
    rows = Approval.objects.filter(pk=approval.pk)
    is_good = rows.filter(state=State.APPROVED, expires__gt=now)
    # Durable: inside of somebody's transaction it would come back with that.
    with database.atomic(durable=True):
        if approval.state == State.CONSUMED:
            return bool(rows.filter(state=State.CONSUMED, run=run, rounds=round).update(rounds=F("rounds") + 1))
        if not is_good.update(state=State.CONSUMED, consumed=now, run=run, rounds=round + 1):
            return False
        note(approval, Kind.EXECUTED)
    return True


def of_run(digest: str, version: str, run: str, round: int) -> Approval | None:  # noqa: A002 - likewise
    """Return the approval request that an earlier round of the same call used; None before the first round."""
    if round == 0:
        return None
    found = Approval.objects.filter(digest=digest, version=version, state=State.CONSUMED)
    return found.filter(run=run, rounds=round).first()


def ended(approval: Approval, outcome: str) -> None:
    """Note what came of the run. The tool has done what it does, so what goes wrong here is no error of the call."""
    try:
        _ended(approval, outcome)
    except Exception:
        logger.exception("that the approved call %s is over could not be noted", approval.public_id)


def _ended(approval: Approval, outcome: str) -> None:
    with database.atomic():
        Approval.objects.filter(pk=approval.pk).update(outcome=outcome)
        note(approval, Kind.RETURNED, text=outcome)

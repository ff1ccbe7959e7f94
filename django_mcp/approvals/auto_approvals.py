"""Standing approvals: the next calls of a caller, or those of the next hour, as long as they fit a pattern."""

import datetime
import secrets
from collections.abc import Iterable, Mapping
from typing import Any

from django.contrib.auth import get_user_model
from django.db.models import Exists, F, OuterRef, Q
from django.utils import timezone

from django_mcp.approvals import approval_requests
from django_mcp.approvals.notices import may_approve
from django_mcp.core import database
from django_mcp.core.context import Context
from django_mcp.models import Approval, AutoApprovalRule
from django_mcp.primitives.tool import Tool

LONGEST_SECONDS = 24 * 60 * 60


def make(approval: Approval, by: Any, names: Iterable[str], calls: int | None, seconds: float) -> AutoApprovalRule:
    """Let further calls like an approved one through.

    Args:
        approval: of the call that they are to be like: by the same caller, of the same tool.
        by: who decides.
        names: arguments that must be the same; others may be anything.
        calls: how many; None for any number.
        seconds: for how long, at most a day.

    Raises:
        ValueError: one of the names is none, and without it more would be let through than was meant.
    """
    now, names = timezone.now(), list(names)
    bound = [*names, *([""] if "" in approval.parts else [])]  # the row that no argument says is always the same
    if strange := [name for name in names if name not in approval.parts]:
        msg = f"no arguments of this call: {', '.join(strange)}"
        raise ValueError(msg)
    return AutoApprovalRule.objects.create(
        server=approval.server,
        tool=approval.tool,
        principal_kind=approval.principal_kind,
        principal_id=approval.principal_id,
        client_id=approval.client_id,
        user=approval.user,
        arguments={name: approval.arguments.get(name) for name in names},
        pattern={name: approval.parts[name] for name in bound},
        version=approval.version,
        remaining=calls,
        created=now,
        created_by=by,
        expires=now + datetime.timedelta(seconds=min(seconds, LONGEST_SECONDS)),
    )


def find(context: Context, tool: Tool, parts: Mapping[str, str], version: str) -> AutoApprovalRule | None:
    """One that a call fits; None where it has to be asked about.

    Args:
        context: of the call.
        tool: that is called.
        parts: the digest of each argument.
        version: of tool and policy.
    """
    principal = context.principal
    found = _good().filter(
        server=context.server.name,
        tool=tool.key,
        principal_kind=principal.kind,
        principal_id=principal.id,
        client_id=principal.client_id or "",
        version=version,
    )
    rows = list(found.select_related("created_by").order_by("pk")[:100])
    if not rows:
        return None
    fitting = (each for each in rows if each.pattern.items() <= parts.items())
    return next((each for each in fitting if may_approve(each.created_by, context.server.name)), None)


def _good() -> Any:
    is_left = Q(remaining=None) | Q(remaining__gt=0)
    users = get_user_model()._default_manager  # noqa: SLF001 - Django's documented API
    # No join: an UPDATE would look for its rows first, and of two at once both would find the last call still there.
    approver = Exists(users.filter(pk=OuterRef("created_by"), is_active=True))  # whose word it is
    return AutoApprovalRule.objects.filter(is_left, approver, revoked=None, expires__gt=timezone.now())


def use(standing: AutoApprovalRule, fields: Mapping[str, Any], run: str, round: int) -> Approval | None:  # noqa: A002
    """Take one call from it; the approval request that stands for that, used up already. None where there is none left.

    Args:
        standing: that the call fits.
        fields: of the approval request.
        run, round: see ``approval_requests.use``.
    """
    with database.atomic(durable=True):
        # ``None - 1`` is still no limit in SQL.
        if not _good().filter(pk=standing.pk).update(remaining=F("remaining") - 1):
            return None
        now = timezone.now()
        made = Approval.objects.create(
            **{**fields, "expires": standing.expires},
            public_id=secrets.token_urlsafe(16),
            state=Approval.State.CONSUMED,
            decided=now,
            decided_by_id=standing.created_by_id,
            standing=standing,
            consumed=now,
            run=run,
            rounds=round + 1,
        )
        approval_requests.note(made, approval_requests.Kind.PROPOSED)
        approval_requests.note(made, approval_requests.Kind.EXECUTED, text=f"standing approval {standing.pk}")
    return made

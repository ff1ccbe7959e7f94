"""Auto-approval rules: creation, lookup and use."""

import datetime
import secrets
from collections.abc import Iterable, Mapping
from typing import Any

from django.contrib.auth import get_user_model
from django.db.models import Exists, F, OuterRef, Q
from django.utils import timezone

from django_mcp.approvals import approval_requests
from django_mcp.approvals.approvers import may_add_rule
from django_mcp.core import database
from django_mcp.core.context import Context
from django_mcp.core.server import server_named
from django_mcp.models import Approval, AutoApprovalRule
from django_mcp.primitives.tool import Tool
from django_mcp.pubsub import once

MAX_SECONDS = 24 * 60 * 60


def create_rule(
    approval: Approval, by: Any, names: Iterable[str], calls: int | None, seconds: float
) -> AutoApprovalRule:
    """Create a rule that approves further calls of the same tool by the same caller.

    Args:
        approval: the approval request of the first call.
        by: the user who decides.
        names: arguments that must have the same value; others may have any.
        calls: number of further calls; None for no limit.
        seconds: lifetime, at most a day.

    Raises:
        ValueError: a name is not an argument of the call. Ignoring it would approve more than was meant.
    """
    now, names = timezone.now(), list(names)
    if strange := [name for name in names if name not in approval.parts]:
        msg = f"not arguments of this call: {', '.join(strange)}"
        raise ValueError(msg)
    return AutoApprovalRule.objects.create(
        server=approval.server,
        tool=approval.tool,
        principal_kind=approval.principal_kind,
        principal_id=approval.principal_id,
        client_id=approval.client_id,
        user=approval.user,
        arguments=_values(approval, names),
        pattern={name: approval.parts[name] for name in ["", *names]},  # always the same tenant and row
        version=approval.version,
        remaining=calls,
        created=now,
        created_by=by,
        expires=now + datetime.timedelta(seconds=min(seconds, MAX_SECONDS)),
    )


def _values(approval: Approval, names: Iterable[str]) -> dict[str, Any]:
    """Return the values of arguments: those that were sent, else the defaults that the tool's schema has."""
    sent = approval.arguments if isinstance(approval.arguments, dict) else {}
    server = server_named(approval.server)
    tool = None if server is None else server.tools.get(approval.tool)
    properties = {} if tool is None else tool.form_schema.get("properties", {})
    defaults = {name: properties[name]["default"] for name in names if "default" in properties.get(name, {})}
    return {name: {**defaults, **sent}[name] for name in names if name in sent or name in defaults}


def find_rule(context: Context, tool: Tool, parts: Mapping[str, str], version: str) -> AutoApprovalRule | None:
    """Return a rule that approves a call, or None; *parts* are the digests of its arguments."""
    principal = context.principal
    found = _usable_rules().filter(
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
    fitting = (rule for rule in rows if rule.pattern.items() <= parts.items())
    return next((rule for rule in fitting if may_add_rule(rule.created_by, rule.server, rule.tool, rule.user_id)), None)


def _usable_rules() -> Any:
    is_left = Q(remaining=None) | Q(remaining__gt=0)
    users = get_user_model()._default_manager  # noqa: SLF001 - Django's documented API
    # No join: an UPDATE would select its rows first, and two concurrent calls could both use the last one.
    approver = Exists(users.filter(pk=OuterRef("created_by"), is_active=True))
    return AutoApprovalRule.objects.filter(is_left, approver, revoked=None, expires__gt=timezone.now())


@database.retry_conflicts
def use_rule(rule: AutoApprovalRule, fields: Mapping[str, Any], run: str, round: int) -> Approval | None:  # noqa: A002
    """Take one call from a rule. Return its approval request, already used, or None if no calls are left.

    *fields* are those of the approval request; for *run* and *round* see ``approval_requests.use``.
    """
    # Durable: rolling back an outer transaction would give the call back to the rule.
    with database.atomic(durable=True):
        # In SQL, NULL - 1 is NULL: still no limit.
        if not _usable_rules().filter(pk=rule.pk).update(remaining=F("remaining") - 1):
            return None
        now = timezone.now()
        made = Approval.objects.create(
            **{**fields, "expires": max(rule.expires, once.expiry())},  # as in approval_requests.use
            public_id=secrets.token_urlsafe(16),
            state=Approval.State.CONSUMED,
            decided=now,
            decided_by_id=rule.created_by_id,
            rule=rule,
            consumed=now,
            run=run,
            rounds=round + 1,
        )
        approval_requests.record_event(made, approval_requests.Kind.PROPOSED)
        approval_requests.record_event(made, approval_requests.Kind.EXECUTED, text=f"auto-approval rule {rule.pk}")
    return made

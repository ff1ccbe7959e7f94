"""Cards: a call that requires approval, as it is shown to approvers and to its requester."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.db.models import QuerySet
from django.utils import timezone
from django.utils.safestring import SafeString
from django.utils.translation import get_language, gettext_lazy
from django.utils.translation import gettext as _

from django_mcp.admin.approval_states import (
    is_pending,
)
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
from django_mcp.approvals import messages as approval_messages
from django_mcp.approvals.approvers import APPROVE, is_own, may_add_rule, may_approve, may_decide
from django_mcp.approvals.decisions import find_hidden_parts
from django_mcp.core.redaction import visible
from django_mcp.core.server import server_named
from django_mcp.models import Approval, ApprovalEvent

KINDS = {
    "api_key": gettext_lazy("with an API key"),
    "oauth": gettext_lazy("through an OAuth client"),
    "public": gettext_lazy("not signed in"),
    "session": gettext_lazy("signed in to the site"),
    "user": gettext_lazy("on the server’s command line"),
}
"""Display names of ``Principal.kind``."""


def card_digest(row: Approval) -> str:
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
    in_admin: bool = True
    """False if it is shown in any other place."""

    @cached_property
    def tool(self) -> str:
        return line(self.row.tool)

    @cached_property
    def description(self) -> str:
        server = server_named(self.row.server)
        tool = None if server is None else server.tools.get(self.row.tool)
        return "" if tool is None else visible(str(tool.definition.get("description", "")))

    @cached_property
    def email(self) -> str:
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
        return card_digest(self.row)

    @cached_property
    def arguments(self) -> list[tuple[str, SafeString, str]]:
        return shown_arguments(self.row.arguments, (self.row.withheld or {}).get("arguments", {}))

    @cached_property
    def hidden_parts(self) -> list[str]:
        return [line(name) for name in find_hidden_parts(self.row)]

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
        return is_pending(self.row) and may_decide(self.row, self.user, in_admin=self.in_admin)

    @cached_property
    def may_add_rule(self) -> bool:
        return may_add_rule(self.user, self.row.server, self.row.tool, self.row.user_id)

    @property
    def why_not(self) -> str:
        """Return why the user may not decide."""
        if not self.in_admin and is_own(self.row, self.user) and may_decide(self.row, self.user):
            return _("You requested this call. Decide it in the site’s admin, signed in with your browser.")
        if not self.user.has_perm(APPROVE):
            return _("Read only: deciding requires the permission “Can approve tool calls”.")
        if not may_approve(self.user, self.row.server):
            return _("Read only: you may not decide calls at this endpoint.")
        return _("You requested this call, so another person has to decide.")


def make_cards(rows: Iterable[Approval], user: Any, *, in_admin: bool = True) -> list[Card]:
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
            in_admin,
        )
        for row in rows
    ]


def etag_of(shown: Sequence[Card], count: int, user: Any) -> str:
    state = [get_language(), user.pk, count, [[card.row.pk, card.seen, card.may_decide] for card in shown]]
    return f'"{hashlib.sha256(json.dumps(state, default=str).encode()).hexdigest()[:32]}"'


def record_views(shown: Iterable[Card], user: Any) -> None:
    """Record that a user who may decide has viewed the calls, once for each user."""
    keys = [card.row.pk for card in shown if card.may_decide]
    if not keys:
        return
    events: QuerySet[ApprovalEvent] = ApprovalEvent.objects.filter(kind=ApprovalEvent.Kind.SHOWN, by=user)
    known = set(events.filter(approval__in=keys).values_list("approval_id", flat=True))
    now = timezone.now()
    made = [{"approval_id": key, "kind": ApprovalEvent.Kind.SHOWN, "at": now, "by": user} for key in keys]
    ApprovalEvent.objects.bulk_create(ApprovalEvent(**event) for event in made if event["approval_id"] not in known)

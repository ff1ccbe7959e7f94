"""What is shown of a call that waits, to one person: enough to decide, and whether they may."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from django.db.models import Q
from django.utils import timezone
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.translation import get_language, gettext_lazy
from django.utils.translation import gettext as _

from django_mcp.admin.approvals.values import Preview, line, preview_of, shown_arguments, shown_value
from django_mcp.admin.people import names_of
from django_mcp.approvals import messages as approval_messages
from django_mcp.approvals.decisions import may_decide, not_shown
from django_mcp.approvals.notices import APPROVE, may_approve
from django_mcp.models import OVER, Approval, ApprovalEvent

if TYPE_CHECKING:
    from django.db.models import QuerySet

State = Approval.State
KINDS = {
    "api_key": gettext_lazy("with an API key"),
    "oauth": gettext_lazy("through an OAuth client"),
    "public": gettext_lazy("not signed in"),
    "session": gettext_lazy("signed in to the site"),
    "user": gettext_lazy("on the server’s command line"),
}
"""Kinds of callers, in words."""


def waits() -> Q:
    """What is true of tickets about which somebody can still decide."""
    wanted = Q(task=None) | ~Q(task__status__in=OVER)
    return Q(state=State.PENDING, expires__gt=timezone.now()) & wanted


def has_ended() -> Q:
    """The opposite."""
    return ~Q(state=State.PENDING) | Q(expires__lte=timezone.now()) | Q(task__status__in=OVER)


def is_waiting(row: Approval) -> bool:
    """The same of one row."""
    is_wanted = row.task is None or row.task.status not in OVER
    return row.state == State.PENDING and row.expires > timezone.now() and is_wanted


def state_of(row: Approval) -> State:
    """Its state as people understand it: what is good no longer has expired, whether or not anybody has noticed."""
    if row.state == State.PENDING and not is_waiting(row):
        return State.EXPIRED
    if row.state == State.APPROVED and row.expires <= timezone.now():
        return State.EXPIRED
    return State(row.state)


RUNS = {
    "started": gettext_lazy("Started"),
    "interrupted": gettext_lazy("Interrupted"),
    "done": gettext_lazy("Done"),
    "failed": gettext_lazy("Failed"),
}
"""The outcome of an approved call, in the word that approvers and the requester both read."""


def run_of(row: Approval) -> str:
    """Return what became of the run of an approved call: a key of ``RUNS``."""
    if row.outcome:
        return "done" if row.outcome == "ok" else "failed"
    return "interrupted" if row.task is not None and row.task.is_over else "started"


def ran(run: str) -> Q:
    """Return what is true of used tickets for which ``run_of`` gives *run*."""
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
    """Return the state of a ticket in a word or two; of one that was used what became of its run."""
    state = state_of(row)
    return str(RUNS[run_of(row)] if state == State.CONSUMED else capfirst(state.label))


def seen(row: Approval) -> str:
    """A digest of all that a card shows of the call. Who decides sends it along: they decide about what they saw."""
    shown = [row.ticket, row.digest, row.version, row.arguments, row.preview, row.preview_digest, row.client]
    shown.append(row.withheld)
    return hashlib.sha256(json.dumps(shown, sort_keys=True).encode()).hexdigest()[:32]


@dataclass
class Card:
    """One call.

    Attributes:
        row: its ticket.
        person: the caller's name.
        user: who looks at it.
    """

    row: Approval
    person: str
    user: Any

    @cached_property
    def tool(self) -> str:
        """Its name."""
        return line(self.row.tool)

    @cached_property
    def kind(self) -> str:
        """How the caller came in."""
        return str(KINDS.get(self.row.principal_kind) or line(self.row.principal_kind))

    @cached_property
    def client(self) -> str:
        """What the client says it is."""
        return line(approval_messages.client(self.row)) or "–"

    @cached_property
    def client_id(self) -> str:
        """Which OAuth client it is."""
        return line(self.row.client_id)

    @cached_property
    def seen(self) -> str:
        """See there."""
        return seen(self.row)

    @cached_property
    def arguments(self) -> list[tuple[str, SafeString, str]]:
        """As the caller sent them, and why one is not shown so."""
        return shown_arguments(self.row.arguments, (self.row.withheld or {}).get("arguments", {}))

    @cached_property
    def not_shown(self) -> list[str]:
        """What has to be approved without being seen."""
        return [line(each) for each in not_shown(self.row)]

    @cached_property
    def preview(self) -> Preview:
        """What would change."""
        return preview_of(self.row.preview)

    @cached_property
    def choices(self) -> list[tuple[str, str, SafeString | None]]:
        """Arguments in which further calls can be bound to this one; those not sent have defaults."""
        sent = self.row.arguments if isinstance(self.row.arguments, dict) else {}
        return [
            (each, line(each), shown_value(sent[each]) if each in sent else None) for each in self.row.parts if each
        ]

    @cached_property
    def may_decide(self) -> bool:
        """Whether buttons would do something."""
        return is_waiting(self.row) and may_decide(self.row, self.user)

    @property
    def why_not(self) -> str:
        """Why there are none."""
        if not self.user.has_perm(APPROVE):
            return _("You may look at it. Deciding needs the permission “Can approve calls of tools”.")
        if not may_approve(self.user, self.row.server):
            return _("You may look at it. Others decide about calls at this endpoint.")
        return _("This call was made in your name, so somebody else has to decide.")


def cards(rows: Iterable[Approval], user: Any) -> list[Card]:
    """A card for each, with at most two queries."""
    rows = list(rows)
    nameless = [each for each in rows if each.user is None or each.principal_kind == "api_key"]
    names = names_of((each.principal_kind, each.principal_id) for each in nameless)
    return [Card(row, line(names.get((row.principal_kind, row.principal_id), row.user)), user) for row in rows]


def tag(shown: Sequence[Card], count: int, user: Any) -> str:
    """An ETag: another one where a page of them would not be the same."""
    state = [get_language(), user.pk, count, [[card.row.pk, card.seen, card.may_decide] for card in shown]]
    return f'"{hashlib.sha256(json.dumps(state, default=str).encode()).hexdigest()[:32]}"'


def note_shown(shown: Iterable[Card], user: Any) -> None:
    """Note that somebody who may decide was shown them; once for each person."""
    keys = [card.row.pk for card in shown if card.may_decide]
    if not keys:
        return
    events: QuerySet[ApprovalEvent] = ApprovalEvent.objects.filter(kind=ApprovalEvent.Kind.SHOWN, by=user)
    known = set(events.filter(approval__in=keys).values_list("approval_id", flat=True))
    now = timezone.now()
    made = [{"approval_id": key, "kind": ApprovalEvent.Kind.SHOWN, "at": now, "by": user} for key in keys]
    ApprovalEvent.objects.bulk_create(ApprovalEvent(**each) for each in made if each["approval_id"] not in known)

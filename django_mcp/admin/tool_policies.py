"""Changes of tool policies: what the page showed, confirmation of weaker controls, undo, and history."""

import hashlib
import itertools
import json
import secrets
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple

from django import forms
from django.contrib import messages
from django.contrib.auth.models import AnonymousUser, Group
from django.core import signing
from django.db import IntegrityError
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, QueryDict
from django.middleware.csrf import get_token
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from django_mcp.admin.base import ClientField, VirtualModelAdmin
from django_mcp.admin.display import client_name
from django_mcp.admin.tool_rows import ToolRow, decided_words, decision_words
from django_mcp.approvals import tool_definitions
from django_mcp.approvals.tool_policies import StoredPolicies, policies_of, read_limits
from django_mcp.core import database
from django_mcp.core.policies import Decision, Policies, Rule
from django_mcp.core.principal import Principal
from django_mcp.models import ToolPolicy, Tools
from django_mcp.pubsub import once

DEFAULT = "default"
POLICY, SEEN = "policy:", "seen:"
"""Before the key of a tool: the name of its select, and of the field with the decision that the page showed."""
SHOWN = "shown"
"""Field with a digest of the overrides that the page showed."""
DECISIONS = (DEFAULT, *ToolPolicy.Decision.values)
CONFIRMED = "confirmed"
"""Field of the page that asks: a digest of what it showed."""

Audience = tuple[Any, str]
"""Primary key of a group or None, and a client id or ""."""
EVERYONE: Audience = (None, "")

UNDO_SALT, UNDO_SECONDS = "django_mcp.admin.undo", 3600
TOO_LATE = gettext_lazy("It is too late to undo this. Set the policies by hand.")
USED = gettext_lazy("This was undone already.")


class OverrideForm(forms.Form):
    """A policy for a group, a client or both."""

    group = forms.ModelChoiceField(
        label=gettext_lazy("Group"),
        queryset=Group.objects.order_by("name"),
        required=False,
        empty_label=gettext_lazy("all users"),
    )
    client_id = ClientField(
        label=gettext_lazy("OAuth client"),
        required=False,
        help_text=gettext_lazy("Name or id of the client it applies to. Empty: all clients."),
    )
    decision = forms.ChoiceField(label=gettext_lazy("Decision"), choices=ToolPolicy.Decision.choices, initial="ask")

    def clean(self) -> dict[str, Any]:
        given = super().clean() or self.cleaned_data
        if not self.errors and not given.get("group") and not given.get("client_id"):
            raise forms.ValidationError(_("Choose a group or a client. The general policy is set above."))
        return given


@dataclass(frozen=True)
class Change:
    """A policy to set, if it is still the one that the author of the change saw.

    Attributes:
        server: name of the endpoint.
        tool: key of the tool.
        decision: as stored, or ``DEFAULT`` to remove the policy.
        group: the group it applies to, or None.
        client_id: the client it applies to, or "".
        seen: the decision that the author saw, as stored, or ``DEFAULT``.
        version: for undoing, the version of the row that the author's own change made; "" if it removed the row.
    """

    server: str
    tool: str
    decision: str
    group: Any = None
    client_id: str = ""
    seen: str = DEFAULT
    version: str = ""

    @property
    def key(self) -> str:
        return f"{self.server}.{self.tool}"

    @property
    def audience(self) -> Audience:
        return None if self.group is None else self.group.pk, self.client_id

    @property
    def _which(self) -> dict[str, Any]:
        return {"server": self.server, "tool": self.tool, "group": self.group, "client_id": self.client_id}

    def check(self, rows: "QuerySet[ToolPolicy] | None" = None) -> ToolPolicy | None:
        """Return the stored policy, found in *rows*, or None.

        Raises:
            ChangedMeanwhile: it is neither the one that the author saw nor the one that they want.
        """
        row = (ToolPolicy.objects.all() if rows is None else rows).filter(**self._which).first()
        now = DEFAULT if row is None else row.decision
        is_other = bool(self.version) and (row is None or policy_version(row) != self.version)
        if is_other or now not in {self.seen, self.decision}:
            raise ChangedMeanwhile(self, row)
        return row

    def store(self, user: Any) -> "StoredChange | None":
        """Set or remove the policy, in the current transaction. Return None if it is set already.

        Raises:
            ChangedMeanwhile: it is not the one that the author saw.
        """
        # Locked, so that what was compared is what is replaced.
        row = self.check(ToolPolicy.objects.select_for_update())
        before = DEFAULT if row is None else row.decision
        if before == self.decision:
            return None
        if row is None:
            try:
                with database.atomic():
                    row = ToolPolicy.objects.create(**self._which, decision=self.decision, changed_by=user)
            except IntegrityError:  # another one was faster
                raise ChangedMeanwhile(self, ToolPolicy.objects.filter(**self._which).first()) from None
        elif self.decision == DEFAULT:
            row.delete()
            row = None
        else:
            row.decision, row.changed_by = self.decision, user
            row.save(update_fields=["decision", "changed", "changed_by"])
        return StoredChange(self, before, "" if row is None else policy_version(row))

    @property
    def note(self) -> str:
        if self.audience == EVERYONE:
            return _("General policy: %s.") % decision_label(self.decision)
        return self.message

    @property
    def message(self) -> str:
        label = decision_label(self.decision)
        if self.audience == EVERYONE:
            return _("Policy of %(tool)s is now: %(decision)s.") % {"tool": self.key, "decision": label}
        who = _audience_words(self.group, self.client_id)
        return _("%s: override removed.") % who if self.decision == DEFAULT else f"{who}: {label}."


class StoredChange(NamedTuple):
    """A change that was made: the decision before it, and the version of the row after it."""

    change: Change
    before: str
    version: str


def policy_version(row: ToolPolicy) -> str:
    return f"{row.pk} {row.decision} {row.changed.isoformat()}"


class ChangedMeanwhile(Exception):
    """A decision is no longer the one that the author of a change saw. Its text tells what it is now."""

    def __init__(self, change: Change, now: ToolPolicy | None) -> None:
        who = "" if change.audience == EVERYONE else f" ({_audience_words(change.group, change.client_id)})"
        words = _("Nothing was changed: the policy of %(tool)s is now “%(now)s”, which the page did not show.") % {
            "tool": f"{change.key}{who}",
            "now": decision_label(DEFAULT if now is None else now.decision),
        }
        by = "" if now is None else f" {capfirst(decided_words(now))}."
        super().__init__(f"{words}{by} {_('Check it, then decide again.')}")


class WeakenedPolicy(NamedTuple):
    """A control that a change would weaken: the policy of a destructive tool, or a limit of a client."""

    key: str
    summary: str
    who: str
    before: str
    after: str
    is_tool: bool = True


def find_weakened(
    tools: Iterable[ToolRow], changes: Sequence[Change] = (), limits: Mapping[str, Any] | None = None
) -> Iterator[WeakenedPolicy]:
    """Yield which of the tools that may destroy data would be called with less control after the changes.

    Callers with every combination of a client and one or two groups are looked at: several overrides may match one.

    Args:
        tools: the tools.
        changes: of their policies.
        limits: id of a client -> the tools that it may use afterwards, or None for all.
    """
    limited_now = read_limits()
    limited_then = {**limited_now, **(limits or {})}
    limited_then = {client_id: tools for client_id, tools in limited_then.items() if tools is not None}
    own: dict[str, list[Change]] = defaultdict(list)
    for change in changes:
        own[change.key].append(change)
    for tool_row in tools:
        if not tool_row.may_destroy or not (own[tool_row.key] or limits):
            continue
        rows = {(row.group_id, row.client_id): row.decision for row in tool_row.rows}
        then = {**rows, **{change.audience: change.decision for change in own[tool_row.key]}}
        groups = {row.group_id: row.group for row in tool_row.rows} | {
            change.audience[0]: change.group for change in own[tool_row.key]
        }
        clients = {client_id for _group, client_id in then} | {"", *(limits or ())}
        before, after = _policies(tool_row, rows, limited_now), _policies(tool_row, then, limited_then)
        found: list[tuple[frozenset[Any], str]] = []
        for of, client_id in _callers(groups, clients):
            if any(known <= of and known_client in {"", client_id} for known, known_client in found):
                continue
            caller = Principal(kind="oauth", id="", user=AnonymousUser(), client_id=client_id or None)
            names = {str(pk) for pk in of}
            was, becomes = (policies.of(tool_row.tool, caller, names).decision for policies in (before, after))
            if becomes < was:
                found.append((of, client_id))
                who = _callers_words(sorted((groups[pk] for pk in of), key=str), client_id)
                yield WeakenedPolicy(tool_row.key, tool_row.summary, who, decision_words(was), decision_words(becomes))


def _callers(groups: Collection[Any], clients: Collection[str]) -> Iterator[tuple[frozenset[Any], str]]:
    """Yield groups and client of the callers that policies can tell apart, those with fewer first."""
    known = sorted(pk for pk in groups if pk is not None)
    for number in range(3):
        for client_id in sorted(clients):
            for of in itertools.combinations(known, number):
                yield frozenset(of), client_id


def _policies(tool_row: ToolRow, decisions: Mapping[Audience, str], limits: Mapping[str, Any]) -> Policies:
    # Groups are named by primary key.
    rules = [
        Rule(Decision[decision.upper()], None if group is None else str(group), client_id or None)
        for (group, client_id), decision in decisions.items()
        if decision != DEFAULT
    ]
    return policies_of(tool_row.server, StoredPolicies({(tool_row.server.name, tool_row.tool.key): rules}, limits))


def confirm_weakening(
    model_admin: VirtualModelAdmin,
    request: HttpRequest,
    found: Iterable[WeakenedPolicy],
    fields: Iterable[tuple[str, str]],
) -> HttpResponse | None:
    """Return a page that asks whether to weaken what was found.

    None if exactly that was confirmed, or nothing is weakened.

    Args:
        fields: what the page sends again.
    """
    found = list(found)
    digest = hashlib.sha256(json.dumps(found).encode()).hexdigest()[:32]
    if not found or request.POST.get(CONFIRMED) == digest:
        return None
    sent = [(name, value) for name, value in fields if name != CONFIRMED]
    context = {
        "weakened": found,
        "has_tools": any(control.is_tool for control in found),
        "fields": [*sent, (CONFIRMED, digest)],
        "back": request.get_full_path(),
    }
    return model_admin.page(request, "weaken_confirmation", _("Allow more than now?"), context)


def posted_fields(given: QueryDict) -> list[tuple[str, str]]:
    return [(name, value) for name, values in given.lists() if name != "csrfmiddlewaretoken" for value in values]


def undo_button(request: HttpRequest, words: str, address: str, state: Any) -> SafeString | str:
    """Return a message with a button that sends *state* back: signed, for this user, once and within an hour."""
    if not address or not state:
        return words
    return format_html(
        '{} <form method="post" action="{}" class="mcp-undo"><input type="hidden" name="csrfmiddlewaretoken" '
        'value="{}"><button name="undo" value="{}">{}</button></form>',
        words,
        address,
        get_token(request),
        signing.dumps([str(request.user.pk), secrets.token_urlsafe(16), state], salt=UNDO_SALT, compress=True),
        _("Undo"),
    )


def read_undo_token(request: HttpRequest, token: str) -> tuple[str, Any] | None:
    """Return id and state of a button of this user, or None if it is too late."""
    try:
        user, nonce, state = signing.loads(token, salt=UNDO_SALT, max_age=UNDO_SECONDS)
    except (signing.BadSignature, ValueError, TypeError):
        return None
    return (nonce, state) if user == str(request.user.pk) else None


def consume_undo_token(nonce: str) -> bool:
    # A row that only one request can create: of two presses of a button, the second is told that it was used. It goes
    # away with the transaction if that fails.
    return once.claim_step(f"undo {nonce}", "admin", timezone.now() + timedelta(seconds=UNDO_SECONDS))


class ToolPolicyActions:
    """Changes of policies by one user, with messages and history entries."""

    def __init__(self, model_admin: Any, request: HttpRequest) -> None:
        self._admin, self._request = model_admin, request

    def decide(self, changes: Sequence[Change]) -> None:
        """Set policies, all or none, and offer to undo it."""
        try:
            with database.atomic():
                done = self._store(changes)
        except ChangedMeanwhile as error:
            self._message_user(str(error), messages.ERROR)
            return
        if not done:
            self._message_user(_("Nothing changed: this is already the policy."), messages.INFO)
            return
        words = done[0].change.message
        if len(done) > 1:
            words = ngettext("%d policy changed.", "%d policies changed.", len(done)) % len(done)
        state = [
            (
                change.change.server,
                change.change.tool,
                change.before,
                change.change.decision,
                change.version,
                *change.change.audience,
            )
            for change in done
        ]
        self._message_user(undo_button(self._request, words, self._admin.address("tools_changelist"), state))

    def _store(self, changes: Iterable[Change]) -> list[StoredChange]:
        done = []
        for change in changes:
            made = change.store(self._request.user)
            if made is not None:
                self._log_change(change.server, change.tool, change.note)
                done.append(made)
        return done

    def changes_of_undo(self, state: Iterable[Any]) -> list[Change]:
        state = list(state)
        groups = Group.objects.in_bulk({group for *_rest, group, _client in state if group is not None})
        return [
            Change(server, tool, before, groups.get(group), client_id, after, version)
            for server, tool, before, after, version, group, client_id in state
            if group is None or group in groups
        ]

    def undo(self, nonce: str, changes: Sequence[Change]) -> None:
        try:
            with database.atomic():
                if not consume_undo_token(nonce):
                    self._message_user(str(USED), messages.WARNING)
                    return
                number = len(self._store(changes))
        except ChangedMeanwhile as error:
            self._message_user(str(error), messages.ERROR)
            return
        self._message_user(ngettext("%d policy restored.", "%d policies restored.", number) % number)

    def approve_definition(self, tool_row: ToolRow, digest: str) -> None:
        """Approve a tool's new definition, unless it has changed since it was shown."""
        if digest != tool_definitions.current_definition(tool_row.tool).digest:
            self._message_user(_("The definition has changed again. Review it, then approve."), messages.WARNING)
            return
        with database.atomic():
            tool_definitions.approve_definition(tool_row.server, tool_row.tool, self._request.user)
            self._log_change(tool_row.server.name, tool_row.tool.key, _("New definition approved."))
        self._message_user(_("The new definition of %s is approved.") % tool_row.key)

    def _log_change(self, server: str, tool: str, words: str) -> None:
        self._admin.log_change(self._request, logged_tool(server, tool), words)

    def _message_user(self, words: "str | SafeString", level: int = messages.SUCCESS) -> None:
        self._admin.message_user(self._request, words, level)


def logged_tool(server: str, tool: str) -> Any:
    # Without a snapshot, for a tool has a history also while its definition cannot be built.
    return Tools(pk=f"{server}.{tool}", server=server, tool=tool)


def decision_label(decision: str) -> str:
    return _("default") if decision == DEFAULT else str(dict(ToolPolicy.decision.field.flatchoices)[decision])


def audience(row: ToolPolicy) -> str:
    return _("Everyone") if row.group is None and not row.client_id else _audience_words(row.group, row.client_id)


def _callers_words(groups: Sequence[Any], client_id: str) -> str:
    if not groups:
        return _("Client %s") % client_name(client_id) if client_id else ""
    words = _(" and ").join(_("Group %s") % group.name for group in groups)
    if not client_id:
        return words
    return _("%(group)s with client %(client)s") % {"group": words, "client": client_name(client_id)}


def _audience_words(group: Any, client_id: str) -> str:
    return _callers_words([] if group is None else [group], client_id)

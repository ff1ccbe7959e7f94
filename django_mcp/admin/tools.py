"""Admin of tools: list, detail and policies."""

import hashlib
import itertools
import json
import secrets
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, ClassVar, NamedTuple
from urllib.parse import urlencode

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.utils import quote, unquote
from django.contrib.auth.models import AnonymousUser, Group
from django.core import signing
from django.core.exceptions import PermissionDenied
from django.db import IntegrityError
from django.db.models import Case, QuerySet, When
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.middleware.csrf import get_token
from django.template.loader import render_to_string
from django.urls import URLPattern
from django.utils import timezone
from django.utils.functional import lazy
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import Truncator, capfirst
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from django_mcp.admin import tool_rows
from django_mcp.admin.base import ClientField, FiltersAboveList, StrictFiltersAdmin, VirtualModelAdmin, client_list
from django_mcp.admin.display import NOTHING, as_json, client_name, client_names, lasted
from django_mcp.admin.stats import unindexed
from django_mcp.admin.tool_rows import (
    DAYS,
    ToolRow,
    decided_words,
    decision_words,
    differences,
    find_orphaned_policies,
    find_tool_row,
    load_tool_rows,
)
from django_mcp.approvals import tool_definitions, tool_policies, unmatched_policies
from django_mcp.approvals.tool_policies import StoredPolicies
from django_mcp.conf import settings
from django_mcp.core import database
from django_mcp.core.policies import Decision, Policies, Rule
from django_mcp.core.principal import Principal
from django_mcp.core.server import servers
from django_mcp.models import RequestLog, ToolPolicy, Tools
from django_mcp.pubsub import once

Test = Callable[[ToolRow], bool]


def _is(value: str) -> Test:
    return lambda tool_row: tool_row.decision.name.lower() == value


def _says(hint: str) -> Test:
    return lambda tool_row: bool(tool_row.tool.annotations.get(hint))


def tool_rows_of(request: HttpRequest) -> Mapping[Any, ToolRow]:
    """Return the tools of the list by primary key of their snapshot, loaded once for a request."""
    found: dict[Any, ToolRow] | None = getattr(request, "_mcp_tool_rows", None)
    if found is None:
        every = load_tool_rows(with_calls=request.user.has_perm("django_mcp.view_requestlog"))
        # A tool whose definition cannot be built has no row; the page names it.
        found = {tool_row.snapshot.pk: tool_row for tool_row in every if tool_row.snapshot is not None}
        request._mcp_tool_rows = found  # type: ignore[attr-defined]  # noqa: SLF001 - of this page alone
        request._mcp_failing = [tool_row for tool_row in every if tool_row.snapshot is None]  # type: ignore[attr-defined]  # noqa: SLF001
    return found


def _matching(request: HttpRequest, queryset: "QuerySet[Tools]", test: Test) -> "QuerySet[Tools]":
    return queryset.filter(pk__in=[pk for pk, tool_row in tool_rows_of(request).items() if test(tool_row)])


class EndpointFilter(admin.SimpleListFilter):
    """Filter by endpoint."""

    title = gettext_lazy("endpoint")
    parameter_name = "endpoint"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Any:  # noqa: ARG002
        return [(server.name, server.name) for server in servers()]

    def queryset(self, request: HttpRequest, queryset: "QuerySet[Tools]") -> "QuerySet[Tools]":  # noqa: ARG002
        return queryset.filter(server=self.value()) if self.value() else queryset


class _TestFilter(admin.SimpleListFilter):
    """Base of filters by what is in no column: tests of tools, with their labels."""

    tests: ClassVar[Mapping[str, tuple[Any, Test]]]

    def lookups(self, request: HttpRequest, model_admin: Any) -> Any:  # noqa: ARG002
        return [(name, label) for name, (label, _test) in self.tests.items()]

    def queryset(self, request: HttpRequest, queryset: "QuerySet[Tools]") -> "QuerySet[Tools]":
        known = self.tests.get(self.value() or "")
        return queryset if known is None else _matching(request, queryset, known[1])


class DecisionFilter(_TestFilter):
    """Filter by policy."""

    title = gettext_lazy("decision")
    parameter_name = "decision"
    tests: ClassVar[Any] = {
        **{str(value): (label, _is(value)) for value, label in ToolPolicy.Decision.choices},
        "decided": (gettext_lazy("set explicitly"), lambda tool_row: tool_row.own is not None),
        "overridden": (gettext_lazy("with overrides"), lambda tool_row: bool(tool_row.override_words)),
    }


class HintFilter(_TestFilter):
    """Filter by hints."""

    title = gettext_lazy("hints")
    parameter_name = "hint"
    tests: ClassVar[Any] = {
        "read-only": (gettext_lazy("read-only"), lambda tool_row: tool_row.tool.read_only),
        "writes": (gettext_lazy("writes"), lambda tool_row: not tool_row.tool.read_only),
        "destructive": (gettext_lazy("destructive"), lambda tool_row: tool_row.is_destructive),
        "idempotent": (gettext_lazy("idempotent"), _says("idempotentHint")),
        "open-world": (gettext_lazy("open world"), _says("openWorldHint")),
        "unsaid": (gettext_lazy("no hints"), lambda tool_row: not tool_row.tool.annotations),
    }


class ChangedFilter(_TestFilter):
    """Filter by changes of the definition."""

    title = gettext_lazy("changed")
    parameter_name = "changed"
    tests: ClassVar[Any] = {"yes": (gettext_lazy("since approval"), lambda tool_row: tool_row.is_changed)}


def _has(words: Sequence[str]) -> Test:
    def has(tool_row: ToolRow) -> bool:
        text = f"{tool_row.key} {tool_row.title} {tool_row.description} {tool_row.source}".casefold()
        return all(word in text for word in words)

    return has


class ToolList(FiltersAboveList):
    """Rows of the table, each with its tool of this process."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        tool_rows, may_change = tool_rows_of(request), self.model_admin.has_change_permission(request)
        for row in self.result_list:
            row.tool_row, row.may_change = tool_rows[row.pk], may_change

    def url_for_result(self, result: Any) -> str:
        return f"{quote(result.tool_row.key)}/change/"


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


DEFAULT = "default"
POLICY, SEEN = "policy:", "seen:"
"""Before the key of a tool: the name of its select, and of the field with the decision that the page showed."""
SHOWN = "shown"
"""Field with a digest of the overrides that the page showed."""
DECISIONS = (DEFAULT, *ToolPolicy.Decision.values)


UNDO_SALT, UNDO_SECONDS = "django_mcp.admin.undo", 3600
Audience = tuple[Any, str]
"""Primary key of a group or None, and a client id or ""."""
EVERYONE: Audience = (None, "")


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
            return _("General policy: %s.") % _words(self.decision)
        return self.message

    @property
    def message(self) -> str:
        if self.audience == EVERYONE:
            return _("Policy of %(tool)s is now: %(decision)s.") % {"tool": self.key, "decision": _words(self.decision)}
        who = _audience_words(self.group, self.client_id)
        return _("%s: override removed.") % who if self.decision == DEFAULT else f"{who}: {_words(self.decision)}."


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
            "now": _words(DEFAULT if now is None else now.decision),
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
    limited_now = tool_policies.read_limits()
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
    return tool_policies.policies_of(
        tool_row.server, StoredPolicies({(tool_row.server.name, tool_row.tool.key): rules}, limits)
    )


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


CONFIRMED = "confirmed"
"""Field of the page that asks: a digest of what it showed."""


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
    """Use up a button, in the current transaction. Return False if it was used before."""
    return once.claim_step(f"undo {nonce}", "admin", timezone.now() + timedelta(seconds=UNDO_SECONDS))


TOO_LATE = gettext_lazy("It is too late to undo this. Set the policies by hand.")
USED = gettext_lazy("This was undone already.")


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
        self._admin.log_change(self._request, _logged(server, tool), words)

    def _message_user(self, words: "str | SafeString", level: int = messages.SUCCESS) -> None:
        self._admin.message_user(self._request, words, level)


def _logged(server: str, tool: str) -> Any:
    """Return what the history of a tool is kept of: it has one while its definition cannot be built, too."""
    return Tools(pk=f"{server}.{tool}", server=server, tool=tool)


def _words(decision: str) -> str:
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


LAST_CALLS = 20
NONE = format_html('<span class="mcp-none mcp-quiet">{}</span>', NOTHING)
LAST_DAYS = lazy(lambda: _("Last %(days)s days") % {"days": DAYS}, str)()


def _set_selected(decision: str) -> Any:
    def set_selected(model_admin: "ToolsAdmin", request: HttpRequest, queryset: "QuerySet[Tools]") -> Any:
        tool_rows = tool_rows_of(request)
        chosen = [tool_rows[pk] for pk in queryset.order_by().values_list("pk", flat=True)]
        # With those of other pages, which this page did not show, the action is about what there is now.
        across = request.POST.get("select_across") == "1"
        changes = [
            Change(
                tool_row.server.name,
                tool_row.tool.key,
                decision,
                seen=request.POST.get(f"{SEEN}{tool_row.key}", tool_row.chosen if across else ""),
            )
            for tool_row in chosen
        ]
        return model_admin.set_general(request, [change for change in changes if change.seen != decision], [*chosen])

    return set_selected


class ToolsAdmin(VirtualModelAdmin, StrictFiltersAdmin):
    """List and pages of tools, with the permissions to view and change tool policies."""

    template_dir, permission_model = "tools", "toolpolicy"
    acts_with = "change_toolpolicy"
    nothing_yet = gettext_lazy("There are no tools.")
    list_display = ("name", "endpoint", "kind", "callers", "policy", "calls", "failures")
    list_filter = (EndpointFilter, DecisionFilter, HintFilter, ChangedFilter)
    search_fields = ("tool",)  # for the box; see get_search_results
    search_help_text = gettext_lazy("Name, title, description or source")
    ordering = ("server", "tool")
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    change_list_template = "admin/django_mcp/tools/change_list.html"

    def get_urls(self) -> list[URLPattern]:
        return [url for url in super().get_urls() if not str(url.name).endswith(("_add", "_delete"))]

    # Permissions

    def has_approve_permission(self, request: HttpRequest) -> bool:
        return self.has_change_permission(request) or request.user.has_perm("django_mcp.change_toolsnapshot")

    # List

    def get_queryset(self, request: HttpRequest) -> "QuerySet[Tools]":
        """Return the tools of this process, with what the list is sorted by."""
        tool_rows = tool_rows_of(request)
        called = [
            (pk, tool_row.calls.calls, tool_row.failure_rate) for pk, tool_row in tool_rows.items() if tool_row.calls
        ]
        found: QuerySet[Tools] = super().get_queryset(request).filter(pk__in=tool_rows).defer("definition")
        return found.annotate(
            mcp_calls=Case(*(When(pk=pk, then=calls) for pk, calls, _rate in called if calls), default=0),
            mcp_failures=Case(*(When(pk=pk, then=rate) for pk, _calls, rate in called if rate), default=0.0),
        )

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ToolList]:  # noqa: ARG002
        return ToolList

    def get_list_display(self, request: HttpRequest) -> Any:
        return self.list_display if self.can_view_log(request) else self.list_display[:-2]

    def get_search_results(
        self, request: HttpRequest, queryset: "QuerySet[Tools]", search_term: str
    ) -> "tuple[QuerySet[Tools], bool]":
        words = search_term.casefold().split()
        return _matching(request, queryset, _has(words)) if words else queryset, False

    def get_actions(self, request: HttpRequest) -> Any:
        if not self.has_change_permission(request):
            return {}
        return {
            decision: (_set_selected(decision), decision, _("Set the policy to: %s") % _words(decision))
            for decision in DECISIONS
        }

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """List the tools of all endpoints. On POST, set the policy of some.

        Raises:
            PermissionDenied: the user may not view or change tool policies.
        """
        if not self.has_view_permission(request):
            raise PermissionDenied
        if request.method == "POST" and ("_save" in request.POST or not request.POST.get("action")):
            return self._decide_about_some(request, [*tool_rows_of(request).values()])
        changed = sum(tool_row.is_changed for tool_row in tool_rows_of(request).values())
        unmatched = find_orphaned_policies()
        shown = {
            "changed": changed,
            "may_change": self.has_change_permission(request),
            "failing": [(row, self.address_of(row.key)) for row in request._mcp_failing],  # type: ignore[attr-defined]  # noqa: SLF001
            "orphaned_policies": [
                (policy, audience(policy), decided_words(policy), problem) for policy, problem in unmatched
            ],
        }
        return super().changelist_view(request, {**shown, **(extra_context or {})})

    @admin.display(description=gettext_lazy("tool"), ordering="tool")
    def name(self, row: Any) -> SafeString:
        summary = Truncator(row.tool_row.summary).chars(200)
        return format_html('<span translate="no" title="{}">{}</span>', summary, row.tool_row.name_in_parts)

    @admin.display(description=gettext_lazy("endpoint"), ordering="server")
    def endpoint(self, row: Any) -> str:
        return str(row.server)

    @admin.display(description=gettext_lazy("kind"))
    def kind(self, row: Any) -> SafeString:
        context = {"tool_row": row.tool_row, "address": self.address_of(row.tool_row.key)}
        return render_to_string("admin/django_mcp/tools/kind.html", context)

    @admin.display(description=gettext_lazy("allowed callers"))
    def callers(self, row: Any) -> SafeString:
        words = "; ".join(row.tool_row.callers)
        return format_html('<span title="{}">{}</span>', words, words)

    @admin.display(description=gettext_lazy("policy"))
    def policy(self, row: Any) -> SafeString:
        context = {"tool_row": row.tool_row, "may_change": row.may_change}
        return render_to_string("admin/django_mcp/tools/policy_select.html", context)

    @admin.display(description=LAST_DAYS, ordering="-mcp_calls")
    def calls(self, row: Any) -> SafeString:
        called = row.tool_row
        return format_html("{} <span>{}</span>", called.plot, called.count_words) if called.calls.calls else NONE

    @admin.display(description=gettext_lazy("failures"), ordering="-mcp_failures")
    def failures(self, row: Any) -> SafeString | str:
        return row.tool_row.failure_words if row.tool_row.failure_rate else NONE

    def _decide_about_some(self, request: HttpRequest, every: list[ToolRow]) -> HttpResponse:
        if not self.has_change_permission(request):
            raise PermissionDenied
        if "undo" in request.POST:
            return self._undo(request, request.POST["undo"], every)
        if "delete_orphan" in request.POST:
            return self._remove(
                request, [row for row, _problem in find_orphaned_policies()], request.POST["delete_orphan"], every
            )
        return self.set_general(request, _requested_changes(request.POST, every), every)

    def set_general(self, request: HttpRequest, changes: Sequence[Change], every: Sequence[ToolRow]) -> HttpResponse:
        shown = [(f"{SEEN}{change.key}", change.seen) for change in changes]
        fields = [*((f"{POLICY}{change.key}", change.decision) for change in changes), *shown]
        return self._set(request, changes, every, fields)

    def _undo(self, request: HttpRequest, token: str, every: Sequence[ToolRow]) -> HttpResponse:
        actions, found = ToolPolicyActions(self, request), read_undo_token(request, token)
        if found is None:
            self.message_user(request, TOO_LATE, messages.WARNING)
            return HttpResponseRedirect(request.get_full_path())
        nonce, state = found
        changes = actions.changes_of_undo(state)
        # It asks first if that weakens a control.
        asking = self._ask(request, changes, every, [("undo", token)])
        if asking is None:
            actions.undo(nonce, changes)
        return asking or HttpResponseRedirect(request.get_full_path())

    def _remove(
        self, request: HttpRequest, rows: Iterable[ToolPolicy], shown: str, every: Sequence[ToolRow]
    ) -> HttpResponse:
        """Remove a policy, given as primary key and the decision that the page showed."""
        pk, _colon, seen = shown.partition(":")
        row = next((policy for policy in rows if str(policy.pk) == pk), None)
        if row is None:
            self.message_user(request, _("This policy no longer exists."), messages.WARNING)
            return HttpResponseRedirect(request.get_full_path())
        change = Change(row.server, row.tool, DEFAULT, row.group, row.client_id, seen)
        return self._set(request, [change], every, posted_fields(request.POST))

    def _set(
        self,
        request: HttpRequest,
        changes: Sequence[Change],
        every: Sequence[ToolRow],
        fields: Iterable[tuple[str, str]],
    ) -> HttpResponse:
        asking = self._ask(request, changes, every, fields)
        if asking is None:
            ToolPolicyActions(self, request).decide(changes)
        return asking or HttpResponseRedirect(request.get_full_path())

    def _ask(
        self,
        request: HttpRequest,
        changes: Sequence[Change],
        every: Sequence[ToolRow],
        fields: Iterable[tuple[str, str]],
    ) -> HttpResponse | None:
        """Return the page that asks first, if a control is weakened and what the author saw still applies."""
        try:
            for change in changes:
                change.check()
        except ChangedMeanwhile:  # told where they are stored
            return None
        return confirm_weakening(self, request, find_weakened(every, changes), fields)

    # Detail

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:  # noqa: ARG002
        """Return the tool with this key, as the history knows it, or None."""
        tool_row = find_tool_row(object_id, with_calls=False)
        return None if tool_row is None else _logged(tool_row.server.name, tool_row.tool.key)

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",  # noqa: ARG002
        extra_context: Any = None,  # noqa: ARG002
    ) -> HttpResponse:
        """Show a tool. On POST, change its policies or approve its definition.

        Raises:
            PermissionDenied: the user may not view or change tool policies.
        """
        if not self.has_view_permission(request):
            raise PermissionDenied
        tool_row = find_tool_row(unquote(object_id), with_calls=self.can_view_log(request))
        if tool_row is None:
            return self._get_obj_does_not_exist_redirect(request, self.opts, unquote(object_id))  # type: ignore[attr-defined, no-any-return]
        form = OverrideForm(request.POST if "override" in request.POST else None)
        if request.method == "POST":
            answer = self._change(request, tool_row, form)
            if answer is not None:
                return answer
        names = client_names([*(row.client_id for row in tool_row.overrides), *tool_row.limited])
        problems = unmatched_policies.find_problems(tool_row.overrides)
        context = {
            "tool_row": tool_row,
            "overrides": [(row, names.get(row.client_id, ""), problems.get(row.pk, "")) for row in tool_row.overrides],
            "limited": [(client_id, names.get(client_id, "")) for client_id in tool_row.limited],
            "form": form,
            "clients": client_list(),
            "may_approve": self.has_approve_permission(request),
            "digest": tool_definitions.current_definition(tool_row.tool).digest,
            "differences": _differences(tool_row),
            "days": DAYS,
            "holds": settings.BLOCK_CHANGED_TOOLS,
            "place": tool_rows.place_of(tool_row.tool),
            "scope_words": tool_rows.scope_words(tool_row.tool),
            "input_schema": as_json(tool_row.tool.definition["inputSchema"]),
            "output_schema": _output_schema(tool_row),
            "can_view_log": self.can_view_log(request),
            "last_calls": self._last_calls(request, tool_row),
            "calls_address": self._calls_address(tool_row),
        }
        return self.page(request, "detail", tool_row.title or tool_row.tool.name, context)

    def _change(self, request: HttpRequest, tool_row: ToolRow, form: OverrideForm) -> HttpResponse | None:
        """Do what was asked, and return the response; None if the form has errors to show."""
        given = request.POST
        if "approve_definition" in given:
            if not self.has_approve_permission(request):
                raise PermissionDenied
            ToolPolicyActions(self, request).approve_definition(tool_row, given["approve_definition"])
            return HttpResponseRedirect(request.get_full_path())
        if not self.has_change_permission(request):
            raise PermissionDenied
        if "remove" in given:
            return self._remove(request, tool_row.overrides, given["remove"], [tool_row])
        if "override" not in given:
            return self.set_general(request, _requested_changes(given, [tool_row]), [tool_row])
        if not form.is_valid():
            return None
        if given.get(SHOWN) != tool_row.state:
            words = _("Nothing was changed: the policies of this tool are not the ones that the page showed.")
            self.message_user(request, f"{words} {_('Check it, then decide again.')}", messages.ERROR)
            return HttpResponseRedirect(request.get_full_path())
        change = Change(tool_row.server.name, tool_row.tool.key, **form.cleaned_data)
        rows = {(row.group_id, row.client_id): row.decision for row in tool_row.rows}
        change = replace(change, seen=rows.get(change.audience, DEFAULT))
        return self._set(request, [change], [tool_row], posted_fields(given))

    def _last_calls(self, request: HttpRequest, tool_row: ToolRow) -> list[tuple[RequestLog, str, str]]:
        if not self.can_view_log(request):
            return []
        # Force the index on name, which is selective; SQLite would choose the one on the endpoint.
        rows = RequestLog.objects.alias(endpoint=unindexed("server"), verb=unindexed("method"))
        rows = rows.filter(name=tool_row.tool.key, endpoint=tool_row.server.name, verb="tools/call")
        rows = rows.order_by("-started_at")[:LAST_CALLS]
        return [(row, self.address("requestlog_change", row.pk), lasted(row.outcome, row.duration)) for row in rows]

    def _calls_address(self, tool_row: ToolRow) -> str:
        query = urlencode({"server": tool_row.server.name, "name": tool_row.tool.key})
        listing = self.address("requestlog_changelist")
        return f"{listing}?{query}" if listing else ""


def _requested_changes(given: QueryDict, every: Iterable[ToolRow]) -> list[Change]:
    found = []
    for tool_row in every:
        decision, seen = given.get(f"{POLICY}{tool_row.key}"), given.get(f"{SEEN}{tool_row.key}", "")
        if decision in DECISIONS and decision != seen:
            found.append(Change(tool_row.server.name, tool_row.tool.key, decision, seen=seen))
    return found


def _differences(tool_row: ToolRow) -> Any:
    if tool_row.snapshot is None or not tool_row.is_changed:
        return []
    return differences(tool_row.snapshot.definition, tool_definitions.current_definition(tool_row.tool).definition)


def _output_schema(tool_row: ToolRow) -> Any:
    schema = tool_row.tool.definition.get("outputSchema")
    return "" if schema is None else as_json(schema)

"""Admin of tools: list, detail and policies."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import urlencode

from django import forms
from django.apps import apps
from django.contrib import messages
from django.contrib.admin.utils import unquote
from django.contrib.auth.models import Group
from django.core import signing
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect, QueryDict
from django.middleware.csrf import get_token
from django.urls import URLPattern, path
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from django_mcp.admin import tool_rows
from django_mcp.admin.base import OwnPagesAdmin, page_queries
from django_mcp.admin.display import as_json
from django_mcp.admin.stats import unindexed
from django_mcp.admin.tool_rows import DAYS, ToolRow, decided_words, decision_words, differences, find, left_over, lines
from django_mcp.approvals import tool_policies
from django_mcp.conf import settings
from django_mcp.core import database
from django_mcp.core.policies import Decision
from django_mcp.core.server import servers
from django_mcp.models import ClientPolicy, RequestLog, ToolPolicy, Tools

Choice = tuple[str, Any]
Test = Callable[[ToolRow], bool]


def _is(value: str) -> Test:
    return lambda line: line.decision.name.lower() == value


OF_DECISION: Mapping[str, tuple[Any, Test]] = {
    **{str(value): (label, _is(value)) for value, label in ToolPolicy.Decision.choices},
    "decided": (gettext_lazy("set explicitly"), lambda line: line.own is not None),
    "overridden": (gettext_lazy("with overrides"), lambda line: bool(line.override_words)),
}
OF_HINT: Mapping[str, tuple[Any, Test]] = {
    "read-only": (gettext_lazy("read-only"), lambda line: line.tool.read_only),
    "writes": (gettext_lazy("writes"), lambda line: not line.tool.read_only),
    "destructive": (gettext_lazy("destructive"), lambda line: _says(line, "destructiveHint")),
    "idempotent": (gettext_lazy("idempotent"), lambda line: _says(line, "idempotentHint")),
    "open-world": (gettext_lazy("open world"), lambda line: _says(line, "openWorldHint")),
    "unsaid": (gettext_lazy("no hints"), lambda line: not line.tool.annotations),
}
ORDERS: Mapping[str, tuple[Any, Callable[[ToolRow], Any]]] = {
    "calls": (gettext_lazy("most calls first"), lambda line: -(line.calls.calls if line.calls else 0)),
    "errors": (gettext_lazy("most errors first"), lambda line: -line.error_rate),
    "name": (gettext_lazy("by name"), lambda line: line.tool.name),
}


def _says(line: ToolRow, hint: str) -> bool:
    return bool(line.tool.annotations.get(hint)) and not (hint == "destructiveHint" and line.tool.read_only)


@dataclass
class Select:
    """A select of the filter form. The first choice means no filter."""

    name: str
    label: Any
    choices: Sequence[Choice]
    chosen: str


class ToolFilterForm:
    """Search terms, filters and order from the query string. Invalid values are ignored.

    *with_calls* allows ordering by calls.
    """

    def __init__(self, given: QueryDict, *, with_calls: bool) -> None:
        self.query = given.get("q", "").strip()
        orders = [(each, words) for each, (words, _key) in ORDERS.items() if with_calls or each == "name"]
        names = [(each.name, each.name) for each in servers()]
        self.selects = [
            _select(given, "endpoint", _("Endpoint"), names, _("all")),
            _select(given, "decision", _("Decision"), _search_words(OF_DECISION), _("all")),
            _select(given, "hint", _("Hints"), _search_words(OF_HINT), _("all")),
            _select(given, "changed", _("Changed"), [("yes", _("since approval"))], _("all")),
            _select(given, "order", _("Order"), orders, _("as in tools/list")),
        ]

    @property
    def is_narrowed(self) -> bool:
        """Return True if any filter or order is set."""
        return bool(self.query) or any(each.chosen for each in self.selects)

    def apply(self, lines: Sequence[ToolRow]) -> list[ToolRow]:
        """Return the matching tools in the chosen order."""
        endpoint, decision, hint, changed, order = (each.chosen for each in self.selects)
        words = self.query.casefold().split()
        found = [
            each
            for each in lines
            if (not endpoint or each.server.name == endpoint)
            and (not decision or OF_DECISION[decision][1](each))
            and (not hint or OF_HINT[hint][1](each))
            and (not changed or each.is_changed)
            and _has(each, words)
        ]
        return sorted(found, key=ORDERS[order][1]) if order else found


def _has(line: ToolRow, words: Sequence[str]) -> bool:
    if not words:
        return True
    text = f"{line.key} {line.title} {line.description} {line.source}".casefold()
    return all(each in text for each in words)


def _search_words(tests: Mapping[str, tuple[Any, Test]]) -> list[Choice]:
    return [(name, words) for name, (words, _test) in tests.items()]


def _select(given: QueryDict, name: str, label: str, choices: Sequence[Choice], nothing: str) -> Select:
    chosen = given.get(name, "")
    return Select(
        name, label, [("", nothing), *choices], chosen if chosen in {value for value, _words in choices} else ""
    )


MAX_CLIENTS = 500
"""Maximum suggested clients; others can be typed."""
CLIENTS = "mcp-clients"


class OverrideForm(forms.Form):
    """A policy for a group, a client or both."""

    group = forms.ModelChoiceField(
        label=gettext_lazy("Group"),
        queryset=Group.objects.order_by("name"),
        required=False,
        empty_label=gettext_lazy("all users"),
    )
    client_id = forms.CharField(
        label=gettext_lazy("OAuth client"),
        required=False,
        max_length=255,
        widget=forms.TextInput(attrs={"list": CLIENTS, "autocomplete": "off", "class": "vTextField"}),
        help_text=gettext_lazy("Client it applies to. Empty: all clients."),
    )
    decision = forms.ChoiceField(label=gettext_lazy("Decision"), choices=ToolPolicy.Decision.choices, initial="ask")

    def clean(self) -> dict[str, Any]:
        """Require a group or a client."""
        given = super().clean() or self.cleaned_data
        if not self.errors and not given.get("group") and not given.get("client_id"):
            raise forms.ValidationError(_("Choose a group or a client. The general policy is set above."))
        return given


def client_list() -> SafeString:
    """Return a ``<datalist>`` of clients."""
    options = format_html_join("", '<option value="{}">{}</option>', _clients())
    return format_html('<datalist id="{}">{}</datalist>', CLIENTS, options)


def _clients() -> Iterable[tuple[str, str]]:
    if apps.is_installed("oauth2_provider"):
        from django_mcp.auth.toolkit import get_application_model  # noqa: PLC0415 - where it is installed

        rows = get_application_model().objects.order_by("name").values_list("client_id", "name")
        return list(rows[:MAX_CLIENTS])
    return [(client_id, "") for client_id in ClientPolicy.objects.values_list("client_id", flat=True)[:MAX_CLIENTS]]


DEFAULT = "default"
POLICY = "policy:"
"""Before the key of a tool: the name of its select."""
DECISIONS = (DEFAULT, *ToolPolicy.Decision.values)


UNDO_SALT, UNDO_SECONDS = "django_mcp.admin.undo", 3600
Whom = tuple[Any, str]
"""Primary key of a group or None, and a client id or ""."""
EVERYONE: Whom = (None, "")


@dataclass(frozen=True)
class Change:
    """A policy to set.

    Attributes:
        server: name of the endpoint.
        tool: key of the tool; with *server* empty for all other tools of a client (see ``ToolPolicy``).
        decision: as stored, or ``DEFAULT`` to remove the policy.
        group: the group it applies to, or None.
        client_id: the client it applies to, or "".
    """

    server: str
    tool: str
    decision: str
    group: Any = None
    client_id: str = ""

    @property
    def key(self) -> str:
        """The tool's key in URLs and history."""
        return f"{self.server}.{self.tool}"

    @property
    def whom(self) -> Whom:
        """To whom it applies, as a key."""
        return None if self.group is None else self.group.pk, self.client_id

    @property
    def stored(self) -> str:
        """Return the stored decision with one query."""
        rows = ToolPolicy.objects.filter(server=self.server, tool=self.tool, group=self.group, client_id=self.client_id)
        return rows.values_list("decision", flat=True).first() or DEFAULT

    @property
    def note(self) -> str:
        """The entry in the tool's history."""
        if self.whom == EVERYONE:
            return _("General policy: %s.") % _words(self.decision)
        return self.message

    @property
    def message(self) -> str:
        """The message after it was set."""
        if self.whom == EVERYONE:
            return _("Policy of %(tool)s is now: %(decision)s.") % {"tool": self.key, "decision": _words(self.decision)}
        who = _whom(self.group, self.client_id)
        return _("%s: override removed.") % who if self.decision == DEFAULT else f"{who}: {_words(self.decision)}."


class Loosened(NamedTuple):
    """A tool that may destroy data and would be called with less control, and by whom."""

    line: ToolRow
    who: str
    before: str
    after: str


def loosened(lines: Iterable[ToolRow], changes: Sequence[Change]) -> Iterator[Loosened]:
    """Yield which of the tools would be called with less control after the changes."""
    for line in lines:
        own = [each for each in changes if each.key == line.key or not each.tool]
        if not own or not line.may_destroy:
            continue
        before = {(row.group_id, row.client_id): row.decision for row in line.rows}
        after, limited = dict(before), {row.client_id for row in line.limits}
        limited_after = set(limited)
        for each in own:
            if each.tool:
                after[each.whom] = each.decision
            elif each.decision == DEFAULT:
                limited_after.discard(each.client_id)
            else:
                limited_after.add(each.client_id)
        for whom, change in {each.whom: each for each in own}.items():
            now, then = _effective(line, before, limited, whom), _effective(line, after, limited_after, whom)
            if then < now:
                who = "" if whom == EVERYONE else _whom(change.group, change.client_id)
                yield Loosened(line, who, decision_words(now), decision_words(then))


def _effective(line: ToolRow, decisions: Mapping[Whom, str], limited: Collection[str], whom: Whom) -> Decision:
    """Return what applies to calls by a group or client, without other overrides."""
    group, client_id = whom
    own, general = (decisions.get(each, DEFAULT) for each in (whom, EVERYONE))
    if own == DEFAULT and group is None and client_id in limited:
        return Decision.BLOCK
    decision = general if own in {DEFAULT, ToolPolicy.GENERAL} else own
    return line.default if decision == DEFAULT else Decision[decision.upper()]


def confirmation(
    model_admin: OwnPagesAdmin,
    request: HttpRequest,
    lines: Iterable[ToolRow],
    changes: Sequence[Change],
    fields: Iterable[tuple[str, str]],
) -> HttpResponse | None:
    """Return a page that asks whether to loosen policies of tools that may destroy something.

    None if that was confirmed, or the changes loosen none.

    Args:
        fields: what the page sends again.
    """
    found = [] if "confirmed" in request.POST else list(loosened(lines, changes))
    if not found:
        return None
    context = {"loosened": found, "fields": fields, "back": request.get_full_path()}
    return model_admin.page(request, "confirm", _("Loosen policies?"), context)


def fields_of(given: QueryDict) -> list[tuple[str, str]]:
    """Return the fields of a form, to send it again."""
    return [(name, value) for name, values in given.lists() if name != "csrfmiddlewaretoken" for value in values]


class ToolPolicyActions:
    """Changes of policies by one user, with messages and history entries."""

    def __init__(self, model_admin: Any, request: HttpRequest) -> None:
        self._admin, self._request = model_admin, request

    def decide(self, changes: Sequence[Change]) -> None:
        """Set policies, all or none, and offer to undo it."""
        done = self.store(changes)
        if not done:
            self._tell(_("Nothing changed: this is already the policy."), messages.INFO)
        elif len(done) == 1:
            self._tell(self.with_undo(done[0][0].message, done))
        else:
            words = ngettext("%d policy changed.", "%d policies changed.", len(done)) % len(done)
            self._tell(self.with_undo(words, done))

    def store(self, changes: Iterable[Change]) -> list[tuple[Change, str]]:
        """Set policies, all or none. Return those that changed, with the decision before."""
        done = []
        with database.atomic():
            for each in changes:
                before = each.stored
                if before == each.decision:
                    continue
                tool_policies.store(
                    each.server,
                    each.tool,
                    None if each.decision == DEFAULT else each.decision,
                    group=each.group,
                    client_id=each.client_id,
                    user=self._request.user,
                )
                if each.tool:
                    self._note(each.server, each.tool, each.note)
                done.append((each, before))
        return done

    def with_undo(self, words: str, done: Sequence[tuple[Change, str]]) -> SafeString | str:
        """Return a message with a button that restores what was before; its state is signed, and for this user."""
        address = self._admin.address("tools_changelist")
        if not address or not done:
            return words
        state = [(each.server, each.tool, before, *each.whom) for each, before in done]
        return format_html(
            '{} <form method="post" action="{}" class="mcp-undo"><input type="hidden" name="csrfmiddlewaretoken" '
            'value="{}"><button name="undo" value="{}">{}</button></form>',
            words,
            address,
            get_token(self._request),
            signing.dumps([str(self._request.user.pk), state], salt=UNDO_SALT, compress=True),
            _("Undo"),
        )

    def undo(self, token: str) -> None:
        """Restore policies as they were before a change."""
        try:
            user, state = signing.loads(token, salt=UNDO_SALT, max_age=UNDO_SECONDS)
        except signing.BadSignature:
            user, state = None, []
        if user != str(self._request.user.pk):
            self._tell(_("It is too late to undo this. Set the policies by hand."), messages.WARNING)
            return
        groups = Group.objects.in_bulk({group for *_rest, group, _client in state if group is not None})
        number = len(
            self.store(
                Change(server, tool, decision, groups.get(group), client_id)
                for server, tool, decision, group, client_id in state
                if group is None or group in groups
            )
        )
        self._tell(ngettext("%d policy restored.", "%d policies restored.", number) % number)

    def accept(self, line: ToolRow, digest: str) -> None:
        """Approve a tool's new definition, unless it has changed since it was shown."""
        if digest != tool_policies.known(line.tool).digest:
            self._tell(_("The definition has changed again. Review it, then approve."), messages.WARNING)
            return
        with database.atomic():
            tool_policies.accept(line.server, line.tool, self._request.user)
            self._note(line.server.name, line.tool.key, _("New definition approved."))
        self._tell(_("The new definition of %s is approved.") % line.key)

    def _note(self, server: str, tool: str, words: str) -> None:
        row: Any = Tools(server=server, tool=tool)
        row.pk = f"{server}.{tool}"  # the proxy has no table; LogEntry stores this id
        self._admin.log_change(self._request, row, words)

    def _tell(self, words: "str | SafeString", level: int = messages.SUCCESS) -> None:
        self._admin.message_user(self._request, words, level)


def _words(decision: str) -> str:
    return _("default") if decision == DEFAULT else str(dict(ToolPolicy.decision.field.flatchoices)[decision])


def whom(row: ToolPolicy) -> str:
    """Return who a policy applies to."""
    return _("Everyone") if row.group is None and not row.client_id else _whom(row.group, row.client_id)


def _whom(group: Any, client_id: str) -> str:
    if group is None:
        return _("Client %s") % client_id
    words = _("Group %s") % group.name
    return words if not client_id else _("%(group)s with client %(client)s") % {"group": words, "client": client_id}


PER_PAGE = 100
LAST_CALLS = 20


class ToolsAdmin(OwnPagesAdmin):
    """Pages of tools, with the permissions to view and change tool policies."""

    folder, behind = "tools", "toolpolicy"

    def get_urls(self) -> list[URLPattern]:
        """Return the pages, under the names that the admin index and history links use."""
        view = self.admin_site.admin_view
        return [
            path("", view(self.list_view), name="django_mcp_tools_changelist"),
            path("<path:object_id>/change/", view(self.tool_view), name="django_mcp_tools_change"),
        ]

    # Permissions

    def has_accept_permission(self, request: HttpRequest) -> bool:
        """Return True if the user may approve changed definitions."""
        return self.has_change_permission(request) or request.user.has_perm("django_mcp.change_toolsnapshot")

    # List

    def list_view(self, request: HttpRequest) -> HttpResponseBase:
        """List the tools of all endpoints. On POST, set the policy of some.

        Raises:
            PermissionDenied: the user may not view or change tool policies.
        """
        if not self.has_view_permission(request):
            raise PermissionDenied
        sees_calls = self.sees_calls(request)
        every = lines(with_calls=sees_calls)
        if request.method == "POST":
            return self._decide_about_some(request, every)
        choosing = ToolFilterForm(request.GET, with_calls=sees_calls)
        found = choosing.apply(every)
        page = Paginator(found, PER_PAGE).get_page(request.GET.get("p"))
        context = {
            "choosing": choosing,
            "page": page,
            "page_queries": page_queries(request, page),
            "number": len(every),
            "changed": sum(each.is_changed for each in every),
            "days": DAYS,
            "sees_calls": sees_calls,
            "decisions": ToolPolicy.Decision.choices,
            "rows": [(each, self.address_of(each.key)) for each in page],
            "left_over": [(each, whom(each), decided_words(each)) for each in left_over()],
        }
        return self.page(request, "list", capfirst(str(self.opts.verbose_name_plural)), context)

    def _decide_about_some(self, request: HttpRequest, every: list[ToolRow]) -> HttpResponse:
        if not self.has_change_permission(request):
            raise PermissionDenied
        if "undo" in request.POST:
            ToolPolicyActions(self, request).undo(request.POST["undo"])
            return HttpResponseRedirect(request.get_full_path())
        if "forget" in request.POST:
            return self._remove(request, left_over(), request.POST["forget"], every)
        return self._set_general(request, _wanted(request.POST, every), every)

    def _set_general(self, request: HttpRequest, changes: Sequence[Change], every: Sequence[ToolRow]) -> HttpResponse:
        return self._set(request, changes, every, [(f"{POLICY}{each.key}", each.decision) for each in changes])

    def _remove(
        self, request: HttpRequest, rows: Iterable[ToolPolicy], pk: str, every: Sequence[ToolRow]
    ) -> HttpResponse:
        """Remove the policy with this primary key, given as a string."""
        row = next((each for each in rows if str(each.pk) == pk), None)
        if row is None:
            self.message_user(request, _("This policy no longer exists."), messages.WARNING)
            return HttpResponseRedirect(request.get_full_path())
        change = Change(row.server, row.tool, DEFAULT, row.group, row.client_id)
        return self._set(request, [change], every, fields_of(request.POST))

    def _set(
        self,
        request: HttpRequest,
        changes: Sequence[Change],
        every: Sequence[ToolRow],
        fields: Iterable[tuple[str, str]],
    ) -> HttpResponse:
        """Set policies; ask first if that loosens the policy of a tool that may destroy something."""
        asking = confirmation(self, request, every, changes, fields)
        if asking is not None:
            return asking
        ToolPolicyActions(self, request).decide(changes)
        return HttpResponseRedirect(request.get_full_path())

    # Detail

    def tool_view(self, request: HttpRequest, object_id: str) -> HttpResponseBase:
        """Show a tool. On POST, change its policies or approve its definition.

        Raises:
            PermissionDenied: the user may not view or change tool policies.
        """
        if not self.has_view_permission(request):
            raise PermissionDenied
        line = find(unquote(object_id), with_calls=self.sees_calls(request))
        if line is None:
            return self._get_obj_does_not_exist_redirect(request, self.opts, unquote(object_id))  # type: ignore[attr-defined, no-any-return]
        form = OverrideForm(request.POST if "override" in request.POST else None)
        if request.method == "POST":
            answer = self._change(request, line, form)
            if answer is not None:
                return answer
        context = {
            "line": line,
            "form": form,
            "clients": client_list(),
            "may_accept": self.has_accept_permission(request),
            "digest": tool_policies.known(line.tool).digest,
            "differences": _differences(line),
            "days": DAYS,
            "holds": settings.BLOCK_CHANGED_TOOLS,
            "place": tool_rows.place_of(line.tool),
            "scope_words": tool_rows.scope_words(line.tool),
            "input_schema": as_json(line.tool.definition["inputSchema"]),
            "output_schema": _output_schema(line),
            "sees_calls": self.sees_calls(request),
            "last_calls": self._last_calls(request, line),
            "calls_address": self._calls_address(line),
            "notes": self.notes(line.key),
        }
        return self.page(request, "tool", line.title or line.tool.name, context)

    def _change(self, request: HttpRequest, line: ToolRow, form: OverrideForm) -> HttpResponse | None:
        """Do what was asked, and return the response; None if the form has errors to show."""
        given = request.POST
        if "accept" in given:
            if not self.has_accept_permission(request):
                raise PermissionDenied
            ToolPolicyActions(self, request).accept(line, given["accept"])
            return HttpResponseRedirect(request.get_full_path())
        if not self.has_change_permission(request):
            raise PermissionDenied
        if "remove" in given:
            return self._remove(request, line.overrides, given["remove"], [line])
        if "override" not in given:
            return self._set_general(request, _wanted(given, [line]), [line])
        if not form.is_valid():
            return None
        change = Change(line.server.name, line.tool.key, **form.cleaned_data)
        return self._set(request, [change], [line], fields_of(given))

    def _last_calls(self, request: HttpRequest, line: ToolRow) -> list[tuple[RequestLog, str]]:
        if not self.sees_calls(request):
            return []
        # Force the index on name, which is selective; SQLite would choose the one on the endpoint.
        rows = RequestLog.objects.alias(endpoint=unindexed("server"), verb=unindexed("method"))
        rows = rows.filter(name=line.tool.key, endpoint=line.server.name, verb="tools/call")
        rows = rows.order_by("-started_at")[:LAST_CALLS]
        return [(each, self.address("requestlog_change", each.pk)) for each in rows]

    def _calls_address(self, line: ToolRow) -> str:
        query = urlencode({"server": line.server.name, "name": line.tool.key})
        listing = self.address("requestlog_changelist")
        return f"{listing}?{query}" if listing else ""


def _wanted(given: QueryDict, every: Iterable[ToolRow]) -> list[Change]:
    """Return the changes that a form asks for: those of the ticked tools, or those of the selects."""
    rows = {each.key: each for each in every}
    action = given.get("action", "")
    if action:
        chosen = [(key, action) for key in given.getlist("_selected_action")]
    else:
        chosen = [(name.removeprefix(POLICY), str(given[name])) for name in given if name.startswith(POLICY)]
    return [
        Change(rows[key].server.name, rows[key].tool.key, decision)
        for key, decision in chosen
        if key in rows and decision in DECISIONS and (action or decision != rows[key].chosen)
    ]


def _differences(line: ToolRow) -> Any:
    if line.known is None or not line.is_changed:
        return []
    return differences(line.known.definition, tool_policies.known(line.tool).definition)


def _output_schema(line: ToolRow) -> Any:
    schema = line.tool.definition.get("outputSchema")
    return "" if schema is None else as_json(schema)

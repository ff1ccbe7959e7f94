"""Admin of tools: list, detail and policies."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
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
from django_mcp.admin.tool_rows import DAYS, ToolRow, decided_words, differences, find, left_over, lines
from django_mcp.approvals import tool_policies
from django_mcp.approvals.tool_policies import decide
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
    "overridden": (gettext_lazy("with overrides"), lambda line: bool(line.overrides)),
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


@dataclass(frozen=True)
class Change:
    """A general policy to set.

    Attributes:
        line: the tool.
        decision: one of ``DECISIONS``.
    """

    line: ToolRow
    decision: str

    @property
    def loosens(self) -> bool:
        """True if the change gives less control over a tool that may destroy data."""
        now = self.line.default if self.decision == DEFAULT else Decision[self.decision.upper()]
        return self.line.may_destroy and now < self.line.general

    @property
    def words(self) -> str:
        """The new policy."""
        return _words(self.decision)


class ToolPolicyActions:
    """Changes of policies by one user, with messages and history entries."""

    def __init__(self, model_admin: Any, request: HttpRequest) -> None:
        self._admin, self._request = model_admin, request

    def decide(self, changes: Sequence[Change]) -> None:
        """Set general policies, all or none, and offer to undo it."""
        before = [(each.line.key, each.line.chosen) for each in changes]
        with database.atomic():
            is_changed = [self._decide(each.line, each.decision) for each in changes]
        changed = [each for each, is_new in zip(changes, is_changed, strict=True) if is_new]
        if not changed:
            self._tell(_("Nothing changed: this is already the policy."), messages.INFO)
            return
        if len(changed) == 1:
            told = {"tool": changed[0].line.key, "decision": _words(changed[0].decision)}
            words = _("Policy of %(tool)s is now: %(decision)s.") % told
        else:
            words = ngettext("%d policy changed.", "%d policies changed.", len(changed)) % len(changed)
        self._tell(self._with_undo(words, before))

    def _with_undo(self, words: str, before: list[tuple[str, str]]) -> SafeString:
        """Return a message with a button that restores what was before; its state is signed, and for this user."""
        token = signing.dumps([str(self._request.user.pk), before], salt=UNDO_SALT, compress=True)
        return format_html(
            '{} <form method="post" action="{}" class="mcp-undo"><input type="hidden" name="csrfmiddlewaretoken" '
            'value="{}"><button name="undo" value="{}">{}</button></form>',
            words,
            self._admin.address("tools_changelist"),
            get_token(self._request),
            token,
            _("Undo"),
        )

    def undo(self, every: Iterable[ToolRow], token: str) -> None:
        """Restore general policies as they were before a change."""
        try:
            user, before = signing.loads(token, salt=UNDO_SALT, max_age=UNDO_SECONDS)
        except signing.BadSignature:
            user, before = None, []
        if user != str(self._request.user.pk):
            self._tell(_("It is too late to undo this. Set the policies by hand."), messages.WARNING)
            return
        rows = {each.key: each for each in every}
        with database.atomic():
            number = sum(self._decide(rows[key], decision) for key, decision in before if key in rows)
        self._tell(ngettext("%d policy restored.", "%d policies restored.", number) % number)

    def _decide(self, line: ToolRow, decision: str) -> bool:
        if decision == line.chosen:
            return False
        value = None if decision == DEFAULT else decision
        decide(line.server, line.tool, value, user=self._request.user)
        self._note(line, _("General policy: %s.") % _words(decision))
        return True

    def override(self, line: ToolRow, form: OverrideForm) -> None:
        """Set the policy for a group or client from a valid form."""
        given = form.cleaned_data
        who = _whom(given["group"], given["client_id"])
        with database.atomic():
            decide(
                line.server,
                line.tool,
                given["decision"],
                group=given["group"],
                client_id=given["client_id"],
                user=self._request.user,
            )
            self._note(line, f"{who}: {_words(given['decision'])}.")
        self._tell(f"{who}: {_words(given['decision'])}.")

    def remove(self, line: ToolRow, pk: str) -> None:
        """Remove an override."""
        row = next((each for each in line.overrides if str(each.pk) == pk), None)
        if row is None:
            self._tell(_("This override no longer exists."), messages.WARNING)
            return
        who = _whom(row.group, row.client_id)
        with database.atomic():
            decide(line.server, line.tool, None, group=row.group, client_id=row.client_id, user=self._request.user)
            self._note(line, _("%s: override removed.") % who)
        self._tell(_("%s: override removed.") % who)

    def forget(self, rows: Iterable[ToolPolicy], pk: str) -> None:
        """Remove the policy of a tool that does not exist."""
        row = next((each for each in rows if str(each.pk) == pk), None)
        if row is None:
            self._tell(_("This policy no longer exists."), messages.WARNING)
            return
        key, who = f"{row.server}.{row.tool}", whom(row)
        with database.atomic():
            row.delete()
            self._note_of(row.server, row.tool, _("%s: policy removed.") % who)
        self._tell(_("Tool %(tool)s, %(who)s: policy removed.") % {"tool": key, "who": who})

    def accept(self, line: ToolRow, digest: str) -> None:
        """Approve a tool's new definition, unless it has changed since it was shown."""
        if digest != tool_policies.known(line.tool).digest:
            self._tell(_("The definition has changed again. Review it, then approve."), messages.WARNING)
            return
        with database.atomic():
            tool_policies.accept(line.server, line.tool, self._request.user)
            self._note(line, _("New definition approved."))
        self._tell(_("The new definition of %s is approved.") % line.key)

    def _note(self, line: ToolRow, words: str) -> None:
        self._note_of(line.server.name, line.tool.key, words)

    def _note_of(self, server: str, tool: str, words: str) -> None:
        row: Any = Tools(server=server, tool=tool)
        row.pk = f"{server}.{tool}"  # the proxy has no table; LogEntry stores this id
        self._admin.log_change(self._request, row, words)

    def _tell(self, words: "str | SafeString", level: int = messages.SUCCESS) -> None:
        self._admin.message_user(self._request, words, level)


def _words(decision: str) -> str:
    return _("default") if decision == DEFAULT else str(ToolPolicy.Decision(decision).label)


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
        if "forget" in request.POST:
            ToolPolicyActions(self, request).forget(left_over(), request.POST["forget"])
            return HttpResponseRedirect(request.get_full_path())
        if "undo" in request.POST:
            ToolPolicyActions(self, request).undo(every, request.POST["undo"])
            return HttpResponseRedirect(request.get_full_path())
        return self._set(request, _wanted(request.POST, every))

    def _set(self, request: HttpRequest, changes: Sequence[Change]) -> HttpResponse:
        """Set policies; ask first if that loosens the policy of a tool that may destroy something."""
        loosened = [each for each in changes if each.loosens]
        if loosened and "confirmed" not in request.POST:
            context = {"changes": changes, "loosened": loosened, "back": request.get_full_path()}
            return self.page(request, "confirm", _("Loosen policies?"), context)
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
        given, changing = request.POST, ToolPolicyActions(self, request)
        again = HttpResponseRedirect(request.get_full_path())
        if "accept" in given:
            if not self.has_accept_permission(request):
                raise PermissionDenied
            changing.accept(line, given["accept"])
            return again
        if not self.has_change_permission(request):
            raise PermissionDenied
        if "override" in given:
            if not form.is_valid():
                return None
            changing.override(line, form)
        elif "remove" in given:
            changing.remove(line, given["remove"])
        else:
            return self._set(request, _wanted(given, [line]))
        return again

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
    wanted = [Change(rows[key], decision) for key, decision in chosen if key in rows and decision in DECISIONS]
    return wanted if action else [each for each in wanted if each.decision != each.line.chosen]


def _differences(line: ToolRow) -> Any:
    if line.known is None or not line.is_changed:
        return []
    return differences(line.known.definition, tool_policies.known(line.tool).definition)


def _output_schema(line: ToolRow) -> Any:
    schema = line.tool.definition.get("outputSchema")
    return "" if schema is None else as_json(schema)

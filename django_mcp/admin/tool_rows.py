"""Rows of the tools pages: policy, definition, differences and statistics of each tool."""

import difflib
import hashlib
import inspect
import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from django.core.cache import cache
from django.db.models import Model
from django.template.defaultfilters import date
from django.utils import timezone
from django.utils.html import format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.text import get_text_list
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from django_mcp.admin.charts import sparkline
from django_mcp.admin.dashboard import count, share
from django_mcp.admin.stats import ToolStatistics, tool_statistics
from django_mcp.approvals import tool_definitions, tool_policies, unmatched_policies
from django_mcp.approvals.tool_definitions import DEFINITION_KEYS, current_definition
from django_mcp.approvals.tool_policies import ToolKey, default_decision
from django_mcp.conf import settings
from django_mcp.core.permissions import declared
from django_mcp.core.policies import Decision
from django_mcp.core.redaction import as_words, visible
from django_mcp.core.server import MCPServer, server_named, servers
from django_mcp.models import ToolPolicy, ToolSnapshot
from django_mcp.primitives.function import dotted_name, origin_of
from django_mcp.primitives.tool import Tool

MAX_LINES = 400
"""Maximum lines shown of a difference."""
_KINDS = {"+": "added", "-": "removed", "@": "hunk"}


class DiffLine(NamedTuple):
    """A line of a difference: ``"added"``, ``"removed"``, ``"hunk"`` or ``""``, with the sign ``+`` or ``-``."""

    kind: str
    sign: str
    text: str


class Difference(NamedTuple):
    """The difference of one part of a definition."""

    title: str
    rows: Sequence[DiffLine]


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[Difference]:
    titles = {
        "name": _("Name"),
        "title": _("Title"),
        "description": _("Description"),
        "inputSchema": _("Input schema"),
        "outputSchema": _("Output schema"),
        "annotations": _("Hints"),
    }
    return [
        Difference(titles[part], _rows(_text(before.get(part)), _text(now.get(part))))
        for part in DEFINITION_KEYS
        if before.get(part) != now.get(part)
    ]


def _text(value: Any) -> list[str]:
    if value is None:
        return []
    return [visible(text_line) for text_line in as_words(value).split("\n")]


def _rows(before: Sequence[str], now: Sequence[str]) -> list[DiffLine]:
    found = list(_compared(before, now))
    if len(found) > MAX_LINES:
        more = len(found) - MAX_LINES
        words = ngettext("… and %d line more.", "… and %d lines more.", more) % more
        found = [*found[:MAX_LINES], DiffLine("hunk", "", words)]
    return found


def _compared(before: Sequence[str], now: Sequence[str]) -> Iterator[DiffLine]:
    unified = difflib.unified_diff(before, now, lineterm="", n=3)
    for number, line in enumerate(unified):
        if number > 1:  # skip the file names
            kind = _KINDS.get(line[0], "")
            yield DiffLine(kind, "" if kind == "hunk" else line[0], line if kind == "hunk" else line[1:])


HINTS = (
    ("readOnlyHint", gettext_lazy("read-only"), gettext_lazy("writes")),
    ("destructiveHint", gettext_lazy("destructive"), gettext_lazy("not destructive")),
    ("idempotentHint", gettext_lazy("idempotent"), gettext_lazy("not idempotent")),
    ("openWorldHint", gettext_lazy("open world"), gettext_lazy("closed world")),
)
"""Labels for true and false."""


def hints_of(tool: Tool) -> list[str]:
    given = tool.annotations
    # Other hints do not apply to a read-only tool.
    asked = ("readOnlyHint", "openWorldHint") if given.get("readOnlyHint") else tuple(name for name, *_rest in HINTS)
    return [str(yes if given[name] else no) for name, yes, no in HINTS if name in given and name in asked]


def is_destructive(hints: Mapping[str, Any]) -> bool:
    return not hints.get("readOnlyHint") and bool(hints.get("destructiveHint"))


def kind_words(hints: Mapping[str, Any]) -> str:
    return _("read-only") if hints.get("readOnlyHint") else _("destructive") if is_destructive(hints) else _("writes")


def description_of(tool: Tool) -> str:
    return visible(str(tool.definition.get("description", "")))


def title_of(tool: Tool) -> str:
    return visible(str(tool.definition.get("title", "")))


def callers_of(server: MCPServer, tool: Tool) -> list[str]:
    return list(_callers(server, tool)) or [_("everyone who may call the endpoint")]


def _callers(server: MCPServer, tool: Tool) -> Iterator[str]:
    if tool.permissions:
        listed = ", ".join(tool.permissions)
        yield ngettext("permission %s", "permissions %s", len(tool.permissions)) % listed
    if tool.groups:
        yield ngettext("group %s", "one of the groups %s", len(tool.groups)) % ", ".join(sorted(tool.groups))
    if scopes := sorted(tool.scopes | server.scopes):
        yield ngettext("scope %s", "scopes %s", len(scopes)) % ", ".join(scopes)
    if server.user_passes_test is not None:
        yield _("users accepted by %s") % dotted_name(server.user_passes_test)
    if tool.visible is not None:
        if models := _models_of(tool):
            names = [str(model._meta.verbose_name_plural) for model in models]  # noqa: SLF001
            yield _("users who may view %s") % get_text_list(names, _("or"))
        else:
            yield _("callers accepted by %s") % dotted_name(tool.visible)


def scope_words(tool: Tool) -> str:
    known = declared()
    return "; ".join(f"{known[name].text} ({name})" if name in known else name for name in sorted(tool.scopes))


def source_of(tool: Tool) -> str:
    if models := _models_of(tool):
        return _("model %s") % ", ".join(model._meta.label for model in models)  # noqa: SLF001 - Django's documented API
    origin = origin_of(tool.read.call)
    return _("view %s") % origin if isinstance(origin, str) else dotted_name(origin)


def place_of(tool: Tool) -> str:
    origin = origin_of(tool.read.call)
    if isinstance(origin, str):
        return ""
    origin = getattr(origin, "view_class", None) or origin
    origin = origin if inspect.isclass(origin) or inspect.isroutine(origin) else type(origin)
    try:
        file, (_lines, line) = inspect.getsourcefile(origin), inspect.getsourcelines(origin)
    except (OSError, TypeError):
        return ""
    return f"{_short(file)}:{line or 1}" if file else ""


def _short(file: str) -> str:
    path, here = Path(file), Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def _models_of(tool: Tool) -> Sequence[type[Model]]:
    owner = getattr(inspect.unwrap(tool.read.call), "owner", None) if tool.is_generated else None
    models = getattr(owner, "models", [getattr(owner, "model", None)])
    return [model for model in models if isinstance(model, type) and issubclass(model, Model)]


DAYS = 30
KEPT = 60
"""Seconds for which statistics are cached, as a large log takes seconds."""


@dataclass
class ToolRow:
    """A tool of an endpoint.

    Attributes:
        rows: its policies.
        limits: id of each client that may use only some tools -> these.
        snapshot: its last approved definition.
        calls: recent statistics; None if the user may not see them.
    """

    server: MCPServer
    tool: Tool
    rows: Sequence[ToolPolicy]
    limits: Mapping[str, Collection[ToolKey]]
    snapshot: ToolSnapshot | None
    calls: ToolStatistics | None

    @property
    def key(self) -> str:
        return f"{self.server.name}.{self.tool.key}"

    # Policy

    @property
    def own(self) -> ToolPolicy | None:
        return next((row for row in self.rows if row.group_id is None and not row.client_id), None)

    @property
    def overrides(self) -> list[ToolPolicy]:
        return [row for row in self.rows if row is not self.own]

    @property
    def limited(self) -> list[str]:
        # These may not use the tool, because they are limited to others.
        which = self.server.name, self.tool.key
        return sorted(client_id for client_id, tools in self.limits.items() if which not in tools)

    @property
    def state(self) -> str:
        # A digest, to notice that the policies have changed since a page showed them.
        rows = sorted((str(row.group_id), row.client_id, row.decision) for row in self.rows)
        return hashlib.sha256(json.dumps([rows, self.limited]).encode()).hexdigest()[:32]

    @cached_property
    def default(self) -> Decision:
        return default_decision(self.tool)

    @property
    def chosen(self) -> str:
        return "default" if self.own is None else self.own.decision

    @property
    def general(self) -> Decision:
        # Also of a tool that is hidden because it changed.
        return self.default if self.own is None else Decision[self.own.decision.upper()]

    @property
    def may_destroy(self) -> bool:
        return not self.tool.read_only and self.tool.annotations.get("destructiveHint") is not False

    @property
    def is_destructive(self) -> bool:
        return is_destructive(self.tool.annotations)

    @property
    def kind(self) -> str:
        return kind_words(self.tool.annotations)

    @property
    def decision(self) -> Decision:
        if self.is_hidden:
            return Decision.BLOCK
        return self.general

    @property
    def decision_words(self) -> str:
        return decision_words(self.decision)

    @property
    def choices(self) -> list[tuple[str, str, bool]]:
        own = "" if self.own is None else self.own.decision
        default = _("default (%s)") % decision_words(self.default)
        return [
            ("default", default, not own),
            *((value, str(label), value == own) for value, label in ToolPolicy.Decision.choices),
        ]

    @property
    def reason(self) -> str:
        if self.is_hidden:
            return _("definition changed; hidden from clients until it is approved")
        if self.own is not None:
            return decided_words(self.own)
        if self.tool.policy is not None:
            return _("default, from the tool’s policy option")
        if self.default is Decision.ASK:
            is_destructive = settings.REQUIRE_APPROVAL_FOR == "destructive"
            return _("default for destructive tools") if is_destructive else _("default for tools that write")
        return _("default")

    @property
    def override_words(self) -> str:
        number = len(self.overrides)
        if not number:
            return ""
        return ngettext("%d override", "%d overrides", number) % number

    # Changes

    @cached_property
    def is_changed(self) -> bool:
        return self.snapshot is not None and self.snapshot.digest != current_definition(self.tool).digest

    @property
    def is_hidden(self) -> bool:
        return self.is_changed and settings.BLOCK_CHANGED_TOOLS

    # Definition

    @cached_property
    def title(self) -> str:
        return title_of(self.tool)

    @cached_property
    def description(self) -> str:
        return description_of(self.tool)

    @property
    def summary(self) -> str:
        return self.description.strip().partition("\n")[0]

    @property
    def name_in_parts(self) -> SafeString:
        parts = re.split("(?<=_)(?=[^_])", self.tool.name)
        return format_html_join(mark_safe("<wbr>"), "{}", ((part,) for part in parts))

    @property
    def hints(self) -> list[str]:
        return hints_of(self.tool)

    @property
    def callers(self) -> list[str]:
        return callers_of(self.server, self.tool)

    @property
    def source(self) -> str:
        return source_of(self.tool)

    # Statistics

    @property
    def plot(self) -> SafeString:
        return sparkline([] if self.calls is None else self.calls.per_day)

    @property
    def count_words(self) -> str:
        number = 0 if self.calls is None else self.calls.calls
        return ngettext("%s call", "%s calls", number) % count(number)

    @property
    def failure_rate(self) -> float:
        return self.calls.failed / self.calls.calls if self.calls is not None and self.calls.calls else 0.0

    @property
    def failure_words(self) -> str:
        if self.calls is None or not self.calls.calls:
            return ""
        return _("%s failed") % share(self.failure_rate) if self.calls.failed else _("none failed")


def decision_words(decision: Decision) -> str:
    return str(ToolPolicy.Decision(decision.name.lower()).label)


def decided_words(row: ToolPolicy) -> str:
    when = date(timezone.localtime(row.changed) if timezone.is_aware(row.changed) else row.changed, "DATETIME_FORMAT")
    if row.changed_by is None:
        return _("decided on %s") % when
    return _("decided by %(who)s on %(when)s") % {"who": row.changed_by.get_username(), "when": when}


def load_tool_rows(*, with_calls: bool) -> list[ToolRow]:
    """Return all tools, in the order of endpoints and lists. Stores snapshots of new tools."""
    served = list(servers())
    snapshots = _snapshots()
    if tool_definitions.store_snapshots(served, {which: snapshot.digest for which, snapshot in snapshots.items()}):
        snapshots = _snapshots()
    rows: dict[tuple[str, str], list[ToolPolicy]] = defaultdict(list)
    for row in ToolPolicy.objects.select_related("group", "changed_by").order_by("group__name", "client_id"):
        rows[row.server, row.tool].append(row)
    limits = tool_policies.read_limits()
    calls = _calls() if with_calls else {}
    nothing = ToolStatistics(per_day=[0] * DAYS) if with_calls else None
    return [
        ToolRow(server, tool, rows.get(which, ()), limits, snapshots.get(which), calls.get(which, nothing))
        for server, tool, which in _every(served)
    ]


def _snapshots() -> dict[tuple[str, str], ToolSnapshot]:
    return {(snapshot.server, snapshot.tool): snapshot for snapshot in ToolSnapshot.objects.defer("definition")}


def find_orphaned_policies() -> list[tuple[ToolPolicy, str]]:
    """Return the policies that match nobody, with the reason: their tool, client or group's members do not exist.

    Tools are those of this process. The policies apply again if what they name returns.
    """
    there = {which for _server, _tool, which in _every(list(servers()))}
    policies = ToolPolicy.objects.select_related("group", "changed_by")
    rows = list(policies.order_by("server", "tool", "group__name", "client_id"))
    problems = {row.pk: _("no such tool") for row in rows if (row.server, row.tool) not in there}
    problems = {**unmatched_policies.find_problems(rows), **problems}
    return [(row, problems[row.pk]) for row in rows if row.pk in problems]


def find_tool_row(key: str, *, with_calls: bool) -> ToolRow | None:
    """Return one tool with its approved definition, or None."""
    server_name, _dot, tool_key = key.partition(".")
    server = server_named(server_name)
    tool = None if server is None else server.tools.get(tool_key)
    if server is None or tool is None or tool not in tool_definitions.tools_of(server):
        return None
    which = {"server": server.name, "tool": tool.key}
    rows = ToolPolicy.objects.select_related("group", "changed_by").order_by("group__name", "client_id")
    policies = list(rows.filter(**which))
    snapshots = ToolSnapshot.objects.filter(**which).select_related("approved_by")
    snapshot = snapshots.first()
    if snapshot is None:
        tool_definitions.store_snapshots([server], tool_definitions.approved_digests())
        snapshot = snapshots.first()
    calls = _calls().get((server.name, tool.key), ToolStatistics(per_day=[0] * DAYS)) if with_calls else None
    return ToolRow(server, tool, policies, tool_policies.read_limits(), snapshot, calls)


def _every(served: Sequence[MCPServer]) -> Iterator[tuple[MCPServer, Tool, tuple[str, str]]]:
    for server in served:
        for tool in tool_definitions.tools_of(server):
            yield server, tool, (server.name, tool.key)


def _calls() -> dict[Any, ToolStatistics]:
    key = f"django_mcp:tools:{timezone.get_current_timezone_name()}"
    kept: dict[Any, ToolStatistics] | None = cache.get(key)
    if kept is None:
        kept = tool_statistics(DAYS)
        cache.set(key, kept, KEPT)
    return kept

"""The data of each row in the list of tools: what is known of it, its text, and its differences."""

import difflib
import inspect
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from django.core.cache import cache
from django.db.models import Model
from django.template.defaultfilters import date
from django.utils import timezone
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from django_mcp.admin.charts import sparkline
from django_mcp.admin.dashboard import count, share
from django_mcp.admin.stats import ToolStatistics, tool_statistics
from django_mcp.approvals import tool_policies
from django_mcp.approvals.tool_policies import SHOWN, default_decision
from django_mcp.conf import settings
from django_mcp.core.permissions import declared
from django_mcp.core.policies import Decision
from django_mcp.core.redaction import as_words, visible
from django_mcp.core.server import MCPServer, servers
from django_mcp.models import ToolPolicy, ToolSnapshot
from django_mcp.primitives.tool import Tool

MAX_LINES = 400
"""Of one difference that are shown."""
_KINDS = {"+": "added", "-": "removed", "@": "place"}


class Row(NamedTuple):
    """A line.

    Attributes:
        kind: ``"added"``, ``"removed"``, ``"place"`` or ``""``.
        sign: what stands before it, so that nobody needs the colours.
    """

    kind: str
    sign: str
    text: str


class Difference(NamedTuple):
    """Of one part of a definition."""

    title: str
    rows: Sequence[Row]


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[Difference]:
    """Each part that is another one."""
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
        for part in SHOWN
        if before.get(part) != now.get(part)
    ]


def _text(value: Any) -> list[str]:
    """What to compare, in lines."""
    if value is None:
        return []
    return [visible(each) for each in as_words(value).split("\n")]


def _rows(before: Sequence[str], now: Sequence[str]) -> list[Row]:
    found = list(_compared(before, now))
    if len(found) > MAX_LINES:
        more = _("… and %d lines more.") % (len(found) - MAX_LINES)
        found = [*found[:MAX_LINES], Row("place", "", more)]
    return found


def _compared(before: Sequence[str], now: Sequence[str]) -> Iterator[Row]:
    unified = difflib.unified_diff(before, now, lineterm="", n=3)
    for number, line in enumerate(unified):
        if number > 1:  # the first two name files
            kind = _KINDS.get(line[0], "")
            yield Row(kind, "" if kind == "place" else line[0], line if kind == "place" else line[1:])


HINTS = (
    ("readOnlyHint", gettext_lazy("reads only"), gettext_lazy("writes")),
    ("destructiveHint", gettext_lazy("destructive"), gettext_lazy("not destructive")),
    ("idempotentHint", gettext_lazy("idempotent"), gettext_lazy("not idempotent")),
    ("openWorldHint", gettext_lazy("open world"), gettext_lazy("closed world")),
)
"""Each with its words for yes and for no."""


def hints_of(tool: Tool) -> list[str]:
    """Those it gives. Whether what only reads is destructive or idempotent is no question."""
    given = tool.annotations
    asked = ("readOnlyHint", "openWorldHint") if given.get("readOnlyHint") else tuple(name for name, *_rest in HINTS)
    return [str(yes if given[name] else no) for name, yes, no in HINTS if name in given and name in asked]


def description_of(tool: Tool) -> str:
    """In the language of the page, where it is translated."""
    return visible(str(tool.definition.get("description", "")))


def title_of(tool: Tool) -> str:
    """What clients show for it."""
    return visible(str(tool.definition.get("title", "")))


def callers_of(server: MCPServer, tool: Tool) -> list[str]:
    """Who may call it; all of that has to be so."""
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
        yield _("users for whom %s says so") % _called(server.user_passes_test)
    if tool.visible is not None:
        model = _model_of(tool)
        if model is not None and tool.is_generated:
            yield _("users who may see %s, as its declaration says") % model._meta.verbose_name_plural  # noqa: SLF001
        else:
            yield _("callers for whom %s says so") % _called(tool.visible)


def scope_words(tool: Tool) -> str:
    """Its scopes as people read them when they let a client in."""
    known = declared()
    return "; ".join(f"{known[name].text} ({name})" if name in known else name for name in sorted(tool.scopes))


def source_of(tool: Tool) -> str:
    """Where it comes from: a function, a view, or a model."""
    model = _model_of(tool)
    if model is not None and tool.is_generated:
        return _("model %s") % model._meta.label  # noqa: SLF001 - Django's documented API
    origin = _origin(tool)
    return _("view %s") % origin if isinstance(origin, str) else _called(origin)


def place_of(tool: Tool) -> str:
    """File and line; empty where there are none."""
    origin = _origin(tool)
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
    """Below the folder in which the process was started, where it is there."""
    path, here = Path(file), Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def _origin(tool: Tool) -> Any:
    """What somebody wrote: functions that were made for it know what they were made for. A view may be but a name."""
    call = inspect.unwrap(tool.read.call)
    owner = getattr(call, "owner", None)
    for name in ("view", "form_class"):
        owner = getattr(owner, name, owner)
    return call if owner is None else owner


def _model_of(tool: Tool) -> type[Model] | None:
    model = getattr(getattr(inspect.unwrap(tool.read.call), "owner", None), "model", None)
    return model if isinstance(model, type) and issubclass(model, Model) else None


def _called(thing: Any) -> str:
    thing = getattr(thing, "view_class", None) or getattr(thing, "func", thing)
    named = thing if hasattr(thing, "__qualname__") else type(thing)
    return f"{named.__module__}.{named.__qualname__}"


DAYS = 30
KEPT = 60
"""For how many seconds calls are not counted again, since it takes seconds where there are very many."""


@dataclass
class ToolRow:
    """A tool of an endpoint.

    Attributes:
        rows: what was decided about it.
        known: as it was when somebody accepted it.
        calls: those of the last days; None where nobody may see them.
    """

    server: MCPServer
    tool: Tool
    rows: Sequence[ToolPolicy]
    known: ToolSnapshot | None
    calls: ToolStatistics | None

    @property
    def key(self) -> str:
        """What it is called in addresses and in its history."""
        return f"{self.server.name}.{self.tool.key}"

    # What counts

    @property
    def own(self) -> ToolPolicy | None:
        """What was decided for everybody."""
        return next((each for each in self.rows if each.group_id is None and not each.client_id), None)

    @property
    def overrides(self) -> list[ToolPolicy]:
        """What was decided for groups and clients."""
        return [each for each in self.rows if each is not self.own]

    @cached_property
    def default(self) -> Decision:
        """What counts where nobody decided anything."""
        return default_decision(self.tool)

    @property
    def decision(self) -> Decision:
        """What counts for everybody who is in no group with another decision."""
        if self.is_held:
            return Decision.BLOCK
        return self.default if self.own is None else Decision[self.own.decision.upper()]

    @property
    def decision_words(self) -> str:
        """The same in a word."""
        return decision_words(self.decision)

    @property
    def choices(self) -> list[tuple[str, str, bool]]:
        """Value, words and whether it is chosen, of each decision."""
        own = "" if self.own is None else self.own.decision
        default = _("default (%s)") % decision_words(self.default)
        return [
            ("default", default, not own),
            *((value, str(label), value == own) for value, label in ToolPolicy.Decision.choices),
        ]

    @property
    def reason(self) -> str:
        """Why it counts."""
        if self.is_held:
            return _("changed; hidden from clients until its new definition is approved")
        if self.own is not None:
            return decided_words(self.own)
        if self.tool.policy is not None:
            return _("default, from the tool’s policy option")
        if self.default is Decision.ASK:
            is_destructive = settings.REQUIRE_APPROVAL_FOR == "destructive"
            return _("default, because it is destructive") if is_destructive else _("default, for it writes")
        return _("default")

    @property
    def override_words(self) -> str:
        """How many there are."""
        if not self.overrides:
            return ""
        number = len(self.overrides)
        return ngettext("%d override", "%d overrides", number) % number

    # What changed

    @cached_property
    def is_changed(self) -> bool:
        """Whether it is another one than the one that was accepted."""
        return self.known is not None and self.known.digest != tool_policies.known(self.tool).digest

    @property
    def is_held(self) -> bool:
        """Whether it does not exist for clients because of that."""
        return self.is_changed and settings.BLOCK_CHANGED_TOOLS

    # What it is

    @cached_property
    def title(self) -> str:
        """For display."""
        return title_of(self.tool)

    @cached_property
    def description(self) -> str:
        """What a model reads of it."""
        return description_of(self.tool)

    @property
    def gist(self) -> str:
        """The first line of that."""
        return self.description.strip().partition("\n")[0]

    @property
    def has_more(self) -> bool:
        """Whether there is more of it."""
        return self.gist != self.description.strip()

    @property
    def hints(self) -> list[str]:
        """In words."""
        return hints_of(self.tool)

    @property
    def callers(self) -> list[str]:
        """Who may call it."""
        return callers_of(self.server, self.tool)

    @property
    def source(self) -> str:
        """Where it comes from."""
        return source_of(self.tool)

    # What it does

    @property
    def plot(self) -> SafeString:
        """Its calls of each day."""
        return sparkline([] if self.calls is None else self.calls.per_day)

    @property
    def count_words(self) -> str:
        """How many there were."""
        number = 0 if self.calls is None else self.calls.calls
        return ngettext("%s call", "%s calls", number) % count(number)

    @property
    def error_rate(self) -> float:
        """Which share failed."""
        return self.calls.errors / self.calls.calls if self.calls is not None and self.calls.calls else 0.0

    @property
    def error_words(self) -> str:
        """The same, where there were any."""
        if self.calls is None or not self.calls.calls:
            return ""
        return _("%s errors") % share(self.error_rate) if self.calls.errors else _("no errors")


def decision_words(decision: Decision) -> str:
    """A decision in the language of the page."""
    return str(ToolPolicy.Decision(decision.name.lower()).label)


def decided_words(row: ToolPolicy) -> str:
    """Who decided something, and when."""
    when = date(timezone.localtime(row.changed) if timezone.is_aware(row.changed) else row.changed, "DATETIME_FORMAT")
    if row.changed_by is None:
        return _("decided on %s") % when
    return _("decided by %(who)s on %(when)s") % {"who": row.changed_by.get_username(), "when": when}


def lines(*, with_calls: bool) -> list[ToolRow]:
    """All of them, in the order of endpoints and of their lists.

    A tool that nobody has seen so far is remembered as it is: from now on, a change of it is seen.
    """
    served = list(servers())
    known = {(each.server, each.tool): each for each in ToolSnapshot.objects.defer("definition")}
    digests = {which: each.digest for which, each in known.items()}
    tool_policies.remember(served, digests)
    rows: dict[tuple[str, str], list[ToolPolicy]] = defaultdict(list)
    for row in ToolPolicy.objects.select_related("group", "changed_by").order_by("group__name", "client_id"):
        rows[row.server, row.tool].append(row)
    calls = _calls() if with_calls else {}
    nothing = ToolStatistics(per_day=[0] * DAYS) if with_calls else None
    return [
        ToolRow(server, tool, rows.get(which, ()), known.get(which), calls.get(which, nothing))
        for server, tool, which in _every(served)
    ]


def left_over() -> list[ToolPolicy]:
    """What was decided about tools that this process does not have: they may come back under their names."""
    there = {which for _server, _tool, which in _every(list(servers()))}
    rows = ToolPolicy.objects.select_related("group", "changed_by").order_by(
        "server", "tool", "group__name", "client_id"
    )
    return [row for row in rows if (row.server, row.tool) not in there]


def find(key: str, *, with_calls: bool) -> ToolRow | None:
    """One of them, with its definition as it was accepted."""
    server_name, _dot, tool_key = key.partition(".")
    server = next((each for each in servers() if each.name == server_name), None)
    tool = None if server is None else server.tools.get(tool_key)
    if server is None or tool is None or tool not in tool_policies.tools_of(server):
        return None
    which = {"server": server.name, "tool": tool.key}
    rows = ToolPolicy.objects.filter(**which).select_related("group", "changed_by").order_by("group__name", "client_id")
    accepted = ToolSnapshot.objects.filter(**which).select_related("accepted_by")
    known = accepted.first()
    if known is None:
        tool_policies.remember([server], tool_policies.accepted())
        known = accepted.first()
    calls = _calls().get((server.name, tool.key), ToolStatistics(per_day=[0] * DAYS)) if with_calls else None
    return ToolRow(server, tool, list(rows), known, calls)


def _every(served: Sequence[MCPServer]) -> Iterator[tuple[MCPServer, Tool, tuple[str, str]]]:
    for server in served:
        for tool in tool_policies.tools_of(server):
            yield server, tool, (server.name, tool.key)


def _calls() -> dict[Any, ToolStatistics]:
    key = f"django_mcp:tools:{timezone.get_current_timezone_name()}"
    kept: dict[Any, ToolStatistics] | None = cache.get(key)
    if kept is None:
        kept = tool_statistics(DAYS)
        cache.set(key, kept, KEPT)
    return kept

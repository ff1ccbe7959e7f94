"""Which tools the page lists, as its address says: plain GET parameters."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.http import QueryDict
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_mcp.admin.tools.lines import Line
from django_mcp.core.server import servers
from django_mcp.models import ToolPolicy

Choice = tuple[str, Any]
Test = Callable[[Line], bool]


def _is(value: str) -> Test:
    return lambda line: line.decision.name.lower() == value


OF_DECISION: Mapping[str, tuple[Any, Test]] = {
    **{str(value): (label, _is(value)) for value, label in ToolPolicy.Decision.choices},
    "decided": (gettext_lazy("decided by somebody"), lambda line: line.own is not None),
    "overridden": (gettext_lazy("with overrides"), lambda line: bool(line.overrides)),
}
OF_HINT: Mapping[str, tuple[Any, Test]] = {
    "read-only": (gettext_lazy("reads only"), lambda line: line.tool.read_only),
    "writes": (gettext_lazy("writes"), lambda line: not line.tool.read_only),
    "destructive": (gettext_lazy("destructive"), lambda line: _says(line, "destructiveHint")),
    "idempotent": (gettext_lazy("idempotent"), lambda line: _says(line, "idempotentHint")),
    "open-world": (gettext_lazy("open world"), lambda line: _says(line, "openWorldHint")),
    "unsaid": (gettext_lazy("says nothing"), lambda line: not line.tool.annotations),
}
ORDERS: Mapping[str, tuple[Any, Callable[[Line], Any]]] = {
    "calls": (gettext_lazy("most calls first"), lambda line: -(line.calls.calls if line.calls else 0)),
    "errors": (gettext_lazy("most errors first"), lambda line: -line.error_rate),
    "name": (gettext_lazy("by name"), lambda line: line.tool.name),
}


def _says(line: Line, hint: str) -> bool:
    return bool(line.tool.annotations.get(hint)) and not (hint == "destructiveHint" and line.tool.read_only)


@dataclass
class Select:
    """Something to choose.

    Attributes:
        name: of the parameter.
        choices: values and words; the first one is no choice at all.
        chosen: one of the values.
    """

    name: str
    label: Any
    choices: Sequence[Choice]
    chosen: str


class Choosing:
    """What is asked for.

    Args:
        given: the parameters of the address. What makes no sense is left aside.
        with_calls: calls are shown, so tools may be sorted by them.
    """

    def __init__(self, given: QueryDict, *, with_calls: bool) -> None:
        self.query = given.get("q", "").strip()
        orders = [(each, words) for each, (words, _key) in ORDERS.items() if with_calls or each == "name"]
        names = [(each.name, each.name) for each in servers()]
        self.selects = [
            _select(given, "endpoint", _("Endpoint"), names, _("all")),
            _select(given, "decision", _("Decision"), _words(OF_DECISION), _("all")),
            _select(given, "hint", _("Hints"), _words(OF_HINT), _("all")),
            _select(given, "changed", _("Changed"), [("yes", _("since accepted"))], _("all")),
            _select(given, "order", _("Order"), orders, _("as listed to clients")),
        ]

    @property
    def is_narrowed(self) -> bool:
        """Whether anything is asked for."""
        return bool(self.query) or any(each.chosen for each in self.selects)

    def apply(self, lines: Sequence[Line]) -> list[Line]:
        """Those that are asked for, in the order that is."""
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


def _has(line: Line, words: Sequence[str]) -> bool:
    if not words:
        return True
    text = f"{line.key} {line.title} {line.description} {line.source}".casefold()
    return all(each in text for each in words)


def _words(tests: Mapping[str, tuple[Any, Test]]) -> list[Choice]:
    return [(name, words) for name, (words, _test) in tests.items()]


def _select(given: QueryDict, name: str, label: str, choices: Sequence[Choice], nothing: str) -> Select:
    chosen = given.get(name, "")
    return Select(
        name, label, [("", nothing), *choices], chosen if chosen in {value for value, _words in choices} else ""
    )

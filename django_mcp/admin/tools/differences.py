"""What became another one in a tool since somebody accepted it, line by line."""

import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from django.utils.translation import gettext as _

from django_mcp.approvals.tool_policies import SHOWN
from django_mcp.core.redaction import visible

MOST_LINES = 400
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
    text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True)
    return [visible(each) for each in text.split("\n")]


def _rows(before: Sequence[str], now: Sequence[str]) -> list[Row]:
    found = list(_compared(before, now))
    if len(found) > MOST_LINES:
        more = _("… and %d lines more.") % (len(found) - MOST_LINES)
        found = [*found[:MOST_LINES], Row("place", "", more)]
    return found


def _compared(before: Sequence[str], now: Sequence[str]) -> Iterator[Row]:
    unified = difflib.unified_diff(before, now, lineterm="", n=3)
    for number, line in enumerate(unified):
        if number > 1:  # the first two name files
            kind = _KINDS.get(line[0], "")
            yield Row(kind, "" if kind == "place" else line[0], line if kind == "place" else line[1:])

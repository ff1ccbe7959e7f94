"""Things compared: one below the other, the words above the bar, so that long names have room on a phone too."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.safestring import SafeString
from django.utils.text import Truncator

from django_mcp.admin.plots.frame import picture
from django_mcp.admin.plots.markup import NOTHING, percent, tag

ROW, WORDS, THICK = 38, 14, 10
"""Of a bar with its words, of the words alone, of the bar alone, in pixels."""
MOST_CHARACTERS = 36
"""Of a name that are shown; more would run into the number on a phone."""


@dataclass(frozen=True)
class Bar:
    """One of them.

    Attributes:
        name: may be long, and from outside.
        value: its length.
        shown: that in words.
        mark: a second value, as a stroke across the bar.
    """

    name: str
    value: float
    shown: str
    mark: float | None = None


def bars(key: str, title: str, description: str, kind: str, rows: Sequence[Bar], full: float = 0) -> SafeString:
    """A bar for each row, in their order.

    Args:
        key: its ``id`` in the page.
        title: what is shown, for those who hear it.
        description: what there is to see, in a sentence or two.
        kind: its colour.
        rows: what is compared.
        full: the value of a bar as long as the plot is wide; the greatest one if that is not given, or is more.
    """
    longest = max([full, *(row.value for row in rows), *(row.mark or 0 for row in rows)]) or 1
    drawn = (_row(kind, row, ROW * at, longest) for at, row in enumerate(rows))
    return picture(key, title, description, ROW * len(rows), *drawn)


def _row(kind: str, row: Bar, y: float, longest: float) -> SafeString:
    top = y + WORDS + 6
    return tag(
        "g",
        tag("title", f"{row.name}: {row.shown}"),
        tag("rect", x=0, y=y, width="100%", height=ROW, class_="mcp-touch"),
        tag("text", Truncator(row.name).chars(MOST_CHARACTERS), x=0, y=y + WORDS, class_="mcp-name"),
        tag("text", row.shown, x="100%", y=y + WORDS, text_anchor="end", class_="mcp-number"),
        tag("rect", x=0, y=top, width="100%", height=THICK, class_="mcp-track"),
        tag("rect", x=0, y=top, width=percent(row.value / longest), height=THICK, class_=f"mcp-{kind}"),
        _mark(row.mark, top, longest),
    )


def _mark(value: float | None, top: float, longest: float) -> SafeString:
    if value is None:
        return NOTHING
    x = percent(value / longest)
    return tag("line", x1=x, x2=x, y1=top - 2, y2=top + THICK + 2, class_="mcp-mark")

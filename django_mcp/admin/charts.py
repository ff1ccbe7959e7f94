"""SVG charts as escaped markup: stacked bars over time, in which every bar is a link, and sparklines.

Widths are percentages and heights pixels, so that a chart fills its column and its letters keep their size. Colours
are classes of ``django_mcp/admin.css``. The page repeats the numbers in a table below the chart.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count
from typing import NamedTuple

from django.utils.formats import number_format
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _

HEIGHT, TOP, BOTTOM = 200, 18, 22
"""Pixels: of a chart, above its bars, below them."""
FLOOR = HEIGHT - BOTTOM
GUTTER, EDGE = 0.06, 0.06
"""Shares of the width: left of the bars, for the numbers; and where labels at the right end are set flush."""
GAP = 0.15
"""Space between two bars, as a share of a bin."""
STEP, SPARKLINE_HEIGHT = 4, 20
"""Pixels of a bar of a sparkline; a quarter of the step is the gap."""


def tag(name: str, *children: str, **attributes: float | str) -> SafeString:
    """Return an SVG element: ``tag("text", "12", x="3%", class_="mcp-chart-label")``. Underlines become hyphens."""
    written = format_html_join(
        "", ' {}="{}"', ((key.rstrip("_").replace("_", "-"), _number(value)) for key, value in attributes.items())
    )
    return format_html("<{0}{1}>{2}</{0}>", mark_safe(name), written, joined(children))  # noqa: S308 - a literal


def joined(parts: Iterable[str]) -> SafeString:
    return format_html_join("", "{}", ((part,) for part in parts))


def _percent(share: float) -> str:
    return f"{_number(100 * share)}%"


def _number(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.2f}".rstrip("0").rstrip(".")


class Bin(NamedTuple):
    """A span of time on the horizontal axis.

    Attributes:
        label: the span in words.
        address: what its bar links to; empty for no link.
        mark: a short label under the axis; empty for most bins.
    """

    label: str
    address: str = ""
    mark: str = ""


class Layer(NamedTuple):
    """One kind of what is counted.

    Attributes:
        kind: its colour, as the class ``mcp-<kind>``.
        name: in words.
        values: one for each bin.
    """

    kind: str
    name: str
    values: Sequence[int]


def stacked_bars(
    key: str, title: str, description: str, bins: Sequence[Bin], layers: Sequence[Layer], shown: Callable[[float], str]
) -> SafeString:
    """Return a bar for each bin; the first layer is the lowest.

    Args:
        key: prefix of the element ids in the page.
        title: accessible name.
        description: accessible description, a sentence or two.
        bins: from left to right.
        layers: from bottom to top.
        shown: writes a number.
    """
    levels = whole_ticks(max(sum(column) for column in zip(*(layer.values for layer in layers), strict=True)))
    top = levels[-1]
    # Percentages inside of the inner picture are of what the gutter leaves.
    place = {"x": _percent(GUTTER), "width": _percent(1 - GUTTER), "class_": "mcp-chart-data"}
    bars = (_bar(bins, layers, at, top, shown) for at in range(len(bins)))
    return tag(
        "svg",
        tag("title", title, id=f"{key}-title"),
        tag("desc", description, id=f"{key}-desc"),
        *(
            tag("line", x1="0", x2="100%", y1=_y(level, top), y2=_y(level, top), class_="mcp-chart-line")
            for level in levels
        ),
        tag("svg", *bars, *_marks(bins), **place),
        *(tag("text", shown(level), x="0", y=_y(level, top) - 4, class_="mcp-chart-label") for level in levels[1:]),
        class_="mcp-chart",
        role="group",
        aria_labelledby=f"{key}-title",
        aria_describedby=f"{key}-desc",
        width="100%",
        height=HEIGHT,
        # Time runs from left to right in pages of other languages too.
        direction="ltr",
    )


def whole_ticks(greatest: int, most: int = 5) -> list[int]:
    """Return at most ``most + 1`` round numbers from 0 to *greatest* or the next one above."""
    steps = (factor * 10**power for power in count() for factor in (1, 2, 5))
    step = next(width for width in steps if width * most >= greatest)
    return list(range(0, max(greatest, 1) + step, step))


def _y(value: float, top: float) -> float:
    return FLOOR - (FLOOR - TOP) * value / top


def _bar(
    bins: Sequence[Bin], layers: Sequence[Layer], at: int, top: float, shown: Callable[[float], str]
) -> SafeString:
    counted = [layer for layer in layers if layer.values[at]]
    words = [bins[at].label, *(f"{layer.name}: {shown(layer.values[at])}" for layer in counted)]
    width = 1 / len(bins)
    # An empty bin can be pointed at too.
    whole = tag("rect", x=_percent(at * width), y=0, width=_percent(width), height=FLOOR, class_="mcp-chart-hover")
    bar = tag("g", tag("title", "\n".join(words)), whole, *_areas(counted, at, width, top))
    if not counted or not bins[at].address:
        return bar
    return tag("a", bar, href=bins[at].address, aria_label="; ".join(words))


def _areas(layers: Sequence[Layer], at: int, width: float, top: float) -> Iterator[SafeString]:
    place, below = {"x": _percent((at + GAP / 2) * width), "width": _percent((1 - GAP) * width)}, 0.0
    for layer in layers:
        # One pixel at least, so that one failure in a thousand calls is seen.
        height = max(1.0, FLOOR - _y(layer.values[at], top))
        yield tag("rect", **place, y=FLOOR - below - height, height=height, class_=f"mcp-{layer.kind}")
        below += height


def _marks(bins: Sequence[Bin]) -> Iterator[SafeString]:
    for at, bin_ in enumerate(bins):
        if bin_.mark:
            middle = (at + 0.5) / len(bins)
            yield tag("line", x1=_percent(middle), x2=_percent(middle), y1=FLOOR, y2=FLOOR + 4, class_="mcp-chart-line")
            # At the right edge a centred label would be cut off.
            anchor, x = ("end", 1.0) if middle > 1 - EDGE else ("middle", middle)
            yield tag("text", bin_.mark, x=_percent(x), y=HEIGHT - 4, text_anchor=anchor, class_="mcp-chart-label")


def swatch(kind: str) -> SafeString:
    square = tag("rect", x=0.5, y=0.5, width=13, height=13, class_=f"mcp-{kind}")
    return tag("svg", square, class_="mcp-swatch", width=14, height=14, aria_hidden="true")


def sparkline(values: Sequence[float], title: str = "") -> SafeString:
    """Return bars in the colour of the surrounding text, the first value at the left.

    Args:
        values: not negative.
        title: accessible name; by default the number of values, their sum, the greatest and the last.
    """
    words = title or _in_words(values)
    width = STEP * max(len(values), 1)
    return format_html(
        '<svg class="mcp-sparkline" role="img" aria-label="{}" width="{}" height="{}" viewBox="0 0 {} {}">'
        '<title>{}</title><path fill="currentColor" opacity=".35" d="M0 {}h{}v1h-{}z"/>'
        '<path fill="currentColor" d="{}"/></svg>',
        *(words, width, SPARKLINE_HEIGHT + 1, width, SPARKLINE_HEIGHT + 1, words),
        *(SPARKLINE_HEIGHT, width, width, _path(values)),
    )


def _path(values: Sequence[float]) -> str:
    greatest = max(values, default=0)
    # One pixel at least: a day with one call is no day without.
    heights = [max(1, round(SPARKLINE_HEIGHT * value / greatest)) if value > 0 else 0 for value in values]
    bar = STEP - 1
    return "".join(
        f"M{STEP * at} {SPARKLINE_HEIGHT}v-{height}h{bar}v{height}z" for at, height in enumerate(heights) if height
    )


def _in_words(values: Sequence[float]) -> str:
    if not any(values):
        return _("No data.")
    numbers = {"sum": sum(values), "most": max(values), "last": values[-1]}
    shown = {name: number_format(value, use_l10n=True, force_grouping=True) for name, value in numbers.items()}
    return _("Total %(sum)s over %(count)d intervals; maximum %(most)s, latest %(last)s.") % {
        **shown,
        "count": len(values),
    }

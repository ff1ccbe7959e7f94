"""SVG charts as escaped markup, without JavaScript.

Widths are percentages and heights are pixels, so that plots fill their column at a fixed font size. Colours are classes
of ``django_mcp/overview.css``. Legends, tooltips and a table below each plot repeat the numbers for readers who cannot
tell the colours apart.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from django.utils.formats import number_format
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.text import Truncator
from django.utils.translation import gettext as _

NOTHING = mark_safe("")


def tag(name: str, *children: str, **attributes: float | str) -> SafeString:
    """Return an element: ``tag("text", "12", x=percent(3), class_="mcp-tick")``. Underscores in names become "-"."""
    written = format_html_join("", ' {}="{}"', ((_attribute(key), _number(value)) for key, value in attributes.items()))
    return format_html("<{0}{1}>{2}</{0}>", mark_safe(name), written, joined(children))  # noqa: S308 - a literal


def joined(parts: Iterable[str]) -> SafeString:
    """Join parts of markup."""
    return format_html_join("", "{}", ((part,) for part in parts))


def percent(share: float) -> str:
    """Format a share of the width."""
    return f"{_number(100 * share)}%"


def _attribute(name: str) -> str:
    return name if name in CAMELS else name.rstrip("_").replace("_", "-")


CAMELS = {"viewBox", "preserveAspectRatio"}


def _number(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.2f}".rstrip("0").rstrip(".")


HEIGHT, TOP, BOTTOM = 220, 18, 22
"""Height of a plot over time, and its margins above and below the data, in pixels."""
FLOOR = HEIGHT - BOTTOM
GUTTER, EDGE = 0.1, 0.06
"""Margin at the left for labels, and at both ends of the data, as shares of the width."""


class Mark(NamedTuple):
    """A label of the time axis, for the bin ``at``. Short, as five have to fit on a phone."""

    at: int
    words: str


class Axis(NamedTuple):
    """The time axis of a plot.

    Attributes:
        key: ``id`` of the plot in the page.
        title: title for screen readers.
        description: description for screen readers.
        bins: label of each bin.
        marks: labels of the axis.
        shown: formats a value of the other axis.
    """

    key: str
    title: str
    description: str
    bins: Sequence[str]
    marks: Sequence[Mark]
    shown: Callable[[float], str]

    def middle(self, at: int) -> float:
        """Return the middle of a bin, as a share of the width."""
        return (at + 0.5) / len(self.bins)


def picture(key: str, title: str, description: str, height: float, *children: str) -> SafeString:
    """Return an SVG image with a title and description."""
    return tag(
        "svg",
        tag("title", title, id=f"{key}-title"),
        tag("desc", description, id=f"{key}-desc"),
        *children,
        class_="mcp-plot",
        role="img",
        aria_labelledby=f"{key}-title {key}-desc",
        width="100%",
        height=height,
        # Plots run from left to right in right-to-left languages too.
        direction="ltr",
    )


def ticks(greatest: float, most: int = 5, steps: Sequence[float] = (1, 2, 2.5, 5, 10)) -> list[float]:
    """Return round numbers from 0 to at least *greatest*, in steps of *steps* times a power of ten."""
    if greatest <= 0:
        return [0, 1]
    rough = greatest / most
    power = 10 ** math.floor(math.log10(rough))
    step = next(power * each for each in steps if power * each >= rough * 0.999)
    return [step * at for at in range(math.ceil(greatest / step * 0.999) + 1)]


def whole_ticks(greatest: float) -> list[float]:
    """Return ticks that are whole numbers."""
    found = ticks(greatest, steps=(1, 2, 5, 10))
    return found if all(each == int(each) for each in found) else [float(at) for at in range(math.ceil(greatest) + 1)]


def height_of(value: float, top: float) -> float:
    """Return the height of a value in pixels, on an axis that ends at *top*."""
    return (FLOOR - TOP) * value / top


def _rule(y: float) -> SafeString:
    return tag("line", x1="0", x2="100%", y1=y, y2=y, class_="mcp-rule")


def over_time(axis: Axis, levels: Sequence[float], *data: str) -> SafeString:
    """Return a plot of *data* with labelled axes."""
    # A nested SVG, so that percentages inside refer to the width without the gutter.
    place = {"x": percent(GUTTER), "width": percent(1 - GUTTER), "class_": "mcp-data"}
    inner = tag("svg", *data, *_marks(axis), **place)
    outer = [_rule(FLOOR - height_of(level, levels[-1])) for level in levels]
    return picture(axis.key, axis.title, axis.description, HEIGHT, *outer, inner, *_levels(axis, levels))


def _levels(axis: Axis, levels: Sequence[float]) -> Iterator[SafeString]:
    for level in levels[1:]:
        yield tag("text", axis.shown(level), x="0", y=FLOOR - height_of(level, levels[-1]) - 4, class_="mcp-tick")


def _marks(axis: Axis) -> Iterable[SafeString]:
    for mark in axis.marks:
        share = axis.middle(mark.at)
        yield tag("line", x1=percent(share), x2=percent(share), y1=FLOOR, y2=FLOOR + 4, class_="mcp-rule")
        # Labels at the right edge would be cut off; at the left there is the gutter.
        anchor, x = ("end", 1.0) if share > 1 - EDGE else ("middle", share)
        yield tag("text", mark.words, x=percent(x), y=HEIGHT - 4, text_anchor=anchor, class_="mcp-tick")


ROW, WORDS, THICK = 38, 14, 10
"""Height of a row, of its label and of its bar, in pixels."""
MAX_CHARACTERS = 36
"""Maximum characters of a name; longer ones would overlap the number on a phone."""


class Bar(NamedTuple):
    """A row of a bar chart.

    Attributes:
        name: label; untrusted and maybe long.
        value: length of the bar.
        shown: the formatted value.
        mark: a second value, drawn as a stroke across the bar.
    """

    name: str
    value: float
    shown: str
    mark: float | None = None


def bars(key: str, title: str, description: str, kind: str, rows: Sequence[Bar], full: float = 0) -> SafeString:
    """Return a horizontal bar chart; *full* is the value of a bar of full width, by default the greatest.

    The other arguments are as for ``Axis`` and ``Series``.
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
        tag("text", Truncator(row.name).chars(MAX_CHARACTERS), x=0, y=y + WORDS, class_="mcp-name"),
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


class Series(NamedTuple):
    """A line of a chart.

    Attributes:
        kind: suffix of its CSS class.
        values: a value for each bin; None for no data.
    """

    kind: str
    name: str
    values: Sequence[float | None]


def lines(axis: Axis, measures: Sequence[Series]) -> SafeString:
    """Return a line chart with gaps where there is no data."""
    levels = ticks(max((value for each in measures for value in each.values if value is not None), default=0))
    drawn = joined(_line(axis, each, levels[-1]) for each in measures)
    touched = joined(_bin(axis, measures, at) for at in range(len(axis.bins)))
    return over_time(axis, levels, drawn, touched)


def _line(axis: Axis, measure: Series, top: float) -> SafeString:
    runs = [[at for at, _value in run] for there, run in _runs(measure.values) if there]
    # Points of a polyline cannot be percentages, so they are in a nested SVG that is stretched; stroke widths are not.
    stretched = tag(
        "svg",
        *(_polyline(axis, measure, run, top) for run in runs),
        width="100%",
        height=HEIGHT,
        viewBox=f"0 0 1000 {HEIGHT}",
        preserveAspectRatio="none",
    )
    return joined([stretched, *_dots(axis, measure, runs, top)])


def _runs(values: Sequence[float | None]) -> Iterator[tuple[bool, Iterator[tuple[int, float | None]]]]:
    return groupby(enumerate(values), key=lambda each: each[1] is not None)


def _polyline(axis: Axis, measure: Series, run: list[int], top: float) -> SafeString:
    points = " ".join(f"{1000 * axis.middle(at):.1f},{_y(measure, at, top):.1f}" for at in run)
    return tag(
        "polyline", points=points, class_=f"mcp-line mcp-line-{measure.kind}", vector_effect="non-scaling-stroke"
    )


def _dots(axis: Axis, measure: Series, runs: list[list[int]], top: float) -> Iterator[SafeString]:
    """Yield a dot for each run of a single point, which has no line."""
    for run in runs:
        if len(run) == 1:
            x, y = percent(axis.middle(run[0])), _y(measure, run[0], top)
            yield tag("circle", cx=x, cy=y, r=2.5, class_=f"mcp-dot-{measure.kind}")


def _y(measure: Series, at: int, top: float) -> float:
    return FLOOR - height_of(measure.values[at] or 0, top)


def _bin(axis: Axis, measures: Sequence[Series], at: int) -> SafeString:
    known = [f"{each.name}: {axis.shown(value)}" for each in measures if (value := each.values[at]) is not None]
    width = 1 / len(axis.bins)
    area = tag("rect", x=percent(at * width), y=TOP, width=percent(width), height=FLOOR - TOP, class_="mcp-touch")
    return tag("g", tag("title", "\n".join([axis.bins[at], *known])), area)


def sample(kind: str) -> SafeString:
    """Return a piece of a line for the legend."""
    line = tag("line", x1=0, x2=24, y1=7, y2=7, class_=f"mcp-line mcp-line-{kind}")
    return tag("svg", line, class_="mcp-swatch", width=24, height=14, aria_hidden="true")


STEP, SPARKLINE_HEIGHT = 4, 20
"""Width of a bar with its gap, and height of a sparkline, in pixels. The gap is a quarter of the step."""


def sparkline(values: Sequence[float], title: str = "") -> SafeString:
    """Return a small bar chart of values that are not negative, oldest first, in the colour of the surrounding text."""
    words = title or _in_words(values)
    width = STEP * max(len(values), 1)
    return format_html(
        '<svg class="mcp-sparkline" role="img" aria-label="{}" width="{}" height="{}" viewBox="0 0 {} {}">'
        '<title>{}</title><path fill="currentColor" opacity=".35" d="M0 {}h{}v1h-{}z"/>'
        '<path fill="currentColor" d="{}"/></svg>',
        *(
            words,
            width,
            SPARKLINE_HEIGHT + 1,
            width,
            SPARKLINE_HEIGHT + 1,
            words,
            SPARKLINE_HEIGHT,
            width,
            width,
            _bars(values),
        ),
    )


def _bars(values: Sequence[float]) -> str:
    greatest = max(values, default=0)
    # At least one pixel, so that a single call is visible.
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


GAP = 0.15
"""Gap between two bars, as a share of a bin."""


class Layer(NamedTuple):
    """A layer of a stacked bar chart: the suffix of its CSS class, a label, and a value for each bin."""

    kind: str
    name: str
    values: Sequence[int]


def stacks(axis: Axis, layers: Sequence[Layer]) -> SafeString:
    """Return a stacked bar chart; the first layer is at the bottom."""
    levels = whole_ticks(max(sum(each) for each in zip(*(layer.values for layer in layers), strict=True)))
    bins = (_stack(axis, layers, at, levels[-1]) for at in range(len(axis.bins)))
    return over_time(axis, levels, *bins)


def _stack(axis: Axis, layers: Sequence[Layer], at: int, top: float) -> SafeString:
    counted = [layer for layer in layers if layer.values[at]]
    said = "\n".join([axis.bins[at], *(f"{layer.name}: {axis.shown(layer.values[at])}" for layer in counted)])
    width = 1 / len(axis.bins)
    # The hover area covers bins without a bar, too.
    whole = tag("rect", x=percent(at * width), y=0, width=percent(width), height=FLOOR, class_="mcp-touch")
    return tag("g", tag("title", said), whole, *_areas(axis, counted, at, top))


def _areas(axis: Axis, layers: Sequence[Layer], at: int, top: float) -> Iterator[SafeString]:
    width, below = 1 / len(axis.bins), 0.0
    place = {"x": percent((at + GAP / 2) * width), "width": percent((1 - GAP) * width)}
    for layer in layers:
        # At least one pixel, so that one failure in a thousand calls is visible.
        height = max(1.0, height_of(layer.values[at], top))
        yield tag("rect", **place, y=FLOOR - below - height, height=height, class_=f"mcp-{layer.kind}")
        below += height


def swatch(kind: str) -> SafeString:
    """Return a small square for the legend."""
    square = tag("rect", x=0.5, y=0.5, width=13, height=13, class_=f"mcp-{kind}")
    return tag("svg", square, class_="mcp-swatch", width=14, height=14, aria_hidden="true")

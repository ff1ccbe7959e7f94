"""SVG charts: from numbers to escaped markup, without a model, a request or a script.

Widths are percentages and heights pixels, so that a plot fills its column and its letters keep their size. Colours
are classes of ``django_mcp/overview.css``. The numbers are in the legend, in tooltips and in a table below the plot, so
nobody needs the colours.
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
    """An element: ``tag("text", "12", x=percent(3), class_="mcp-tick")``. Underlines in names become hyphens."""
    written = format_html_join("", ' {}="{}"', ((_attribute(key), _number(value)) for key, value in attributes.items()))
    return format_html("<{0}{1}>{2}</{0}>", mark_safe(name), written, joined(children))  # noqa: S308 - a literal


def joined(parts: Iterable[str]) -> SafeString:
    """One after the other."""
    return format_html_join("", "{}", ((part,) for part in parts))


def percent(share: float) -> str:
    """A share of the width."""
    return f"{_number(100 * share)}%"


def _attribute(name: str) -> str:
    return name if name in CAMELS else name.rstrip("_").replace("_", "-")


CAMELS = {"viewBox", "preserveAspectRatio"}


def _number(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.2f}".rstrip("0").rstrip(".")


HEIGHT, TOP, BOTTOM = 220, 18, 22
"""Of a plot over time, in pixels; above its data, below it."""
FLOOR = HEIGHT - BOTTOM
GUTTER, EDGE = 0.1, 0.06
"""Left of the data, for what the lines stand for; and at both ends of the data. Shares of the width."""


class Mark(NamedTuple):
    """Words under the axis of time.

    Attributes:
        at: the bin that they stand for.
        words: few, for there may be five on a phone.
    """

    at: int
    words: str


class Axis(NamedTuple):
    """What is drawn along time.

    Attributes:
        key: its ``id`` in the page.
        title: what is shown, for those who hear it.
        description: what there is to see, in a sentence or two.
        bins: each one's words.
        marks: a few of them, for the axis.
        shown: a value in words, for the other axis.
    """

    key: str
    title: str
    description: str
    bins: Sequence[str]
    marks: Sequence[Mark]
    shown: Callable[[float], str]

    def middle(self, at: int) -> float:
        """Of a bin, as a share of the width."""
        return (at + 0.5) / len(self.bins)


def picture(key: str, title: str, description: str, height: float, *children: str) -> SafeString:
    """An image with its title and its description."""
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
        # What is drawn runs from left to right, in pages of other languages too.
        direction="ltr",
    )


def ticks(greatest: float, most: int = 5, steps: Sequence[float] = (1, 2, 2.5, 5, 10)) -> list[float]:
    """Round numbers from nothing to *greatest* or somewhat above, each a step of *steps* times a power of ten."""
    if greatest <= 0:
        return [0, 1]
    rough = greatest / most
    power = 10 ** math.floor(math.log10(rough))
    step = next(power * each for each in steps if power * each >= rough * 0.999)
    return [step * at for at in range(math.ceil(greatest / step * 0.999) + 1)]


def whole_ticks(greatest: float) -> list[float]:
    """The same, of things that are counted."""
    found = ticks(greatest, steps=(1, 2, 5, 10))
    return found if all(each == int(each) for each in found) else [float(at) for at in range(math.ceil(greatest) + 1)]


def height_of(value: float, top: float) -> float:
    """How many pixels a value is above the floor, where *top* is as high as it gets."""
    return (FLOOR - TOP) * value / top


def _rule(y: float) -> SafeString:
    return tag("line", x1="0", x2="100%", y1=y, y2=y, class_="mcp-rule")


def over_time(axis: Axis, levels: Sequence[float], *data: str) -> SafeString:
    """A picture of *data*, which is as wide as all bins together, with the words of both axes."""
    # A picture in the picture, so that percentages in it are of what the gutter leaves.
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
        # At the right edge they would be cut off; at the left there is the gutter.
        anchor, x = ("end", 1.0) if share > 1 - EDGE else ("middle", share)
        yield tag("text", mark.words, x=percent(x), y=HEIGHT - 4, text_anchor=anchor, class_="mcp-tick")


ROW, WORDS, THICK = 38, 14, 10
"""Of a bar with its words, of the words alone, of the bar alone, in pixels."""
MAX_CHARACTERS = 36
"""Of a name that are shown; more would run into the number on a phone."""


class Bar(NamedTuple):
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
    """One measure.

    Attributes:
        kind: its colour and dash.
        name: in words.
        values: one for each bin; None where there is none.
    """

    kind: str
    name: str
    values: Sequence[float | None]


def lines(axis: Axis, measures: Sequence[Series]) -> SafeString:
    """A line for each, broken where nothing was measured."""
    levels = ticks(max((value for each in measures for value in each.values if value is not None), default=0))
    drawn = joined(_line(axis, each, levels[-1]) for each in measures)
    touched = joined(_bin(axis, measures, at) for at in range(len(axis.bins)))
    return over_time(axis, levels, drawn, touched)


def _line(axis: Axis, measure: Series, top: float) -> SafeString:
    runs = [[at for at, _value in run] for there, run in _runs(measure.values) if there]
    # Points have no percentages, so they are in a picture of their own, which is stretched; its lines are not.
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
    """Where a line has but one point there is no line."""
    for run in runs:
        if len(run) == 1:
            x, y = percent(axis.middle(run[0])), _y(measure, run[0], top)
            yield tag("circle", cx=x, cy=y, r=2.5, class_=f"mcp-dot-{measure.kind}")


def _y(measure: Series, at: int, top: float) -> float:
    return FLOOR - height_of(measure.values[at] or 0, top)


def _bin(axis: Axis, measures: Sequence[Series], at: int) -> SafeString:
    """What can be pointed at."""
    known = [f"{each.name}: {axis.shown(value)}" for each in measures if (value := each.values[at]) is not None]
    width = 1 / len(axis.bins)
    area = tag("rect", x=percent(at * width), y=TOP, width=percent(width), height=FLOOR - TOP, class_="mcp-touch")
    return tag("g", tag("title", "\n".join([axis.bins[at], *known])), area)


def sample(kind: str) -> SafeString:
    """A piece of a line, for a legend."""
    line = tag("line", x1=0, x2=24, y1=7, y2=7, class_=f"mcp-line mcp-line-{kind}")
    return tag("svg", line, class_="mcp-swatch", width=24, height=14, aria_hidden="true")


STEP, SPARKLINE_HEIGHT = 4, 20
"""Of a bar, in pixels; a quarter of the step is the gap."""


def sparkline(values: Sequence[float], title: str = "") -> SafeString:
    """Bars in the colour of the text around them, the first value at the left; below them a line.

    Args:
        values: not negative.
        title: what it shows, in words. Without it: how many values, their sum, the greatest and the last.
    """
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
    # One pixel at least: a day with one call is no day without.
    heights = [max(1, round(SPARKLINE_HEIGHT * value / greatest)) if value > 0 else 0 for value in values]
    bar = STEP - 1
    return "".join(
        f"M{STEP * at} {SPARKLINE_HEIGHT}v-{height}h{bar}v{height}z" for at, height in enumerate(heights) if height
    )


def _in_words(values: Sequence[float]) -> str:
    if not any(values):
        return _("Nothing.")
    numbers = {"sum": sum(values), "most": max(values), "last": values[-1]}
    shown = {name: number_format(value, use_l10n=True, force_grouping=True) for name, value in numbers.items()}
    return _("%(sum)s in %(count)d steps; the most in one: %(most)s; in the last: %(last)s.") % {
        **shown,
        "count": len(values),
    }


GAP = 0.15
"""Between two bars, as a share of a bin."""


class Layer(NamedTuple):
    """One kind of what is counted.

    Attributes:
        kind: its colour.
        name: in words.
        values: one for each bin.
    """

    kind: str
    name: str
    values: Sequence[int]


def stacks(axis: Axis, layers: Sequence[Layer]) -> SafeString:
    """A bar for each bin; the first layer is the lowest."""
    levels = whole_ticks(max(sum(each) for each in zip(*(layer.values for layer in layers), strict=True)))
    bins = (_stack(axis, layers, at, levels[-1]) for at in range(len(axis.bins)))
    return over_time(axis, levels, *bins)


def _stack(axis: Axis, layers: Sequence[Layer], at: int, top: float) -> SafeString:
    counted = [layer for layer in layers if layer.values[at]]
    said = "\n".join([axis.bins[at], *(f"{layer.name}: {axis.shown(layer.values[at])}" for layer in counted)])
    width = 1 / len(axis.bins)
    # A bar of nothing at all cannot be pointed at; this one can.
    whole = tag("rect", x=percent(at * width), y=0, width=percent(width), height=FLOOR, class_="mcp-touch")
    return tag("g", tag("title", said), whole, *_areas(axis, counted, at, top))


def _areas(axis: Axis, layers: Sequence[Layer], at: int, top: float) -> Iterator[SafeString]:
    width, below = 1 / len(axis.bins), 0.0
    place = {"x": percent((at + GAP / 2) * width), "width": percent((1 - GAP) * width)}
    for layer in layers:
        # One pixel at least, so that the one failure in a thousand calls is seen.
        height = max(1.0, height_of(layer.values[at], top))
        yield tag("rect", **place, y=FLOOR - below - height, height=height, class_=f"mcp-{layer.kind}")
        below += height


def swatch(kind: str) -> SafeString:
    """A small square in the colour of a kind, for the legend."""
    square = tag("rect", x=0.5, y=0.5, width=13, height=13, class_=f"mcp-{kind}")
    return tag("svg", square, class_="mcp-swatch", width=14, height=14, aria_hidden="true")

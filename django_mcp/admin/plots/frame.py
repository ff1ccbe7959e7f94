"""What is around the data: the picture with its words, and the two axes."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from django.utils.safestring import SafeString

from django_mcp.admin.plots.markup import percent, tag

HEIGHT, TOP, BOTTOM = 220, 18, 22
"""Of a plot over time, in pixels; above its data, below it."""
FLOOR = HEIGHT - BOTTOM
GUTTER, EDGE = 0.1, 0.06
"""Left of the data, for what the lines stand for; and at both ends of the data. Shares of the width."""


@dataclass(frozen=True)
class Mark:
    """Words under the axis of time.

    Attributes:
        at: the bin that they stand for.
        words: few, for there may be five on a phone.
    """

    at: int
    words: str


@dataclass(frozen=True)
class Axis:
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

"""Counts over time, one kind above the other."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from django.utils.safestring import SafeString

from django_mcp.admin.plots.frame import FLOOR, Axis, height_of, over_time, whole_ticks
from django_mcp.admin.plots.markup import percent, tag

GAP = 0.15
"""Between two bars, as a share of a bin."""


@dataclass(frozen=True)
class Layer:
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

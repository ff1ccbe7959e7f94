"""Measures over time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from django.utils.safestring import SafeString

from django_mcp.admin.plots.frame import FLOOR, HEIGHT, TOP, Axis, height_of, over_time, ticks
from django_mcp.admin.plots.markup import joined, percent, tag


@dataclass(frozen=True)
class Line:
    """One measure.

    Attributes:
        kind: its colour and dash.
        name: in words.
        values: one for each bin; None where there is none.
    """

    kind: str
    name: str
    values: Sequence[float | None]


def lines(axis: Axis, measures: Sequence[Line]) -> SafeString:
    """A line for each, broken where nothing was measured."""
    levels = ticks(max((value for each in measures for value in each.values if value is not None), default=0))
    drawn = joined(_line(axis, each, levels[-1]) for each in measures)
    touched = joined(_bin(axis, measures, at) for at in range(len(axis.bins)))
    return over_time(axis, levels, drawn, touched)


def _line(axis: Axis, measure: Line, top: float) -> SafeString:
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


def _polyline(axis: Axis, measure: Line, run: list[int], top: float) -> SafeString:
    points = " ".join(f"{1000 * axis.middle(at):.1f},{_y(measure, at, top):.1f}" for at in run)
    return tag(
        "polyline", points=points, class_=f"mcp-line mcp-line-{measure.kind}", vector_effect="non-scaling-stroke"
    )


def _dots(axis: Axis, measure: Line, runs: list[list[int]], top: float) -> Iterator[SafeString]:
    """Where a line has but one point there is no line."""
    for run in runs:
        if len(run) == 1:
            x, y = percent(axis.middle(run[0])), _y(measure, run[0], top)
            yield tag("circle", cx=x, cy=y, r=2.5, class_=f"mcp-dot-{measure.kind}")


def _y(measure: Line, at: int, top: float) -> float:
    return FLOOR - height_of(measure.values[at] or 0, top)


def _bin(axis: Axis, measures: Sequence[Line], at: int) -> SafeString:
    """What can be pointed at."""
    known = [f"{each.name}: {axis.shown(value)}" for each in measures if (value := each.values[at]) is not None]
    width = 1 / len(axis.bins)
    area = tag("rect", x=percent(at * width), y=TOP, width=percent(width), height=FLOOR - TOP, class_="mcp-touch")
    return tag("g", tag("title", "\n".join([axis.bins[at], *known])), area)


def sample(kind: str) -> SafeString:
    """A piece of a line, for a legend."""
    line = tag("line", x1=0, x2=24, y1=7, y2=7, class_=f"mcp-line mcp-line-{kind}")
    return tag("svg", line, class_="mcp-swatch", width=24, height=14, aria_hidden="true")

"""Plots: numbers become pictures that say in words what they show, and never more than they were given."""

import re
from xml.etree import ElementTree

import pytest
from django.utils import translation
from hypothesis import example, given
from hypothesis import strategies as st

from django_mcp.admin.charts import (
    FLOOR,
    TOP,
    Axis,
    Bar,
    Layer,
    Mark,
    Series,
    bars,
    lines,
    sparkline,
    stacks,
    ticks,
    whole_ticks,
)

EVIL = "</title><script>alert(1)</script>\"'&"
EVILS = {"title": EVIL, "description": EVIL, "bins": [EVIL, EVIL], "marks": [Mark(0, EVIL)]}


def axis(count: int, **changes: object) -> Axis:
    facts = {
        "key": "some",
        "title": "Some plot",
        "description": "What it shows.",
        "bins": [f"bin {at}" for at in range(count)],
        "marks": [Mark(0, "first")],
        "shown": str,
    }
    return Axis(**{**facts, **changes})  # type: ignore[arg-type]


def parsed(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg)


def tooltips(svg: str) -> list[str]:
    return [each.text or "" for group in parsed(svg).iter("g") for each in group.findall("title")]


def areas(svg: str, kind: str) -> list[ElementTree.Element]:
    """The rectangles of one kind of data."""
    drawn = [each for group in parsed(svg).iter("g") for each in group.findall("rect")]
    return [each for each in drawn if each.get("class") == f"mcp-{kind}"]


# Every picture


@pytest.mark.parametrize(
    "svg",
    [
        stacks(axis(2, **EVILS), [Layer("ok", EVIL, [1, 2])]),
        lines(axis(2, **EVILS), [Series("p95", EVIL, [1, None])]),
        bars("some", EVIL, EVIL, "error", [Bar(EVIL, 3, EVIL)]),
        sparkline([1, 2], EVIL),
    ],
    ids=["stacks", "lines", "bars", "sparkline"],
)
def test_words_of_strangers_are_words_and_no_markup(svg: str) -> None:
    assert not list(parsed(svg).iter("script"))
    assert EVIL in "".join(parsed(svg).itertext())


@pytest.mark.parametrize(
    "svg",
    [
        stacks(axis(1), [Layer("ok", "fine", [1])]),
        lines(axis(1), []),
        bars("some", "Some plot", "What it shows.", "ok", []),
    ],
)
def test_a_picture_has_a_title_and_a_description_that_belong_to_it(svg: str) -> None:
    root = parsed(svg)
    assert root.get("role") == "img"
    words = {each.get("id"): each.text for each in root if each.tag in {"title", "desc"}}
    assert [words[each] for each in (root.get("aria-labelledby") or "").split()] == ["Some plot", "What it shows."]


def test_coordinates_are_written_with_points_in_languages_that_write_commas() -> None:
    with translation.override("de"):
        svg = lines(axis(3), [Series("median", "median", [1.5, 2.25, 1.125])])
    assert re.search(r'points="[\d., ]+"', svg)
    assert not re.search(r'(x|y|width|height|x1|y1)="\d+,\d', svg)


# Counts over time


def test_layers_lie_on_each_other_in_their_order_and_are_as_high_as_their_values() -> None:
    svg = stacks(axis(1), [Layer("ok", "fine", [30]), Layer("error", "bad", [10])])
    (fine,), (bad,) = areas(svg, "ok"), areas(svg, "error")
    assert float(fine.get("y")) + float(fine.get("height")) == FLOOR
    assert float(bad.get("y")) + float(bad.get("height")) == float(fine.get("y"))
    assert float(fine.get("height")) == pytest.approx(3 * float(bad.get("height")))


def test_one_failure_in_a_million_calls_is_seen() -> None:
    (bad,) = areas(stacks(axis(1), [Layer("ok", "fine", [1_000_000]), Layer("error", "bad", [1])]), "error")
    assert float(bad.get("height")) >= 1


def test_a_bar_says_its_numbers_where_it_is_pointed_at_and_leaves_out_what_is_not_there() -> None:
    svg = stacks(axis(2), [Layer("ok", "fine", [3, 0]), Layer("error", "bad", [0, 0])])
    assert tooltips(svg) == ["bin 0\nfine: 3", "bin 1"]


# Measures over time


def test_a_line_is_broken_where_nothing_was_measured() -> None:
    root = parsed(lines(axis(5), [Series("median", "median", [1, 2, None, 4, 5])]))
    assert [len((each.get("points") or "").split()) for each in root.iter("polyline")] == [2, 2]


def test_a_single_measure_is_a_dot() -> None:
    assert len(list(parsed(lines(axis(3), [Series("median", "median", [None, 7, None])])).iter("circle"))) == 1


# Comparisons


def test_bars_are_as_long_as_their_values_are_of_the_whole() -> None:
    svg = bars("some", "t", "d", "ok", [Bar("a", 50, "50"), Bar("b", 25, "25")], full=100)
    assert [each.get("width") for each in areas(svg, "ok")] == ["50%", "25%"]


def test_a_long_name_is_cut_in_the_picture_and_whole_where_it_is_pointed_at() -> None:
    svg = bars("some", "t", "d", "ok", [Bar("n" * 200, 1, "1")])
    shown = [each.text for each in parsed(svg).iter("text")]
    assert shown[0].endswith("…")
    assert len(shown[0]) < 50
    assert tooltips(svg) == ["n" * 200 + ": 1"]


# Axes


@given(st.floats(1e-6, 1e12))
def test_ticks_are_few_evenly_far_apart_and_reach_the_greatest_value(greatest: float) -> None:
    found = ticks(greatest)
    assert found[0] == 0
    assert found[-1] >= greatest * 0.998
    assert 2 <= len(found) <= 7
    assert found[-1] <= greatest * 2


@given(st.integers(0, 10**9))
@example(11)
def test_what_is_counted_has_whole_numbers_on_its_axis(greatest: int) -> None:
    assert all(each == int(each) for each in whole_ticks(greatest))
    assert len(whole_ticks(greatest)) <= 7


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=90))
def test_data_stay_inside_of_the_picture(values: list[int]) -> None:
    svg = stacks(axis(len(values)), [Layer("ok", "fine", values)])
    assert all(TOP - 1 <= float(each.get("y")) <= FLOOR for each in areas(svg, "ok"))


# As small as a word


def test_a_sparkline_says_what_it_shows() -> None:
    assert [each.text for each in parsed(sparkline([1, 0, 3])).iter("title")] == [
        "Total 4 over 3 intervals; maximum 3, latest 3."
    ]


def test_a_sparkline_can_be_given_its_words() -> None:
    root = parsed(sparkline([1, 2], "Calls per day"))
    assert (root.get("aria-label"), root.get("role")) == ("Calls per day", "img")


@pytest.mark.parametrize("values", [[], [0, 0, 0]])
def test_a_sparkline_of_nothing_says_so(values: list[int]) -> None:
    assert parsed(sparkline(values)).get("aria-label") == "No data."


def test_a_day_with_one_call_among_days_with_thousands_is_no_day_without() -> None:
    path = parsed(sparkline([10_000, 1, 0])).findall("path")[-1].get("d") or ""
    assert path.count("z") == 2

"""Charts: numbers become pictures that say in words what they show, and never more than they were given."""

import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from django.utils import translation
from hypothesis import example, given
from hypothesis import strategies as st

from django_mcp.admin.charts import FLOOR, TOP, Bin, Layer, sparkline, stacked_bars, whole_ticks

EVIL = "</title><script>alert(1)</script>\"'&"


def stacks(bins: int, layers: list[Layer], *, words: str = "", address: str = "/log/") -> str:
    made = [Bin(words or f"bin {at}", f"{address}?bin={at}", words or "first" * (not at)) for at in range(bins)]
    return stacked_bars("some", words or "Some chart", words or "What it shows.", made, layers, str)


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
    [stacks(2, [Layer("ok", EVIL, [1, 2])], words=EVIL, address=EVIL), sparkline([1, 2], EVIL)],
    ids=["stacks", "sparkline"],
)
def test_words_of_strangers_are_words_and_no_markup(svg: str) -> None:
    assert not list(parsed(svg).iter("script"))
    assert EVIL in "".join(parsed(svg).itertext())


def test_a_chart_has_a_title_and_a_description_that_belong_to_it() -> None:
    root = parsed(stacks(1, [Layer("ok", "fine", [1])]))
    words = {each.get("id"): each.text for each in root if each.tag in {"title", "desc"}}
    assert words[root.get("aria-labelledby")] == "Some chart"
    assert words[root.get("aria-describedby")] == "What it shows."


def test_coordinates_are_written_with_points_in_languages_that_write_commas() -> None:
    with translation.override("de"):
        svg = stacks(3, [Layer("ok", "fine", [1, 2, 3])])
    assert re.search(r'(x|y|width|height)="\d+\.\d', svg)
    assert not re.search(r'(x|y|width|height|x1|y1)="\d+,\d', svg)


def test_a_bar_is_a_link_that_says_its_numbers_and_an_empty_bin_is_none() -> None:
    root = parsed(stacks(2, [Layer("ok", "fine", [3, 0]), Layer("error", "bad", [1, 0])]))
    links = [(each.get("href"), each.get("aria-label")) for each in root.iter("a")]
    assert links == [("/log/?bin=0", "bin 0; fine: 3; bad: 1")]


# Counts over time


def test_layers_lie_on_each_other_in_their_order_and_are_as_high_as_their_values() -> None:
    svg = stacks(1, [Layer("ok", "fine", [30]), Layer("error", "bad", [10])])
    (fine,), (bad,) = areas(svg, "ok"), areas(svg, "error")
    assert float(fine.get("y")) + float(fine.get("height")) == FLOOR
    assert float(bad.get("y")) + float(bad.get("height")) == float(fine.get("y"))
    assert float(fine.get("height")) == pytest.approx(3 * float(bad.get("height")))


def test_one_failure_in_a_million_calls_is_seen() -> None:
    (bad,) = areas(stacks(1, [Layer("ok", "fine", [1_000_000]), Layer("error", "bad", [1])]), "error")
    assert float(bad.get("height")) >= 1


def test_a_bar_says_its_numbers_where_it_is_pointed_at_and_leaves_out_what_is_not_there() -> None:
    svg = stacks(2, [Layer("ok", "fine", [3, 0]), Layer("error", "bad", [0, 0])])
    assert tooltips(svg) == ["bin 0\nfine: 3", "bin 1"]


# Axes


@given(st.integers(0, 10**9))
@example(11)
def test_ticks_are_few_whole_evenly_far_apart_and_reach_the_greatest_value(greatest: int) -> None:
    found = whole_ticks(greatest)
    assert found[0] == 0
    assert greatest <= found[-1] <= max(2 * greatest, 1)
    assert 2 <= len(found) <= 7
    assert len({after - before for before, after in pairwise(found)}) == 1


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=90))
def test_data_stay_inside_of_the_picture(values: list[int]) -> None:
    svg = stacks(len(values), [Layer("ok", "fine", values)])
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

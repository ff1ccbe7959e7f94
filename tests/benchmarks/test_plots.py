"""The plots show what the table says: every target, bars as long as their ratios, and what was promised."""

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from benchmarks import __main__ as command
from benchmarks import plots, report
from benchmarks.measurement import Measurement
from benchmarks.runner import Plan, Results
from benchmarks.saved import Run
from benchmarks.targets import SDK_ADD, TARGETS

SVG = "{http://www.w3.org/2000/svg}"
ABOUT = [("date", "2026-11-22"), ("processor", "a < b & c")]


def found(rate: float) -> Measurement:
    return Measurement(round(rate * 2), 2.0, 1.0, 2.0, 0.2, 0, [], 1.9)


@pytest.fixture
def rounds() -> list[dict[str, Measurement]]:
    """Of three rounds, in which each target is a little faster than the one before it in the list."""
    return [{each.name: found(1000.0 + 100 * at * pace) for at, each in enumerate(TARGETS)} for pace in (1, 2, 4)]


@pytest.fixture
def table(rounds: list[dict[str, Measurement]]) -> list[report.Row]:
    return report.rows(TARGETS, rounds)


def drawn(table: list[report.Row], folder: Path) -> dict[str, ET.Element]:
    return {file.stem: ET.fromstring(file.read_text()) for file in plots.write(table, folder)}


def bars(picture: ET.Element) -> dict[str, ET.Element]:
    """What is drawn of each target, by the name that is shown above it."""
    groups = picture.findall(f"{SVG}g")
    return {str(group.findtext(f"{SVG}text")): group for group in groups}


def width(bar: ET.Element) -> float:
    (found,) = (each for each in bar.iter(f"{SVG}rect") if each.get("class") in {"ours", "other"})
    return float(found.attrib["width"])


def test_every_target_is_in_one_of_the_pictures(table: list[report.Row], tmp_path: Path) -> None:
    shown = [name for picture in drawn(table, tmp_path / "new").values() for name in bars(picture)]
    assert sorted(shown) == sorted(target.name for target in TARGETS)


def test_bars_are_as_long_as_their_ratios_say(table: list[report.Row], tmp_path: Path) -> None:
    ratios = {row.target.name: row.ratio.median for row in table if row.ratio}
    for picture in drawn(table, tmp_path).values():
        lengths = {name: width(bar) / ratios[name] for name, bar in bars(picture).items()}
        assert max(lengths.values()) == pytest.approx(min(lengths.values()), rel=0.01), lengths
        assert all(width(bar) <= plots.BARS for bar in bars(picture).values())


def test_what_is_promised_is_marked_where_a_bar_of_that_ratio_would_end(
    table: list[report.Row], tmp_path: Path
) -> None:
    rows = {row.target.name: row for row in table}
    marks = 0
    for picture in drawn(table, tmp_path).values():
        for name, bar in bars(picture).items():
            row = rows[name]
            found = [each for each in bar.iter(f"{SVG}line") if each.get("class") == "promise"]
            assert len(found) == (row.target.at_least is not None)
            for mark in found:
                assert row.ratio is not None
                length = float(mark.attrib["x1"]) - plots.PAD
                expected = width(bar) * row.target.at_least / row.ratio.median
                assert length == pytest.approx(expected, rel=0.02, abs=0.1)
                marks += 1
    assert marks == sum(target.at_least is not None for target in TARGETS)


def test_whiskers_go_from_the_least_to_the_greatest(table: list[report.Row], tmp_path: Path) -> None:
    rows = {row.target.name: row for row in table}
    for picture in drawn(table, tmp_path).values():
        for name, bar in bars(picture).items():
            ratio = rows[name].ratio
            path = bar.find(f"{SVG}path")
            assert ratio is not None
            assert path is not None
            ends = re.match(r"M([\d.]+) [\d.]+H([\d.]+)", path.attrib["d"])
            assert ends is not None
            for end, value in zip(ends.groups(), (ratio.least, ratio.most), strict=True):
                length = float(end) - plots.PAD
                assert length == pytest.approx(width(bar) * value / ratio.median, rel=0.02, abs=0.1)


def test_those_who_do_not_see_it_are_told_all_of_it(table: list[report.Row], tmp_path: Path) -> None:
    for picture in drawn(table, tmp_path).values():
        title, description = picture.find(f"{SVG}title"), picture.find(f"{SVG}desc")
        assert title is not None
        assert description is not None
        assert picture.attrib["aria-labelledby"].split() == [title.attrib["id"], description.attrib["id"]]
        assert all(f"{name}: " in str(description.text) for name in bars(picture))


def test_a_target_that_failed_has_no_bar(rounds: list[dict[str, Measurement]], tmp_path: Path) -> None:
    gone = "add on daphne"
    for each in rounds:
        del each[gone]
    shown = [name for picture in drawn(report.rows(TARGETS, rounds), tmp_path).values() for name in bars(picture)]
    assert gone not in shown
    assert SDK_ADD in shown


def test_a_run_that_was_kept_gives_the_same_table_and_plots_without_measuring(
    rounds: list[dict[str, Measurement]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "run.json"
    run = Run(Plan(rounds=3), Results(rounds, {}), ABOUT)
    run.save(kept)
    assert Run.load(kept) == run

    monkeypatch.setattr(command, "Bench", None)  # nothing is measured
    options = [*["--from", str(kept)], *["--markdown", str(tmp_path / "table.md")], *["--plots", str(tmp_path / "svg")]]
    assert command.main(options) == 0

    table = report.rows(TARGETS, rounds)
    how = report.legend(3, run.plan.seconds, run.plan.connections, run.plan.seed)
    assert (tmp_path / "table.md").read_text() == report.markdown(table, how, ABOUT)
    assert {file.name for file in (tmp_path / "svg").iterdir()} == {f"{group.key}.svg" for group in plots.GROUPS}

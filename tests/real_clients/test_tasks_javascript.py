"""The official ext-tasks and long tools: with the extension, and with the tasks of 2025-11-25."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.real_clients.node import Clients
from tests.real_clients.sites import Site
from tests.real_clients.test_tasks import HEADER, NUMBERS, flight

Use = Callable[..., dict[str, Any]]


class Speaker(NamedTuple):
    """A mode, and the version it has to end up with."""

    mode: str
    version: str


SPEAKERS = {
    "older": Speaker("legacy", "2025-11-25"),
    "newest": Speaker("auto", "2026-07-28"),
}
everybody = pytest.mark.parametrize("speaker", SPEAKERS)
# The older one waits for questions without asking for the result, on whose stream they are sent.
whoever_can_be_asked = pytest.mark.parametrize("speaker", ["newest"])


@pytest.fixture
def use(speaker: str, agency_with_tasks: Site, annas_key: str, clients: Clients) -> Use:
    """Calls a tool to its end; gives what the driver says of it."""
    mode, version = SPEAKERS[speaker]

    def use(tool: str, arguments: dict[str, Any], **more: Any) -> dict[str, Any]:
        url = agency_with_tasks.url.replace("/mcp", "/staff/mcp")
        script = {"url": url, "headers": {"authorization": f"Bearer {annas_key}"}, "mode": mode}
        said = clients.drive("tasks.mjs", {**script, "tool": tool, "arguments": arguments, **more})
        assert said["version"] == version
        return said

    return use


@everybody
def test_the_report_of_a_year_is_a_task(use: Use) -> None:
    said = use("year_report", {"year": 2026})

    assert (said["kind"], said["status"]) == ("task", "completed"), said
    assert said["result"]["structuredContent"]["bookings"] > 0


@whoever_can_be_asked
def test_an_import_asks_in_the_middle_and_does_as_it_is_told(use: Use) -> None:
    number = f"ZZ{next(NUMBERS)}"
    first = use("import_flights", {"table": f"{HEADER}\n{flight(number, 90)}"})
    second = use("import_flights", {"table": f"{HEADER}\n{flight(number, 80)}"}, answer={"existing": "replace"})

    assert first["result"]["structuredContent"] == {"added": 1, "replaced": 0, "left": 0}
    assert second["result"]["structuredContent"] == {"added": 0, "replaced": 1, "left": 0}
    assert second["asked"] == ["Already in the timetable: 1 of 1 flight. Replace or leave them?"]


@everybody
def test_a_task_is_cancelled(use: Use, tmp_path: Path) -> None:
    said = use("read_when_there", {"path": str(tmp_path / "never")}, cancelAt="Waiting")

    assert said["status"] == "cancelled"


@whoever_can_be_asked
def test_what_is_refused_at_once_is_a_result_and_no_task(use: Use) -> None:
    said = use("import_flights", {"table": "nonsense"})

    assert said["kind"] == "immediate"
    assert "must name the columns" in said["result"]["content"][0]["text"]

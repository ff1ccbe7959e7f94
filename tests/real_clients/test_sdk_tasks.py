"""The official JavaScript SDK, whose experimental tasks are those of 2025-11-25, and the demo's long tools."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.real_clients.node import Clients
from tests.real_clients.sites import Site
from tests.real_clients.test_tasks import HEADER, NUMBERS, flight

Use = Callable[..., dict[str, Any]]


@pytest.fixture
def use(agency_with_tasks: Site, annas_key: str, clients: Clients) -> Use:
    """Calls a tool as a task; gives what the driver says of it."""

    def use(tool: str, arguments: dict[str, Any], **more: Any) -> dict[str, Any]:
        script = {
            "url": agency_with_tasks.url.replace("/mcp", "/staff/mcp"),
            "headers": {"authorization": f"Bearer {annas_key}"},
            "tool": tool,
            "arguments": arguments,
            **more,
        }
        return clients.drive("sdk_tasks.mjs", script)

    return use


def test_a_long_tool_is_a_task(use: Use) -> None:
    said = use("year_report", {"year": 2026})
    assert said["declared"] == {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
    assert said["kinds"][0] == "taskCreated"
    assert said["kinds"][-1] == "result"
    assert said["states"][-1] == "completed"
    assert said["result"]["structuredContent"]["bookings"] > 0
    assert said["listed"][0] == said["task"]


def test_a_task_asks_in_the_middle(use: Use) -> None:
    number = f"ZZ{next(NUMBERS)}"
    use("import_flights", {"table": f"{HEADER}\n{flight(number, 90)}"})
    said = use("import_flights", {"table": f"{HEADER}\n{flight(number, 80)}"}, answer={"existing": "replace"})
    assert said["result"]["structuredContent"] == {"added": 0, "replaced": 1, "left": 0}
    ((message, meta),) = said["asked"]
    assert message.startswith("Already in the timetable")
    assert meta == {"io.modelcontextprotocol/related-task": {"taskId": said["task"]}}


def test_a_task_is_cancelled(use: Use, tmp_path: Path) -> None:
    said = use("read_when_there", {"path": str(tmp_path / "never")}, cancel=True)
    assert said["cancelled"] == "cancelled"
    assert said["kinds"][-1] == "error"


def test_what_is_refused_beforehand_is_an_error(use: Use) -> None:
    said = use("import_flights", {"table": "nonsense"})
    assert said["kinds"] == ["error"]
    assert "task" not in said

"""The request that made a task is a row, and so is each run of its work."""

from collections.abc import Callable

import pytest

from django_mcp import MCPServer, ToolError, tool
from django_mcp.audit import writer
from django_mcp.audit.entry import Facts
from django_mcp.models import RequestLog, Task
from tests.conversation import Conversation
from tests.exchange import Room
from tests.tasks.clients import TaskClient
from tests.tasks.conftest import _no_tasks_left, client, gate, kind, make_user, room, waiting  # noqa: F401 - fixtures

Log = Callable[[], list[RequestLog]]


@pytest.fixture
def working(room: Room) -> MCPServer:  # noqa: F811 - the fixture
    @tool(server=room.server, task="optional")
    def report(year: int) -> str:
        """Report."""
        if year < 0:
            raise ToolError("There was no such year.")
        return f"Of {year}."

    return room.server


@pytest.mark.parametrize(("year", "outcome", "status"), [(2026, "ok", "completed"), (-1, "error", "completed")])
def test_a_task_is_two_rows(
    call_log: Log,
    working: MCPServer,
    client: TaskClient,  # noqa: F811 - the fixture
    year: int,
    outcome: str,
    status: str,
) -> None:
    task_id = client.call("report", year=year)
    client.become(task_id, status)
    request, run = sorted(call_log(), key=lambda row: row.outcome != "task")
    assert (request.outcome, request.task_id, request.result_kind) == ("task", task_id, "task")
    assert (run.outcome, run.task_id, run.name, run.arguments) == (outcome, task_id, "report", {"year": year})


def test_the_row_of_a_client_that_knows_no_tasks_names_the_task_that_did_the_work(
    call_log: Log,
    working: MCPServer,
    waiting: Conversation,  # noqa: F811 - the fixture
) -> None:
    assert waiting.call("report", year=2026).text == "Of 2026."
    task = Task.objects.get()
    assert [(row.outcome, row.task_id) for row in call_log()] == [("ok", task.task_id)] * 2


@pytest.mark.postgresql
def test_a_result_that_can_be_read_has_a_row(
    call_log: Log,
    working: MCPServer,
    client: TaskClient,  # noqa: F811 - the fixture
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They are written in one transaction: where the row cannot be, the result is not there either."""
    save = writer.save

    def failing(calls: list[Facts]) -> None:
        if any(each["task_id"] and each["outcome"] == "ok" for each in calls):
            raise RuntimeError("this row cannot be written")
        save(calls)

    monkeypatch.setattr(writer, "save", failing)
    task_id = client.call("report", year=2026)
    client.become(task_id, "completed", "failed")
    assert "Of 2026." not in str(Task.objects.get(task_id=task_id).result)
    assert {row.outcome for row in call_log()} == {"task", "crashed"}

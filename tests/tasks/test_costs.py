"""How often the database is asked for a task."""

from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from django.test import override_settings
from django.test.utils import CaptureQueriesContext

from django_mcp import Context, MCPServer, tool
from django_mcp.models import Event, Task
from django_mcp.pubsub.cleanup import clear
from django_mcp.tasks import channel, worker
from tests.behaviour.users import PERMISSION, ByName, as_user
from tests.clients import META, MODERN
from tests.conversation import Conversation, accept
from tests.exchange import Room
from tests.tasks.clients import TaskClient, knows_tasks
from tests.tasks.gates import Gate

pytestmark = pytest.mark.postgresql


@pytest.fixture
def edge() -> str:
    """The one where the request is served in the thread of the test, whose queries are counted."""
    return "view"


@pytest.fixture
def counted() -> Callable[[Callable[[], Any]], list[str]]:
    """The queries of a function, but for savepoints and transactions."""

    def count(function: Callable[[], Any]) -> list[str]:
        with CaptureQueriesContext(connection) as queries:
            function()
        found = [each["sql"] for each in queries]
        return [sql for sql in found if sql.split(" ")[0] in {"SELECT", "INSERT", "UPDATE", "DELETE"}]

    return count


Counted = Callable[[Callable[[], Any]], list[str]]


def test_asking_for_a_task_is_one_query(server: MCPServer, client: TaskClient, gate: Gate, counted: Counted) -> None:
    def work(ctx: Context) -> str:
        gate.wait()
        return str(ctx.confirm("Sure?", key="sure"))

    tool(server=server, task="optional", read_only=True)(work)
    task_id = client.call("work")
    gate.reached()
    assert len(counted(lambda: client.get(task_id))) == 1
    gate.open()
    client.asked(task_id)
    assert len(counted(lambda: client.get(task_id))) == 2  # and one for the questions
    client.update(task_id, {"sure": accept(confirm=True)})
    client.ended(task_id)
    assert len(counted(lambda: client.get(task_id))) == 1


def test_making_a_task_is_a_lock_a_count_and_a_row(
    server: MCPServer, client: TaskClient, gate: Gate, counted: Counted
) -> None:
    async def work() -> str:
        await gate.await_()
        return "done"

    tool(server=server, task="optional")(work)
    client.call("work")  # the caller's first one also makes the row that is locked
    made = counted(lambda: client.call("work"))
    assert [sql.split(" ")[0] for sql in made] == ["UPDATE", "SELECT", "INSERT"], made


@pytest.mark.usefixtures("_no_tasks_left")
def test_permissions_are_asked_for_once_in_a_request(
    make_server: Callable[..., MCPServer], make_user: Any, counted: Counted
) -> None:
    server = make_server(authentication=[ByName()], scopes=[])
    tool(server=server, name="work", task="optional", permission=PERMISSION)(lambda: "done")
    user = make_user(permissions=(PERMISSION,))
    with Room(server, "view") as room:
        client = TaskClient(Conversation(room, MODERN, knows_tasks()), **as_user(user))
        task_id = client.call("work")
        client.ended(task_id)
        # The caller, the task, and the permissions of the user and of their groups.
        assert len(counted(lambda: client.get(task_id))) == 4


def test_answers_and_cancellations_take_few(server: MCPServer, client: TaskClient, counted: Counted) -> None:
    def work(ctx: Context) -> str:
        return str(ctx.confirm("Sure?", key="sure"))

    tool(server=server, task="optional")(work)
    task_id = client.call("work")
    client.asked(task_id)
    assert len(counted(lambda: client.cancel(task_id))) <= 5
    task_id = client.call("work")
    client.asked(task_id)
    assert len(counted(lambda: client.update(task_id, {"sure": accept(confirm=True)}))) <= 9
    client.ended(task_id)


def test_ten_thousand_reports_are_a_few_rows(
    server: MCPServer, client: TaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "HEARTBEAT_SECONDS", 0.5)

    def work(ctx: Context) -> str:
        for number in range(10_000):
            ctx.report_progress(number, 10_000, f"Row {number}")
        return "done"

    tool(server=server, task="optional", read_only=True)(work)
    Event.objects.all().delete()
    assert client.run("work") == "done"
    row = Task.objects.get()
    assert (row.progress, row.total, row.message) == (9999, 10_000, "Row 9999")
    assert 2 <= Event.objects.count() < 30


def test_ten_thousand_words_are_cut_short(
    server: MCPServer, waiting: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel, "MAX_MESSAGES", 50)

    def work(ctx: Context) -> str:
        for number in range(10_000):
            ctx.log("info", number)
        return "done"

    tool(server=server, task="optional")(work)
    outcome = waiting.call("work", meta={META + "logLevel": "info"})
    assert outcome.text == "done"
    assert [each["data"] for each in outcome.told("notifications/message")] == list(range(50))


def test_a_task_is_deleted_when_it_was_kept_long_enough(server: MCPServer, client: TaskClient) -> None:
    tool(server=server, name="work", task="optional")(lambda: "done")
    with override_settings(DJANGO_MCP={**settings.DJANGO_MCP, "TASK_TTL": 3600}):
        task_id = client.call("work")
    client.ended(task_id)
    clear()
    assert Task.objects.count() == 1
    row = Task.objects.get()
    Task.objects.update(expires=row.created)
    clear()
    assert Task.objects.count() == 0

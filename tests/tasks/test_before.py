"""What a tool checks and asks before there is a task."""

import asyncio
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from django_mcp import Context, MCPServer, ToolError, tool
from django_mcp.core import server as registry
from django_mcp.model_resources import registry as registration
from django_mcp.models import Task
from tests.conversation import DECLINE, Conversation, accept
from tests.tasks.clients import TaskClient

NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
ANNA = accept(name="Anna")


def before_of(kind: str, check: Any) -> Any:
    """*check* as a function of each kind."""

    def plain(ctx: Context, number: int) -> None:
        check(ctx, number)

    async def coroutine(ctx: Context, number: int) -> None:
        await asyncio.sleep(0)
        check(ctx, number)

    return plain if kind == "sync" else coroutine


def test_it_asks_first_and_the_tool_has_the_answer(server: MCPServer, client: TaskClient, kind: str) -> None:
    def check(ctx: Context, number: int) -> None:
        if ctx.elicit("Who are you?", NAME, key="name").action != "accept":
            raise ToolError("Then not.")

    @tool(server=server, task="required", before_task=before_of(kind, check))
    def work(ctx: Context, number: int) -> str:
        answer = ctx.elicit("Who are you?", NAME, key="name")
        return f"{answer.data and answer.data['name']} {number}"

    params = {"name": "work", "arguments": {"number": 7}}
    asked = client.request("tools/call", params, answers=[ANNA])
    assert len(asked.rounds) == 1
    assert asked.result["resultType"] == "task"
    assert client.text(asked.result["taskId"]) == "Anna 7"
    refused = client.request("tools/call", params, answers=[DECLINE])
    assert (refused.failed, refused.text) == (True, "Then not.")
    assert Task.objects.count() == 1


def test_it_can_refuse_before_there_is_anything(server: MCPServer, client: TaskClient, kind: str) -> None:
    def check(ctx: Context, number: int) -> None:
        if number > 5:
            raise ToolError(f"{number} is too many.")

    ran: list[int] = []
    tool(server=server, name="work", task="optional", before_task=before_of(kind, check))(
        lambda number: ran.append(number) or "done"
    )
    refused = client.request("tools/call", {"name": "work", "arguments": {"number": 6}})
    assert (refused.failed, refused.text) == (True, "6 is too many.")
    assert Task.objects.count() == 0
    assert ran == []


def test_it_runs_once_and_before_a_client_that_waits_too(
    server: MCPServer, client: TaskClient, waiting: Conversation
) -> None:
    seen: list[Any] = []

    def check(number: int) -> None:
        seen.append(("before", number))

    @tool(server=server, task="optional", before_task=check)
    def work(ctx: Context, number: int, more: str = "") -> str:
        seen.append(("tool", number))
        return str(ctx.confirm("Sure?", key="sure"))

    task_id = client.call("work", number=1)
    client.asked(task_id)
    client.update(task_id, {"sure": accept(confirm=True)})
    assert client.text(task_id) == "True"
    assert seen == [("before", 1), ("tool", 1), ("tool", 1)]
    seen.clear()
    assert waiting.call("work", answers=[accept(confirm=True)], number=2).text == "True"
    assert seen == [("before", 2), ("tool", 2), ("tool", 2)]


def test_it_takes_the_arguments_as_the_tool_does(server: MCPServer, client: TaskClient) -> None:
    seen: list[Any] = []

    def check(day: str = "no day", *, strict: bool = True) -> None:
        seen.append((day, strict))

    @tool(server=server, task="optional", before_task=check)
    def work(day: str = "today", other: int = 1) -> str:
        return day

    client.run("work", day="monday")
    client.run("work")
    assert seen == [("monday", True), ("today", True)]


def test_a_name_the_tool_does_not_have_is_refused_at_registration(server: MCPServer) -> None:
    def check(numbr: int) -> None:
        """Has a mistake."""

    with pytest.raises(ImproperlyConfigured, match="before_task has parameters that the tool does not: numbr"):

        @tool(server=server, task="optional", before_task=check)
        def work(number: int) -> str:
            return "done"

    assert "work" not in server.tools
    assert "get_task_result" not in server.tools


def test_a_tool_without_tasks_has_none(server: MCPServer) -> None:
    with pytest.raises(ImproperlyConfigured, match="before_task is for tools with task="):
        tool(server=server, name="work", before_task=lambda: None)(lambda: "done")


def test_what_it_does_not_foresee_is_told_without_details(server: MCPServer, client: TaskClient, kind: str) -> None:
    def check(ctx: Context, number: int) -> None:
        raise ZeroDivisionError

    tool(server=server, name="work", task="optional", before_task=before_of(kind, check))(lambda number: "done")
    outcome = client.request("tools/call", {"name": "work", "arguments": {"number": 1}})
    assert outcome.failed
    assert "ZeroDivision" not in outcome.text
    assert Task.objects.count() == 0


def test_arguments_are_checked_before_it(server: MCPServer, client: TaskClient) -> None:
    seen: list[Any] = []

    @tool(server=server, task="optional", before_task=lambda number: seen.append(number))  # noqa: PLW0108 - it has a name
    def work(number: int) -> str:
        return "done"

    assert client.request("tools/call", {"name": "work", "arguments": {"number": "x"}}).failed
    assert seen == []


class Desk:
    """Whose methods are tools."""

    limit = 3

    def check(self, number: int) -> None:
        if number > self.limit:
            raise ToolError(f"At most {self.limit}.")


def test_it_may_be_a_method_as_its_tool_is(
    server: MCPServer, client: TaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "is_started", False)  # as in the body of the class

    def work(self: Desk, number: int) -> str:
        return "done"

    work.__qualname__, work.__module__ = "Desk.work", __name__
    tool(server=server, task="optional", before_task=Desk.check)(work)
    monkeypatch.setattr(Desk, "work", work, raising=False)
    registration.build(server)
    monkeypatch.setattr(registry, "is_started", True)
    refused = client.request("tools/call", {"name": "work", "arguments": {"number": 7}})
    assert (refused.failed, refused.text) == (True, "At most 3.")
    assert client.text(client.call("work", number=2)) == "done"

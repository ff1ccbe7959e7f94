"""Clients that know no tasks wait for the result, and ask for it later where that takes too long."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.conf import settings
from django.core import signing
from django.core.exceptions import ImproperlyConfigured
from django.db import connections
from django.test import override_settings

from django_mcp import Context, MCPServer, ToolError, tool
from django_mcp.core import database
from django_mcp.models import Task
from django_mcp.protocol.errors import InvalidParams
from django_mcp.revisions.modern.handler import SALT
from tests.clients import META
from tests.conversation import Conversation, Outcome, accept
from tests.exchange import eventually
from tests.tasks.clients import TaskClient
from tests.tasks.gates import Gate, endless

NAME = {"type": "object", "properties": {"name": {"type": "string", "minLength": 2}}, "required": ["name"]}
ANNA = accept(name="Anna")
PROGRESS, LOG = "notifications/progress", "notifications/message"
ALL = {"progressToken": "token", META + "logLevel": "debug"}


def add(server: MCPServer, body: Any, **options: Any) -> None:
    tool(server=server, name="work", **{"task": "optional", **options})(body)


def soon(**more: Any) -> override_settings:
    """Nobody waits for long."""
    return override_settings(DJANGO_MCP={**settings.DJANGO_MCP, "TASK_WAIT_TIMEOUT": 0.05, **more})


def later(waiting: Conversation, task_id: str, answers: Any = ()) -> Outcome:
    return waiting.call("get_task_result", answers=answers, task_id=task_id)


def the_task() -> Task:
    return Task.objects.get()


def test_the_result_is_that_of_the_tool(server: MCPServer, waiting: Conversation, kind: str) -> None:
    def plain() -> dict[str, int]:
        return {"number": 7}

    async def coroutine() -> dict[str, int]:
        return {"number": 7}

    add(server, plain if kind == "sync" else coroutine)
    tool(server=server, name="direct")(plain)
    outcome = waiting.call("work")
    assert outcome.result == waiting.call("direct").result
    assert outcome.result["structuredContent"] == {"number": 7}
    assert the_task().status == "completed"


def test_so_is_what_went_wrong(server: MCPServer, waiting: Conversation) -> None:
    def work(how: str) -> str:
        raise ToolError("No.") if how == "told" else InvalidParams("Never.", {"at": 1})

    add(server, work)
    told = waiting.call("work", how="told")
    assert (told.failed, told.text) == (True, "No.")
    assert waiting.call("work", how="protocol").error == {"code": -32602, "message": "Never.", "data": {"at": 1}}


def two_more(looks: list[object]) -> None:
    """Wait until what was said before is saved, and what was read is from afterwards."""
    before = len(looks)
    eventually(lambda: len(looks) >= before + 2, "nobody looks at the task")


@pytest.mark.parametrize("read_only", [True, False])
@pytest.mark.parametrize("slow", [True, False])
def test_what_the_tool_says_comes_before_the_result(
    server: MCPServer, waiting: Conversation, read_only: bool, slow: bool, looks: list[object]
) -> None:
    def work(ctx: Context) -> str:
        ctx.log("info", "Begun")
        ctx.report_progress(1, 2, "Half")
        if slow:
            two_more(looks)
        ctx.log("debug", {"at": 2}, logger="worker")
        ctx.report_progress(2, 2, "All")
        return "done"

    add(server, work, read_only=read_only)
    outcome = waiting.call("work", meta=ALL)
    assert outcome.text == "done"
    assert outcome.told(LOG) == [
        {"level": "info", "data": "Begun"},
        {"level": "debug", "logger": "worker", "data": {"at": 2}},
    ]
    assert outcome.told(PROGRESS)[-1] == {"progressToken": "token", "progress": 2, "total": 2, "message": "All"}


def test_only_what_was_wanted_comes(server: MCPServer, waiting: Conversation) -> None:
    def work(ctx: Context) -> str:
        ctx.log("info", "Quiet")
        ctx.log("error", "Loud")
        ctx.report_progress(1)
        return "done"

    add(server, work)
    assert waiting.call("work").told(LOG) == []
    outcome = waiting.call("work", meta={META + "logLevel": "error"})
    assert [each["data"] for each in outcome.told(LOG)] == ["Loud"]
    assert outcome.told(PROGRESS) == []


@pytest.mark.parametrize("slow", [True, False])
def test_a_question_ends_the_round_and_its_answer_begins_the_next(
    server: MCPServer, waiting: Conversation, slow: bool, looks: list[object]
) -> None:
    runs: list[int] = []

    def work(ctx: Context) -> str:
        runs.append(1)
        ctx.log("info", f"Run {len(runs)}")
        if slow and len(runs) > 1:
            two_more(looks)  # words of the run before have come by now, if they come
        answer = ctx.elicit("Your name?", NAME, key="name")
        return str(answer.data["name"]) if answer.data else answer.action

    add(server, work)
    outcome = waiting.call("work", answers=[accept(name="A"), ANNA], meta={META + "logLevel": "debug"})
    assert outcome.text == "Anna"
    assert len(outcome.rounds) == 2
    assert [each["data"] for each in outcome.told(LOG)] == ["Run 1", "Run 2", "Run 3"]
    assert the_task().status == "completed"


def test_a_state_that_was_altered_or_is_anothers_is_refused(server: MCPServer, waiting: Conversation) -> None:
    def work(ctx: Context, number: int = 0) -> str:
        return ctx.elicit("Your name?", NAME, key="name").action

    add(server, work)
    asked = next(iter(waiting.begin("tools/call", {"name": "work", "arguments": {}})))["result"]
    answered = {"inputResponses": {"name": ANNA}}
    state = asked["requestState"]
    value = signing.loads(state, salt=SALT)
    forged = signing.dumps({**value, "task": "another"}, salt="another", compress=True)
    for bad in (state[:-1], "x" + state, forged, ""):
        outcome = waiting.request("tools/call", {"name": "work", "arguments": {}, "requestState": bad, **answered})
        assert outcome.error["code"] == -32602
    other = {"name": "work", "arguments": {"number": 1}, "requestState": state, **answered}
    assert waiting.request("tools/call", other).error["code"] == -32602
    good = {"name": "work", "arguments": {}, "requestState": state, **answered}
    assert waiting.request("tools/call", good).text == "accept"
    assert waiting.request("tools/call", good).error["code"] == -32602
    assert Task.objects.count() == 1


def test_a_client_that_learns_of_tasks_between_two_rounds_gets_its_own(
    server: MCPServer, waiting: Conversation, client: TaskClient
) -> None:
    def work(ctx: Context) -> str:
        return ctx.elicit("Your name?", NAME, key="name").action

    add(server, work)
    params = {"name": "work", "arguments": {}}
    asked = next(iter(waiting.begin("tools/call", params)))["result"]
    again = {**params, "requestState": asked["requestState"], "inputResponses": {"name": ANNA}}
    made = client.request("tools/call", again).result
    assert made["taskId"] == the_task().task_id
    assert client.text(made["taskId"]) == "accept"


@pytest.mark.postgresql
@pytest.mark.parametrize("edge", ["asgi"])
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_who_closes_the_connection_cancels_the_task(
    server: MCPServer, waiting: Conversation, gate: Gate, rows: Any, kind: str
) -> None:
    ended: list[str] = []
    add(server, endless(kind, gate, rows, ended))
    call = waiting.begin_call("work")
    gate.reached()
    call.exchange.leave()
    eventually(lambda: the_task().status == "cancelled", "the task goes on")
    eventually(lambda: ended, "the tool goes on")
    assert rows.written() == []


@pytest.mark.parametrize("edge", ["asgi"])
def test_who_closes_the_connection_while_asking_for_a_result_does_not(
    server: MCPServer, waiting: Conversation, gate: Gate
) -> None:
    def work() -> str:
        gate.wait()
        return "done"

    add(server, work)
    with soon():
        waiting.call("work")
    call = waiting.begin_call("get_task_result", task_id=the_task().task_id)
    call.exchange.leave()
    eventually(lambda: waiting.room.tasks == 0, "the request goes on")
    gate.open()
    assert later(waiting, the_task().task_id).text == "done"


def test_what_takes_too_long_is_to_be_asked_for_later(server: MCPServer, waiting: Conversation, gate: Gate) -> None:
    def work(ctx: Context) -> str:
        gate.wait()
        return "done"

    add(server, work)
    with soon():
        told = waiting.call("work")
        task_id = the_task().task_id
        assert not told.failed
        assert f'get_task_result with {{"task_id": "{task_id}"}}' in told.text
        again = later(waiting, task_id)
        assert task_id in again.text
    gate.open()
    assert later(waiting, task_id).text == "done"
    assert later(waiting, task_id).text == "done"


def test_who_is_to_ask_later_reads_how_far_it_is(server: MCPServer, waiting: Conversation, gate: Gate) -> None:
    def work(ctx: Context) -> str:
        ctx.report_progress(1, 2, "Half")
        gate.wait()
        return "done"

    add(server, work, read_only=True)
    with soon():
        waiting.call("work")
        eventually(lambda: the_task().progress, "the progress is not saved")
        task_id = the_task().task_id
        told = later(waiting, task_id).text
    gate.open()
    assert f"as task {task_id}. Progress: Half (1 of 2)\nTo get the result, call get_task_result" in told
    assert later(waiting, task_id).text == "done"


def test_with_an_output_schema_the_words_are_an_error_and_the_result_is_structured(
    server: MCPServer, waiting: Conversation, gate: Gate
) -> None:
    def work() -> dict[str, int]:
        gate.wait()
        return {"number": 7}

    add(server, work)
    with soon():
        told = waiting.call("work")
    assert told.failed
    assert "get_task_result" in told.text
    gate.open()
    result = later(waiting, the_task().task_id).result
    assert result["structuredContent"] == {"number": 7}
    assert not result.get("isError")


def test_a_task_is_asked_for_and_asks_itself(server: MCPServer, waiting: Conversation, gate: Gate) -> None:
    def work(ctx: Context) -> str:
        gate.wait()
        answer = ctx.elicit("Your name?", NAME, key="name")
        return str(answer.data["name"]) if answer.data else answer.action

    add(server, work)
    with soon():
        waiting.call("work")
    gate.open()
    outcome = later(waiting, the_task().task_id, [accept(name="A"), ANNA])
    assert outcome.text == "Anna"
    assert len(outcome.rounds) == 2


def test_errors_are_told_later_too(server: MCPServer, waiting: Conversation, gate: Gate) -> None:
    def work(how: str) -> str:
        gate.wait()
        raise ToolError("No.") if how == "told" else InvalidParams("Never.")

    add(server, work, read_only=True)  # two at once, which transactions are not on SQLite
    with soon():
        for how in ("told", "protocol"):
            waiting.call("work", how=how)
    gate.open()
    told, protocol = Task.objects.order_by("pk").values_list("task_id", flat=True)
    assert (later(waiting, told).failed, later(waiting, told).text) == (True, "No.")
    assert later(waiting, protocol).error["message"] == "Never."


def test_a_task_that_was_cancelled_elsewhere_is_told_so(
    server: MCPServer, waiting: Conversation, client: TaskClient, gate: Gate
) -> None:
    async def work() -> str:
        await gate.await_()
        return "done"

    add(server, work)
    task_id = client.call("work")
    client.cancel(task_id)
    outcome = later(waiting, task_id)
    assert (outcome.failed, outcome.text) == (True, "The task was cancelled.")


def test_unknown_tasks_are_told_to_the_model(server: MCPServer, waiting: Conversation) -> None:
    add(server, lambda: "done")
    for task_id in ("unknown", "", "a\0b"):
        outcome = later(waiting, task_id)
        assert outcome.failed, task_id
        assert "was not found" in outcome.text, task_id


def test_the_tool_for_results_is_listed_and_changes_nothing(server: MCPServer, waiting: Conversation) -> None:
    add(server, lambda: "done")
    listed = {each["name"]: each for each in waiting.request("tools/list").result["tools"]}
    assert set(listed) == {"work", "get_task_result"}
    assert listed["get_task_result"]["annotations"]["readOnlyHint"] is True
    assert listed["get_task_result"]["inputSchema"]["required"] == ["task_id"]
    assert "outputSchema" not in listed["get_task_result"]


@pytest.mark.postgresql
def test_too_many_unfinished_tasks_are_refused(server: MCPServer, client: TaskClient, gate: Gate) -> None:
    async def work() -> str:
        await gate.await_()
        return "done"

    add(server, work)
    with override_settings(DJANGO_MCP={**settings.DJANGO_MCP, "MAX_TASKS_PER_CALLER": 2}):
        one, two = client.call("work"), client.call("work")
        refused = client.request("tools/call", {"name": "work"})
        assert refused.failed
        assert "2 unfinished tasks" in refused.text
        client.cancel(one)
        three = client.call("work")
        gate.open()
        assert [client.text(each) for each in (two, three)] == ["done", "done"]
        assert client.run("work") == "done"


@contextmanager
def no_database() -> Iterator[None]:
    """As on a site that has none."""

    def refuse(*_: object) -> None:
        raise ImproperlyConfigured("There is no database.")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(connections["default"]), "vendor", "unknown")
        patch.setattr(database, "exists", lambda _: False)
        patch.setattr(Task, "objects", refuse)
        yield


def test_a_site_without_a_database_answers_at_once(
    server: MCPServer, waiting: Conversation, client: TaskClient
) -> None:
    seen: list[str] = []

    def work(ctx: Context) -> str:
        ctx.report_progress(1)
        return ctx.elicit("Your name?", NAME, key="name").action

    add(server, work, before_task=lambda: seen.append("before"))
    add_required = tool(server=server, name="always", task="required")
    add_required(lambda: "done")
    with no_database():
        assert waiting.call("work", answers=[ANNA]).text == "accept"
        assert client.request("tools/call", {"name": "always"}).text == "done"
        assert client.request("tasks/get", {"taskId": "x"}).error["code"] == -32602
        assert "was not found" in later(waiting, "x").text
    assert seen

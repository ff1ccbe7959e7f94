"""Tasks of 2025-11-25: what is declared, how one is made, what is said of it, and how it ends."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from django.conf import settings
from django.test import override_settings

from django_mcp import AllowAny, MCPServer, ToolError, tool
from django_mcp.models import Task
from tests.clients import LEGACY, MODERN, Client
from tests.conversation import Conversation
from tests.exchange import Room, eventually
from tests.tasks.legacy.conftest import Named, add_tools
from tests.tasks.legacy.work import RELATED, UNKNOWN, Work, begun, rows, state, until, wait_for

IMMEDIATE = "io.modelcontextprotocol/model-immediate-response"
OLDER = ["2025-06-18", "2025-03-26", "2024-11-05"]


def greeting(server: MCPServer, edge: str, version: str = LEGACY) -> dict[str, Any]:
    client = {"name": "tests", "version": "1"}
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": client}
    return Client(server, version, edge).request("initialize", params).result


# What is declared


def test_an_endpoint_with_such_tools_declares_tasks(server: MCPServer, edge: str) -> None:
    declared = greeting(server, edge)["capabilities"]["tasks"]
    assert declared == {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}


def test_an_endpoint_without_them_declares_none(make_server: Callable[..., MCPServer], edge: str, work: Work) -> None:
    server = make_server(authentication=[Named()])

    @tool(server=server, read_only=True)
    def hello() -> str:
        return "Hello."

    assert "tasks" not in greeting(server, edge)["capabilities"]
    client = Client(server, LEGACY, edge)
    for method in ("tasks/get", "tasks/list", "tasks/cancel", "tasks/result"):
        assert client.request(method, {"taskId": UNKNOWN}).code == -32601
    # Who declares none ignores what asks for one.
    assert client.request("tools/call", {"name": "hello", "arguments": {}, "task": "nonsense"}).text == "Hello."


def test_tasks_are_listed_where_callers_can_be_told_apart(
    make_server: Callable[..., MCPServer], edge: str, work: Work
) -> None:
    server = make_server(authentication=[AllowAny()])
    add_tools(server, work)
    assert set(greeting(server, edge)["capabilities"]["tasks"]) == {"cancel", "requests"}
    client = Client(server, LEGACY, edge)
    made = client.request("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}, "task": {}}).result["task"]
    assert client.request("tasks/list").code == -32601
    get = partial(client.request, "tasks/get", {"taskId": made["taskId"]})
    eventually(lambda: get().result["status"] == "completed", "it does not end")
    assert client.request("tasks/result", {"taskId": made["taskId"]}).text == "3"


def test_tools_say_whether_they_have_tasks(talk: Conversation) -> None:
    tools = {each["name"]: each for each in talk.request("tools/list").result["tools"]}
    assert tools["add"]["execution"] == {"taskSupport": "optional"}
    assert tools["dig"]["execution"] == {"taskSupport": "required"}
    assert "execution" not in tools["hello"]
    assert "execution" not in tools["get_task_result"]


def test_other_versions_hear_nothing_of_it(server: MCPServer, edge: str) -> None:
    mine = Client(server, LEGACY, edge)
    for version in (*OLDER, MODERN):
        for _ in range(2):  # pages that are the same for everybody are kept
            assert any("execution" in each for each in mine.list("tools/list"))
            assert not any("execution" in each for each in Client(server, version, edge).list("tools/list")), version
        assert version == MODERN or "tasks" not in greeting(server, edge, version)["capabilities"]


# How one is made


def test_a_call_that_asks_for_a_task_gets_one_at_once(talk: Conversation, work: Work) -> None:
    outcome = talk.request("tools/call", {"name": "wait", "arguments": {}, "task": {"ttl": 60_000}})
    task = outcome.result["task"]
    now = datetime.now(UTC)
    assert set(task) == {"taskId", "status", "createdAt", "lastUpdatedAt", "ttl", "pollInterval"}
    assert task["status"] == "working"
    assert task["ttl"] == 60_000
    assert task["pollInterval"] == 2000
    assert task["createdAt"] == task["lastUpdatedAt"]
    assert abs(now - datetime.fromisoformat(task["createdAt"])) < timedelta(seconds=30)
    assert task["taskId"] in outcome.result["_meta"][IMMEDIATE]
    assert state(talk, task["taskId"]) == task


@pytest.mark.postgresql
def test_a_task_is_kept_no_longer_than_tasks_are(talk: Conversation) -> None:
    with override_settings(DJANGO_MCP={**settings.DJANGO_MCP, "TASK_TTL": 1000}):
        for given in ({}, {"ttl": None}, {"ttl": 1e300}, {"ttl": 10**400}, {"pollInterval": 5}):
            assert state(talk, begun(talk, "add", given, a=1, b=1))["ttl"] == 1_000_000, given


def test_nonsense_is_refused(talk: Conversation) -> None:
    nonsense = [[], "yes", 1, True, {"ttl": "60"}, {"ttl": 0}, {"ttl": -1}, {"ttl": True}, {"ttl": [1]}]
    for given in nonsense:
        error = talk.request("tools/call", {"name": "add", "arguments": {"a": 1, "b": 1}, "task": given}).error
        assert error["code"] == -32602, given
        assert "params.task" in error["message"], given
    assert not Task.objects.exists()


def test_a_tool_without_tasks_does_not_run_as_one(talk: Conversation) -> None:
    for name in ("hello", "get_task_result"):
        error = talk.request("tools/call", {"name": name, "arguments": {"task_id": "x"}, "task": {}}).error
        assert error["code"] == -32601
        assert name in error["message"]


def test_a_tool_that_nobody_has_is_unknown_all_the_same(talk: Conversation) -> None:
    assert talk.request("tools/call", {"name": "nothing", "arguments": {}, "task": {}}).error["code"] == -32602


def test_a_hidden_tool_is_not_betrayed_by_its_lack_of_tasks(server: MCPServer, talk: Conversation) -> None:
    @tool(server=server, visible=lambda _: False)
    def secret() -> str:
        return "?"

    hidden = talk.request("tools/call", {"name": "secret", "arguments": {}, "task": {}}).error
    missing = talk.request("tools/call", {"name": "nosuch", "arguments": {}, "task": {}}).error
    assert hidden["code"] == missing["code"] == -32602


def test_a_tool_that_needs_a_task_is_not_called_without(talk: Conversation) -> None:
    outcome = talk.call("dig", depth=3)
    assert outcome.error["code"] == -32601
    assert "'task'" in outcome.error["message"]
    assert wait_for(talk, begun(talk, "dig", depth=3)).next()["result"]["content"][0]["text"] == "3 deep"


def test_wrong_arguments_make_no_task(talk: Conversation) -> None:
    outcome = talk.request("tools/call", {"name": "add", "arguments": {"a": 1}, "task": {}})
    assert outcome.error["code"] == -32602
    assert outcome.error["message"] == talk.call("add", a=1).text
    assert not Task.objects.exists()


def test_what_is_refused_beforehand_makes_no_task(server: MCPServer, talk: Conversation) -> None:
    def refuse(name: str) -> None:
        raise ToolError(f"There is no {name}.")

    @tool(server=server, task="optional", before_task=refuse)
    def act(name: str) -> str:
        return name

    outcome = talk.request("tools/call", {"name": "act", "arguments": {"name": "train"}, "task": {}})
    assert outcome.error == {"code": -32602, "message": "There is no train."}
    assert not Task.objects.exists()


def test_too_many_tasks_are_refused(talk: Conversation, work: Work) -> None:
    with override_settings(DJANGO_MCP={**settings.DJANGO_MCP, "MAX_TASKS_PER_CALLER": 1}):
        begun(talk)
        outcome = talk.request("tools/call", {"name": "wait", "arguments": {}, "task": {}})
    assert outcome.error["code"] == -32602
    assert "unfinished" in outcome.error["message"]


def test_a_client_of_an_older_version_waits_for_the_result(room: Room) -> None:
    params = {"name": "add", "arguments": {"a": 1, "b": 2}, "task": {"ttl": 10**400}}
    for version in OLDER:
        talk = Conversation(room, version)
        assert talk.request("tools/call", params).text == "3", version
        made = Task.objects.latest("pk")
        assert talk.request("tasks/get", {"taskId": made.task_id}).error["code"] == -32601, version
        assert talk.call("dig", depth=1).error["code"] == -32601, version


def test_a_client_without_a_session_has_tasks_too(sessionless: Conversation) -> None:
    task_id = begun(sessionless, "add", a=1, b=2)
    until(sessionless, task_id, "completed")
    assert wait_for(sessionless, task_id).next()["result"]["structuredContent"] == {"result": 3}
    assert [each["taskId"] for each in sessionless.request("tasks/list").result["tasks"]] == [task_id]


# How it ends


def test_the_result_is_that_of_the_call(talk: Conversation) -> None:
    task_id = begun(talk, "add", a=1, b=2)
    waited = wait_for(talk, task_id).next()["result"]
    assert waited.pop("_meta") == {RELATED: {"taskId": task_id}}
    assert waited == talk.call("add", a=1, b=2).result
    assert until(talk, task_id, "completed").keys() == {
        "taskId",
        "status",
        "createdAt",
        "lastUpdatedAt",
        "ttl",
        "pollInterval",
    }
    again = wait_for(talk, task_id).next()["result"]
    assert {**again, "_meta": {}} == {**waited, "_meta": {}}


def test_a_result_that_is_an_error_is_a_task_that_failed(talk: Conversation) -> None:
    task_id = begun(talk, "fail", how="tool")
    assert until(talk, task_id, "failed")["statusMessage"] == "There is no such year."
    result = wait_for(talk, task_id).next()["result"]
    assert result["isError"] is True
    assert result["content"] == [{"type": "text", "text": "There is no such year."}]
    assert [each["status"] for each in talk.request("tasks/list").result["tasks"]] == ["failed"]


def test_an_error_is_the_same_error(talk: Conversation) -> None:
    task_id = begun(talk, "fail", how="protocol")
    assert until(talk, task_id, "failed")["statusMessage"] == "Not like this."
    message = wait_for(talk, task_id).next()
    assert message["error"] == {"code": -32602, "message": "Not like this.", "data": {"like": "that"}}
    assert message["error"] == talk.call("fail", how="protocol").error


@pytest.mark.postgresql
def test_a_cancelled_task_leaves_nothing(talk: Conversation, work: Work) -> None:
    task_id = begun(talk, "write")
    eventually(lambda: work.runs, "it does not begin")
    cancelled = talk.request("tasks/cancel", {"taskId": task_id}).result
    assert (cancelled["taskId"], cancelled["status"]) == (task_id, "cancelled")
    assert cancelled["statusMessage"]
    work.wait_until_idle()
    assert rows() == 0
    assert state(talk, task_id) == cancelled
    error = wait_for(talk, task_id).next()["error"]
    assert error["code"] == -32602
    assert "cancelled" in error["message"]


def test_what_is_over_is_not_cancelled(talk: Conversation) -> None:
    for name, arguments, status in (("add", {"a": 1, "b": 1}, "completed"), ("fail", {"how": "tool"}, "failed")):
        task_id = begun(talk, name, **arguments)
        before = until(talk, task_id, status)
        error = talk.request("tasks/cancel", {"taskId": task_id}).error
        assert error["code"] == -32602
        assert status in error["message"]
        assert state(talk, task_id) == before


def test_a_task_is_not_cancelled_twice(talk: Conversation, work: Work) -> None:
    task_id = begun(talk)
    talk.request("tasks/cancel", {"taskId": task_id})
    error = talk.request("tasks/cancel", {"taskId": task_id}).error
    assert error["code"] == -32602
    assert "cancelled" in error["message"]


def test_progress_is_part_of_the_status(talk: Conversation, work: Work) -> None:
    task_id = begun(talk, steps=2)
    work.may_go_on.set()
    said = eventually(lambda: state(talk, task_id).get("statusMessage"), "nothing is said")
    assert said == "Step 1 (1 of 2)"


# Which task


METHODS = ["tasks/get", "tasks/cancel", "tasks/result"]


@pytest.mark.postgresql
def test_what_is_no_task_of_the_caller_is_unknown_in_the_same_words(
    talk: Conversation, other: Conversation, work: Work
) -> None:
    theirs, expired = begun(other), begun(talk, "add", a=1, b=1)
    until(talk, expired, "completed")
    Task.objects.filter(task_id=expired).update(expires=datetime.now(UTC) - timedelta(seconds=1))
    for method in METHODS:
        for task_id in (theirs, expired, UNKNOWN, "\0", ""):
            error = talk.request(method, {"taskId": task_id}).error
            assert error["code"] == -32602, (method, task_id)
            assert error["message"] == f"Task {task_id!r} was not found. It may have expired."
    assert state(other, theirs)["status"] == "working"


def test_an_id_is_a_string(talk: Conversation) -> None:
    for params in ({}, {"taskId": 1}, {"taskId": None}, {"taskId": ["x"]}):
        for method in METHODS:
            assert talk.request(method, params).error["code"] == -32602, (method, params)


def test_a_task_belongs_to_the_caller_and_not_to_the_session(room: Room, talk: Conversation) -> None:
    task_id = begun(talk, "add", a=1, b=2)
    assert talk.delete().status == 204
    assert wait_for(Conversation(room, LEGACY), task_id).next()["result"]["structuredContent"] == {"result": 3}


# The list


def listed(talk: Conversation, cursor: str | None = None) -> dict[str, Any]:
    return talk.request("tasks/list", {} if cursor is None else {"cursor": cursor}).result


@pytest.mark.postgresql
def test_a_list_has_the_newest_first_and_comes_in_pages(
    server: MCPServer, talk: Conversation, other: Conversation
) -> None:
    server.page_size = 2
    begun(other, "add", a=0, b=0)
    made = [begun(talk, "add", a=1, b=each) for each in range(5)]
    pages, cursor = [], None
    for _ in range(10):
        page = listed(talk, cursor)
        pages.append([each["taskId"] for each in page["tasks"]])
        cursor = page.get("nextCursor")
        if cursor is None:
            break
    assert pages == [[made[4], made[3]], [made[2], made[1]], [made[0]]]


def test_an_entry_says_what_is_said_of_the_task(talk: Conversation, work: Work) -> None:
    task_id = begun(talk)
    assert listed(talk)["tasks"] == [state(talk, task_id)]


def test_a_cursor_of_nobodys_is_refused(talk: Conversation) -> None:
    for cursor in ("x", 3, "YWZ0ZXI6LTE"):
        assert talk.request("tasks/list", {"cursor": cursor}).error["code"] == -32602, cursor


def test_a_list_without_tasks_is_empty(talk: Conversation) -> None:
    assert listed(talk) == {"tasks": []}


def test_what_may_not_be_used_any_more_is_neither_listed_nor_known(server: MCPServer, talk: Conversation) -> None:
    allowed = [True]

    @tool(server=server, read_only=True, task="optional", visible=lambda _: allowed[0])
    def secret() -> str:
        return "?"

    kept, hidden = begun(talk, "add", a=1, b=1), begun(talk, "secret")
    until(talk, hidden, "completed")
    assert len(listed(talk)["tasks"]) == 2
    allowed[0] = False
    assert [each["taskId"] for each in listed(talk)["tasks"]] == [kept]
    for method in METHODS:
        assert talk.request(method, {"taskId": hidden}).error["code"] == -32602

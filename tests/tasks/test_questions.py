"""What a task asks its client, and what becomes of the answers."""

import asyncio
from collections.abc import Callable, Generator
from typing import Any

import pytest

from django_mcp import Context, Elicitation, MCPServer, Progress, Roots, Sampling, tool
from django_mcp.models import Step, Task, TaskInput
from tests.conversation import CANCEL, DECLINE, accept, said
from tests.exchange import eventually
from tests.tasks.clients import TaskClient, knows_tasks
from tests.tasks.gates import Gate

NAME = {"type": "object", "properties": {"name": {"type": "string", "minLength": 2}}, "required": ["name"]}
ANNA = accept(name="Anna")


def asking(server: MCPServer, kind: str, body: Callable[[Context], str], **options: Any) -> None:
    """A tool ``ask`` with tasks, as a function of each kind."""

    def plain(ctx: Context) -> str:
        return body(ctx)

    async def coroutine(ctx: Context) -> str:
        return body(ctx)

    tool(server=server, name="ask", **{"task": "optional", **options})(plain if kind == "sync" else coroutine)


def name(ctx: Context, key: str = "name") -> str:
    answer = ctx.elicit("Your name?", NAME, key=key)
    return str(answer.data["name"]) if answer.data else answer.action


def test_a_question_waits_for_its_answer(server: MCPServer, client: TaskClient, kind: str) -> None:
    asking(server, kind, name)
    task_id = client.call("ask")
    question = {"method": "elicitation/create", "params": {"message": "Your name?", "requestedSchema": NAME}}
    assert client.asked(task_id) == {"name": question}
    assert client.asked(task_id) == {"name": question}
    assert set(client.update(task_id, {"name": ANNA})) == {"resultType", "_meta"}
    assert client.text(task_id) == "Anna"


def test_a_question_can_be_declined(server: MCPServer, client: TaskClient) -> None:
    asking(server, "sync", name)
    for answer in (DECLINE, CANCEL):
        task_id = client.call("ask")
        client.asked(task_id)
        client.update(task_id, {"name": answer})
        assert client.text(task_id) == answer["action"]


@pytest.mark.postgresql
def test_of_two_questions_the_task_waits_for_the_second_answer(
    server: MCPServer, client: TaskClient, kind: str
) -> None:
    runs: list[int] = []

    def body(ctx: Context) -> str:
        runs.append(1)
        one, two = ctx.ask(Elicitation("One?", NAME, key="one"), Elicitation("Two?", NAME, key="two"))
        return f"{one.data and one.data['name']} {two.data and two.data['name']}"

    asking(server, kind, body)
    task_id = client.call("ask")
    assert set(client.asked(task_id)) == {"one", "two"}
    client.update(task_id, {"two": accept(name="Ben"), "no such": ANNA, "": ANNA, "a\0b": ANNA})
    shown = client.get(task_id)
    assert (shown["status"], set(shown["inputRequests"])) == ("input_required", {"one"})
    client.update(task_id, {"two": accept(name="Cleo")})
    assert set(client.get(task_id)["inputRequests"]) == {"one"}
    client.update(task_id, {"one": ANNA, "two": accept(name="Dora")})
    assert client.text(task_id) == "Anna Ben"
    assert len(runs) == 2


def test_the_first_answer_counts_and_later_ones_are_ignored(server: MCPServer, client: TaskClient, gate: Gate) -> None:
    def body(ctx: Context) -> str:
        given = name(ctx)
        gate.wait()
        return given

    asking(server, "sync", body, read_only=True)
    task_id = client.call("ask")
    client.asked(task_id)
    client.update(task_id, {"name": ANNA})
    gate.reached()
    client.update(task_id, {"name": accept(name="Ben")})
    gate.open()
    assert client.text(task_id) == "Anna"
    assert TaskInput.objects.get().answer == {"result": ANNA}


def test_questions_one_after_the_other(server: MCPServer, client: TaskClient, kind: str) -> None:
    asking(server, kind, lambda ctx: f"{name(ctx, 'one')} {name(ctx, 'two')}")
    task_id = client.call("ask")
    assert set(client.asked(task_id)) == {"one"}
    client.update(task_id, {"one": ANNA})
    asked = eventually(lambda: client.asked(task_id).keys() - {"one"}, "it asks no more")
    assert asked == {"two"}
    client.update(task_id, {"two": accept(name="Ben")})
    assert client.text(task_id) == "Anna Ben"


def test_a_form_that_does_not_fit_is_asked_again_under_another_key_three_times(
    server: MCPServer, client: TaskClient, kind: str
) -> None:
    asking(server, kind, name)
    task_id = client.call("ask")
    seen: list[str] = []
    for _ in range(3):
        (key,) = client.asked(task_id)
        assert key not in seen
        seen.append(key)
        client.update(task_id, {key: accept(name="A")})
    result = client.ended(task_id)
    assert result["isError"]
    assert "do not match" in result["content"][0]["text"]


def test_the_second_try_may_fit(server: MCPServer, client: TaskClient) -> None:
    asking(server, "sync", name)
    task_id = client.call("ask")
    client.asked(task_id)
    client.update(task_id, {"name": accept(name="A")})
    (key,) = (asked := client.asked(task_id))
    assert "Your name?" in asked[key]["params"]["message"] != "Your name?"
    client.update(task_id, {"name": accept(name="Too late")})
    assert set(client.asked(task_id)) == {key}
    client.update(task_id, {key: ANNA})
    assert client.text(task_id) == "Anna"


def test_the_same_question_asked_twice_has_two_keys(server: MCPServer, client: TaskClient) -> None:
    asking(server, "sync", lambda ctx: " ".join(str(ctx.confirm("Sure?")) for _ in range(2)))
    task_id = client.call("ask")
    (one,) = client.asked(task_id)
    client.update(task_id, {one: accept(confirm=True)})
    (two,) = eventually(lambda: client.asked(task_id).keys() - {one}, "it asks no more")
    client.update(task_id, {two: accept(confirm=False)})
    assert client.text(task_id) == "True False"


@pytest.mark.postgresql
def test_an_answer_of_the_wrong_kind_ends_the_task(server: MCPServer, client: TaskClient) -> None:
    asking(server, "sync", name)
    for answer in ("yes", 7, None, {"action": "maybe"}, {}):
        task_id = client.call("ask")
        client.asked(task_id)
        client.update(task_id, {"name": answer})
        assert client.become(task_id, "failed")["error"]["code"] == -32602, answer


def test_a_client_that_cannot_be_asked_is_not(server: MCPServer, client: TaskClient, kind: str) -> None:
    asking(server, kind, name)
    client.talk.capabilities = {"extensions": knows_tasks()["extensions"]}
    result = client.ended(client.call("ask"))
    assert result["isError"]
    assert "elicitation" in result["content"][0]["text"]


def test_the_model_and_the_roots_can_be_asked_too(server: MCPServer, client: TaskClient, kind: str) -> None:
    def body(ctx: Context) -> str:
        sampled, roots = ctx.ask(Sampling("Say hello", key="model"), Roots(key="roots"))
        return f"{sampled.text} {roots[0].uri}"

    asking(server, kind, body)
    task_id = client.call("ask")
    asked = client.asked(task_id)
    assert {key: each["method"] for key, each in asked.items()} == {
        "model": "sampling/createMessage",
        "roots": "roots/list",
    }
    client.update(task_id, {"model": said("hello"), "roots": {"roots": [{"uri": "file:///home"}]}})
    assert client.text(task_id) == "hello file:///home"


@pytest.mark.postgresql
def test_what_is_done_once_is_done_once_in_all_runs(server: MCPServer, client: TaskClient) -> None:
    done: list[str] = []

    @tool(server=server, task="optional")
    def pay(ctx: Context) -> str:
        number = ctx.once("pay", lambda: done.append("paid") or len(done))
        return f"{name(ctx)} {number}"

    @tool(server=server, task="optional")
    async def apay(ctx: Context) -> str:
        async def act() -> int:
            await asyncio.sleep(0)
            done.append("paid")
            return len(done)

        number = await ctx.aonce("pay", act)
        return f"{name(ctx)} {number}"

    for number, each in enumerate(("pay", "apay"), 1):
        task_id = client.call(each)
        client.asked(task_id)
        client.update(task_id, {"name": ANNA})
        assert client.text(task_id) == f"Anna {number}"
    assert done == ["paid", "paid"]
    assert Step.objects.filter(key="once:pay", done=True).count() == 2


@pytest.mark.postgresql
def test_what_was_written_before_a_question_is_not_there_twice(
    server: MCPServer, client: TaskClient, rows: Any
) -> None:
    def body(ctx: Context) -> str:
        rows("written")
        return name(ctx)

    asking(server, "sync", body)
    task_id = client.call("ask")
    client.asked(task_id)
    assert rows.written() == []
    client.update(task_id, {"name": ANNA})
    client.ended(task_id)
    assert rows.written() == ["written"]


def test_tasks_of_a_task_group_ask_side_by_side(server: MCPServer, client: TaskClient) -> None:
    @tool(server=server, task="optional")
    async def ask(ctx: Context) -> str:
        async def one(key: str) -> str:
            await asyncio.sleep(0)
            return name(ctx, key)

        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(one(key)) for key in ("one", "two")]
        return " ".join(each.result() for each in asked)

    task_id = client.call("ask")
    assert set(client.asked(task_id)) == {"one", "two"}
    client.update(task_id, {"one": ANNA, "two": accept(name="Ben")})
    assert client.text(task_id) == "Anna Ben"


def test_a_task_that_asks_can_be_cancelled(server: MCPServer, client: TaskClient) -> None:
    asking(server, "sync", name)
    task_id = client.call("ask")
    client.asked(task_id)
    client.cancel(task_id)
    assert "inputRequests" not in client.become(task_id, "cancelled")
    client.update(task_id, {"name": ANNA})
    assert client.get(task_id)["status"] == "cancelled"


def test_a_client_may_answer_beforehand(server: MCPServer, client: TaskClient) -> None:
    asking(server, "sync", name)
    result = client.request("tools/call", {"name": "ask", "inputResponses": {"name": ANNA}}).result
    assert client.text(result["taskId"]) == "Anna"
    assert not TaskInput.objects.exists()


def test_a_question_that_is_never_the_same_twice_ends(server: MCPServer, client: TaskClient) -> None:
    runs: list[int] = []

    def body(ctx: Context) -> str:
        runs.append(1)
        return str(ctx.confirm(f"Sure? {len(runs)}"))

    asking(server, "sync", body)
    task_id = client.call("ask")
    answered: set[str] = set()
    while (shown := client.become(task_id, "input_required", "completed"))["status"] == "input_required":
        (key,) = shown["inputRequests"]
        if key not in answered:
            client.update(task_id, {key: accept(confirm=True)})
            answered.add(key)
    assert shown["result"]["isError"]
    assert len(answered) in {24, 25}


def test_a_generator_says_how_far_it_is(server: MCPServer, client: TaskClient, gate: Gate) -> None:
    @tool(server=server, task="optional", read_only=True)
    def count(ctx: Context) -> Generator[Progress, None, str]:
        yield Progress(1, 2, "Counting")
        gate.wait()
        return "two"

    task_id = client.call("count")
    assert eventually(lambda: client.get(task_id).get("statusMessage"), "nothing is said") == "Counting (1 of 2)"
    gate.open()
    assert client.text(task_id) == "two"


def test_a_tool_that_is_searched_has_tasks_too(make_server: Any, server: MCPServer, client: TaskClient) -> None:
    server._search_tools = 1
    asking(server, "sync", name)
    for each in ("one", "two", "three"):
        tool(server=server, name=each)(lambda: "done")
    listed = [each["name"] for each in client.request("tools/list").result["tools"]]
    relays = {"call_read_tool", "call_write_tool", "call_destructive_tool"}
    assert set(listed) == {"search_tools", *relays, "get_task_result"}
    outcome = client.request("tools/call", {"name": "call_destructive_tool", "arguments": {"name": "ask"}})
    task_id = outcome.result["taskId"]
    client.asked(task_id)
    client.update(task_id, {"name": ANNA})
    assert client.text(task_id) == "Anna"
    assert Task.objects.get().tool == "ask"

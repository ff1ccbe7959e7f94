"""Each way by which a call reaches a tool: by none of them does it run before somebody approved it."""

import json
from collections.abc import AsyncIterator, Callable, Iterator
from queue import Queue
from typing import Any

import pytest
from django import forms
from django.conf import settings
from django.contrib.auth.models import Group
from django.http import HttpRequest, HttpResponse
from ninja import NinjaAPI

from django_mcp import Context, MCPServer, ModelResource, Principal, form_tool, register, tool, view_tool
from django_mcp.approvals.decisions import approve, deny
from django_mcp.approvals.tool_policies import set_policy
from django_mcp.contrib.ninja import ninja_tools
from django_mcp.models import Approval, Task
from django_mcp.tasks.worker import run
from django_mcp.transports.stdio import Connection, django_request
from tests import referee
from tests.approvals.asking import (
    META,
    PAID,
    Calls,
    People,
    call,
    events,
    finished,
    kind,
    kind_of,
    newest,
    serve,
    the_ticket,
)
from tests.behaviour.users import as_user, group
from tests.clients import LEGACY, MODERN, Client
from tests.clients import META as MCP
from tests.conversation import Conversation, Outcome, accept
from tests.exchange import Room, eventually
from tests.tasks.clients import TaskClient, knows_tasks
from tests.tasks.legacy.work import NAMES
from tests.transports.test_http_sse import Listener, Worker, site

FIVE = {"amount": 5}
FORMS = {"elicitation": {"form": {}}}
OLDER = ("2024-11-05", "2025-03-26", "2025-06-18")


# Every version, at every edge


@pytest.mark.parametrize("version", [*OLDER, LEGACY, MODERN])
def test_in_every_version_at_every_edge(client: Client, people: People, pay: Calls) -> None:
    assert kind(call(client, people["ann"], amount=5)) == "approval_required"
    assert kind(call(client, people["ann"], amount=5)) == "pending"
    assert pay == []
    assert approve(the_ticket(), people["cleo"])
    assert call(client, people["ann"], amount=5).text == PAID
    assert kind(call(client, people["ann"], amount=5)) == "approval_required"
    assert len(pay) == 1


def test_in_a_batch_one_approval_is_one_call(server: MCPServer, people: People, pay: Calls, edge: str) -> None:
    client = Client(server, "2025-03-26", edge)
    params = {"name": "pay", "arguments": FIVE}
    batch = [{"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params} for number in range(3)]

    def send() -> list[str]:
        headers = {"mcp-protocol-version": "2025-03-26", **as_user(people["ann"])}
        answers = client.post(json.dumps(batch).encode(), headers).json
        return sorted(each["result"].get("_meta", {}).get(META, {}).get("kind", "ran") for each in answers)

    assert "ran" not in send()
    assert pay == []
    assert Approval.objects.count() == 1
    assert approve(the_ticket(), people["cleo"])
    assert send().count("ran") == 1
    assert len(pay) == 1


class Lines:
    """A client on the same machine, on one connection that carries all messages."""

    def __init__(self, server: MCPServer, room: Room, version: str, user: Any) -> None:
        self.room, self.version, self.incoming = room, version, Queue[dict[str, Any]]()
        principal = Principal("local", user.username, user)

        def write(line: bytes, *, is_optional: bool = False) -> None:
            self.incoming.put(json.loads(line))

        self.connection = room.call(lambda: Connection(server, principal, lambda: django_request(server), write))
        if version != MODERN:
            client = {"name": "tests", "version": "1"}
            self.request("initialize", protocolVersion=version, capabilities={}, clientInfo=client)

    def request(self, method: str, **params: Any) -> dict[str, Any]:
        if self.version == MODERN:
            params["_meta"] = {MCP + "protocolVersion": MODERN, MCP + "clientCapabilities": {}}
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        self.room.run(self.connection._take(json.dumps(message).encode()))
        while "method" in (answer := self.incoming.get(timeout=15)):
            pass
        referee.check_any(answer, method, self.version)
        return dict(answer["result"])


@pytest.mark.parametrize("edge", ["asgi"])
def test_over_standard_input_and_output(
    server: MCPServer, people: People, pay: Calls, room: Room, version: str
) -> None:
    lines = Lines(server, room, version, people["ann"])
    assert kind_of(lines.request("tools/call", name="pay", arguments=FIVE)) == "approval_required"
    assert pay == []
    assert approve(the_ticket(), people["cleo"])
    assert lines.request("tools/call", name="pay", arguments=FIVE)["content"][0]["text"] == PAID
    assert kind_of(lines.request("tools/call", name="pay", arguments=FIVE)) == "approval_required"
    assert len(pay) == 1
    room.run(lines.connection.end())


def test_over_http_with_sse(server: MCPServer, people: People, pay: Calls) -> None:
    with site(**{**settings.DJANGO_MCP, "HTTP_SSE": True, "POLL_INTERVAL": 0.02}), Worker(server, "asgi") as worker:
        listener = Listener([worker], headers=as_user(people["ann"]))
        listener.initialize({})
        params = {"name": "pay", "arguments": FIVE}
        assert kind_of(listener.request("tools/call", params)["result"]) == "approval_required"
        assert pay == []
        assert approve(the_ticket(), people["cleo"])
        assert listener.request("tools/call", params)["result"]["content"][0]["text"] == PAID
        assert kind_of(listener.request("tools/call", params)["result"]) == "approval_required"
        assert len(pay) == 1


# Tasks


@pytest.fixture
def knowing(room: Room, people: People) -> TaskClient:
    """Ann, with a client that knows tasks."""
    return TaskClient(Conversation(room, MODERN, knows_tasks()), **as_user(people["ann"]))


def test_a_task_waits_and_goes_on_by_itself(knowing: TaskClient, people: People, pay: Calls) -> None:
    task = knowing.call("pay", amount=5)
    assert knowing.call("pay", amount=5) == task, "the same call has the same task"
    assert knowing.get(task)["status"] == "working"
    assert pay == []
    assert approve(the_ticket(), people["cleo"])
    assert knowing.text(task) == PAID
    assert len(pay) == 1
    assert knowing.call("pay", amount=5) != task
    assert len(pay) == 1


def test_a_task_that_was_refused_says_why(knowing: TaskClient, people: People, pay: Calls) -> None:
    task = knowing.call("pay", amount=5)
    assert deny(the_ticket(), people["cleo"], reason="Too dear.")
    assert "Too dear." in knowing.text(task)
    assert pay == []


def test_a_task_that_was_cancelled_does_not_run_and_cannot_be_approved(
    knowing: TaskClient, people: People, pay: Calls
) -> None:
    task = knowing.call("pay", amount=5)
    knowing.cancel(task)
    assert not approve(the_ticket(), people["cleo"])
    assert knowing.get(task)["status"] == "cancelled"
    other = knowing.call("pay", amount=5)
    assert other != task
    assert pay == []


def test_a_worker_that_is_handed_a_waiting_task_runs_nothing(
    people: People, pay: Calls, parked: Callable[[], Task]
) -> None:
    task = parked()
    run(task.task_id)
    assert pay == []
    assert finished(task).result["_meta"][META]["kind"] == "expired"
    assert not approve(the_ticket(), people["cleo"])


def test_a_task_of_the_version_before_waits_too(room: Room, people: People, pay: Calls) -> None:
    talk = Conversation(room, LEGACY, headers=as_user(people["ann"]))
    (listed,) = talk.request("tools/list").result["tools"]
    assert listed["execution"] == {"taskSupport": "optional"}
    params = {"name": "pay", "arguments": FIVE, "task": {}}
    task = talk.request("tools/call", params).result["task"]["taskId"]
    assert pay == []
    assert approve(the_ticket(), people["cleo"])
    outcome = talk.request("tasks/result", {"taskId": task})
    assert outcome.text == PAID
    assert len(pay) == 1


def test_who_need_not_ask_may_ask_for_a_task_all_the_same(
    room: Room, server: MCPServer, people: People, pay: Calls
) -> None:
    people["ann"].groups.add(group("trusted"))
    set_policy(server, server.tools["pay"], "allow", group=group("trusted"))
    talk = Conversation(room, LEGACY, headers=as_user(people["ann"]))
    task = talk.request("tools/call", {"name": "pay", "arguments": FIVE, "task": {}}).result["task"]["taskId"]
    assert talk.request("tasks/result", {"taskId": task}).text == PAID
    assert len(pay) == 1
    group("trusted").delete()


@pytest.mark.parametrize("edge", ["asgi"])
def test_what_was_approved_and_is_asked_for_as_a_task_runs_once(room: Room, people: People, pay: Calls) -> None:
    talk = Conversation(room, LEGACY, FORMS, headers=as_user(people["ann"]))
    talk.call("pay", amount=5)
    assert approve(the_ticket(), people["cleo"])
    params = {"name": "pay", "arguments": FIVE, "task": {}}
    tasks = [talk.request("tools/call", params).result["task"]["taskId"] for _ in range(2)]
    assert tasks[0] != tasks[1]

    def ended() -> list[str]:
        """What came of those that are over. They run side by side: which is the faster one nobody knows."""
        states = {each: talk.request("tasks/get", {"taskId": each}).result["status"] for each in tasks}
        over = [each for each, state in states.items() if state in {"completed", "failed"}]
        return [talk.request("tasks/result", {"taskId": each}).text for each in over]

    assert eventually(lambda: PAID in ended())
    assert len(pay) == 1


def test_a_tool_with_tasks_of_its_own_waits_before_it_has_one(
    server: MCPServer, room: Room, people: People, knowing: TaskClient, version: str
) -> None:
    ran: list[str] = []

    def look(city: str) -> None:
        ran.append(f"looked at {city}")

    @tool(server=server, policy="ask", task="optional", before_task=look)
    def dig(city: str) -> str:
        ran.append(f"dug in {city}")
        return "dug"

    talk = Conversation(room, version, FORMS, headers=as_user(people["ann"]))
    assert kind_of(talk.call("dig", city="Porto").result) == "approval_required"
    assert approve(the_ticket(), people["cleo"])
    assert talk.call("dig", city="Porto").text == "dug"
    task = knowing.call("dig", city="Porto")
    assert ran.count("dug in Porto") == 1
    assert approve(newest(), people["cleo"])
    assert knowing.text(task) == "dug"
    assert ran.count("dug in Porto") == 2


# Kinds of tools

Kinds = dict[str, Callable[[MCPServer, list[str]], dict[str, Any]]]


class Letter(forms.Form):
    """A letter."""

    to = forms.CharField()
    text = forms.CharField(required=False)


class Groups(ModelResource):
    """Groups of the site."""

    fields = ("id", "name")
    actions = ("create", "update", "delete")
    writable_fields = ("name",)


def by_function(**options: Any) -> Any:
    def add(server: MCPServer, ran: list[str]) -> dict[str, Any]:
        tool(server=server, policy="ask", name="act", **options)(lambda: ran.append("ran") or "done")
        return {}

    return add


def by_coroutine(server: MCPServer, ran: list[str]) -> dict[str, Any]:
    @tool(server=server, policy="ask")
    async def act(ctx: Context) -> str:
        await ctx.aonce("act", later)
        return "done"

    async def later() -> None:
        ran.append("ran")

    return {}


def by_generator(server: MCPServer, ran: list[str]) -> dict[str, Any]:
    @tool(server=server, policy="ask")
    def act() -> Iterator[str]:
        ran.append("ran")
        yield "done"

    return {}


def by_async_generator(server: MCPServer, ran: list[str]) -> dict[str, Any]:
    @tool(server=server, policy="ask")
    async def act() -> AsyncIterator[str]:
        ran.append("ran")
        yield "done"

    return {}


def by_form(server: MCPServer, ran: list[str]) -> dict[str, Any]:
    form_tool(Letter, name="act", server=server, policy="ask", handle=lambda _, form: ran.append("ran"))
    return {"to": "ann"}


def by_view(server: MCPServer, ran: list[str]) -> dict[str, Any]:
    def send(request: HttpRequest) -> HttpResponse:
        ran.append("ran")
        return HttpResponse("done")

    view_tool(send, path="send/", method="POST", arguments={"to": str}, name="act", server=server, policy="ask")
    return {"to": "ann"}


def by_idempotency_key(server: MCPServer, ran: list[str]) -> dict[str, Any]:
    @tool(server=server, policy="ask", idempotency_key="key")
    def act(key: str) -> str:
        ran.append("ran")
        return "done"

    return {"key": "one"}


KINDS: Kinds = {
    "function": by_function(),
    "not atomic": by_function(atomic=False),
    "with a time limit": by_function(timeout=20),
    "one at a time": by_function(concurrency_limit=1),
    "read-only": by_function(read_only=True),
    "idempotent": by_function(idempotent=True),
    "coroutine": by_coroutine,
    "generator": by_generator,
    "async generator": by_async_generator,
    "form": by_form,
    "view": by_view,
}


def test_every_kind_of_tool(client: Client, server: MCPServer, people: People) -> None:
    wrong = {}
    for name, make in KINDS.items():
        server.remove(lambda _: True)
        ran: list[str] = []
        arguments = make(server, ran)
        told = []
        for _ in range(2):
            told += [kind(call(client, people["ann"], "act", **arguments)), len(ran)]
            assert approve(newest(), people["cleo"])
            told += [call(client, people["ann"], "act", **arguments).result.get("isError", False), len(ran)]
        if told != ["approval_required", 0, False, 1, "approval_required", 1, False, 2]:
            wrong[name] = told
        Approval.objects.all().delete()
    assert wrong == {}


def test_an_operation_of_an_api(client: Client, server: MCPServer, people: People) -> None:
    api, ran = NinjaAPI(urls_namespace="approvals"), []

    @api.post("/pay")
    def pay(request: HttpRequest, amount: int) -> str:
        ran.append(amount)
        return "paid"

    ninja_tools(api, server=server, policy="ask")
    (name,) = server.tools
    assert kind(call(client, people["ann"], name, amount=5)) == "approval_required"
    assert approve(newest(), people["cleo"])
    assert kind(call(client, people["ann"], name, amount=6)) == "approval_required"
    assert ran == []
    assert kind(call(client, people["ann"], name, amount=6)) == "pending"


def test_tools_that_write_rows(
    client: Client, server: MCPServer, people: People, request: pytest.FixtureRequest
) -> None:
    people["ann"].is_superuser = True
    people["ann"].save()
    row = Group.objects.create(name="old")
    request.addfinalizer(Group.objects.filter(pk=row.pk).delete)
    register(Group, Groups, server=server)
    calls = {"update_group": {"pk": row.pk, "name": "new"}, "delete_group": {"pk": row.pk}}
    for name, arguments in calls.items():
        answer = call(client, people["ann"], name, **arguments)
        assert kind(answer) == "approval_required", answer.text
        assert Group.objects.filter(name="old" if name == "update_group" else "new").exists()
        assert approve(newest(), people["cleo"])
        assert not call(client, people["ann"], name, **arguments).result.get("isError")
    assert not Group.objects.filter(pk=row.pk).exists()


def test_through_a_relay_where_tools_are_searched(
    make_server: Callable[..., MCPServer], server: MCPServer, people: People, pay: Calls, version: str, edge: str
) -> None:
    wide = make_server("wide", source=server, authentication=server.authentication, search_tools=True)
    client = Client(wide, version, edge)
    relayed = {"name": "pay", "arguments": FIVE}
    assert kind(call(client, people["ann"], "call_destructive_tool", **relayed)) == "approval_required"
    assert pay == []
    assert approve(the_ticket(), people["cleo"])
    assert call(client, people["ann"], "call_destructive_tool", **relayed).text == PAID
    assert kind(call(client, people["ann"], "call_destructive_tool", **relayed)) == "approval_required"
    assert kind(call(client, people["ann"], amount=5)) == "pending", "by its own name it is the same call"
    assert len(pay) == 1


def test_a_tool_that_is_registered_while_the_site_runs_is_asked_about_at_once(
    server: MCPServer, people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    from django_mcp.approvals import tool_policies
    from django_mcp.core.policies import policy_cache

    monkeypatch.setattr(policy_cache, "reload", lambda: tool_policies.reload_policies() and 1000.0)
    tool(server=server, name="first")(lambda: "done")
    serve(server, people["ann"], "first", {})
    tool(server=server, policy="ask", name="second")(lambda: "done")
    assert kind_of(serve(server, people["ann"], "second", {})) == "approval_required"
    policy_cache.expire()


# Repeated calls


def test_a_call_that_is_repeated_under_its_key_runs_once_and_needs_one_approval(
    client: Client, server: MCPServer, people: People
) -> None:
    ran: list[str] = []
    by_idempotency_key(server, ran)
    assert kind(call(client, people["ann"], "act", key="one")) == "approval_required"
    assert approve(the_ticket(), people["cleo"])
    for _ in range(3):
        assert call(client, people["ann"], "act", key="one").text == "done"
    assert ran == ["ran"]
    assert kind(call(client, people["ann"], "act", key="two")) == "approval_required"
    assert kind(call(client, people["ben"], "act", key="one")) == "approval_required"
    assert ran == ["ran"]


# Tools that ask


def asking(server: MCPServer, **options: Any) -> dict[str, list[str]]:
    """A tool that asks twice; how often it began, acted and ended."""
    seen: dict[str, list[str]] = {"began": [], "acted": [], "ended": []}

    @tool(server=server, policy="ask", **options)
    def marry(ctx: Context, city: str = "Porto") -> str:
        seen["began"].append(city)
        ctx.once("act", lambda: seen["acted"].append(city))
        names = [ctx.elicit(f"Who, {number}?", NAMES, key=f"{number}").data["name"] for number in (1, 2)]
        seen["ended"].append(city)
        return " and ".join(names)

    return seen


def married(talk: Conversation, people: People) -> Outcome:
    return talk.request(
        "tools/call",
        {"name": "marry", "arguments": {}},
        [accept(name="Ada"), accept(name="Bob")],
        headers=as_user(people["ann"]),
    )


@pytest.fixture
def talk(room: Room, version: str, people: People) -> Conversation:
    """Ann, with a client that fills in forms."""
    return Conversation(room, version, FORMS, headers=as_user(people["ann"]))


@pytest.mark.parametrize("options", [{}, {"idempotent": True}, {"timeout": 20}], ids=str)
def test_a_tool_that_asks_is_approved_once_for_all_its_rounds(
    talk: Conversation, server: MCPServer, people: People, options: dict[str, Any]
) -> None:
    seen = asking(server, **options)
    assert kind_of(married(talk, people).result) == "approval_required"
    assert approve(the_ticket(), people["cleo"])
    assert married(talk, people).text == "Ada and Bob"
    assert {key: len(each) for key, each in seen.items()} == {"began": 3, "acted": 1, "ended": 1}
    assert (the_ticket().state, the_ticket().rounds) == ("consumed", 3)
    assert kind_of(married(talk, people).result) == "approval_required"
    assert seen["ended"] == ["Porto"]
    assert seen["acted"] == ["Porto"]


@pytest.mark.parametrize("idempotent", [True, False])
def test_a_round_that_was_run_is_not_run_again(room: Room, server: MCPServer, people: People, idempotent: bool) -> None:
    seen = asking(server, idempotent=idempotent)
    talk = Conversation(room, MODERN, FORMS, headers=as_user(people["ann"]))
    params: dict[str, Any] = {"name": "marry", "arguments": {}}
    list(talk.begin("tools/call", params))
    assert approve(the_ticket(), people["cleo"])
    (first,) = talk.begin("tools/call", params)
    state = {"requestState": first["result"]["requestState"], "inputResponses": {"1": accept(name="Ada")}}
    (second,) = talk.begin("tools/call", {**params, **state})
    assert second["result"]["resultType"] == "input_required"
    begun = len(seen["began"])
    for answer in ("Ada", "Eve"):
        *_, again = talk.begin("tools/call", {**params, **state, "inputResponses": {"1": accept(name=answer)}})
        assert "error" in again or kind_of(again["result"]) in {"approval_required", "pending"}
    assert len(seen["began"]) == begun
    state = {"requestState": second["result"]["requestState"], "inputResponses": {"2": accept(name="Bob")}}
    (third,) = talk.begin("tools/call", {**params, **state})
    assert third["result"]["content"][0]["text"] == "Ada and Bob"
    assert len(seen["ended"]) == 1


@pytest.mark.parametrize("edge", ["asgi"])
def test_what_somebody_else_was_given_to_go_on_with_is_nothing_for_others(
    room: Room, server: MCPServer, people: People
) -> None:
    seen = asking(server, idempotent=True)
    ann, ben = (Conversation(room, MODERN, FORMS, headers=as_user(people[name])) for name in ("ann", "ben"))
    params: dict[str, Any] = {"name": "marry", "arguments": {}}
    list(ann.begin("tools/call", params))
    assert approve(the_ticket(), people["cleo"])
    (first,) = ann.begin("tools/call", params)
    begun = len(seen["began"])
    state = {"requestState": first["result"]["requestState"], "inputResponses": {"1": accept(name="Ada")}}
    for talk, more in ((ben, {}), (ann, {"arguments": {"city": "Faro"}})):
        *_, answer = talk.begin("tools/call", {**params, **state, **more})
        assert "error" in answer
    assert len(seen["began"]) == begun


@pytest.mark.parametrize("edge", ["asgi"])
def test_a_tool_that_changed_between_two_rounds_does_not_go_on(room: Room, server: MCPServer, people: People) -> None:
    seen = asking(server)
    talk = Conversation(room, MODERN, FORMS, headers=as_user(people["ann"]))
    params: dict[str, Any] = {"name": "marry", "arguments": {}}
    list(talk.begin("tools/call", params))
    assert approve(the_ticket(), people["cleo"])
    (first,) = talk.begin("tools/call", params)
    changed = server.tools["marry"]
    changed.definition = {**changed.definition, "description": "Divorce."}
    state = {"requestState": first["result"]["requestState"], "inputResponses": {"1": accept(name="Ada")}}
    *_, answer = talk.begin("tools/call", {**params, **state})
    assert kind_of(answer["result"]) == "approval_required"
    assert len(seen["began"]) == 1


def test_a_task_that_asks_is_approved_once_for_all_its_rounds(
    knowing: TaskClient, server: MCPServer, people: People
) -> None:
    seen = asking(server)
    task = knowing.call("marry")
    assert approve(the_ticket(), people["cleo"])
    for name in ("Ada", "Bob"):
        (key,) = knowing.asked(task)
        knowing.update(task, {key: accept(name=name)})
    assert knowing.text(task) == "Ada and Bob"
    assert {key: len(each) for key, each in seen.items()} == {"began": 3, "acted": 1, "ended": 1}
    assert the_ticket().state == "consumed"


def test_a_client_that_accepts_everything_approves_nothing(
    room: Room, version: str, people: People, pay: Calls
) -> None:
    talk = Conversation(room, version, headers=as_user(people["ann"]))
    outcome = talk.request(
        "tools/call", {"name": "pay", "arguments": FIVE}, lambda _: {"action": "accept", "content": {"confirm": True}}
    )
    assert kind_of(outcome.result) in {"approval_required", "pending"}
    assert pay == []
    assert the_ticket().state == "pending"
    assert {each["params"]["mode"] for each in outcome.asked} <= {"url"}
    assert "executed" not in events(the_ticket())

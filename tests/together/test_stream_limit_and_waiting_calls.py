"""The limit of a caller's streams, and calls whose response is held while a person decides or a task works."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from django.conf import settings
from django.db import connections
from django.test import override_settings

from django_mcp import Context, MCPServer, tool
from django_mcp.approvals.decisions import approve
from django_mcp.models import Approval
from django_mcp.pubsub import stream_slots
from tests.approvals.asking import kind_of
from tests.approvals.conftest import people, server  # noqa: F401 - fixtures
from tests.behaviour.users import as_user
from tests.clients import LEGACY, MODERN, Client
from tests.conftest import end_tasks
from tests.conversation import Call, Conversation, accept
from tests.exchange import Exchange, Room, eventually
from tests.tasks.gates import Gate
from tests.transports.test_http_sse import ON, Listener, Worker, site

pytestmark = [pytest.mark.postgresql, pytest.mark.mariadb, pytest.mark.usefixtures("_limited")]

People = dict[str, Any]
Message = dict[str, Any]
LISTEN = {"notifications": {"toolsListChanged": True}}
LONG = 20.0


@pytest.fixture
def _limited(people: People) -> Iterator[None]:  # noqa: F811 - the fixture
    """A caller has two streams, and waits for long."""
    given = {"MAX_STREAMS_PER_CALLER": 2, "APPROVAL_WAIT_TIMEOUT": LONG, "TASK_WAIT_TIMEOUT": LONG}
    with override_settings(DJANGO_MCP={**settings.DJANGO_MCP, **given, "POLL_INTERVAL": 0.02}):
        yield


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.open()
    end_tasks()


@pytest.fixture(autouse=True)
def tools(server: MCPServer, gate: Gate) -> None:  # noqa: F811 - the fixture
    @tool(server=server, policy="ask")
    def pay(ctx: Context, amount: int) -> str:
        """Pay money."""
        return f"Paid {amount}."

    @tool(server=server, policy="ask")
    def pay_and_ask(ctx: Context) -> str:
        """Pay money to somebody."""
        return str(ctx.confirm("Sure?"))

    @tool(server=server, task="optional", read_only=True)
    async def dig() -> str:
        """Dig."""
        await gate.await_()
        return "deep"


@pytest.fixture
def talk(room: Room, people: People) -> Callable[..., Conversation]:  # noqa: F811 - the fixture
    return lambda version: Conversation(room, version, {}, headers=as_user(people["ann"])).open()


def begin(talk: Conversation, name: str, **params: Any) -> Call:
    return talk.begin("tools/call", {"name": name, "arguments": {}, **params})


def pay(talk: Conversation, amount: int) -> Call:
    """A call that waits for its approval."""
    before = Approval.objects.count()
    call = begin(talk, "pay", arguments={"amount": amount}, _meta={"progressToken": amount})
    eventually(lambda: Approval.objects.count() > before, "nobody is asked")
    return call


def last(call: Call) -> Message:
    *_, message = call
    return message


def text(call: Call) -> str:
    found: str = last(call)["result"]["content"][0]["text"]
    return found


def approved(approver: Any) -> None:
    for approval in Approval.objects.filter(state="pending"):
        assert approve(approval, approver)


def refused(exchange: Exchange) -> bool:
    return exchange.begun().status == 429


@pytest.mark.parametrize("version", [MODERN, LEGACY])
def test_a_call_that_waits_for_approval_counts_and_one_too_many_does_not_wait(
    room: Room,
    talk: Callable[..., Conversation],
    people: People,  # noqa: F811 - the fixture
    version: str,
) -> None:
    mine = talk(version)
    calls = [pay(mine, 1), pay(mine, 2)]
    assert kind_of(last(pay(mine, 3))["result"]) == "approval_required", "it waits, although two wait"
    assert refused(talk(MODERN).begin("subscriptions/listen", LISTEN).exchange)
    assert refused(talk(LEGACY).get())
    other = Conversation(room, MODERN, {}, headers=as_user(people["ben"]))
    assert other.begin("subscriptions/listen", LISTEN).exchange.begun().status == 200
    approved(people["cleo"])
    assert [text(call) for call in calls] == ["Paid 1.", "Paid 2."]
    assert text(begin(mine, "pay", arguments={"amount": 3})) == "Paid 3.", "once it was approved"
    assert not refused(talk(LEGACY).get()), "its place is free"


def test_a_call_that_waits_under_wsgi_counts(
    server: MCPServer,  # noqa: F811 - the fixture
    people: People,  # noqa: F811 - the fixture
) -> None:
    answers: list[Any] = []

    def wait(amount: int) -> None:
        try:
            client = Client(server, MODERN, "view")
            answers.append(client.request("tools/call", body(amount), headers=as_user(people["ann"])).result)
        finally:
            connections.close_all()

    def body(amount: int) -> Mapping[str, Any]:
        return {"name": "pay", "arguments": {"amount": amount}}

    waiting = [threading.Thread(target=wait, args=(amount,)) for amount in (1, 2)]
    for thread in waiting:
        thread.start()
    eventually(lambda: sum(map(len, stream_slots._slots.values())) == 2, "they do not wait")
    wait(3)
    assert kind_of(answers[0]) == "approval_required"
    approved(people["cleo"])
    for thread in waiting:
        thread.join()
    assert sorted(answer["content"][0]["text"] for answer in answers[1:]) == ["Paid 1.", "Paid 2."]
    assert not stream_slots._slots


@pytest.mark.parametrize("version", [MODERN, "2025-06-18"])
@pytest.mark.parametrize("again", [False, True])
def test_a_client_without_tasks_that_waits_for_one_counts(
    talk: Callable[..., Conversation],
    gate: Gate,
    version: str,
    again: bool,
) -> None:
    """By the call itself, or by ``get_task_result``."""
    mine, task = talk(version), ""
    if again:
        with override_settings(DJANGO_MCP={**settings.DJANGO_MCP, "TASK_WAIT_TIMEOUT": 0.001}):
            task = text(begin(mine, "dig")).partition("as task ")[2].split(".")[0]
    params = {"name": "get_task_result", "arguments": {"task_id": task}} if again else {"name": "dig"}
    calls = [begin(mine, **params), begin(mine, **params)]
    eventually(lambda: sum(map(len, stream_slots._slots.values())) == 2, "they do not wait")
    assert "still running" in text(begin(mine, **params))
    assert refused(talk(LEGACY).get())
    gate.open()
    assert [text(call) for call in calls] == ["deep", "deep"]


def test_a_call_that_waits_is_resumed_although_its_caller_has_no_stream_left(
    talk: Callable[..., Conversation],
    people: People,  # noqa: F811 - the fixture
) -> None:
    mine = talk(LEGACY)
    calls = [pay(mine, 1), pay(mine, 2)]
    for call in calls:
        call.exchange.wait(lambda call=call: len(call.exchange.events) > 1, "nothing is told")
        call.next()
        call.exchange.leave()
        call.come_back()
        assert call.exchange.begun().status == 200
    assert refused(talk(LEGACY).get()), "each counts once more"
    approved(people["cleo"])
    assert [text(call) for call in calls] == ["Paid 1.", "Paid 2."]


def test_a_call_that_asks_after_its_approval_is_resumed_likewise(
    talk: Callable[..., Conversation],
    room: Room,
    people: People,  # noqa: F811 - the fixture
) -> None:
    mine = Conversation(room, LEGACY, {"elicitation": {}}, headers=as_user(people["ann"])).open()
    call = begin(mine, "pay_and_ask", _meta={"progressToken": 1})
    eventually(lambda: Approval.objects.filter(tool="pay_and_ask").exists(), "nobody is asked")
    other = pay(mine, 2)
    call.next()
    call.exchange.leave()
    call.come_back()
    assert call.exchange.begun().status == 200
    approved(people["cleo"])
    assert text(other) == "Paid 2."
    question = call.next()
    assert question is not None
    mine.reply(question, accept(confirm=True))
    assert text(call) == "True"


def test_a_resumed_wait_for_a_task_replaces_the_one_before(talk: Callable[..., Conversation], gate: Gate) -> None:
    mine = talk(LEGACY)
    created = last(begin(mine, "dig", task={}))["result"]["task"]["taskId"]
    calls = [mine.begin("tasks/result", {"taskId": created}) for _ in range(2)]
    for call in calls:
        event = call.exchange.next()
        assert event is not None
        for _ in range(2):
            before, again = call.exchange, mine.get(event.id)
            assert again.begun().status == 200
            before.done()
            call.exchanges.append(again)
    assert refused(mine.begin("tasks/result", {"taskId": created}).exchange)
    gate.open()
    assert [json.loads(call.exchange.done().events[-1].data or "")["id"] for call in calls] == [
        call.body["id"] for call in calls
    ]


def test_a_session_whose_client_comes_back_has_a_stream_although_the_old_one_was_not_closed(
    talk: Callable[..., Conversation],
) -> None:
    mine, other = talk(LEGACY), talk(LEGACY)
    streams = [mine.get().begun(), other.get().begun()]
    assert refused(talk(LEGACY).get())
    event = streams[0].next()
    assert event is not None
    again = mine.get(event.id)
    assert again.begun().status == 200
    assert streams[0].done()
    assert not streams[1].ended


def test_calls_that_wait_over_http_and_sse_are_counted_apart_from_the_streams(
    server: MCPServer,  # noqa: F811 - the fixture
    people: People,  # noqa: F811 - the fixture
    gate: Gate,
) -> None:
    with site(**ON, MAX_STREAMS_PER_CALLER=1), Worker(server, "asgi") as worker:
        listener = Listener([worker], LEGACY, as_user(people["ann"]))
        listener.initialize()
        task = listener.request("tools/call", {"name": "dig", "arguments": {}, "task": {}})["result"]["task"]["taskId"]
        waiting = listener.begin("tasks/result", {"taskId": task})
        eventually(lambda: len(stream_slots._slots) == 2, "it does not wait")
        refused = listener.request("tasks/result", {"taskId": task})
        assert refused["error"]["message"].startswith("You have 1 open streams, the maximum.")
        assert kind_of(listener.request("tools/call", {"name": "pay", "arguments": {"amount": 1}})["result"])
        gate.open()
        assert listener.answer(waiting)["result"]["content"][0]["text"] == "deep"

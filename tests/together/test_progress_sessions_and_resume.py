"""Progress of a call in a session that is resumed: little is stored of much, and the answer arrives."""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from django_mcp import Context, MCPServer, resource, tool
from django_mcp.models import Event, EventSequence, Session
from django_mcp.pubsub import event_store
from django_mcp.revisions.base import SSEEvent
from django_mcp.revisions.legacy.channel import MAX_STORED
from django_mcp.transports.sse import MAX_BYTES, MAX_WAITING, BufferedResponse
from tests.clients import LEGACY
from tests.conversation import Conversation, accept
from tests.exchange import WITHIN, Room, eventually

pytestmark = pytest.mark.postgresql

MANY = 1200
PROGRESS = "notifications/progress"
TOKEN = {"progressToken": "t"}
YES = accept(confirm=True)


@pytest.fixture(params=["asgi", "view"])
def room(request: pytest.FixtureRequest, server: MCPServer, open_database: None) -> Iterator[Room]:
    with Room(server, request.param) as room:
        yield room


@pytest.fixture
def talk(server: MCPServer, room: Room) -> Conversation:
    @tool(server=server)
    def count(ctx: Context) -> str:
        for number in range(MANY):
            ctx.report_progress(number, MANY)
        return "counted"

    @tool(server=server)
    async def count_async(ctx: Context) -> str:
        for number in range(MANY):
            ctx.report_progress(number, MANY)
            if number % 100 == 0:
                await asyncio.sleep(0)
        return "counted"

    @tool(server=server)
    def count_and_ask(ctx: Context) -> str:
        for number in range(MANY):
            ctx.report_progress(number, MANY)
        return f"counted {ctx.confirm('Sure?')}"

    return Conversation(room, LEGACY).open()


def begun(talk: Conversation, name: str) -> Any:
    return talk.begin("tools/call", {"name": name, "arguments": {}, "_meta": TOKEN})


@pytest.mark.parametrize("name", ["count", "count_async"])
def test_a_bounded_number_of_messages_is_stored_with_the_answer(talk: Conversation, name: str) -> None:
    before = Event.objects.count()
    *messages, answer = begun(talk, name)
    assert answer["result"]["content"][0]["text"] == "counted"
    progress = [message["params"]["progress"] for message in messages if message.get("method") == PROGRESS]
    assert progress == sorted(set(progress))
    assert progress[-1] == MANY - 1
    assert Event.objects.count() - before <= MAX_STORED + 3  # the last message, the answer and the end


@pytest.mark.parametrize("room", ["asgi"], indirect=True)
def test_whoever_resumes_gets_what_is_stored_the_last_message_and_the_answer(talk: Conversation) -> None:
    first = talk_events = begun(talk, "count").exchange.done().events
    again = [event.message for event in talk.get(first[0].id).done().events if event.message]
    assert len(again) <= MAX_STORED + 2
    assert again[-2]["params"]["progress"] == MANY - 1
    assert again[-1]["result"]["content"][0]["text"] == "counted"
    assert len(talk_events) > MAX_STORED


def test_the_question_and_the_answer_after_it_arrive_too(talk: Conversation) -> None:
    outcome = talk.request("tools/call", {"name": "count_and_ask", "arguments": {}, "_meta": TOKEN}, [YES])
    assert outcome.text == "counted True"
    assert Event.objects.filter(topic__startswith="stream:").count() <= 2 * (MAX_STORED + 3)


def test_a_response_that_is_sent_at_its_end_keeps_the_last_messages_and_all_else() -> None:
    response = BufferedResponse(takes_events=True, can_hold=False)
    response.send(SSEEvent(b'"question"', id="a.1"))
    for number in range(10 * MAX_WAITING):
        response.send(SSEEvent(b'"%d"' % number, is_optional=True))
    response.send(SSEEvent(b'"answer"'))
    assert len(response.frames) == MAX_WAITING + 2
    kept = b"".join(response.frames)
    assert b'"question"' in kept
    assert b'"%d"' % (10 * MAX_WAITING - 1) in kept
    assert b'"answer"' in kept
    for _ in range(20):
        response.send(SSEEvent(b'"%s"' % (b"x" * (MAX_BYTES // 4)), is_optional=True))
    assert sum(map(len, response.frames)) <= MAX_BYTES + 1000


# What a session stores of notifications


def cancelled(talk: Conversation, request_id: Any) -> None:
    assert talk.notify("notifications/cancelled", {"requestId": request_id}).status == 202


def rows(talk: Conversation) -> int:
    return Event.objects.filter(topic__startswith="session:").count()


@pytest.mark.parametrize("room", ["asgi"], indirect=True)
def test_repeated_notifications_and_subscriptions_are_stored_once(server: MCPServer, talk: Conversation) -> None:
    @resource("note://a", server=server)
    def note() -> str:
        return "a"

    before = rows(talk)
    for _ in range(5):
        cancelled(talk, 77)
        cancelled(talk, "77")
        talk.notify("notifications/initialized")
        talk.request("resources/subscribe", {"uri": "note://a"})
        talk.request("resources/unsubscribe", {"uri": "note://a"})
    assert rows(talk) - before == 3


@pytest.mark.parametrize("room", ["asgi"], indirect=True)
def test_a_session_keeps_the_last_of_its_notifications(talk: Conversation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("django_mcp.revisions.legacy.sessions.MAX_EVENTS", 20)
    monkeypatch.setattr("django_mcp.revisions.legacy.sessions.TRIM_EVERY", 10)
    other = Conversation(talk.room, LEGACY).open()
    for number in range(60):
        cancelled(talk, 1000 + number)
        cancelled(other, 1000 + number)  # so that each has every other position
    assert rows(talk) < 2 * (20 + 10) + 2
    assert Event.objects.filter(data__contains="1059").count() == 2


@pytest.mark.parametrize("room", ["asgi"], indirect=True)
def test_a_call_reads_nothing_that_was_cancelled_before_it(
    server: MCPServer, talk: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_end, read = threading.Event(), list[int]()

    @tool(server=server)
    async def wait(ctx: Context) -> str:
        await asyncio.to_thread(may_end.wait, WITHIN)
        return "waited"

    after = event_store.after

    def counted(position: int, topics: Any) -> Any:
        entries = after(position, topics)
        if topics[0].startswith("session:"):
            read.append(len(entries))
        return entries

    monkeypatch.setattr(event_store, "after", counted)
    for number in range(50):
        cancelled(talk, 1000 + number)
    call = talk.begin("tools/call", {"name": "wait", "arguments": {}}, request_id=1001)  # an id that is used again
    eventually(lambda: read, "it does not watch")
    may_end.set()
    assert [*call][-1]["result"]["content"][0]["text"] == "waited"
    assert read == [0]


@pytest.mark.parametrize("room", ["asgi"], indirect=True)
def test_streams_that_are_opened_again_and_again_are_stored_once(talk: Conversation) -> None:
    streams = [talk.get().begun() for _ in range(5)]
    assert streams[-1].next() is not None
    assert [stream.done().status for stream in streams[:-1]] == [200] * 4, "earlier ones end"
    assert Event.objects.filter(topic__startswith="session:", data__contains="opened").count() == 1
    assert Session.objects.get().last_event == Event.objects.get(data__contains="opened").position


@pytest.mark.parametrize("room", ["asgi"], indirect=True)
def test_what_was_never_subscribed_is_unsubscribed_without_a_trace(server: MCPServer, talk: Conversation) -> None:
    resource("note://a", server=server)(lambda: "a")
    before = rows(talk)
    for number in range(3):
        assert talk.request("resources/unsubscribe", {"uri": f"note://{number}"}).result == {}
    assert rows(talk) == before


@pytest.mark.parametrize("room", ["asgi"], indirect=True)
def test_a_stream_that_resumes_says_so_before_anything_else_happens(server: MCPServer, talk: Conversation) -> None:
    """Until then its client does not know whether it is connected."""
    may_end = threading.Event()

    @tool(server=server)
    async def wait_long(ctx: Context) -> str:
        ctx.report_progress(1)
        await asyncio.to_thread(may_end.wait, WITHIN)
        return "waited"

    first = begun(talk, "wait_long")
    assert first.next()["method"] == PROGRESS
    first.exchange.leave()
    again = talk.get(first.ids[-1]).begun()
    assert again.status == 200
    assert again.next().is_comment  # type: ignore[union-attr]
    may_end.set()
    assert [event.message for event in again if event.message][-1]["result"]["content"][0]["text"] == "waited"


@pytest.mark.parametrize("room", ["asgi"], indirect=True)
def test_ids_from_before_a_backup_was_restored_hide_nothing(server: MCPServer, talk: Conversation) -> None:
    """They are later than all that follow."""
    changes = talk.get(f"changes.{10**17}").begun()
    assert changes.next() is not None
    server.notify_list_changed("tools")
    assert next(event.message for event in changes if event.message)["method"] == "notifications/tools/list_changed"
    call = talk.begin("tools/call", {"name": "count_and_ask", "arguments": {}})
    question = call.next()
    while question is not None and question.get("method") != "elicitation/create":
        question = call.next()
    again = talk.get(f"{call.ids[0].partition('.')[0]}.{10**17}").begun()
    assert again.next().is_comment  # type: ignore[union-attr]
    talk.reply(question, YES)
    assert [event.message for event in again if event.message][-1]["result"]["content"][0]["text"] == "counted True"


@pytest.mark.parametrize("room", ["asgi"], indirect=True)
def test_streams_end_where_the_database_is_replaced_by_an_older_one(server: MCPServer, talk: Conversation) -> None:
    """They remember positions that are given again."""
    stream = talk.get().begun()
    assert stream.next() is not None
    server.notify_list_changed("tools")
    assert stream.next() is not None
    Event.objects.all().delete()
    EventSequence.objects.update(last=1)
    server.notify_list_changed("prompts")
    stream.done()
    again = talk.get(stream.events[-1].id).begun()
    assert again.next() is not None
    server.notify_list_changed("prompts")
    assert next(event.message for event in again if event.message)["method"] == "notifications/prompts/list_changed"

"""The stream of a call in the versions with a handshake: what is lost with a connection is taken up again."""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from django.utils import timezone

from django_mcp import Context, MCPServer, tool
from django_mcp.core.concurrency import Pool
from django_mcp.models import Call
from django_mcp.pubsub.follower import Subscription
from django_mcp.revisions.legacy import calls, streams
from tests.clients import LEGACY
from tests.conversation import Conversation, accept
from tests.exchange import SERVING, WITHIN, Exchange, Received, Room, eventually

pytestmark = pytest.mark.postgresql

OLDER = ["2025-06-18", "2025-03-26", "2024-11-05"]
LOG = "notifications/message"
YES = accept(confirm=True)


@pytest.fixture(autouse=True)
def offered(server: MCPServer) -> None:
    @tool(server=server)
    def ask(ctx: Context) -> str:
        return str(ctx.confirm("Sure?"))


@pytest.fixture(params=["asgi", pytest.param("view under asgi", marks=pytest.mark.slow)])
def edge(request: pytest.FixtureRequest) -> str:
    """Where streams can be held."""
    return request.param


@pytest.fixture
def on_asgi(server: MCPServer, open_database: None) -> Iterator[Conversation]:
    with Room(server, "asgi") as room:
        yield Conversation(room, LEGACY)


@pytest.fixture
def on_view(server: MCPServer, open_database: None) -> Iterator[Conversation]:
    with Room(server, "view") as room:
        yield Conversation(room, LEGACY)


def speaking(server: MCPServer, *, pause: threading.Event | None = None) -> None:
    """A tool that says ``one`` to ``five``, and pauses after ``two``."""

    @tool(server=server)
    async def speak(ctx: Context) -> str:
        for word in ("one", "two", "three", "four", "five"):
            ctx.log("error", word)
            if word == "two" and pause is not None:
                await asyncio.to_thread(pause.wait, WITHIN)
        return "done"


def words(messages: list[dict[str, Any]]) -> list[str]:
    """What was said, and the text of the result."""
    return [
        each["params"]["data"] if each.get("method") == LOG else each["result"]["content"][0]["text"]
        for each in messages
    ]


def changes(stream: Exchange) -> Iterator[dict[str, Any]]:
    """The messages of a stream, without what has no message."""
    return (event.message for event in stream if event.message is not None)


# A call's stream


def test_a_stream_begins_with_an_event_to_come_back_to(server: MCPServer, on_asgi: Conversation) -> None:
    speaking(server)
    stream = on_asgi.begin_call("speak").exchange.done()
    first, *rest = stream.events
    assert (first.data, first.message) == ("", None)
    assert first.id
    assert int(first.retry or "") > 0
    ids = [event.id for event in rest]
    assert len(ids) == len(set(ids)) == 6
    assert all(event.event == "message" for event in rest)


@pytest.mark.parametrize("version", OLDER)
def test_older_clients_get_no_event_without_a_message(server: MCPServer, on_asgi: Conversation, version: str) -> None:
    speaking(server)
    stream = Conversation(on_asgi.room, version).begin_call("speak").exchange.done()
    assert len(stream.events) == 6
    assert all(event.message for event in stream.events)


def test_whoever_says_nothing_gets_a_plain_answer(server: MCPServer, talk: Conversation) -> None:
    @tool(server=server)
    def silent(ctx: Context) -> str:
        return "x"

    exchange = talk.begin_call("silent").exchange.done()
    assert not exchange.is_stream
    assert exchange.json["result"]


def test_what_was_lost_is_sent_again_and_nothing_twice(
    server: MCPServer, on_asgi: Conversation, subtests: pytest.Subtests
) -> None:
    speaking(server)
    events = on_asgi.begin_call("speak").exchange.done().events
    for kept in range(7):
        with subtests.test(kept=kept):
            again = on_asgi.get(events[kept].id).done()
            assert again.status == 200
            assert [each for each in again.events if each.message] == events[kept + 1 :]


def test_a_client_that_lost_its_connection_gets_the_rest(server: MCPServer, on_asgi: Conversation) -> None:
    pause = threading.Event()
    speaking(server, pause=pause)
    call = on_asgi.begin_call("speak")
    heard = [call.next(), call.next()]
    call.exchange.leave()
    call.come_back()
    pause.set()
    heard += list(call)
    assert words(heard) == ["one", "two", "three", "four", "five", "done"]
    assert len(call.exchanges) == 2


def test_a_client_may_come_back_long_after_the_end(server: MCPServer, on_asgi: Conversation) -> None:
    finished = threading.Event()

    @tool(server=server)
    async def speak(ctx: Context) -> str:
        ctx.log("error", "one")
        await asyncio.to_thread(finished.wait, WITHIN)
        return "done"

    call = on_asgi.begin_call("speak")
    assert words([call.next()]) == ["one"]
    call.exchange.leave()
    finished.set()
    eventually(lambda: on_asgi.room.tasks == 0, "the call does not end")
    call.come_back()
    assert words(list(call)) == ["done"]


def test_a_client_may_come_back_at_another_edge(server: MCPServer, on_asgi: Conversation) -> None:
    """What is left of a call is in the database, so whichever worker is asked has it."""
    speaking(server)
    events = on_asgi.begin_call("speak").exchange.done().events
    with Room(server, "view") as room:
        other = Conversation(room, LEGACY, session=on_asgi.session, opened=True)
        again = other.get(events[2].id)
    assert [each for each in again.events if each.message] == events[3:]


def test_an_edge_that_holds_no_streams_gives_up_what_nobody_runs_any_more(
    server: MCPServer, on_asgi: Conversation
) -> None:
    go_on = threading.Event()
    speaking(server, pause=go_on)
    call = on_asgi.begin_call("speak")
    first = call.next()
    Call.objects.update(lease=timezone.now())
    with Room(server, "view") as room:
        other = Conversation(room, LEGACY, session=on_asgi.session, opened=True)
        given_up = other.get(call.ids[0]).done().events[-1].message
    assert given_up["id"] == on_asgi.get(call.ids[0]).done().events[-1].message["id"]
    assert "stopped before it answered" in given_up["error"]["message"]
    assert Call.objects.get().status == Call.Status.ENDED
    go_on.set()
    assert words([first, *call])[-1] == "done", "it lives, and where it runs it is heard"


@pytest.mark.parametrize("edge", ["asgi", "view under asgi"])
def test_a_call_that_is_run_where_nobody_can_say_so_is_waited_for(legacy_talk: Conversation) -> None:
    call = legacy_talk.begin_call("ask")
    legacy_talk.reply(call.next(), YES)
    assert words(list(call)) == ["True"]
    leases = set(Call.objects.values_list("lease", flat=True))
    assert (leases == {None}) is (legacy_talk.room.edge != "asgi")


def test_a_question_can_be_resumed_and_answered(legacy_talk: Conversation) -> None:
    call = legacy_talk.begin_call("ask")
    question = call.next()
    call.exchange.leave()
    eventually(lambda: call.exchange.ended)
    call.come_back()
    legacy_talk.reply(question, YES)
    assert words(list(call)) == ["True"]


def test_a_question_that_was_lost_comes_again_with_the_same_id(legacy_talk: Conversation) -> None:
    call = legacy_talk.begin_call("ask")
    question = call.next()
    first = call.exchange.events[0].id
    again = legacy_talk.get(first)
    assert next(changes(again)) == question
    legacy_talk.reply(question, YES)
    assert next(changes(again))["result"]["content"][0]["text"] == "True"


def test_a_stream_that_is_resumed_ends_the_one_before_it(legacy_talk: Conversation) -> None:
    call = legacy_talk.begin_call("ask")
    question = call.next()
    opened = [call.exchange]
    for _ in range(3):
        opened.append(legacy_talk.get(call.ids[0]).begun())
        opened[-2].done()
    legacy_talk.reply(question, YES)
    with_result = [any("result" in (event.message or {}) for event in stream.done().events) for stream in opened]
    assert with_result == [False, False, False, True]


def test_a_stream_that_begins_late_does_not_end_the_one_that_resumed_it(
    legacy_talk: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    begins, later = streams.follow, threading.Event()
    held = [asyncio.to_thread(later.wait, WITHIN)]

    async def follow(*topics: str, **of: Any) -> Subscription:
        if held:  # the stream of the POST
            await held.pop()
        return await begins(*topics, **of)

    monkeypatch.setattr(streams, "follow", follow)
    call = legacy_talk.begin_call("ask")
    question = call.next()
    eventually(lambda: not held)
    again = legacy_talk.get(call.ids[0]).begun()
    later.set()
    call.exchange.done()
    legacy_talk.reply(question, YES)
    assert [words([event.message]) for event in again.done().events if "result" in (event.message or {})] == [["True"]]


def test_a_client_that_came_back_before_the_question_keeps_its_stream(server: MCPServer, on_asgi: Conversation) -> None:
    go_on = threading.Event()

    @tool(server=server)
    def ponder(ctx: Context) -> str:
        ctx.log("error", "hm")
        go_on.wait(WITHIN)
        return str(ctx.confirm("Sure?"))

    call = on_asgi.begin_call("ponder")
    assert words([call.next()]) == ["hm"]
    again = on_asgi.get(call.ids[-1]).begun()
    go_on.set()
    call.exchange.done()
    messages = changes(again)
    on_asgi.reply(next(messages), YES)
    assert words(list(messages)) == ["hm", "True"]  # what is said after the question


def test_an_event_id_that_is_none_of_ours_is_refused(legacy_talk: Conversation, subtests: pytest.Subtests) -> None:
    for event_id in ["x", "x.1", ".", "changes", "x.x", "é.1", ".1", "x." + "9" * 30, "x.-1", " ", "a b.1"]:
        with subtests.test(event_id=event_id):
            refused = legacy_talk.open().get(event_id).done()
            assert refused.status == 400
            assert "Last-Event-ID" in refused.json["error"]["message"]


def test_a_position_beyond_the_end_gets_nothing_more(server: MCPServer, on_asgi: Conversation) -> None:
    speaking(server)
    event_id = on_asgi.begin_call("speak").exchange.done().events[-1].id
    again = on_asgi.get(event_id).done()
    assert again.status == 200
    assert [each for each in again.events if each.message] == []


# Letting go of the connection


def letting_go(server: MCPServer) -> threading.Event:
    go_on = threading.Event()

    @tool(server=server)
    async def long(ctx: Context) -> str:
        ctx.close_stream()
        await asyncio.to_thread(go_on.wait, WITHIN)
        ctx.log("error", "back")
        return "done"

    return go_on


def test_a_long_call_lets_go_of_its_connection_and_the_client_comes_back(
    server: MCPServer, on_asgi: Conversation
) -> None:
    go_on = letting_go(server)
    call = on_asgi.begin_call("long")
    stream = call.exchange.done()
    assert [event.message for event in stream.events] == [None, None]
    assert int(stream.events[-1].retry or "") > 0
    for event in stream.events:
        call.ids += [event.id] if event.id else []
    call.come_back()
    go_on.set()
    assert words(list(call)) == ["back", "done"]


@pytest.mark.parametrize("version", OLDER)
def test_older_clients_would_not_come_back_so_they_are_kept(
    server: MCPServer, on_asgi: Conversation, version: str
) -> None:
    letting_go(server).set()
    call = Conversation(on_asgi.room, version).begin_call("long")
    assert words(list(call)) == ["back", "done"]
    assert len(call.exchanges) == 1


@pytest.mark.parametrize("edge", ["asgi", "view", "view under asgi"])
def test_letting_go_just_before_the_end_loses_nothing(server: MCPServer, talk: Conversation) -> None:
    @tool(server=server)
    async def hasty(ctx: Context) -> str:
        ctx.close_stream()
        return "done"

    for _ in range(10):
        assert words(list(talk.begin_call("hasty"))) == ["done"]


@pytest.mark.parametrize("edge", ["asgi", "view", "view under asgi"])
def test_letting_go_before_a_question_loses_nothing(server: MCPServer, talk: Conversation) -> None:
    @tool(server=server)
    def ask_later(ctx: Context) -> str:
        ctx.close_stream()
        return str(ctx.confirm("Sure?"))

    assert talk.call("ask_later", answers=[YES]).text == "True"


# Where no stream can be held


def test_a_question_at_the_wsgi_edge_ends_the_stream_until_the_client_comes_back(on_view: Conversation) -> None:
    call = on_view.begin_call("ask")
    stream = call.exchange.done()
    assert [bool(event.message) for event in stream.events] == [False, True, False]
    assert stream.events[-1] == Received(retry=stream.events[-1].retry)
    question = call.next()
    waiting = on_view.get(stream.events[1].id).done()
    assert [event.message for event in waiting.events] == [None], "nothing new"
    on_view.reply(question, YES)
    assert words(list(call)) == ["True"]


@pytest.mark.parametrize("edge", ["asgi"])
def test_an_answer_whose_next_round_cannot_start_can_be_sent_again(
    legacy_talk: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The call waits again, as if the answer had not been taken."""
    later = Pool.later
    failures = [MemoryError()]

    async def failing(pool: Pool, function: Any) -> None:
        if failures:
            raise failures.pop()
        await later(pool, function)

    monkeypatch.setattr(Pool, "later", failing)
    call = legacy_talk.begin_call("ask")
    answer = {"jsonrpc": "2.0", "id": call.next()["id"], "result": YES}
    assert legacy_talk.post(answer).done().status == 500
    assert Call.objects.get().status == Call.Status.ASKING
    assert legacy_talk.post(answer).done().status == 202
    assert words(list(call)) == ["True"]


@pytest.mark.parametrize("edge", ["asgi"])
def test_a_call_goes_on_although_whoever_answered_left_at_once(
    legacy_talk: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between taking the answer and starting the next round there is a moment in which nobody else would start it."""
    taking, go_on, completed = threading.Event(), threading.Event(), calls.claim_answered

    def slowly(*arguments: Any, **keywords: Any) -> Any:
        taking.set()
        assert go_on.wait(WITHIN)
        return completed(*arguments, **keywords)

    monkeypatch.setattr(calls, "claim_answered", slowly)
    call = legacy_talk.begin_call("ask")
    question = call.next()
    legacy_talk.post({"jsonrpc": "2.0", "id": question["id"], "result": YES})
    assert taking.wait(WITHIN)
    connections = [task for task in asyncio.all_tasks(legacy_talk.room._loop) if task.get_name() == SERVING]
    legacy_talk.room.call(lambda: [task.cancel() for task in connections])
    go_on.set()
    eventually(lambda: call.exchange.ended)
    call.come_back()
    assert words(list(call)) == ["True"]

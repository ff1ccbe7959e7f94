"""The limit of a caller's streams, and streams that are resumed: each way to open one counts, and none opens twice."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.conf import settings
from django.test import override_settings

from django_mcp import Context, MCPServer, resource, tool
from django_mcp.pubsub import follower, stream_slots
from django_mcp.revisions.legacy import streams as legacy_streams
from tests.behaviour.users import ByName, as_user, group
from tests.clients import LEGACY, MODERN
from tests.conversation import Call, Conversation, accept
from tests.exchange import WITHIN, Exchange, Room, eventually

pytestmark = pytest.mark.postgresql

YES = accept(confirm=True)
TOO_MANY = "You have 2 open streams, the maximum. Close one of them."


@pytest.fixture(params=["asgi", pytest.param("view under asgi", marks=pytest.mark.slow)])
def room(request: pytest.FixtureRequest, server: MCPServer, open_database: None) -> Iterator[Room]:
    with Room(server, request.param) as room:
        yield room


@pytest.fixture
def talk(server: MCPServer, room: Room) -> Iterator[Conversation]:
    @tool(server=server)
    def ask(ctx: Context) -> str:
        return str(ctx.confirm("Sure?"))

    @resource("note://{name}", server=server)
    def note(name: str) -> str:
        return name

    with override_settings(DJANGO_MCP={**settings.DJANGO_MCP, "MAX_STREAMS_PER_CALLER": 2}):
        yield Conversation(room, LEGACY).open()


def asked(talk: Conversation) -> tuple[Call, dict[str, Any]]:
    """A call that waits for the answer to its question."""
    call = talk.begin_call("ask")
    question = call.next()
    assert question is not None
    return call, question


def refused(exchange: Exchange) -> str:
    """Why a stream was not opened."""
    assert exchange.done().status == 429
    assert exchange.headers["retry-after"].isdecimal()
    return json.loads(exchange.body)["error"]["message"]


def open_streams(exchanges: list[Exchange]) -> int:
    return sum(exchange.begun().status == 200 and not exchange.ended for exchange in exchanges)


def test_one_call_is_read_by_one_stream_however_often_it_is_resumed(talk: Conversation) -> None:
    call, question = asked(talk)
    streams = [call.exchange, *(talk.get(call.ids[0]).begun() for _ in range(20))]
    eventually(lambda: open_streams(streams) == 1, "earlier streams stay open")
    talk.reply(question, YES)
    last = next(stream for stream in reversed(streams) if stream.status == 200)
    assert last.done().events[-1].message["result"]  # type: ignore[index]


def test_a_call_that_asks_while_all_streams_are_open_waits_for_its_client_to_come_back(talk: Conversation) -> None:
    first, _ = asked(talk)
    asked(talk)
    third = talk.begin_call("ask")
    events = third.exchange.done().events
    assert events[-1].retry
    assert refused(talk.get(events[0].id)).startswith(TOO_MANY)
    first.exchange.leave()
    again = eventually(lambda: (got := talk.get(events[0].id)).begun().status == 200 and got, "no place is free")
    question = next(event.message for event in again if event.message)
    talk.reply(question, YES)
    assert next(event.message for event in again if event.message)["result"]["content"][0]["text"] == "True"


def test_each_way_to_open_a_stream_counts(talk: Conversation, room: Room) -> None:
    call, _ = asked(talk)
    changes = talk.get().begun()
    assert changes.status == 200
    other, modern = Conversation(room, LEGACY).open(), Conversation(room, MODERN)
    body = {"notifications": {"toolsListChanged": True}}
    assert refused(other.get()).startswith(TOO_MANY)
    assert refused(modern.begin("subscriptions/listen", body).exchange).startswith(TOO_MANY)
    assert talk.get(call.ids[0]).begun().status == 200  # which replaces the one that was lost
    changes.leave()
    eventually(lambda: modern.begin("subscriptions/listen", body).exchange.begun().status == 200, "no place is free")


def test_nothing_is_left_of_streams_that_were_refused_or_replaced(talk: Conversation, room: Room) -> None:
    streams = []
    for _ in range(4):
        call = talk.begin_call("ask")
        streams.append(call.exchange)
        event_id = call.exchange.begun().next().id or ""  # type: ignore[union-attr]
        streams += [talk.get(event_id).begun() for _ in range(3)]
    for stream in streams:
        stream.leave()
    eventually(lambda: not stream_slots._slots, "slots are left")
    eventually(lambda: not any(each._topics for each in follower._followers.values()), "subscriptions are left")


@contextmanager
def room_for(uris: list[str]) -> Iterator[None]:
    """Let one stream subscribe to *uris*, and no second one."""
    most, stream_slots.MAX_SUBSCRIBED_BYTES = stream_slots.MAX_SUBSCRIBED_BYTES, stream_slots.size_of(uris)
    try:
        yield
    finally:
        stream_slots.MAX_SUBSCRIBED_BYTES = most


URIS = [f"note://{number}" for number in range(50)]


def test_what_the_open_streams_of_a_caller_subscribe_to_is_limited_in_all(talk: Conversation, room: Room) -> None:
    modern = Conversation(room, MODERN)
    body = {"notifications": {"resourceSubscriptions": URIS}}
    with room_for(URIS):
        first = modern.begin("subscriptions/listen", body)
        assert first.next()["params"]["notifications"]["resourceSubscriptions"] == URIS  # type: ignore[index]
        assert "too many resources" in refused(modern.begin("subscriptions/listen", body).exchange)
        first.exchange.leave()
        eventually(lambda: modern.begin("subscriptions/listen", body).exchange.begun().status == 200, "no room")


def test_a_session_that_subscribes_to_more_loses_its_stream_until_there_is_room(talk: Conversation) -> None:
    with room_for(URIS[:3]):
        stream = talk.get().begun()
        for uri in URIS[:3]:
            talk.request("resources/subscribe", {"uri": uri})
            talk.request("resources/unsubscribe", {"uri": uri})
        for uri in URIS[:4]:
            assert not stream.ended
            talk.request("resources/subscribe", {"uri": uri})
        stream.done()
        assert "too many resources" in refused(talk.get())
        talk.request("resources/unsubscribe", {"uri": URIS[0]})
        assert talk.get().begun().status == 200


def test_what_a_session_subscribes_to_counts_once_when_its_client_comes_back(talk: Conversation) -> None:
    for uri in URIS[:3]:
        talk.request("resources/subscribe", {"uri": uri})
    with room_for(URIS[:3]):
        stream = talk.get().begun()
        assert stream.status == 200
        assert talk.get().begun().status == 200
        stream.done()


def test_resources_subscribed_to_while_a_stream_begins_are_counted(
    talk: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    begins, may_begin = threading.Event(), threading.Event()

    async def late(*topics: str, **options: Any) -> follower.Subscription:
        begins.set()
        await asyncio.to_thread(may_begin.wait, WITHIN)
        return await follower.follow(*topics, **options)

    monkeypatch.setattr(legacy_streams, "follow", late)
    with room_for(URIS[:1]):
        stream = talk.get()
        assert begins.wait(WITHIN)
        for uri in URIS[:2]:
            talk.request("resources/subscribe", {"uri": uri})
        may_begin.set()
        stream.done()
        assert "too many resources" in refused(talk.get())


def test_resources_that_are_gone_for_the_caller_are_not_counted(
    make_server: Callable[..., MCPServer], open_database: None, make_user: Any
) -> None:
    server, user = make_server(authentication=[ByName()]), make_user()
    user.groups.add(group("Desk"))
    resource("test:desk", server=server, groups=["Desk"])(lambda: "x")
    resource("test:all", server=server)(lambda: "x")
    with Room(server, "asgi") as room, room_for(["test:desk"]):
        mine = Conversation(room, LEGACY, headers=as_user(user)).open()
        stream = mine.get().begun()

        def hears_of(uri: str) -> bool:
            server.notify_resource_updated(uri)
            return any((event.message or {}).get("params", {}).get("uri") == uri for event in stream)

        mine.request("resources/subscribe", {"uri": "test:desk"})
        user.groups.get().delete()
        assert hears_of("test:desk"), "a last time"
        mine.request("resources/subscribe", {"uri": "test:all"})
        assert hears_of("test:all"), "there is room for one"


def test_resources_that_do_not_exist_are_not_counted(talk: Conversation, room: Room) -> None:
    modern = Conversation(room, MODERN)
    with room_for(["test:none", "note://0"]):
        first = modern.begin("subscriptions/listen", {"notifications": {"resourceSubscriptions": ["test:none"]}})
        assert first.next()
        body = {"notifications": {"resourceSubscriptions": ["test:none", "note://0"]}}
        assert modern.begin("subscriptions/listen", body).exchange.begun().status == 200

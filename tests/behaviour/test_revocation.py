"""Open streams end with the credential they were opened with."""

import datetime
import threading
from collections.abc import Callable

import pytest
from django.contrib.auth.models import AnonymousUser
from django.db import connection, transaction
from django.test import override_settings
from django.utils import timezone

from django_mcp import BaseAuthentication, MCPServer, Principal, RequestHead, tool
from django_mcp.pubsub import publish
from tests.clients import LEGACY, MODERN
from tests.conversation import Conversation
from tests.exchange import Room

pytestmark = pytest.mark.postgresql

LISTEN = {"notifications": {"toolsListChanged": True}}


class ByName(BaseAuthentication):
    """Recognises everybody by a header, for as long as the class says."""

    blocking = False
    expires: datetime.datetime | None = None

    def authenticate(self, head: RequestHead, server: object) -> Principal | None:
        name = head.headers.get("x-user")
        return Principal("test", name, AnonymousUser(), expires=ByName.expires) if name else None


@pytest.fixture
def server(make_server: Callable[..., MCPServer]) -> MCPServer:
    server = make_server(authentication=[ByName()])
    tool(server=server, name="one")(lambda: "x")
    return server


@pytest.fixture
def edge() -> str:
    """Streams are the same wherever they can be held."""
    return "asgi"


def test_a_subscription_ends_when_its_caller_is_shut_out(room: Room) -> None:
    mine, other = (Conversation(room, MODERN, headers={"x-user": name}) for name in ("anna", "ben"))
    calls = [each.begin("subscriptions/listen", LISTEN) for each in (mine, other)]
    for call in calls:
        assert call.next()["method"] == "notifications/subscriptions/acknowledged"
    publish.end_streams("test", "anna")
    assert calls[0].next()["result"]["resultType"] == "complete"
    room.server.notify_list_changed("tools")
    assert calls[1].next()["method"] == "notifications/tools/list_changed"


def test_a_sessions_stream_ends_when_its_caller_is_shut_out(room: Room) -> None:
    mine, other = (Conversation(room, LEGACY, headers={"x-user": name}).open() for name in ("anna", "ben"))
    streams = [each.get().begun() for each in (mine, other)]
    for stream in streams:
        assert stream.next() is not None
    publish.end_streams("test", "anna")
    assert streams[0].next() is None
    room.server.notify_list_changed("tools")
    assert streams[1].next().message["method"] == "notifications/tools/list_changed"


@pytest.mark.parametrize("version", [MODERN, LEGACY])
def test_a_stream_ends_when_the_credential_expires(room: Room, version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    talk = Conversation(room, version, headers={"x-user": "anna"}).open()
    monkeypatch.setattr(ByName, "expires", timezone.now() + datetime.timedelta(seconds=0.3))
    with override_settings(DJANGO_MCP={"AUTHENTICATION": ["django_mcp.AllowAny"], "POLL_INTERVAL": 0.1}):
        if version == MODERN:
            call = talk.begin("subscriptions/listen", LISTEN)
            assert [each.get("method", "end") for each in call][-1] == "end"
        else:
            stream = talk.get().begun()
            assert [event.message for event in stream if event.message] == []
            assert stream.done().status == 200


def test_what_is_taken_back_in_a_transaction_that_fails_is_not_taken_back(room: Room) -> None:
    call = Conversation(room, MODERN, headers={"x-user": "anna"}).begin("subscriptions/listen", LISTEN)
    assert call.next() is not None
    with transaction.atomic():
        publish.end_streams("test", "anna")
        transaction.set_rollback(True)
    room.server.notify_list_changed("tools")
    assert call.next()["method"] == "notifications/tools/list_changed"


@pytest.mark.parametrize("version", [MODERN, LEGACY])
def test_what_is_taken_back_in_a_long_transaction_ends_streams_too(room: Room, version: str) -> None:
    """However much is logged and read by others until it is committed."""
    if connection.vendor != "postgresql":
        pytest.skip("on SQLite nobody else writes while a transaction does")
    mine, other = (Conversation(room, version, headers={"x-user": name}).open() for name in ("anna", "ben"))
    opened = [
        each.begin("subscriptions/listen", LISTEN) if version == MODERN else each.get().begun()
        for each in (mine, other)
    ]
    for stream in opened:
        assert stream.next() is not None
    with transaction.atomic():
        publish.end_streams("test", "anna")
        elsewhere = threading.Thread(target=_publish, args=[room.server])
        elsewhere.start()
        elsewhere.join()
        for stream in opened:
            assert "list_changed" in str(stream.next())
    end = opened[0].next()
    assert end is None or end["result"]["resultType"] == "complete"


def _publish(server: MCPServer) -> None:
    try:
        server.notify_list_changed("tools")
    finally:
        connection.close()


def test_who_was_shut_out_before_may_come_back(room: Room) -> None:
    """What was said of an earlier stream, which no reader may have heard of yet, must not end a later one."""
    talk = Conversation(room, MODERN, headers={"x-user": "anna"})
    first = talk.begin("subscriptions/listen", LISTEN)
    assert first.next() is not None
    publish.end_streams("test", "anna")
    assert first.next()["result"]["resultType"] == "complete"
    again = talk.begin("subscriptions/listen", LISTEN)
    assert again.next() is not None
    room.server.notify_list_changed("tools")
    assert again.next()["method"] == "notifications/tools/list_changed"

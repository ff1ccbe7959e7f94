"""``subscriptions/listen``: one stream of just the changes a client of the newest version asked for."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.test import override_settings

from django_mcp import BaseAuthentication, MCPServer, Principal, RequestHead, prompt, resource, tool
from django_mcp.pubsub import event_store, publish
from django_mcp.pubsub.follower import end_streams
from django_mcp.revisions.modern import listen as listening
from tests.clients import LEGACY, META, MODERN
from tests.conversation import Call, Conversation
from tests.exchange import Room, eventually

ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
UPDATED = "notifications/resources/updated"
LISTS = {"toolsListChanged": True, "promptsListChanged": True, "resourcesListChanged": True}


class Somebody(BaseAuthentication):
    """Lets everybody in, as a user without any permission."""

    blocking = False

    def authenticate(self, head: RequestHead, server: object) -> Principal:
        return Principal("test", "somebody", AnonymousUser())


@pytest.fixture
def server(make_server: Callable[..., MCPServer]) -> MCPServer:
    server = make_server(authentication=[Somebody()])
    tool(server=server, name="one")(lambda: "x")
    prompt(server=server, name="one")(lambda: "x")
    resource("test://here", server=server)(lambda: "x")
    resource("test://page/{number}", server=server)(lambda number: number)
    resource("test://secret", server=server, permission="test.see")(lambda: "x")
    return server


@pytest.fixture(params=["asgi", pytest.param("view under asgi", marks=pytest.mark.slow)])
def edge(request: pytest.FixtureRequest) -> str:
    """Where streams can be held."""
    return request.param


@pytest.fixture
def talk(room: Room) -> Conversation:
    return Conversation(room, MODERN)


def listen(talk: Conversation, wanted: Any, **options: Any) -> Call:
    return talk.begin("subscriptions/listen", {"notifications": wanted}, **options)


def acknowledged(call: Call) -> dict[str, Any]:
    """What is honoured; the acknowledgement comes before all else."""
    message = call.next()
    assert message["method"] == ACKNOWLEDGED
    assert message["params"]["_meta"] == {META + "subscriptionId": call.body["id"]}
    return message["params"]["notifications"]


def heard(call: Call, count: int) -> list[tuple[str, str | None]]:
    """The next messages: methods and URIs. Each says to which subscription it belongs."""
    messages = [call.next() for _ in range(count)]
    for each in messages:
        assert each["params"]["_meta"][META + "subscriptionId"] == call.body["id"]
    return [(each["method"].removeprefix("notifications/"), each["params"].get("uri")) for each in messages]


NEWER = ['{"kind": "of a newer version"}', '{"method": "x"}', '{"method": 1, "params": []}', "17", "null", "no JSON"]


@pytest.mark.parametrize("version", [MODERN, LEGACY])
def test_what_another_version_logs_silences_no_stream(room: Room, server: MCPServer, version: str) -> None:
    """As happens while a site is upgraded, process by process."""
    talk = Conversation(room, version).open()
    if version == MODERN:
        stream: Any = listen(talk, LISTS)
        acknowledged(stream)
    else:
        stream = talk.get().begun()
        assert stream.next() is not None
    event_store.append([(publish.server_topic(server), data) for data in NEWER])
    for _ in range(2):
        server.notify_list_changed("tools")
        assert "tools/list_changed" in str(stream.next())


def change_everything(server: MCPServer) -> None:
    for uri in ("test://page/9", "test://secret", "test://here"):
        server.notify_resource_updated(uri)
    for kind in ("tools", "prompts", "resources"):
        server.notify_list_changed(kind)


def test_the_acknowledgement_comes_first_and_then_what_was_asked_for(server: MCPServer, talk: Conversation) -> None:
    wanted = {**LISTS, "resourceSubscriptions": ["test://here", "test://page/9"]}
    call = listen(talk, wanted)
    assert acknowledged(call) == wanted
    change_everything(server)
    assert heard(call, 5) == [
        ("resources/updated", "test://page/9"),
        ("resources/updated", "test://here"),
        ("tools/list_changed", None),
        ("prompts/list_changed", None),
        ("resources/list_changed", None),
    ]


def test_the_subscription_has_the_id_of_its_request(
    server: MCPServer, talk: Conversation, subtests: pytest.Subtests
) -> None:
    for request_id in ["mine", 0, "", 12345678901234]:
        with subtests.test(request_id=request_id):
            call = listen(talk, {"toolsListChanged": True}, request_id=request_id)
            assert acknowledged(call) == {"toolsListChanged": True}
            server.notify_list_changed("tools")
            assert heard(call, 1) == [("tools/list_changed", None)]


def test_nothing_is_sent_that_was_not_asked_for(
    server: MCPServer, talk: Conversation, subtests: pytest.Subtests
) -> None:
    for kind in ["tools", "prompts", "resources"]:
        with subtests.test(kind=kind):
            call = listen(talk, {f"{kind}ListChanged": True})
            assert acknowledged(call) == {f"{kind}ListChanged": True}
            change_everything(server)
            change_everything(server)
            assert heard(call, 2) == [(f"{kind}/list_changed", None)] * 2


def test_whoever_wants_nothing_is_acknowledged_and_hears_nothing(
    server: MCPServer, talk: Conversation, subtests: pytest.Subtests
) -> None:
    for wanted in [{}, {"toolsListChanged": False}, {"toolsListChanged": "yes"}, {"somethingNew": True}]:
        with subtests.test(wanted=wanted):
            call = listen(talk, wanted)
            assert acknowledged(call) == {}
            change_everything(server)
            end_streams()
            assert call.next()["result"]


def test_lists_this_server_does_not_have_are_not_acknowledged(
    make_server: Callable[..., MCPServer], edge: str, open_database: None
) -> None:
    server = make_server("small")
    tool(server=server, name="one")(lambda: "x")
    with Room(server, edge) as room:
        call = listen(Conversation(room, MODERN), {**LISTS, "resourceSubscriptions": ["test://here"]})
        assert acknowledged(call) == {"toolsListChanged": True}


def test_what_is_hidden_is_not_acknowledged_and_not_told(server: MCPServer, talk: Conversation) -> None:
    call = listen(talk, {"resourceSubscriptions": ["test://secret", "test://here", "test://none"]})
    assert acknowledged(call) == {"resourceSubscriptions": ["test://here"]}
    change_everything(server)
    assert heard(call, 1) == [("resources/updated", "test://here")]
    only_hidden = listen(talk, {"resourceSubscriptions": ["test://secret"]})
    assert acknowledged(only_hidden) == {}


def test_each_subscription_hears_its_own(server: MCPServer, talk: Conversation) -> None:
    calls = {kind: listen(talk, {f"{kind}ListChanged": True}) for kind in ("tools", "prompts")}
    for call in calls.values():
        acknowledged(call)
    for kind in ("prompts", "tools"):
        server.notify_list_changed(kind)
    for kind, call in calls.items():
        assert heard(call, 1) == [(f"{kind}/list_changed", None)]


def test_changes_of_another_endpoint_are_not_told(
    server: MCPServer, talk: Conversation, make_server: Callable[..., MCPServer]
) -> None:
    other = make_server("other")
    call = listen(talk, LISTS)
    acknowledged(call)
    other.notify_list_changed("prompts")
    server.notify_list_changed("tools")
    assert heard(call, 1) == [("tools/list_changed", None)]


def test_a_server_that_goes_down_ends_the_stream_with_a_result(talk: Conversation) -> None:
    call = listen(talk, LISTS)
    acknowledged(call)
    end_streams()
    response = call.next()
    assert response["id"] == call.body["id"]
    assert response["result"]["resultType"] == "complete"
    assert response["result"]["_meta"][META + "subscriptionId"] == call.body["id"]
    assert call.next() is None
    call.exchange.done()


def test_changes_before_the_end_are_still_told(server: MCPServer, talk: Conversation) -> None:
    call = listen(talk, LISTS)
    acknowledged(call)
    server.notify_list_changed("tools")
    assert heard(call, 1) == [("tools/list_changed", None)]
    end_streams()
    assert call.next()["result"]


def test_an_idle_stream_is_kept_alive_by_comments(talk: Conversation) -> None:
    mine = {"AUTHENTICATION": ["django_mcp.AllowAny"], "KEEP_ALIVE_INTERVAL": 0.01}
    with override_settings(DJANGO_MCP=mine):
        call = listen(talk, LISTS)
        acknowledged(call)
        assert call.exchange.next().is_comment
        assert call.exchange.next().is_comment


def test_a_client_that_leaves_leaves_nothing_running(talk: Conversation) -> None:
    call = listen(talk, LISTS)
    acknowledged(call)
    call.exchange.leave()
    eventually(lambda: talk.room.tasks == 0, "something is left running")


def test_its_events_cannot_be_resumed_and_have_no_ids(server: MCPServer, talk: Conversation) -> None:
    call = listen(talk, LISTS)
    acknowledged(call)
    server.notify_list_changed("tools")
    heard(call, 1)
    assert [(event.id, event.retry) for event in call.exchange.events if event.message] == [(None, None)] * 2
    assert call.exchange.headers["x-accel-buffering"] == "no"
    refused = talk.get("x.1").done()
    assert refused.status == 405


def test_a_filter_that_is_none_is_refused(talk: Conversation, subtests: pytest.Subtests) -> None:
    cases = [
        None,
        [],
        "tools",
        {"resourceSubscriptions": "test://here"},
        {"resourceSubscriptions": [7]},
        {"resourceSubscriptions": {}},
        {"resourceSubscriptions": ["test://here"] * (listening.MAX_URIS + 1)},
        {"resourceSubscriptions": ["test://" + "u" * 8186]},
    ]
    for wanted in cases:
        with subtests.test(wanted=wanted):
            call = listen(talk, wanted)
            message = call.next()
            assert (call.exchange.status, message["error"]["code"]) == (400, -32602)
            assert "params.notifications" in message["error"]["message"]


def test_a_client_that_takes_no_stream_is_told_that_it_needs_one(talk: Conversation) -> None:
    call = listen(talk, LISTS, headers={"accept": "application/json"})
    message = call.next()
    assert (call.exchange.status, message["error"]["code"]) == (400, -32600)
    assert "text/event-stream" in message["error"]["message"]


@pytest.fixture
def declared(talk: Conversation) -> Callable[[], dict[str, Any]]:
    return lambda: talk.request("server/discover").result["capabilities"]


def test_a_server_that_can_hold_streams_declares_what_it_tells(declared: Callable[[], dict[str, Any]]) -> None:
    capabilities = declared()
    assert capabilities["tools"] == capabilities["prompts"] == {"listChanged": True}
    assert capabilities["resources"] == {"listChanged": True, "subscribe": True}


@pytest.mark.parametrize("edge", ["view"])
def test_the_wsgi_edge_declares_nothing_and_refuses(talk: Conversation, declared: Callable[[], dict[str, Any]]) -> None:
    capabilities = declared()
    assert capabilities["tools"] == capabilities["prompts"] == capabilities["resources"] == {}
    call = listen(talk, LISTS)
    message = call.next()
    assert (call.exchange.status, message["error"]["code"]) == (404, -32601)
    assert "ASGI" in message["error"]["message"]


def test_what_changed_before_anybody_listened_is_not_told(server: MCPServer, talk: Conversation) -> None:
    server.notify_list_changed("prompts")
    call = listen(talk, LISTS)
    acknowledged(call)
    server.notify_list_changed("tools")
    assert heard(call, 1) == [("tools/list_changed", None)]


def test_a_caller_with_too_many_open_streams_is_refused_another_until_one_is_closed(talk: Conversation) -> None:
    with override_settings(DJANGO_MCP={**settings.DJANGO_MCP, "MAX_STREAMS_PER_CALLER": 2}):
        first, second = listen(talk, LISTS), listen(talk, LISTS)
        acknowledged(first)
        acknowledged(second)
        refused = listen(talk, LISTS).exchange.done()
        assert refused.status == 429
        assert refused.headers["retry-after"].isdecimal()
        message = json.loads(refused.body)["error"]["message"]
        assert message.startswith("You have 2 open streams, the maximum. Close one of them.")
        first.exchange.leave()
        eventually(lambda: listen(talk, LISTS).exchange.begun().status == 200, "the place is not free again")

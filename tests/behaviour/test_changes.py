"""The stream of changes in the versions with a handshake: lists that are no longer what they were, new contents."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django import forms
from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.db import OperationalError, transaction
from django.test import override_settings

from django_mcp import BaseAuthentication, Context, MCPServer, Principal, RequestHead, form_tool, resource, tool
from django_mcp.pubsub import event_store
from django_mcp.pubsub.follower import end_streams
from tests.clients import LEGACY
from tests.conversation import Conversation
from tests.exchange import Exchange, Room, eventually

pytestmark = pytest.mark.postgresql

OLDER = ["2025-06-18", "2025-03-26", "2024-11-05"]


class Somebody(BaseAuthentication):
    """Lets everybody in, as a user without any permission."""

    blocking = False

    def authenticate(self, head: RequestHead, server: object) -> Principal:
        return Principal("test", "somebody", AnonymousUser())


@pytest.fixture
def server(make_server: Callable[..., MCPServer]) -> MCPServer:
    server = make_server(authentication=[Somebody()])

    @tool(server=server)
    def ask(ctx: Context) -> str:
        return str(ctx.confirm("Sure?"))

    resource("test://here", server=server)(lambda: "x")
    resource("test://page/{number}", server=server)(lambda number: number)
    resource("test://secret", server=server, permission="test.see")(lambda: "x")
    return server


@pytest.fixture(params=["asgi", pytest.param("view under asgi", marks=pytest.mark.slow)])
def edge(request: pytest.FixtureRequest) -> str:
    """Where streams can be held."""
    return request.param


@pytest.fixture
def on_view(server: MCPServer, open_database: None) -> Iterator[Conversation]:
    with Room(server, "view") as room:
        yield Conversation(room, LEGACY)


def changes(stream: Exchange) -> Iterator[dict[str, Any]]:
    """The messages of a stream, without what has no message."""
    return (event.message for event in stream if event.message is not None)


def opened(talk: Conversation, event_id: str | None = None) -> Exchange:
    stream = talk.open().get(event_id).begun()
    assert (stream.status, stream.headers["content-type"].partition(";")[0]) == (200, "text/event-stream")
    assert stream.next() is not None
    return stream


def subscribe(talk: Conversation, uri: str, method: str = "resources/subscribe") -> None:
    assert talk.request(method, {"uri": uri}).result == {}


def checked(talk: Conversation, stream: Exchange) -> Iterator[dict[str, Any]]:
    return (talk.check(message, "") for message in changes(stream))


def test_a_client_is_told_of_lists_that_changed(server: MCPServer, legacy_talk: Conversation) -> None:
    stream = opened(legacy_talk)
    for kind in ("tools", "prompts", "resources"):
        server.notify_list_changed(kind)
    heard = checked(legacy_talk, stream)
    methods = [next(heard)["method"] for _ in range(3)]
    assert methods == [f"notifications/{kind}/list_changed" for kind in ("tools", "prompts", "resources")]


def test_a_client_is_told_of_a_tool_that_was_left_out_of_the_list_once_it_is_in_it(
    server: MCPServer, legacy_talk: Conversation
) -> None:
    is_missing = [True]

    class Booking(forms.Form):
        room = forms.CharField()

        def __init__(self, *arguments: Any, **options: Any) -> None:
            if is_missing:
                raise OperationalError("no such table")
            super().__init__(*arguments, **options)

    form_tool(Booking, server=server, handle=lambda ctx, form: "Booked.")
    before = [each["name"] for each in legacy_talk.request("tools/list").result["tools"]]
    stream = opened(legacy_talk)
    is_missing.clear()
    after = [each["name"] for each in legacy_talk.request("tools/list").result["tools"]]
    assert (before, after) == (["ask"], ["ask", "booking"])
    assert next(checked(legacy_talk, stream))["method"] == "notifications/tools/list_changed"


def test_a_stream_of_changes_can_be_resumed(server: MCPServer, legacy_talk: Conversation) -> None:
    stream = opened(legacy_talk)
    first = stream.events[0].id
    server.notify_list_changed("tools")
    event = stream.next()
    stream.leave()
    eventually(lambda: stream.ended)
    server.notify_list_changed("prompts")
    for event_id, methods in ((event.id, ["prompts"]), (first, ["tools", "prompts"])):
        again = opened(legacy_talk, event_id)
        heard = checked(legacy_talk, again)
        assert [next(heard)["method"].split("/")[1] for _ in methods] == methods
        again.leave()


def test_what_changed_before_the_stream_was_opened_is_not_told(server: MCPServer, legacy_talk: Conversation) -> None:
    server.notify_list_changed("prompts")
    stream = opened(legacy_talk)
    server.notify_list_changed("tools")
    assert next(checked(legacy_talk, stream))["method"] == "notifications/tools/list_changed"


@pytest.mark.parametrize("version", OLDER)
def test_older_clients_hear_of_changes_without_an_empty_event(server: MCPServer, room: Room, version: str) -> None:
    stream = opened(Conversation(room, version))
    assert stream.events[0].is_comment
    server.notify_list_changed("tools")
    assert next(changes(stream))["method"] == "notifications/tools/list_changed"


def test_only_what_was_subscribed_to_is_told(server: MCPServer, legacy_talk: Conversation) -> None:
    subscribe(legacy_talk, "test://here")
    stream = opened(legacy_talk)
    subscribe(legacy_talk, "test://page/2")
    for uri in ("test://page/1", "test://here", "test://secret", "test://page/2"):
        server.notify_resource_updated(uri)
    heard = checked(legacy_talk, stream)
    assert [next(heard)["params"] for _ in range(2)] == [{"uri": "test://here"}, {"uri": "test://page/2"}]


def test_who_comes_back_from_long_ago_is_told_of_the_last_changes_only(
    server: MCPServer, legacy_talk: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any client may say that it has seen nothing, and the log of an endpoint is long."""
    monkeypatch.setattr(event_store, "MAX_READ", 5)
    legacy_talk.open()
    for _ in range(8):
        server.notify_list_changed("tools")
    server.notify_list_changed("prompts")
    told = checked(legacy_talk, opened(legacy_talk, "changes.0"))
    methods = [next(told)["method"] for _ in range(5)]
    assert methods == ["notifications/tools/list_changed"] * 4 + ["notifications/prompts/list_changed"]


def test_the_uris_a_session_subscribes_to_have_a_limit_together(legacy_talk: Conversation) -> None:
    """Each request reads the session's row."""
    answers = [legacy_talk.request("resources/subscribe", {"uri": f"test://page/{n:08000}"}) for n in range(34)]
    assert answers[0].result == {}
    assert answers[-1].error["code"] == -32602
    assert "at most 262144 characters" in answers[-1].error["message"]
    subscribe(legacy_talk, f"test://page/{0:08000}", "resources/unsubscribe")
    subscribe(legacy_talk, "test://page/1")


def test_what_is_unsubscribed_is_told_no_more(server: MCPServer, legacy_talk: Conversation) -> None:
    subscribe(legacy_talk, "test://here")
    subscribe(legacy_talk, "test://page/1")
    stream = opened(legacy_talk)
    subscribe(legacy_talk, "test://here", "resources/unsubscribe")
    subscribe(legacy_talk, "test://never", "resources/unsubscribe")
    server.notify_resource_updated("test://here")
    server.notify_resource_updated("test://page/1")
    assert next(checked(legacy_talk, stream))["params"] == {"uri": "test://page/1"}


def test_sessions_do_not_share_subscriptions(server: MCPServer, legacy_talk: Conversation, room: Room) -> None:
    subscribe(Conversation(room, LEGACY), "test://here")
    stream = opened(legacy_talk)
    server.notify_resource_updated("test://here")
    server.notify_list_changed("tools")
    assert next(checked(legacy_talk, stream))["method"] == "notifications/tools/list_changed"


def test_what_is_hidden_cannot_be_subscribed_to_and_looks_like_what_is_missing(legacy_talk: Conversation) -> None:
    errors = [legacy_talk.request("resources/subscribe", {"uri": uri}).error for uri in ("test://no", "test://secret")]
    for error in errors:
        error["data"].pop("uri")
    assert errors[0] == errors[1]
    assert errors[0]["code"] == -32002


def test_a_subscription_names_one_resource(legacy_talk: Conversation, subtests: pytest.Subtests) -> None:
    for method in ["resources/subscribe", "resources/unsubscribe"]:
        for uri in [None, 7, ["test://here"]]:
            with subtests.test(uri=uri, method=method):
                assert legacy_talk.request(method, {"uri": uri}).error["code"] == -32602


def test_a_subscription_needs_a_session(legacy_talk: Conversation, subtests: pytest.Subtests) -> None:
    for method in ["resources/subscribe", "resources/unsubscribe"]:
        with subtests.test(method=method):
            legacy_talk.opened = True
            outcome = legacy_talk.request(method, {"uri": "test://here"})
            assert outcome.error["code"] == -32600
            assert "initialize" in outcome.error["message"]


def test_a_change_is_told_when_it_is_committed_and_not_if_it_is_rolled_back(
    server: MCPServer, legacy_talk: Conversation
) -> None:
    stream = opened(legacy_talk)
    with transaction.atomic():
        server.notify_list_changed("prompts")
        transaction.set_rollback(True)
    with transaction.atomic():
        server.notify_list_changed("tools")
    assert next(checked(legacy_talk, stream))["method"] == "notifications/tools/list_changed"


def test_tools_tell_of_changes_sync_and_async(server: MCPServer, legacy_talk: Conversation) -> None:
    @tool(server=server)
    def change(ctx: Context) -> str:
        server.notify_list_changed("tools")
        return "x"

    @tool(server=server)
    async def change_async(ctx: Context) -> str:
        server.notify_list_changed("prompts")
        return "x"

    stream = opened(legacy_talk)
    legacy_talk.call("change")
    legacy_talk.call("change_async")
    heard = checked(legacy_talk, stream)
    assert [next(heard)["method"].split("/")[1] for _ in range(2)] == ["tools", "prompts"]


def test_a_second_stream_of_a_session_ends_the_first(server: MCPServer, legacy_talk: Conversation, room: Room) -> None:
    other = opened(Conversation(room, LEGACY))
    first = opened(legacy_talk)
    second = opened(legacy_talk)
    first.done()
    server.notify_list_changed("tools")
    assert next(changes(second))["method"] == "notifications/tools/list_changed"
    assert next(changes(other))["method"] == "notifications/tools/list_changed"
    assert [event.message for event in first.events] == [None]


def test_a_stream_ends_with_its_session(legacy_talk: Conversation) -> None:
    stream = opened(legacy_talk)
    assert legacy_talk.delete().status == 204
    stream.done()


def test_a_stream_ends_with_the_server_and_says_when_to_come_back(legacy_talk: Conversation) -> None:
    call = legacy_talk.begin_call("ask")
    call.next()
    stream = opened(legacy_talk)

    def ended() -> bool:  # the call's stream waits for more a moment after its question was sent
        end_streams()
        return stream.ended and call.exchange.ended

    eventually(ended, "a stream does not end")
    assert call.exchange.events[-1].retry


def test_an_idle_stream_is_kept_alive(server: MCPServer, legacy_talk: Conversation) -> None:
    mine = {"AUTHENTICATION": ["django_mcp.AllowAny"], "KEEP_ALIVE_INTERVAL": 0.01}
    with override_settings(DJANGO_MCP=mine):
        call = legacy_talk.begin_call("ask")
        call.next()
        stream = opened(legacy_talk)
        for each in (stream, call.exchange):
            while not each.next().is_comment:
                pass
            assert b":\r\n\r\n" in each.body


def test_nothing_runs_when_nobody_listens(legacy_talk: Conversation) -> None:
    stream = opened(legacy_talk)
    assert legacy_talk.room.tasks > 0
    stream.leave()
    eventually(lambda: legacy_talk.room.tasks == 0, "something is left running")


def test_changes_of_another_endpoint_are_none_of_ones_business(
    server: MCPServer, legacy_talk: Conversation, make_server: Callable[..., MCPServer]
) -> None:
    other = make_server("other")
    stream = opened(legacy_talk)
    other.notify_list_changed("prompts")
    server.notify_list_changed("tools")
    assert next(changes(stream))["method"] == "notifications/tools/list_changed"


def test_there_is_no_list_of_anything_else(server: MCPServer) -> None:
    with pytest.raises(ValueError, match="use 'tools', 'prompts' or 'resources'"):
        server.notify_list_changed("tool")


# Where no stream can be held


def test_the_wsgi_edge_has_no_stream_of_changes_and_says_so(on_view: Conversation) -> None:
    body, _ = on_view.client.compose(
        "initialize", {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    )
    declared = on_view.post(body).json["result"]["capabilities"]
    assert declared["resources"] == declared["tools"] == {}
    refused = on_view.open().get().done()
    assert refused.status == 405
    assert "POST" in refused.headers["allow"]


def test_the_others_declare_what_they_tell(legacy_talk: Conversation) -> None:
    body, _ = legacy_talk.client.compose(
        "initialize", {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    )
    declared = legacy_talk.post(body).json["result"]["capabilities"]
    assert declared["resources"] == {"listChanged": True, "subscribe": True}
    assert declared["tools"] == {"listChanged": True}


def test_a_head_request_gets_no_stream(legacy_talk: Conversation) -> None:
    refused = legacy_talk.open().send("HEAD", {"accept": "text/event-stream"}).done()
    assert refused.status == 405
    assert "POST" in refused.headers["allow"]


def test_a_caller_with_too_many_open_streams_is_refused_another(legacy_talk: Conversation, room: Room) -> None:
    with override_settings(DJANGO_MCP={**settings.DJANGO_MCP, "MAX_STREAMS_PER_CALLER": 1}):
        first = opened(legacy_talk)
        other = Conversation(room, LEGACY).open()
        refused = other.get().done()
        assert (refused.status, refused.headers["retry-after"].isdecimal()) == (429, True)
        assert "Close one of them." in refused.json["error"]["message"]
        first.leave()
        eventually(lambda: other.get().begun().status == 200, "the place is not free again")

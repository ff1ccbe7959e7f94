"""Every way in: the rows of ``matrix.py`` and some scenes, at each edge with each version."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.core.cache import cache
from django.test import override_settings

from django_mcp import MCPServer
from django_mcp.tasks.extension import NAME as TASKS
from tests.behaviour.furnished import NOON, SETTINGS, Furniture
from tests.behaviour.matrix import ROWS, Row, Seen, Send
from tests.clients import LEGACY, MODERN
from tests.conversation import Call, Conversation, accept
from tests.exchange import WITHIN, Exchange, Room, eventually

pytestmark = pytest.mark.postgresql

OLDER = ["2025-06-18", "2025-03-26", "2024-11-05"]

every_way_in = pytest.mark.every_way_in


@pytest.fixture
def furniture(make_server: Callable[..., MCPServer], monkeypatch: pytest.MonkeyPatch) -> Iterator[Furniture]:
    monkeypatch.setattr("time.time", lambda: NOON)  # the window of a rate limit does not end in the middle of a test
    cache.clear()
    with override_settings(DJANGO_MCP=SETTINGS):
        yield Furniture(make_server)
    cache.clear()


@pytest.fixture
def server(furniture: Furniture) -> MCPServer:
    return furniture.server


# Rows


@every_way_in
def test_every_row_is_seen_in_each_era(room: Room, version: str, subtests: pytest.Subtests) -> None:
    run_all(room, version, subtests)


@every_way_in
@pytest.mark.parametrize("version", OLDER)
def test_every_row_is_seen_in_each_older_version(room: Room, version: str, subtests: pytest.Subtests) -> None:
    run_all(room, version, subtests)


def run_all(room: Room, version: str, subtests: pytest.Subtests) -> None:
    """Run all rows in one conversation; each is a subtest, so that one that fails hides no other."""
    talk = Conversation(room, version)
    for row in ROWS:
        seen = row.expected(version, room.edge)
        if seen is not None:
            with subtests.test(row=row.name):
                run(row, seen, talk)


def run(row: Row, seen: Seen, talk: Conversation) -> None:
    if isinstance(row.sent, Send):
        check_http(seen, send(row.sent, talk))
        return
    for _ in range(row.sent.times - 1):
        talk.request(row.sent.method, row.sent.params, row.sent.answers)
    outcome = talk.request(row.sent.method, row.sent.params, row.sent.answers)
    check_http(seen, outcome.exchanges[0], outcome.response)
    assert tuple(each["method"] for each in outcome.asked) == seen.asked
    told = [(each["method"], each["params"]) for each in outcome.messages if "method" in each and "id" not in each]
    assert [missing(expected, each) for expected, each in zip(seen.told, told, strict=True)] == [[]] * len(told)


def send(sent: Send, talk: Conversation) -> Exchange:
    """An HTTP request of a client that has no session."""
    stranger = Conversation(talk.room, talk.version, session=None, opened=True)
    body, headers = stranger.client.compose(sent.method, {})
    given = json.dumps(body).encode() if sent.body is None else sent.body
    usual = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    return stranger.send(sent.verb, {**usual, **headers, **sent.headers}, given).done()


def check_http(seen: Seen, exchange: Exchange, response: dict[str, Any] | None = None) -> None:
    assert exchange.begun().status == seen.status, exchange.body
    assert missing(seen.headers or ..., exchange.headers) == []
    if seen.empty:
        assert exchange.done().body == b""
        return
    if response is None and (seen.result or seen.code):
        events = [event.message for event in exchange.done().events if event.message] if exchange.is_stream else []
        response = events[-1] if events else exchange.json
    if seen.result is not None:
        assert "result" in response, response
        assert missing(seen.result, response["result"]) == []
    if seen.code is not None:
        assert "error" in response, response
        assert response["error"]["code"] == seen.code


def missing(expected: Any, found: Any, at: str = "") -> list[str]:
    """Where *found* is not what is expected. Members that nothing is said of do not matter; ``...`` is any value."""
    if expected is ...:
        return []
    if isinstance(expected, dict) and expected:
        if not isinstance(found, dict):
            return [f"{at}: {found!r} is no object"]
        return [
            each
            for name, value in expected.items()
            for each in (missing(value, found[name], f"{at}.{name}") if name in found else [f"{at}.{name} is missing"])
        ]
    if isinstance(expected, (list, tuple)):
        if not isinstance(found, (list, tuple)) or len(expected) != len(found):
            return [f"{at}: {found!r}, not {expected!r}"]
        return [
            each
            for number, (value, other) in enumerate(zip(expected, found, strict=True))
            for each in missing(value, other, f"{at}[{number}]")
        ]
    return [] if expected == found else [f"{at}: {found!r}, not {expected!r}"]


# Scenes


@every_way_in
def test_a_session_lives_from_its_handshake_until_its_client_ends_it(room: Room, version: str) -> None:
    talk = Conversation(room, version).open()
    if talk.is_modern:
        assert talk.session is None
        assert "mcp-session-id" not in talk.request("tools/list").exchanges[0].headers
        assert talk.delete().status == 405
        return
    assert talk.request("tools/list").result
    assert (talk.delete().status, talk.delete().status) == (204, 404)
    assert talk.get().done().status == 404
    lost = talk.begin("tools/list")
    assert next(iter(lost))["error"]["code"] == -32600
    assert lost.exchange.status == 404


@every_way_in
def test_changes_are_heard_by_those_who_subscribed(server: MCPServer, room: Room, version: str) -> None:
    talk = Conversation(room, version)
    if not talk.can_hold:
        if talk.is_modern:
            refused = listen(talk)
            assert next(iter(refused))["error"]["code"] == -32601
            assert refused.exchange.status == 404
        else:
            assert talk.open().get().done().status == 405
        return
    if talk.is_modern:
        stream = listen(talk).exchange
    else:
        assert talk.request("resources/subscribe", {"uri": "test://here"}).result == {}
        stream = talk.get()
    assert stream.begun().headers["content-type"] == "text/event-stream"
    assert stream.next() is not None
    server.notify_resource_updated("test://page/1")
    server.notify_resource_updated("test://here")
    server.notify_list_changed("tools")
    heard = [talk.check(event.message, "") for event in (stream.next(), stream.next())]
    assert [each["method"] for each in heard] == [
        "notifications/resources/updated",
        "notifications/tools/list_changed",
    ]
    assert heard[0]["params"]["uri"] == "test://here"


def listen(talk: Conversation) -> Call:
    wanted = {"resourceSubscriptions": ["test://here"], "toolsListChanged": True}
    return talk.begin("subscriptions/listen", {"notifications": wanted})


@every_way_in
def test_a_call_that_nobody_wants_any_more_is_stopped(furniture: Furniture, room: Room, version: str) -> None:
    """Modern clients close the connection, which under WSGI nobody notices. Older ones say so; what runs in Django's
    view goes on, but what waits for an answer is given up.
    """
    talk = Conversation(room, version)
    if room.edge == "view" and talk.is_modern:
        return
    if room.edge != "asgi" and not talk.is_modern:
        check_that_a_question_can_be_cancelled(talk)
        return
    call = talk.begin("tools/call", {"name": "wait", "arguments": {}, "_meta": {"progressToken": "t"}})
    assert furniture.running.wait(WITHIN)
    if talk.is_modern:
        call.exchange.leave()
    else:
        assert talk.notify("notifications/cancelled", {"requestId": call.body["id"]}).status == 202
        call.exchange.done()
    eventually(lambda: furniture.ended)
    assert furniture.ended == ["cancelled"]


def check_that_a_question_can_be_cancelled(talk: Conversation) -> None:
    call = talk.begin_call("ask_name")
    question = call.next()
    assert talk.notify("notifications/cancelled", {"requestId": call.body["id"]}).status == 202
    talk.reply(question, accept(name="Ada"))
    call.come_back()
    assert [event for event in call.exchange.done().events if event.message] == []


@every_way_in
@pytest.mark.parametrize("version", [LEGACY])
def test_a_stream_that_was_cut_goes_on_where_it_was(furniture: Furniture, room: Room, version: str) -> None:
    """With ``Last-Event-ID``. Where streams are not held it is cut at each question."""
    talk = Conversation(room, version)
    call = talk.begin_call("ask_twice")
    for _ in range(2):
        question = call.next()
        call.exchange.leave()
        eventually(lambda: call.exchange.ended)
        call.come_back()
        talk.reply(question, accept(confirm=True))
    assert call.next()["result"]["content"][0]["text"] == "yes, yes"
    assert len(call.exchanges) > 2


@every_way_in
@pytest.mark.parametrize("version", [MODERN])
def test_a_task_answers_at_once_and_has_its_result_later(room: Room, version: str) -> None:
    talk = Conversation(room, version, {"extensions": {TASKS: {}}})
    task = talk.call("take_long").result
    assert task["resultType"] == "task"
    state = eventually(lambda: ended(talk.request("tasks/get", {"taskId": task["taskId"]}).result))
    assert state["result"]["content"][0]["text"] == "done"


def ended(task: dict[str, Any]) -> dict[str, Any] | None:
    return None if task["status"] == "working" else task

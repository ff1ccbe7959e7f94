"""Sessions: what a handshake leaves behind, for how long, and for whom."""

import datetime
import re
from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.db import connection
from django.test import override_settings
from django.utils import timezone

from django_mcp import BaseAuthentication, Context, MCPServer, Principal, RequestHead, tool
from django_mcp.models import Call, Event, PendingRequest, Session
from django_mcp.pubsub import follower
from django_mcp.revisions.legacy import sessions
from tests.clients import LEGACY
from tests.conversation import Conversation, accept
from tests.exchange import Room, eventually

pytestmark = [pytest.mark.postgresql, pytest.mark.mariadb]

LEGACY_VERSIONS = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]
YES = accept(confirm=True)


class ByName(BaseAuthentication):
    """Believes whatever name it is told."""

    blocking = False

    def authenticate(self, head: RequestHead, server: object) -> Principal:
        return Principal("name", head.headers.get("x-caller", "ada"), AnonymousUser())


@pytest.fixture
def server(make_server: Callable[..., MCPServer]) -> MCPServer:
    server = make_server(authentication=[ByName()])

    @tool(server=server, title="Ask")
    def ask(ctx: Context) -> str:
        return str(ctx.confirm("Sure?"))

    @tool(server=server)
    def who(ctx: Context) -> str:
        return f"{ctx.principal.id} {ctx.client.name} {sorted(ctx.capabilities)}"

    return server


@pytest.fixture
def edge() -> str:
    """Most of it is the same at every edge; the others are named where it matters."""
    return "asgi"


def left(talk: Conversation) -> float:
    """Seconds the one session has to live."""
    return (Session.objects.get().expires - timezone.now()).total_seconds()


# What it is


def test_an_id_is_long_random_and_of_visible_ascii(legacy_talk: Conversation, room: Room) -> None:
    ids = {Conversation(room, LEGACY).open().session for _ in range(5)}
    assert len(ids) == 5
    for each in ids:
        assert re.fullmatch(r"[\x21-\x7e]{43,}", each or "")


def test_whoever_reads_the_database_cannot_speak_in_a_session(legacy_talk: Conversation) -> None:
    legacy_talk.open()
    legacy_talk.begin_call("ask").next()
    with connection.cursor() as cursor:
        for model in (Session, Call, PendingRequest, Event):
            cursor.execute(f"SELECT * FROM {model._meta.db_table}")
            rows = cursor.fetchall()
            assert rows, model
            assert legacy_talk.session not in repr(rows)


@pytest.mark.parametrize("edge", ["asgi", "view", "view under asgi"])
@pytest.mark.parametrize("version", LEGACY_VERSIONS)
def test_every_older_version_gets_a_session_and_is_remembered_by_it(room: Room, version: str) -> None:
    capabilities = {"sampling": {}, "roots": {"listChanged": True}}
    talk = Conversation(room, version, capabilities)
    assert talk.call("who").text == "ada tests ['roots', 'sampling']"


@pytest.mark.parametrize("version", LEGACY_VERSIONS)
def test_without_a_header_the_version_is_that_of_the_session(room: Room, version: str) -> None:
    talk = Conversation(room, version).open()
    body, _ = talk.client.compose("tools/list", {})
    tools = talk.post(body, {"mcp-protocol-version": None}).json["result"]["tools"]
    assert ("title" in tools[0]) == (version >= "2025-06-18")


def test_a_session_may_know_nothing_of_its_client(room: Room) -> None:
    talk = Conversation(room, LEGACY)
    params = {"protocolVersion": LEGACY, "capabilities": "none", "clientInfo": 7}
    body, _ = talk.client.compose("initialize", params)
    talk.session = talk.post(body).done().headers["mcp-session-id"]
    talk.opened = True
    assert talk.call("who").text == "ada  []"


def test_a_session_keeps_of_its_client_only_what_is_shown(room: Room) -> None:
    talk = Conversation(room, LEGACY)
    icons = [{"src": "data:image/png;base64," + "A" * 20_000}]
    client = {"name": "tests", "version": "1", "title": "Tests", "icons": icons, "websiteUrl": 7}
    body, _ = talk.client.compose("initialize", {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": client})
    assert talk.post(body, {"mcp-protocol-version": None}).done().status == 200
    assert Session.objects.get().client == {"name": "tests", "version": "1", "title": "Tests"}


def test_capabilities_and_client_are_those_of_the_session_and_not_of_the_last_that_was_opened(room: Room) -> None:
    first = Conversation(room, LEGACY, {"roots": {}}).open()
    Conversation(room, LEGACY, {"sampling": {}}).open()
    assert first.call("who").text == "ada tests ['roots']"


def test_a_call_without_a_session_is_served_and_knows_nobody(legacy_talk: Conversation) -> None:
    legacy_talk.opened = True
    assert legacy_talk.call("who").text == "ada  []"
    assert Session.objects.count() == 0


def test_the_newest_version_leaves_nothing_behind(modern_talk: Conversation) -> None:
    assert modern_talk.call("ask", answers=[YES]).text == "True"
    assert Session.objects.count() == Call.objects.count() == Event.objects.count() == 0


# Whose it is


def test_a_session_is_of_one_caller_and_one_endpoint(
    legacy_talk: Conversation, room: Room, make_server: Callable[..., MCPServer]
) -> None:
    legacy_talk.open()
    bob = Conversation(room, LEGACY, headers={"x-caller": "bob"}, session=legacy_talk.session, opened=True)
    other = make_server("other", authentication=[ByName()])
    tool(server=other, name="who")(lambda: "x")
    with Room(other, "asgi") as elsewhere:
        there = Conversation(elsewhere, LEGACY, session=legacy_talk.session, opened=True)
        for stranger in (bob, there):
            body, headers = stranger.client.compose("tools/call", {"name": "who"})
            answer = stranger.post(body, headers).done()
            assert answer.status == 404
            assert answer.json["error"]["message"] == "Unknown session. Send 'initialize' to open a new one."
    assert legacy_talk.call("who").text.startswith("ada")


def test_a_stranger_cannot_answer_resume_or_end(legacy_talk: Conversation, room: Room) -> None:
    call = legacy_talk.begin_call("ask")
    question = call.next()
    bob = Conversation(room, LEGACY, headers={"x-caller": "bob"}, session=legacy_talk.session, opened=True)
    answer = {"jsonrpc": "2.0", "id": question["id"], "result": YES}
    assert bob.post(answer).done().status == 404
    assert bob.get(call.ids[0]).done().status == 404
    assert bob.get().done().status == 404
    assert bob.delete().status == 404
    legacy_talk.reply(question, accept(confirm=False))
    assert call.next()["result"]["content"][0]["text"] == "False"


def test_in_another_session_of_the_same_caller_the_stream_is_unknown(legacy_talk: Conversation, room: Room) -> None:
    call = legacy_talk.begin_call("ask")
    call.next()
    other = Conversation(room, LEGACY).open()
    refused = other.get(call.ids[0]).done()
    assert refused.status == 400
    assert "Last-Event-ID" in refused.json["error"]["message"]


# How long it lives


def test_a_session_that_was_never_used_lives_shortly(room: Room) -> None:
    talk = Conversation(room, LEGACY)
    body, _ = talk.client.compose("initialize", {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {}})
    talk.post(body).done()
    assert left(talk) <= 600


def test_each_use_lengthens_its_life_to_the_whole_again(legacy_talk: Conversation) -> None:
    legacy_talk.open()
    day = 24 * 60 * 60
    for remaining in (60, day / 2):
        Session.objects.update(expires=timezone.now() + datetime.timedelta(seconds=remaining))
        legacy_talk.call("who")
        assert day - 60 < left(legacy_talk) <= day


def test_a_session_that_was_just_used_is_not_written_again(legacy_talk: Conversation) -> None:
    legacy_talk.call("who")
    before = Session.objects.get().expires
    legacy_talk.call("who")
    assert Session.objects.get().expires == before


def test_the_site_says_how_long_a_session_lives(legacy_talk: Conversation) -> None:
    with override_settings(DJANGO_MCP={"AUTHENTICATION": ["django_mcp.AllowAny"], "SESSION_TTL": 100}):
        legacy_talk.open()
        assert 60 < left(legacy_talk) <= 100


def test_an_expired_session_is_gone_in_the_words_of_one_that_never_was(legacy_talk: Conversation) -> None:
    legacy_talk.open()
    Session.objects.update(expires=timezone.now() - datetime.timedelta(seconds=1))
    gone = legacy_talk.notify("notifications/initialized")
    legacy_talk.session = "never"
    never = legacy_talk.notify("notifications/initialized")
    assert (gone.status, gone.body) == (never.status, never.body)
    assert gone.status == 404


def test_the_id_of_the_request_is_in_the_refusal(legacy_talk: Conversation) -> None:
    legacy_talk.open()
    legacy_talk.session = "never"
    refused = legacy_talk.begin("tools/list", request_id="mine").next()
    assert refused["id"] == "mine"


def test_expired_sessions_are_cleared_by_those_that_come(legacy_talk: Conversation, monkeypatch: Any) -> None:
    monkeypatch.setattr(sessions, "CLEAR_EVERY", 1)
    legacy_talk.open()
    legacy_talk.begin_call("ask").next()
    past = timezone.now() - datetime.timedelta(seconds=1)
    for model in (Session, Call, Event):
        model.objects.update(expires=past)
    Conversation(legacy_talk.room, LEGACY).open()
    assert Session.objects.count() == 1
    assert Call.objects.count() == Event.objects.count() == PendingRequest.objects.count() == 0


# How it ends


def test_ending_a_session_ends_all_that_was_in_it(legacy_talk: Conversation) -> None:
    call = legacy_talk.begin_call("ask")
    question = call.next()
    ended = legacy_talk.delete()
    assert (ended.status, ended.body) == (204, b"")
    assert Session.objects.count() == Call.objects.count() == PendingRequest.objects.count() == 0
    assert legacy_talk.post({"jsonrpc": "2.0", "id": question["id"], "result": YES}).done().status == 404
    assert legacy_talk.get(call.ids[0]).done().status == 404


def test_opening_again_leaves_the_first_session_as_it_was(legacy_talk: Conversation) -> None:
    first = legacy_talk.open().session
    body, _ = legacy_talk.client.compose(
        "initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {}}
    )
    answer = legacy_talk.post(body).done()
    assert answer.headers["mcp-session-id"] != first
    assert answer.json["result"]["protocolVersion"] == "2025-06-18"
    assert legacy_talk.call("ask", answers=[YES]).text == "True"


@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25"])
def test_a_batch_in_a_session_is_refused_and_the_session_goes_on(room: Room, version: str) -> None:
    """The body is a single message (2025-06-18, Transports; pull request 381 of the conformance suite)."""
    talk = Conversation(room, version).open()
    pings = [{"jsonrpc": "2.0", "id": number, "method": "ping"} for number in (901, 902)]
    answer = talk.post(pings).done()
    assert (answer.status, answer.json["error"]["code"]) == (400, -32600)
    assert talk.post({"jsonrpc": "2.0", "id": 903, "method": "ping"}).done().json["result"] == {}


@pytest.mark.parametrize("edge", ["asgi", "view", "view under asgi"])
def test_a_batch_in_an_unknown_session_is_not_found(room: Room) -> None:
    talk = Conversation(room, "2025-03-26").open()
    body, _ = talk.client.compose("tools/list", {})
    assert len(talk.post([body]).json) == 1
    talk.session = "unknown"
    answer = talk.post([body]).done()
    assert answer.status == 404
    assert "id" not in answer.json


def test_who_calls_under_another_version_than_agreed_is_obeyed_and_asked_as_the_session_can(
    legacy_talk: Conversation,
) -> None:
    legacy_talk.open()
    legacy_talk.headers = {"mcp-protocol-version": "2025-06-18"}
    legacy_talk.version = "2025-06-18"
    assert legacy_talk.call("ask", answers=[YES]).text == "True"


def test_a_caller_with_too_many_sessions_loses_the_one_used_longest_ago(room: Room) -> None:
    other = Conversation(room, LEGACY, headers={"x-caller": "ben"})
    with override_settings(DJANGO_MCP={**settings.DJANGO_MCP, "MAX_SESSIONS_PER_CALLER": 2}):
        talks = [Conversation(room, LEGACY) for _ in range(3)]
        for talk in (other, *talks):
            assert talk.call("who").text
    assert Session.objects.count() == 3
    assert talks[0].request("tools/list").error["message"] == "Unknown session. Send 'initialize' to open a new one."
    for talk in (other, *talks[1:]):
        assert talk.call("who").text


def test_expired_sessions_are_cleared_while_a_stream_is_open_though_no_session_comes(
    legacy_talk: Conversation, room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower, "CLEAR_SECONDS", 0.0)
    Conversation(room, LEGACY, headers={"x-caller": "ben"}).open()
    legacy_talk.open()
    Session.objects.filter(principal_id="ben").update(expires=timezone.now() - datetime.timedelta(seconds=1))
    with override_settings(DJANGO_MCP={**settings.DJANGO_MCP, "POLL_INTERVAL": 0.02}):
        legacy_talk.get().begun()
        eventually(lambda: Session.objects.count() == 1, "the expired session is still there")

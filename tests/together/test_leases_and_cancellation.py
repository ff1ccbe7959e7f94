"""The leases of calls in a session, and calls that are cancelled, that outlive their answer, or are very many."""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext

from django_mcp import Context, MCPServer, tool
from django_mcp.models import Call, Event
from django_mcp.pubsub import event_store
from django_mcp.revisions.legacy import calls, sessions
from django_mcp.revisions.legacy import channel as legacy_channel
from tests.clients import LEGACY, MODERN
from tests.conversation import Conversation
from tests.exchange import WITHIN, Room, eventually

pytestmark = pytest.mark.postgresql


@pytest.fixture
def talk(server: MCPServer, open_database: None) -> Iterator[Conversation]:
    """A client in a session."""
    with Room(server, "asgi") as room:
        yield Conversation(room, LEGACY).open()


def held() -> set[int]:
    return {key for leases in legacy_channel._leases.values() for key in leases.held}


def cancel(talk: Conversation, request_id: object) -> None:
    """Cancel a call once its request has arrived: a cancellation that overtakes it is of no concern to it."""
    eventually(lambda: any(running == request_id for _, running in list(sessions._running)), "the call does not begin")
    talk.notify("notifications/cancelled", {"requestId": request_id})


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_no_lease_is_left_of_calls_cancelled_at_their_first_message(
    server: MCPServer, talk: Conversation, kind: str
) -> None:
    """The first message makes the call's row, and the cancellation arrives while it is being made."""
    given_up = threading.Event()

    @tool(server=server, read_only=True, name="speak_sync")
    def speak(ctx: Context) -> None:
        ctx.report_progress(1)
        while not given_up.wait(0.001):
            ctx.check_cancelled()

    @tool(server=server, read_only=True, name="speak_async")
    async def aspeak(ctx: Context) -> None:
        ctx.report_progress(1)
        await asyncio.sleep(WITHIN)

    params = {"name": f"speak_{kind}", "arguments": {}, "_meta": {"progressToken": 1}}
    begun = []
    try:
        for _ in range(20):
            call = talk.begin("tools/call", params)
            begun.append(call)
            cancel(talk, call.body["id"])
        for call in begun:
            call.exchange.done()
    finally:
        given_up.set()
    eventually(lambda: not held(), "a lease is left")
    assert not Call.objects.exclude(status=Call.Status.ENDED).exists()


def test_questions_of_a_call_cancelled_while_it_asks_are_withdrawn(
    server: MCPServer, talk: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    saving, go_on, ask = threading.Event(), threading.Event(), calls.store_questions

    @tool(server=server)
    async def pay(ctx: Context) -> str:
        return str(ctx.confirm("Sure?"))

    def slowly(*arguments: object) -> object:
        saving.set()
        assert go_on.wait(WITHIN)
        return ask(*arguments)

    monkeypatch.setattr(calls, "store_questions", slowly)
    call = talk.begin_call("pay")
    assert saving.wait(WITHIN)
    cancel(talk, call.body["id"])
    go_on.set()
    call.exchange.done()
    row = Call.objects.get()
    assert (row.status, row.questions.count()) == (Call.Status.ENDED, 0)
    assert not held()


@pytest.mark.parametrize("version", [MODERN, LEGACY])
def test_what_outlives_its_call_opens_no_stream_without_a_session_either(
    server: MCPServer, talk: Conversation, version: str
) -> None:
    answered, spoken = threading.Event(), threading.Event()

    @tool(server=server, read_only=True)
    async def leave_something(ctx: Context) -> str:
        async def later() -> None:
            await asyncio.to_thread(answered.wait, WITHIN)
            ctx.report_progress(1)
            spoken.set()

        left.append(asyncio.create_task(later()))
        return "done"

    left: list[asyncio.Task[None]] = []
    client = Conversation(talk.room, version, opened=True)
    call = client.begin("tools/call", {"name": "leave_something", "_meta": {"progressToken": 1}})
    assert call.next()["result"]["content"][0]["text"] == "done"
    answered.set()
    assert spoken.wait(WITHIN)
    talk.room.call(lambda: None)  # what it had to do is done, and the room fails if it was sent
    assert client.request("ping" if version == LEGACY else "tools/list").result is not None


def test_what_outlives_its_call_opens_no_stream(server: MCPServer, talk: Conversation) -> None:
    """Its row would be leased for ever, and its client has the answer already."""
    answered, spoken = threading.Event(), threading.Event()

    @tool(server=server, read_only=True)
    async def leave_something(ctx: Context) -> str:
        async def later() -> None:
            await asyncio.to_thread(answered.wait, WITHIN)
            ctx.log("emergency", "too late")
            spoken.set()

        left.append(asyncio.create_task(later()))
        return "done"

    left: list[asyncio.Task[None]] = []
    assert talk.call("leave_something").text == "done"
    answered.set()
    assert spoken.wait(WITHIN)
    assert talk.request("ping").result == {}
    assert not Call.objects.exists()
    assert not held()


TABLE = Call._meta.db_table


def test_leases_of_more_calls_than_a_statement_takes_are_renewed(
    talk: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_store, "CHUNK_SIZE", 2)
    Call.objects.all().delete()
    session = calls.Session.objects.get()
    request = calls.Request(1, "tools/call", {})
    rows = [calls.create_call(session, request, calls.new_key(), leased=True) for _ in range(5)]
    Call.objects.update(lease="2020-01-01T00:00Z")
    with CaptureQueriesContext(connection) as statements:
        calls.renew_leases([row.pk for row in rows])
    of_calls = [each for each in statements if each["sql"].startswith(f"UPDATE {connection.ops.quote_name(TABLE)}")]
    assert len(of_calls) == 3
    assert not Call.objects.filter(lease__lt=rows[0].lease).exists()
    Call.objects.all().delete()


def test_a_renewal_that_fails_is_repeated_and_logged(
    server: MCPServer,
    talk: Conversation,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    settings: Any,
) -> None:
    renewed, go_on, renew = threading.Event(), threading.Event(), calls.renew_leases
    errors: list[Exception] = [OperationalError("too many SQL variables"), RuntimeError("can't start new thread")]

    def failing(running: list[int]) -> None:
        if errors:
            raise errors.pop()
        renew(running)
        renewed.set()

    @tool(server=server, read_only=True)
    def speak(ctx: Context) -> str:
        ctx.log("emergency", "still here")
        assert go_on.wait(WITHIN)
        return "done"

    monkeypatch.setattr(calls, "renew_leases", failing)
    settings.DJANGO_MCP = {**getattr(settings, "DJANGO_MCP", {}), "KEEP_ALIVE_INTERVAL": 0.1}
    call = talk.begin_call("speak")
    try:
        assert renewed.wait(WITHIN)
    finally:
        go_on.set()
    assert [*call][-1]["result"]["content"][0]["text"] == "done"
    assert "leases of running calls cannot be renewed" in caplog.text
    assert not Event.objects.filter(data__contains="stopped before it answered").exists()

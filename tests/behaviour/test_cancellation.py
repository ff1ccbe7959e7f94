"""A call that nobody wants any more is stopped, and what it wrote is rolled back."""

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from django_mcp import Cancelled, Context, MCPServer, tool
from django_mcp.models import Call, PendingRequest
from django_mcp.revisions.legacy import sessions
from django_mcp.revisions.modern.handler import ModernChannel
from tests.clients import LEGACY
from tests.conversation import Conversation, accept
from tests.exchange import WITHIN, Room, eventually

pytestmark = pytest.mark.postgresql

YES = accept(confirm=True)
LOG = "notifications/message"


@pytest.fixture
def edge() -> str:
    """The edge where requests are live. What the others do is said where they are named."""
    return "asgi"


class Tools:
    """Tools that run until somebody stops them, and remember how they ended."""

    def __init__(self, server: MCPServer, rows: Any) -> None:
        self.running = threading.Event()
        self.give_up = threading.Event()
        self.ended: list[str] = []
        self._looking(server, rows)
        self._late(server, rows)
        self._waiting(server)

    def _looking(self, server: MCPServer, rows: Any) -> None:
        @tool(server=server, read_only=True)
        def look(ctx: Context) -> str:
            """Asks whether it is cancelled."""
            return self.until_cancelled(lambda: ctx.cancelled)

        @tool(server=server, read_only=True)
        def speak(ctx: Context, how: str) -> str:
            """Speaks until it cannot."""
            speaking: dict[str, Callable[[], Any]] = {
                "log": lambda: ctx.log("debug", "x"),
                "progress": lambda: ctx.report_progress(1),
                "check": ctx.check_cancelled,
            }
            return self.until_cancelled(speaking[how])

        @tool(server=server)
        def write(ctx: Context) -> str:
            """Writes, and waits in its transaction."""
            rows("written")
            return self.until_cancelled(ctx.check_cancelled)

    def _late(self, server: MCPServer, rows: Any) -> None:
        def late(ctx: Context, use: Callable[[], Any]) -> str:
            """Uses its context after it was cancelled."""
            self.until_cancelled(lambda: ctx.cancelled)
            self.ended.clear()
            try:
                return str(use())
            except Cancelled:
                self.ended.append("Cancelled")
                raise

        @tool(server=server)
        def ask_late(ctx: Context) -> str:
            return late(ctx, lambda: ctx.confirm("Sure?"))

        @tool(server=server)
        def act_late(ctx: Context) -> str:
            return late(ctx, lambda: ctx.once("act", lambda: rows("acted")))

    def _waiting(self, server: MCPServer) -> None:
        @tool(server=server)
        async def wait(ctx: Context, told: bool) -> str:
            """Waits for something else."""
            if told:
                ctx.log("emergency", "waiting")
            self.running.set()
            try:
                await asyncio.sleep(WITHIN)
            except asyncio.CancelledError:
                self.ended.append("CancelledError")
                raise
            return "not cancelled"

    def until_cancelled(self, look: Callable[[], Any]) -> str:
        self.running.set()
        deadline = time.monotonic() + WITHIN
        try:
            while time.monotonic() < deadline and not self.give_up.is_set():
                if look() is True:
                    self.ended.append("looked")
                    return "cancelled"
                time.sleep(0.002)
        except Exception as error:
            self.ended.append(repr(error))
            raise
        except Cancelled:
            self.ended.append("Cancelled")
            raise
        self.ended.append("went on")
        return "not cancelled"


@pytest.fixture
def tools(server: MCPServer, rows: Any) -> Tools:
    return Tools(server, rows)


NAMES: list[tuple[str, dict[str, Any], str]] = [
    ("look", {}, "looked"),
    ("speak", {"how": "log"}, "Cancelled"),
    ("speak", {"how": "progress"}, "Cancelled"),
    ("speak", {"how": "check"}, "Cancelled"),
    ("write", {}, "Cancelled"),
    ("ask_late", {}, "Cancelled"),
    ("act_late", {}, "Cancelled"),
    ("wait", {"told": False}, "CancelledError"),
    ("wait", {"told": True}, "CancelledError"),
]
EACH = pytest.mark.parametrize(("name", "arguments", "end"), NAMES)


def cancel(talk: Conversation, request_id: Any, **more: Any) -> None:
    exchange = talk.notify("notifications/cancelled", {"requestId": request_id, **more})
    assert (exchange.status, exchange.body) == (202, b"")


# Clients with a handshake say so


@EACH
def test_a_cancelled_call_stops_and_is_not_answered(
    tools: Tools, legacy_talk: Conversation, rows: Any, name: str, arguments: dict[str, Any], end: str
) -> None:
    call = legacy_talk.begin("tools/call", {"name": name, "arguments": arguments}, request_id=f"call of {name}")
    assert tools.running.wait(WITHIN)
    cancel(legacy_talk, f"call of {name}", reason="The user changed their mind.")
    exchange = call.exchange.done()
    eventually(lambda: tools.ended)
    assert tools.ended == [end]
    assert rows.written() == []
    if exchange.is_stream:
        assert all("method" in event.message for event in exchange.events if event.message)
    else:
        assert (exchange.status, exchange.body) == (202, b"")


def test_a_cancelled_call_has_no_response_to_come_back_to(tools: Tools, legacy_talk: Conversation) -> None:
    call = legacy_talk.begin_call("wait", told=True)
    assert call.next()["method"] == LOG
    cancel(legacy_talk, call.body["id"])
    call.exchange.done()
    call.come_back()
    assert call.exchange.done().is_stream
    assert [event for event in call.exchange.events if event.message] == []


def test_only_the_call_that_was_named_is_cancelled(tools: Tools, legacy_talk: Conversation, room: Room) -> None:
    other = Conversation(room, LEGACY)
    mine = legacy_talk.begin("tools/call", {"name": "look"}, request_id="same")
    assert tools.running.wait(WITHIN)
    tools.running.clear()
    theirs = other.begin("tools/call", {"name": "look"}, request_id="same")
    assert tools.running.wait(WITHIN)
    for wrong in ("other", "Same", 7, None, ["same"]):
        cancel(legacy_talk, wrong)
    legacy_talk.notify("notifications/cancelled", {})
    cancel(legacy_talk, "same")
    mine.exchange.done()
    eventually(lambda: tools.ended)
    assert tools.ended == ["looked"]
    tools.give_up.set()
    assert theirs.next()["result"]["content"][0]["text"] == "not cancelled"


def test_a_cancellation_that_comes_too_late_changes_nothing(tools: Tools, legacy_talk: Conversation) -> None:
    tools.give_up.set()
    call = legacy_talk.begin_call("look")
    assert call.next()["result"]
    cancel(legacy_talk, call.body["id"])
    assert legacy_talk.call("look").text == "not cancelled"


@pytest.mark.parametrize("edge", ["asgi", "view", "view under asgi"])
def test_a_call_that_waits_for_an_answer_can_be_cancelled(
    server: MCPServer, legacy_talk: Conversation, rows: Any
) -> None:
    runs: list[int] = []

    @tool(server=server)
    def ask(ctx: Context) -> str:
        runs.append(1)
        return str(ctx.confirm("Sure?"))

    call = legacy_talk.begin_call("ask")
    question = call.next()
    cancel(legacy_talk, call.body["id"])
    legacy_talk.reply(question, YES)
    call.come_back()
    exchange = call.exchange.done()
    assert [event for event in exchange.events if event.message] == []
    assert runs == [1]
    assert not PendingRequest.objects.exists()
    assert list(Call.objects.values_list("status", flat=True)) == ["ended"]


def test_a_later_round_can_be_cancelled_too(server: MCPServer, tools: Tools, legacy_talk: Conversation) -> None:
    @tool(server=server, read_only=True)
    def ask_and_look(ctx: Context) -> str:
        ctx.confirm("Sure?")
        return tools.until_cancelled(ctx.check_cancelled)

    call = legacy_talk.begin_call("ask_and_look")
    legacy_talk.reply(call.next(), YES)
    assert tools.running.wait(WITHIN)
    cancel(legacy_talk, call.body["id"])
    assert call.exchange.done().is_stream
    eventually(lambda: tools.ended)
    assert tools.ended == ["Cancelled"]
    assert len([event for event in call.exchange.events if event.message]) == 1


def test_a_lost_connection_cancels_nothing_where_clients_can_come_back(tools: Tools, legacy_talk: Conversation) -> None:
    call = legacy_talk.begin_call("wait", told=True)
    assert call.next()["method"] == LOG
    call.exchange.leave()
    call.come_back()
    cancel(legacy_talk, "something else")
    assert tools.ended == []
    cancel(legacy_talk, call.body["id"])
    call.exchange.done()
    eventually(lambda: tools.ended)


def test_a_call_whose_client_left_goes_on_to_its_end(tools: Tools, legacy_talk: Conversation) -> None:
    call = legacy_talk.begin_call("look")
    assert tools.running.wait(WITHIN)
    call.exchange.leave()
    # The watcher of a connection has begun by then: the same client is served meanwhile.
    assert legacy_talk.request("ping").result == {}
    tools.give_up.set()
    eventually(lambda: tools.ended)
    assert tools.ended == ["went on"]


@pytest.mark.parametrize("tasks", [1, 4], ids=["soon", "later"])
def test_a_cancellation_at_another_worker_arrives(
    tools: Tools, legacy_talk: Conversation, monkeypatch: pytest.MonkeyPatch, tasks: int
) -> None:
    """Workers share nothing but the database; a second room that knows of no calls stands for a second worker."""
    call = legacy_talk.begin_call("look")
    assert tools.running.wait(WITHIN)
    sessions._running.clear()
    # After a moment there are the connection, the call, who watches for its cancellation, and who reads the log.
    eventually(lambda: legacy_talk.room.tasks >= tasks)
    with Room(legacy_talk.server, "asgi") as elsewhere:
        there = Conversation(elsewhere, LEGACY, session=legacy_talk.session, opened=True)
        cancel(there, call.body["id"])
        call.exchange.done()
    eventually(lambda: tools.ended)
    assert tools.ended == ["looked"]


def test_without_a_session_there_is_nothing_to_cancel(tools: Tools, legacy_talk: Conversation) -> None:
    legacy_talk.opened = True
    call = legacy_talk.begin_call("look")
    assert tools.running.wait(WITHIN)
    cancel(legacy_talk, call.body["id"])
    tools.give_up.set()
    assert call.next()["result"]["content"][0]["text"] == "not cancelled"


# Clients of the newest version close the connection


@EACH
def test_closing_the_connection_stops_the_call(
    tools: Tools, modern_talk: Conversation, rows: Any, name: str, arguments: dict[str, Any], end: str
) -> None:
    call = modern_talk.begin_call(name, **arguments)
    assert tools.running.wait(WITHIN)
    call.exchange.leave()
    eventually(lambda: tools.ended)
    assert tools.ended == [end]
    eventually(lambda: modern_talk.room.tasks == 0, "something is left running")
    assert rows.written() == []


def test_a_stream_that_is_closed_stops_the_call_too(server: MCPServer, modern_talk: Conversation) -> None:
    ended: list[str] = []

    @tool(server=server)
    async def count(ctx: Context) -> str:
        try:
            for number in range(100_000):
                ctx.report_progress(number)
                await asyncio.sleep(0.001)
        except asyncio.CancelledError:
            ended.append("CancelledError")
            raise
        return "not cancelled"

    params = {"name": "count", "_meta": {"progressToken": 1}}
    call = modern_talk.begin("tools/call", params)
    assert call.next()["method"] == "notifications/progress"
    call.exchange.leave()
    eventually(lambda: ended)


def test_a_word_of_cancellation_means_nothing_to_the_newest_version(tools: Tools, modern_talk: Conversation) -> None:
    call = modern_talk.begin_call("look")
    assert tools.running.wait(WITHIN)
    cancel(modern_talk, call.body["id"])
    tools.give_up.set()
    assert call.next()["result"]["content"][0]["text"] == "not cancelled"


def test_a_cancellation_passes_through_what_catches_exceptions(server: MCPServer, modern_talk: Conversation) -> None:
    running = threading.Event()
    seen: list[str] = []

    @tool(server=server, read_only=True)
    def stubborn(ctx: Context) -> str:
        running.set()
        deadline = time.monotonic() + WITHIN
        while time.monotonic() < deadline:
            try:
                ctx.check_cancelled()
            except Exception:  # noqa: BLE001
                seen.append("caught")
            except BaseException:
                seen.append("passed")
                raise
            time.sleep(0.002)
        return "not cancelled"

    call = modern_talk.begin_call("stubborn")
    assert running.wait(WITHIN)
    call.exchange.leave()
    eventually(lambda: seen)
    assert seen == ["passed"]


USES: dict[str, Callable[[Context], Any]] = {
    "elicit": lambda ctx: ctx.elicit("Who?", {"type": "object", "properties": {"name": {"type": "string"}}}),
    "elicit_url": lambda ctx: ctx.elicit_url("Look.", "https://example.com/"),
    "confirm": lambda ctx: ctx.confirm("Sure?"),
    "sample": lambda ctx: ctx.sample("Hello"),
    "roots": lambda ctx: ctx.roots(),
    "once": lambda ctx: ctx.once("act", lambda: None),
    "log": lambda ctx: ctx.log("info", "x"),
    "report_progress": lambda ctx: ctx.report_progress(1),
    "check_cancelled": lambda ctx: ctx.check_cancelled(),
}


def give_up(call: Any, talk: Conversation) -> None:
    """As a client of each version does, until the server knows."""
    if talk.is_modern:
        call.exchange.leave()
        eventually(lambda: talk.room.tasks == 0)
    else:
        # It is answered when it has been noted, and on SQLite a tool that writes has the lock for that.
        params = {"requestId": call.body["id"]}
        talk.post({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
        call.exchange.done()


@pytest.mark.parametrize("use", USES)
def test_a_function_that_was_cancelled_stops_at_whatever_it_does_next_with_its_context(
    server: MCPServer, talk: Conversation, use: str
) -> None:
    running, go_on, ended = threading.Event(), threading.Event(), []

    @tool(server=server)
    def work(ctx: Context) -> str:
        running.set()
        assert go_on.wait(WITHIN)
        try:
            USES[use](ctx)
        except BaseException as error:
            ended.append(type(error))
            raise
        ended.append("went on")
        return "done"

    call = talk.begin_call("work")
    assert running.wait(WITHIN)
    give_up(call, talk)
    go_on.set()
    eventually(lambda: ended)
    assert ended == [Cancelled]


@pytest.mark.parametrize("wants", [True, False], ids=["with a transaction", "without one"])
def test_a_function_that_was_cancelled_and_never_looks_is_rolled_back_at_its_end(
    server: MCPServer, talk: Conversation, rows: Any, wants: bool
) -> None:
    running, go_on = threading.Event(), threading.Event()

    @tool(server=server, atomic=wants, concurrency_limit=1)
    def work(ctx: Context, again: bool = False) -> str:
        if not again:
            running.set()
            assert go_on.wait(WITHIN)
            rows("written")
        return "done"

    call = talk.begin_call("work")
    assert running.wait(WITHIN)
    give_up(call, talk)
    go_on.set()
    # The next one has its turn when the first is at its end.
    assert talk.call("work", again=True).text == "done"
    assert rows.written() == ([] if wants else ["written"])


def test_a_cancellation_that_is_repeated_leaves_a_call_time_to_clean_up() -> None:
    """Over stdio a client may say so twice, and both are heard."""

    async def cancel_twice() -> list[str]:
        cleaned: list[str] = []

        async def work() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)
                cleaned.append("up")

        channel = ModernChannel.__new__(ModernChannel)
        channel.cancelled, channel._task = False, asyncio.create_task(work())
        await asyncio.sleep(0)
        channel.cancel()
        await asyncio.sleep(0)
        channel.cancel()
        await asyncio.wait([channel._task])
        return cleaned

    assert asyncio.run(cancel_twice()) == ["up"]

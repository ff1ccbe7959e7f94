"""So many calls of a tool run at once, and no slot is lost, however a call ends."""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from django_mcp import Context, MCPServer, ToolError, tool
from django_mcp.core import execution
from django_mcp.core.execution import slots_of
from tests.behaviour.beside import beside
from tests.conversation import Conversation, accept
from tests.exchange import WITHIN, eventually

YES = accept(confirm=True)
BUSY = "The tool is busy: its limit is one call at a time. Retry in a few seconds."


class Door:
    """Where calls wait, so that a test can look at them."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.came: list[str] = []
        self.inside: set[str] = set()
        self.most = 0

    def pass_through(self, name: str) -> str:
        self.inside.add(name)
        self.most = max(self.most, len(self.inside))
        self.came.append(name)
        assert self.open.wait(WITHIN)
        self.inside.discard(name)
        return name


@pytest.fixture
def door() -> Iterator[Door]:
    door = Door()
    yield door
    door.open.set()


@pytest.fixture
def no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "WAIT_SECONDS", 0.01)


@pytest.mark.usefixtures("no_patience")
def test_one_too_many_is_told_so(server: MCPServer, talk: Conversation, door: Door) -> None:
    @tool(server=server, read_only=True, concurrency_limit=1)
    def work(name: str) -> str:
        return door.pass_through(name)

    talk.open()
    thread = beside(lambda: talk.call("work", name="first"))
    eventually(lambda: door.came)
    refused = talk.call("work", name="second")
    assert refused.failed
    assert refused.text == BUSY
    door.open.set()
    thread.join(WITHIN)
    assert talk.call("work", name="third").text == "third"
    assert door.came == ["first", "third"]


@pytest.mark.parametrize("edge", ["asgi"])
def test_who_comes_later_waits_for_its_turn_where_that_holds_no_thread(
    server: MCPServer, talk: Conversation, door: Door, kind: str
) -> None:
    limited = tool(server=server, read_only=True, concurrency_limit=2)

    if kind == "sync":

        @limited
        def work(name: str) -> str:
            return door.pass_through(name)

    else:

        @limited
        async def work(name: str) -> str:
            return await asyncio.get_running_loop().run_in_executor(None, door.pass_through, name)

    calls = [talk.begin_call("work", name=str(number)) for number in range(5)]
    eventually(lambda: len(door.came) == 2)
    door.open.set()
    assert {call.next()["result"]["content"][0]["text"] for call in calls} == {"0", "1", "2", "3", "4"}
    assert door.most == 2


def test_a_call_that_fails_gives_its_slot_back(
    server: MCPServer, talk: Conversation, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    limited = tool(server=server, concurrency_limit=1)
    ends = iter([ToolError("first"), LookupError("second"), "third"])

    def end() -> str:
        outcome = next(ends)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    if kind == "sync":

        @limited
        def work() -> str:
            return end()

    else:

        @limited
        async def work() -> str:
            return end()

    assert [talk.call("work").failed for _ in range(3)] == [True, True, False]


def test_a_call_that_asks_gives_its_slot_back_while_somebody_thinks(
    server: MCPServer, talk: Conversation, kind: str
) -> None:
    limited = tool(server=server, concurrency_limit=1)

    if kind == "sync":

        @limited
        def work(ctx: Context, ask: bool) -> str:
            return str(ctx.confirm("Sure?")) if ask else "at once"

    else:

        @limited
        async def work(ctx: Context, ask: bool) -> str:
            return str(ctx.confirm("Sure?")) if ask else "at once"

    between: list[str] = []

    def think(_: Any) -> Any:
        between.append(talk.call("work", ask=False).text)
        return YES

    assert talk.call("work", ask=True, answers=think).text == "True"
    assert between == ["at once"]


@pytest.mark.parametrize("edge", ["asgi"])
def test_a_call_that_is_cancelled_gives_its_slot_back(
    server: MCPServer, modern_talk: Conversation, kind: str, door: Door
) -> None:
    limited = tool(server=server, read_only=True, concurrency_limit=1)
    running = threading.Event()

    if kind == "sync":

        @limited
        def work(ctx: Context, wait: bool) -> str:
            running.set()
            while wait:
                ctx.check_cancelled()
                door.open.wait(0.002)
            return "its turn"

    else:

        @limited
        async def work(ctx: Context, wait: bool) -> str:
            running.set()
            if wait:
                await asyncio.Event().wait()
            return "its turn"

    call = modern_talk.begin_call("work", wait=True)
    assert running.wait(WITHIN)
    call.exchange.leave()
    assert modern_talk.call("work", wait=False).text == "its turn"


@pytest.mark.parametrize("edge", ["asgi"])
def test_a_call_that_is_cancelled_while_it_waits_for_its_turn_holds_nothing(
    server: MCPServer, modern_talk: Conversation, door: Door
) -> None:
    @tool(server=server, read_only=True, concurrency_limit=1)
    def work(ctx: Context, name: str) -> str:
        return door.pass_through(name)

    first = modern_talk.begin_call("work", name="first")
    eventually(lambda: door.came)
    waiting = slots_of(server.tools["work"])._waiting
    second = modern_talk.begin_call("work", name="second")
    eventually(lambda: waiting)
    second.exchange.leave()
    eventually(waiting[0].cancelled)
    door.open.set()
    assert first.next()["result"]
    assert modern_talk.call("work", name="third").text == "third"
    assert door.came == ["first", "third"]


@pytest.mark.parametrize("edge", ["asgi"])
@pytest.mark.usefixtures("no_patience")
def test_a_function_that_was_given_up_keeps_its_slot_until_it_ends(
    server: MCPServer, talk: Conversation, door: Door
) -> None:
    @tool(server=server, read_only=True, concurrency_limit=1, timeout=0.05)
    def work(name: str) -> str:
        return door.pass_through(name)

    assert "took longer" in talk.call("work", name="first").text
    assert talk.call("work", name="second").text == BUSY
    door.open.set()
    eventually(lambda: not door.inside)
    assert eventually(lambda: talk.call("work", name="third").text == "third")


def test_each_tool_has_slots_of_its_own(server: MCPServer, talk: Conversation, door: Door) -> None:
    @tool(server=server, read_only=True, concurrency_limit=1)
    def work(name: str) -> str:
        return door.pass_through(name)

    @tool(server=server, read_only=True, concurrency_limit=1)
    def other() -> str:
        return "other"

    talk.open()
    thread = beside(lambda: talk.call("work", name="first"))
    eventually(lambda: door.came)
    assert talk.call("other").text == "other"
    door.open.set()
    thread.join(WITHIN)


def test_what_is_no_number_of_calls_is_refused_in_words(server: MCPServer, subtests: pytest.Subtests) -> None:
    for limit in [0, -1, 1.5, "2", True]:
        with (
            subtests.test(limit=limit),
            pytest.raises(ImproperlyConfigured, match="concurrency_limit must be a number of at least 1"),
        ):
            tool(server=server, name="work", concurrency_limit=limit)(lambda: "x")

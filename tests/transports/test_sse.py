"""Connections of streams that are mostly silent: one task each, and a bound for clients that do not read."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from typing import Any

import pytest

from django_mcp.core.principal import Principal
from django_mcp.pubsub import follower, stream_slots
from django_mcp.pubsub.event_store import Entry
from django_mcp.pubsub.follower import Follower, Subscription
from django_mcp.revisions.base import SSEEvent
from django_mcp.revisions.subscriptions import ParkedStream, SlotStream
from django_mcp.transports import sse
from django_mcp.transports.sse import HeldStream

WITHIN = 10.0
LONG = "x" * 1000


class Echo(ParkedStream):
    """Says what the log says."""

    def __init__(self, fails: Exception | None = None) -> None:
        super().__init__()
        self.fails = fails
        self.at_once: list[int] = []

    async def first_events(self) -> AsyncGenerator[SSEEvent, None]:
        self.subscription = Subscription(Follower(), ["topic"], None)
        yield SSEEvent(b"first")

    async def events_for(self, entries: Sequence[Entry]) -> Sequence[SSEEvent]:
        self.at_once.append(len(entries))
        if self.fails is not None:
            raise self.fails
        self.is_over = any(entry.data == "over" for entry in entries)
        return [SSEEvent(entry.data.encode()) for entry in entries]

    def closing_events(self) -> Sequence[SSEEvent]:
        return [SSEEvent(b"farewell")]


class Connection:
    """What an ASGI server gives an application."""

    def __init__(self, stream: Echo) -> None:
        self.stream = stream
        self.sent: list[dict[str, Any]] = []
        self.takes = asyncio.Event()
        self.takes.set()
        self.gone = asyncio.Event()
        self.moved = asyncio.Event()
        self.holding = asyncio.create_task(HeldStream(stream, [], self.receive, self.send).hold())

    async def receive(self) -> dict[str, Any]:
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: dict[str, Any]) -> None:
        self.sent.append(message)
        self.moved.set()
        await self.takes.wait()

    @property
    def body(self) -> str:
        return b"".join(message.get("body", b"") for message in self.sent).decode()

    @property
    def ended(self) -> bool:
        return "body" in self.sent[-1] and not self.sent[-1].get("more_body")

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(WITHIN):
            while not condition():
                self.moved.clear()
                await self.moved.wait()

    def log(self, *data: str) -> None:
        subscription = self.stream.subscription
        assert subscription is not None
        for number, each in enumerate(data, 1):
            subscription.put(Entry(number, "topic", each))


def played(act: Callable[[Connection], Coroutine[Any, Any, None]], stream: Echo | None = None) -> Connection:
    """A connection, once *act* was done with it and its client has left."""

    async def play() -> Connection:
        connection = Connection(stream or Echo())
        await connection.until(lambda: "first" in connection.body)
        await act(connection)
        connection.gone.set()
        connection.takes.set()
        async with asyncio.timeout(WITHIN):
            await connection.holding
        return connection

    return asyncio.run(play())


def test_the_slot_of_a_stream_that_never_began_is_given_back() -> None:
    """Not only once the garbage collector finds it."""

    async def events() -> AsyncGenerator[SSEEvent, None]:
        yield SSEEvent(b"never")

    slots = [stream_slots.StreamSlot(Principal("public", "", None)) for _ in range(2)]
    parked = Echo()
    parked.slot = slots[0]
    for stream in (parked, SlotStream(events(), slots[1])):
        asyncio.run(stream.aclose())
    assert not stream_slots._slots


def test_a_silent_stream_is_one_task_and_what_it_says_comes_from_another_that_ends() -> None:
    async def act(connection: Connection) -> None:
        await asyncio.sleep(0)
        before = asyncio.all_tasks()
        assert before == {asyncio.current_task(), connection.holding}
        connection.log("one")
        await connection.until(lambda: "one" in connection.body)
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == before

    connection = played(act)
    assert not connection.ended, "nobody is there to be told of the end"


def test_a_comment_keeps_it_alive() -> None:
    async def act(connection: Connection) -> None:
        connection.stream.subscription.put(None)
        await connection.until(lambda: connection.body.endswith("\r\n\r\n:\r\n\r\n"))

    played(act)


def test_the_server_ends_it_with_its_last_words() -> None:
    async def act(connection: Connection) -> None:
        connection.log("one")
        connection.stream.subscription.end()
        async with asyncio.timeout(WITHIN):
            await connection.holding

    connection = played(act)
    assert connection.ended
    assert connection.body.index("one") < connection.body.index("farewell")


def test_it_ends_without_them_where_it_says_so_itself() -> None:
    async def act(connection: Connection) -> None:
        connection.log("over")
        async with asyncio.timeout(WITHIN):
            await connection.holding

    connection = played(act)
    assert connection.ended
    assert "farewell" not in connection.body


def test_what_goes_wrong_ends_the_stream_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def act(connection: Connection) -> None:
        connection.log("one")
        await asyncio.wait([connection.holding], timeout=WITHIN)

    connection = played(act, Echo(ZeroDivisionError()))
    assert connection.ended
    assert [record.exc_info[0] for record in caplog.records if record.exc_info] == [ZeroDivisionError]


def test_a_server_that_cancels_it_has_its_way() -> None:
    async def act(connection: Connection) -> None:
        connection.holding.cancel()
        await asyncio.wait([connection.holding], timeout=WITHIN)

    with pytest.raises(asyncio.CancelledError):
        played(act)


def test_of_what_a_client_does_not_read_little_is_kept_and_it_is_told_to_come_back() -> None:
    most = 0

    async def act(connection: Connection) -> None:
        nonlocal most
        connection.takes.clear()
        subscription = connection.stream.subscription
        connection.log(*[LONG] * 500)
        await connection.until(lambda: LONG in connection.body)
        most = len(connection.sent[-1]["body"])
        connection.log(*[LONG] * (follower.MAX_BUFFERED + 1))
        assert subscription.take() is None, "what it would not have read is let go of"
        assert subscription.ended
        connection.log(LONG)
        assert subscription.take() is None
        connection.takes.set()
        async with asyncio.timeout(WITHIN):
            await connection.holding

    connection = played(act)
    assert connection.ended
    assert most < sse.MAX_WAITING_BYTES + 2 * len(LONG)
    assert max(connection.stream.at_once) == sse.MAX_ENTRIES
    assert connection.body.count(LONG) == 500


def wired(act: Callable[[sse.LiveResponse, Connection], Coroutine[Any, Any, None]]) -> Connection:
    """What came out of a wire, once *act* was done with it and its client reads again."""

    async def play() -> Connection:
        connection = Connection(Echo())
        connection.holding.cancel()
        connection.takes.clear()
        wire = sse.LiveResponse(connection.receive, connection.send, takes_events=True, headers=())
        await act(wire, connection)
        connection.takes.set()
        async with asyncio.timeout(WITHIN):
            await wire.finish(sse.MCPResponse(200, b"answer"))
        return connection

    return asyncio.run(play())


def test_notifications_are_dropped_for_a_client_that_does_not_read_and_the_answer_is_not() -> None:
    big = SSEEvent(b"y" * (sse.MAX_BYTES // 4))

    async def act(wire: sse.LiveResponse, connection: Connection) -> None:
        for _ in range(50):
            wire.send(big)
        await connection.until(lambda: connection.sent)

    connection = wired(act)
    assert connection.body.count("y") < 2 * sse.MAX_BYTES
    assert "data: answer" in connection.body
    assert connection.ended


def test_a_stream_that_can_be_resumed_ends_before_there_is_a_hole_in_it() -> None:
    most = sse.MAX_WAITING + 1

    async def act(wire: sse.LiveResponse, connection: Connection) -> None:
        for number in range(most + 50):
            wire.send(SSEEvent(b"word", id=f"key.{number}"))
        await connection.until(lambda: connection.sent)

    connection = wired(act)
    assert f"id: key.{most - 1}\r\n" in connection.body
    assert f"id: key.{most}\r\n" not in connection.body
    assert "answer" not in connection.body, "the client asks for what comes after the last id it saw"
    assert connection.ended

"""The follower with very many streams: they are told in turns, kept alive in turns, and all read with one query."""

import asyncio
import datetime
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from django.db import OperationalError
from django.test import override_settings
from django.utils import timezone

from django_mcp.core.principal import Principal
from django_mcp.pubsub import event_store, follower
from django_mcp.pubsub.follower import Follower, Subscription

PERIOD = 15.0
MANY = 1000


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds, which pass as a test says."""
    now = [1000.0]
    monkeypatch.setattr(follower.time, "monotonic", lambda: now[0])
    return now


@pytest.fixture
def nothing_is_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    async def newest() -> int:
        return 0

    async def run(_: Follower) -> None:
        """Reads nothing."""

    monkeypatch.setattr(follower, "newest_position", newest)
    monkeypatch.setattr(Follower, "_run", run)


def play(act: Callable[[Follower], Coroutine[Any, Any, None]]) -> None:
    async def begin() -> None:
        await act(Follower())

    asyncio.run(begin())


async def joined(reader: Follower, count: int, topic: str = "topic") -> list[Subscription]:
    return [await reader.join([topic], None) for _ in range(count)]


def kept_alive(every: list[Subscription]) -> int:
    """How many were told to say something since this was last asked."""
    return sum(each.take() == [None] for each in every)


@pytest.mark.usefixtures("nothing_is_logged")
@override_settings(DJANGO_MCP={"KEEP_ALIVE_INTERVAL": PERIOD})
def test_streams_that_were_opened_together_are_kept_alive_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    async def act(reader: Follower) -> None:
        every = await joined(reader, MANY)
        now = follower.time.monotonic()
        monkeypatch.setattr(follower.time, "monotonic", lambda: now)
        reader._keep_alive()
        assert kept_alive(every) == 0, "none was silent for long"
        now += PERIOD
        counts = []
        for _ in range(int(PERIOD)):
            reader._keep_alive()
            counts.append(kept_alive(every))
            now += 1
        assert sum(counts) == MANY, "each was, within the period"
        assert max(counts) <= MANY / 2

    play(act)


@pytest.mark.usefixtures("nothing_is_logged")
def test_others_on_the_event_loop_have_their_turn_while_all_are_told() -> None:
    async def act(reader: Follower) -> None:
        every = await joined(reader, MANY)
        told = asyncio.create_task(reader._deliver(event_store.Entry(1, "topic", "{}")))
        await asyncio.sleep(0)
        assert 0 < sum(each.has_entries for each in every) < MANY
        await told
        assert all(each.has_entries for each in every)

    play(act)


@pytest.mark.usefixtures("nothing_is_logged")
def test_a_stream_ends_with_its_credential_though_others_do_not() -> None:
    async def act(reader: Follower) -> None:
        soon, late = (timezone.now() + datetime.timedelta(seconds=each) for each in (-1, 3600))
        first = await reader.join(["topic"], Principal("test", "first", None, expires=soon))
        other = await reader.join(["topic"], Principal("test", "other", None, expires=late))
        never = await reader.join(["topic"], None)
        reader._maintain_streams()
        assert [each.ended for each in (first, other, never)] == [True, False, False]
        other.until = 0.0
        reader._expiry = 0.0
        reader._maintain_streams()
        assert [each.ended for each in (first, other, never)] == [True, True, False]

    play(act)


@pytest.mark.usefixtures("nothing_is_logged")
@override_settings(DJANGO_MCP={"KEEP_ALIVE_INTERVAL": PERIOD})
def test_an_error_of_one_stream_is_logged_and_no_other_stream_misses_anything(
    clock: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any) -> bool:
        raise LookupError("of one stream")

    async def act(reader: Follower) -> None:
        odd, *others = await joined(reader, 3)
        odd.matches = fail
        await reader._deliver(event_store.Entry(1, "topic", "{}"))
        assert [[each.id for each in other.take() or () if each] for other in others] == [[1], [1]]
        odd.ready = fail
        clock[0] += 2 * PERIOD
        reader._maintain_streams()
        assert kept_alive(others) == 2
        reader.end()
        assert all(each.ended for each in others)

    play(act)
    assert "of one stream" in caplog.text


def test_the_log_is_read_on_after_an_error(open_database: None, monkeypatch: pytest.MonkeyPatch) -> None:
    errors = [LookupError("of the reader")]
    read = Follower._read

    async def failing(reader: Follower) -> None:
        if errors:
            raise errors.pop()
        await read(reader)

    monkeypatch.setattr(Follower, "_read", failing)

    async def main() -> list[int]:
        reader = Follower()
        with override_settings(DJANGO_MCP={"POLL_INTERVAL": 0.01}):
            subscription = await reader.join(["a topic"], None)
            await asyncio.to_thread(event_store.append, [("a topic", "{}")])
            async with asyncio.timeout(10):
                async for entry in subscription.entries():
                    if entry is not None:
                        subscription.close()
                        return [entry.id]
        return []

    assert asyncio.run(main())


@pytest.mark.usefixtures("nothing_is_logged")
def test_a_stream_that_was_closed_keeps_nothing_and_is_not_known_any_more() -> None:
    async def act(reader: Follower) -> None:
        one, other = await joined(reader, 2)
        one.put(event_store.Entry(1, "topic", "{}"))
        one.close()
        one.put(event_store.Entry(2, "topic", "{}"))
        assert one.take() is None
        await reader._deliver(event_store.Entry(3, "topic", "{}"))
        assert one.take() is None
        assert [each.id for each in other.take() or ()] == [3]

    play(act)


@pytest.mark.postgresql
@pytest.mark.django_db
@pytest.mark.parametrize("topics", [["a"], ["a", "b"], None])
def test_what_is_read_is_of_the_topics_or_all(topics: list[str] | None) -> None:
    before = event_store.newest()
    event_store.append([("a", "1"), ("b", "2"), ("c", "3")])
    wanted = {"a", "b", "c"} if topics is None else set(topics)
    assert {entry.topic for entry in event_store.since(before, topics).entries} == wanted


def test_with_very_many_topics_each_stream_still_hears_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def since(position: int, topics: Any) -> event_store.Page:
        asked.append(topics)
        entries = [event_store.Entry(1, "topic 7", "{}"), event_store.Entry(2, "somebody else's", "{}")]
        return event_store.Page(entries, 2, is_whole=True)

    monkeypatch.setattr(follower.event_store, "since", since)
    monkeypatch.setattr(follower.event_store, "newest", lambda: 0)

    async def act(reader: Follower) -> None:
        monkeypatch.setattr(Follower, "_run", lambda _: asyncio.sleep(0))
        every = [await reader.join([f"topic {number}"], None) for number in range(follower.MAX_NAMED_TOPICS + 1)]
        await reader._read()
        assert asked == [None]
        assert [number for number, each in enumerate(every) if each.has_entries] == [7]
        every[0].close()
        await reader._read()
        assert len(asked[-1]) == follower.MAX_NAMED_TOPICS

    play(act)


def test_who_joins_hears_of_nothing_that_was_written_before_however_far_the_others_have_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written = [7]

    async def newest() -> int:
        return written[-1]

    async def run(_: Follower) -> None:
        """Has not read further yet."""
        await asyncio.sleep(3600)

    monkeypatch.setattr(follower, "newest_position", newest)
    monkeypatch.setattr(Follower, "_run", run)

    async def act(reader: Follower) -> None:
        (first,) = await joined(reader, 1)
        written.append(9)
        (second,) = await joined(reader, 1)
        assert (first.since, second.since) == (7, 9)

    play(act)


@pytest.mark.postgresql
def test_a_stream_that_began_while_the_database_was_away_misses_nothing_since(
    open_database: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    newest, find_position = event_store.newest, event_store.position_at
    heard: list[str] = []

    def away() -> int:
        monkeypatch.setattr(event_store, "newest", newest)
        raise OperationalError("the connection was closed")

    monkeypatch.setattr(event_store, "newest", away)

    async def act(reader: Follower) -> None:
        (stream,) = await joined(reader, 1)
        while not heard:
            heard.extend(entry.data for entry in stream.take() or () if entry is not None)
            await asyncio.sleep(0)
        stream.close()
        await asyncio.wait([reader._task])

    def position_at(moment: datetime.datetime) -> int:
        # Stored after the stream began, before it reads for the first time.
        event_store.append([("topic", "news")])
        return find_position(moment)

    monkeypatch.setattr(event_store, "position_at", position_at)
    with override_settings(DJANGO_MCP={"POLL_INTERVAL": 0.01}):
        play(act)
    assert heard == ["news"]

"""Positions of events: given after the commit, in one order for all readers, whoever writes and reads at once."""

import datetime
import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import OperationalError, connection, connections, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from django_mcp.models import Event, EventSequence, Session
from django_mcp.pubsub import cleanup, event_store
from django_mcp.revisions.legacy import sessions
from tests.exchange import WITHIN

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.postgresql, pytest.mark.mariadb]


@pytest.fixture(autouse=True)
def begun(db: None) -> int:
    """There was an event before."""
    event_store.append([("before", "")])
    return event_store.newest()


@pytest.fixture
def others_write() -> None:
    if connection.vendor == "sqlite":
        pytest.skip("on SQLite nobody else writes while a transaction does")


@contextmanager
def in_a_transaction_elsewhere(act: Callable[[], Any]) -> Iterator[None]:
    """*act* in a transaction of another connection, which is open for the length of the block."""
    has_acted, may_end = threading.Event(), threading.Event()

    def run() -> None:
        try:
            with transaction.atomic():
                act()
                has_acted.set()
                assert may_end.wait(WITHIN)
        finally:
            connections.close_all()

    thread = threading.Thread(target=run)
    thread.start()
    assert has_acted.wait(WITHIN)
    try:
        yield
    finally:
        may_end.set()
        thread.join(WITHIN)


@pytest.mark.usefixtures("others_write")
def test_what_is_committed_late_comes_after_what_was_read(begun: int) -> None:
    with in_a_transaction_elsewhere(lambda: event_store.append([("a", "late")])):
        event_store.append([("a", str(number)) for number in range(event_store.CHUNK_SIZE + 5)])
        position, read = begun, list[str]()
        while not (page := event_store.since(position, ["a"])).is_whole:
            assert 0 < len(page.entries) <= event_store.CHUNK_SIZE, "they are read while others have no position yet"
            read += [entry.data for entry in page.entries]
            position = page.position
        read += [entry.data for entry in page.entries]
        assert read == [str(number) for number in range(event_store.CHUNK_SIZE + 5)]
    assert [entry.data for entry in event_store.since(page.position, ["a"]).entries] == ["late"]
    assert [entry.data for entry in event_store.after(page.position, ["a"])] == ["late"]
    assert [entry.data for entry in event_store.latest(page.position, ["a"])] == ["late"]


@pytest.mark.usefixtures("others_write")
def test_a_reader_does_not_wait_for_another_that_gives_positions(begun: int) -> None:
    event_store.append([("a", "1")])
    with in_a_transaction_elsewhere(lambda: event_store.append_numbered([("a", "2")])):
        page = event_store.since(begun, ["a"])
        assert (page.entries, page.is_whole) == ([], False)
    assert [entry.data for entry in event_store.since(begun, ["a"]).entries] == ["2", "1"]


def test_what_a_process_left_that_died_is_read_by_the_next(begun: int) -> None:
    """It had no time to notify anybody, nor to give a position."""
    now = Event.objects.get().created
    Event.objects.create(topic="a", data="left", created=now, expires=now)
    assert [entry.data for entry in event_store.since(begun, ["a"]).entries] == ["left"]


def test_what_was_committed_after_its_time_is_still_read(begun: int) -> None:
    """Its transaction was open for longer."""
    past = timezone.now() - datetime.timedelta(days=1)
    Event.objects.create(topic="a", data="late", created=past, expires=past)
    cleanup.clear()
    assert [entry.data for entry in event_store.since(begun, ["a"]).entries] == ["late"]
    Event.objects.update(expires=past)
    cleanup.clear()
    assert not Event.objects.exists()


def test_an_idle_reader_makes_one_query_and_never_writes(begun: int) -> None:
    with CaptureQueriesContext(connection) as queries:
        assert event_store.since(begun, ["a"]).is_whole
    assert [query["sql"].split()[0] for query in queries] == ["SELECT"]


@pytest.mark.usefixtures("others_write")
def test_writers_do_not_wait_for_each_other() -> None:
    with in_a_transaction_elsewhere(lambda: event_store.append([("a", "1")])):
        event_store.append([("a", "2")])
        assert event_store.newest()


def test_a_rollback_leaves_no_position_behind(begun: int) -> None:
    with transaction.atomic():
        event_store.append_numbered([("a", "gone")])
        transaction.set_rollback(True)
    with transaction.atomic():
        event_store.append([("a", "kept")])
        with transaction.atomic():
            event_store.append([("a", "gone too")])
            transaction.set_rollback(True)
        event_store.append([("a", "kept too")])
    entries = event_store.since(begun, ["a"]).entries
    assert [entry.data for entry in entries] == ["kept", "kept too"]
    assert entries[0].id == begun + 1


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The first lock is that of a row which another transaction changed: an error with REPEATABLE READ."""
    locks, lock = list[int](), event_store._lock

    def slow(count: int = 0) -> int:
        locks.append(count)
        if len(locks) == 1:
            raise OperationalError(1213, "Deadlock found when trying to get lock")
        return lock(count)

    monkeypatch.setattr(event_store, "_lock", slow)
    return locks


@pytest.mark.usefixtures("others_write")
def test_a_process_that_was_faster_costs_a_second_attempt_where_snapshots_are_kept(slow: list[int]) -> None:
    event_store.append([("a", "1")])
    assert event_store.assign_positions()
    assert len(slow) == 2
    assert not Event.objects.filter(position=None).exists()


def test_what_a_session_or_a_call_says_is_written_at_the_second_attempt(slow: list[int]) -> None:
    session = Session.objects.create(key="k", expires=timezone.now())
    sessions.cancel(session, {"requestId": 1})
    assert Event.objects.filter(data='{"cancelled": 1}').count() == 1
    assert len(slow) == 2


def test_a_transaction_around_it_is_lost_as_a_whole(slow: list[int]) -> None:
    with pytest.raises(OperationalError), transaction.atomic():
        event_store.append_numbered([("a", "1")])
    assert len(slow) == 1


def write(name: int, committed: list[str]) -> None:
    """Write, sometimes slowly, sometimes in vain; a third of the writers give positions themselves."""
    dice = random.Random(name)
    append = event_store.append_numbered if name % 3 == 0 else event_store.append
    for number in range(40):
        data = f"{name}/{number}"
        with transaction.atomic():
            append([("a", data), ("others", data)])
            time.sleep(dice.choice([0, 0, 0.001, 0.05]))
            is_kept = dice.random() > 0.1
            transaction.set_rollback(not is_kept)
        if is_kept:
            committed.append(data)


def read_on(position: int, read: list[str], ended: threading.Event) -> None:
    """Read until nothing comes any more."""
    is_last = False
    while True:
        page = event_store.since(position, ["a"])
        read += [entry.data for entry in page.entries]
        position = page.position
        if is_last and page.is_whole and not page.entries:
            return
        is_last = ended.is_set()


def started(function: Callable[..., None], *arguments: Any) -> Future[None]:
    """*function* in a thread, with connections of its own."""
    future: Future[None] = Future()

    def run() -> None:
        try:
            future.set_result(function(*arguments))
        except BaseException as error:  # noqa: BLE001 - raised by result()
            future.set_exception(error)
        finally:
            connections.close_all()

    threading.Thread(target=run).start()
    return future


@pytest.mark.usefixtures("others_write")
@pytest.mark.slow
def test_readers_and_writers_at_once_lose_nothing_and_agree_on_the_order(begun: int) -> None:
    committed, read, ended = list[str](), [list[str]() for _ in range(3)], threading.Event()
    readers = [started(read_on, begun, mine, ended) for mine in read]
    for writer in [started(write, name, committed) for name in range(6)]:
        writer.result()
    ended.set()
    for reader in readers:
        reader.result()
    assert read[0] == read[1] == read[2]
    assert sorted(read[0]) == sorted(committed)
    positions = list(Event.objects.values_list("position", flat=True))
    assert len(positions) == len(set(positions))
    assert max(positions) == EventSequence.objects.get().last


@pytest.mark.usefixtures("others_write")
@pytest.mark.slow
@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_writers_of_a_session_at_once_lose_nothing_where_snapshots_are_kept(level: str) -> None:
    session = Session.objects.create(key="k", expires=timezone.now())

    def cancel(first: int) -> None:
        with connection.cursor() as cursor:
            session_of = "SESSION CHARACTERISTICS AS" if connection.vendor == "postgresql" else "SESSION"
            cursor.execute(f"SET {session_of} TRANSACTION ISOLATION LEVEL {level}")
        for number in range(first, first + 20):
            sessions.cancel(session, {"requestId": number})

    for writer in [started(cancel, first) for first in (100, 200, 300)]:
        writer.result()
    assert Event.objects.filter(data__contains="cancelled").count() == 60

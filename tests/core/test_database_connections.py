"""Database connections of worker threads: kept while they are good, replaced when they are not."""

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import DatabaseError, OperationalError, connections, transaction

from django_mcp.core import concurrency
from django_mcp.core import database as looked_after
from django_mcp.core.concurrency import Pool
from django_mcp.core.database import IDLE_SECONDS, KEEP_SECONDS, refresh_connections

ALIAS = "shelf"


class Clock:
    """Time that passes only when told to, for the package and for Django."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    fake = SimpleNamespace(monotonic=clock.monotonic)
    monkeypatch.setattr(concurrency, "time", fake)
    monkeypatch.setattr(looked_after, "time", fake)
    monkeypatch.setattr("django.db.backends.base.base.time", fake)
    return clock


@pytest.fixture
def make_database(tmp_path: Path, django_db_blocker: Any) -> Iterator[Callable[..., Any]]:
    """Adds a database in a file: unlike one in memory it can be closed."""

    def make(**options: Any) -> Any:
        databases = {"default": {}, ALIAS: {"ENGINE": "django.db.backends.sqlite3", "NAME": tmp_path / "db", **options}}
        connections.settings[ALIAS] = connections.configure_settings(databases)[ALIAS]
        return connections[ALIAS]

    with django_db_blocker.unblock():
        yield make
        connections[ALIAS].close()
        del connections[ALIAS]
        del connections.settings[ALIAS]


def ask(database: Any) -> Any:
    """Use the database; the driver's connection that was used."""
    with database.cursor() as cursor:
        cursor.execute("SELECT 1")
    return database.connection


@pytest.mark.parametrize("max_age", [0, 60, None])
def test_a_good_connection_is_kept_from_one_job_to_the_next(clock: Clock, make_database: Any, max_age: Any) -> None:
    database = make_database(CONN_MAX_AGE=max_age)
    before = ask(database)
    for _ in range(5):
        clock.now += 1
        refresh_connections(1.0)
        assert ask(database) is before


def test_a_worker_keeps_its_connection_across_jobs_and_event_loops_with_max_age_zero(make_database: Any) -> None:
    make_database(CONN_MAX_AGE=0)
    pool = Pool(1)

    async def main() -> list[Any]:
        return [await pool.sync(lambda: ask(connections[ALIAS])) for _ in range(3)]

    used = asyncio.run(main()) + asyncio.run(main())
    pool.close()
    assert len(used) == 6
    assert {id(each) for each in used} == {id(used[0])}


def test_a_worker_closes_its_connections_when_it_ends(make_database: Any) -> None:
    make_database()
    pool = Pool(1)
    used = asyncio.run(pool.sync(lambda: ask(connections[ALIAS])))
    pool.close()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        used.execute("SELECT 1")


def test_a_worker_whose_connection_broke_has_a_new_one_for_the_next_job(
    make_database: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_database()
    pool = Pool(1)

    def lose() -> Any:
        database = connections[ALIAS]
        used = ask(database)
        monkeypatch.setattr(database, "is_usable", lambda: False)
        database.errors_occurred = True
        return used

    async def main() -> tuple[Any, Any]:
        return await pool.sync(lose), await pool.sync(lambda: ask(connections[ALIAS]))

    lost, found = asyncio.run(main())
    pool.close()
    assert found is not lost


def test_a_worker_that_is_busy_without_the_database_notices_that_its_connection_died(
    clock: Clock, make_database: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_database(CONN_MAX_AGE=None)
    pool = Pool(1)

    def die() -> Any:
        database = connections[ALIAS]
        used = ask(database)
        monkeypatch.setattr(database, "is_usable", lambda: False)
        return used

    async def main() -> tuple[Any, Any]:
        before = await pool.sync(die)
        for _ in range(int(IDLE_SECONDS)):
            clock.now += 1.1
            await pool.sync(lambda: None)
        return before, await pool.sync(lambda: ask(connections[ALIAS]))

    lost, found = asyncio.run(main())
    pool.close()
    assert found is not lost


def test_async_code_whose_connection_broke_has_a_new_one_after_its_first_error(
    make_database: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Django's async ORM works in a thread of asgiref's, after which nobody else looks at the ASGI edge."""
    make_database()

    def lose() -> None:
        database = connections[ALIAS]
        ask(database)
        monkeypatch.setattr(database, "is_usable", lambda: False)
        with database.cursor() as cursor:
            cursor.execute("SELECT * FROM nowhere")

    def look() -> Any:
        found = connections[ALIAS].connection
        connections[ALIAS].close()
        return found

    async def main() -> Any:
        with pytest.raises(OperationalError):
            await Pool(1).coroutine(sync_to_async(lose))
        return await sync_to_async(look)()

    assert asyncio.run(main()) is None


def test_a_connection_with_max_age_zero_is_replaced_in_the_end(clock: Clock, make_database: Any) -> None:
    database = make_database(CONN_MAX_AGE=0)
    before = ask(database)
    clock.now += KEEP_SECONDS - 1
    refresh_connections(0.0)
    assert database.connection is before
    clock.now += 1
    refresh_connections(0.0)
    assert database.connection is None
    assert ask(database) is not before


def test_a_connection_is_as_old_as_the_site_allows_and_no_older(clock: Clock, make_database: Any) -> None:
    database = make_database(CONN_MAX_AGE=60)
    before = ask(database)
    clock.now += 59
    refresh_connections(0.0)
    assert database.connection is before
    clock.now += 1
    refresh_connections(0.0)
    assert database.connection is None


def test_a_connection_without_max_age_never_grows_old(clock: Clock, make_database: Any) -> None:
    database = make_database(CONN_MAX_AGE=None)
    before = ask(database)
    clock.now += 1e9
    refresh_connections(0.0)
    assert database.connection is before


def test_a_connection_is_asked_after_an_error_and_replaced_if_it_is_dead(
    make_database: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = make_database()
    before = ask(database)
    with pytest.raises(OperationalError), database.cursor() as cursor:
        cursor.execute("SELECT * FROM nowhere")
    assert database.errors_occurred
    monkeypatch.setattr(database, "is_usable", lambda: False)
    refresh_connections(0.0)
    assert ask(database) is not before


def test_a_connection_that_survived_an_error_is_kept_and_not_asked_again(
    make_database: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = make_database()
    before = ask(database)
    asked: list[bool] = []
    monkeypatch.setattr(database, "is_usable", lambda: asked.append(True) or True)
    database.errors_occurred = True
    refresh_connections(0.0)
    refresh_connections(0.0)
    assert database.connection is before
    assert asked == [True]
    assert not database.errors_occurred


@pytest.mark.parametrize(("idle", "asks"), [(0.0, False), (IDLE_SECONDS, False), (IDLE_SECONDS + 0.1, True)])
def test_a_connection_is_asked_whether_it_is_alive_after_a_long_sleep_only(
    make_database: Any, monkeypatch: pytest.MonkeyPatch, idle: float, asks: bool
) -> None:
    database = make_database()
    ask(database)
    asked: list[bool] = []
    monkeypatch.setattr(database, "is_usable", lambda: asked.append(True) or True)
    refresh_connections(idle)
    assert bool(asked) is asks


def test_a_connection_that_died_in_its_sleep_is_replaced(make_database: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    database = make_database()
    before = ask(database)
    monkeypatch.setattr(database, "is_usable", lambda: False)
    refresh_connections(IDLE_SECONDS * 2)
    assert ask(database) is not before


def test_a_connection_inside_a_transaction_is_left_alone(clock: Clock, make_database: Any) -> None:
    database = make_database(CONN_MAX_AGE=0)
    with transaction.atomic(using=ALIAS):
        before = ask(database)
        clock.now += KEEP_SECONDS * 2
        database.errors_occurred = True
        refresh_connections(IDLE_SECONDS * 2)
        assert database.connection is before
    assert ask(database) is before


def test_a_database_nobody_used_is_not_opened(make_database: Any) -> None:
    database = make_database()
    refresh_connections(IDLE_SECONDS * 2)
    assert database.connection is None


def test_a_closed_connection_is_opened_by_whoever_needs_it(make_database: Any) -> None:
    database = make_database()
    before = ask(database)
    database.close()
    refresh_connections(0.0)
    assert ask(database) is not before


def test_a_connection_that_cannot_be_closed_cleanly_fails_one_job_and_no_thread(
    make_database: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_database()
    pool = Pool(1)

    def break_it() -> None:
        database = connections[ALIAS]
        ask(database)
        database.errors_occurred = True

        def unusable() -> bool:
            raise DatabaseError("not even this")

        monkeypatch.setattr(database, "is_usable", unusable)

    async def main() -> str:
        await pool.sync(break_it)
        with pytest.raises(DatabaseError):
            await pool.sync(lambda: "not run")
        monkeypatch.undo()
        return await pool.sync(lambda: "alive")

    assert asyncio.run(main()) == "alive"
    pool.close()

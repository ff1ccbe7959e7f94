"""Threads of the ORM in async tools: one for each call, kept, and no more than so many."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import connection, connections, transaction

from django_mcp.core import concurrency
from django_mcp.core.concurrency import AsyncThreads, NoThread, Pool

LONG = 30
"""Seconds after which a test gives up; none waits that long unless something is broken."""


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[AsyncThreads]:
    """Two threads."""
    threads = AsyncThreads(2)
    monkeypatch.setattr(concurrency, "async_threads", lambda: threads)
    yield threads
    threads.close()


@pytest.fixture
def pool() -> Iterator[Pool]:
    pool = Pool(1)
    yield pool
    pool.close()


def run(*calls: Awaitable[Any]) -> list[Any]:
    """The results of calls that begin together."""

    async def main() -> list[Any]:
        return list(await asyncio.wait_for(asyncio.gather(*calls), LONG))

    return asyncio.run(main())


in_thread: Callable[[], Awaitable[int]] = sync_to_async(threading.get_ident)


def test_all_that_a_call_does_is_done_in_one_thread(pool: Pool, threads: AsyncThreads) -> None:
    async def work() -> set[int]:
        return {await in_thread(), *await asyncio.gather(*(in_thread() for _ in range(5))), await in_thread()}

    ((used,),) = run(pool.coroutine(work))
    assert used != threading.get_ident()


def test_calls_at_once_have_different_threads_and_later_calls_the_same_again(pool: Pool, threads: AsyncThreads) -> None:
    both = threading.Barrier(2)

    async def work() -> int:
        await sync_to_async(both.wait)(LONG)
        return await in_thread()

    first = run(pool.coroutine(work), pool.coroutine(work))
    assert len(set(first)) == 2
    assert set(run(pool.coroutine(work), pool.coroutine(work))) == set(first)


def test_a_call_that_only_waits_needs_no_thread(pool: Pool, threads: AsyncThreads) -> None:
    async def work() -> int:
        await asyncio.sleep(0)
        return threading.get_ident()

    assert run(pool.coroutine(work)) == [threading.get_ident()]
    assert [len(each.pool._threads) for each in threads._threads] == [0, 0]


def test_more_calls_than_threads_share_them_while_they_wait_for_something_else(
    pool: Pool, threads: AsyncThreads
) -> None:
    """As a call that waits for another one would wait for ever otherwise."""
    came: list[int] = []

    async def work() -> int:
        mine = await in_thread()
        came.append(mine)
        while len(came) < 7:  # noqa: ASYNC110 - the last one to come is another call
            await asyncio.sleep(0)
        assert await in_thread() == mine
        return mine

    assert len(set(run(*(pool.coroutine(work) for _ in range(7))))) == 2
    assert [each.calls for each in threads._threads] == [0, 0]


def test_a_call_that_blocks_its_thread_holds_up_no_call_that_comes_later(pool: Pool, threads: AsyncThreads) -> None:
    gate, entered = threading.Event(), threading.Event()

    def block() -> str:
        entered.set()
        assert gate.wait(LONG)
        return "through"

    async def main() -> list[Any]:
        slow = asyncio.ensure_future(pool.coroutine(sync_to_async(block)))
        await asyncio.to_thread(entered.wait, LONG)
        for _ in range(5):
            await asyncio.wait_for(asyncio.gather(*(pool.coroutine(in_thread) for _ in range(3))), LONG)
        gate.set()
        return [await slow]

    assert asyncio.run(main()) == ["through"]


def test_calls_that_wait_take_the_thread_that_is_free_first(pool: Pool, threads: AsyncThreads) -> None:
    """Though both were taken when they came, one of them for long."""
    gates = [threading.Event(), threading.Event()]
    entered = [threading.Event(), threading.Event()]

    def block(number: int) -> int:
        entered[number].set()
        assert gates[number].wait(LONG)
        return threading.get_ident()

    async def twice() -> list[int]:
        return list(await asyncio.gather(in_thread(), in_thread()))

    async def main() -> None:
        blocking = [asyncio.ensure_future(pool.coroutine(sync_to_async(block), number=n)) for n in range(2)]
        for each in entered:
            await asyncio.to_thread(each.wait, LONG)
        waiting = [asyncio.ensure_future(pool.coroutine(twice)) for _ in range(3)]
        await asyncio.sleep(0)
        gates[1].set()
        freed = await blocking[1]
        assert await asyncio.wait_for(asyncio.gather(*waiting), LONG) == [[freed, freed]] * 3
        gates[0].set()
        await blocking[0]

    asyncio.run(main())
    assert [(each.calls, each.jobs) for each in threads._threads] == [(0, 0), (0, 0)]


def test_a_call_that_is_cancelled_while_it_waits_for_a_thread_keeps_none(pool: Pool, threads: AsyncThreads) -> None:
    gate, both, ran = threading.Event(), threading.Barrier(3), []

    def block() -> None:
        both.wait(LONG)
        assert gate.wait(LONG)

    async def main() -> None:
        blocking = [asyncio.ensure_future(pool.coroutine(sync_to_async(block))) for _ in range(2)]
        await asyncio.to_thread(both.wait, LONG)
        waiting = asyncio.ensure_future(pool.coroutine(sync_to_async(lambda: ran.append("ran"))))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        gate.set()
        await asyncio.gather(*blocking)
        await asyncio.gather(*(pool.coroutine(in_thread) for _ in range(4)))

    asyncio.run(main())
    assert ran == []
    assert [(each.calls, each.jobs) for each in threads._threads] == [(0, 0), (0, 0)]


def test_what_a_job_raises_is_raised_in_its_call(pool: Pool, threads: AsyncThreads) -> None:
    async def work() -> str:
        with pytest.raises(LookupError):
            await sync_to_async({}.__getitem__)("missing")
        return "alive"

    assert run(pool.coroutine(work)) == ["alive"]


def test_a_task_that_outlives_its_call_keeps_its_thread(pool: Pool, threads: AsyncThreads) -> None:
    async def main() -> None:
        tasks: list[asyncio.Task[Any]] = []
        over = asyncio.Event()

        async def rest() -> int:
            await over.wait()
            return await in_thread()

        async def work() -> int:
            tasks.append(asyncio.create_task(rest()))
            return await in_thread()

        used = await pool.coroutine(work)
        over.set()
        assert await tasks[0] == used

    asyncio.run(main())
    assert [each.calls for each in threads._threads] == [0, 0]


def test_a_thread_that_cannot_be_started_is_replaced_by_one_that_is_there(
    pool: Pool, threads: AsyncThreads, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise NoThread

    with monkeypatch.context() as patch:
        patch.setattr(Pool, "_start", refuse)
        with pytest.raises(NoThread):
            run(pool.coroutine(in_thread))
    (used,) = run(pool.coroutine(in_thread))
    with monkeypatch.context() as patch:
        patch.setattr(Pool, "_start", refuse)
        assert run(*(pool.coroutine(in_thread) for _ in range(3))) == [used] * 3
    assert [(each.calls, each.jobs) for each in threads._threads] == [(0, 0), (0, 0)]


@pytest.mark.postgresql
def test_a_call_keeps_a_transaction_from_one_query_to_the_next_and_leaves_none_behind(
    pool: Pool, threads: AsyncThreads, transactional_db: None, caplog: pytest.LogCaptureFixture
) -> None:
    atomic = transaction.atomic()

    async def begin() -> bool:
        await sync_to_async(atomic.__enter__)()
        return await sync_to_async(lambda: connection.in_atomic_block)()

    async def look() -> bool:
        return await sync_to_async(lambda: connection.in_atomic_block)()

    assert run(pool.coroutine(begin)) == [True]
    assert run(pool.coroutine(look)) == [False]
    assert "was left open" in caplog.text


@pytest.mark.postgresql
def test_a_function_that_leaves_a_transaction_open_does_not_take_in_what_later_ones_write(
    pool: Pool, transactional_db: None, caplog: pytest.LogCaptureFixture
) -> None:
    def leave_open() -> bool:
        transaction.atomic().__enter__()
        return connection.in_atomic_block

    assert run(pool.sync(leave_open)) == [True]
    assert run(pool.sync(lambda: connection.in_atomic_block)) == [False]
    assert "was left open" in caplog.text


def test_connections_are_kept_from_one_call_to_the_next(
    pool: Pool, threads: AsyncThreads, transactional_db: None
) -> None:
    def used() -> int:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        return id(connections["default"].connection)

    assert len({run(pool.coroutine(sync_to_async(used)))[0] for _ in range(5)}) == 1

"""Slots: so many at once, and none is ever lost."""

import asyncio
import threading

import pytest

from django_mcp.core import execution
from django_mcp.core.execution import Slots


async def soon(condition: object) -> None:
    """Let everything run that is ready."""
    for _ in range(10):
        await asyncio.sleep(0)


def test_no_more_than_there_are() -> None:
    two = Slots(2)
    assert [two.acquire() for _ in range(3)] == [True, True, False]
    two.release()
    assert [two.acquire() for _ in range(2)] == [True, False]


def test_who_waits_gets_the_next_one_in_the_order_of_arrival() -> None:
    one, served = Slots(1), []

    async def work(name: str) -> None:
        assert await one.wait()
        served.append(name)

    async def main() -> None:
        await work("first")
        waiting = [asyncio.create_task(work(name)) for name in ("second", "third")]
        await soon(waiting)
        assert served == ["first"]
        # From another thread, as calls end in.
        thread = threading.Thread(target=one.release)
        thread.start()
        await waiting[0]
        assert served == ["first", "second"]
        one.release()
        await waiting[1]
        thread.join()

    asyncio.run(main())
    assert served == ["first", "second", "third"]
    assert not one.acquire()


def test_a_newcomer_does_not_overtake_who_waits() -> None:
    one = Slots(1)

    async def main() -> None:
        assert one.acquire()
        waiting = asyncio.create_task(one.wait())
        await soon(waiting)
        one.release()
        assert not one.acquire()
        assert await waiting

    asyncio.run(main())


def test_who_waited_too_long_goes_without_and_leaves_no_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "WAIT_SECONDS", 0.01)
    one = Slots(1)
    assert one.acquire()
    assert asyncio.run(one.wait()) is False
    one.release()
    assert [one.acquire(), one.acquire()] == [True, False]


@pytest.mark.parametrize("given", [False, True], ids=["before", "in the moment"])
def test_who_is_cancelled_while_it_waits_holds_no_slot(given: bool) -> None:
    one = Slots(1)

    async def main() -> None:
        assert one.acquire()
        waiting = asyncio.create_task(one.wait())
        await soon(waiting)
        if given:
            one.release()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        if not given:
            one.release()

    asyncio.run(main())
    assert [one.acquire(), one.acquire()] == [True, False]


def test_many_threads_never_hold_more_than_there_are() -> None:
    three, held, most = Slots(3), [], []
    barrier = threading.Barrier(8)

    def work() -> None:
        barrier.wait()
        for _ in range(500):
            if three.acquire():
                held.append(1)
                most.append(len(held))
                held.pop()
                three.release()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert max(most) <= 3
    assert [three.acquire() for _ in range(4)] == [True, True, True, False]

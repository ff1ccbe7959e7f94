"""What takes longer than most is seen to once, by one timer for all of an event loop."""

import asyncio
import contextvars
import gc
import weakref

import pytest

from django_mcp.transports import sse
from django_mcp.transports.sse import when_overdue

WITHIN = 10
"""Seconds that nothing here takes."""


@pytest.fixture(autouse=True)
def _short_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "ROUND_SECONDS", 0.001)


async def rounds(count: int) -> None:
    for _ in range(count):
        passed = asyncio.Event()
        when_overdue(passed.set)
        await asyncio.wait_for(passed.wait(), WITHIN)


def test_what_is_not_cancelled_is_done_once() -> None:
    done: list[str] = []

    async def test() -> None:
        first = when_overdue(lambda: done.append("first"))
        when_overdue(lambda: done.append("second"))
        first.cancel()
        await rounds(3)

    asyncio.run(test())
    assert done == ["second"]


def test_nothing_is_overdue_before_a_whole_round_is_over() -> None:
    done: list[int] = []

    async def test() -> None:
        when_overdue(lambda: None)
        (clock,) = [each for loop, each in sse._clocks.items() if loop is asyncio.get_running_loop()]
        when_overdue(lambda: done.append(1))
        clock.tick()
        assert not done
        clock.tick()
        assert done

    asyncio.run(test())


def test_no_timer_runs_while_there_is_nothing_to_wait_for() -> None:
    async def test() -> None:
        when_overdue(lambda: None)
        (clock,) = [each for loop, each in sse._clocks.items() if loop is asyncio.get_running_loop()]
        clock.tick()
        assert clock.is_running, "one is older now"
        clock.tick()
        assert not clock.is_running
        await rounds(1)  # and it starts again

    asyncio.run(test())


def test_each_loop_has_a_clock_that_ends_with_it() -> None:
    gc.freeze()  # what is older than this test takes a second to go through
    try:
        loop = asyncio.new_event_loop()
        loop.run_until_complete(rounds(2))
        loop.close()
        gone = weakref.ref(loop)
        del loop
        gc.collect()
        assert gone() is None
    finally:
        gc.unfreeze()


def test_it_is_done_in_no_ones_context() -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="nobody's")
    seen: list[str] = []

    async def test() -> None:
        variable.set("the first caller's")
        when_overdue(lambda: seen.append(variable.get()))
        await rounds(2)

    asyncio.run(test())
    assert seen == ["nobody's"]

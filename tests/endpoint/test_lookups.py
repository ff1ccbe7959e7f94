"""Callers who come together with the same credential are looked up together, and nobody is given what is older than
their request.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any

import pytest

from django_mcp.auth.base import InvalidToken
from django_mcp.core.concurrency import shared_pool
from django_mcp.core.principal import Principal
from django_mcp.endpoint.lookups import Lookups, look_up

WITHIN = 10
"""Seconds that nothing here takes."""


class Lookup:
    """A lookup that takes until it is told what to find; each time it is another one."""

    def __init__(self) -> None:
        self.begun = 0
        self.found: Any = None
        self.starts = threading.Semaphore(0)
        self.may_end = threading.Semaphore(0)

    def __call__(self) -> Any:
        self.begun += 1
        seen = self.found  # as a query sees what is there when it begins
        self.starts.release()
        assert self.may_end.acquire(timeout=WITHIN)
        if isinstance(seen, Exception):
            raise seen
        return seen

    async def has_started(self) -> None:
        assert await asyncio.to_thread(self.starts.acquire, timeout=WITHIN)


def caller(name: str) -> Principal:
    return Principal(kind="api_key", id=name, user=SimpleNamespace(name=name))


def run(test: Callable[[Lookups, Lookup], Coroutine[Any, Any, None]]) -> Lookup:
    find = Lookup()

    async def within() -> None:
        async with asyncio.timeout(WITHIN):
            await test(Lookups(), find)

    asyncio.run(within())
    return find


async def begun(lookups: Lookups, find: Lookup, count: int) -> list[asyncio.Task[Any]]:
    tasks = [asyncio.create_task(lookups.find(shared_pool(), "key", find)) for _ in range(count)]
    await asyncio.sleep(0)  # each runs until it waits
    return tasks


def test_those_who_come_during_a_lookup_share_the_next_one() -> None:
    async def test(lookups: Lookups, find: Lookup) -> None:
        find.found = caller("before")
        (first,) = await begun(lookups, find, 1)
        await find.has_started()
        others = await begun(lookups, find, 5)
        find.found = caller("after")
        find.may_end.release(2)
        assert (await first).id == "before"
        assert {each.id for each in await asyncio.gather(*others)} == {"after"}

    assert run(test).begun == 2


def test_what_was_revoked_while_another_request_is_looked_up_opens_nothing() -> None:
    async def test(lookups: Lookups, find: Lookup) -> None:
        find.found = caller("it")
        (first,) = await begun(lookups, find, 1)
        await find.has_started()
        find.found = InvalidToken()
        late = await begun(lookups, find, 3)
        find.may_end.release(2)
        assert (await first).id == "it"
        for each in late:
            with pytest.raises(InvalidToken):
                await each

    run(test)


def test_each_has_a_user_of_its_own() -> None:
    async def test(lookups: Lookups, find: Lookup) -> None:
        find.found = caller("it")
        (first,) = await begun(lookups, find, 1)
        await find.has_started()
        others = await begun(lookups, find, 3)
        find.may_end.release(2)
        await first
        users = [each.user for each in await asyncio.gather(*others)]
        users[0].name = "changed by a tool"
        assert [each.name for each in users] == ["changed by a tool", "it", "it"]

    run(test)


def test_other_keys_wait_for_nobody() -> None:
    async def test(lookups: Lookups, find: Lookup) -> None:
        slow = asyncio.create_task(lookups.find(shared_pool(), "slow", find))
        await find.has_started()
        assert (await lookups.find(shared_pool(), "other", lambda: caller("other"))).id == "other"  # type: ignore[union-attr]
        find.may_end.release()
        await slow

    run(test)


def test_whoever_leaves_takes_nobody_along() -> None:
    async def test(lookups: Lookups, find: Lookup) -> None:
        find.found = caller("it")
        (first,) = await begun(lookups, find, 1)
        await find.has_started()
        leaving, staying = await begun(lookups, find, 2)
        leaving.cancel()
        first.cancel()
        await asyncio.wait([first, leaving])
        await find.has_started()  # for the one who stayed, at once: nobody waits for the first any more
        find.may_end.release(2)
        assert (await staying).id == "it"
        assert first.cancelled()
        assert leaving.cancelled()

    assert run(test).begun == 2


def test_nobody_is_looked_for_when_all_have_left() -> None:
    async def test(lookups: Lookups, find: Lookup) -> None:
        (first,) = await begun(lookups, find, 1)
        await find.has_started()
        (leaving,) = await begun(lookups, find, 1)
        leaving.cancel()
        find.may_end.release()
        await first
        assert (await lookups.find(shared_pool(), "key", lambda: caller("new"))).id == "new"  # type: ignore[union-attr]

    assert run(test).begun == 1


def test_a_lookup_that_cannot_be_shared_is_made_for_each() -> None:
    made: list[int] = []

    async def test() -> None:
        finds = [look_up(shared_pool(), None, lambda: made.append(1)) for _ in range(4)]  # type: ignore[func-returns-value]
        await asyncio.gather(*finds)

    asyncio.run(test())
    assert len(made) == 4

"""Callers who come together with the same credential are looked up together, and nobody is given what is older than
their request.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import OperationalError

from django_mcp.auth.api_keys import APIKeyAuthentication
from django_mcp.auth.base import BaseAuthentication, InvalidToken, RequestHead
from django_mcp.core.concurrency import shared_pool
from django_mcp.core.principal import Principal
from django_mcp.core.server import MCPServer
from django_mcp.transports.authentication import MAX_TURNS, Lookups, find_caller

WITHIN = 10
"""Seconds that nothing here takes."""


class Lookup:
    """A lookup that takes until it is told what to find; each time it is another one."""

    def __init__(self) -> None:
        self.begun = 0
        self.found: Any = None
        self.asked: list[list[str]] = []
        self.starts = threading.Semaphore(0)
        self.may_end = threading.Semaphore(0)

    def __call__(self, heads: Sequence[RequestHead]) -> list[Any]:
        self.begun += 1
        self.asked.append([head.host for head in heads])
        seen = self.found  # as a query sees what is there when it begins
        self.starts.release()
        assert self.may_end.acquire(timeout=WITHIN)
        return [seen(head.host) if callable(seen) else seen for head in heads]

    async def has_started(self) -> None:
        assert await asyncio.to_thread(self.starts.acquire, timeout=WITHIN)


def head_of(host: str) -> RequestHead:
    return RequestHead("POST", {}, host, lambda: True, lambda: None)


async def asks(lookups: Lookups, find: Any, asked: str = "key", group: str = "group", most: int = 1) -> Any:
    async with asyncio.timeout(WITHIN):
        return await lookups.find(shared_pool(), group, asked, head_of(asked), find, most)


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
    tasks = [asyncio.create_task(asks(lookups, find)) for _ in range(count)]
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


def test_those_who_come_in_one_turn_of_the_loop_share_the_first() -> None:
    async def test(lookups: Lookups, find: Lookup) -> None:
        find.found = caller("it")
        all_of_them = await begun(lookups, find, 4)
        find.may_end.release()
        assert {each.id for each in await asyncio.gather(*all_of_them)} == {"it"}

    assert run(test).begun == 1


def test_those_who_come_a_turn_after_several_others_share_their_lookup() -> None:
    async def test(lookups: Lookups, find: Lookup) -> None:
        find.found = caller("it")
        first = await begun(lookups, find, 2)
        later = await begun(lookups, find, 1)
        find.may_end.release()
        assert {each.id for each in await asyncio.gather(*first, *later)} == {"it"}

    assert run(test).begun == 1


def test_whoever_comes_alone_is_looked_up_at_once() -> None:
    async def test(lookups: Lookups, find: Lookup) -> None:
        find.found = caller("it")
        first = await begun(lookups, find, 1)
        later = await begun(lookups, find, 1)
        find.may_end.release(2)
        await asyncio.gather(*first, *later)

    assert run(test).begun == 2


def test_a_lookup_begins_though_more_come_in_every_turn() -> None:
    async def test(lookups: Lookups, find: Lookup) -> None:
        find.found = caller("it")
        early = await begun(lookups, find, 2)
        late: list[asyncio.Task[Any]] = []
        while len(lookups._waiting[next(iter(lookups._waiting))]) == len(early) + len(late):
            late += await begun(lookups, find, 1)
        assert len(late) == MAX_TURNS + 1
        find.may_end.release(2)
        await asyncio.gather(*early, *late)

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


def test_what_is_kept_with_one_copy_of_a_user_is_not_seen_by_another() -> None:
    users: list[User] = []
    user = User(pk=1, username="it")
    user._state.db, user._state.adding = "default", False

    async def test(lookups: Lookups, find: Lookup) -> None:
        find.found = Principal(kind="api_key", id="it", user=user)
        asked = await begun(lookups, find, 3)
        find.may_end.release()
        users.extend(each.user for each in await asyncio.gather(*asked))

    run(test)
    users[1].username = "changed by a tool"
    users[1]._state.fields_cache["manager"] = users[0]
    users[1]._state.adding = True
    assert [each.username for each in users] == ["it", "changed by a tool", "it"]
    assert [dict(each._state.fields_cache) for each in users] == [{}, {"manager": users[0]}, {}]
    assert [(each._state.db, each._state.adding) for each in users] == [
        ("default", False),
        ("default", True),
        ("default", False),
    ]
    assert users[2] == users[0]


def test_other_keys_wait_for_nobody() -> None:
    async def test(lookups: Lookups, find: Lookup) -> None:
        slow = asyncio.create_task(asks(lookups, find, group="slow"))
        await find.has_started()
        assert (await asks(lookups, lambda _: [caller("other")], group="other")).id == "other"
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
        assert (await asks(lookups, lambda _: [caller("new")])).id == "new"

    assert run(test).begun == 1


def test_different_ones_are_looked_up_together_where_that_can_be_done() -> None:
    async def test(lookups: Lookups, find: Lookup) -> None:
        find.found = caller
        names = ["a", "b", "c", "b", "d"]
        first = asyncio.create_task(asks(lookups, find, "first", most=3))
        await find.has_started()
        others = [asyncio.create_task(asks(lookups, find, name, most=3)) for name in names]
        await asyncio.sleep(0)
        find.may_end.release(3)
        assert (await first).id == "first"
        found = await asyncio.gather(*others)
        assert [each.id for each in found] == names
        assert found[1].user is not found[3].user
        assert find.asked == [["first"], ["a", "b", "c"], ["d"]]

    assert run(test).begun == 3


def test_what_is_bad_about_one_is_told_to_nobody_else() -> None:
    async def test(lookups: Lookups, find: Lookup) -> None:
        find.found = lambda name: InvalidToken() if name == "bad" else caller(name)
        first = asyncio.create_task(asks(lookups, find, "first", most=9))
        await find.has_started()
        others = [asyncio.create_task(asks(lookups, find, name, most=9)) for name in ("good", "bad")]
        await asyncio.sleep(0)
        find.may_end.release(2)
        await first
        good, bad = await asyncio.gather(*others, return_exceptions=True)
        assert good.id == "good"  # type: ignore[union-attr]
        assert isinstance(bad, InvalidToken)

    run(test)


def test_all_are_told_where_nobody_could_be_looked_up() -> None:
    def away(heads: Sequence[RequestHead]) -> Any:
        raise OperationalError(len(heads))

    async def test() -> None:
        lookups = Lookups()
        asking = [asks(lookups, away, name, most=9) for name in "abc"]
        for found in await asyncio.gather(*asking, return_exceptions=True):
            assert isinstance(found, OperationalError)

    asyncio.run(test())


def test_a_loop_shares_with_no_other_one() -> None:
    find, lookups = Lookup(), Lookups()
    find.found = caller("first")

    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(asyncio.run, asks(lookups, find))
        assert find.starts.acquire(timeout=WITHIN)
        found = asyncio.run(asks(lookups, lambda _: [caller("meanwhile")]))
        find.may_end.release()
        assert [found.id, waiting.result().id] == ["meanwhile", "first"]


class Recognises(BaseAuthentication):
    """Who calls is what a header says."""

    def __init__(self, header: str, *, tells: bool) -> None:
        self.header, self.tells, self.asked = header, tells, 0

    def authenticate(self, head: RequestHead, server: MCPServer) -> Principal | None:
        self.asked += 1
        name = head.headers.get(self.header)
        return caller(name) if name else None

    def shown(self, head: RequestHead) -> str | None:
        return head.headers.get(self.header, "") if self.tells else None


def test_one_that_says_that_a_request_holds_nothing_for_it_is_not_asked() -> None:
    empty, untold, right = Recognises("x-a", tells=True), Recognises("x-b", tells=False), Recognises("x-c", tells=True)
    server = MCPServer(f"looked-up-{id(right)}", authentication=[empty, untold, right])
    head = RequestHead("POST", {"x-c": "ann"}, "testserver", lambda: True, lambda: None)
    assert asyncio.run(find_caller(head, server, shared_pool())).id == "ann"
    assert [empty.asked, untold.asked, right.asked] == [0, 1, 1]


def test_requests_of_one_that_tells_nothing_are_looked_up_each_for_itself() -> None:
    untold = Recognises("x-a", tells=False)
    server = MCPServer(f"looked-up-{id(untold)}", authentication=[untold])
    head = RequestHead("POST", {"x-a": "ann"}, "testserver", lambda: True, lambda: None)

    async def test() -> None:
        await asyncio.gather(*(find_caller(head, server, shared_pool()) for _ in range(4)))

    asyncio.run(test())
    assert untold.asked == 4


class OnlyFromInside(APIKeyAuthentication):
    """A site's own, which looks at more than the key."""

    def authenticate(self, head: RequestHead, server: MCPServer) -> Principal | None:
        return super().authenticate(head, server) if head.headers.get("x-inside") else None


class Looks:
    """The same, mixed in."""

    authenticate = OnlyFromInside.authenticate


class MixedIn(Looks, APIKeyAuthentication):
    pass


class Further(OnlyFromInside):
    pass


class Tells(OnlyFromInside):
    def shown(self, head: RequestHead) -> tuple[str, ...]:
        return (*APIKeyAuthentication().shown(head), head.headers.get("x-inside", ""))


def test_of_one_that_looks_at_more_each_request_is_looked_up_for_itself(subtests: pytest.Subtests) -> None:
    for kind in [OnlyFromInside, MixedIn, Further]:
        with subtests.test(kind=kind):
            head = RequestHead("POST", {"x-api-key": "mcp_key_x"}, "testserver", lambda: True, lambda: None)
            assert kind().shown(head) is None
            assert kind.most_together == 1


def test_one_that_says_what_it_looks_at_shares_lookups_of_just_that() -> None:
    head = RequestHead("POST", {"x-api-key": "k", "x-inside": "1"}, "testserver", lambda: True, lambda: None)
    assert Tells().shown(head) == ("k", "1")
    assert Tells.most_together == 1
    assert APIKeyAuthentication.most_together > 1
    assert APIKeyAuthentication().shown(head) == ("k",)

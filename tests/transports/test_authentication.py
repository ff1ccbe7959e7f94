"""Requests with the same credential share a lookup, and nobody is given what is older than their request."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import OperationalError

from django_mcp.auth.api_keys import APIKeyAuthentication
from django_mcp.auth.base import BaseAuthentication, InvalidToken, RequestHead
from django_mcp.core.concurrency import NoThread, Pool, shared_pool
from django_mcp.core.principal import Principal
from django_mcp.core.server import MCPServer
from django_mcp.transports.authentication import Lookups, find_caller

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


@pytest.fixture
def pool() -> Iterator[Pool]:
    """Two threads, as the package's own reads have."""
    pool = Pool(2)
    yield pool
    pool.close()


def caller(name: str) -> Principal:
    return Principal(kind="api_key", id=name, user=SimpleNamespace(name=name))


Test = Callable[[Lookups, Lookup], Coroutine[Any, Any, None]]


def run(test: Test) -> tuple[Lookups, Lookup]:
    lookups, find = Lookups(), Lookup()

    async def within() -> None:
        async with asyncio.timeout(WITHIN):
            await test(lookups, find)

    asyncio.run(within())
    assert lookups._queued == {}
    return lookups, find


async def begun(
    lookups: Lookups, pool: Pool, find: Callable[[], Any], count: int, credential: str = "key"
) -> list[asyncio.Task[Any]]:
    tasks = [asyncio.create_task(lookups.find(pool, credential, find)) for _ in range(count)]
    await asyncio.sleep(0)  # each runs until it waits
    return tasks


async def occupied(pool: Pool) -> threading.Event:
    """Keep all threads of the pool busy until the event is set, so that lookups wait."""
    gate, together = threading.Event(), threading.Barrier(pool.size + 1)
    for _ in range(pool.size):
        pool.post(lambda: (together.wait(WITHIN), gate.wait(WITHIN)))
    await asyncio.to_thread(together.wait, WITHIN)
    return gate


def test_requests_share_a_lookup_that_waits_for_a_thread(pool: Pool) -> None:
    async def test(lookups: Lookups, find: Lookup) -> None:
        find.found = caller("it")
        free = await occupied(pool)
        requests = [*await begun(lookups, pool, find, 3), *await begun(lookups, pool, find, 2)]
        find.may_end.release()
        free.set()
        assert {each.id for each in await asyncio.gather(*requests)} == {"it"}

    assert run(test)[1].begun == 1


def test_requests_that_come_during_a_lookup_share_the_next_one(pool: Pool) -> None:
    async def test(lookups: Lookups, find: Lookup) -> None:
        find.found = caller("before")
        first = await begun(lookups, pool, find, 1)
        await find.has_started()
        second = await begun(lookups, pool, find, 1)
        await find.has_started()  # both threads are busy
        others = await begun(lookups, pool, find, 5)
        find.found = caller("after")
        find.may_end.release(3)
        assert {each.id for each in await asyncio.gather(*first, *second)} == {"before"}
        assert {each.id for each in await asyncio.gather(*others)} == {"after"}

    assert run(test)[1].begun == 3


def test_what_was_revoked_while_another_request_is_looked_up_opens_nothing(pool: Pool) -> None:
    async def test(lookups: Lookups, find: Lookup) -> None:
        find.found = caller("it")
        (first,) = await begun(lookups, pool, find, 1)
        await find.has_started()
        find.found = InvalidToken()
        late = await begun(lookups, pool, find, 3)
        find.may_end.release(4)
        assert (await first).id == "it"
        for each in late:
            with pytest.raises(InvalidToken):
                await each

    run(test)


def test_a_thousand_requests_are_never_given_what_is_older_than_they_are(pool: Pool) -> None:
    """A key is revoked and given back all the time; each request knows the state when it came."""
    state = iter(range(10**9))
    now = [0]

    def look_up() -> Principal:
        return caller(str(now[0]))

    async def ask(lookups: Lookups) -> None:
        came = now[0] = next(state)
        found = await lookups.find(pool, "key", look_up)
        assert int(found.id) >= came

    async def test(lookups: Lookups, find: Lookup) -> None:
        for _ in range(100):
            await asyncio.gather(*(ask(lookups) for _ in range(10)))

    run(test)


def test_each_has_a_user_of_its_own_even_if_the_first_changes_it_at_once(pool: Pool) -> None:
    async def test(lookups: Lookups, find: Lookup) -> None:
        find.found = caller("it")

        async def change() -> str:
            user = (await lookups.find(pool, "key", find)).user
            user.name += ", changed by a tool"
            return user.name

        free = await occupied(pool)
        requests = [asyncio.create_task(change()) for _ in range(3)]
        await asyncio.sleep(0)
        find.may_end.release()
        free.set()
        assert await asyncio.gather(*requests) == ["it, changed by a tool"] * 3

    assert run(test)[1].begun == 1


def test_what_is_kept_with_one_copy_of_a_user_is_not_seen_by_another(pool: Pool) -> None:
    users: list[User] = []
    user = User(pk=1, username="it")
    user._state.db, user._state.adding = "default", False

    async def test(lookups: Lookups, find: Lookup) -> None:
        find.found = Principal(kind="api_key", id="it", user=user)
        free = await occupied(pool)
        requests = await begun(lookups, pool, find, 3)
        find.may_end.release()
        free.set()
        users.extend(each.user for each in await asyncio.gather(*requests))

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


def test_other_credentials_wait_for_nobody(pool: Pool) -> None:
    async def test(lookups: Lookups, find: Lookup) -> None:
        (slow,) = await begun(lookups, pool, find, 1, "slow")
        await find.has_started()
        (other,) = await begun(lookups, pool, lambda: caller("other"), 1, "other")
        assert (await other).id == "other"
        find.may_end.release()
        await slow

    run(test)


def test_whoever_leaves_takes_nobody_along(pool: Pool, subtests: pytest.Subtests) -> None:
    for leaves in ([0], [1], [0, 1]):

        async def test(lookups: Lookups, find: Lookup, leaves: list[int] = leaves) -> None:
            find.found = caller("it")
            free = await occupied(pool)
            requests = await begun(lookups, pool, find, 3)
            for number in leaves:
                requests[number].cancel()
            await asyncio.sleep(0)
            find.may_end.release()
            free.set()
            assert (await requests[2]).id == "it"
            assert [each.cancelled() for each in requests] == [number in leaves for number in range(3)]

        with subtests.test(leaves=leaves):
            assert run(test)[1].begun == 1


def test_nothing_is_left_when_all_have_left_and_the_lookup_fails(pool: Pool) -> None:
    unheard: list[Any] = []

    async def test(lookups: Lookups, find: Lookup) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: unheard.append(context))
        find.found = InvalidToken()
        requests = await begun(lookups, pool, find, 2)
        await find.has_started()
        for each in requests:
            each.cancel()
        await asyncio.wait(requests)
        find.may_end.release(2)
        assert (await lookups.find(pool, "key", lambda: caller("new"))).id == "new"

    run(test)
    assert unheard == []


def test_all_who_share_a_lookup_hear_of_its_error_and_later_ones_do_not(pool: Pool) -> None:
    async def test(lookups: Lookups, find: Lookup) -> None:
        find.found = OperationalError()
        free = await occupied(pool)
        requests = await begun(lookups, pool, find, 3)
        find.may_end.release()
        free.set()
        for found in await asyncio.gather(*requests, return_exceptions=True):
            assert isinstance(found, OperationalError)
        assert (await lookups.find(pool, "key", lambda: caller("new"))).id == "new"

    run(test)


def test_a_lookup_for_which_no_thread_can_be_started_fails_alone(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise NoThread

    async def test(lookups: Lookups, find: Lookup) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(Pool, "_start", refuse)
            for credential in ("key", "other"):
                with pytest.raises(NoThread):
                    await lookups.find(pool, credential, find)
        for credential in ("key", "other"):
            assert (await lookups.find(pool, credential, lambda: caller("it"))).id == "it"

    assert run(test)[1].begun == 0


def test_a_loop_shares_with_no_other_one(pool: Pool) -> None:
    find, lookups = Lookup(), Lookups()
    find.found = caller("first")

    async def asks(find: Callable[[], Any]) -> Any:
        async with asyncio.timeout(WITHIN):
            return await lookups.find(pool, "key", find)

    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(asyncio.run, asks(find))
        assert find.starts.acquire(timeout=WITHIN)
        found = asyncio.run(asks(lambda: caller("meanwhile")))
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

    def credential_key(self, head: RequestHead) -> str | None:
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
    def credential_key(self, head: RequestHead) -> tuple[str, ...]:
        return (*APIKeyAuthentication().credential_key(head), head.headers.get("x-inside", ""))


def test_of_one_that_looks_at_more_each_request_is_looked_up_for_itself(subtests: pytest.Subtests) -> None:
    for kind in [OnlyFromInside, MixedIn, Further]:
        with subtests.test(kind=kind):
            head = RequestHead("POST", {"x-api-key": "mcp_key_x"}, "testserver", lambda: True, lambda: None)
            assert kind().credential_key(head) is None


def test_one_that_says_what_it_looks_at_shares_lookups_of_just_that() -> None:
    head = RequestHead("POST", {"x-api-key": "k", "x-inside": "1"}, "testserver", lambda: True, lambda: None)
    assert Tells().credential_key(head) == ("k", "1")
    assert APIKeyAuthentication().credential_key(head) == ("k",)

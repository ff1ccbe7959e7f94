"""Looking up callers, once for requests that come together with the same credential.

Nobody is given what was looked up before they came: a request that comes while a lookup is under way waits for the
next, which it shares with all who wait as well. So a credential that was revoked opens nothing from then on.
"""

import asyncio
import contextvars
import copy
import weakref
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from django_mcp.core.concurrency import Pool, Runner
from django_mcp.core.principal import Principal

Find = Callable[[], Principal | None]
_Found = asyncio.Future[Principal | None]


class _Request(NamedTuple):
    """One that waits for the next lookup."""

    find: Find
    found: _Found
    context: contextvars.Context


class Lookups:
    """Those of one event loop, on which all of this runs but ``find`` functions."""

    def __init__(self) -> None:
        self._waiting: dict[Hashable, list[_Request]] = {}

    async def find(self, pool: Pool, key: Hashable, find: Find) -> Principal | None:
        """What *find* gives.

        Args:
            pool: of worker threads, the same for all who use a key.
            key: stands for all that *find* looks at: where two are equal, their results are.
            find: may block.

        Raises:
            Exception: what *find* raises.
        """
        waiting = self._waiting.get(key)
        if waiting is None:
            self._waiting[key] = []
            return await self._look(pool, key, find, ())
        request = _Request(find, asyncio.get_running_loop().create_future(), contextvars.copy_context())
        waiting.append(request)
        return await request.found

    def _look(self, pool: Pool, key: Hashable, find: Find, sharing: Sequence[_Request]) -> _Found:
        looking = pool.submit(find)
        looking.add_done_callback(partial(self._done, pool, key, sharing))
        return looking

    def _done(self, pool: Pool, key: Hashable, sharing: Sequence[_Request], looking: _Found) -> None:
        """Hand over what was found, and look again for those who came meanwhile."""
        if sharing:
            _hand_over(looking, [each.found for each in sharing if not each.found.done()])
        waiting = [each for each in self._waiting.pop(key) if not each.found.done()]
        if waiting:
            self._waiting[key] = []
            first = waiting[0]
            first.context.run(self._look, pool, key, first.find, waiting)


def _hand_over(looking: _Found, waiting: Sequence[_Found]) -> None:
    if (error := looking.exception()) is not None:
        for each in waiting:
            each.set_exception(error)
        return
    principal = looking.result()
    for place, each in enumerate(waiting):
        # Rights are kept with the user, and a tool may change it: each call has one of its own.
        each.set_result(principal if place == 0 else _with_own_user(principal))


def _with_own_user(principal: Principal | None) -> Principal | None:
    return None if principal is None else replace(principal, user=copy.copy(principal.user))


_last: tuple[Callable[[], object], Lookups] = (lambda: None, Lookups())
_of_loops: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Lookups]" = weakref.WeakKeyDictionary()


async def look_up(runner: Runner, key: Hashable | None, find: Find) -> Principal | None:
    """What *find* gives, shared with others where *key* is not None."""
    if key is None or not isinstance(runner, Pool):
        return await runner.sync(find)
    return await _here().find(runner, key, find)


def _here() -> Lookups:
    """Those of the loop that runs."""
    global _last  # noqa: PLW0603 - most processes have one loop, and need not look for it
    loop = asyncio.get_running_loop()
    last, lookups = _last
    if last() is not loop:
        lookups = _of_loops.setdefault(loop, Lookups())
        _last = weakref.ref(loop), lookups
    return lookups

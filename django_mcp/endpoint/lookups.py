"""Looking up callers, once for requests that come together: with the same credential, or where an authenticator can,
with different ones.

Nobody is given what was looked up before they came: a request that comes while a lookup is under way waits for the
next, which it shares with all who wait as well. So a credential that was revoked opens nothing from then on.

Requests that were sent together are read over some turns of the event loop. A lookup begins when a turn has brought
nobody new, and they stay together from then on, to the tool and into the log. Whoever comes alone waits for nobody.
"""

import asyncio
import contextvars
import copy
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from django.db.models import Model
from django.db.models.base import ModelState

from django_mcp.auth.base import Head
from django_mcp.core.concurrency import Pool, contained
from django_mcp.core.principal import Principal

Outcome = Principal | Exception | None
"""What came of one request: its caller, what to raise, or that it holds nothing."""
Find = Callable[[Sequence[Head]], Sequence[Outcome]]

MOST_TURNS = 4
"""For how many turns of the loop those who came are kept waiting for more."""


class _Request(NamedTuple):
    """One that waits for its caller to be found."""

    asked: Hashable
    head: Head
    find: Find
    found: asyncio.Future[Principal | None]
    context: contextvars.Context


_Key = tuple[asyncio.AbstractEventLoop, Hashable]
"""Of a group on one loop."""


class Lookups:
    """Those of each event loop for itself; all of this runs on the loop but ``find`` functions."""

    def __init__(self) -> None:
        self._waiting: dict[_Key, list[_Request]] = {}

    async def find(
        self, pool: Pool, group: Hashable, asked: Hashable, head: Head, find: Find, most: int = 1
    ) -> Principal | None:
        """The caller of a request.

        Args:
            pool: of worker threads, the same for all of a group.
            group: requests of which one lookup is under way at a time.
            asked: stands for all that *find* looks at in *head*: where two are equal, their outcomes are.
            head: of the request.
            find: may block; takes heads of which no two ask the same, and gives their outcomes.
            most: how many of them.

        Raises:
            Exception: what came of it.
        """
        loop = asyncio.get_running_loop()
        key = loop, group
        request = _Request(asked, head, find, loop.create_future(), contextvars.copy_context())
        waiting = self._waiting.get(key)
        if waiting is None:
            self._waiting[key] = [request]
            loop.call_soon(self._gather, pool, key, most, 1, MOST_TURNS)  # after all who come in this turn
        else:
            waiting.append(request)
        return await request.found

    def _gather(self, pool: Pool, key: _Key, most: int, before: int, turns: int) -> None:
        """Look when no more come.

        Args:
            pool: as that of ``find``, and *most*.
            key: of those who wait.
            most: how many can be looked for at once.
            before: how many waited a turn of the loop ago.
            turns: for how many more there is time.
        """
        waiting = len(self._waiting[key])
        if turns and waiting > before:
            key[0].call_soon(self._gather, pool, key, most, waiting, turns - 1)
        else:
            self._look(pool, key, most)

    def _look(self, pool: Pool, key: _Key, most: int) -> None:
        """Look for those who wait, as many as can be looked for at once."""
        waiting = [each for each in self._waiting.pop(key) if not each.found.done()]
        if not waiting:
            return
        first = {each.asked: each.head for each in waiting[:most]}
        taken = [each for each in waiting if each.asked in first]
        self._waiting[key] = [each for each in waiting if each.asked not in first]
        looking = waiting[0].context.run(pool.submit, partial(waiting[0].find, list(first.values())))
        looking.add_done_callback(partial(self._done, pool, key, most, taken, list(first)))

    def _done(
        self,
        pool: Pool,
        key: _Key,
        most: int,
        requests: Sequence[_Request],
        asked: Sequence[Hashable],
        looking: "asyncio.Future[Sequence[Outcome]]",
    ) -> None:
        """Hand over what was found, and look again for those who came meanwhile."""
        try:
            _hand_over(requests, asked, looking)
        except Exception as error:  # noqa: BLE001 - whoever still waits gets it, and those who come later are looked up
            for each in requests:
                if not each.found.done():
                    each.found.set_exception(error)
        self._gather(pool, key, most, 1, MOST_TURNS)


def _hand_over(
    requests: Sequence[_Request], asked: Sequence[Hashable], looking: "asyncio.Future[Sequence[Outcome]]"
) -> None:
    error = looking.exception()
    outcomes = dict(zip(asked, [error] * len(asked) if error is not None else looking.result(), strict=True))
    given: set[Hashable] = set()
    for each in requests:
        outcome = outcomes[each.asked]
        if each.found.done():  # whoever asked has left
            continue
        if isinstance(outcome, BaseException):
            each.found.set_exception(contained(outcome))
            continue
        # Rights are kept with the user, and a tool may change it: each call has one of its own.
        each.found.set_result(_with_own_user(outcome) if each.asked in given else outcome)
        given.add(each.asked)


def _with_own_user(principal: Principal | None) -> Principal | None:
    return None if principal is None else replace(principal, user=_copied(principal.user))


def _copied(user: Any) -> Any:
    """As ``copy.copy``, which for a model's instance takes a detour that costs as much as all else here."""
    if not isinstance(user, Model):
        return copy.copy(user)
    own, state = type(user).__new__(type(user)), ModelState()
    vars(own).update(vars(user), _state=state)
    vars(state).update(vars(user._state), fields_cache=user._state.fields_cache.copy())  # noqa: SLF001 - documented
    return own


lookups = Lookups()
"""Of this process."""

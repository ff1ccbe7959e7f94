"""Calls that run here, said to those who read their streams elsewhere: a client that comes back for the answer of a
process that died is told so, instead of waiting for it.
"""

import asyncio
import contextvars
from contextlib import suppress
from functools import partial
from weakref import WeakKeyDictionary

from django.db import DatabaseError

from django_mcp.conf import settings
from django_mcp.core.concurrency import detached, free_pool
from django_mcp.eras.legacy import calls
from django_mcp.models import Call

_NO_CONTEXT = contextvars.Context()
"""Or that of the call which started the clock would be kept, and be that of all."""


class _Running:
    """Those of one event loop. While there are some, their leases are renewed together, in one statement."""

    __slots__ = ("held", "is_due")

    def __init__(self) -> None:
        self.held: set[int] = set()
        self.is_due = False

    def expect(self) -> None:
        if not self.is_due:
            self.is_due = True
            pause = settings.KEEP_ALIVE_SECONDS / 2
            asyncio.get_running_loop().call_later(pause, self._come, context=_NO_CONTEXT)

    def _come(self) -> None:
        self.is_due = False
        if self.held:
            self.expect()
            detached(self._renew(tuple(self.held)))

    async def _renew(self, held: tuple[int, ...]) -> None:
        with suppress(DatabaseError):  # nobody can read either, meanwhile, that a lease has run out
            await free_pool().sync(partial(calls.renew, held))


_running: WeakKeyDictionary[asyncio.AbstractEventLoop, _Running] = WeakKeyDictionary()


def hold(call: Call) -> None:
    """A call whose stream is open runs on this event loop."""
    loop = asyncio.get_running_loop()
    running = _running.get(loop)
    if running is None:
        running = _running[loop] = _Running()
    running.held.add(call.pk)
    running.expect()


def release(call: Call) -> None:
    """It does not run here any more, if it did."""
    running = _running.get(asyncio.get_running_loop())
    if running is not None:
        running.held.discard(call.pk)

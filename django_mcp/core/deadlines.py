"""How long a call may take: when its caller is told that it took too long, and that nothing is committed afterwards."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Any, TypeVar

from django_mcp.core.channel import Cancelled

T = TypeVar("T")


class DeadlineExceeded(Cancelled):
    """The time of a call is up; raised in the tool where it next uses its context or the database."""


class Deadline:
    """The end of a call's time. Either the call is finished or it is given up, in whichever thread that is found.

    Args:
        seconds: from now.
    """

    __slots__ = ("_end", "_finished", "_given_up", "_lock")

    def __init__(self, seconds: float) -> None:
        self._end = monotonic() + seconds
        self._lock = threading.Lock()
        self._finished = self._given_up = False

    @property
    def remaining(self) -> float:
        """Seconds that are left; 0.0 when there are none."""
        return 0.0 if self._given_up else max(0.0, self._end - monotonic())

    @property
    def has_passed(self) -> bool:
        """Whether the time was up before the call was finished."""
        return self._given_up or (not self._finished and monotonic() >= self._end)

    def check(self) -> None:
        """Stop here if the time is up.

        Raises:
            DeadlineExceeded: let it through.
        """
        if self.has_passed:
            raise DeadlineExceeded

    def give_up(self) -> bool:
        """Whether the caller may be told that the call failed: from now on it cannot be finished."""
        with self._lock:
            self._given_up = not self._finished
            return self._given_up

    def finish(self) -> None:
        """From now on the call counts as done, and its caller waits for what it gives.

        Raises:
            DeadlineExceeded: too late.
        """
        with self._lock:
            if self.has_passed:
                self._given_up = True
                raise DeadlineExceeded
            self._finished = True


async def answered_in_time(deadline: Deadline, run: Callable[[], Awaitable[T]]) -> T:
    """What *run* gives; at the end of the time an error, whatever the thread it waits for does until it notices.

    Raises:
        DeadlineExceeded: it took too long.
    """
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(None) as scope:

            def give_up() -> None:
                if deadline.give_up():
                    scope.reschedule(loop.time())

            timer = loop.call_later(deadline.remaining, give_up)
            try:
                return await run()
            finally:
                timer.cancel()
    except TimeoutError:
        if scope.expired():
            raise DeadlineExceeded from None
        raise


def cancelled_in_time(deadline: Deadline, call: Callable[..., Awaitable[T]]) -> Callable[..., Awaitable[T]]:
    """A coroutine function that is cancelled where it waits when the time is up, with ``DeadlineExceeded``."""

    async def limited(**keywords: Any) -> T:
        try:
            async with asyncio.timeout(deadline.remaining) as scope:
                return await call(**keywords)
        except TimeoutError:
            if scope.expired():
                raise DeadlineExceeded from None
            raise

    return limited

"""Time limits of calls and of SQL statements."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from time import monotonic
from typing import Any, TypeVar

from django.db import OperationalError, connections

from django_mcp.core.channel import Cancelled
from django_mcp.core.database import tools_alias

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


QUERY_CANCELED = "57014"
"""PostgreSQL's code for a statement that took longer than ``statement_timeout``."""
# A limit that the site set itself stays, where it is the stricter one.
STATEMENT_TIMEOUT = """
    SELECT set_config('statement_timeout', CASE WHEN setting::int BETWEEN 1 AND %s THEN setting ELSE %s END, true)
    FROM pg_settings WHERE name = 'statement_timeout'
"""


@contextmanager
def stopped_at_queries(deadline: Deadline | None) -> Iterator[None]:
    """No query of this thread begins when the time is up.

    Raises:
        DeadlineExceeded: once, for a rollback to a savepoint is a query too.
    """
    stopped = False

    def before_query(execute: Callable[..., Any], *arguments: Any) -> Any:
        nonlocal stopped
        if deadline is not None and deadline.has_passed and not stopped:
            stopped = True
            raise DeadlineExceeded
        return execute(*arguments)

    with ExitStack() as stack:
        if deadline is not None:
            for each in connections.all():
                stack.enter_context(each.execute_wrapper(before_query))
        yield


def limit_statements(deadline: Deadline | None) -> None:
    """Let the database end what takes longer than there is time, in the transaction that has just begun.

    PostgreSQL can; of others nothing is asked.
    """
    if deadline is None:
        return
    connection = connections[tools_alias()]
    if connection.vendor != "postgresql" or not connection.in_atomic_block:
        return
    milliseconds = int(deadline.remaining * 1000) + 1
    with connection.cursor() as cursor:
        cursor.execute(STATEMENT_TIMEOUT, [milliseconds, str(milliseconds)])


def is_out_of_time(error: BaseException, deadline: Deadline | None) -> bool:
    """Whether the database ended a statement because of ``limit_statements``."""
    if not isinstance(error, OperationalError) or deadline is None or not deadline.has_passed:
        return False
    code = getattr(error.__cause__, "sqlstate", None) or getattr(error.__cause__, "pgcode", None)
    return code == QUERY_CANCELED

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
    """The call's time limit has passed. Raised in a tool when it next uses its context or the database."""


class Deadline:
    """A time limit of *seconds* from now. The call is finished or given up, whichever comes first."""

    __slots__ = ("_end", "_finished", "_given_up", "_lock")

    def __init__(self, seconds: float) -> None:
        self._end = monotonic() + seconds
        self._lock = threading.Lock()
        self._finished = self._given_up = False

    @property
    def remaining(self) -> float:
        return 0.0 if self._given_up else max(0.0, self._end - monotonic())

    @property
    def has_passed(self) -> bool:
        return self._given_up or (not self._finished and monotonic() >= self._end)

    def check(self) -> None:
        """Raise ``DeadlineExceeded`` if time has run out. Do not catch it."""
        if self.has_passed:
            raise DeadlineExceeded

    def give_up(self) -> bool:
        """Return True if the call may be reported as failed. It can no longer be finished then."""
        # The event loop may give up while the tool's thread finishes: only one of them may succeed.
        with self._lock:
            self._given_up = not self._finished
            return self._given_up

    def finish(self) -> None:
        """Mark the call as finished: its caller gets the result, however late.

        Raises:
            DeadlineExceeded: time has run out.
        """
        # Together with give_up(): either the caller gets the result, or the transaction is rolled back.
        with self._lock:
            if self.has_passed:
                self._given_up = True
                raise DeadlineExceeded
            self._finished = True


async def answered_in_time(deadline: Deadline, run: Callable[[], Awaitable[T]]) -> T:
    """Return the result of *run*, or raise ``DeadlineExceeded`` in time even if its thread has not noticed."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(None) as scope:

            def give_up() -> None:
                # Not if the call has just finished: its result is on the way, and its effects are committed.
                if deadline.give_up():
                    scope.reschedule(loop.time())

            timer = loop.call_later(deadline.remaining, give_up)
            try:
                return await run()
            finally:
                timer.cancel()
    except TimeoutError:
        # A TimeoutError of the tool itself is passed on.
        if scope.expired():
            raise DeadlineExceeded from None
        raise


def cancelled_in_time(deadline: Deadline, call: Callable[..., Awaitable[T]]) -> Callable[..., Awaitable[T]]:
    """Return *call*, cancelled with ``DeadlineExceeded`` at the deadline."""

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
"""PostgreSQL's SQLSTATE for a statement that exceeded ``statement_timeout``."""
# Keeps a stricter limit set by the site.
STATEMENT_TIMEOUT = """
    SELECT set_config('statement_timeout', CASE WHEN setting::int BETWEEN 1 AND %s THEN setting ELSE %s END, true)
    FROM pg_settings WHERE name = 'statement_timeout'
"""


@contextmanager
def stopped_at_queries(deadline: Deadline | None) -> Iterator[None]:
    """Raise ``DeadlineExceeded`` in this thread's next query after the deadline.

    Only once, because a rollback to a savepoint is a query too.
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
            for connection in connections.all():
                stack.enter_context(connection.execute_wrapper(before_query))
        yield


def limit_statements(deadline: Deadline | None) -> None:
    """Limit the statements of the transaction that has just begun to the remaining time. PostgreSQL only."""
    if deadline is None:
        return
    connection = connections[tools_alias()]
    if connection.vendor != "postgresql" or not connection.in_atomic_block:
        return
    milliseconds = int(deadline.remaining * 1000) + 1
    with connection.cursor() as cursor:
        cursor.execute(STATEMENT_TIMEOUT, [milliseconds, str(milliseconds)])


def is_out_of_time(error: BaseException, deadline: Deadline | None) -> bool:
    """Return True if the database cancelled a statement because of ``limit_statements``."""
    if not isinstance(error, OperationalError) or deadline is None or not deadline.has_passed:
        return False
    code = getattr(error.__cause__, "sqlstate", None) or getattr(error.__cause__, "pgcode", None)
    return code == QUERY_CANCELED

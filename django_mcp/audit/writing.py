"""Rows go into the database before their callers have an answer: those of calls that end together in one statement.

One thread of a process writes for all its event loops. While it is at it, others put down what they have, and the next
statement takes all of that.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Sequence
from functools import cache, partial

from django.db import DatabaseError, InterfaceError, OperationalError, connections, router

from django_mcp.audit import rows
from django_mcp.audit.facts import Facts
from django_mcp.conf import settings
from django_mcp.core.concurrency import Pool, Runner, again_and_again
from django_mcp.core.database import NOT_MIGRATED, is_temporary, is_unmigrated
from django_mcp.models import ToolCall
from django_mcp.protocol.errors import InternalError

logger = logging.getLogger("django_mcp")

MOST_AT_ONCE = 500
PATIENCE_SECONDS = 30.0
"""For how long the work of a task waits for a database that is away; nobody waits for it at a connection."""
REACH_SECONDS = 1.0
"""For how long a database that was away may take to say that it is back."""


class NotRecorded(InternalError):
    """A call was made, and nothing of it could be written down."""

    def __init__(self, error: Exception) -> None:
        super().__init__(
            "The call was made, but it could not be recorded, so its result is withheld. "
            f"Look at what it did before you make it again.{_advice(error)}"
        )


class NotRecordable(InternalError):
    """Nothing can be written down at the moment, so the call is not made."""

    def __init__(self, error: Exception) -> None:
        words = "Calls cannot be recorded at the moment, so this one was not made."
        super().__init__(words + (_advice(error) or " Try again."))


def _advice(error: Exception) -> str:
    return f" {NOT_MIGRATED}" if is_unmigrated(error) else ""


class _Entry:
    """One row on its way.

    Attributes:
        future: who waits for it; None for nobody.
        error: why it is not in the database.
    """

    __slots__ = ("error", "facts", "future")

    def __init__(self, facts: Facts, future: "asyncio.Future[None] | None" = None) -> None:
        self.facts, self.future = facts, future
        self.error: Exception | None = None

    def end(self) -> None:
        """Say what came of it. On the loop of who waits, if somebody does."""
        if self.future is None or self.future.done():  # nobody, or somebody who was cancelled
            if self.error is not None:
                lost(self.facts, self.error)
        elif self.error is None:
            self.future.set_result(None)
        else:
            self.future.set_exception(self.error)


class Writer:
    """Writes rows of several calls at once.

    Attributes:
        is_failing: the last one could not be written.
    """

    def __init__(self) -> None:
        self._waiting: deque[_Entry] = deque()
        self._is_called = False  # the thread, which takes all that waits when it comes
        self.is_failing = False
        self._loop: asyncio.AbstractEventLoop | None = None  # one that calls it at the end of its turn

    async def check(self, runner: Runner, facts: Facts) -> None:
        """See that a row like the one that will be written can be, after one could not be.

        Better no call than one whose result is withheld.

        Args:
            runner: of the call.
            facts: what is known of the call before it is made.

        Raises:
            NotRecordable: it cannot be.
        """
        check = partial(rows.check_writable, facts)
        try:
            if runner.is_inline:
                check()
            else:
                await asyncio.wait_for(log_pool().sync(check), REACH_SECONDS)
        except (DatabaseError, InterfaceError, TimeoutError) as error:
            raise NotRecordable(error) from None

    async def write(self, facts: Facts) -> None:
        """Write a row; when this returns it is committed.

        Raises:
            DatabaseError, InterfaceError: it could not be.
        """
        await again_and_again(partial(self._attempt, facts))

    async def _attempt(self, facts: Facts) -> None:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        self._waiting.append(_Entry(facts, future))
        if not self._is_called and self._loop is not loop:
            self._loop = loop
            loop.call_soon(self._call_after)  # all that end in this turn are written together
        await future

    def _call_after(self) -> None:
        self._loop = None
        self._call()

    def post(self, facts: Facts) -> None:
        """Write a row for which nobody waits. From any thread."""
        self._put(_Entry(facts))

    def _put(self, entry: _Entry) -> None:
        self._waiting.append(entry)
        self._call()

    def _call(self) -> None:
        if not self._is_called:
            self._is_called = True
            log_pool().begin(self._come)

    def _come(self) -> None:
        """In the one thread: write what waits."""
        self._is_called = False  # first: what is put down from now on is either taken below, or calls again
        self._write_some()
        if self._waiting:  # another job, before which the thread looks after its connection
            self._call()

    def failed(self, error: Exception) -> None:
        """The database did not take rows."""
        if not self.is_failing:
            self.is_failing = True
            logger.error("calls cannot be recorded: %s", error)

    def wrote(self) -> None:
        """It took them."""
        if self.is_failing:
            self.is_failing = False
            logger.warning("calls are recorded again")

    def _write_some(self) -> None:
        entries: list[_Entry] = []
        while self._waiting and len(entries) < MOST_AT_ONCE:
            entries.append(self._waiting.popleft())
        if not entries:  # two threads called at the same moment
            return
        try:
            rows.save([each.facts for each in entries])
        except Exception as error:  # noqa: BLE001 - it belongs to those who wait
            if isinstance(error, OperationalError | InterfaceError):  # the database is away
                for each in entries:
                    each.error = error
            else:
                _each_alone(entries, error)
        failed = next((each.error for each in entries if each.error is not None), None)
        if failed is None:
            self.wrote()
        else:  # one of them for itself, maybe: the next call is asked about before it is made
            self.failed(failed)
        _tell(entries)


def _each_alone(entries: Sequence[_Entry], error: Exception) -> None:
    """Write those that can be: one that cannot must not keep the others from it."""
    if len(entries) == 1:
        entries[0].error = error
        return
    for each in entries:
        try:
            rows.save([each.facts])
        except Exception as own:  # noqa: BLE001 - likewise
            each.error = own


def _tell(entries: Sequence[_Entry]) -> None:
    """Wake those who wait, each loop once."""
    loops: dict[asyncio.AbstractEventLoop, list[_Entry]] = {}
    for each in entries:
        if each.future is None:
            each.end()
        else:
            loops.setdefault(each.future.get_loop(), []).append(each)
    for loop, waiting in loops.items():
        try:
            loop.call_soon_threadsafe(_end, waiting)
        except RuntimeError:  # the loop is closed: nobody waits any more, but what is lost is told
            for each in waiting:
                if each.error is not None:
                    lost(each.facts, each.error)


def _end(entries: Sequence[_Entry]) -> None:
    for each in entries:
        each.end()


writer = Writer()


@cache
def log_pool() -> Pool:
    """The thread that writes, with a database connection of its own."""
    return Pool(1)


async def written(runner: Runner, facts: Facts, *, is_task: bool) -> None:
    """Write a row, with others where others end at the same time.

    Args:
        runner: of the call.
        facts: what is known of it.
        is_task: it is the work of a task, which nobody waits for at a connection.

    Raises:
        NotRecorded: it could not be; Python's log has what is known.
    """
    try:
        if not runner.is_inline:
            await writer.write(facts)
        else:
            _write_here(facts, PATIENCE_SECONDS if is_task else 0.0)
    except (DatabaseError, InterfaceError) as error:
        lost(facts, error)
        raise NotRecorded(error) from error


def _write_here(facts: Facts, patience: float) -> None:
    until = time.monotonic() + patience
    while True:
        try:
            rows.save([facts])
        except (DatabaseError, InterfaceError) as error:
            writer.failed(error)
            connection = connections[router.db_for_write(ToolCall)]
            if connection.in_atomic_block or time.monotonic() > until or not is_temporary(error):
                raise
            connection.close_if_unusable_or_obsolete()
            time.sleep(settings.POLL_SECONDS)
        else:
            writer.wrote()
            return


def lost(facts: Facts, error: Exception) -> None:
    """Say in Python's log what cannot be written down."""
    logger.error("a call could not be recorded (%s): %s", error, facts)

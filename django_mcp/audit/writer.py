"""Writing log entries: batched inserts, error handling and retries.

Rows are inserted by raw SQL, as building model instances would cost more than the database does. One thread of each
process writes for all its event loops; entries that arrive while it writes go into its next statement.

A lock that another transaction holds is waited for (decision 57). After any other failed write, the row of a call is
committed before the call runs, and completed afterwards: only a commit shows that rows can be written.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from functools import cache, partial
from itertools import chain
from typing import Any, NamedTuple, TypeVar

from django.db import (
    IntegrityError,
    InterfaceError,
    OperationalError,
    connections,
    models,
    router,
    transaction,
)

from django_mcp.audit.entry import Facts
from django_mcp.conf import settings
from django_mcp.core.after_fork import reset_after_fork
from django_mcp.core.concurrency import Pool, Runner, retry_attempt
from django_mcp.core.database import NOT_MIGRATED, has_write_lock, is_locked, is_temporary, is_unmigrated
from django_mcp.models import RequestLog
from django_mcp.models.fields import IdentifierField
from django_mcp.protocol.errors import InternalError
from django_mcp.protocol.jsonrpc import UnencodableResult, encode

T = TypeVar("T")
logger = logging.getLogger("django_mcp")

MAX_ROWS = 1000
"""Maximum rows of a statement."""
PLAIN = {
    *(models.CharField, IdentifierField, models.TextField),
    *(models.FloatField, models.IntegerField, models.PositiveIntegerField),
}
"""Fields whose values need no conversion: strings and numbers."""
MAX_PARAMETERS = 5000
"""Maximum parameters of a statement if the database states no limit."""


class Statement(NamedTuple):
    """An INSERT statement.

    Attributes:
        names: the columns, as keys of ``Facts``.
        head: the statement up to its values.
        row: placeholders of a row; empty if all rows are passed as one JSON array.
        prepare: conversion of values, by index of the column.
        most: maximum number of rows.
    """

    names: Sequence[str]
    head: str
    row: str
    prepare: Mapping[int, Callable[[Any], Any]]
    most: int


BEGUN = "How this call ended could not be recorded."
"""Error of an entry that was written before its call ran."""


def save(calls: Sequence[Facts]) -> None:
    """Insert entries, one by one if they cannot be inserted together. Complete those with an ``id`` (``insert_begun``).

    Raises:
        DatabaseError: some could not be written.
    """
    alias = router.db_for_write(RequestLog)
    for call in calls:
        if "id" in call:
            calls = [call for call in calls if "id" not in call or not _complete(call, alias)]
            break
    try:
        _insert(calls, alias)
    except IntegrityError:  # a user was deleted meanwhile
        with transaction.atomic(using=alias):
            for call in calls:
                _insert_alone(call, alias)


def _alias() -> str:
    return router.db_for_write(RequestLog)


def is_there() -> bool:
    return _vendor(router.db_for_write(RequestLog)) != "unknown"


def insert_begun(call: Facts) -> int:
    """Commit the entry of a call that has not run yet, and return its primary key.

    A test row that is rolled back would prove nothing: SQLite meets a full disk, and PostgreSQL a deferred constraint,
    when a transaction is committed.

    Raises:
        DatabaseError, InterfaceError: it cannot be written.
    """
    alias = _alias()
    connections[alias].close_if_unusable_or_obsolete()
    call = {**call, "outcome": str(RequestLog.Outcome.FAILED), "error": BEGUN}
    try:
        row = RequestLog.objects.using(alias).create(**call)
    except IntegrityError:  # a user was deleted meanwhile
        row = RequestLog.objects.using(alias).create(**{**call, "user_id": None})
    key: int = row.pk
    return key


def _complete(call: Facts, alias: str) -> bool:
    """Write the entry of a call that began. Return False if it was deleted meanwhile."""
    fields = {name: value for name, value in call.items() if name != "id"}
    row = RequestLog.objects.using(alias).filter(pk=call["id"])
    try:
        return bool(row.update(**fields))
    except IntegrityError:  # a user was deleted meanwhile
        return bool(row.update(**{**fields, "user_id": None}))


def _delete_begun(begun: "asyncio.Future[int]") -> None:
    # The call was refused or cancelled before it ran.
    if not begun.cancelled() and begun.exception() is None:
        log_pool().post(RequestLog.objects.filter(pk=begun.result()).delete)


def _insert_alone(call: Facts, alias: str) -> None:
    try:
        with transaction.atomic(using=alias):
            _insert([call], alias)
            # Otherwise most databases check foreign keys at commit, too late to insert the entry without its user.
            connections[alias].check_constraints([RequestLog._meta.db_table])  # noqa: SLF001 - documented API
    except IntegrityError:
        _insert([{**call, "user_id": None}], alias)


def _insert(calls: Sequence[Facts], alias: str) -> None:
    if not calls:
        return
    statement = _statement(alias)
    is_one = len(calls) <= statement.most
    with nullcontext() if is_one else transaction.atomic(using=alias), connections[alias].cursor() as cursor:
        for start in range(0, len(calls), statement.most):
            rows: list[Sequence[Any]] = []
            for call in calls[start : start + statement.most]:
                values = [*map(call.__getitem__, statement.names)]
                for place, prepare in statement.prepare.items():
                    values[place] = prepare(values[place])
                rows.append(values)
            if statement.row:
                cursor.execute(f"{statement.head} {', '.join([statement.row] * len(rows))}", [*chain(*rows)])
            else:
                objects = [dict(zip(statement.names, values, strict=True)) for values in rows]
                cursor.execute(statement.head, [encode(objects).decode()])


@cache
def _vendor(alias: str) -> str:
    return connections[alias].vendor  # cached: on an event loop each task would create a connection for it


@cache
def _statement(alias: str) -> Statement:
    connection = connections[alias]
    quote = connection.ops.quote_name
    fields = [field for field in RequestLog._meta.concrete_fields if not field.primary_key]  # noqa: SLF001 - documented API
    table = quote(RequestLog._meta.db_table)  # noqa: SLF001 - names of the model's
    columns = ", ".join(quote(str(field.column)) for field in fields)
    head = f"INSERT INTO {table} ({columns})"
    names = [field.attname for field in fields]
    prepare = {place: make for place, field in enumerate(fields) if (make := _prepare(field, connection))}
    if connection.vendor == "postgresql":  # psycopg spends more time on quoting each value than on all the rest
        del prepare[names.index("address")]
        head += f" SELECT {columns} FROM json_populate_recordset(NULL::{table}, %s::json)"  # noqa: S608 - names of the model's
        return Statement(names, head, "", prepare, MAX_ROWS)
    most = (connection.features.max_query_params or MAX_PARAMETERS) // len(fields)
    if connection.vendor == "oracle":  # no multi-row VALUES
        most = 1
    return Statement(names, f"{head} VALUES", f"({', '.join(['%s'] * len(fields))})", prepare, max(most, 1))


def _prepare(field: Any, connection: Any) -> Callable[[Any], Any] | None:
    """Return the function that converts a field's values for the database, or None if they need no conversion."""
    if field.name == "arguments":
        return _text_of
    if type(field) in PLAIN:
        return None
    return partial(field.get_db_prep_save, connection=connection)


def _text_of(arguments: Any) -> str | None:
    try:
        return None if arguments is None else encode(arguments).decode()
    except UnencodableResult:  # a lone surrogate, which the field escapes
        text: str | None = RequestLog._meta.get_field("arguments").get_prep_value(arguments)  # noqa: SLF001 - documented API
        return text


MAX_BATCH = 500
TASK_RETRY_TIMEOUT = 30.0
"""Seconds for which a task's worker retries while the database is unavailable."""
CONNECT_TIMEOUT = 1.0
"""Seconds to wait for a database that was unavailable."""
LOCK_TIMEOUT = 60.0
"""Seconds to wait for a lock, unless a tool of this process holds it: then as long as that runs."""
INLINE_LOCK_TIMEOUT = 20.0
"""The same in a worker of the view, which gunicorn kills after 30 seconds."""
RETRY_PAUSE = 0.05
"""Pause before a locked statement is repeated, in addition to the timeout of the database."""


class NotRecorded(InternalError):
    """The call ran, but its log entry could not be written."""

    def __init__(self, error: Exception) -> None:
        self.cause = error
        super().__init__(
            "The call ran, but it could not be recorded, so its result is withheld. It may have taken "
            f"effect; check before retrying.{_advice(error)}"
        )


class NotRecordable(InternalError):
    """Log entries cannot be written at the moment, so the call does not run."""

    def __init__(self, error: Exception) -> None:
        words = "Calls cannot be recorded at the moment, so this call was not run."
        super().__init__(words + (_advice(error) or " Retry later."))


def _advice(error: Exception) -> str:
    return f" {NOT_MIGRATED}" if is_unmigrated(error) else ""


class _Entry(NamedTuple):
    """An entry to be written; ``future`` is None if no caller waits."""

    facts: Facts
    future: "asyncio.Future[None] | None" = None


class Writer:
    """Writes the entries of several calls in one statement; ``is_failing`` if the last write failed."""

    def __init__(self) -> None:
        self.after_fork()
        reset_after_fork(self)

    def after_fork(self) -> None:
        # Waiting entries are the parent's to write.
        self._waiting: deque[_Entry] = deque()
        self._is_called = False  # a job of the thread is queued; it takes all waiting entries
        self.is_failing = False
        self._locked_since: float | None = None
        self._loop: asyncio.AbstractEventLoop | None = None  # the loop that queues the job at the end of its iteration

    async def begin_call(self, runner: Runner, facts: Facts, *, is_task: bool) -> int:
        """After a failed write, commit the entry of a call before the call runs, and return its primary key.

        This prevents calls that take effect but are not recorded, and whose results must be withheld.

        Raises:
            NotRecordable: it cannot be written.
        """
        try:
            if runner.is_inline:
                return _write_inline(partial(insert_begun, facts), TASK_RETRY_TIMEOUT if is_task else 0.0)
            return await _insert_in_thread(facts)
        except Exception as error:  # noqa: BLE001 - whatever it is, there is no row
            raise NotRecordable(error) from None

    async def write(self, runner: Runner, facts: Facts, *, is_task: bool) -> None:
        """Write an entry, batched with others that end at the same time; *is_task* retries longer, as no client waits.

        Raises:
            NotRecorded: it could not be written; Python's log has the entry.
        """
        try:
            if not runner.is_inline:
                await retry_attempt(partial(self.queue, facts))
            else:
                _write_inline(partial(save, [facts]), TASK_RETRY_TIMEOUT if is_task else 0.0)
                if self.is_failing:
                    self.note_success()
        except Exception as error:  # whatever it is, there is no row
            log_lost(facts, error)
            raise NotRecorded(error) from error

    def queue(self, facts: Facts) -> "asyncio.Future[None]":
        """Queue an entry; the result is there when it is committed, or the error that prevented it."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        self._waiting.append(_Entry(facts, future))
        # Read without a lock. Two loops may both queue a job, of which the second one finds nothing.
        if not self._is_called and self._loop is not loop:
            self._loop = loop
            loop.call_soon(self._call)  # entries of this iteration are written together
        return future

    def post(self, facts: Facts) -> None:
        """Write an entry without waiting. May be called from any thread."""
        # Appending to a deque is atomic, so the thread that takes entries needs no lock.
        self._waiting.append(_Entry(facts))
        self._call()

    def _call(self) -> None:
        self._loop = None
        if self._is_called:
            return
        self._is_called = True
        try:
            log_pool().post(self._write_some)
        except Exception as error:  # noqa: BLE001 - no thread, for example; those who wait must learn of it here
            self._is_called = False
            entries: list[_Entry] = []
            with suppress(IndexError):  # another loop's thread may be here too
                while self._waiting:
                    entries.append(self._waiting.popleft())
            self.note_failure(error)
            _resolve(entries, [error] * len(entries))

    def note_failure(self, error: Exception) -> None:
        if not self.is_failing:
            self.is_failing = True
            logger.error("The request log cannot be written: %s", error)

    def note_success(self) -> None:
        self.is_failing = False
        logger.warning("The request log can be written again")

    def _write_some(self) -> None:
        self._is_called = False  # first, so that later entries are either taken below or queue another job
        entries: list[_Entry] = []
        rows: list[Facts] = []
        while self._waiting and len(entries) < MAX_BATCH:
            entries.append(self._waiting.popleft())
            rows.append(entries[-1].facts)
        if not entries:  # two threads queued a job at the same time
            return
        errors: Sequence[Exception | None] = [None] * len(entries)
        try:
            save(rows)
            self._locked_since = None
        except (OperationalError, InterfaceError) as error:  # the database is unavailable
            if self._should_wait(error):  # callers wait for their entries, and the next ones queue up behind them
                self._waiting.extendleft(reversed(entries))
                time.sleep(RETRY_PAUSE)
                self._call()
                return
            errors = [error] * len(entries)
        except Exception as error:  # noqa: BLE001 - raised in the callers that wait
            errors = [*map(_error_of, rows)] if len(entries) > 1 else [error]
        try:
            if any(errors):  # maybe of a single entry; the next call then checks before it runs
                self.note_failure(next(filter(None, errors)))
            elif self.is_failing:
                self.note_success()
        finally:  # even if Python's log fails
            _resolve(entries, errors)
            if self._waiting:  # as a new job, so that the pool checks the connection first
                self._call()

    def _should_wait(self, error: Exception) -> bool:
        # A lock does not mean that rows cannot be written.
        if not is_locked(error):
            return False
        self._locked_since = self._locked_since or time.monotonic()
        return _waits_for_lock(self._locked_since + LOCK_TIMEOUT)


def _waits_for_lock(until: float) -> bool:
    return time.monotonic() < until or has_write_lock(_alias())


async def _insert_in_thread(facts: Facts) -> int:
    begun = log_pool().submit(partial(_write_inline, partial(insert_begun, facts), 0.0))
    try:
        while True:
            done, _ = await asyncio.wait([begun], timeout=CONNECT_TIMEOUT)
            if done:
                return begun.result()
            # A transaction of this process may hold SQLite's write lock for longer.
            if not has_write_lock(_alias()):
                raise TimeoutError
    except BaseException:
        begun.add_done_callback(_delete_begun)  # it may be committed later
        raise


def _error_of(facts: Facts) -> Exception | None:
    # One bad entry must not affect others.
    try:
        save([facts])
    except Exception as error:  # noqa: BLE001 - likewise
        return error
    return None


def _resolve(entries: Sequence[_Entry], errors: Sequence[Exception | None]) -> None:
    loops: dict[asyncio.AbstractEventLoop, list[tuple[_Entry, Exception | None]]] = {}
    for entry, error in zip(entries, errors, strict=True):
        if entry.future is not None:
            loops.setdefault(entry.future.get_loop(), []).append((entry, error))
        elif error is not None:
            log_lost(entry.facts, error)
    # One callback for each event loop, not one for each entry.
    for loop, waiting in loops.items():
        try:
            loop.call_soon_threadsafe(_set_results, waiting)
        except RuntimeError:  # the loop is closed: only log the lost entries
            for entry, error in waiting:
                if error is not None:
                    log_lost(entry.facts, error)


def _set_results(ended: Sequence[tuple[_Entry, Exception | None]]) -> None:
    for (facts, future), error in ended:
        if future is None or future.done():  # no caller, or a cancelled one
            if error is not None:
                log_lost(facts, error)
        elif error is None:
            future.set_result(None)
        else:
            future.set_exception(error)


writer = Writer()


@cache
def log_pool() -> Pool:
    # A single thread with a database connection of its own.
    return Pool(1, "log")


def _write_inline(write: Callable[[], T], patience: float) -> T:
    """Return the result of *write*, repeated for *patience* seconds while the database is unavailable."""
    began = time.monotonic()
    while True:
        try:
            return write()
        except Exception as error:
            connection = connections[_alias()]
            is_lock = is_locked(error) and _waits_for_lock(began + INLINE_LOCK_TIMEOUT)
            is_away = time.monotonic() <= began + patience and is_temporary(error)
            if not is_lock:
                writer.note_failure(error)
            # A failed statement cannot be repeated within a transaction.
            if connection.in_atomic_block or not (is_lock or is_away):
                raise
            connection.close_if_unusable_or_obsolete()
            time.sleep(RETRY_PAUSE if is_lock else settings.POLL_INTERVAL)


def log_lost(facts: Facts, error: Exception) -> None:
    logger.error("A request log entry could not be written (%s): %s", error, facts)

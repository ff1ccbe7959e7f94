"""Writing log entries: batched inserts, error handling and retries.

Rows are inserted by raw SQL, as building model instances would cost more than the database does. One thread of each
process writes for all its event loops; entries that arrive while it writes go into its next statement.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import cache, partial
from itertools import chain
from typing import Any, NamedTuple

from django.db import (
    DatabaseError,
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
from django_mcp.core.concurrency import Pool, Runner, again_and_again
from django_mcp.core.database import NOT_MIGRATED, is_temporary, is_unmigrated
from django_mcp.models import RequestLog
from django_mcp.protocol.errors import InternalError
from django_mcp.protocol.jsonrpc import UnencodableResult, encode

MAX_ROWS = 1000
"""Maximum rows of a statement."""
PLAIN = {models.CharField, models.TextField, models.FloatField, models.IntegerField, models.PositiveIntegerField}
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


def save(calls: Sequence[Facts]) -> None:
    """Insert entries, one by one if they cannot be inserted together.

    Raises:
        DatabaseError: some could not be written.
    """
    alias = router.db_for_write(RequestLog)
    try:
        _insert(calls, alias)
    except IntegrityError:  # a user was deleted meanwhile
        with transaction.atomic(using=alias):
            for call in calls:
                _insert_alone(call, alias)


def is_there() -> bool:
    """Return True if the site has a database for the log."""
    return _vendor(router.db_for_write(RequestLog)) != "unknown"


def check_writable(call: Facts) -> None:
    """Insert an entry and roll back.

    Raises:
        DatabaseError, InterfaceError: it cannot be written.
    """
    alias = router.db_for_write(RequestLog)
    connections[alias].close_if_unusable_or_obsolete()
    with transaction.atomic(using=alias):
        save([call])
        transaction.set_rollback(True, using=alias)


def _insert_alone(call: Facts, alias: str) -> None:
    try:
        with transaction.atomic(using=alias):
            _insert([call], alias)
            connections[alias].check_constraints([RequestLog._meta.db_table])  # noqa: SLF001 - documented API
    except IntegrityError:
        _insert([{**call, "user_id": None}], alias)


def _insert(calls: Sequence[Facts], alias: str) -> None:
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
    fields = [each for each in RequestLog._meta.concrete_fields if not each.primary_key]  # noqa: SLF001 - documented API
    table = quote(RequestLog._meta.db_table)  # noqa: SLF001 - names of the model's
    columns = ", ".join(quote(str(each.column)) for each in fields)
    head = f"INSERT INTO {table} ({columns})"
    names = [each.attname for each in fields]
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


logger = logging.getLogger("django_mcp")

MAX_AT_ONCE = 500
PATIENCE_SECONDS = 30.0
"""Seconds for which a task's worker retries while the database is unavailable."""
REACH_SECONDS = 1.0
"""Seconds to wait for a database that was unavailable."""


class NotRecorded(InternalError):
    """The call ran, but its log entry could not be written."""

    def __init__(self, error: Exception) -> None:
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
        self._waiting: deque[_Entry] = deque()
        self._is_called = False  # a job of the thread is queued; it takes all waiting entries
        self.is_failing = False
        self._loop: asyncio.AbstractEventLoop | None = None  # the loop that queues the job at the end of its iteration

    async def check(self, runner: Runner, facts: Facts) -> None:
        """After a failed write, check that the entry of a call can be written before the call runs.

        This prevents calls that take effect but whose results must be withheld.

        Raises:
            NotRecordable: it cannot be written.
        """
        check = partial(check_writable, facts)
        try:
            if runner.is_inline:
                check()
            else:
                await asyncio.wait_for(log_pool().sync(check), REACH_SECONDS)
        except (DatabaseError, InterfaceError, TimeoutError) as error:
            raise NotRecordable(error) from None

    async def write(self, facts: Facts) -> None:
        """Write an entry and wait until it is committed.

        Raises:
            DatabaseError, InterfaceError: it could not be written.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        self._waiting.append(_Entry(facts, future))
        if not self._is_called and self._loop is not loop:
            self._loop = loop
            loop.call_soon(self._call)  # entries of this iteration are written together
        await future

    def post(self, facts: Facts) -> None:
        """Write an entry without waiting. May be called from any thread."""
        self._waiting.append(_Entry(facts))
        self._call()

    def _call(self) -> None:
        self._loop = None
        if not self._is_called:
            self._is_called = True
            log_pool().begin(self._write_some)

    def failed(self, error: Exception) -> None:
        """Note that the database rejected entries, and log the first such error."""
        if not self.is_failing:
            self.is_failing = True
            logger.error("The request log cannot be written: %s", error)

    def wrote(self) -> None:
        """Note that entries can be written again."""
        self.is_failing = False
        logger.warning("The request log can be written again")

    def _write_some(self) -> None:
        self._is_called = False  # first, so that later entries are either taken below or queue another job
        entries: list[_Entry] = []
        rows: list[Facts] = []
        while self._waiting and len(entries) < MAX_AT_ONCE:
            entries.append(self._waiting.popleft())
            rows.append(entries[-1].facts)
        if not entries:  # two threads queued a job at the same time
            return
        errors: Sequence[Exception | None] = [None] * len(entries)
        try:
            save(rows)
        except (OperationalError, InterfaceError) as error:  # the database is unavailable
            errors = [error] * len(entries)
        except Exception as error:  # noqa: BLE001 - raised in the callers that wait
            errors = [*map(_error_of, rows)] if len(entries) > 1 else [error]
        if any(errors):  # maybe of a single entry; the next call then checks before it runs
            self.failed(next(filter(None, errors)))
        elif self.is_failing:
            self.wrote()
        _tell(entries, errors)
        if self._waiting:  # as a new job, so that the pool checks the connection first
            self._call()


def _error_of(facts: Facts) -> Exception | None:
    """Write a single entry and return the error, so that one bad entry does not affect others."""
    try:
        save([facts])
    except Exception as error:  # noqa: BLE001 - likewise
        return error
    return None


def _tell(entries: Sequence[_Entry], errors: Sequence[Exception | None]) -> None:
    """Resolve the futures of written entries, with one callback for each event loop."""
    loops: dict[asyncio.AbstractEventLoop, list[tuple[_Entry, Exception | None]]] = {}
    for entry, error in zip(entries, errors, strict=True):
        if entry.future is not None:
            loops.setdefault(entry.future.get_loop(), []).append((entry, error))
        elif error is not None:
            lost(entry.facts, error)
    for loop, waiting in loops.items():
        try:
            loop.call_soon_threadsafe(_end, waiting)
        except RuntimeError:  # the loop is closed: only log the lost entries
            for entry, error in waiting:
                if error is not None:
                    lost(entry.facts, error)


def _end(ended: Sequence[tuple[_Entry, Exception | None]]) -> None:
    for (facts, future), error in ended:
        if future is None or future.done():  # no caller, or a cancelled one
            if error is not None:
                lost(facts, error)
        elif error is None:
            future.set_result(None)
        else:
            future.set_exception(error)


writer = Writer()


@cache
def log_pool() -> Pool:
    """Return the pool of the writer's single thread, which has its own database connection."""
    return Pool(1)


async def written(runner: Runner, facts: Facts, *, is_task: bool) -> None:
    """Write an entry, batched with others that end at the same time; *is_task* retries longer, as no client waits.

    Raises:
        NotRecorded: it could not be written; Python's log has the entry.
    """
    try:
        if not runner.is_inline:
            await again_and_again(partial(writer.write, facts))
        else:
            _write_here(facts, PATIENCE_SECONDS if is_task else 0.0)
    except (DatabaseError, InterfaceError) as error:
        lost(facts, error)
        raise NotRecorded(error) from error


def _write_here(facts: Facts, patience: float) -> None:
    until = time.monotonic() + patience
    while True:
        try:
            save([facts])
        except (DatabaseError, InterfaceError) as error:
            writer.failed(error)
            connection = connections[router.db_for_write(RequestLog)]
            if connection.in_atomic_block or time.monotonic() > until or not is_temporary(error):
                raise
            connection.close_if_unusable_or_obsolete()
            time.sleep(settings.POLL_INTERVAL)
        else:
            if writer.is_failing:
                writer.wrote()
            return


def lost(facts: Facts, error: Exception) -> None:
    """Log an entry that could not be written."""
    logger.error("A request log entry could not be written (%s): %s", error, facts)

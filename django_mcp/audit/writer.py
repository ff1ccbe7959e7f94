"""Write entries of the request log before their callers get an answer, several in one statement.

A model instance for each would cost more than the database does.

One thread of a process writes for all its event loops. While it is at it, others put down what they have, and the next
statement takes all of that.
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
"""In one statement."""
PLAIN = {models.CharField, models.TextField, models.FloatField, models.IntegerField, models.PositiveIntegerField}
"""Fields whose values are strings and numbers here, which every database takes as they are."""
MAX_PARAMETERS = 5000
"""In one statement, where the database does not say."""


class Statement(NamedTuple):
    """How rows are inserted.

    Attributes:
        names: of the columns, as ``Facts`` have them.
        head: the statement up to its values.
        row: placeholders of one row; empty where all rows are one parameter, a JSON array.
        prepare: what makes a value the database's own, by the places of the columns that need it.
        most: rows at once.
    """

    names: Sequence[str]
    head: str
    row: str
    prepare: Mapping[int, Callable[[Any], Any]]
    most: int


def save(calls: Sequence[Facts]) -> None:
    """Write them, each one for itself where some cannot be written together.

    Raises:
        DatabaseError: some could not be written.
    """
    alias = router.db_for_write(RequestLog)
    try:
        _insert(calls, alias)
    except IntegrityError:  # a user who was deleted meanwhile
        with transaction.atomic(using=alias):
            for call in calls:
                _insert_alone(call, alias)


def is_there() -> bool:
    """Whether there is a database to write to."""
    return _vendor(router.db_for_write(RequestLog)) != "unknown"


def check_writable(call: Facts) -> None:
    """Write a row and take it back.

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
    return connections[alias].vendor  # on an event loop each task would make a connection of its own for the question


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
    if connection.vendor == "postgresql":  # where it takes longer to quote each value than to do all the rest
        del prepare[names.index("address")]
        head += f" SELECT {columns} FROM json_populate_recordset(NULL::{table}, %s::json)"  # noqa: S608 - names of the model's
        return Statement(names, head, "", prepare, MAX_ROWS)
    most = (connection.features.max_query_params or MAX_PARAMETERS) // len(fields)
    if connection.vendor == "oracle":  # which has no such list of rows
        most = 1
    return Statement(names, f"{head} VALUES", f"({', '.join(['%s'] * len(fields))})", prepare, max(most, 1))


def _prepare(field: Any, connection: Any) -> Callable[[Any], Any] | None:
    """Return what the field does with a value before it is written, or None where ours need nothing of it."""
    if field.name == "arguments":
        return _text_of
    if type(field) in PLAIN:
        return None
    return partial(field.get_db_prep_save, connection=connection)


def _text_of(arguments: Any) -> str | None:
    try:
        return None if arguments is None else encode(arguments).decode()
    except UnencodableResult:  # half of a surrogate pair, for which the field has a way
        text: str | None = RequestLog._meta.get_field("arguments").get_prep_value(arguments)  # noqa: SLF001 - documented API
        return text


logger = logging.getLogger("django_mcp")

MAX_AT_ONCE = 500
PATIENCE_SECONDS = 30.0
"""For how long the work of a task waits for a database that is away; nobody waits for it at a connection."""
REACH_SECONDS = 1.0
"""For how long a database that was away may take to say that it is back."""


class NotRecorded(InternalError):
    """A call was made, and nothing of it could be written down."""

    def __init__(self, error: Exception) -> None:
        super().__init__(
            "The call ran, but it could not be recorded, so its result is withheld. It may have taken "
            f"effect; check before retrying.{_advice(error)}"
        )


class NotRecordable(InternalError):
    """Nothing can be written down at the moment, so the call is not made."""

    def __init__(self, error: Exception) -> None:
        words = "Calls cannot be recorded at the moment, so this call was not run."
        super().__init__(words + (_advice(error) or " Retry later."))


def _advice(error: Exception) -> str:
    return f" {NOT_MIGRATED}" if is_unmigrated(error) else ""


class _Entry(NamedTuple):
    """One row on its way.

    Attributes:
        future: who waits for it; None for nobody.
    """

    facts: Facts
    future: "asyncio.Future[None] | None" = None


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
        check = partial(check_writable, facts)
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
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        self._waiting.append(_Entry(facts, future))
        if not self._is_called and self._loop is not loop:
            self._loop = loop
            loop.call_soon(self._call)  # all that end in this turn are written together
        await future

    def post(self, facts: Facts) -> None:
        """Write a row for which nobody waits. From any thread."""
        self._waiting.append(_Entry(facts))
        self._call()

    def _call(self) -> None:
        self._loop = None
        if not self._is_called:
            self._is_called = True
            log_pool().begin(self._write_some)

    def failed(self, error: Exception) -> None:
        """The database did not take rows."""
        if not self.is_failing:
            self.is_failing = True
            logger.error("the request log cannot be written: %s", error)

    def wrote(self) -> None:
        """It takes them again."""
        self.is_failing = False
        logger.warning("the request log is written again")

    def _write_some(self) -> None:
        """In the one thread: write what waits."""
        self._is_called = False  # first: what is put down from now on is either taken below, or calls again
        entries: list[_Entry] = []
        rows: list[Facts] = []
        while self._waiting and len(entries) < MAX_AT_ONCE:
            entries.append(self._waiting.popleft())
            rows.append(entries[-1].facts)
        if not entries:  # two threads called at the same moment
            return
        errors: Sequence[Exception | None] = [None] * len(entries)
        try:
            save(rows)
        except (OperationalError, InterfaceError) as error:  # the database is away
            errors = [error] * len(entries)
        except Exception as error:  # noqa: BLE001 - it belongs to those who wait
            errors = [*map(_error_of, rows)] if len(entries) > 1 else [error]
        if any(errors):  # one of them for itself, maybe: the next call is asked about before it is made
            self.failed(next(filter(None, errors)))
        elif self.is_failing:
            self.wrote()
        _tell(entries, errors)
        if self._waiting:  # another job, before which the thread looks after its connection
            self._call()


def _error_of(facts: Facts) -> Exception | None:
    """Write one row by itself, which must not keep others from being written."""
    try:
        save([facts])
    except Exception as error:  # noqa: BLE001 - likewise
        return error
    return None


def _tell(entries: Sequence[_Entry], errors: Sequence[Exception | None]) -> None:
    """Wake those who wait, each loop once."""
    loops: dict[asyncio.AbstractEventLoop, list[tuple[_Entry, Exception | None]]] = {}
    for entry, error in zip(entries, errors, strict=True):
        if entry.future is not None:
            loops.setdefault(entry.future.get_loop(), []).append((entry, error))
        elif error is not None:
            lost(entry.facts, error)
    for loop, waiting in loops.items():
        try:
            loop.call_soon_threadsafe(_end, waiting)
        except RuntimeError:  # the loop is closed: nobody waits any more, but what is lost is told
            for entry, error in waiting:
                if error is not None:
                    lost(entry.facts, error)


def _end(ended: Sequence[tuple[_Entry, Exception | None]]) -> None:
    """On the loop of those who wait: say what came of their rows."""
    for (facts, future), error in ended:
        if future is None or future.done():  # nobody, or somebody who was cancelled
            if error is not None:
                lost(facts, error)
        elif error is None:
            future.set_result(None)
        else:
            future.set_exception(error)


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
    """Say in Python's log what cannot be written down."""
    logger.error("a call could not be written to the request log (%s): %s", error, facts)

"""Database connections, transactions, prepared queries and error codes.

Routers may put the package's tables and the site's in different databases. Reads use the database for writes, because a
replica may lack a session, key or approval that was just created.
"""

import datetime
import logging
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache, wraps
from types import TracebackType
from typing import Any, NamedTuple, NoReturn, ParamSpec, TypeVar

from django.apps import apps
from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import (
    DEFAULT_DB_ALIAS,
    Error,
    InterfaceError,
    OperationalError,
    connections,
    models,
    router,
    transaction,
)
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from django.db.models import Model
from django.db.transaction import Atomic, TransactionManagementError
from django.dispatch import receiver

from django_mcp.core.after_fork import clear_after_fork

P = ParamSpec("P")
T = TypeVar("T")
logger = logging.getLogger("django_mcp")

IDLE_SECONDS = 5.0
"""Seconds after which a thread asks its connections again whether they are usable."""
KEEP_SECONDS = 600.0
"""Lifetime of a worker thread's connection if CONN_MAX_AGE is 0, which would otherwise reconnect for each call."""


def refresh_connections(unasked: float) -> Sequence[BaseDatabaseWrapper]:
    """Return this thread's connections, after closing those that are broken, too old or dead.

    Args:
        unasked: seconds since they were last asked whether they are usable.
    """
    known = connections.all(initialized_only=True)
    for connection in known:
        if connection.connection is None or connection.in_atomic_block:
            continue
        if connection.errors_occurred or unasked > IDLE_SECONDS or _is_old(connection):
            if _is_old(connection) or not connection.is_usable():
                connection.close()
            connection.errors_occurred = False
    return known


def pooled_aliases() -> Sequence[str]:
    return [alias for alias in connections if connections.settings[alias].get("OPTIONS", {}).get("pool")]


def give_back(aliases: Sequence[str]) -> None:
    # An idle thread would withhold its connection from the site's views.
    for connection in connections.all(initialized_only=True):
        if connection.alias in aliases and not connection.in_atomic_block:
            connection.close()


def end_open_transactions() -> None:
    """Roll back transactions that code of the site left open in this thread, and replace their connections.

    They would take in whatever the thread writes later, which nothing would commit.
    """
    for connection in connections.all(initialized_only=True):
        if not connection.in_atomic_block:
            continue
        logger.error(
            "A transaction on database %r was left open and is rolled back. Use transaction.atomic() as a context "
            "manager or decorator.",
            connection.alias,
        )
        if connection.connection is not None:
            # The server may have closed it already. What counts is that no later write joins its transaction.
            with suppress(Exception):
                connection.connection.close()
        del connections[connection.alias]


def _is_old(wrapper: BaseDatabaseWrapper) -> bool:
    if wrapper.close_at is None:
        return False
    keep = KEEP_SECONDS if wrapper.settings_dict["CONN_MAX_AGE"] == 0 else 0.0
    return time.monotonic() >= wrapper.close_at + keep


_PLACEHOLDER_YEAR = 9000
"""A year that no real query contains."""


class _Statement(NamedTuple):
    """A compiled query of one connection.

    Attributes:
        parameters: parameters, with the stand-ins of those that vary.
        holes: names of the values that vary, by place in *parameters*.
        converters: from database to Python values, by column.
        own: columns of the model.
        related: foreign keys, with the columns of their models.
        annotations: names of annotations, the last columns.
    """

    connection: Any
    compiler: Any
    sql: str
    parameters: Sequence[Any]
    holes: Mapping[int, str]
    converters: Any
    own: list[str]
    related: list[tuple[Any, list[str]]]
    annotations: list[str]


class Prepared:
    """A queryset compiled once per connection.

    Building and running one anew takes five times as long as the database needs for the answer.

    Args:
        build: returns the queryset for the varying values, by name; called with placeholders.
        related: foreign keys to select.
        varying: name -> ``str`` or ``datetime.datetime`` (aware if ``USE_TZ`` is on).
    """

    def __init__(
        self, build: Callable[..., models.QuerySet[Any]], *, related: Sequence[str] = (), **varying: type
    ) -> None:
        self._build = build
        self._related = related
        self._varying = varying
        self._local = threading.local()

    def first(self, **values: Any) -> Any:
        """Return the row with these values, or None. One query."""
        statement = self._statement()
        parameters = list(statement.parameters)
        for place, name in statement.holes.items():
            value = values[name]
            if isinstance(value, datetime.datetime):
                value = statement.connection.ops.adapt_datetimefield_value(value)
            parameters[place] = value
        with statement.connection.cursor() as cursor:
            cursor.execute(statement.sql, parameters)
            row = cursor.fetchone()
        if row is None:
            return None
        [row] = statement.compiler.apply_converters([row], statement.converters)
        return _instance(row, statement)

    def _statement(self) -> _Statement:
        known: dict[str, _Statement] | None = getattr(self._local, "statements", None)
        if known is None:
            known = self._local.statements = {}
            self._local.model = self._build(**self._stand_ins()).model
        alias = router.db_for_write(self._local.model)  # a replica may lag
        connection = connections[alias]
        statement = known.get(alias)
        # end_open_transactions() replaces connections.
        if statement is None or statement.connection is not connection:
            statement = known[alias] = self._compiled(connection)
        return statement

    def _stand_ins(self) -> dict[str, Any]:
        return {
            name: datetime.datetime(_PLACEHOLDER_YEAR + place, 1, 1, tzinfo=datetime.UTC if settings.USE_TZ else None)
            if kind is datetime.datetime
            else f"?{name}?"
            for place, (name, kind) in enumerate(self._varying.items())
        }

    def _compiled(self, connection: Any) -> _Statement:
        stand_ins = self._stand_ins()
        queryset = self._build(**stand_ins).using(connection.alias)
        annotations = list(queryset.query.annotations)
        own = _columns(queryset.model)
        keys = [queryset.model._meta.get_field(name) for name in self._related]  # noqa: SLF001 - Django's documented API
        related = [(key, _columns(key.related_model)) for key in keys]
        theirs = [f"{key.name}__{column}" for key, columns in related for column in columns]
        queryset = queryset.values_list(*own, *theirs, *annotations)
        compiler = queryset.query.get_compiler(connection=connection)
        sql, parameters = compiler.as_sql()
        names = [_name_of(parameter, stand_ins, connection) for parameter in parameters]
        holes = {place: name for place, name in enumerate(names) if name is not None}
        missing = stand_ins.keys() - set(holes.values())
        if missing:
            msg = f"the query does not depend on {sorted(missing)}"
            raise RuntimeError(msg)
        selected = [column for column, _, _ in compiler.select]
        converters = compiler.get_converters(selected)
        return _Statement(connection, compiler, sql, parameters, holes, converters, own, related, annotations)


def _name_of(value: Any, stand_ins: Mapping[str, Any], connection: Any) -> str | None:
    for name, stand_in in stand_ins.items():
        given = stand_in
        if isinstance(stand_in, datetime.datetime):
            given = connection.ops.adapt_datetimefield_value(stand_in)
        if type(value) is type(given) and value == given:
            return name
    return None


def _columns(model: Any) -> list[str]:
    return [field.attname for field in model._meta.concrete_fields]  # noqa: SLF001 - Django's documented API


def _instance(values: Sequence[Any], statement: _Statement) -> Any:
    alias, end = statement.connection.alias, len(statement.own)
    found = statement.compiler.query.model.from_db(alias, statement.own, values[:end])
    for key, columns in statement.related:
        start, end = end, end + len(columns)
        is_set = getattr(found, key.attname) is not None
        other = key.related_model.from_db(alias, columns, values[start:end]) if is_set else None
        key.set_cached_value(found, other)
    for name, value in zip(statement.annotations, values[end:], strict=True):
        setattr(found, name, value)
    return found


CAUGHT = (
    "A database error was caught inside the tool's transaction, which is rolled back anyway. "
    "Wrap queries that may fail in transaction.atomic()."
)


class Transaction:
    """An ``atomic`` block that can be committed and restarted within."""

    def __init__(self, atomic: Atomic) -> None:
        self._atomic = atomic
        self._on_rollback: list[Callable[[], object]] = []

    def __enter__(self) -> None:
        self._atomic.__enter__()
        self._depth = self._savepoints()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # Read before the block ends, which resets it.
        is_kept = error is None and not transaction.get_connection(self._atomic.using).needs_rollback
        # Taken out first: after suspended() a new transaction collects functions of its own.
        undoing, self._on_rollback = self._on_rollback, []
        try:
            self._atomic.__exit__(kind, error, traceback)
        except BaseException:
            # A commit may fail too, for example because of a deferred constraint.
            is_kept = False
            raise
        finally:
            if not is_kept:
                _run_all(undoing)

    def on_rollback(self, function: Callable[[], object]) -> None:
        """Call *function* after a rollback of what was written since the last commit."""
        self._on_rollback.append(function)

    def _savepoints(self) -> int:
        return len(transaction.get_connection(self._atomic.using).savepoint_ids)

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Commit, and begin a new transaction after the block.

        Raises:
            RuntimeError: it is called inside another ``atomic``.
            TransactionManagementError: a database error was caught, so that nothing can be committed.
        """
        # A savepoint of the tool means that it is inside transaction.atomic().
        if self._savepoints() != self._depth:
            msg = "ctx.once commits, so it cannot be called inside transaction.atomic(); call it before or after"
            raise RuntimeError(msg)
        # A commit would roll back without a word what the tool wrote before.
        if transaction.get_connection(self._atomic.using).needs_rollback:
            raise TransactionManagementError(CAUGHT)
        self.__exit__(None, None, None)
        try:
            yield
        finally:
            self.__enter__()


def _run_all(functions: Iterable[Callable[[], object]]) -> None:
    # Exceptions are logged, so that they do not hide the call's own error.
    for function in reversed([*functions]):
        try:
            function()
        except Exception:
            logger.exception("a ctx.on_rollback function failed")


NOT_MIGRATED = "The site's database lacks a table or a column. Run `manage.py migrate`."

_MISSING = frozenset({"42P01", "42703", 1146, 1054})
"""SQLSTATEs and MySQL error numbers for a missing table or column."""
_LASTING_STATES = ("0A", "22", "23", "25", "42", "53100")
"""Prefixes of SQLSTATEs for which retrying does not help, such as read-only, missing, or disk full."""
_LASTING_NUMBERS = frozenset({3, 1021, 1026, 1114, 1290, 1792, 1836, 1146, 1054})
"""MySQL error numbers for which retrying does not help."""
_LASTING_CODES = frozenset({1, 3, 8, 11, 13, 20, 23, 26})
"""The same in SQLite: ERROR, PERM, READONLY, CORRUPT, FULL, MISMATCH, AUTH, NOTADB."""
_LOCKED_STATES = frozenset({"40001", "40P01", "55P03", 1205, 1213})
"""SQLSTATEs and MySQL error numbers for a lock that another transaction holds."""
_CONFLICTS = frozenset({"40001", "40P01", 1020, 1213})
"""SQLSTATEs and MySQL error numbers for a transaction that is to be repeated as a whole."""
MAX_CONFLICTS = 100
_LOCKED_CODES = frozenset({5, 6})
"""The same in SQLite: BUSY, LOCKED."""


@cache
def _session() -> type[Model]:
    return apps.get_model("django_mcp", "Session")


def storable_text(text: str) -> str:
    # PostgreSQL rejects NUL, and nothing can send lone surrogates.
    return text if text.isprintable() else text.replace("\0", "").encode(errors="replace").decode()


def is_storable_text(text: str) -> bool:
    return storable_text(text) == text


def own_alias() -> str:
    return router.db_for_write(_session())


def own_connection() -> Any:
    return connections[own_alias()]


def has_database() -> bool:
    return exists(own_alias())


def exists(alias: str) -> bool:
    return bool(connections.settings[alias]["ENGINE"] != "django.db.backends.dummy")


def atomic(*, savepoint: bool = True, durable: bool = False) -> Atomic:
    return transaction.atomic(using=own_alias(), savepoint=savepoint, durable=durable)


def on_commit(function: Callable[[], object], using: str | None = None, *, robust: bool = False) -> None:
    """Call *function* after commit of the open ``atomic()`` block, or now if there is none.

    ``transaction.on_commit`` raises outside a block if autocommit is off, which would break the site's own ``save()``
    through a signal receiver. There, *function* joins the transaction that the site commits itself.

    Args:
        using: database alias; by default the package's.
        robust: log exceptions of *function* instead of raising them.
    """
    alias = own_alias() if using is None else using
    if connections[alias].in_atomic_block:
        transaction.on_commit(function, using=alias, robust=robust)
        return
    try:
        function()
    except Exception:
        if not robust:
            raise
        logger.exception("an on_commit function failed")


def tools_alias() -> str:
    return DEFAULT_DB_ALIAS if exists(DEFAULT_DB_ALIAS) else own_alias()


def in_transaction(function: Callable[[], T], context: Any = None) -> T:
    """Call *function* in a transaction (or savepoint) of the site's database, if it has one.

    The *context* gets it as ``transaction``, so that ``once`` can commit within.
    """
    own = connections[DEFAULT_DB_ALIAS]  # ``connection`` would look it up on each use
    # This is the vendor of Django's dummy backend: the site does not configure the database.
    if own.vendor == "unknown":
        own = connections[tools_alias()]
    if own.vendor == "unknown":
        return function()
    begun: Any = LateAtomic(own) if own.vendor == "sqlite" else transaction.atomic(own.alias)
    if context is not None:
        begun = context.transaction = Transaction(begun)
    try:
        with begun:
            # The id, because the exception would keep the frames of the previous call alive.
            before = id(own.rollback_exc)  # type: ignore[attr-defined] # the stubs do not know it
            value = function()
            caught = own.rollback_exc  # type: ignore[attr-defined]
            if own.needs_rollback and id(caught) != before:
                logger.warning(CAUGHT, exc_info=caught)
            return value
    finally:
        if context is not None:
            context.transaction = None


# Weak, so that the connections of a thread that ended are collected.
_of_sqlite: dict[tuple[int, str], "weakref.ref[BaseDatabaseWrapper]"] = clear_after_fork({})
"""This process's connections to SQLite, by thread and alias."""


@receiver(connection_created)
def _note_connection(connection: BaseDatabaseWrapper, **_: Any) -> None:
    if connection.vendor == "sqlite":
        _of_sqlite[threading.get_ident(), connection.alias] = weakref.ref(connection)


def has_write_lock(alias: str) -> bool:
    # The main thread may be waiting for the caller, as in a test of Django's TestCase: its transaction does not end.
    main = threading.main_thread().ident
    found = [refer() for (thread, name), refer in list(_of_sqlite.items()) if name == alias and thread != main]
    return any(wrapper is not None and _is_within(wrapper.connection) for wrapper in found)


def _is_within(connection: Any) -> bool:
    try:
        return bool(connection.in_transaction)
    except Exception:  # noqa: BLE001 - there is none, or its thread has just closed it
        return False


class LateAtomic(Atomic):
    """``atomic()`` on SQLite that begins with the first query; other databases begin late by themselves.

    SQLite's only write lock is taken when a transaction begins: a tool without queries would take it in vain, at a
    higher cost than its own.
    """

    def __init__(self, database: Any) -> None:
        super().__init__(database.alias, savepoint=True, durable=False)
        self._database = database
        self._is_due = False

    def __enter__(self) -> None:
        database = self._database
        if database.connection is None:
            database.ensure_connection()
        if database.in_atomic_block or not database.autocommit:
            super().__enter__()
            return
        # As Atomic does, without the statement.
        database.commit_on_exit, database.needs_rollback = True, False
        database.in_atomic_block = True  # first here, last on exit: tests share a connection among threads
        database.autocommit = False
        database.atomic_blocks.append(self)
        database.execute_wrappers.append(self._begin)
        self._is_due = True

    def _begin(self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        wrappers = self._database.execute_wrappers
        place = wrappers.index(self._begin)  # the site may have added others
        del wrappers[place]
        try:
            # As Atomic does, but with the write lock by default: a transaction that reads before it writes fails,
            # whatever the timeout, if another one has written meanwhile (SQLITE_BUSY).
            self._database.cursor().execute(f"BEGIN {self._database.transaction_mode or 'IMMEDIATE'}")
        except BaseException:
            wrappers.insert(place, self._begin)  # still due: no write may run outside the transaction
            raise
        self._is_due = False
        return execute(sql, params, many, context)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        database = self._database
        if self._is_due:
            self._is_due = False
            database.execute_wrappers.remove(self._begin)
            if not database.closed_in_transaction:
                # The block ends before its hooks run, which may begin transactions themselves.
                database.atomic_blocks.pop()
                database.autocommit = True
                database.in_atomic_block = False
                failed, database.needs_rollback = kind is not None or database.needs_rollback, False
                if failed:
                    database.run_on_commit = []
                elif database.run_on_commit:
                    database.run_and_clear_commit_hooks()
                return
        super().__exit__(kind, error, traceback)


def rolled_back(function: Callable[[], T]) -> T:
    """Call *function* in a transaction (or savepoint) of each database that is always rolled back.

    A database that cannot be reached now is left out, unless it is that of the tools.
    """
    with ExitStack() as stack:
        for alias in _aliases():
            try:
                stack.enter_context(_undone(alias))
            except Exception:
                if alias == tools_alias():
                    raise
                logger.warning("The database %r is not available, so nothing can be rolled back there", alias)
        return function()


@contextmanager
def _undone(using: str) -> Iterator[None]:
    with transaction.atomic(using=using):
        try:
            yield
        finally:
            transaction.set_rollback(True, using=using)


def _aliases() -> list[str]:
    return sorted(filter(exists, connections), key=lambda alias: alias != tools_alias())


def is_temporary(error: BaseException) -> bool:
    """Return True if a retry may succeed, because the database is unavailable or locked.

    A full disk, a read-only database or a missing table is not temporary.
    """
    if not isinstance(error, OperationalError | InterfaceError):
        return False
    code, sqlite = _codes(error)
    if sqlite is not None:
        return sqlite & 0xFF not in _LASTING_CODES
    return not (code.startswith(_LASTING_STATES) if isinstance(code, str) else code in _LASTING_NUMBERS)


def is_locked(error: BaseException) -> bool:
    """Return True if another transaction holds a lock that the statement needs, so that it will succeed later."""
    code, sqlite = _codes(error)
    return code in _LOCKED_STATES if sqlite is None else sqlite & 0xFF in _LOCKED_CODES


def retry_conflicts(write: Callable[P, T]) -> Callable[P, T]:
    """Make a function, whose writes are one transaction, begin again if another transaction was faster.

    With REPEATABLE READ or SERIALIZABLE that is an error wherever READ COMMITTED waits: each row that all processes
    write, such as the sequence of events, fails as often as they meet there. One of them succeeds each time.
    """

    @wraps(write)
    def repeated(*arguments: P.args, **keywords: P.kwargs) -> T:
        for _ in range(MAX_CONFLICTS):
            try:
                return write(*arguments, **keywords)
            except OperationalError as error:
                # An outer transaction is lost as a whole.
                if own_connection().in_atomic_block or _codes(error)[0] not in _CONFLICTS:
                    raise
        return write(*arguments, **keywords)

    return repeated


@contextmanager
def unless_unmigrated() -> Iterator[None]:
    """Leave the block if it asks for a table or column that is not there, silently: before ``migrate``, or during it.

    For signal receivers, which must not make the site's own change fail, and for what they do after the commit. Open
    transactions stay usable.
    """
    try:
        with ExitStack() as stack:
            for connection in connections.all(initialized_only=True):
                # PostgreSQL ends a transaction in which a statement failed, unless there is a savepoint.
                if connection.in_atomic_block and not connection.needs_rollback:
                    stack.enter_context(transaction.atomic(connection.alias))
            yield
    except Error as error:
        if not is_unmigrated(error):
            raise


def is_unmigrated(error: BaseException) -> bool:
    code, sqlite = _codes(error)
    if sqlite is not None:
        words = str(error)
        return words.startswith(("no such table", "no such column")) or "has no column named" in words
    return code in _MISSING


def _codes(error: BaseException) -> tuple[str | int | None, int | None]:
    if not isinstance(error, Error):  # ``KeyError(1146)`` has no code of a database
        return None, None
    cause = error.__cause__ or error
    first = cause.args[0] if cause.args else None
    # MySQL's number first: its SQLSTATE, which some drivers have too, is HY000 for most.
    state = getattr(cause, "sqlstate", None) or getattr(cause, "pgcode", None)
    # SQLite's code is neither a SQLSTATE nor a plain number.
    return first if isinstance(first, int) else state, getattr(cause, "sqlite_errorcode", None)


def keys_of(model: type[Model], texts: Iterable[str | None]) -> list[Any]:
    """Return the *texts* that are valid primary keys of *model*, converted."""
    field, found = model._meta.pk, []  # noqa: SLF001 - Django's documented API
    for text in filter(None, texts):
        with suppress(ValidationError):
            key = field.to_python(text)
            field.run_validators(key)
            found.append(key)
    return found


@contextmanager
def queries() -> Iterator[list[str]]:
    """Yield a list that collects the SQL of this thread's queries in the block."""
    asked: list[str] = []

    def note(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        asked.append(sql)
        return execute(sql, params, many, context)

    with _around_queries(note):
        yield asked


@contextmanager
def without_queries() -> Iterator[None]:
    """Let queries of this thread in the block fail with an ``OperationalError``, as without a database."""

    def refuse(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> NoReturn:  # noqa: ARG001
        raise OperationalError("the database must not be queried here")

    with _around_queries(refuse):
        yield


@contextmanager
def without_effects() -> Iterator[None]:
    """Roll back what this thread writes to databases in the block.

    Each transaction (or savepoint) begins with the first query, so that no database is needed without one. A
    transaction that the block itself begins before that is committed as usual.
    """
    outside = {connection.alias: connection.in_atomic_block for connection in connections.all()}

    def begin(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        using, is_within = context["connection"].alias, context["connection"].in_atomic_block
        if outside.get(using) is is_within and not sql.startswith("BEGIN"):
            del outside[using]  # the statements that begin it are queries too
            stack.enter_context(_undone(using))
        return execute(sql, params, many, context)

    with ExitStack() as stack, _around_queries(begin):
        yield


@contextmanager
def _around_queries(wrapper: Callable[..., Any]) -> Iterator[None]:
    with ExitStack() as stack:
        for connection in connections.all():
            stack.enter_context(connection.execute_wrapper(wrapper))
        yield

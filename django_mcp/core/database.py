"""The database that the package's tables are in, and the one in which tools run.

They are one where a site has one. Routers decide: whatever is asked for here is where rows are written, for a replica
may not have a session, a key or an approval that was made a moment ago.
"""

import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from types import TracebackType
from typing import Any, TypeVar

from django.apps import apps
from django.core.exceptions import ValidationError
from django.db import DEFAULT_DB_ALIAS, InterfaceError, OperationalError, connections, router, transaction
from django.db.models import Model
from django.db.transaction import Atomic

from django_mcp.core.transactions import Transaction

T = TypeVar("T")

logger = logging.getLogger("django_mcp")

NOT_MIGRATED = "The site's database lacks a table or a column. Run `manage.py migrate`."

_MISSING = frozenset({"42P01", "42703", 1146, 1054})
"""SQLSTATEs and MySQL's numbers for a table or column that is not there."""
_LASTING_STATES = ("0A", "22", "23", "25", "42", "53100")
"""How SQLSTATEs begin of what is answered alike when it is asked again: among them read-only, missing, disk full."""
_LASTING_NUMBERS = frozenset({3, 1021, 1026, 1114, 1290, 1792, 1836, 1146, 1054})
"""The same as MySQL numbers it."""
_LASTING_CODES = frozenset({1, 3, 8, 11, 13, 20, 23, 26})
"""The same of SQLite: ERROR, PERM, READONLY, CORRUPT, FULL, MISMATCH, AUTH, NOTADB."""


@cache
def _session() -> type[Model]:
    return apps.get_model("django_mcp", "Session")


def own_alias() -> str:
    """Return the alias of the database that the package's tables are written to."""
    return router.db_for_write(_session())


def own_connection() -> Any:
    """Return this thread's connection to that database."""
    return connections[own_alias()]


def has_database() -> bool:
    """Return True if there is such a database; a site without one has tools all the same."""
    return exists(own_alias())


def exists(alias: str) -> bool:
    """Return True if the settings name a database under *alias*. No connection is made for the question."""
    return bool(connections.settings[alias]["ENGINE"] != "django.db.backends.dummy")


def atomic(*, durable: bool = False) -> Atomic:
    """Return ``transaction.atomic`` on the database of the package's tables."""
    return transaction.atomic(using=own_alias(), durable=durable)


def on_commit(function: Callable[[], object]) -> None:
    """Call it once the open transaction of that database is committed; now, if there is none."""
    transaction.on_commit(function, using=own_alias())


def tools_alias() -> str:
    """Return the alias of the database in whose transaction tools run: ``default``, where a site has it."""
    return DEFAULT_DB_ALIAS if exists(DEFAULT_DB_ALIAS) else own_alias()


def in_transaction(function: Callable[[], T], context: Any = None) -> T:
    """Call it inside a transaction of the site's database, or a savepoint where one is open already.

    A site without a database has no transactions, and tools all the same.

    Args:
        function: what to call.
        context: gets the transaction as its ``transaction``, so that ``once`` can commit in between.
    """
    own = connections[DEFAULT_DB_ALIAS]  # each use of ``connection`` would look it up anew
    if own.vendor == "unknown":
        own = connections[tools_alias()]
    if own.vendor == "unknown":
        return function()
    begun: Any = LateAtomic(own) if own.vendor == "sqlite" else transaction.atomic(own.alias)
    if context is not None:
        begun = context.transaction = Transaction(begun)
    try:
        with begun:
            # Not the exception itself: its traceback would keep the frames of the call before.
            before = id(own.rollback_exc)  # type: ignore[attr-defined] # the stubs do not know it
            value = function()
            caught = own.rollback_exc  # type: ignore[attr-defined]
            if own.needs_rollback and id(caught) != before:
                logger.warning(
                    "A database error was caught inside the transaction, which is rolled back all the same. "
                    "Put a transaction.atomic() around what may fail.",
                    exc_info=caught,
                )
            return value
    finally:
        if context is not None:
            context.transaction = None


class LateAtomic(Atomic):
    """``atomic()`` on SQLite, which asks nothing of the database until somebody does.

    SQLite has one lock for all who write, which is taken when a transaction begins, and so for nothing by a tool that
    asks the database for nothing; and to begin and end one in vain costs more than such a tool. To all code within, it
    is a block like any other. Other databases begin late by themselves.
    """

    def __init__(self, database: Any) -> None:
        super().__init__(database.alias, savepoint=True, durable=False)
        self._database = database
        self._is_due = False

    def __enter__(self) -> None:
        """Be a block that is to begin; a savepoint inside of another one."""
        database = self._database
        if database.connection is None:
            database.ensure_connection()
        if database.in_atomic_block or not database.autocommit:
            super().__enter__()
            return
        # As Atomic does, but for the statement.
        database.commit_on_exit, database.needs_rollback = True, False
        database.autocommit, database.in_atomic_block = False, True
        database.atomic_blocks.append(self)
        database.execute_wrappers.append(self._begin)
        self._is_due = True

    def _begin(self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        """For ``execute_wrappers``."""
        wrappers = self._database.execute_wrappers
        place = wrappers.index(self._begin)  # a site may have added its own
        del wrappers[place]
        try:
            # What Atomic does, but with the write lock, unless the site says how: a transaction that reads first and
            # then writes fails at once where another has written meanwhile (SQLITE_BUSY, whatever the timeout).
            self._database.cursor().execute(f"BEGIN {self._database.transaction_mode or 'IMMEDIATE'}")
        except BaseException:
            wrappers.insert(place, self._begin)  # still due: nothing is to be written that could not be taken back
            raise
        self._is_due = False
        return execute(sql, params, many, context)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Commit, or roll back where there was an error; where nothing was begun, there is nothing to end."""
        database = self._database
        if self._is_due:
            self._is_due = False
            database.execute_wrappers.remove(self._begin)
            if not database.closed_in_transaction:
                database.atomic_blocks.pop()
                database.autocommit, database.in_atomic_block = True, False
                failed, database.needs_rollback = kind is not None or database.needs_rollback, False
                if failed:
                    database.run_on_commit = []
                elif database.run_on_commit:
                    database.run_and_clear_commit_hooks()
                return
        super().__exit__(kind, error, traceback)


def rolled_back(function: Callable[[], T], using: str | None = None) -> T:
    """Call it inside a transaction, or a savepoint, that is rolled back in any case.

    Args:
        function: what to call.
        using: alias of the database; that in which tools run, unless one is named.
    """
    using = using or tools_alias()
    if not exists(using):
        return function()
    with transaction.atomic(using=using):
        try:
            return function()
        finally:
            transaction.set_rollback(True, using=using)


def is_temporary(error: BaseException) -> bool:
    """Return True if the same statement may succeed a moment later: the database is away, or somebody holds a lock.

    A full disk, a read-only database and a missing table answer at once, and are not waited for.
    """
    if not isinstance(error, OperationalError | InterfaceError):
        return False
    code, sqlite = _codes(error)
    if sqlite is not None:
        return sqlite & 0xFF not in _LASTING_CODES
    return not (code.startswith(_LASTING_STATES) if isinstance(code, str) else code in _LASTING_NUMBERS)


def is_unmigrated(error: BaseException) -> bool:
    """Return True if a statement failed for want of a table or a column, so that ``migrate`` has to be run."""
    code, sqlite = _codes(error)
    if sqlite is not None:
        words = str(error)
        return words.startswith(("no such table", "no such column")) or "has no column named" in words
    return code in _MISSING


def _codes(error: BaseException) -> tuple[str | int | None, int | None]:
    """Return the database's own code of an error, and SQLite's, which has neither SQLSTATEs nor one number for each."""
    cause = error.__cause__ or error
    state = getattr(cause, "sqlstate", None) or getattr(cause, "pgcode", None)
    first = cause.args[0] if cause.args else None
    return state or (first if isinstance(first, int) else None), getattr(cause, "sqlite_errorcode", None)


def keys_of(model: type[Model], texts: Iterable[str | None]) -> list[Any]:
    """Return those of *texts* that can be primary keys of *model*, as it has them, and leave out the others."""
    field, found = model._meta.pk, []  # noqa: SLF001 - Django's documented API
    for text in filter(None, texts):
        with suppress(ValidationError):
            key = field.to_python(text)
            field.run_validators(key)
            found.append(key)
    return found

"""The database that the package's tables are in, and the one in which tools run.

They are one where a site has one. Routers decide: whatever is asked for here is where rows are written, for a replica
may not have a session, a key or an approval that was made a moment ago.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from typing import Any, TypeVar

from django.apps import apps
from django.core.exceptions import ValidationError
from django.db import DEFAULT_DB_ALIAS, InterfaceError, OperationalError, connections, router, transaction
from django.db.models import Model
from django.db.transaction import Atomic

T = TypeVar("T")

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

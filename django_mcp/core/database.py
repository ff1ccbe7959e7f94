"""The database that the package's tables are in, and the one in which tools run.

They are one where a site has one. Routers decide: whatever is asked for here is where rows are written, for a replica
may not have a session, a key or an approval that was made a moment ago.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

from django.apps import apps
from django.db import DEFAULT_DB_ALIAS, connections, router, transaction
from django.db.models import Model
from django.db.transaction import Atomic


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

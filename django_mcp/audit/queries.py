"""How many database queries a call made, in whichever threads."""

from collections.abc import Callable
from contextvars import ContextVar, Token
from typing import Any, Self

from django.db import connections
from django.db.backends.signals import connection_created

from django_mcp.core.dispatch import watching


class Count:
    """Of the queries made within, also by threads that work for it: they have its context variables.

    Attributes:
        value: queries so far.
    """

    __slots__ = ("_token", "value")
    _token: "Token[Count | None]"

    def __init__(self) -> None:
        self.value = 0

    def __enter__(self) -> Self:
        """Begin."""
        self._token = _current.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        """End."""
        _current.reset(self._token)


_current: ContextVar[Count | None] = ContextVar("django_mcp_queries", default=None)


def _counting(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
    """For ``execute_wrappers``."""
    count = _current.get()
    # SQLite's way to begin a transaction passes here; other drivers begin theirs by themselves, unseen.
    if count is not None and not (isinstance(sql, str) and sql.startswith("BEGIN")):
        count.value += 1
    return execute(sql, params, many, context)


def _begin(*, connection: Any, **_: Any) -> None:
    if watching.observer is not None and _counting not in connection.execute_wrappers:
        # Before those of the site, which may count or refuse.
        connection.execute_wrappers.insert(0, _counting)


def install() -> None:
    """Count on every connection that is made from now on, as long as calls are watched, and on those of this thread."""
    connection_created.connect(_begin, dispatch_uid="django_mcp.audit.queries")
    for connection in connections.all(initialized_only=True):
        _begin(connection=connection)

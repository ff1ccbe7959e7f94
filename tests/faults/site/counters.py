"""What the process does that no client sees."""

from typing import Any

from django.db.backends.signals import connection_created

queries: list[str] = []
"""The SQL of all that was sent to a database, whatever thread sent it."""


def note(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
    queries.append(sql)
    return execute(sql, params, many, context)


def watch(connection: Any, **_: Any) -> None:
    connection.execute_wrappers.append(note)


connection_created.connect(watch)

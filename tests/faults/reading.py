"""What is in the database of a site, read by a connection of one's own, whether the site lives or not."""

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

import psycopg
from psycopg.rows import dict_row


def read(environment: Mapping[str, str], query: str) -> list[dict[str, Any]]:
    """The rows that a query gives, by their columns.

    Args:
        environment: of the site's processes; it names the database.
        query: SQL of SQLite and PostgreSQL.
    """
    if url := environment.get("DATABASE_URL"):
        with psycopg.connect(url, row_factory=dict_row) as connection:
            return list(connection.execute(query))
    with closing(sqlite3.connect(environment["CONFORMANCE_DATABASE"])) as connection:
        connection.row_factory = sqlite3.Row
        return [dict(row) for row in connection.execute(query)]


def log_of(environment: Mapping[str, str], columns: Sequence[str], principal: str) -> list[tuple[Any, ...]]:
    """Of each row in the log of a caller's calls those columns, the oldest first."""
    found = read(environment, f"SELECT * FROM django_mcp_requestlog WHERE principal_id = '{principal}' ORDER BY id")
    return [tuple(row[column] for column in columns) for row in found]

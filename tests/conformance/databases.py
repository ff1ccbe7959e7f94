"""A new database for each server, gone when the server is."""

import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
from psycopg import sql


@contextmanager
def sqlite(folder: Path) -> Iterator[Mapping[str, str]]:
    """A file in *folder*; gives the environment that names it."""
    file = folder / "conformance.sqlite3"
    yield {"DATABASE_URL": "", "CONFORMANCE_DATABASE": str(file)}
    for part in (file, *folder.glob(f"{file.name}-*")):
        part.unlink(missing_ok=True)


@contextmanager
def postgresql() -> Iterator[Mapping[str, str]]:
    """A database on the server of ``DATABASE_URL``; gives the environment that names it."""
    there = urlsplit(os.environ["DATABASE_URL"])
    name = f"conformance_{secrets.token_hex(4)}"
    with psycopg.connect(there.geturl(), autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        try:
            yield {"DATABASE_URL": there._replace(path=f"/{name}").geturl()}
        finally:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))

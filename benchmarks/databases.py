"""Databases for the benchmarked site, of each kind one, made when first needed and gone afterwards."""

import os
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from benchmarks.process import ProcessFailedError, run
from benchmarks.targets import NONE, POSTGRESQL

SERVER = "postgres://postgres@127.0.0.1:5432/postgres"
"""Where PostgreSQL is looked for unless ``DATABASE_URL`` says it."""


class Databases:
    """Those of one run."""

    def __init__(self) -> None:
        self._addresses: dict[str, str] = {}
        self._is_created = False
        self._name = f"benchmarks_{os.getpid()}"
        self._server = os.environ.get("DATABASE_URL") or SERVER

    def prepared(self, kind: str, directory: Path) -> str:
        """The address of the database of a kind, which has all the site needs.

        Raises:
            ProcessFailedError: there is no such database, or it could not be prepared.
        """
        if kind == NONE:
            return NONE
        if kind not in self._addresses:
            address = self._create() if kind == POSTGRESQL else str(directory / "benchmark.sqlite3")
            run(["benchmarks.prepare"], None, {"BENCH_DATABASE": address}, within=120)
            self._addresses[kind] = address
        return self._addresses[kind]

    def drop(self) -> None:
        """Remove what does not go with the directory."""
        if self._is_created:
            self._execute(f"DROP DATABASE IF EXISTS {self._name} WITH (FORCE)")

    def _create(self) -> str:
        self._execute(f"CREATE DATABASE {self._name}")
        self._is_created = True
        return urlunsplit(urlsplit(self._server)._replace(path=f"/{self._name}"))

    def _execute(self, statement: str) -> None:
        try:
            import psycopg  # noqa: PLC0415 - SQLite needs none
        except ImportError:
            raise ProcessFailedError("psycopg is not installed") from None
        try:
            with psycopg.connect(self._server, autocommit=True, connect_timeout=5) as connection:
                connection.execute(statement.encode())
        except psycopg.Error as error:
            msg = f"no PostgreSQL at {self._server} (DATABASE_URL): {error}"
            raise ProcessFailedError(msg) from None

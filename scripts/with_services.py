"""Run a command with the PostgreSQL, MariaDB and Redis that answer, and say loudly which those are.

A database named by an environment variable but out of reach would fail every test that touches it.
The variable is taken away instead, and the command runs on SQLite, or without Redis, as it does when
nobody set the variable.
"""

# ruff: noqa: T201, S606 - a command-line helper talks, and becomes the command it was given

import os
import shutil
import socket
import sys
from collections.abc import Callable
from urllib.parse import SplitResult, unquote, urlsplit

TIMEOUT = 3.0


def main(command: list[str]) -> None:
    """Probe, report, and become the command."""
    reports = [
        probed("PostgreSQL", "DATABASE_URL", connect_to_postgresql),
        probed("MariaDB", "MARIADB_URL", connect_to_mariadb),
        probed("Redis", "REDIS_URL", ping_redis),
    ]
    rule = "=" * min(shutil.get_terminal_size().columns, 100)
    print(rule, *reports, rule, sep="\n", flush=True)
    os.execvp(command[0], command)


def probed(name: str, variable: str, connect: Callable[[SplitResult], None]) -> str:
    """Keep the variable if its service answers, drop it if not, and answer the line that says so."""
    url = os.environ.get(variable)
    if not url:
        os.environ.pop(variable, None)
        return f"{name}: NOT USED. {variable} is not set; the tests run without it."
    try:
        connect(urlsplit(url))
    except (OSError, ValueError) as error:
        del os.environ[variable]
        reason = " ".join(str(error).split()) or type(error).__name__
        return f"{name}: NOT USED. {variable} is set but out of reach ({reason}); the tests run without it."
    return f"{name}: REACHABLE at {shown(urlsplit(url))}."


def connect_to_postgresql(url: SplitResult) -> None:
    """Open a connection and close it. A driver is at hand: the environment has the ``dev`` extra."""
    import psycopg  # noqa: PLC0415 - everything else here works without it

    if url.scheme not in {"postgres", "postgresql"}:
        raise ValueError(f"{url.scheme}:// is no PostgreSQL address")
    try:
        psycopg.connect(url.geturl(), connect_timeout=round(TIMEOUT)).close()
    except psycopg.Error as error:
        raise ConnectionError(error) from error


def connect_to_mariadb(url: SplitResult) -> None:
    """Open a connection to the server and close it. Tests make databases of their own."""
    import pymysql  # noqa: PLC0415 - likewise

    if url.scheme != "mysql":
        raise ValueError(f"{url.scheme}:// is not understood here, only mysql://")
    account = {"user": unquote(url.username or ""), "password": unquote(url.password or "")}
    try:
        pymysql.connect(
            host=url.hostname or "127.0.0.1", port=url.port or 3306, connect_timeout=round(TIMEOUT), **account
        ).close()
    except pymysql.Error as error:
        raise ConnectionError(error) from error


def ping_redis(url: SplitResult) -> None:
    """Send ``PING`` over a plain socket: Redis' client library is none of the package's needs."""
    if url.scheme != "redis":
        raise ValueError(f"{url.scheme}:// is not understood here, only redis://")
    requests = ["PING"]
    if url.password:
        requests.insert(0, " ".join(["AUTH", unquote(url.username or "default"), unquote(url.password)]))
    with socket.create_connection((url.hostname or "localhost", url.port or 6379), TIMEOUT) as connection:
        connection.sendall("".join(f"{request}\r\n" for request in requests).encode())
        with connection.makefile("r", encoding="utf-8") as replies:
            answers = [replies.readline().strip() for _ in requests]
    if answers[-1] != "+PONG":
        raise ConnectionError(answers[-1] or "no answer to PING")


def shown(url: SplitResult) -> str:
    """The address without its password, since build logs are public."""
    return url._replace(netloc=url.netloc.rpartition("@")[2]).geturl()


if __name__ == "__main__":
    main(sys.argv[1:])

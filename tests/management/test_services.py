"""``make test`` uses the PostgreSQL and the Redis that answer, and says loudly which those are."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

import pytest

from tests.management.checkout import ROOT, environment, free_port

SHOW = "import os; print('LEFT', sorted({'DATABASE_URL', 'MARIADB_URL', 'REDIS_URL'} & os.environ.keys()))"


def with_services(**variables: str) -> str:
    """Run a command the way the tests are run; it tells which variables were left to it."""
    return subprocess.run(
        [sys.executable, ROOT / "scripts" / "with_services.py", sys.executable, "-c", SHOW],
        env=environment() | variables,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout


@contextmanager
def redis_saying(*answers: str) -> Iterator[int]:
    """A server that takes one connection, answers a line for each line it gets, and goes."""

    def answer() -> None:
        connection, _ = listener.accept()
        with connection, connection.makefile("r") as requests:
            for line in answers:
                requests.readline()
                connection.sendall(f"{line}\r\n".encode())

    with socket.create_server(("127.0.0.1", free_port())) as listener:
        listener.settimeout(30)
        thread = Thread(target=answer)
        thread.start()
        yield listener.getsockname()[1]
        thread.join()


def test_without_either_variable_the_command_runs_and_both_are_reported_unused():
    output = with_services()

    assert "PostgreSQL: NOT USED. DATABASE_URL is not set" in output
    assert "MariaDB: NOT USED. MARIADB_URL is not set" in output
    assert "Redis: NOT USED. REDIS_URL is not set" in output
    assert "LEFT []" in output


def test_services_out_of_reach_are_reported_and_taken_from_the_command():
    port = free_port()
    output = with_services(
        DATABASE_URL=f"postgres://postgres@127.0.0.1:{port}/test",
        MARIADB_URL=f"mysql://root@127.0.0.1:{port}/test",
        REDIS_URL=f"redis://127.0.0.1:{port}/0",
    )

    assert "PostgreSQL: NOT USED. DATABASE_URL is set but out of reach" in output
    assert "MariaDB: NOT USED. MARIADB_URL is set but out of reach" in output
    assert "Redis: NOT USED. REDIS_URL is set but out of reach" in output
    assert "LEFT []" in output


def test_addresses_of_another_kind_are_reported_and_taken_from_the_command():
    urls = {"DATABASE_URL": "mysql://localhost/test", "MARIADB_URL": "postgres://localhost/test"}
    output = with_services(**urls, REDIS_URL="https://localhost/0")

    assert "postgres:// is not understood here, only mysql://" in output
    assert "mysql:// is no PostgreSQL address" in output
    assert "https:// is not understood" in output
    assert "LEFT []" in output


def test_a_redis_that_answers_is_reported_and_left_to_the_command():
    with redis_saying("+PONG") as port:
        output = with_services(REDIS_URL=f"redis://127.0.0.1:{port}/0")

    assert f"Redis: REACHABLE at redis://127.0.0.1:{port}/0." in output
    assert "LEFT ['REDIS_URL']" in output


def test_a_password_is_sent_and_never_shown():
    with redis_saying("+OK", "+PONG") as port:
        output = with_services(REDIS_URL=f"redis://:hidden@127.0.0.1:{port}/0")

    assert "Redis: REACHABLE" in output
    assert "hidden" not in output


def test_a_redis_that_refuses_is_not_used():
    with redis_saying("-NOAUTH Authentication required.") as port:
        output = with_services(REDIS_URL=f"redis://127.0.0.1:{port}/0")

    assert "Redis: NOT USED. REDIS_URL is set but out of reach (-NOAUTH Authentication required.)" in output


@pytest.mark.needs("MARIADB_URL")
def test_a_mariadb_that_answers_is_left_to_the_command():
    output = with_services(MARIADB_URL=os.environ["MARIADB_URL"])

    assert "MariaDB: REACHABLE" in output
    assert "LEFT ['MARIADB_URL']" in output


@pytest.mark.needs("DATABASE_URL")
def test_a_postgresql_that_answers_is_reported_and_left_to_the_command():
    output = with_services(DATABASE_URL=os.environ["DATABASE_URL"])

    assert "PostgreSQL: REACHABLE at" in output
    assert "LEFT ['DATABASE_URL']" in output

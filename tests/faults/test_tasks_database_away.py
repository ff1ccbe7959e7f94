"""The database goes away while tasks run and end."""

import time
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from tests.conformance.databases import postgresql
from tests.faults.conftest import service, until
from tests.faults.gate import Gate
from tests.faults.wire import text
from tests.tasks.workers.processes import Site, site

pytestmark = pytest.mark.needs("DATABASE_URL")

MAX_THREADS = 8
UNSAVED = "the state of running tasks cannot be saved, retrying"


@pytest.fixture(scope="module")
def gate() -> Iterator[Gate]:
    """The way to PostgreSQL."""
    with Gate(*service("DATABASE_URL")) as made:
        yield made


@pytest.fixture(scope="module")
def server(gate: Gate, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("tasks-database-away")
    with postgresql() as database:
        there = urlsplit(database["DATABASE_URL"])
        through = there._replace(netloc=f"{there.netloc.rpartition('@')[0]}@127.0.0.1:{gate.port}")
        with site("process", folder, {"DATABASE_URL": through.geturl()}, servers=2) as running:
            yield running


def back(server: Site, gate: Gate) -> None:
    """Let everybody through. Each thread of the server finds out for itself that its connection is gone."""
    gate.open()
    good = 0

    def look() -> bool:
        nonlocal good
        answer = server.client.call("notes", label="none")
        # Two sets of threads: of tools, and of what is asked beside them.
        is_told = server.client.ask_for("none")["error"]["code"] == -32602
        good = good + 1 if is_told and not answer["result"].get("isError") else 0
        return good > 2 * MAX_THREADS

    until(look, "the server has its database again")


@pytest.mark.parametrize("name", ["read", "act_elsewhere"])
def test_the_outcome_of_a_task_that_ends_meanwhile_is_not_lost(server: Site, gate: Gate, label: str, name: str) -> None:
    task = server.client.make(name, label=label)
    server.began(label)

    gate.shut()
    server.go(label)
    server.saw(f"ended {label}")
    back(server, gate)

    assert server.client.result(task) == f"{name} {label}"
    assert server.journal().count(f"began {label}") == 1


def test_a_transaction_that_cannot_be_committed_ends_in_an_error_that_says_so(
    server: Site, gate: Gate, label: str
) -> None:
    task = server.client.make("write", label=label)
    server.began(label)

    gate.shut()
    server.go(label)
    server.saw(f"ended {label}")
    back(server, gate)

    assert server.client.over(task)["result"]["isError"]
    assert text(server.client.call("notes", label=label)) == "0"


def test_a_silent_task_is_kept_and_can_be_cancelled_again(server: Site, gate: Gate, label: str) -> None:
    first = server.client.make("read", label=f"{label}-first")
    until(lambda: server.client.get(first).get("statusMessage"), "what looks after tasks has a connection")
    task = server.client.make("sleep", label=label)
    server.began(label)
    server.go(f"{label}-first")
    server.client.over(first)
    before = server.log(0).count(UNSAVED)
    gate.shut()
    until(lambda: server.log(0).count(UNSAVED) > before, "the server has noticed")
    back(server, gate)

    other = server.client.at(server[1])  # it has nothing but the lease to go by
    until(lambda: "result" in other.ask_for(task), "the other process has its database again")
    end = time.monotonic() + 2.5  # longer than a lease
    while time.monotonic() < end:
        assert other.get(task)["status"] == "working"
        time.sleep(0.05)
    other.cancel(task)

    server.saw(f"CancelledError {label}")
    assert server.journal().count(f"began {label}") == 1


def test_a_task_that_goes_on_is_kept_and_says_how_far_it_is_again(server: Site, gate: Gate, label: str) -> None:
    task = server.client.make("read", label=label)
    server.began(label)
    gate.shut()
    back(server, gate)

    before = until(lambda: server.client.get(task).get("statusMessage"), "it says something")
    until(lambda: server.client.get(task)["statusMessage"] != before, "it says more")
    end = time.monotonic() + 2.5  # longer than a lease
    while time.monotonic() < end:
        assert server.client.get(task)["status"] == "working"
        time.sleep(0.05)
    server.go(label)

    assert server.client.result(task) == f"read {label}"
    assert server.journal().count(f"began {label}") == 1

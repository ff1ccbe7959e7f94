"""Tasks in the serving process, which is killed, stopped and kept busy."""

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.conformance.databases import postgresql, sqlite
from tests.faults.conftest import DATABASES
from tests.faults.wire import text
from tests.tasks.workers.processes import Site, site

THREADS = 2
MANY = 10


@pytest.fixture(scope="module", params=DATABASES)
def shared_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp(f"tasks-in-process-{request.param}")
    made = sqlite(folder) if request.param == "sqlite" else postgresql()
    with made as database, site("process", folder, database) as running:
        yield running


@pytest.fixture
def server(shared_server: Site) -> Site:
    """One process, alive, that runs two tasks at a time."""
    shared_server.replace_dead()
    return shared_server


def test_after_a_kill_what_may_be_run_again_is_and_what_waited_has_its_turn(server: Site, label: str) -> None:
    again = server.client.make("read", label=label)
    not_again = server.client.make("write_late", label=f"{label}-late")
    server.began(label)
    server.began(f"{label}-late")
    waiting = server.client.make("write_late", label=f"{label}-waits")

    server.kill(0)
    server.replace_dead()
    server.works_till(again, f"began {label}", 2)
    server.go(label)
    server.go(f"{label}-waits")

    assert server.client.result(again) == f"read {label}"
    assert server.client.result(waiting) == f"wrote {label}-waits"
    failed = server.client.over(not_again)
    assert failed["error"]["message"].startswith("The worker running this task stopped before it finished.")
    assert server.journal().count(f"began {label}-late") == 1


def test_what_a_transaction_wrote_before_the_kill_is_not_there(server: Site, label: str) -> None:
    task = server.client.make("write", label=label)
    server.began(label)

    server.kill(0)
    server.replace_dead()

    assert server.client.over(task)["status"] == "failed"
    assert text(server.client.call("notes", label=label)) == "0"


def test_a_server_that_is_told_to_stop_does_not_wait_for_its_tasks(server: Site, label: str) -> None:
    task = server.client.make("read", label=label)
    server.began(label)

    os.kill(server.pid(0), signal.SIGTERM)
    server.dead(0)
    server.replace_dead()
    server.works_till(task, f"began {label}", 2)
    server.go(label)

    assert server.client.result(task) == f"read {label}"


def test_ten_tasks_at_once_are_run_two_at_a_time_while_the_server_answers(server: Site, label: str) -> None:
    with ThreadPoolExecutor(MANY) as pool:
        tasks = list(pool.map(lambda number: server.client.make("read", label=f"{number}", gate=label), range(MANY)))
    server.began(label, THREADS)

    started = time.monotonic()
    assert text(server.client.call("plain", word="here")) == "here"
    assert text(server.client.call("notes", label=label)) == "0"
    assert time.monotonic() - started < 2
    server.go(label)

    assert sorted(map(server.client.result, tasks)) == [f"read {number}" for number in range(MANY)]
    inside = most = 0
    for line in server.journal():
        inside += {f"in {label}": 1, f"out {label}": -1}.get(line, 0)
        most = max(most, inside)
    assert most == THREADS

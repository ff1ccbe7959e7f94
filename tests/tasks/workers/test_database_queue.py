"""Workers whose queue is in the database: servers and workers come and go, and tasks go on or say that they cannot."""

import os
import signal
import time

import pytest

from tests.faults.conftest import ended, until
from tests.faults.wire import text
from tests.tasks.workers.processes import Site

DEAD = "The worker running this task stopped before it finished."
LEASE = 2.0


def test_a_task_outlives_the_server_that_took_it(queue: Site, label: str) -> None:
    task = queue.client.make("read", label=label)
    assert queue.began(label) == queue.hands[0].pid

    queue.kill(0)
    queue.replace_dead()
    assert queue.client.get(task)["status"] == "working"
    queue.go(label)

    assert queue.client.result(task) == f"read {label}"


def test_a_crash_is_printed_once_and_by_the_worker(queue: Site, label: str) -> None:
    queue.client.over(queue.client.make("crash", label=label))
    until(lambda: f"KeyError: '{label}'" in queue.hands[0].log(), "the worker has printed it")
    printed = [process.log().count(f"KeyError: '{label}'") for process in (*queue.hands, *queue.servers)]
    assert printed == [1, 0]


@pytest.mark.parametrize("name", ["read", "write_again"])
def test_what_may_be_run_again_is_run_by_another_worker(queue: Site, label: str, name: str) -> None:
    task = queue.client.make(name, label=label)
    queue.kill_runner(label)

    queue.staff(1)
    queue.works_till(task, f"began {label}", 2)
    queue.go(label)

    assert label in queue.client.result(task)
    expected = "1" if name == "write_again" else "0"
    assert text(queue.client.call("notes", label=label)) == expected, "what the killed one wrote is not there"


def test_what_may_not_be_run_again_fails_and_leaves_nothing(queue: Site, label: str) -> None:
    task = queue.client.make("write", label=label)
    queue.kill_runner(label)

    queue.staff(1)
    ended = queue.client.over(task)

    assert ended["status"] == "failed"
    assert ended["error"]["code"] == -32603
    assert ended["error"]["message"].startswith(DEAD)
    assert text(queue.client.call("notes", label=label)) == "0"
    assert queue.journal().count(f"began {label}") == 1


def test_a_worker_that_was_taken_for_dead_cannot_change_the_outcome(queue: Site, label: str) -> None:
    task = queue.client.make("write_late", label=label)
    pid = queue.began(label)
    os.kill(pid, signal.SIGSTOP)
    try:
        failed = queue.client.over(task)
        queue.go(label)
    finally:
        os.kill(pid, signal.SIGCONT)

    queue.go(f"{label}-next")
    queue.client.over(queue.client.make("read", label=f"{label}-next"))  # by then the first is done in every way
    assert f"began {label}" in queue.journal()
    assert failed["error"]["message"].startswith(DEAD)
    assert queue.client.get(task) == failed


def test_what_a_worker_wrote_that_was_taken_for_dead_is_rolled_back(postgresql_queue: Site, label: str) -> None:
    queue = postgresql_queue
    task = queue.client.make("write", label=label)
    pid = queue.began(label)
    os.kill(pid, signal.SIGSTOP)
    try:
        assert queue.client.over(task)["status"] == "failed"
        queue.go(label)
    finally:
        os.kill(pid, signal.SIGCONT)

    queue.go(f"{label}-next")
    queue.client.over(queue.client.make("read", label=f"{label}-next"))
    assert text(queue.client.call("notes", label=label)) == "0"


def test_a_task_that_waits_for_its_turn_is_run_although_the_worker_before_it_was_killed(
    queue: Site, label: str
) -> None:
    first = queue.client.make("write_late", label=label)
    waiting = queue.client.make("write_late", label=f"{label}-waits")
    queue.kill_runner(label)

    queue.staff(1)
    queue.go(f"{label}-waits")

    assert queue.client.result(waiting) == f"wrote {label}-waits"
    assert queue.client.over(first)["status"] == "failed"
    assert text(queue.client.call("notes", label=f"{label}-waits")) == "1"


@pytest.mark.parametrize("name", ["read", "sleep", "write_late"])
def test_a_cancelled_task_stops_in_its_worker(queue: Site, label: str, name: str) -> None:
    task = queue.client.make(name, label=label)
    queue.began(label)

    started = time.monotonic()
    queue.client.cancel(task)
    stopped = "CancelledError" if name == "sleep" else "Cancelled"
    queue.saw(f"{stopped} {label}")

    assert time.monotonic() - started < 5
    assert queue.client.get(task)["status"] == "cancelled"
    assert text(queue.client.call("notes", label=label)) == "0"


def test_a_cancelled_task_leaves_nothing_of_its_transaction(postgresql_queue: Site, label: str) -> None:
    task = postgresql_queue.client.make("write", label=label)
    postgresql_queue.began(label)

    postgresql_queue.client.cancel(task)
    postgresql_queue.saw(f"Cancelled {label}")

    assert postgresql_queue.client.over(task)["status"] == "cancelled"
    assert text(postgresql_queue.client.call("notes", label=label)) == "0"


def test_a_task_cancelled_before_its_turn_never_begins(queue: Site, label: str) -> None:
    queue.staff(0)
    task = queue.client.make("read", label=label)
    queue.client.cancel(task)

    queue.staff(1)
    queue.go(f"{label}-next")
    queue.client.over(queue.client.make("read", label=f"{label}-next"))

    assert f"began {label}" not in queue.journal()
    assert queue.client.get(task)["status"] == "cancelled"


def test_a_task_in_a_queue_that_nobody_reads_waits(queue: Site, label: str) -> None:
    queue.staff(0)
    task = queue.client.make("read", label=label)

    end = time.monotonic() + 1.5 * LEASE
    while time.monotonic() < end:
        assert queue.client.get(task)["status"] == "working"
        time.sleep(0.05)

    queue.staff(1)
    queue.go(label)
    assert queue.client.result(task) == f"read {label}"
    assert queue.journal().count(f"began {label}") == 1


def test_a_worker_that_is_told_to_stop_finishes_what_it_runs(queue: Site, label: str) -> None:
    task = queue.client.make("write_late", label=label)
    os.kill(queue.began(label), signal.SIGTERM)
    queue.go(label)

    assert queue.client.result(task) == f"wrote {label}"
    until(lambda: ended(queue.hands[0]), "the worker ends")

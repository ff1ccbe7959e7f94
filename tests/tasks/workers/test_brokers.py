"""Workers of RQ, which forks for each task, and of Celery, which forks before: their queues are in Redis."""

import time

import pytest

from tests.conformance.databases import sqlite
from tests.faults.conftest import service, until
from tests.faults.gate import Gate
from tests.faults.wire import text
from tests.lanes import at_night
from tests.tasks.workers.conftest import forget
from tests.tasks.workers.processes import Site, site


def test_a_task_acts_once_asks_reports_and_ends(broker: Site, label: str) -> None:
    client = broker.client
    task = client.make("ask", label=label)

    asked = client.till(task, "input_required", "failed")
    assert [each["params"]["message"] for each in asked["inputRequests"].values()] == [f"What of {label}?"]
    client.answer(task, asked)
    broker.began(label)
    said = until(lambda: client.get(task).get("statusMessage"), "it says how far it is")
    assert said.startswith(f"holding {label} (")
    broker.go(label)

    assert client.result(task) == "1 yes to reply"
    assert text(client.call("notes", label=label)) == "1"
    assert broker.journal().count(f"acted {label}") == 1


def test_a_crash_is_printed_once_and_by_the_worker(broker: Site, label: str) -> None:
    broker.client.over(broker.client.make("crash", label=label))
    until(lambda: f"KeyError: '{label}'" in broker.hands[0].log(), "the worker has printed it")
    printed = [process.log().count(f"KeyError: '{label}'") for process in (*broker.hands, *broker.servers)]
    assert printed == [1, 0]


@pytest.mark.parametrize("name", ["read", "sleep"])
def test_a_cancelled_task_stops_in_its_worker(broker: Site, label: str, name: str) -> None:
    task = broker.client.make(name, label=label)
    broker.began(label)

    broker.client.cancel(task)

    broker.saw(f"{'CancelledError' if name == 'sleep' else 'Cancelled'} {label}")
    assert broker.client.get(task)["status"] == "cancelled"


def test_a_worker_outlives_what_it_forked(broker: Site, label: str) -> None:
    again = broker.client.make("read", label=label)
    broker.kill_runner(label)
    broker.works_till(again, f"began {label}", 2)
    broker.go(label)

    assert broker.client.result(again) == f"read {label}"


def test_a_task_lives_longer_than_a_lease(broker: Site, label: str) -> None:
    task = broker.client.make("write_late", label=label)
    broker.began(label)
    end = time.monotonic() + 3
    while time.monotonic() < end:
        assert broker.client.get(task)["status"] == "working"
        time.sleep(0.05)
    broker.go(label)

    assert broker.client.result(task) == f"wrote {label}"


@pytest.mark.needs("REDIS_URL")
@pytest.mark.parametrize("engine", [at_night("rq"), "celery"])
def test_a_task_that_cannot_be_put_into_its_queue_has_failed(
    engine: str, tmp_path_factory: pytest.TempPathFactory, label: str
) -> None:
    folder = tmp_path_factory.mktemp("tasks-away")
    with Gate(*service("REDIS_URL")) as gate, sqlite(folder) as database:
        url = f"redis://127.0.0.1:{gate.port}/0"
        with site(engine, folder, {**database, "TASKS_REDIS_URL": url}) as it:
            gate.shut()
            failed = it.client.over(it.client.make("read", label=label))
            assert failed["status"] == "failed"
            assert failed["error"]["message"] == "The task could not be started. Retry later."
            gate.open()
            it.hire()
            task = it.client.make("ask", label=label)
            asked = it.client.till(task, "input_required")
            it.staff(0)  # one that loses Redis in the middle may take what is queued along
            gate.shut()
            it.client.answer(task, asked)
            assert it.client.get(task)["status"] == "working"
            gate.open()
            it.staff(1)
            it.go(label)
            assert it.client.result(task) == "1 yes to reply", "an answer is not lost"
    forget(it.environment["TASKS_QUEUE"])

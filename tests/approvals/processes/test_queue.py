"""Tasks that wait for an approval, with real workers: none runs one before, one runs it afterwards, and once."""

import os
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.approvals.asking import kind_of
from tests.approvals.processes.deciding import REASON, approved, prepare, refused
from tests.conformance.databases import postgresql, sqlite
from tests.faults.conftest import until
from tests.faults.reading import read
from tests.lanes import at_night
from tests.tasks.workers.conftest import IN_REDIS, forget
from tests.tasks.workers.processes import Site, site

IN_DATABASE = [at_night("db-sqlite"), pytest.param("db-postgresql", marks=pytest.mark.needs("DATABASE_URL"))]
EVERY = [*IN_DATABASE, *IN_REDIS]
"""Where queues are, and for queues in the database which one that is."""
LEASE = 2.0
"""Seconds after which a task of which nothing is heard is taken for one whose worker died."""


@pytest.fixture(scope="module")
def running(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A server of the site, and people in its database."""
    engine, _, database = request.param.partition("-")
    given = {"DJANGO_SETTINGS_MODULE": "tests.approvals.processes.site.settings"}
    if engine != "db":
        given["TASKS_REDIS_URL"] = os.environ["REDIS_URL"]
    folder = tmp_path_factory.mktemp(f"approvals-{request.param}")
    on_sqlite = database == "sqlite" or not os.environ.get("DATABASE_URL")
    with sqlite(folder) if on_sqlite else postgresql() as named, site(engine, folder, {**named, **given}) as it:
        prepare(it.environment)
        yield it
    if engine != "db":
        forget(it.environment["TASKS_QUEUE"])


@pytest.fixture
def queue(running: Site) -> Site:
    """The same, with a server and a worker alive."""
    running.replace_dead()
    running.staff(1)
    return running


def ticket_of(queue: Site, task: str) -> dict[str, Any]:
    """The row of the approval that a task waits for, or waited for."""
    query = (
        f"SELECT a.* FROM django_mcp_approval a JOIN django_mcp_task t ON t.id = a.task_id WHERE t.task_id = '{task}'"
    )
    (found,) = read(queue.environment, query)
    return found


def works_for_others(queue: Site, label: str, waiting: str = "") -> None:
    """Have the worker do something else, and look meanwhile, for longer than a lease, at a task that waits."""
    other = queue.client.make("read", label=f"{label}-other")
    queue.began(f"{label}-other")
    end = time.monotonic() + (1.5 * LEASE if waiting else 0)
    until(lambda: not waiting or (stays(queue, waiting) and time.monotonic() > end), "the time is up")
    queue.go(f"{label}-other")
    assert queue.client.result(other) == f"read {label}-other"


def stays(queue: Site, task: str) -> bool:
    """Whether a task still waits; it must."""
    assert queue.client.get(task)["status"] == "working"
    return True


@pytest.mark.parametrize("running", EVERY, indirect=True, scope="module")
def test_a_task_waits_and_is_run_once_by_the_worker_when_it_is_approved(queue: Site, label: str) -> None:
    task = queue.client.make("pay", label=label)
    assert queue.client.make("pay", label=label) == task, "the same call waits once"
    works_for_others(queue, label, task)
    assert queue.client.get(task)["statusMessage"].startswith("Waiting for approval")
    assert f"paid {label}" not in queue.journal()

    approved(queue.environment, label)
    assert queue.client.result(task) == f"Paid {label}."
    works_for_others(queue, label=f"{label}-after")
    assert queue.journal().count(f"paid {label}") == 1
    (pid,) = [int(line.split()[-1]) for line in queue.journal() if line.startswith(f"pid {label} ")]
    assert pid not in {server.pid for server in queue.servers}, "the worker ran it"
    assert (ticket_of(queue, task)["state"], ticket_of(queue, task)["outcome"]) == ("consumed", "ok")
    assert queue.client.make("pay", label=label) != task, "the next one has to be approved again"
    assert queue.journal().count(f"paid {label}") == 1


@pytest.mark.parametrize("running", IN_DATABASE, indirect=True, scope="module")
def test_a_task_that_is_refused_ends_with_the_reason_and_never_runs(queue: Site, label: str) -> None:
    task = queue.client.make("refund", label=label)
    refused(queue.environment, label)
    ended = queue.client.over(task)
    assert kind_of(ended["result"]) == "denied"
    assert REASON in ended["result"]["content"][0]["text"]

    works_for_others(queue, label)
    assert f"paid {label}" not in queue.journal()
    assert ticket_of(queue, task)["state"] == "denied"


@pytest.mark.parametrize("running", IN_DATABASE, indirect=True, scope="module")
def test_a_task_that_is_approved_while_nobody_works_is_run_by_who_comes(queue: Site, label: str) -> None:
    task = queue.client.make("pay", label=label)
    queue.staff(0)
    queue.kill(0)
    approved(queue.environment, label)
    assert f"paid {label}" not in queue.journal()

    queue.staff(1)
    queue.saw(f"paid {label}")
    queue.replace_dead()
    assert queue.client.result(task) == f"Paid {label}."
    assert queue.journal().count(f"paid {label}") == 1


@pytest.mark.parametrize("running", EVERY, indirect=True, scope="module")
def test_an_approval_is_used_up_although_its_worker_was_killed(queue: Site, label: str) -> None:
    """Even where the tool may be run again: it was approved once."""
    task = queue.client.make("pay_slowly", label=label)
    approved(queue.environment, label)
    queue.kill_runner(label)
    queue.staff(1)
    queue.go(label)

    ended = queue.client.over(task)
    assert ended["status"] == "failed" or ended["result"]["isError"] is True, ended
    works_for_others(queue, label)
    assert queue.journal().count(f"began {label}") == 1
    assert f"paid {label}" not in queue.journal()
    assert ticket_of(queue, task)["state"] == "consumed"

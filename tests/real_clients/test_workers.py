"""The demo's report of a year, made by workers of each kind while the server only hands it on."""

import os
import secrets
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.process import RunningServer
from django_mcp.models import Task
from tests.lanes import at_night
from tests.real_clients.sites import Project, Site, environment, manage
from tests.real_clients.test_tasks import Desk
from tests.tasks.workers.conftest import forget
from tests.tasks.workers.processes import COMMANDS

PROJECT = Project("demo_project", "DEMO_DATABASE", "tests.real_clients.settings_of_workers")
RAN = (
    "from django_mcp.models import Task\n"
    "for row in Task.objects.filter(tool='year_report').values_list('status', 'backend', 'worker'):\n"
    "    print(*row)"
)


REDIS = pytest.mark.needs("REDIS_URL")


@pytest.fixture(params=["db", at_night("rq", REDIS), at_night("celery", REDIS)])
def site(
    request: pytest.FixtureRequest, database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Site]:
    """The demo with a worker, and a database that is a copy."""
    queue = f"q{secrets.token_hex(4)}"
    if request.param != "db":
        monkeypatch.setenv("TASKS_REDIS_URL", os.environ["REDIS_URL"])
    monkeypatch.setenv("TASKS_ENGINE", request.param)
    monkeypatch.setenv("TASKS_QUEUE", queue)
    copy = tmp_path / "agency.sqlite3"
    with sqlite3.connect(database) as theirs, sqlite3.connect(copy) as ours:
        theirs.backup(ours)
        # What other tests left unfinished there would be taken up here, and may never end.
        for table in ("django_mcp_taskinput", "django_mcp_task"):
            ours.execute(f"DELETE FROM {table}")
    manage(copy, "migrate", "--verbosity", "0", project=PROJECT)
    made = Site("uvicorn", copy, tmp_path / "output.txt", PROJECT)
    made.start()
    own = {**environment(copy, PROJECT), "DATABASE_URL": ""}
    worker = RunningServer([*COMMANDS[request.param], queue], 0, None, own, tmp_path)
    yield made
    worker.end()
    made.stop()
    if request.param != "db":
        forget(queue)


def report_of(desk: Desk) -> None:
    """Have the report of a year made, however long it takes, and read the table that belongs to it."""

    async def work(client: Any) -> tuple[Any, Any]:
        report = await client.call_tool("year_report", {"year": 2026})
        while not report.structured_content:
            task_id = report.content[0].text.partition('"task_id": "')[2].partition('"')[0]
            report = await client.call_tool("get_task_result", {"task_id": task_id})
        return report, await client.read_resource(report.structured_content["table"])

    report, table = desk.use(work)
    assert not report.is_error
    assert len(table.contents[0].text.splitlines()) == report.structured_content["bookings"] + 1


def test_a_worker_makes_the_report(site: Site, annas_key: str) -> None:
    for knows_tasks in (True, False):
        report_of(Desk(site, annas_key, "auto", tasks=knows_tasks))

    ran = [line.split() for line in site.run(RAN).splitlines()]
    assert [row[:2] for row in ran] == [[Task.Status.COMPLETED, "default"]] * 2
    assert site.process is not None
    assert not [row for row in ran if f":{site.process.pid}:" in row[2]]

"""Runs of a task: one at a time, by whoever holds it, and with an outcome whatever happens."""

import datetime
import threading
from typing import Any

import pytest
from django.db import OperationalError
from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils import timezone

from django_mcp import Context, MCPServer, tool
from django_mcp.models import Task
from django_mcp.tasks import store
from django_mcp.tasks.backends import DjangoTasksBackend
from django_mcp.tasks.worker import heartbeat, run
from tests.tasks.clients import TaskClient
from tests.tasks.gates import Gate

HOUR = datetime.timedelta(hours=1)


@pytest.fixture(params=["asgi"])
def edge(request: pytest.FixtureRequest) -> str:
    """One is enough: what is looked at is the database's."""
    return request.param


def test_a_task_whose_message_comes_twice_runs_once(client: TaskClient, server: MCPServer, gate: Gate) -> None:
    begun: list[str] = []

    @tool(server=server, task="optional", read_only=True)
    def wait(ctx: Context) -> str:
        begun.append(ctx.request_id)
        gate.wait()
        return "once"

    task = client.call("wait")
    gate.reached()
    run(task)
    Task.objects.filter(task_id=task).update(lease=timezone.now() - HOUR)
    run(task)  # nor does it take what only looks abandoned
    assert heartbeat.holds(task)
    gate.open()

    assert client.text(task) == "once"
    assert len(begun) == 1


def test_who_lets_go_of_a_task_does_not_let_go_of_anothers(
    client: TaskClient, server: MCPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool(server=server, task="optional", name="work")(lambda: "done")
    monkeypatch.setattr("django_mcp.tasks.backends.InProcessBackend.start", lambda self, task: None)
    task = client.call("work")
    lease = timezone.now() + HOUR
    Task.objects.filter(task_id=task).update(worker="another", lease=lease)

    store.release({task: ""})
    store.release({task: "me"})
    store.renew({task: "me"})

    assert store.still_working({task: "me"}) == set()
    assert store.still_working({task: "another"}) == {task}
    assert Task.objects.get(task_id=task).lease == lease


def test_what_a_database_refuses_to_store_does_not_end_a_task(client: TaskClient, server: MCPServer) -> None:
    @tool(server=server, task="optional", atomic=False)
    def speak(ctx: Context) -> str:
        ctx.report_progress(1, message="a\0b")
        return "spoken"

    assert client.text(client.call("speak")) == "spoken"


def test_a_task_that_costs_three_workers_has_failed(
    client: TaskClient, server: MCPServer, monkeypatch: pytest.MonkeyPatch, gate: Gate
) -> None:
    @tool(server=server, task="optional", read_only=True)
    def deadly() -> str:
        gate.wait()
        return "alive"

    monkeypatch.setattr("django_mcp.tasks.backends.InProcessBackend.start", lambda self, task: None)
    task = client.call("deadly")
    for _ in range(3):
        assert store.claim(task, "one that dies") is not None
        Task.objects.filter(task_id=task).update(lease=timezone.now() - HOUR)
        found = client.get(task)

    assert found["status"] == "failed"
    assert found["error"]["message"].startswith("The worker running this task stopped")


def test_a_result_that_was_not_committed_is_not_the_outcome(
    client: TaskClient, server: MCPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[int] = []
    commit = BaseDatabaseWrapper._commit

    def fails_once(self: Any) -> None:
        if ended == [threading.get_ident()]:
            ended.append(0)
            raise OperationalError("the server went away")
        commit(self)

    @tool(server=server, task="optional")
    def work() -> str:
        ended.append(threading.get_ident())
        return "done"

    monkeypatch.setattr(BaseDatabaseWrapper, "_commit", fails_once)
    result = client.ended(client.call("work"))

    assert result["isError"]
    assert result["content"][0]["text"].startswith("Internal server error.")


def test_a_task_goes_on_in_a_process_that_forked(client: TaskClient, server: MCPServer, gate: Gate) -> None:
    @tool(server=server, task="optional", read_only=True)
    def wait() -> str:
        gate.wait()
        return "here"

    task = client.call("wait")
    gate.reached()
    child = type(heartbeat)()
    child.__dict__.update(heartbeat.__dict__)
    child.after_fork()  # what the system calls in a child

    assert not child.holds(task)
    assert child._held() == {}
    assert heartbeat.holds(task)
    gate.open()
    assert client.text(task) == "here"


def test_a_task_for_workers_whose_backend_could_not_be_used_at_start_fails(
    client: TaskClient, server: MCPServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tool(server=server, task="optional", name="work")(lambda: "done")
    monkeypatch.setattr("django_mcp.tasks.backends.DjangoTasksBackend.task", None)
    monkeypatch.setattr("django_mcp.tasks.api.task_backend", lambda: DjangoTasksBackend("queue"))
    monkeypatch.setattr("django_mcp.tasks.backends.task_backend", lambda: DjangoTasksBackend("queue"))
    task = client.become(client.call("work"), "failed")
    assert task["error"]["message"] == "The task could not be started. Retry later."
    assert "TASKS['queue'] could not be loaded when the process started" in caplog.text

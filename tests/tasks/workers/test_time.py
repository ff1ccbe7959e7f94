"""Time goes by: answers come late, tasks expire, and are deleted."""

import datetime

import pytest
from django.core.management import call_command
from django.db.models import F
from pydantic import BaseModel

from django_mcp import Context, MCPServer, tool
from django_mcp.conf import settings
from django_mcp.models import Event, Step, Task, TaskInput
from django_mcp.tasks.worker import heartbeat
from tests.exchange import eventually
from tests.person import accept
from tests.tasks.clients import TaskClient
from tests.tasks.gates import Gate

HOUR = datetime.timedelta(hours=1)


@pytest.fixture(params=["asgi"])
def edge(request: pytest.FixtureRequest) -> str:
    """One is enough: what is looked at is the database's."""
    return request.param


class Reply(BaseModel):
    value: str


def goes_by(time: datetime.timedelta) -> None:
    """Move everything into the past by as much."""
    Task.objects.update(created=F("created") - time, updated=F("updated") - time, expires=F("expires") - time)
    TaskInput.objects.update(created=F("created") - time)
    for model in (Step, Event):
        model.objects.update(created=F("created") - time, expires=F("expires") - time)


@pytest.fixture
def asking(server: MCPServer) -> list[str]:
    """A tool that acts once, and asks; what it did."""
    acts: list[str] = []

    @tool(server=server, task="optional", atomic=False)
    def ask(ctx: Context) -> str:
        ctx.once("act", lambda: acts.append("acted"))
        return f"said {ctx.elicit('What?', Reply, key='what').data.value}"

    return acts


def test_an_answer_that_comes_after_an_hour_is_taken(client: TaskClient, asking: list[str]) -> None:
    task = client.call("ask")
    (key,) = client.asked(task)

    goes_by(HOUR + HOUR / 2)
    call_command("mcp_clear", verbosity=0)
    client.update(task, {key: accept(value="late")})

    assert client.text(task) == "said late"
    assert asking == ["acted"], "it is not done again"


def test_an_expired_task_is_unknown_and_deleted_with_its_questions(
    client: TaskClient, asking: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    task = client.call("ask")
    (key,) = client.asked(task)

    goes_by(datetime.timedelta(seconds=settings.TASK_TTL))

    for method, more in (("get", {}), ("cancel", {}), ("update", {"inputResponses": {key: accept(value="late")}})):
        error = client.request(f"tasks/{method}", {"taskId": task, **more}).error
        assert (error["code"], task in error["message"]) == (-32602, True)
    assert TaskInput.objects.filter(task__task_id=task, answer__isnull=True).exists()
    call_command("mcp_clear")
    assert "1 task, " in capsys.readouterr().out
    assert not Task.objects.filter(task_id=task).exists()
    assert not TaskInput.objects.filter(task__task_id=task).exists()


@pytest.mark.parametrize("is_deleted", [False, True])
def test_a_task_that_expires_while_it_runs_is_stopped(
    client: TaskClient, server: MCPServer, gate: Gate, is_deleted: bool
) -> None:
    seen: list[bool] = []

    @tool(server=server, task="optional", atomic=False)
    async def wait(ctx: Context) -> str:
        try:
            await gate.await_()
        finally:
            seen.append(ctx.cancelled)
        return "nobody stopped it"

    task = client.call("wait")
    gate.reached()
    goes_by(datetime.timedelta(seconds=settings.TASK_TTL))
    if is_deleted:
        call_command("mcp_clear", verbosity=0)

    eventually(lambda: seen, "it is not stopped")
    assert seen == [True]
    eventually(lambda: not heartbeat.holds(task), "it is still kept")
    assert client.request("tasks/get", {"taskId": task}).error["code"] == -32602

"""What a caller may try who wants a call run that nobody approved, and what may go wrong by itself."""

import datetime
from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings
from django.db import transaction
from django.test import override_settings
from django.utils import timezone

from django_mcp import AllowAny, MCPServer, ToolError, tool
from django_mcp.approvals import approval_requests
from django_mcp.approvals.decisions import approve, deny
from django_mcp.approvals.tool_policies import set_policy
from django_mcp.core import failures
from django_mcp.models import Approval, AutoApprovalRule, Task
from django_mcp.tasks import store
from django_mcp.tasks.backends import recover
from django_mcp.tasks.worker import run
from tests.approvals.asking import META, PAID, Calls, People, WantsTask, finished, kind_of, serve, texts, the_ticket
from tests.clients import Client

pytestmark = pytest.mark.postgresql

HOUR = datetime.timedelta(hours=1)
FIVE = {"amount": 5}


@pytest.fixture
def edge() -> str:
    """None is needed."""
    return "view"


def few(**more: Any) -> Any:
    return override_settings(DJANGO_MCP={**settings.DJANGO_MCP, **more})


# Who waits with too many


def test_a_caller_cannot_have_more_calls_waiting_than_allowed(server: MCPServer, people: People, pay: Calls) -> None:
    looked: list[int] = []

    def look(number: int) -> None:
        looked.append(number)

    @tool(server=server, policy="ask", preview=look)
    def act(number: int) -> str:
        return "done"

    with few(MAX_APPROVALS_PER_CALLER=2):
        for client in ("phone", "laptop", "desk"):  # another client is no other caller
            serve(server, people["ann"], "act", {"number": len(looked)}, client_id=client)
        result = serve(server, people["ann"], "pay", FIVE)
        assert "2 of your calls are already waiting for approval" in texts([result])[0]
        assert Approval.objects.count() == 2
        assert looked == [0, 1], "nothing is worked out for a call that cannot wait"
        assert kind_of(serve(server, people["ben"], "pay", FIVE)) == "approval_required"
        deny(Approval.objects.order_by("pk")[0], people["cleo"])
        assert kind_of(serve(server, people["ann"], "pay", FIVE)) == "approval_required"


def test_a_standing_approval_is_no_way_to_more_tasks_than_allowed(
    server: MCPServer, people: People, pay: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("django_mcp.tasks.backends.InProcessBackend.start", lambda *_: None)
    serve(server, people["ann"], "pay", FIVE)
    approve(the_ticket(), people["cleo"], calls=None, seconds=60)
    serve(server, people["ann"], "pay", FIVE)
    with few(MAX_TASKS_PER_CALLER=2):
        results = [as_task(server, people["ann"], amount=number) for number in range(3)]
    assert [each.get("resultType") for each in results] == ["task", "task", None]
    assert "2 unfinished tasks" in texts(results[2:])[0]


def as_task(server: MCPServer, user: Any, **arguments: Any) -> dict[str, Any]:
    """A call with the parameter ``task``."""
    return serve(server, user, "pay", arguments, channel=WantsTask(), task={})


# Callers without an account


def test_a_call_of_somebody_who_did_not_sign_in_cannot_be_approved_for_it_would_be_anybodys(
    make_server: Callable[..., MCPServer], people: People, version: str
) -> None:
    server, ran = make_server("everybody", authentication=[AllowAny()]), []
    tool(server=server, policy="ask", name="act")(lambda: ran.append(1) or "done")
    for client in (Client(server, version, "view"), Client(server, version, "view")):
        answer = client.call("act")
        assert answer.result["isError"]
        assert "Sign in" in answer.text
        assert not Approval.objects.exists(), "nobody is asked about it"
    assert ran == []


def test_an_auto_approval_from_before_is_nobodys(make_server: Callable[..., MCPServer], people: People) -> None:
    server, ran = make_server("everybody", authentication=[AllowAny()]), []
    tool(server=server, policy="ask", name="act")(lambda: ran.append(1) or "done")
    serve(server, None, "act", {})
    assert approve(the_ticket(), people["cleo"], names=[], calls=None, seconds=3600)
    AutoApprovalRule.objects.update(principal_kind="public", principal_id="public")
    assert serve(server, None, "act", {}, kind="public", id="public")["isError"]
    assert ran == []


# What others read


def test_nobody_reads_of_anothers_ticket(server: MCPServer, people: People, pay: Calls) -> None:
    serve(server, people["ann"], "pay", FIVE)
    first = the_ticket()
    deny(first, people["cleo"], reason="Ann may not.")
    result = serve(server, people["ben"], "pay", FIVE)
    assert kind_of(result) == "approval_required"
    assert first.public_id not in str(result)
    assert "Ann" not in str(result)


def test_a_task_of_another_is_not_found(server: MCPServer, people: People, parked: Callable[[], Task]) -> None:
    task = parked()
    ben = type("Caller", (), {"kind": "test", "id": people["ben"].username})()
    assert store.find(task.task_id, ben, server) is None


# Tasks that wait


@pytest.mark.parametrize("decision", ["allow", "block", "ask", None])
def test_a_task_that_waits_does_not_run_under_another_policy(
    server: MCPServer, people: People, pay: Calls, parked: Callable[[], Task], decision: str | None
) -> None:
    task = parked()
    set_policy(server, server.tools["pay"], decision or "ask")
    if decision is None:
        set_policy(server, server.tools["pay"], "allow")
    assert not approve(the_ticket(), people["cleo"])
    task.refresh_from_db()
    recover(task)
    assert finished(task).status == "failed" if decision == "block" else kind_of(finished(task).result) == "expired"
    assert pay == []


def test_a_task_ends_with_its_ticket(server: MCPServer, people: People, pay: Calls, parked: Callable[[], Task]) -> None:
    task = parked()
    assert task.lease == the_ticket().expires
    Approval.objects.update(expires=timezone.now() - HOUR)
    Task.objects.update(lease=timezone.now() - HOUR)
    task.refresh_from_db()
    recover(task)
    assert finished(task).result["_meta"][META]["kind"] == "expired"
    assert pay == []


def test_a_task_whose_ticket_expires_early_is_not_left_waiting(
    server: MCPServer, people: People, pay: Calls, parked: Callable[[], Task]
) -> None:
    task = parked()
    set_policy(server, server.tools["pay"], "ask")
    serve(server, people["ann"], "pay", FIVE)
    task.refresh_from_db()
    assert task.lease is not None
    assert task.lease <= timezone.now()
    recover(task)
    assert finished(task).result["_meta"][META]["kind"] == "expired"
    assert pay == []


class Killed(BaseException):
    """The end of a process, which nothing in it notices."""


def dies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failures, "must_propagate", lambda error: isinstance(error, Killed))


@pytest.mark.parametrize("form", ["sync", "async"])
def test_a_worker_that_dies_after_the_approval_was_used_runs_nothing_twice(
    server: MCPServer, people: People, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    """The tool says that it may be repeated, so its task is given to another worker."""
    ran: list[int] = []

    dies(monkeypatch)

    def act() -> str:
        ran.append(1)
        raise Killed

    async def act_later() -> str:
        return act()

    function = act if form == "sync" else act_later
    tool(server=server, policy="ask", idempotent=True, name="act")(function)
    monkeypatch.setattr("django_mcp.tasks.backends.InProcessBackend.start", lambda *_: None)
    serve(server, people["ann"], "act", {}, channel=WantsTask())
    task = Task.objects.get()
    assert approve(the_ticket(), people["cleo"])
    with pytest.raises(Killed):
        run(task.task_id)
    Task.objects.update(lease=timezone.now() - HOUR, worker="dead")
    task.refresh_from_db()
    recover(task)
    run(task.task_id)
    assert ran == [1]
    assert finished(task).result["_meta"][META]["kind"] == "expired"
    assert the_ticket().state == "consumed"


def test_a_worker_that_dies_between_the_approval_and_the_tool_needs_another_one(
    server: MCPServer, people: People, pay: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    dies(monkeypatch)
    serve(server, people["ann"], "pay", FIVE)
    assert approve(the_ticket(), people["cleo"])

    def die(*_: Any) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr("django_mcp.core.dispatch.in_transaction", die)
        with pytest.raises(Killed):
            serve(server, people["ann"], "pay", FIVE)
    assert kind_of(serve(server, people["ann"], "pay", FIVE)) == "approval_required"
    assert pay == []
    assert Approval.objects.order_by("pk")[0].state == "consumed"


def test_what_was_approved_while_its_server_was_away_is_there_when_it_comes_back(
    server: MCPServer, people: People, pay: Calls, parked: Callable[[], Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    task = parked()
    with monkeypatch.context() as away:
        away.setattr("django_mcp.tasks.backends.InProcessBackend.start", lambda *_: None)
        assert approve(the_ticket(), people["cleo"])
    assert pay == []
    Task.objects.update(lease=timezone.now() - HOUR)
    task.refresh_from_db()
    recover(task)
    assert texts([finished(task).result]) == [PAID]
    assert len(pay) == 1


# Transactions of others


def test_an_approval_is_not_used_inside_of_somebodys_transaction(server: MCPServer, people: People, pay: Calls) -> None:
    """Rolled back, it would be good again, and what the tool did elsewhere would be done twice."""
    serve(server, people["ann"], "pay", FIVE)
    assert approve(the_ticket(), people["cleo"])
    with transaction.atomic():
        assert serve(server, people["ann"], "pay", FIVE)["isError"]
    assert pay == []
    assert texts([serve(server, people["ann"], "pay", FIVE)]) == [PAID]


# What is worked out for people


def test_a_preview_neither_decides_nor_runs_anything(server: MCPServer, people: People) -> None:
    ran: list[int] = []

    def look() -> str:
        for each in Approval.objects.all():
            each.state = "approved"
            each.save()
        return "<b>nothing</b>\u202e"

    tool(server=server, policy="ask", preview=look, name="act")(lambda: ran.append(1) or "done")
    for _ in range(2):
        serve(server, people["ann"], "act", {})
    ticket = the_ticket()
    assert (ticket.state, ran) == ("pending", [])
    assert ticket.preview_digest


def test_a_preview_that_finds_the_call_wrong_makes_no_ticket(server: MCPServer, people: People) -> None:
    def look() -> str:
        raise ToolError("There is no such room.")

    tool(server=server, policy="ask", preview=look, name="act")(lambda: "done")
    assert texts([serve(server, people["ann"], "act", {})]) == ["There is no such room."]
    assert not Approval.objects.exists()


def test_a_ticket_that_is_deleted_while_it_is_used_runs_nothing(
    server: MCPServer, people: People, pay: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve(server, people["ann"], "pay", FIVE)
    assert approve(the_ticket(), people["cleo"])
    use = approval_requests.use

    def too_late(*given: Any) -> bool:
        Approval.objects.all().delete()
        return use(*given)

    monkeypatch.setattr(approval_requests, "use", too_late)
    assert kind_of(serve(server, people["ann"], "pay", FIVE)) == "expired"
    assert pay == []

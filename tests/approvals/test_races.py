"""Several who want something of one ticket at the same time. Each many times, for a race is won by chance."""

from collections.abc import Callable
from functools import partial

import pytest
from django.conf import settings
from django.db import connection
from django.test import override_settings
from django.utils import timezone

from django_mcp import MCPServer, tool
from django_mcp.approvals import approval_requests, decisions
from django_mcp.approvals.decisions import approve, deny
from django_mcp.models import Approval, AutoApprovalRule, Task
from django_mcp.tasks import store
from tests.approvals.asking import PAID, Calls, People, WantsTask, at_once, events, finished, newest, serve, texts

pytestmark = [pytest.mark.postgresql, pytest.mark.mariadb]

TIMES = 12 if connection.vendor == "postgresql" else 2


@pytest.fixture
def propose(server: MCPServer, people: People, pay: Calls) -> Callable[[], Approval]:
    """Make the call that is waited for."""

    def make() -> Approval:
        serve(server, people["ann"], "pay", {"amount": 5})
        return newest()

    return make


def test_of_two_approvers_one_decides(people: People, propose: Callable[[], Approval]) -> None:
    for _ in range(TIMES):
        ticket = propose()
        jobs = [partial(approve, Approval.objects.get(pk=ticket.pk), people[name]) for name in ("cleo", "dora")]
        assert sorted(at_once(*jobs), key=str) == [False, True]
        assert events(ticket).count("approved") == 1
        Approval.objects.all().delete()


def test_of_one_who_approves_and_one_who_refuses_one_decides(people: People, propose: Callable[[], Approval]) -> None:
    for _ in range(TIMES):
        ticket = propose()
        yes = partial(approve, Approval.objects.get(pk=ticket.pk), people["cleo"])
        no = partial(deny, Approval.objects.get(pk=ticket.pk), people["dora"])
        done = at_once(yes, no)
        assert sorted(done, key=str) == [False, True]
        ticket.refresh_from_db()
        assert ticket.state == ("approved" if done[0] else "denied")
        assert events(ticket) == ["proposed", ticket.state]
        Approval.objects.all().delete()


def test_of_three_who_make_an_approved_call_at_once_one_runs_it(
    server: MCPServer, people: People, pay: Calls, propose: Callable[[], Approval]
) -> None:
    for number in range(TIMES):
        ticket = propose()
        approve(ticket, people["cleo"])
        again = partial(serve, server, people["ann"], "pay", {"amount": 5})
        done = at_once(again, again, again)
        assert not [each for each in done if isinstance(each, Exception)], done
        assert texts(done).count(PAID) == 1  # type: ignore[arg-type]
        assert len(pay) == number + 1
        assert events(ticket).count("executed") == 1
        Approval.objects.all().delete()


def test_three_who_make_a_new_call_at_once_get_one_ticket(server: MCPServer, people: People, pay: Calls) -> None:
    for _ in range(TIMES):
        first = partial(serve, server, people["ann"], "pay", {"amount": 5})
        done = at_once(first, first, first)
        assert not [each for each in done if isinstance(each, Exception)], done
        assert Approval.objects.count() == 1
        Approval.objects.all().delete()


def test_an_approval_that_expires_while_it_is_used_is_one_or_the_other(
    server: MCPServer, people: People, pay: Calls, propose: Callable[[], Approval]
) -> None:
    for _ in range(TIMES):
        ticket, before = propose(), len(pay)
        approve(ticket, people["cleo"])
        ticket.refresh_from_db()
        at_once(partial(serve, server, people["ann"], "pay", {"amount": 5}), partial(approval_requests.expire, ticket))
        ticket.refresh_from_db()
        assert (ticket.state, len(pay) - before) in {("consumed", 1), ("expired", 0)}
        Approval.objects.all().delete()


def test_the_last_call_of_a_standing_approval_is_one_call(
    server: MCPServer, people: People, pay: Calls, propose: Callable[[], Approval]
) -> None:
    for number in range(TIMES):
        ticket = propose()
        approve(ticket, people["cleo"], calls=2, seconds=60)
        serve(server, people["ann"], "pay", {"amount": 5})
        others = [partial(serve, server, people["ann"], "pay", {"amount": each}) for each in (6, 7, 8)]
        done = at_once(*others)
        assert not [each for each in done if isinstance(each, Exception)], done
        assert len(pay) == 2 * (number + 1)
        assert AutoApprovalRule.objects.get().remaining == 0
        Approval.objects.all().delete()
        AutoApprovalRule.objects.all().delete()


def test_a_standing_approval_that_is_revoked_while_it_is_used_is_one_or_the_other(
    server: MCPServer, people: People, pay: Calls, propose: Callable[[], Approval]
) -> None:
    for _ in range(TIMES):
        approve(propose(), people["cleo"], calls=None, seconds=60)
        serve(server, people["ann"], "pay", {"amount": 5})
        before = len(pay)
        revoke = partial(AutoApprovalRule.objects.filter(revoked=None).update, revoked=timezone.now())
        at_once(partial(serve, server, people["ann"], "pay", {"amount": 6}), revoke)
        used = Approval.objects.filter(rule__isnull=False).count()
        assert len(pay) - before == used
        serve(server, people["ann"], "pay", {"amount": 6})
        assert len(pay) - before == used
        Approval.objects.all().delete()
        AutoApprovalRule.objects.all().delete()


def test_a_task_that_is_let_go_twice_runs_once(
    server: MCPServer, people: People, pay: Calls, parked: Callable[[], Task]
) -> None:
    for number in range(min(TIMES, 5)):
        task = parked()
        approve(newest(), people["cleo"])
        at_once(*[partial(decisions.resume_task, task)] * 3)
        finished(task)
        assert len(pay) == number + 1
        Approval.objects.all().delete()


def test_a_task_and_the_call_made_again_share_one_approval(
    server: MCPServer, people: People, pay: Calls, parked: Callable[[], Task]
) -> None:
    for number in range(min(TIMES, 5)):
        task = parked()
        yes = partial(approve, newest(), people["cleo"])
        at_once(yes, *[partial(serve, server, people["ann"], "pay", {"amount": 5})] * 2)
        finished(task)
        assert len(pay) == number + 1
        Approval.objects.all().delete()


def test_a_task_that_is_cancelled_while_it_is_approved_runs_at_most_once(
    people: People, pay: Calls, parked: Callable[[], Task]
) -> None:
    for _ in range(min(TIMES, 5)):
        task, before = parked(), len(pay)
        ticket = newest()
        at_once(partial(approve, ticket, people["cleo"]), partial(store.cancel, task))
        finished(task)
        assert len(pay) - before <= events(ticket).count("approved")
        assert len(pay) - before == events(ticket).count("executed")
        Approval.objects.all().delete()


def test_of_many_calls_at_once_no_more_wait_than_allowed(server: MCPServer, people: People, pay: Calls) -> None:
    with override_settings(DJANGO_MCP={**settings.DJANGO_MCP, "MAX_APPROVALS_PER_CALLER": 3}):
        at_once(*(partial(serve, server, people["ann"], "pay", {"amount": number}) for number in range(8)))
    assert Approval.objects.filter(state="pending").count() == 3


def _done(number: int) -> str:
    return "done"


def test_of_many_calls_at_once_no_more_become_tasks_than_allowed(
    server: MCPServer, people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("django_mcp.tasks.backends.InProcessBackend.start", lambda *_: None)
    tool(server=server, name="slow", task="optional")(_done)

    def call() -> object:
        return serve(server, people["ann"], "slow", {"number": 1}, channel=WantsTask(), task={})

    with override_settings(DJANGO_MCP={**settings.DJANGO_MCP, "MAX_TASKS_PER_CALLER": 3}):
        at_once(*[call] * 8)
    assert Task.objects.count() == 3

"""Transactions of the package that the database ends in favour of others begin again: nothing of a call is lost."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.db.backends.utils import CursorWrapper

from django_mcp import MCPServer, tool
from django_mcp.approvals.decisions import approve, deny
from django_mcp.models import Approval, Task
from django_mcp.tasks import store
from tests.approvals.asking import PAID, WantsTask, events, kind_of, newest, serve, texts
from tests.approvals.conftest import _quickly, pay, people, server  # noqa: F401 - fixtures

WRITES = ("INSERT INTO", "UPDATE", "DELETE FROM")
MOST = 40


class Deadlock(Exception):
    sqlstate = "40P01"


class Writes:
    """Counts the writes to the package's tables in transactions, of which the *fatal* one fails, once."""

    def __init__(self, fatal: int) -> None:
        self.number, self.fatal = 0, fatal

    def look(self, sql: str) -> None:
        verb, _, rest = sql.partition('"')
        if verb.strip() not in WRITES or not rest.startswith("django_mcp_") or not connection.in_atomic_block:
            return
        self.number += 1
        if self.number == self.fatal:
            raise OperationalError("deadlock detected") from Deadlock()


@contextmanager
def deadlock_at(number: int) -> Iterator[Writes]:
    writes, execute = Writes(number), CursorWrapper.execute

    def look_first(self: CursorWrapper, sql: str, params: Any = None) -> Any:
        writes.look(sql)
        return execute(self, sql, params)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CursorWrapper, "execute", look_first)
        yield writes


@pytest.fixture
def every_write(open_database: None) -> Callable[[Callable[[], None]], int]:
    """Runs what it is given once for each of its writes, and returns how many there are."""

    def run(act: Callable[[], None]) -> int:
        for number in range(1, MOST):
            with deadlock_at(number) as writes:
                act()
            Approval.objects.all().delete()
            Task.objects.all().delete()
            if writes.number < number:
                return writes.number
        raise AssertionError("it never ends")

    return run


def test_a_call_is_proposed_approved_and_made(
    server: MCPServer,  # noqa: F811 - the fixture
    people: dict[str, Any],  # noqa: F811 - the fixture
    pay: list[dict[str, Any]],  # noqa: F811 - the fixture
    every_write: Callable[[Callable[[], None]], int],
) -> None:
    def act() -> None:
        pay.clear()
        assert kind_of(serve(server, people["ann"], "pay", {"amount": 5})) == "approval_required"
        assert approve(newest(), people["cleo"])
        assert texts([serve(server, people["ann"], "pay", {"amount": 5})]) == [PAID]
        assert len(pay) == 1
        assert events(newest()) == ["proposed", "approved", "executed", "returned"]

    assert every_write(act) > 5


def test_a_call_is_denied(
    server: MCPServer,  # noqa: F811 - the fixture
    people: dict[str, Any],  # noqa: F811 - the fixture
    pay: list[dict[str, Any]],  # noqa: F811 - the fixture
    every_write: Callable[[Callable[[], None]], int],
) -> None:
    def act() -> None:
        serve(server, people["ann"], "pay", {"amount": 5})
        assert deny(newest(), people["cleo"])
        assert kind_of(serve(server, people["ann"], "pay", {"amount": 5})) == "denied"
        assert events(newest()) == ["proposed", "denied", "rejected"]

    assert every_write(act) > 3
    assert pay == []


@pytest.fixture
def no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks that are made do not run: a tool's own transaction is the tool's to repeat."""
    monkeypatch.setattr("django_mcp.tasks.backends.InProcessBackend.start", lambda *_: None)


@pytest.mark.usefixtures("no_worker", "pay")
def test_a_task_that_waits_for_its_approval_is_made_and_told_of_it(
    server: MCPServer,  # noqa: F811 - the fixture
    people: dict[str, Any],  # noqa: F811 - the fixture
    every_write: Callable[[Callable[[], None]], int],
) -> None:
    def act() -> None:
        serve(server, people["ann"], "pay", {"amount": 5}, channel=WantsTask())
        task = Task.objects.get()
        assert newest().task == task
        assert approve(newest(), people["cleo"])
        task.refresh_from_db()
        assert task.message == "", "it has been started"

    assert every_write(act) > 5


@pytest.mark.usefixtures("no_worker")
def test_a_task_is_made_and_cancelled(
    server: MCPServer,  # noqa: F811 - the fixture
    people: dict[str, Any],  # noqa: F811 - the fixture
    every_write: Callable[[Callable[[], None]], int],
) -> None:
    @tool(server=server, task="required")
    def work() -> str:
        """Work."""
        return "worked"

    def act() -> None:
        serve(server, people["ann"], "work", {}, channel=WantsTask())
        task = Task.objects.get()
        assert store.cancel(task)
        task.refresh_from_db()
        assert task.status == "cancelled"

    assert every_write(act) > 3

"""On a full disk nothing has an effect without a record but the call that met it; with room again all goes on, once."""

# ruff: noqa: F811 - fixtures are imported

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.db.backends.signals import connection_created
from django.utils import timezone

from django_mcp import MCPServer, tool
from django_mcp.approvals.decisions import approve
from django_mcp.audit import writer
from django_mcp.models import Approval, RequestLog, Step, Task
from django_mcp.protocol.errors import InternalError
from django_mcp.tasks import worker
from tests.approvals.asking import WantsTask, serve, the_ticket
from tests.approvals.conftest import _quickly, pay, people, server  # noqa: F401 - fixtures
from tests.audit.test_writer import refused_at_commit

Log = Callable[[], list[RequestLog]]
pytestmark = [
    pytest.mark.skipif(connection.vendor != "sqlite", reason="the limit of pages is SQLite's"),
    pytest.mark.usefixtures("call_log"),
]

LONG = "x" * 900  # of which a row has eight, and no page of the database has room for them


FILLERS = ("filler", "filler_of_the_rest")
"""The first may need two pages at once for a row, when there is one left: the other one takes that."""

ROW = "x" * 3000  # one page each, once a table has more than one: the second row of an empty one needs two


@contextmanager
def full_disk() -> Iterator[None]:
    """The database has no page left, whichever connection asks for one."""
    for table in FILLERS:
        _execute(f"CREATE TABLE {table} (data text)")
        for _ in range(2):
            _execute(f"INSERT INTO {table} VALUES (%s)", ROW)
    (pages,) = _execute("PRAGMA page_count")

    def limit(connection: Any, **_: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute(f"PRAGMA max_page_count = {pages}")

    connection_created.connect(limit)
    connection.close()
    try:
        for table in FILLERS:
            until_full(partial(_execute, f"INSERT INTO {table} VALUES (%s)", ROW))
        yield
    finally:
        connection_created.disconnect(limit)
        connection.close()
        for table in FILLERS:
            _execute(f"DROP TABLE {table}")


def _execute(statement: str, *values: str) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(statement, values or None)
        return cursor.fetchone()


def until_full(write: Callable[[], object]) -> None:
    with pytest.raises(OperationalError, match="disk is full"):  # noqa: PT012 - one of many writes
        while True:
            write()


@pytest.fixture
def effects(server: MCPServer) -> list[str]:
    """What a tool does elsewhere, under a key."""
    effects: list[str] = []

    def mail(a: str, b: str, c: str, d: str, e: str, f: str, g: str, h: str, key: str | None = None) -> str:
        effects.append(key or "")
        return "sent"

    tool(server=server, idempotency_key="key")(mail)
    tool(server=server, idempotency_key="key", name="mail_later", task="optional")(mail)
    return effects


@pytest.mark.parametrize("pages", range(1, 8))
def test_the_disk_is_full_however_many_pages_were_free(pages: int) -> None:
    for table in ("taken", "freed"):
        _execute(f"CREATE TABLE {table} (data text)")
    while _execute("PRAGMA freelist_count") != (0,):
        _execute("INSERT INTO taken VALUES (%s)", ROW)
    for _ in range(pages):
        _execute("INSERT INTO freed VALUES (%s)", ROW)
    _execute("DROP TABLE freed")
    with full_disk(), pytest.raises(OperationalError, match="disk is full"):
        _execute("CREATE TABLE another (data text)")
    _execute("DROP TABLE taken")


PARTS = dict.fromkeys("abcdefgh", LONG)


def send(server: MCPServer, people: Any, **options: Any) -> str:
    """Call the tool: the text that its caller reads, or the error."""
    key, name = options.pop("key", None), options.pop("name", "mail")
    try:
        result = serve(server, people["ann"], name, {**PARTS, **({} if key is None else {"key": key})}, **options)
    except InternalError as error:
        return error.message
    return str(result["content"][0]["text"])


def test_no_call_has_an_effect_until_rows_can_be_committed(
    server: MCPServer, people: Any, effects: list[str], call_log: Log
) -> None:
    with full_disk():
        answers = [send(server, people) for _ in range(5)]
    assert "could not be recorded" in answers[0]
    assert all("was not run" in answer for answer in answers[1:])
    assert len(effects) == 1
    assert [send(server, people) for _ in range(2)] == ["sent", "sent"]
    assert [(row.outcome, row.error) for row in call_log()] == [("ok", "")] * 2


def test_a_call_with_a_key_has_its_effect_once(server: MCPServer, people: Any, effects: list[str]) -> None:
    with full_disk():
        for key in ("met it", "came later"):
            for _ in range(3):
                assert "sent" not in send(server, people, key=key)
    for key in ("met it", "came later"):
        assert send(server, people, key=key) == "sent"
    assert effects == ["met it", "came later"]


def test_what_is_approved_stays_approved_until_it_can_be_recorded(
    server: MCPServer, people: Any, pay: list[dict[str, Any]]
) -> None:
    arguments = {"amount": 5, "note": LONG}
    serve(server, people["ann"], "pay", arguments)
    assert approve(the_ticket(), people["cleo"])
    writer.writer.note_failure(OperationalError("of another call"))
    with full_disk():
        fill_log_page()
        for _ in range(3):
            with pytest.raises(InternalError, match="was not run"):
                serve(server, people["ann"], "pay", arguments)
    assert pay == []
    assert the_ticket().state == Approval.State.APPROVED
    serve(server, people["ann"], "pay", arguments)
    assert len(pay) == 1
    assert the_ticket().state == Approval.State.CONSUMED


def test_what_cannot_be_requested_is_not_run(server: MCPServer, people: Any, pay: list[dict[str, Any]]) -> None:
    with full_disk():
        assert serve(server, people["ann"], "pay", {"amount": 5, "note": LONG * 5})["isError"]
    assert pay == []
    assert not Approval.objects.exists()


def test_a_task_is_made_with_its_row_or_not_at_all(server: MCPServer, people: Any, effects: list[str]) -> None:
    with full_disk(), pytest.raises(InternalError, match="could not be recorded"):
        serve(server, people["ann"], "mail_later", {**PARTS, "key": "key"}, channel=WantsTask())
    assert not Task.objects.exists()
    assert not Step.objects.exists()
    assert effects == []


def test_a_task_does_not_run_while_its_row_cannot_be_written(
    server: MCPServer, people: Any, effects: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("django_mcp.tasks.api.start", lambda task: None)  # for a worker
    serve(server, people["ann"], "mail_later", PARTS, channel=WantsTask())
    task = Task.objects.get()
    writer.writer.note_failure(OperationalError("of another call"))
    with refused_at_commit():
        worker.run(task.task_id)
    task.refresh_from_db()
    assert effects == []
    assert task.status == Task.Status.FAILED
    assert "was not run" in task.message


def fill_log_page() -> None:
    """Leave no room in the last page of the log."""
    fields = {"method": "m", "server": "s", "outcome": "ok", "duration": 0, "started_at": timezone.now()}
    until_full(lambda: RequestLog.objects.create(**fields))

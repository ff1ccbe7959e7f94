"""Whoever has an answer has a row; and many rows need few transactions."""

import asyncio
import gc
import json
import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db import DataError, OperationalError, connection
from django.db.backends.base.base import BaseDatabaseWrapper

from django_mcp import MCPServer, ToolError, tool
from django_mcp.audit import writer
from django_mcp.models import RequestLog
from django_mcp.protocol.errors import InvalidParams
from django_mcp.transports.asgi import MCPApplication
from tests.clients import MODERN, Client, exchange, no_django

Log = Callable[[], list[RequestLog]]
CALLS = 30

pytestmark = [pytest.mark.postgresql, pytest.mark.mariadb]


@pytest.fixture
def away(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The database is away for so many attempts to write a row."""
    times, save = [0], writer.save

    def failing(calls: Any) -> None:
        if times[0]:
            times[0] -= 1
            raise OperationalError("the database is away")
        save(calls)

    monkeypatch.setattr(writer, "save", failing)
    return times


@pytest.fixture
def little_to_collect() -> Iterator[None]:
    """The garbage collector goes through what the test makes, and not through all there is."""
    gc.freeze()
    yield
    gc.unfreeze()


def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("django_mcp.core.concurrency.RETRY_TIMEOUT", 0.0)


def test_the_row_is_there_when_the_answer_goes_out(call_log: Log, site: MCPServer) -> None:
    """Seen from another connection at the moment of the first byte."""
    seen: list[int] = []

    async def call() -> None:
        client = Client(site, MODERN, "asgi")
        application = MCPApplication(no_django)

        async def looking(scope: Any, receive: Any, send: Any) -> None:
            async def spying(message: Any) -> None:
                if message["type"] == "http.response.start":
                    seen.append(await asyncio.to_thread(_count))
                await send(message)

            await application(scope, receive, spying)

        message, headers = client.compose("tools/call", {"name": "add_async", "arguments": {"a": 1}})
        kinds = {"content-type": "application/json", "host": "testserver"}
        answer = await exchange(looking, "POST", "/test/mcp", {**kinds, **headers}, json.dumps(message).encode())
        assert answer.text == "2"

    asyncio.run(call())
    assert seen == [1]


@pytest.mark.parametrize("name", ["add", "add_async"])
def test_calls_leave_nothing_to_the_garbage_collector(
    call_log: Log, site: MCPServer, little_to_collect: None, name: str
) -> None:
    """What refers to itself in a circle stays until a collection, which stops everything for a while."""
    client = Client(site, MODERN, "asgi")
    application = MCPApplication(no_django)
    message, headers = client.compose("tools/call", {"name": name, "arguments": {"a": 1}})
    request = {"content-type": "application/json", "host": "testserver", **headers}, json.dumps(message).encode()

    async def calls(number: int) -> None:
        for _ in range(number):
            await exchange(application, "POST", "/test/mcp", *request)

    async def collected() -> int:
        await calls(3)  # what is made once for all
        gc.collect()
        gc.disable()
        try:
            await calls(CALLS)
            return gc.collect()
        finally:
            gc.enable()

    assert asyncio.run(collected()) < CALLS, "not even one object of each call"
    assert len(call_log()) == CALLS + 3


def test_calls_make_no_database_connections_on_the_event_loop(
    call_log: Log, site: MCPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each task would have one of its own, even to ask which database it is."""
    made: list[str] = []
    make = BaseDatabaseWrapper.__init__

    def making(self: Any, *args: Any, **kwargs: Any) -> None:
        made.append(threading.current_thread().name)
        make(self, *args, **kwargs)

    client = Client(site, MODERN, "asgi")
    application = MCPApplication(no_django)
    message, headers = client.compose("tools/call", {"name": "add_async", "arguments": {"a": 1}})
    request = {"content-type": "application/json", "host": "testserver", **headers}, json.dumps(message).encode()

    async def calls() -> list[Any]:
        once = await asyncio.create_task(exchange(application, "POST", "/test/mcp", *request))  # asks once for all
        monkeypatch.setattr(BaseDatabaseWrapper, "__init__", making)
        return [once, await asyncio.create_task(exchange(application, "POST", "/test/mcp", *request))]

    assert [each.status for each in asyncio.run(calls())] == [200, 200]
    assert threading.current_thread().name not in made
    assert len(call_log()) == 2


def test_calls_that_end_together_are_written_together(
    call_log: Log, site: MCPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    statements: list[int] = []
    save = writer.save
    monkeypatch.setattr(writer, "save", lambda calls: (statements.append(len(calls)), save(calls)))

    async def call(application: Any, client: Client, number: int) -> Any:
        message, headers = client.compose("tools/call", {"name": "add_async", "arguments": {"a": number}})
        kinds = {"content-type": "application/json", "host": "testserver"}
        return await exchange(application, "POST", "/test/mcp", {**kinds, **headers}, json.dumps(message).encode())

    async def calls() -> Any:
        application, client = MCPApplication(no_django), Client(site, MODERN, "asgi")
        return await asyncio.gather(*(call(application, client, number) for number in range(CALLS)))

    answers = asyncio.run(calls())
    assert [each.result["structuredContent"] for each in answers] == list(range(1, CALLS + 1))
    assert sum(statements) == CALLS
    assert len(statements) <= 3, statements  # mostly one: nearly all of them end in one turn of the loop
    assert sorted(row.arguments["a"] for row in call_log()) == list(range(CALLS))


def test_a_row_waits_for_a_database_that_comes_back(
    call_log: Log, site: MCPServer, version: str, away: list[int], settings: Any
) -> None:
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "POLL_INTERVAL": 0.01}
    away[0] = 3
    assert Client(site, version, "asgi").call("add", a=1).text == "2"
    assert len(call_log()) == 1


def test_a_caller_is_told_when_the_call_could_not_be_recorded(
    call_log: Log,
    site: MCPServer,
    client: Client,
    away: list[int],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    impatient(monkeypatch)
    away[0] = 100
    with caplog.at_level(logging.ERROR, "django_mcp"):
        answer = client.call("add", a=20, b=22)
    assert "could not be recorded" in answer.error["message"]
    assert "42" not in answer.body.decode()
    assert "'a': 20" in caplog.text
    away[0] = 0
    assert call_log() == []
    client.call("add", a=1)
    assert len(call_log()) == 1


@pytest.mark.parametrize("edge", ["asgi", "view"])
def test_an_error_that_is_not_the_databases_withholds_the_answer_as_well(
    call_log: Log, site: MCPServer, edge: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not "what observes a call must not change its answer": an answer without its row breaks the log's promise."""
    client, save = Client(site, MODERN, edge), writer.save

    def no_memory(calls: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(writer, "save", no_memory)
    answer = client.call("add", a=20, b=22)
    assert "could not be recorded" in answer.error["message"]
    monkeypatch.setattr(writer, "insert_begun", no_memory)
    answer = client.call("add", a=20, b=22)
    assert "this call was not run" in answer.error["message"], "it knows that the last row was not written"
    monkeypatch.undo()
    assert writer.save is save
    assert client.call("add", a=1).text == "2"
    assert len(call_log()) == 1


@contextmanager
def renamed_table() -> Iterator[None]:
    _execute("ALTER TABLE django_mcp_requestlog RENAME TO elsewhere")
    try:
        yield
    finally:
        _execute("ALTER TABLE elsewhere RENAME TO django_mcp_requestlog")


@contextmanager
def refusing_constraint() -> Iterator[None]:
    if connection.vendor == "postgresql":
        refuse = "ALTER TABLE django_mcp_requestlog ADD CONSTRAINT refuse CHECK (false) NOT VALID"
        allow = "ALTER TABLE django_mcp_requestlog DROP CONSTRAINT refuse"
    elif connection.vendor == "mysql":
        ((refuse,), (allow,)) = REFUSE_AT_COMMIT["mysql"], ALLOW_AT_COMMIT["mysql"]
    else:
        refuse = "CREATE TRIGGER refuse BEFORE INSERT ON django_mcp_requestlog BEGIN SELECT RAISE(ABORT, 'no'); END"
        allow = "DROP TRIGGER refuse"
    _execute(refuse)
    try:
        yield
    finally:
        _execute(allow)


REFUSE_AT_COMMIT = {
    "postgresql": [
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no space left'; END $$",
        (
            "CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON django_mcp_requestlog DEFERRABLE INITIALLY DEFERRED "
            "FOR EACH ROW EXECUTE FUNCTION refuse()"
        ),
    ],
    "sqlite": [
        "CREATE TABLE refused (part integer REFERENCES auth_user (id) DEFERRABLE INITIALLY DEFERRED)",
        "CREATE TRIGGER refuse AFTER INSERT ON django_mcp_requestlog BEGIN INSERT INTO refused VALUES (-1); END",
    ],
    "mysql": [  # which has nothing deferred
        (
            "CREATE TRIGGER refuse BEFORE INSERT ON django_mcp_requestlog FOR EACH ROW "
            "SIGNAL SQLSTATE '23000' SET MYSQL_ERRNO = 1062, MESSAGE_TEXT = 'no'"
        ),
    ],
}
ALLOW_AT_COMMIT = {
    "postgresql": ["DROP TRIGGER refuse ON django_mcp_requestlog", "DROP FUNCTION refuse"],
    "sqlite": ["DROP TRIGGER refuse", "DROP TABLE refused"],
    "mysql": ["DROP TRIGGER refuse"],
}


@contextmanager
def refused_at_commit() -> Iterator[None]:
    """As a full disk is met by SQLite: the statement succeeds, and its commit does not."""
    for statement in REFUSE_AT_COMMIT[connection.vendor]:
        _execute(statement)
    try:
        yield
    finally:
        for statement in ALLOW_AT_COMMIT[connection.vendor]:
            _execute(statement)


@contextmanager
def refused_by_sqlite(code: int, words: str) -> Iterator[None]:
    """As SQLite refuses, whichever database the test has."""
    cause = sqlite3.OperationalError(words)
    cause.sqlite_errorcode = code

    def refusing(calls: Any) -> None:
        raise OperationalError(words) from cause

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writer, "_insert", lambda calls, alias: refusing(calls))
        patch.setattr(writer, "insert_begun", refusing)
        yield


def read_only_database() -> AbstractContextManager[None]:
    return refused_by_sqlite(sqlite3.SQLITE_READONLY, "attempt to write a readonly database")


def full_disk() -> AbstractContextManager[None]:
    return refused_by_sqlite(sqlite3.SQLITE_FULL, "database or disk is full")


def _execute(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


@pytest.mark.every_way_in
@pytest.mark.parametrize(
    "broken", [renamed_table, refusing_constraint, refused_at_commit, read_only_database, full_disk]
)
def test_once_a_row_was_refused_no_call_is_made_until_rows_can_be_written_again(
    call_log: Log,
    site: MCPServer,
    client: Client,
    broken: Callable[[], AbstractContextManager[None]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And nobody waits for a database that answers: each attempt is the only one."""
    monkeypatch.setattr("django_mcp.core.concurrency.RETRY_TIMEOUT", 3.0)
    made: list[int] = []

    @tool(server=site, read_only=False, destructive=False)
    def act() -> str:
        """Act elsewhere."""
        made.append(1)
        return "done"

    assert client.call("act").text == "done"
    began = time.monotonic()
    with broken():
        errors = [client.call("act").error["message"] for _ in range(6)]
    assert time.monotonic() - began < 3.0
    assert len(made) == 2, "the call that found it, and none after it"
    assert "could not be recorded" in errors[0]
    assert all("this call was not run" in each for each in errors[1:]), errors
    assert client.call("act").text == "done"
    assert client.call("act").text == "done"
    assert [(row.outcome, row.error) for row in call_log()] == [("ok", "")] * 3


class Refused(Exception):
    """Of the site's own code."""


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (None, "ok"),
        (ToolError("no"), "error"),
        (Refused("no"), "crashed"),
        (SystemExit(1), "crashed"),
        (PermissionDenied("no"), "rejected"),
        (User.DoesNotExist("no"), "error"),
        (InvalidParams("no"), "failed"),
    ],
)
def test_after_a_failed_write_each_call_is_one_row_that_says_how_it_ended(
    call_log: Log, site: MCPServer, client: Client, is_async: bool, error: BaseException | None, outcome: str
) -> None:
    def act() -> str:
        (begun,) = RequestLog.objects.values_list("outcome", "error")
        assert begun == ("failed", writer.BEGUN)
        if error is not None:
            raise error
        return "done"

    async def aact() -> str:
        return await sync_to_async(act)()

    tool(server=site, name="act")(aact if is_async else act)
    writer.writer.note_failure(OperationalError("of another call"))
    client.call("act")
    (row,) = call_log()
    assert row.outcome == outcome
    assert row.error != writer.BEGUN
    assert row.duration > 0
    assert bool(row.exception_type) == (outcome == "crashed")
    assert not writer.writer.is_failing


def test_a_row_that_is_refused_for_itself_stops_no_other_call(
    call_log: Log, site: MCPServer, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    insert = writer._insert

    def choosy(calls: Any, alias: str) -> None:
        if any(each["name"] == "fail" for each in calls):
            raise DataError("of this one")
        insert(calls, alias)

    monkeypatch.setattr(writer, "_insert", choosy)
    assert "could not be recorded" in client.call("fail", why="x").error["message"]
    assert client.call("add", a=1).text == "2"
    assert client.call("add", a=1).text == "2"
    assert len(call_log()) == 2


def test_one_row_that_cannot_be_written_keeps_no_other_from_it(
    call_log: Log, site: MCPServer, caplog: pytest.LogCaptureFixture
) -> None:
    facts = _facts(site)
    entries = [writer._Entry(each) for each in (facts, {**facts, "outcome": None}, facts)]
    writer.writer._waiting.extend(entries)
    writer.writer._write_some()
    assert caplog.text.count("A request log entry could not be written") == 1
    assert len(call_log()) == 2


def test_a_row_that_cannot_be_written_after_its_loop_was_closed_is_in_pythons_log(
    call_log: Log, site: MCPServer, away: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    away[0] = 100

    async def call() -> asyncio.Future[None]:
        return asyncio.get_running_loop().create_future()

    with caplog.at_level(logging.ERROR, "django_mcp"):
        writer.writer._waiting.append(writer._Entry({**_facts(site), "name": "of nobody"}, asyncio.run(call())))
        writer.writer._call()
        writer.log_pool().close()
    assert "A request log entry could not be written (the database is away)" in caplog.text


def test_a_row_that_cannot_be_written_after_its_caller_left_is_in_pythons_log(
    call_log: Log, site: MCPServer, away: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    away[0] = 100

    async def call() -> None:
        writing_row = writer.writer.queue({**_facts(site), "name": "of nobody"})
        await asyncio.sleep(0)
        writing_row.cancel()
        await asyncio.sleep(0)  # at the end of the turn the thread is called
        await asyncio.to_thread(writer.log_pool().close)  # when it has done what it has to do
        await asyncio.sleep(0)

    with caplog.at_level(logging.ERROR, "django_mcp"):
        asyncio.run(call())
    assert "A request log entry could not be written (the database is away)" in caplog.text


def test_a_thread_that_cannot_be_started_fails_the_calls_that_wait_for_it_and_no_later_ones(
    call_log: Log, site: MCPServer, client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: Any) -> None:
        raise RuntimeError("can't start new thread")

    writer.log_pool().close()
    with monkeypatch.context() as patch:
        patch.setattr("django_mcp.core.concurrency.threading.Thread.start", refuse)
        answer = client.post(*_composed(client))
    assert "could not be recorded" in answer.error["message"]
    assert "No thread could be started" in caplog.text
    assert client.call("add", a=1, b=2).text == "3"
    assert [(row.name, row.outcome) for row in call_log()] == [("add", "ok")]


def _composed(client: Client) -> tuple[bytes, dict[str, str]]:
    body, headers = client.compose("tools/list", {})
    return json.dumps(body).encode(), headers


def test_a_forked_process_does_not_write_what_its_parent_writes(call_log: Log, site: MCPServer) -> None:
    own = writer.Writer()
    own._waiting.append(writer._Entry(_facts(site)))
    own._is_called = True
    own.after_fork()  # what the system calls in a child
    own.post({**_facts(site), "name": "of the child"})
    writer.log_pool().close()
    assert [row.name for row in call_log()] == ["of the child"]


def test_an_error_in_pythons_log_leaves_no_call_waiting(
    call_log: Log, site: MCPServer, away: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise OSError("no space left on device")

    async def write() -> None:
        with pytest.raises(OperationalError):
            await asyncio.wait_for(writer.writer.queue(_facts(site)), 10)

    away[0] = 1
    monkeypatch.setattr(writer.logger, "error", fail)
    asyncio.run(write())


def test_a_user_who_is_gone_is_left_out(call_log: Log, site: MCPServer) -> None:
    writer.save([_facts(site), {**_facts(site), "user_id": 10**9, "caller": "ada"}])
    assert [(row.user_id, row.caller) for row in call_log()] == [(None, ""), (None, "ada")]


def test_more_rows_than_fit_into_a_statement_are_written(
    call_log: Log, site: MCPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    statement = writer._statement("default")._replace(most=2)
    monkeypatch.setattr(writer, "_statement", lambda _alias: statement)
    writer.save([_facts(site)] * 5)
    assert len(call_log()) == 5


def test_what_a_failed_tool_wrote_is_gone_and_its_row_is_not(call_log: Log, site: MCPServer, client: Client) -> None:
    @tool(server=site)
    def write_and_fail() -> str:
        """Write, then fail."""
        RequestLog.objects.create(**{**_facts(site), "name": "of the tool"})
        raise RuntimeError

    client.call("write_and_fail")
    assert [(row.name, row.outcome) for row in call_log()] == [("write_and_fail", "crashed")]


def test_a_call_that_nobody_waits_for_is_a_row(call_log: Log, site: MCPServer) -> None:
    began = asyncio.Event()

    @tool(server=site)
    async def endless() -> str:
        """Wait."""
        began.set()
        await asyncio.Event().wait()
        return "never"

    async def call() -> None:
        client = Client(site, MODERN, "asgi")
        message, headers = client.compose("tools/call", {"name": "endless"})
        kinds = {"content-type": "application/json", "host": "testserver"}
        body = json.dumps(message).encode()
        task = asyncio.create_task(exchange(MCPApplication(no_django), "POST", "/test/mcp", {**kinds, **headers}, body))
        await began.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(call())
    writer.log_pool().close()
    assert [(row.name, row.outcome) for row in call_log()] == [("endless", "cancelled")]


def _count() -> int:
    try:
        return RequestLog.objects.count()
    finally:
        connection.close()


def _facts(server: MCPServer) -> dict[str, Any]:
    from django.test import RequestFactory
    from django.utils import timezone

    from django_mcp.audit.entry import of_refusal

    return of_refusal(server, None, lambda: RequestFactory().get("/"), timezone.now(), {"method": "tools/call"}, "no")

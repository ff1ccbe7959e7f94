"""SQLite has one write lock: a tool that holds it delays the answers of others, and refuses nobody."""

# ruff: noqa: F811 - fixtures are imported

import asyncio
import json
import sqlite3
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.contenttypes.models import ContentType
from django.db import connection, connections, transaction
from django.http import HttpRequest, HttpResponse, JsonResponse

from django_mcp import MCPServer, prompt, tool
from django_mcp.audit import writer
from django_mcp.core.concurrency import async_threads, checks_pool, free_pool, shared_pool
from django_mcp.integrations.views import view_tool
from django_mcp.models import RequestLog
from django_mcp.transports.asgi import MCPApplication
from tests.audit.conftest import site  # noqa: F401 - fixture
from tests.clients import MODERN, Answer, Client, exchange, no_django

Log = Callable[[], list[RequestLog]]
pytestmark = pytest.mark.skipif(connection.vendor != "sqlite", reason="other databases lock rows")

WITHIN = 20


@pytest.fixture
def locked(monkeypatch: pytest.MonkeyPatch, call_log: Log) -> Iterator[threading.Event]:
    """Is set when the log met a lock, for which SQLite itself waits hardly at all."""
    seen, is_locked = threading.Event(), writer.is_locked

    def look(error: BaseException) -> bool:
        if found := is_locked(error):
            seen.set()
        return found

    monkeypatch.setattr(writer, "is_locked", look)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(connections.settings["default"]["OPTIONS"], "timeout", 0.05)
        renew_connections()
        yield seen
    renew_connections()


def renew_connections() -> None:
    connection.close()
    for pool in (free_pool(), shared_pool(), checks_pool(), async_threads(), writer.log_pool()):
        pool.close()


class Holder:
    """Calls that hold the lock, each in its own way."""

    def __init__(self, server: MCPServer) -> None:
        self.began, self.ends = threading.Event(), threading.Event()

        @tool(server=server, name="hold")
        def hold() -> str:
            return self.write()

        @tool(server=server, name="hold_in_own_transaction", atomic=False)
        def hold_in_own_transaction() -> str:
            with transaction.atomic():
                return self.write()

        @tool(server=server, name="hold_by_hand", atomic=False)
        def hold_by_hand() -> str:
            transaction.set_autocommit(False)
            try:
                return self.write()
            finally:
                transaction.commit()
                transaction.set_autocommit(True)

        @tool(server=server, name="hold_async")
        async def hold_async() -> str:
            return await sync_to_async(hold_in_own_transaction)()

        @tool(server=server, name="hold_async_in_thread")
        async def hold_async_in_thread() -> str:
            return await sync_to_async(hold_in_own_transaction, thread_sensitive=False)()

        @transaction.atomic
        def view(request: HttpRequest) -> HttpResponse:
            return JsonResponse({"is": self.write()})

        view_tool(view, server=server, name="hold_in_view", path="held/", method="POST")

        @prompt(server=server, name="hold_in_prompt")
        def hold_in_prompt() -> str:
            with transaction.atomic():
                return self.write()

    def write(self) -> str:
        ContentType.objects.create(app_label="held", model="held")
        self.began.set()
        assert self.ends.wait(WITHIN)
        ContentType.objects.filter(app_label="held").delete()
        return "held"


@pytest.fixture
def holder(site: MCPServer) -> Iterator[Holder]:
    holder = Holder(site)
    yield holder
    holder.ends.set()
    ContentType.objects.filter(app_label="held").delete()


async def call(site: MCPServer, name: str, method: str = "tools/call", **arguments: Any) -> Answer:
    client = Client(site, MODERN, "asgi")
    message, headers = client.compose(method, {"name": name, "arguments": arguments})
    kinds = {"content-type": "application/json", "host": "testserver"}
    body = json.dumps(message).encode()
    return await exchange(MCPApplication(no_django), "POST", "/test/mcp", {**kinds, **headers}, body)


@pytest.mark.parametrize("seconds", [0.0, 60.0])
def test_async_calls_wait_for_a_tool_that_holds_the_lock_however_long(
    site: MCPServer,
    call_log: Log,
    locked: threading.Event,
    holder: Holder,
    monkeypatch: pytest.MonkeyPatch,
    seconds: float,
) -> None:
    monkeypatch.setattr(writer, "LOCK_TIMEOUT", seconds)

    async def calls() -> list[Answer]:
        holding = asyncio.create_task(call(site, "hold"))
        assert await asyncio.to_thread(holder.began.wait, WITHIN)
        first = asyncio.create_task(call(site, "add_async", a=1))
        assert await asyncio.to_thread(locked.wait, WITHIN)
        later = [asyncio.create_task(call(site, "add_async", a=number)) for number in (2, 3)]
        locked.clear()
        assert await asyncio.to_thread(locked.wait, WITHIN)
        assert not any(task.done() for task in (holding, first, *later))
        assert not writer.writer.is_failing
        holder.ends.set()
        return await asyncio.gather(holding, first, *later)

    assert [answer.text for answer in asyncio.run(calls())] == ["held", "2", "3", "4"]
    assert len(call_log()) == 4


@pytest.mark.parametrize(
    ("name", "method"),
    [
        ("hold_in_own_transaction", "tools/call"),
        ("hold_by_hand", "tools/call"),
        ("hold_async", "tools/call"),
        ("hold_async_in_thread", "tools/call"),
        ("hold_in_view", "tools/call"),
        ("hold_in_prompt", "prompts/get"),
    ],
)
def test_in_whichever_way_it_holds_it(
    site: MCPServer,
    locked: threading.Event,
    holder: Holder,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    method: str,
) -> None:
    monkeypatch.setattr(writer, "LOCK_TIMEOUT", 0.0)
    monkeypatch.setattr("django_mcp.core.concurrency.RETRY_TIMEOUT", 0.0)

    async def calls() -> tuple[Answer, Answer]:
        holding = asyncio.create_task(call(site, name, method))
        assert await asyncio.to_thread(holder.began.wait, WITHIN)
        other = asyncio.create_task(call(site, "add_async", a=1))
        assert await asyncio.to_thread(locked.wait, WITHIN)
        locked.clear()
        assert await asyncio.to_thread(locked.wait, WITHIN)
        assert not other.done()
        holder.ends.set()
        return await asyncio.gather(holding, other)

    held, other = asyncio.run(calls())
    assert "held" in json.dumps(held.result)
    assert other.text == "2"
    assert not writer.writer.is_failing


def test_the_view_waits_for_a_tool_of_its_process_too(
    site: MCPServer, call_log: Log, locked: threading.Event, holder: Holder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "INLINE_LOCK_TIMEOUT", 0.0)
    answers: list[str] = []

    def run(edge: str, name: str, **arguments: Any) -> None:
        answers.append(Client(site, MODERN, edge).call(name, **arguments).text)
        connection.close()

    threads = [  # one of them at the view, whose client changes the settings of the process for its call
        threading.Thread(target=run, args=["asgi", "hold"]),
        threading.Thread(target=run, args=["view", "add_async"], kwargs={"a": 1}),
    ]
    threads[0].start()
    assert holder.began.wait(WITHIN)
    threads[1].start()
    assert locked.wait(WITHIN)
    assert answers == []
    holder.ends.set()
    for thread in threads:
        thread.join(WITHIN)
    assert sorted(answers) == ["2", "held"]
    assert len(call_log()) == 2


@pytest.mark.parametrize("edge", ["asgi", "view"])
def test_a_lock_of_another_process_is_waited_for_a_limited_time(
    site: MCPServer, call_log: Log, locked: threading.Event, monkeypatch: pytest.MonkeyPatch, edge: str
) -> None:
    """Then it counts as a failed write: no call is made until a row could be committed."""
    for name in ("LOCK_TIMEOUT", "INLINE_LOCK_TIMEOUT"):
        monkeypatch.setattr(writer, name, 0.1)
    monkeypatch.setattr("django_mcp.core.concurrency.RETRY_TIMEOUT", 0.0)
    made: list[int] = []

    @tool(server=site)
    async def act() -> str:
        made.append(1)
        return "done"

    client = Client(site, MODERN, edge)
    other = sqlite3.connect(connection.settings_dict["NAME"], isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        assert "could not be recorded" in client.call("act").error["message"]
        assert "this call was not run" in client.call("act").error["message"]
    finally:
        other.close()
    assert client.call("act").text == "done"
    assert len(made) == 2

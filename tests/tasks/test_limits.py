"""Limits of tools, and calls that are repeated under a key, where calls are tasks."""

import asyncio
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from django.conf import settings
from django.core.cache import cache
from django.test import override_settings
from django.utils import timezone

from django_mcp import Context, MCPServer, ToolError, tool
from django_mcp.core.execution import slots_of
from django_mcp.models import Step, Task
from django_mcp.pubsub import once
from django_mcp.pubsub.once import StepRecord
from django_mcp.tasks import backends, store
from django_mcp.tasks.backends import DjangoTasksBackend
from django_mcp.tasks.backends import _pool as task_pool
from django_mcp.tasks.worker import heartbeat
from tests.behaviour.beside import beside
from tests.behaviour.test_idempotency import ByHeader
from tests.conversation import Conversation, accept
from tests.exchange import WITHIN, eventually
from tests.tasks.clients import TaskClient
from tests.tasks.gates import Gate

KEY = "django-mcp/idempotencyKey"
OURS = {KEY: "8e03978e-40d5-43e8-bc93-6894a57f9324"}
YES = accept(confirm=True)


@pytest.fixture
def server(request: pytest.FixtureRequest, make_server: Callable[..., MCPServer]) -> MCPServer:
    """An endpoint whose callers can be told apart, unless it is asked to be public."""
    if getattr(request, "param", None) == "public":
        return make_server()
    return make_server(authentication=[ByHeader()], scopes=[])


@pytest.fixture
def runs() -> list[Any]:
    """What the tool was run with."""
    return []


def add(server: MCPServer, body: Any, **options: Any) -> None:
    tool(server=server, name="work", **{"task": "optional", **options})(body)


# Limits


def test_a_rate_counts_calls_and_not_runs(server: MCPServer, client: TaskClient) -> None:
    cache.clear()

    def work(ctx: Context) -> str:
        return str(ctx.confirm("Sure?", key="sure"))

    add(server, work, rate_limit="2/h")
    for _ in range(2):
        task_id = client.call("work")
        client.asked(task_id)
        client.update(task_id, {"sure": YES})
        assert client.text(task_id) == "True"
    refused = client.request("tools/call", {"name": "work"})
    assert (refused.status, refused.error["code"]) == (429, -32000)
    assert Task.objects.count() == 2
    cache.clear()


def test_of_tasks_that_run_one_at_a_time_the_others_wait(server: MCPServer, client: TaskClient, kind: str) -> None:
    running, most = threading.Semaphore(0), []
    count = [0]

    def begin() -> None:
        count[0] += 1
        most.append(count[0])
        running.release()

    def plain() -> str:
        begin()
        threading.Event().wait(0.05)
        count[0] -= 1
        return "done"

    async def coroutine() -> str:
        begin()
        await asyncio.sleep(0.05)
        count[0] -= 1
        return "done"

    add(server, plain if kind == "sync" else coroutine, concurrency_limit=1, read_only=True)
    made = [client.call("work") for _ in range(4)]
    assert [client.text(each) for each in made] == ["done"] * 4
    assert most == [1] * 4


def test_one_that_waits_for_its_turn_can_be_cancelled(
    server: MCPServer, client: TaskClient, gate: Gate, runs: list[Any]
) -> None:
    def work() -> str:
        runs.append(1)
        gate.wait()
        return "done"

    add(server, work, concurrency_limit=1, read_only=True)
    first = client.call("work")
    gate.reached()
    second = client.call("work")
    eventually(lambda: slots_of(server.tools["work"])._waiting, "it does not come to wait")
    client.cancel(second)
    client.become(second, "cancelled")
    gate.open()
    assert client.text(first) == "done"
    assert client.run("work") == "done"
    assert len(runs) == 2


def test_tasks_that_wait_for_their_turn_hold_up_no_others(server: MCPServer, client: TaskClient, gate: Gate) -> None:
    """Even if there are more of them than threads."""

    def work() -> str:
        gate.wait()
        return "done"

    add(server, work, concurrency_limit=1, read_only=True)
    tool(server=server, name="other", task="optional", read_only=True)(lambda: "at once")
    waiting = [client.call("work") for _ in range(settings.DJANGO_MCP.get("TASK_THREADS", 4) + 2)]
    gate.reached()
    assert client.run("other") == "at once"
    assert {client.get(each)["status"] for each in waiting} == {"working"}
    gate.open()
    assert [client.text(each) for each in waiting] == ["done"] * len(waiting)


def test_tasks_and_calls_of_a_tool_have_their_turn_in_the_order_of_arrival(
    server: MCPServer, client: TaskClient, gate: Gate, runs: list[Any]
) -> None:
    def work(name: str) -> str:
        runs.append(name)
        gate.wait()
        return name

    add(server, work, concurrency_limit=1, read_only=True)
    queue = slots_of(server.tools["work"])._waiting
    made = [client.call("work", name="first")]
    gate.reached()
    for number, name in enumerate(["second", "third", "fourth"], 1):
        made.append(client.call("work", name=name))
        eventually(lambda number=number: len(queue) == number, "it does not come to wait")
    gate.open()
    assert [client.text(each) for each in made] == runs == ["first", "second", "third", "fourth"]


def test_a_task_that_waits_for_its_turn_is_leased_to_its_process_and_has_had_no_try(
    server: MCPServer, client: TaskClient, gate: Gate
) -> None:
    """So another process starts it anew if this one dies."""

    def work() -> str:
        gate.wait()
        return "done"

    add(server, work, concurrency_limit=1, read_only=False)
    first, second = client.call("work"), client.call("work")
    eventually(Task.objects.exclude(worker="").exists, "none runs")
    eventually(lambda: slots_of(server.tools["work"])._waiting, "the other does not come to wait")
    waiting = Task.objects.get(worker="")
    assert waiting.task_id in {first, second}
    assert (waiting.attempts, waiting.status) == (0, "working")
    assert waiting.lease > timezone.now()
    assert heartbeat.holds(waiting.task_id)
    gate.open()
    assert [client.text(each) for each in (first, second)] == ["done"] * 2


class Queue:
    """A queue of Django's Tasks framework, and the task in it."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, dict[str, Any]]] = []

    def using(self, **options: Any) -> Any:
        return SimpleNamespace(enqueue=lambda task_id: self.sent.append((task_id, options)))


@pytest.mark.parametrize("defers", [True, False])
def test_a_worker_puts_a_task_back_into_the_queue_while_its_tool_has_no_free_slot(
    server: MCPServer, client: TaskClient, monkeypatch: pytest.MonkeyPatch, runs: list[Any], defers: bool
) -> None:
    queue = Queue()
    monkeypatch.setattr(DjangoTasksBackend, "task", queue)
    monkeypatch.setattr(backends, "backend", lambda _: SimpleNamespace(supports_defer=defers))
    monkeypatch.setattr(backends.time, "sleep", runs.append)
    monkeypatch.setattr("django_mcp.tasks.api.task_backend", lambda: DjangoTasksBackend("queue"))
    monkeypatch.setattr(backends, "task_backend", lambda: DjangoTasksBackend("queue"))
    add(server, lambda: "done", concurrency_limit=1, read_only=True)
    task_id, worker = client.call("work"), DjangoTasksBackend("queue")
    slots = slots_of(server.tools["work"])
    assert slots.acquire()

    worker.run(task_id)
    [_, (again, options)] = queue.sent
    task = Task.objects.get(task_id=task_id)
    assert again == task_id
    assert (task.status, task.worker, task.attempts, task.lease) == ("working", "", 0, None)
    assert ("run_after" in options, runs) == ((True, []) if defers else (False, [1]))

    client.cancel(client.call("work"))
    worker.run(queue.sent[-1][0])
    assert len(queue.sent) == 3, "what was cancelled is not queued again"

    slots.release()
    worker.run(task_id)
    assert client.text(task_id) == "done"
    assert slots.acquire(), "the slot is given back"
    slots.release()


def test_a_task_whose_thread_cannot_be_started_fails_and_is_not_kept(
    server: MCPServer, client: TaskClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    add(server, lambda: "done", concurrency_limit=1, read_only=True)
    task_pool().close()

    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name.startswith("django-mcp-task-"):
            raise RuntimeError("can't start new thread")
        start(thread)

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        task_id = client.call("work")
    client.become(task_id, "failed")
    assert not heartbeat.holds(task_id)
    assert client.run("work") == "done"


def test_the_time_of_a_call_is_not_that_of_a_task(server: MCPServer, client: TaskClient, kind: str) -> None:
    def plain(ctx: Context) -> str:
        threading.Event().wait(0.1)
        return f"{ctx.remaining}"

    async def coroutine(ctx: Context) -> str:
        await asyncio.sleep(0.1)
        return f"{ctx.remaining}"

    with override_settings(DJANGO_MCP={**settings.DJANGO_MCP, "TOOL_TIMEOUT": 0.02}):
        add(server, plain if kind == "sync" else coroutine)
        assert client.run("work") == "None"


def test_a_tool_s_own_time_is(server: MCPServer, client: TaskClient, kind: str, rows: Any) -> None:
    def plain(ctx: Context) -> str:
        rows("written")
        while True:
            ctx.check_cancelled()

    async def coroutine() -> str:
        await asyncio.Event().wait()
        return "never"

    add(server, plain if kind == "sync" else coroutine, timeout=0.05)
    result = client.ended(client.call("work"))
    assert result["isError"]
    assert "longer than 0.05 s" in result["content"][0]["text"]
    assert rows.written() == []


# Keys


def ordering(server: MCPServer, kind: str, runs: list[Any], gate: Gate | None = None, **options: Any) -> None:
    def plain(book: str) -> dict[str, int]:
        runs.append(book)
        if gate is not None:
            gate.wait()
        return {"number": len(runs)}

    async def coroutine(book: str) -> dict[str, int]:
        runs.append(book)
        if gate is not None:
            await gate.await_()
        return {"number": len(runs)}

    add(server, plain if kind == "sync" else coroutine, **options)


def test_a_repeated_call_has_the_task_of_the_first(
    server: MCPServer, client: TaskClient, kind: str, runs: list[Any], gate: Gate
) -> None:
    ordering(server, kind, runs, gate, atomic=False)
    first = client.call("work", meta=OURS, book="Emma")
    gate.reached()
    assert client.call("work", meta=OURS, book="Emma") == first
    gate.open()
    assert client.ended(first)["structuredContent"] == {"number": 1}
    assert client.call("work", meta=OURS, book="Emma") == first
    assert client.call("work", meta={KEY: "another"}, book="Emma") != first
    assert client.call("work", book="Emma") != first
    assert Task.objects.count() == 3
    eventually(lambda: Task.objects.filter(status="completed").count() == 3)
    assert runs == ["Emma"] * 3


def test_a_repeated_call_has_the_result_though_the_first_task_was_deleted_earlier(
    server: MCPServer, client: TaskClient, kind: str, runs: list[Any]
) -> None:
    """TASK_TTL, or the time that the client asked for, may be shorter than IDEMPOTENCY_TTL."""
    ordering(server, kind, runs)
    first = client.call("work", meta=OURS, book="Emma")
    assert client.ended(first)["structuredContent"] == {"number": 1}
    Task.objects.all().delete()
    second = client.call("work", meta=OURS, book="Emma")
    assert second != first
    assert client.ended(second)["structuredContent"] == {"number": 1}
    assert runs == ["Emma"]


@pytest.mark.parametrize("server", ["public"], indirect=True)
def test_nobody_has_the_task_of_another_caller_who_is_not_signed_in(
    server: MCPServer, client: TaskClient, runs: list[Any]
) -> None:
    ordering(server, "sync", runs)
    first = client.call("work", meta=OURS, book="Emma")
    assert client.ended(first)["structuredContent"] == {"number": 1}
    second = client.request("tools/call", {"name": "work", "arguments": {"book": "Emma"}, "_meta": OURS})
    assert second.failed
    assert "has already run" in second.text
    assert first not in second.text
    assert runs == ["Emma"]


def test_a_tool_s_own_key_does_the_same(server: MCPServer, client: TaskClient, kind: str, runs: list[Any]) -> None:
    ordering(server, kind, runs, idempotency_key="book")
    first = client.call("work", book="Emma")
    assert client.call("work", book="Emma") == first
    client.ended(first)
    assert runs == ["Emma"]


def test_who_waits_has_the_result_of_the_first_too(
    server: MCPServer, client: TaskClient, waiting: Conversation, runs: list[Any]
) -> None:
    ordering(server, "sync", runs)
    first = waiting.call("work", meta=OURS, book="Emma")
    assert first.result["structuredContent"] == {"number": 1}
    assert waiting.call("work", meta=OURS, book="Emma").result == first.result
    assert client.ended(client.call("work", meta=OURS, book="Emma"))["structuredContent"] == {"number": 1}
    assert runs == ["Emma"]


@pytest.mark.parametrize("edge", ["asgi"])
def test_who_leaves_a_repeated_call_does_not_stop_the_first(
    server: MCPServer, client: TaskClient, waiting: Conversation, runs: list[Any], gate: Gate
) -> None:
    ordering(server, "async", runs, gate)
    first = client.call("work", meta=OURS, book="Emma")
    gate.reached()
    call = waiting.begin("tools/call", {"name": "work", "arguments": {"book": "Emma"}, "_meta": OURS})
    eventually(lambda: waiting.room.tasks > 1)
    call.exchange.leave()
    eventually(lambda: waiting.room.tasks == 0, "the request goes on")
    gate.open()
    assert client.ended(first)["structuredContent"] == {"number": 1}


def test_the_same_key_with_other_arguments_is_refused(server: MCPServer, client: TaskClient, runs: list[Any]) -> None:
    ordering(server, "sync", runs)
    client.ended(client.call("work", meta=OURS, book="Emma"))
    other = {"name": "work", "arguments": {"book": "Persuasion"}, "_meta": OURS}
    refused = client.request("tools/call", other)
    assert refused.failed
    assert "already used with other arguments" in refused.text
    assert Task.objects.count() == 1


@pytest.mark.postgresql
@pytest.mark.parametrize("how", ["error", "cancelled", "expired"])
def test_what_left_nothing_may_be_tried_again(
    server: MCPServer, client: TaskClient, runs: list[Any], gate: Gate, how: str
) -> None:
    def work(ctx: Context) -> str:
        runs.append(1)
        if how == "error" and len(runs) == 1:
            raise ToolError("Not now.")
        if how == "cancelled" and len(runs) == 1:
            ctx.confirm("Sure?")
        return "done"

    add(server, work)
    first = client.call("work", meta=OURS)
    if how == "cancelled":
        client.asked(first)
        client.cancel(first)
    client.become(first, "completed", "cancelled")
    if how == "expired":
        Task.objects.update(expires=Task.objects.get().created)
        Step.objects.update(expires=Task.objects.get().created)
    second = client.call("work", meta=OURS)
    assert second != first
    assert client.text(second) == "done"
    assert client.call("work", meta=OURS) == second
    assert len(runs) == 2


@pytest.mark.postgresql
def test_of_two_tries_at_once_one_makes_the_task(
    server: MCPServer, client: TaskClient, runs: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both look before either has noted anything."""
    ordering(server, "sync", runs)
    first = client.call("work", meta=OURS, book="Emma")
    client.ended(first)
    looked: list[Callable[[], Any]] = []
    look = StepRecord.task

    def blind(self: StepRecord) -> str | None:
        looked.append(lambda: None)
        return None if len(looked) == 1 else look(self)

    monkeypatch.setattr(StepRecord, "task", blind)
    assert client.call("work", meta=OURS, book="Emma") == first
    assert Task.objects.count() == 1
    assert runs == ["Emma"]


@pytest.mark.postgresql
def test_a_run_whose_worker_died_is_the_same_try(server: MCPServer, client: TaskClient, runs: list[Any]) -> None:
    """The first run asks; what it had claimed is put back, as a worker leaves it that dies."""

    def work(ctx: Context) -> str:
        runs.append(1)
        return str(ctx.confirm("Sure?", key="sure"))

    add(server, work, idempotent=True)
    task_id = client.call("work", meta=OURS)
    client.asked(task_id)
    row = Task.objects.get()
    noted = Step.objects.get(key=once.TASK)
    claim = {"arguments": noted.value["arguments"], "try": row.task_id}
    Step.objects.create(call=noted.call, key=once.KEY, value=claim, expires=noted.expires)
    assert store.questions(row)
    client.update(task_id, {"sure": YES})
    assert client.text(task_id) == "True"


def test_what_is_done_once_is_done_once_for_all_tries(server: MCPServer, client: TaskClient, runs: list[Any]) -> None:
    def work(ctx: Context) -> str:
        ctx.once("pay", lambda: runs.append("paid"))
        if len(runs) == 1:
            runs.append("failed")
            raise ToolError("Not now.")
        return "done"

    add(server, work)
    assert client.run("work") == "Not now."
    runs.clear()
    first = client.call("work", meta=OURS)
    assert client.text(first) == "Not now."
    assert client.text(client.call("work", meta=OURS)) == "done"
    assert runs == ["paid", "failed"]


@pytest.mark.postgresql
def test_calls_at_the_same_time_under_one_key_run_once(server: MCPServer, client: TaskClient, runs: list[Any]) -> None:
    ordering(server, "sync", runs)
    made: list[str] = []
    threads = [beside(lambda: made.append(client.call("work", meta=OURS, book="Emma"))) for _ in range(4)]
    for thread in threads:
        thread.join(WITHIN)
    assert len(set(made)) == 1
    assert len(made) == 4
    client.ended(made[0])
    assert runs == ["Emma"]

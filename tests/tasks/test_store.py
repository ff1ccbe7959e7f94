"""What could go wrong where several want something of one task, or where what they say is no good."""

import asyncio
import threading
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from django_mcp import Context, Elicitation, MCPServer, tool
from django_mcp.conf import settings
from django_mcp.models import Task
from django_mcp.protocol.errors import InvalidParams
from django_mcp.tasks import store
from django_mcp.tasks.backends import start
from django_mcp.tasks.worker import heartbeat
from tests.conversation import Conversation, accept
from tests.exchange import WITHIN, Room, eventually
from tests.tasks.clients import TaskClient, unaware
from tests.tasks.gates import Gate

NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
HALF = "half a pair: \ud83d"


def add(server: MCPServer, body: Any, name: str = "work", **options: Any) -> None:
    tool(server=server, name=name, **{"task": "optional", **options})(body)


def two_questions(ctx: Context) -> str:
    answers = ctx.ask(Elicitation("One?", NAME, key="one"), Elicitation("Two?", NAME, key="two"))
    return " ".join(each.data["name"] for each in answers if each.data)


pytestmark = [pytest.mark.postgresql, pytest.mark.mariadb]


# Answers


def test_of_two_answers_at_the_same_moment_the_later_one_lets_the_task_go_on(
    server: MCPServer, client: TaskClient
) -> None:
    add(server, two_questions)
    task_id = client.call("work")
    assert set(client.asked(task_id)) == {"one", "two"}
    half_way, other_is_on_its_way = threading.Event(), threading.Event()

    def answer_slowly() -> None:
        try:
            with transaction.atomic():
                store.answer(Task.objects.get(task_id=task_id), {"one": accept(name="Anna")})
                half_way.set()
                other_is_on_its_way.wait(0.5)  # it waits for this transaction, or should
        finally:
            connection.close()

    def answer() -> None:
        try:
            client.update(task_id, {"two": accept(name="Ben")})
        finally:
            other_is_on_its_way.set()
            connection.close()

    threads = [threading.Thread(target=each) for each in (answer_slowly, answer)]
    threads[0].start()
    assert half_way.wait(WITHIN)
    threads[1].start()
    for each in threads:
        each.join(WITHIN)
    assert client.text(task_id) == "Anna Ben"


def test_answers_to_what_was_never_asked_cost_nothing(server: MCPServer, client: TaskClient) -> None:
    add(server, two_questions)
    task_id = client.call("work")
    client.asked(task_id)
    task = Task.objects.get(task_id=task_id)
    costs = []
    for strange in ({"a": {}}, {f"{number}\0": {} for number in range(500)} | {str(each): {} for each in range(500)}):
        with CaptureQueriesContext(connection) as queries:
            assert not store.answer(task, strange)
        costs.append(len(queries))
    assert costs[0] == costs[1]


@pytest.fixture
def _answered_when_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else answers after the task was read, and before its questions are."""
    questions, seen = store.questions, []

    def late(task: Task) -> Any:
        if not seen and task.status == Task.Status.INPUT_REQUIRED:
            seen.append(task)
            assert store.answer(task, {"one": accept(name="Anna"), "two": accept(name="Ben")})
            store.questions = questions
            start(Task.objects.get(pk=task.pk))
        return questions(task)

    monkeypatch.setattr(store, "questions", late)


@pytest.mark.usefixtures("_answered_when_looked_at")
def test_a_task_that_is_answered_while_somebody_looks_is_not_shown_without_its_questions(
    server: MCPServer, client: TaskClient
) -> None:
    add(server, two_questions)
    assert client.text(client.call("work")) == "Anna Ben"


@pytest.mark.usefixtures("_no_tasks_left", "_answered_when_looked_at")
@pytest.mark.parametrize("known", ["2026-07-28", "2025-11-25", "2025-06-18"])
def test_nor_is_whoever_waits_asked_nothing(server: MCPServer, room: Room, known: str) -> None:
    add(server, two_questions)
    outcome = Conversation(room, known, unaware()).request("tools/call", {"name": "work"}, answers=[])
    assert outcome.text == "Anna Ben"
    assert outcome.asked == []


# What cannot be saved


def test_a_message_that_is_no_text_is_saved_as_far_as_it_is(server: MCPServer, client: TaskClient, gate: Gate) -> None:
    def work(ctx: Context) -> str:
        ctx.report_progress(1, 2, HALF)
        gate.wait()
        return "done"

    add(server, work, read_only=True)
    task_id = client.call("work")
    eventually(lambda: "half a pair" in client.get(task_id).get("statusMessage", ""), "nothing is said")
    gate.open()
    assert client.text(task_id) == "done"


def test_whoever_waits_hears_such_a_message_too(server: MCPServer, waiting: Conversation) -> None:
    def work(ctx: Context) -> str:
        ctx.report_progress(1, 2, HALF)
        return "done"

    add(server, work, read_only=True)
    outcome = waiting.request("tools/call", {"name": "work", "_meta": {"progressToken": "far"}})
    assert outcome.text == "done"
    assert [each["progress"] for each in outcome.told("notifications/progress")] == [1]


def test_progress_that_is_no_number_is_not_told(server: MCPServer, waiting: Conversation) -> None:
    def work(ctx: Context) -> str:
        for progress in (float("nan"), float("inf")):
            ctx.report_progress(progress, None, "Where am I?")
        return "done"

    add(server, work, read_only=True)
    outcome = waiting.request("tools/call", {"name": "work", "_meta": {"progressToken": "far"}})
    assert outcome.text == "done"


def test_an_error_whose_words_are_no_text_is_told_as_far_as_they_are(server: MCPServer, client: TaskClient) -> None:
    def work() -> str:
        raise InvalidParams(HALF)

    add(server, work)
    failed = client.become(client.call("work"), "failed")
    assert failed["error"]["code"] == -32602
    assert failed["error"]["message"].startswith("half a pair")


def test_a_question_that_cannot_be_saved_ends_the_task(
    server: MCPServer, client: TaskClient, monkeypatch: Any, caplog: Any
) -> None:
    def refuse(*_: Any) -> bool:
        raise ValueError("no such text")

    monkeypatch.setattr(store, "ask", refuse)
    add(server, two_questions)
    failed = client.become(client.call("work"), "failed")
    assert failed["error"]["message"].startswith("Internal server error.")
    assert "no such text" in caplog.text


def test_one_task_whose_words_cannot_be_saved_keeps_no_other_from_being_stopped(
    server: MCPServer, client: TaskClient, gate: Gate, monkeypatch: Any, caplog: Any
) -> None:
    note = store.save_progress

    def refuse(task: Task, *args: Any) -> bool:
        if task.tool == "bad":
            raise ValueError("no such text")
        return note(task, *args)

    monkeypatch.setattr(store, "save_progress", refuse)

    def bad(ctx: Context) -> str:
        ctx.report_progress(1, 2, "bad")
        gate.wait()
        return "done"

    stopped = threading.Event()

    async def good(ctx: Context) -> str:
        try:
            await asyncio.sleep(WITHIN)
        finally:
            stopped.set()
        return "done"

    add(server, bad, "bad", read_only=True)
    add(server, good, "good", read_only=True)
    spoiled = client.call("bad")
    gate.reached()
    other = client.call("good")
    eventually(lambda: Task.objects.filter(task_id=other).exclude(worker="").exists(), "it does not run")
    assert store.cancel(Task.objects.get(task_id=other))  # as another process does
    assert stopped.wait(5)
    gate.open()
    assert client.text(spoiled) == "done"
    assert "no such text" in caplog.text


def test_a_task_that_could_not_be_begun_is_not_held_for_ever(
    server: MCPServer, client: TaskClient, monkeypatch: Any, caplog: Any
) -> None:
    tries = []
    dialogue_of = store.dialogue_of

    def once(task: Task) -> Any:
        tries.append(1)
        if len(tries) == 1:
            raise ValueError("the database is gone")
        return dialogue_of(task)

    monkeypatch.setattr(store, "dialogue_of", once)
    add(server, lambda: "done", read_only=True, idempotent=True)
    task_id = client.call("work")
    assert client.text(task_id) == "done"
    # The thread that failed logs after it has released the task, which another may end before.
    eventually(lambda: "the database is gone" in caplog.text, "the error is not logged")


# Stopping


def test_what_a_coroutine_does_last_when_it_is_stopped_is_not_stopped_too(
    server: MCPServer, client: TaskClient, gate: Gate, looks: list[object]
) -> None:
    tidied = threading.Event()

    async def work() -> str:
        try:
            await gate.await_()
        finally:
            looks.clear()
            while len(looks) < 2:  # noqa: ASYNC110 - the process looks in another thread whether it was stopped
                await asyncio.sleep(0.005)
            tidied.set()
        return "done"

    add(server, work, read_only=True)
    task_id = client.call("work")
    gate.reached()
    client.cancel(task_id)
    assert tidied.wait(5)
    eventually(lambda: not heartbeat.holds(task_id), "it does not end")
    assert client.get(task_id)["status"] == "cancelled"


def test_tasks_that_are_cancelled_before_their_turn_are_kept_in_mind_no_more(
    server: MCPServer, client: TaskClient, gate: Gate
) -> None:
    def work() -> str:
        gate.wait()
        return "done"

    add(server, work, read_only=True)
    running = [client.call("work") for _ in range(settings.TASK_THREADS)]
    eventually(lambda: len(heartbeat._running) == len(running), "they do not run")
    late = [client.call("work") for _ in range(8)]
    assert heartbeat._queued >= set(late)
    for task_id in late:
        client.cancel(task_id)
    eventually(lambda: not heartbeat._queued, "they still wait for their turn")
    gate.open()
    assert [client.text(each) for each in running] == ["done"] * len(running)

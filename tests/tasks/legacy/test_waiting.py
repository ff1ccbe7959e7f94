"""Waiting for the result of a task, and what comes meanwhile."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.test import override_settings
from django.utils import timezone

from django_mcp import Context, MCPServer, models, tool
from django_mcp.models import Task
from django_mcp.revisions.legacy import task_results
from tests.clients import LEGACY
from tests.conversation import Call as Waiting
from tests.conversation import Conversation
from tests.exchange import Received, Room, eventually
from tests.tasks.legacy.work import RELATED, Work, begun, state, until, wait_for

UNDER_ASGI = pytest.param("view under asgi", marks=pytest.mark.slow)
PROGRESS, MESSAGE = "notifications/progress", "notifications/message"


@pytest.fixture(params=["asgi", UNDER_ASGI])
def edge(request: pytest.FixtureRequest) -> Any:
    """Where a stream can be held; what the other edge does is said where it is named."""
    return request.param


at_the_other_edge = pytest.mark.parametrize("edge", ["view"])


@contextmanager
def setting(**changed: Any) -> Iterator[None]:
    with override_settings(DJANGO_MCP={**settings.DJANGO_MCP, **changed}):
        yield


def begun_with(talk: Conversation, token: Any, **arguments: Any) -> str:
    """The id of a new task whose call has a progress token."""
    params = {"name": "wait", "arguments": arguments, "task": {}, "_meta": {"progressToken": token}}
    return talk.request("tools/call", params).result["task"]["taskId"]


@pytest.fixture
def listeners(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Those who wait, each from when on it hears what a task says: what it said before is not repeated."""
    words, listeners = task_results.TaskMessages, list[object]()

    def begin(*given: Any) -> Any:
        made = words(*given)
        listeners.append(made)
        return made

    monkeypatch.setattr(task_results, "TaskMessages", begin)
    return listeners


def text_of(waiting: Waiting) -> str:
    """The text of the result that is waited for."""
    return str([*waiting][-1]["result"]["content"][0]["text"])


def lose(waiting: Waiting) -> None:
    """Lose the connection of a stream that has begun."""
    assert waiting._message(waiting.exchange.next() or Received()) is None
    waiting.exchange.leave()


def test_the_answer_comes_when_the_task_is_over(talk: Conversation, work: Work) -> None:
    task_id = begun(talk, steps=0)
    call = wait_for(talk, task_id)
    first = call.exchange.next()
    assert first is not None
    assert first.id
    assert state(talk, task_id)["status"] == "working"
    work.may_end.set()
    (message,) = call
    assert message["result"]["content"][0]["text"] == "waited"
    assert message["result"]["_meta"][RELATED] == {"taskId": task_id}
    assert call.next() is None


def test_a_caller_with_too_many_open_streams_waits_for_no_further_result(talk: Conversation, work: Work) -> None:
    task_id = begun(talk)
    with setting(MAX_STREAMS_PER_CALLER=2):
        first, second = wait_for(talk, task_id), wait_for(talk, task_id)
        event = first.exchange.next()
        assert event is not None
        second.exchange.next()
        rows = models.Call.objects.count()
        refused = wait_for(talk, task_id).exchange.done()
        assert (refused.status, refused.headers["retry-after"].isdecimal()) == (429, True)
        assert models.Call.objects.count() == rows
        assert talk.get(event.id).begun().status == 200, "a client that comes back has lost its stream"
        first.exchange.done()
        assert wait_for(talk, task_id).exchange.done().status == 429
        second.exchange.leave()
        eventually(lambda: wait_for(talk, task_id).exchange.begun().status == 200, "the place is not free again")
    work.end()


@pytest.mark.postgresql
def test_progress_and_log_come_with_the_task_they_are_of(
    talk: Conversation, work: Work, listeners: list[object]
) -> None:
    talk.request("logging/setLevel", {"level": "info"})
    task_id = begun_with(talk, "mine", steps=2)
    call = wait_for(talk, task_id)
    call.exchange.next()
    eventually(lambda: listeners, "nobody listens")
    messages = []
    for _ in range(2):
        work.may_go_on.set()
        messages += [call.next() or {}, call.next() or {}]
    work.may_end.set()
    assert len([*call]) == 1
    meta = {RELATED: {"taskId": task_id}}
    assert [each["params"] for each in messages if each["method"] == PROGRESS] == [
        {"progressToken": "mine", "progress": step, "total": 2, "message": f"Step {step}", "_meta": meta}
        for step in (1, 2)
    ]
    logged = [each["params"] for each in messages if each["method"] == MESSAGE]
    assert [each["data"] for each in logged] == ["This is step 1.", "This is step 2."]
    assert all(each["_meta"] == meta for each in logged)


def test_who_did_not_ask_for_progress_hears_of_none(talk: Conversation, work: Work) -> None:
    talk.request("logging/setLevel", {"level": "error"})
    task_id = begun(talk)
    call = wait_for(talk, task_id)
    call.exchange.next()
    work.end()
    assert len([*call]) == 1


def test_what_was_said_before_is_not_repeated(talk: Conversation, work: Work, listeners: list[object]) -> None:
    task_id = begun_with(talk, 7, steps=2)
    work.may_go_on.set()
    eventually(lambda: Task.objects.get().progress == 1, "there is no progress")
    call = wait_for(talk, task_id)
    call.exchange.next()
    eventually(lambda: listeners, "nobody listens")
    work.may_go_on.set()
    told = [(call.next() or {})["params"] for _ in range(2)]
    work.may_end.set()
    assert {each.get("progress", each.get("data")) for each in told} == {2, "This is step 2."}
    assert len([*call]) == 1


def test_progress_grows_whatever_the_tool_says(
    server: MCPServer, talk: Conversation, work: Work, listeners: list[object]
) -> None:
    @tool(server=server, read_only=True, task="optional")
    def stumble(ctx: Context) -> str:
        with work.running():
            for step in (2, 1, 3):
                work.until(work.may_go_on, ctx)
                work.may_go_on.clear()
                ctx.report_progress(step)
            work.until(work.may_end, ctx)
            return "arrived"

    params = {"name": "stumble", "arguments": {}, "task": {}, "_meta": {"progressToken": "mine"}}
    call = wait_for(talk, talk.request("tools/call", params).result["task"]["taskId"])
    call.exchange.next()
    eventually(lambda: listeners, "nobody listens")
    work.may_go_on.set()
    assert (call.next() or {})["params"]["progress"] == 2
    work.may_go_on.set()
    eventually(lambda: Task.objects.get().progress == 1, "it does not go back")
    work.may_go_on.set()
    assert (call.next() or {})["params"]["progress"] == 3


# Who does not stay


def test_a_client_that_lost_the_stream_comes_back_for_the_answer(talk: Conversation, work: Work) -> None:
    task_id = begun(talk)
    call = wait_for(talk, task_id)
    lose(call)
    call.come_back()
    work.end()
    assert text_of(call) == "waited"


def test_it_comes_back_although_all_is_over(talk: Conversation, work: Work) -> None:
    task_id = begun(talk)
    call = wait_for(talk, task_id)
    lose(call)
    work.end()
    until(talk, task_id, "completed")
    call.come_back()
    assert text_of(call) == "waited"


def test_who_gives_up_waiting_leaves_the_task_alone(talk: Conversation, work: Work) -> None:
    task_id = begun(talk)
    call = wait_for(talk, task_id, request_id="given up")
    call.exchange.next()
    assert talk.notify("notifications/cancelled", {"requestId": "given up"}).status == 202
    assert call.exchange.next() is None
    assert state(talk, task_id)["status"] == "working"
    work.end()
    assert text_of(wait_for(talk, task_id)) == "waited"


def test_who_gave_up_while_away_hears_nothing_more(talk: Conversation, work: Work) -> None:
    task_id = begun(talk, "ask")
    until(talk, task_id, "input_required")
    call = wait_for(talk, task_id, request_id="given up")
    lose(call)
    talk.notify("notifications/cancelled", {"requestId": "given up"})
    assert talk.get(call.ids[0]).done().events[-1].message is None
    assert state(talk, task_id)["status"] == "input_required"


def test_the_end_of_the_session_ends_the_waiting(talk: Conversation, room: Room, work: Work) -> None:
    task_id = begun(talk)
    call = wait_for(talk, task_id)
    call.exchange.next()
    assert talk.delete().status == 204
    assert call.exchange.next() is None
    assert state(Conversation(room, LEGACY), task_id)["status"] == "working"


@pytest.mark.postgresql
def test_many_wait_for_the_same_task(talk: Conversation, room: Room, work: Work) -> None:
    task_id = begun(talk)
    waiting = [wait_for(each, task_id) for each in (talk, talk, Conversation(room, LEGACY))]
    for each in waiting:
        each.exchange.next()
    work.end()
    assert [text_of(each) for each in waiting] == ["waited"] * 3


# Ends of another kind


@pytest.mark.postgresql
def test_who_waits_hears_that_the_task_was_cancelled(talk: Conversation, work: Work) -> None:
    task_id = begun(talk)
    call = wait_for(talk, task_id)
    call.exchange.next()
    talk.request("tasks/cancel", {"taskId": task_id})
    error = [*call][-1]["error"]
    assert error == {"code": -32602, "message": "The task was cancelled, so it has no result."}


def test_who_waits_hears_that_the_task_has_expired(talk: Conversation, work: Work) -> None:
    task_id = begun(talk)
    with setting(KEEP_ALIVE_INTERVAL=0.05, POLL_INTERVAL=0.05):
        call = wait_for(talk, task_id)
        call.exchange.next()
        Task.objects.update(expires=timezone.now() - timedelta(seconds=1))
        error = [*call][-1]["error"]
    assert error["code"] == -32602
    assert task_id in error["message"]


def test_without_a_session_there_is_a_stream_to_wait_on(sessionless: Conversation, work: Work) -> None:
    task_id = begun(sessionless)
    call = wait_for(sessionless, task_id)
    first = call.exchange.next()
    assert first is not None
    assert first.is_comment
    work.end()
    assert text_of(call) == "waited"


def test_who_takes_no_stream_waits_for_a_while(talk: Conversation, work: Work) -> None:
    task_id = begun(talk)
    plain = {"accept": "application/json"}
    with setting(TASK_WAIT_TIMEOUT=0.1):
        error = talk.request("tasks/result", {"taskId": task_id}, headers=plain).error
    assert "still running" in error["message"]
    work.end()
    assert talk.request("tasks/result", {"taskId": task_id}, headers=plain).text == "waited"


# Where no stream can be held


@at_the_other_edge
def test_a_client_comes_back_as_long_as_it_takes(talk: Conversation, work: Work) -> None:
    task_id = begun(talk)
    with setting(TASK_WAIT_TIMEOUT=0.1):
        call = wait_for(talk, task_id)
        while (event := call.exchange.next()) is not None:
            assert call._message(event) is None
        assert call.exchange.events[-1].retry
        call.come_back()
        assert call.exchange.done().events[-1].message is None
    work.end()
    assert text_of(call) == "waited"


@at_the_other_edge
def test_without_a_session_nobody_can_come_back(sessionless: Conversation, work: Work) -> None:
    task_id = begun(sessionless)
    with setting(TASK_WAIT_TIMEOUT=0.1):
        error = sessionless.request("tasks/result", {"taskId": task_id}).error
    assert error["code"] == -32603
    assert "tasks/get" in error["message"]
    work.end()
    assert sessionless.request("tasks/result", {"taskId": task_id}).text == "waited"


@pytest.mark.parametrize("edge", ["asgi", "view", UNDER_ASGI])
def test_whoever_has_the_answer_waits_no_more(talk: Conversation, work: Work) -> None:
    task_id = begun(talk, "ask")
    call = wait_for(talk, task_id)
    assert call.next() is not None  # the question
    assert models.Call.objects.get().status == models.Call.Status.ASKING
    assert talk.request("tasks/cancel", {"taskId": task_id}).result["status"] == "cancelled"
    assert "error" in [*call][-1]
    assert models.Call.objects.get().status == models.Call.Status.ENDED
    call.come_back()
    call.ids.clear()
    assert "error" in (call.next() or {})

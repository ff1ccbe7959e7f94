"""Questions of a task: they reach whoever waits for its result, and the answers the task, whoever brings them."""

import json
from typing import Any

import pytest

from django_mcp import Context, Elicitation, MCPServer, Roots, Sampling, tool
from django_mcp.models import Call, PendingRequest, Task
from tests.clients import LEGACY
from tests.conversation import DECLINE, ClientError, Conversation, accept, said
from tests.exchange import Room, eventually
from tests.tasks.legacy.test_waiting import UNDER_ASGI, lose, text_of
from tests.tasks.legacy.work import NAMES, RELATED, Work, answers, begun, state, until, wait_for

ADA, GRACE = accept(name="Ada"), accept(name="Grace")

where_streams_are_held = pytest.mark.parametrize("edge", ["asgi", UNDER_ASGI])


def asked(talk: Conversation, **arguments: Any) -> str:
    """The id of a new task that waits for its client."""
    task_id = begun(talk, "ask", **arguments)
    until(talk, task_id, "input_required")
    return task_id


def test_who_waits_is_asked_and_the_task_goes_on(talk: Conversation) -> None:
    task_id = asked(talk)
    outcome = talk.request("tasks/result", {"taskId": task_id}, [ADA])
    assert outcome.text == "Ada"
    (question,) = outcome.asked
    assert question["method"] == "elicitation/create"
    assert question["params"]["message"] == "Who are you?"
    assert question["params"]["_meta"] == {RELATED: {"taskId": task_id}}
    assert state(talk, task_id)["status"] == "completed"


def test_a_task_asks_as_often_as_it_has_to(talk: Conversation) -> None:
    outcome = talk.request("tasks/result", {"taskId": asked(talk, again=True)}, [ADA, GRACE])
    assert outcome.text == "Ada and Grace"


def test_who_waits_already_is_asked_when_the_task_asks(talk: Conversation) -> None:
    outcome = talk.request("tasks/result", {"taskId": begun(talk, "ask")}, [ADA])
    assert outcome.text == "Ada"


def test_an_answer_that_does_not_fit_is_asked_for_again(talk: Conversation) -> None:
    outcome = talk.request("tasks/result", {"taskId": asked(talk)}, [accept(nothing=1), ADA])
    assert outcome.text == "Ada"
    assert len(outcome.asked) == 2


def test_several_questions_come_at_once(server: MCPServer, talk: Conversation) -> None:
    @tool(server=server, read_only=True, task="optional")
    def ask_all(ctx: Context) -> str:
        name, word, roots = ctx.ask(Elicitation("Who?", NAMES), Sampling("Say something."), Roots())
        return f"{name.data['name']}, {word.text}, {len(roots)}"

    def answer(question: Any) -> Any:
        kinds = {"elicitation/create": ADA, "sampling/createMessage": said("Hi"), "roots/list": {"roots": []}}
        return kinds[question["method"]]

    task_id = begun(talk, "ask_all")
    until(talk, task_id, "input_required")
    outcome = talk.request("tasks/result", {"taskId": task_id}, answer)
    assert outcome.text == "Ada, Hi, 0"
    assert len(outcome.asked) == 3
    assert all(each["params"]["_meta"] == {RELATED: {"taskId": task_id}} for each in outcome.asked)


def test_who_declines_is_heard(talk: Conversation) -> None:
    assert talk.request("tasks/result", {"taskId": asked(talk)}, [DECLINE]).text == "decline: nobody"


def test_an_error_of_the_client_is_one_of_the_tool(talk: Conversation) -> None:
    outcome = talk.request("tasks/result", {"taskId": asked(talk)}, [ClientError("My person is asleep.")])
    assert outcome.failed
    assert "My person is asleep." in outcome.text


def test_a_client_that_cannot_be_asked_is_not(room: Room) -> None:
    talk = Conversation(room, LEGACY, capabilities={})
    outcome = talk.request("tasks/result", {"taskId": begun(talk, "ask")})
    assert outcome.failed
    assert outcome.asked == []


def test_before_a_task_its_call_may_ask(server: MCPServer, talk: Conversation) -> None:
    def sure(ctx: Context) -> None:
        ctx.elicit("Really?", NAMES)

    @tool(server=server, read_only=True, task="optional", before_task=sure)
    def act(ctx: Context) -> str:
        return "acted"

    outcome = talk.request("tools/call", {"name": "act", "arguments": {}, "task": {}}, [ADA])
    assert [each["params"]["message"] for each in outcome.asked] == ["Really?"]
    assert wait_for(talk, outcome.result["task"]["taskId"]).next()["result"]["content"][0]["text"] == "acted"  # type: ignore[index]


# Who is asked


@where_streams_are_held
def test_who_waits_in_another_session_is_asked_too(talk: Conversation, room: Room, work: Work) -> None:
    work.holds_ask = True
    task_id = asked(talk)
    first, second = wait_for(talk, task_id), wait_for(Conversation(room, LEGACY), task_id)
    questions = [first.next() or {}, second.next() or {}]
    assert [each["params"]["message"] for each in questions] == ["Who are you?"] * 2
    assert questions[0]["id"] != questions[1]["id"]
    second.conversation.reply(questions[1], ADA)
    until(talk, task_id, "working")
    first.conversation.reply(questions[0], GRACE)  # too late
    work.end()
    assert [text_of(first), text_of(second)] == ["Ada", "Ada"]


def test_who_waits_again_is_asked_again(talk: Conversation) -> None:
    task_id = asked(talk)
    assert (wait_for(talk, task_id).next() or {})["params"]["message"] == "Who are you?"
    outcome = talk.request("tasks/result", {"taskId": task_id}, [ADA])
    assert len(outcome.asked) == 1
    assert outcome.text == "Ada"


@where_streams_are_held
def test_who_comes_back_is_not_asked_twice(talk: Conversation) -> None:
    task_id = asked(talk)
    call = wait_for(talk, task_id)
    question = call.next() or {}
    call.exchange.leave()
    call.come_back()
    talk.reply(question, ADA)
    assert [each for each in call if "method" in each] == []


@pytest.mark.postgresql
@where_streams_are_held
def test_who_lost_the_question_comes_back_for_it(talk: Conversation) -> None:
    task_id = asked(talk)
    call = wait_for(talk, task_id)
    lose(call)
    eventually(PendingRequest.objects.exists, "it is not asked")
    call.come_back()
    question = call.next() or {}
    assert question["id"] == PendingRequest.objects.get().request_id
    talk.reply(question, ADA)
    assert text_of(call) == "Ada"


@where_streams_are_held
def test_a_task_that_is_cancelled_while_it_asks_is_over_for_who_waits(talk: Conversation) -> None:
    task_id = asked(talk)
    call = wait_for(talk, task_id)
    question = call.next() or {}
    talk.request("tasks/cancel", {"taskId": task_id})
    assert "cancelled" in [*call][-1]["error"]["message"]
    talk.reply(question, ADA)
    assert state(talk, task_id)["status"] == "cancelled"


# Whose answer counts


def test_nobody_else_answers(talk: Conversation, other: Conversation, room: Room) -> None:
    task_id = asked(talk)
    question = wait_for(talk, task_id).next() or {}
    other.open().reply(question, GRACE)
    Conversation(room, LEGACY).open().reply(question, GRACE)  # the same caller, whom nobody asked there
    assert answers(task_id) == [None]
    talk.reply(question, ADA)
    assert answers(task_id) == [{"result": ADA}]
    assert text_of(wait_for(talk, task_id)) == "Ada"


@pytest.mark.postgresql
def test_one_answer_counts(talk: Conversation, work: Work) -> None:
    work.holds_ask = True
    task_id = asked(talk)
    question = wait_for(talk, task_id).next() or {}
    talk.reply(question, ADA)
    talk.reply(question, GRACE)
    work.end()
    assert text_of(wait_for(talk, task_id)) == "Ada"
    assert Task.objects.get().attempts == 2


def test_without_a_session_nobody_can_be_asked(talk: Conversation, sessionless: Conversation) -> None:
    task_id = asked(talk)
    error = sessionless.request("tasks/result", {"taskId": task_id}).error
    assert error["code"] == -32600
    assert "session" in error["message"]
    assert state(talk, task_id)["status"] == "input_required"


def test_nobody_hears_of_questions_by_asking_for_the_status(talk: Conversation) -> None:
    said = state(talk, asked(talk))
    assert "Who are you?" not in json.dumps(said)


# Older versions


def test_a_client_of_an_older_version_is_asked_where_it_waits(room: Room) -> None:
    talk = Conversation(room, "2025-06-18")
    outcome = talk.call("ask", again=True, answers=[ADA, GRACE])
    assert outcome.text == "Ada and Grace"
    assert not any("_meta" in each["params"] for each in outcome.asked)


def test_what_was_kept_of_who_waited_goes_with_the_session(talk: Conversation, room: Room) -> None:
    wait_for(talk, asked(talk)).next()
    assert Call.objects.exists()
    talk.delete()
    assert not Call.objects.exists()
    assert not PendingRequest.objects.exists()


def test_who_waits_can_be_asked_as_long_as_there_is_the_task(talk: Conversation) -> None:
    task_id = asked(talk)
    wait_for(talk, task_id).next()
    assert Call.objects.get().expires >= Task.objects.get(task_id=task_id).expires

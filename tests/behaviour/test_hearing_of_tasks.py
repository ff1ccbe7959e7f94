"""``notifications/tasks``: a client that listens to a task hears all there is to say of it, each time it changes."""

from collections.abc import Callable, Iterator
from threading import Event as Signal
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser

from django_mcp import BaseAuthentication, Context, MCPServer, Principal, RequestHead, tool
from django_mcp.models import Task
from django_mcp.tasks.extension import NAME
from tests.clients import META, MODERN
from tests.conversation import Call, Conversation
from tests.exchange import Room

pytestmark = pytest.mark.postgresql

KNOWS_TASKS = {"elicitation": {}, "extensions": {NAME: {}}}
NAMES = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


class Named(BaseAuthentication):
    """Everybody is who they say they are."""

    blocking = False

    def authenticate(self, head: RequestHead, server: object) -> Principal:
        return Principal("test", head.headers.get("x-caller", "somebody"), AnonymousUser())


class Work:
    """Of the tool: each step waits for its turn."""

    def __init__(self) -> None:
        self.may_report, self.may_ask, self.may_end = Signal(), Signal(), Signal()

    def end(self) -> None:
        for each in (self.may_report, self.may_ask, self.may_end):
            each.set()


@pytest.fixture
def work() -> Iterator[Work]:
    work = Work()
    yield work
    work.end()


@pytest.fixture
def server(make_server: Callable[..., MCPServer], work: Work) -> MCPServer:
    server = make_server(authentication=[Named()])

    @tool(server=server, read_only=True, task="optional")
    def think(ctx: Context) -> str:
        """Tells how far it is, asks, and ends, each when it may."""
        work.may_report.wait(20)
        ctx.report_progress(1, 2, "Half-way")
        ctx.log("info", "This is for no stream.")
        work.may_ask.wait(20)
        answer = ctx.elicit("Who are you?", NAMES, key="name")
        work.may_end.wait(20)
        return f"I thought of {answer.data['name']}."

    return server


@pytest.fixture
def edge() -> str:
    """Streams are the same wherever they can be held."""
    return "asgi"


@pytest.fixture
def talk(room: Room) -> Conversation:
    return Conversation(room, MODERN)


def declaring(params: dict[str, Any], capabilities: dict[str, Any] = KNOWS_TASKS) -> dict[str, Any]:
    return {**params, "_meta": {META + "clientCapabilities": capabilities}}


def begun(talk: Conversation) -> str:
    """The id of a new task."""
    call = talk.begin("tools/call", declaring({"name": "think", "arguments": {}}))
    return call.next()["result"]["taskId"]


def listen(talk: Conversation, *task_ids: Any, **options: Any) -> Call:
    return talk.begin("subscriptions/listen", declaring({"notifications": {"taskIds": [*task_ids]}}), **options)


def heard(call: Call) -> dict[str, Any]:
    """The next state of a task, which is all of it."""
    message = call.next()
    assert message["method"] == "notifications/tasks"
    assert message["params"].pop("_meta") == {META + "subscriptionId": call.body["id"]}
    return message["params"]


def honoured(call: Call) -> dict[str, Any]:
    return call.next()["params"]["notifications"]


def test_each_state_comes_with_all_there_is_to_say_of_it(
    open_database: None, server: MCPServer, talk: Conversation, work: Work
) -> None:
    task_id = begun(talk)
    call = listen(talk, task_id)
    assert honoured(call) == {"taskIds": [task_id]}
    assert heard(call)["status"] == "working"

    work.may_report.set()
    reported = heard(call)
    assert (reported["status"], reported["statusMessage"]) == ("working", "Half-way (1 of 2)")

    work.may_ask.set()
    asking = heard(call)
    assert asking["status"] == "input_required"
    assert asking["inputRequests"]["name"]["params"]["message"] == "Who are you?"

    answers = {"name": {"action": "accept", "content": {"name": "Ada"}}}
    update = declaring({"taskId": task_id, "inputResponses": answers})
    assert talk.begin("tasks/update", update).next()["result"]["resultType"] == "complete"
    assert heard(call)["status"] == "working"

    work.may_end.set()
    told = heard(call)
    while told["status"] == "working":  # it reports again, for it is run again from the top
        told = heard(call)
    assert told["status"] == "completed"
    assert told["result"]["content"] == [{"type": "text", "text": "I thought of Ada."}]
    asked = talk.begin("tasks/get", declaring({"taskId": task_id})).next()["result"]
    assert {key: value for key, value in asked.items() if key not in {"_meta", "resultType"}} == told


def test_who_listens_late_hears_at_once_how_it_ended(
    open_database: None, server: MCPServer, talk: Conversation, work: Work
) -> None:
    task_id = begun(talk)
    talk.begin("tasks/cancel", declaring({"taskId": task_id})).next()
    call = listen(talk, task_id)
    honoured(call)
    assert heard(call)["status"] == "cancelled"


def test_of_others_tasks_and_of_none_nothing_is_heard(
    open_database: None, server: MCPServer, talk: Conversation, work: Work
) -> None:
    task_id = begun(talk)
    theirs = Task.objects.get(task_id=task_id)
    theirs.pk, theirs.task_id, theirs.principal_id = None, f"theirs-{task_id}", "somebody else"
    theirs.save()
    try:
        assert honoured(listen(talk, theirs.task_id, "unknown", "nul\0", task_id, task_id)) == {"taskIds": [task_id]}
    finally:
        theirs.delete()


def test_ids_that_are_none_are_refused(open_database: None, talk: Conversation, subtests: pytest.Subtests) -> None:
    for wrong in ["one", [1], [["one"]], ["one"] * 101]:
        with subtests.test(wrong=wrong):
            error = talk.begin("subscriptions/listen", declaring({"notifications": {"taskIds": wrong}})).next()["error"]
            assert (error["code"], "taskIds" in error["message"]) == (-32602, True)


def test_a_client_that_knows_no_tasks_cannot_listen_to_them(open_database: None, talk: Conversation) -> None:
    params = declaring({"notifications": {"taskIds": ["one"]}}, {})
    error = talk.begin("subscriptions/listen", params).next()["error"]
    assert error["code"] == -32021
    assert error["data"] == {"requiredCapabilities": {"extensions": {NAME: {}}}}


def test_where_nothing_has_tasks_the_ids_are_passed_over(
    open_database: None, make_server: Callable[..., MCPServer], room: Room
) -> None:
    tool(server=room.server, name="quick")(lambda: "x")
    room.server.remove(lambda primitive: primitive.name != "quick")
    call = listen(Conversation(room, MODERN), "one")
    assert honoured(call) == {}

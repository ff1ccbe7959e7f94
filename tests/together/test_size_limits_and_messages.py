"""The limit of results, and what a call sends before its result: log and progress messages, and questions."""

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.conf import settings
from django.test import override_settings
from django.utils.translation import gettext_lazy

from django_mcp import Context, Elicitation, ImageContent, MCPServer, Sampling, URLElicitation, prompt, resource, tool
from django_mcp.models import Event, Task
from django_mcp.primitives.output import shortened
from tests.clients import LEGACY, MODERN
from tests.conftest import end_tasks
from tests.conversation import Conversation, accept
from tests.exchange import Room, eventually

pytestmark = [pytest.mark.postgresql, pytest.mark.usefixtures("_limited")]

MOST = 10_000
ROOM = 100
"""For the mark, and what is around a text."""
NAME = {"type": "object", "properties": {"name": {"type": "string"}}}
LONG = "x" * 50_000
WANTS = {"progressToken": 1, "io.modelcontextprotocol/logLevel": "debug"}


@pytest.fixture
def _limited() -> Iterator[None]:
    own = {"MAX_OUTPUT_CHARS": MOST, "MAX_BINARY_BYTES": 1000, "POLL_INTERVAL": 0.02}
    with override_settings(DJANGO_MCP={**settings.DJANGO_MCP, **own}):
        yield


@pytest.fixture
def room(server: MCPServer, open_database: None) -> Iterator[Room]:
    with Room(server, "asgi") as room:
        yield room
    end_tasks()


def told(talk: Conversation, name: str, method: str, **params: Any) -> list[dict[str, Any]]:
    if not talk.is_modern:
        talk.request("logging/setLevel", {"level": "debug"})
    outcome = talk.request("tools/call", {"name": name, "arguments": {}, "_meta": WANTS, **params})
    assert outcome.text == "done"
    return outcome.told(method)


DATA: dict[str, Any] = {
    "a text": LONG,
    "a lazy translation": gettext_lazy(LONG),
    "a list": [LONG, 1],
    "many values": {str(number): number for number in range(10_000)},
    "a deep value": {"a": [{"b": {"c": LONG}}]},
    "a long key": {LONG: 1},
    "a set": set(range(10_000)),
    "other keys": {(1, 2): LONG},
    "a large number": 10**20_000,
}


@pytest.mark.parametrize("version", [MODERN, LEGACY])
def test_long_messages_are_cut_with_a_mark(
    server: MCPServer, room: Room, caplog: pytest.LogCaptureFixture, version: str, subtests: pytest.Subtests
) -> None:
    data: list[Any] = []

    @tool(server=server)
    def speak(ctx: Context) -> str:
        ctx.log("info", data[-1], logger=LONG)
        ctx.log("info", {"short": [1, "x"]}, logger="mine")
        ctx.report_progress(1, message=LONG)
        return "done"

    talk = Conversation(room, version)
    for name, value in DATA.items():
        with subtests.test(name):
            data.append(value)
            first, second = told(talk, "speak", "notifications/message")
            assert len(first["data"]) < MOST + ROOM
            assert first["data"].endswith(f"… [cut after {MOST:,} characters]")
            assert first["logger"].endswith(f"… [cut after {MOST:,} characters]")
            assert (second["data"], second["logger"]) == ({"short": [1, "x"]}, "mine")
    (progress,) = told(talk, "speak", "notifications/progress")
    assert progress["message"] == f"{'x' * MOST}… [cut after {MOST:,} characters]"
    assert "speak" in caplog.text
    assert "MAX_OUTPUT_CHARS" in caplog.text
    assert not [event for event in Event.objects.all() if len(event.data) > 3 * MOST]


def test_a_task_cuts_and_stores_likewise(server: MCPServer, room: Room) -> None:
    @tool(server=server, task="required")
    def work(ctx: Context) -> str:
        ctx.log("info", [LONG])
        ctx.report_progress(1, message=LONG)
        return "done"

    talk = Conversation(room, LEGACY)
    task = talk.request("tools/call", {"name": "work", "arguments": {}, "task": {}}).result["task"]["taskId"]
    eventually(lambda: Task.objects.get(task_id=task).is_over, "it does not end")
    messages = [event.data for event in Event.objects.all() if "cut after" in event.data]
    assert messages
    assert all(len(message) < MOST + 2 * ROOM for message in messages)
    assert len(Task.objects.get(task_id=task).message) < MOST + ROOM


LIMITS = {0: 50_000, 20_000: 20_000, 50: MOST, None: MOST}


@pytest.mark.parametrize(("most", "length"), LIMITS.items())
def test_the_limit_is_that_of_the_tool_but_leaves_room_for_a_form(
    server: MCPServer, room: Room, most: int | None, length: int
) -> None:
    @tool(server=server, max_output_chars=most)
    def speak(ctx: Context) -> str:
        ctx.log("info", LONG)
        return "done"

    (message,) = told(Conversation(room, MODERN), "speak", "notifications/message")
    assert message["data"].count("x") == length


QUESTIONS: dict[str, Callable[[], Any]] = {
    "a message": lambda: Elicitation(LONG, NAME),
    "a form": lambda: Elicitation(
        "Who?", {"type": "object", "properties": {"name": {"type": "string", "title": LONG}}}
    ),
    "an address": lambda: URLElicitation("Go", f"https://example.com/{LONG}"),
    "its message": lambda: URLElicitation(LONG, "https://example.com/"),
    "a prompt": lambda: Sampling(LONG),
    "a system prompt": lambda: Sampling("Hi", system_prompt=LONG),
    "a mapping": lambda: Sampling({"role": "user", "content": {"type": "text", "text": LONG}}),
    "a definition of a tool": lambda: Sampling("Hi", tools=[{"name": "a", "description": LONG, "inputSchema": {}}]),
    "an odd mapping": lambda: Sampling({"role": "user", "content": [{"type": "resource", "resource": LONG}, 1]}),
    "an image": lambda: Sampling(ImageContent(LONG.encode(), "image/png")),
}


@pytest.mark.parametrize("version", [MODERN, LEGACY])
@pytest.mark.parametrize("kind", ["tool", "prompt", "resource"])
def test_a_long_question_is_an_error_of_its_developer(
    server: MCPServer,
    room: Room,
    caplog: pytest.LogCaptureFixture,
    version: str,
    kind: str,
    subtests: pytest.Subtests,
) -> None:
    made: list[Callable[[], Any]] = []

    def ask(ctx: Context) -> str:
        return str(ctx.ask(made[-1]()))

    tool(server=server)(ask)
    prompt(server=server)(ask)
    resource("test:ask", server=server)(ask)
    method, params = {
        "tool": ("tools/call", {"name": "ask", "arguments": {}}),
        "prompt": ("prompts/get", {"name": "ask", "arguments": {}}),
        "resource": ("resources/read", {"uri": "test:ask"}),
    }[kind]
    talk = Conversation(room, version)
    for name, make in QUESTIONS.items():
        with subtests.test(name):
            made.append(make)
            caplog.clear()
            response = talk.request(method, params).response
            assert "reference" in str(response) or "Internal server error" in str(response)
            assert LONG not in str(response)
            limit = "MAX_BINARY_BYTES" if name == "an image" else "MAX_OUTPUT_CHARS"
            assert limit in caplog.text
            assert LONG not in caplog.text
    assert not [event for event in Event.objects.all() if len(event.data) > MOST]


def test_questions_that_are_asked_together_are_limited_together(
    server: MCPServer, room: Room, caplog: pytest.LogCaptureFixture
) -> None:
    @tool(server=server)
    def ask(ctx: Context, count: int) -> str:
        return str(len(ctx.ask(*(Elicitation("y" * 4000, NAME, key=str(number)) for number in range(count)))))

    talk = Conversation(room, MODERN)
    assert talk.call("ask", answers=lambda _: accept(name="Ann"), count=2).text == "2"
    assert talk.call("ask", count=3).failed
    assert "MAX_OUTPUT_CHARS" in caplog.text


def test_an_image_is_counted_as_bytes_and_not_as_text(server: MCPServer, room: Room) -> None:
    @tool(server=server)
    def look(ctx: Context) -> str:
        return ctx.sample([ImageContent(b"x" * 900, "image/png"), "What is this?"]).text

    answer = {"role": "assistant", "content": {"type": "text", "text": "A cat"}, "model": "m"}
    assert Conversation(room, MODERN).call("look", answers=[answer]).text == "A cat"


def test_what_is_stored_of_all_messages_of_a_call_is_limited(
    server: MCPServer, room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that are not stored are sent, and the last is stored."""
    monkeypatch.setattr("django_mcp.revisions.legacy.channel.MAX_STORED_BYTES", 10 * MOST)
    monkeypatch.setattr("django_mcp.tasks.channel.MAX_STORED_BYTES", 10 * MOST)

    def speak(ctx: Context) -> str:
        for _ in range(99):
            ctx.log("info", LONG)
        ctx.log("info", "the last")
        return "done"

    tool(server=server)(speak)
    tool(server=server, name="work", task="required")(speak)
    talk = Conversation(room, LEGACY)
    assert told(talk, "speak", "notifications/message")[-1]["data"] == "the last"
    stored = list(Event.objects.values_list("data", flat=True))
    assert sum(map(len, stored)) < 15 * MOST
    assert any("the last" in data for data in stored)
    Event.objects.all().delete()
    task = talk.request("tools/call", {"name": "work", "arguments": {}, "task": {}}).result["task"]["taskId"]
    eventually(lambda: Task.objects.get(task_id=task).is_over, "it does not end")
    assert sum(map(len, Event.objects.values_list("data", flat=True))) < 15 * MOST


def test_no_more_of_a_long_value_is_encoded_than_is_sent() -> None:
    class Long(list[int]):
        encoded = 0

        def __iter__(self) -> Iterator[int]:
            for value in super().__iter__():
                Long.encoded += 1
                yield value

    assert shortened(Long(range(100_000)), MOST).startswith("[0, 1, 2")
    assert Long.encoded < MOST


@pytest.mark.parametrize("value", [{"a": object()}, {"a": float("nan")}])
def test_what_cannot_be_encoded_is_left_to_be_reported(value: Any) -> None:
    assert shortened(value, MOST) is value


def test_nothing_is_logged_of_short_messages(server: MCPServer, room: Room, caplog: pytest.LogCaptureFixture) -> None:
    @tool(server=server)
    def speak(ctx: Context) -> str:
        ctx.log("info", "x" * MOST)
        return "done"

    with caplog.at_level(logging.WARNING):
        (message,) = told(Conversation(room, MODERN), "speak", "notifications/message")
    assert message["data"] == "x" * MOST
    assert "cut" not in caplog.text

"""The official Python client where the server speaks too: questions, progress, log messages, changes."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest
from mcp import MCPError, types
from mcp.client import Client

from tests.real_clients.sites import Site

T = TypeVar("T")

pytestmark = [
    pytest.mark.parametrize("mode", ["legacy", "auto", "2026-07-28"]),
    # The library warns of what the newest version deprecates, which is what is tried here.
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),
]


@dataclass
class Person:
    """Who sits at the client: what they answer, and what they were asked and told."""

    answers: list[types.ElicitResult] = field(default_factory=list)
    asked: list[Any] = field(default_factory=list)
    told: list[Any] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def elicit(self, context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        self.asked.append(params)
        return self.answers.pop(0)

    async def sample(self, context: Any, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
        self.asked.append(params)
        content = types.TextContent(type="text", text="Paris")
        return types.CreateMessageResult(role="assistant", model="a-model", content=content)

    async def roots(self, context: Any) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[types.Root(uri="file:///home/ada", name="Home")])

    async def hear(self, message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self.changed.set()

    async def read(self, params: types.LoggingMessageNotificationParams) -> None:
        self.told.append(params.data)


def accept(**content: Any) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content=content)


@dataclass
class Room:
    """Where a client of a mode meets a site."""

    site: Site
    mode: str

    @property
    def modern(self) -> bool:
        return self.mode != "legacy"

    def use(self, work: Callable[[Client], Awaitable[T]], **options: Any) -> T:
        async def main() -> T:
            async with Client(self.site.url, mode=self.mode, read_timeout_seconds=30, **options) as client:
                return await asyncio.wait_for(work(client), 60)

        return asyncio.run(main())

    def call(self, name: str, arguments: dict[str, Any] | None = None, /, **options: Any) -> Any:
        return self.use(lambda client: client.call_tool(name, arguments or {}), **options)


@pytest.fixture
def room(interactive: Site, mode: str) -> Room:
    return Room(interactive, mode)


@pytest.fixture
def person() -> Person:
    return Person()


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (accept(username="ada", email="ada@example.com"), ["action=accept", "ada@example.com"]),
        (types.ElicitResult(action="decline"), ["action=decline", "content=None"]),
        (types.ElicitResult(action="cancel"), ["action=cancel", "content=None"]),
    ],
    ids=["accept", "decline", "cancel"],
)
def test_a_user_is_asked_and_answers(room: Room, person: Person, answer: Any, words: list[str]) -> None:
    person.answers = [answer]
    result = room.call("test_elicitation", {"message": "Who are you?"}, elicitation_callback=person.elicit)
    (question,) = person.asked
    assert question.message == "Who are you?"
    assert set(question.requested_schema["properties"]) == {"username", "email"}
    assert all(word in result.content[0].text for word in words)


def test_one_question_comes_after_the_other(room: Room, person: Person) -> None:
    person.answers = [accept(name="Ada"), accept(color="green")]
    result = room.call("test_input_required_result_multi_round", elicitation_callback=person.elicit)
    assert [question.message[:6] for question in person.asked] == ["Step 1", "Step 2"]
    assert result.content[0].text == "Ada likes green."


def test_the_clients_model_is_asked(room: Room, person: Person) -> None:
    arguments = {"prompt": "What is the capital of France?"}
    result = room.call("test_sampling", arguments, sampling_callback=person.sample)
    assert person.asked[0].max_tokens == 100
    assert result.content[0].text == "LLM response: Paris"


def test_several_are_asked_at_once(room: Room, person: Person) -> None:
    person.answers = [accept(name="Ada")]
    result = room.call(
        "test_input_required_result_multiple_inputs",
        elicitation_callback=person.elicit,
        sampling_callback=person.sample,
        list_roots_callback=person.roots,
    )
    assert result.content[0].text == "Paris Ada has 1 roots."


def test_a_prompt_may_ask_too(room: Room, person: Person) -> None:
    person.answers = [accept(context="gardening")]

    async def get(client: Client) -> Any:
        return await client.get_prompt("test_input_required_result_prompt", {})

    assert "gardening" in room.use(get, elicitation_callback=person.elicit).messages[0].content.text


def test_who_cannot_be_asked_is_told_what_is_needed(room: Room) -> None:
    async def call(client: Client) -> tuple[int | None, str]:
        try:
            result = await client.call_tool("test_missing_capability", {})
        except MCPError as error:
            return error.error.code, str(error.error.data)
        assert result.is_error
        return None, result.content[0].text

    code, words = room.use(call)
    assert code == (-32021 if room.modern else None)
    assert "sampling" in words


def test_progress_is_reported_while_the_tool_runs(room: Room) -> None:
    reports: list[tuple[float, float | None, str | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        reports.append((progress, total, message))

    async def call(client: Client) -> Any:
        return await client.call_tool("test_tool_with_progress", {}, progress_callback=note)

    assert not room.use(call).is_error
    assert reports == [(done, 100, f"Completed step {done} of 100") for done in (0, 50, 100)]


def test_log_messages_are_heard_where_they_are_wanted(room: Room, person: Person) -> None:
    async def call(client: Client) -> None:
        if not room.modern:
            await client.set_logging_level("info")
        await client.call_tool("test_tool_with_logging", {})

    level = {"log_level": "info"} if room.modern else {}
    room.use(call, logging_callback=person.read, **level)
    assert person.told == ["Tool execution started", "Tool processing data", "Tool execution completed"]


def test_it_hears_that_the_list_of_tools_has_changed(room: Room, person: Person) -> None:
    async def listen(client: Client) -> None:
        async with client.listen(tools_list_changed=True) as events:
            await client.call_tool("test_trigger_tool_change", {})
            await anext(aiter(events))

    async def wait(client: Client) -> None:
        """It opens its stream beside its first calls, so a change may come too early for it."""
        while not person.changed.is_set():
            await client.call_tool("test_trigger_tool_change", {})
            with suppress(TimeoutError):
                await asyncio.wait_for(person.changed.wait(), 1)

    room.use(listen if room.modern else wait, message_handler=person.hear)


def test_an_answer_arrives_although_the_connection_is_let_go(room: Room) -> None:
    result = room.call("test_reconnection")
    assert result.content[0].text == "This is the answer after the connection was closed."

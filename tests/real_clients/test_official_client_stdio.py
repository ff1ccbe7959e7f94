"""The official Python client, starting the server itself and talking to it over standard input and output."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest
from mcp import StdioServerParameters, types
from mcp.client import Client

from tests.real_clients.agency import Agency
from tests.real_clients.sites import DEMO, FIXTURES, PROJECT, Project, environment

T = TypeVar("T")

pytestmark = [
    pytest.mark.parametrize("mode", ["legacy", "auto", "2026-07-28"]),
    # The library warns of what the newest version deprecates, which is what is tried here.
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),
]


@dataclass
class Person:
    """Who sits at the client, and the one server they start."""

    mode: str
    project: Project
    database: Path
    arguments: tuple[str, ...] = ()
    asked: list[str] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def modern(self) -> bool:
        return self.mode != "legacy"

    def use(self, work: Callable[[Client], Awaitable[T]], **options: Any) -> T:
        command = ["manage.py", "mcp_stdio", *self.arguments]
        server = StdioServerParameters(
            command=sys.executable, args=command, env=environment(self.database, self.project), cwd=PROJECT
        )

        async def main() -> T:
            async with Client(server, mode=self.mode, read_timeout_seconds=30, **options) as client:
                return await asyncio.wait_for(work(client), 60)

        return asyncio.run(main())

    async def elicit(self, context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        self.asked.append(params.message)
        return types.ElicitResult(action="accept", content={"name": "Ada", "color": "green"})

    async def sample(self, context: Any, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
        content = types.TextContent(type="text", text="Paris")
        return types.CreateMessageResult(role="assistant", model="a-model", content=content)

    async def hear(self, message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self.changed.set()


@pytest.fixture
def person(mode: str, empty_database: Path) -> Person:
    return Person(mode, FIXTURES, empty_database)


def test_it_lists_and_calls_in_the_name_of_a_user(mode: str, database: Path, agency: Agency) -> None:
    async def look(client: Client) -> tuple[set[str], Any]:
        tools = {tool.name for tool in (await client.list_tools()).tools}
        return tools, await client.call_tool("calculator_arithmetic", {"expression": "6 * 7"})

    tools, result = Person(mode, DEMO, database, ("--user", "ben")).use(look)
    assert {"search_flights", "check_weather"} <= tools
    assert not result.is_error
    assert "42" in result.content[0].text


def test_it_reads_a_resource_and_gets_a_prompt(mode: str, database: Path) -> None:
    async def look(client: Client) -> tuple[Any, Any]:
        prompts = (await client.list_prompts()).prompts
        return await client.read_resource("travel://cities"), prompts

    resource, prompts = Person(mode, DEMO, database).use(look)
    assert "Paris" in resource.contents[0].text
    assert "plan-vacation" in {each.name for each in prompts}


def test_a_user_is_asked_twice(person: Person) -> None:
    async def call(client: Client) -> Any:
        return await client.call_tool("test_input_required_result_multi_round", {})

    result = person.use(call, elicitation_callback=person.elicit)
    assert [message[:6] for message in person.asked] == ["Step 1", "Step 2"]
    assert result.content[0].text == "Ada likes green."


def test_the_clients_model_is_asked(person: Person) -> None:
    async def call(client: Client) -> Any:
        return await client.call_tool("test_sampling", {"prompt": "What is the capital of France?"})

    assert person.use(call, sampling_callback=person.sample).content[0].text == "LLM response: Paris"


def test_progress_is_reported_while_the_tool_runs(person: Person) -> None:
    reports: list[float] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        reports.append(progress)

    async def call(client: Client) -> Any:
        return await client.call_tool("test_tool_with_progress", {}, progress_callback=note)

    assert not person.use(call).is_error
    assert reports == [0, 50, 100]


def test_it_hears_that_the_list_of_tools_has_changed(person: Person) -> None:
    async def listen(client: Client) -> None:
        async with client.listen(tools_list_changed=True) as events:
            await client.call_tool("test_trigger_tool_change", {})
            await anext(aiter(events))

    async def wait(client: Client) -> None:
        """The server begins to tell of changes beside the first calls, so one may come too early."""
        while not person.changed.is_set():
            await client.call_tool("test_trigger_tool_change", {})
            with suppress(TimeoutError):
                await asyncio.wait_for(person.changed.wait(), 1)

    person.use(listen if person.modern else wait, message_handler=person.hear)


def test_an_answer_arrives_although_the_tool_lets_go_of_the_connection(person: Person) -> None:
    async def call(client: Client) -> Any:
        return await client.call_tool("test_reconnection", {})

    assert person.use(call).content[0].text == "This is the answer after the connection was closed."

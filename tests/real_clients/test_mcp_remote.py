"""mcp-remote between a client that speaks stdio and real server processes, as desktop programs use it."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from mcp import MCPError, types
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from tests.lanes import at_night
from tests.real_clients.node import Clients
from tests.real_clients.sites import Site

T = TypeVar("T")

on_the_demo = pytest.mark.parametrize("site", ["daphne", at_night("uvicorn")], indirect=True)


@pytest.fixture(params=["legacy", "auto"])
def mode(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def through(mode: str, clients: Clients, tmp_path: Path) -> Callable[..., T]:
    """What *work* does with a client at this end of a bridge to a site."""

    def through(site: Site, work: Callable[[Client], Awaitable[T]], **options: Any) -> T:
        program, *arguments = clients.bridge(site.url)
        bridge = StdioServerParameters(command=program, args=arguments, env=clients.environment())
        with (tmp_path / "bridge.txt").open("w+") as log:

            async def main() -> T:
                transport = stdio_client(bridge, errlog=log)
                async with Client(transport, mode=mode, read_timeout_seconds=30, **options) as client:
                    return await asyncio.wait_for(work(client), 60)

            try:
                return asyncio.run(main())
            finally:
                log.seek(0)
                print(log.read())  # noqa: T201 - pytest shows it if the test fails

    return through


@on_the_demo
def test_it_connects_without_a_login(through: Any, site: Site) -> None:
    async def look(client: Client) -> tuple[str | None, set[str]]:
        info = client.server_info
        return info.name if info else None, {tool.name for tool in (await client.list_tools()).tools}

    name, tools = through(site, look)
    assert name == "travel-agency"
    assert "search_flights" in tools


@on_the_demo
def test_tools_resources_and_prompts_are_reached_through_it(through: Any, site: Site) -> None:
    async def work(client: Client) -> tuple[Any, Any, Any]:
        arguments = {"destination": "Barcelona", "duration": "3", "budget": "900"}
        return (
            await client.call_tool("calculator_arithmetic", {"expression": "6 * 7"}),
            await client.read_resource("travel://activities/barcelona/museums"),
            await client.get_prompt("plan-vacation", arguments),
        )

    called, contents, planned = through(site, work)
    assert called.structured_content == {"expression": "6 * 7", "result": 42}
    assert json.loads(contents.contents[0].text)
    assert "3 days in Barcelona" in planned.messages[0].content.text


@on_the_demo
def test_errors_come_through_it_as_they_are(through: Any, site: Site) -> None:
    async def work(client: Client) -> tuple[str, Any]:
        with pytest.raises(MCPError) as caught:
            await client.call_tool("no_such_tool", {})
        return caught.value.error.message, await client.call_tool("weather_current", {"location": "Nowhere"})

    message, result = through(site, work)
    assert "no_such_tool" in message
    assert result.is_error
    assert "Nowhere" in result.content[0].text


def test_the_user_at_this_end_is_asked(through: Any, interactive: Site) -> None:
    questions: list[str] = []

    async def answer(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        questions.append(params.message)
        return types.ElicitResult(action="accept", content={"name": "Ada"})

    async def work(client: Client) -> Any:
        return await client.call_tool("test_input_required_result_elicitation", {})

    result = through(interactive, work, elicitation_callback=answer)
    assert result.content[0].text == "Hello, Ada!"
    assert questions == ["What is your name?"]


def test_progress_comes_through_it(through: Any, interactive: Site) -> None:
    reports: list[float] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        reports.append(progress)

    async def work(client: Client) -> Any:
        return await client.call_tool("test_tool_with_progress", {}, progress_callback=note)

    assert not through(interactive, work).is_error
    assert reports == [0, 50, 100]

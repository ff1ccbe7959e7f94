"""The official Python client where tools are searched: it finds one, and calls it with all that it can do."""

import asyncio
from typing import Any

import pytest
from mcp.client import Client

from tests.real_clients.sites import Site
from tests.real_clients.test_official_client_conversations import Person, accept

pytestmark = [
    pytest.mark.parametrize("mode", ["legacy", "auto", "2026-07-28"]),
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),
]


def test_it_finds_a_tool_that_asks_and_answers_it(interactive: Site, mode: str) -> None:
    person = Person(answers=[accept(username="ada", email="ada@example.com")])

    async def main() -> tuple[list[str], Any, Any]:
        url = interactive.url.replace("/mcp", "/searched/mcp")
        async with (
            Client(url, mode=mode, read_timeout_seconds=30, elicitation_callback=person.elicit) as client,
            asyncio.timeout(60),
        ):
            listed = [each.name for each in (await client.list_tools()).tools]
            found = await client.call_tool("search_tools", {"query": "ask the user (elicitation)", "limit": 1})
            (one,) = found.structured_content["tools"]
            arguments = {"name": one["name"], "arguments": {"message": "Who are you?"}}
            return listed, found, await client.call_tool(one["call"], arguments)

    listed, found, called = asyncio.run(main())
    assert listed == ["search_tools", "call_read_tool", "call_write_tool", "call_destructive_tool", "get_task_result"]
    assert found.structured_content["tools"][0]["inputSchema"]["required"] == ["message"]
    assert [question.message for question in person.asked] == ["Who are you?"]
    assert "ada@example.com" in called.content[0].text

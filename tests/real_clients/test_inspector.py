"""The MCP Inspector's command line against real server processes."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.lanes import at_night
from tests.real_clients.node import Clients
from tests.real_clients.sites import Site

pytestmark = [
    pytest.mark.parametrize("site", ["daphne", at_night("uvicorn")], indirect=True),
    pytest.mark.parametrize("revision", ["legacy", "auto", "modern"]),
]


@pytest.fixture
def inspect(clients: Clients, site: Site, revision: str) -> Callable[..., tuple[int, Any]]:
    """The exit status of a command, and what it printed."""

    def inspect(*arguments: str) -> tuple[int, Any]:
        done = clients.inspect(site.url, "--protocol-era", revision, *arguments)
        return done.returncode, json.loads(done.stdout or done.stderr)

    return inspect


def test_it_lists_the_tools_and_finds_no_fault_in_their_schemas(inspect: Any) -> None:
    status, answer = inspect("--method", "tools/list", "--strict")
    assert status == 0, answer
    assert "search_flights" in {tool["name"] for tool in answer["result"]["tools"]}


def test_it_calls_a_tool(inspect: Any) -> None:
    status, answer = inspect(
        "--method", "tools/call", "--tool-name", "calculator_arithmetic", "--tool-arg", "expression=6 * 7"
    )
    assert status == 0, answer
    assert answer["result"]["structuredContent"] == {"expression": "6 * 7", "result": 42}


def test_a_tool_that_refuses_is_told_apart_from_one_that_answers(inspect: Any) -> None:
    status, answer = inspect(
        "--method", "tools/call", "--tool-name", "weather_current", "--tool-arg", "location=Nowhere"
    )
    assert status != 0
    assert "Nowhere" in answer["result"]["content"][0]["text"]


def test_it_reads_a_resource(inspect: Any) -> None:
    status, answer = inspect("--method", "resources/read", "--uri", "travel://activities/barcelona/museums")
    assert status == 0, answer
    (contents,) = answer["result"]["contents"]
    assert contents["mimeType"] == "application/json"
    assert json.loads(contents["text"])


def test_it_gets_a_prompt(inspect: Any) -> None:
    arguments = ["destination=Barcelona", "duration=3", "budget=900"]
    status, answer = inspect("--method", "prompts/get", "--prompt-name", "plan-vacation", "--prompt-args", *arguments)
    assert status == 0, answer
    assert "3 days in Barcelona" in answer["result"]["messages"][0]["content"]["text"]

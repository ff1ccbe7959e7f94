"""The official Python client against real server processes, in each of its modes."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any, TypeVar

import pytest
from mcp import MCPError
from mcp.client import Client

from tests.real_clients.agency import Agency, moment
from tests.real_clients.sites import Site

T = TypeVar("T")

MODES = {"legacy": "2025-11-25", "auto": "2026-07-28", "2026-07-28": "2026-07-28"}
SAME = ("number", "airline", "origin", "destination", "cabin", "seats_left")
"""Members of a flight that are columns as they are."""
TOOLS = {
    "calculator_arithmetic",
    "check_weather",
    "create_calendar_event",
    "search_documents",
    "search_flights",
    "weather_current",
}


@pytest.fixture(params=sorted(MODES))
def mode(request: pytest.FixtureRequest) -> str:
    return request.param


def use(site: Site, mode: str, work: Callable[[Client], Awaitable[T]], path: str = "") -> T:
    """What *work* does with a connected client."""

    async def main() -> T:
        async with Client(site.url + path, mode=mode, read_timeout_seconds=30) as client:
            return await asyncio.wait_for(work(client), 60)

    return asyncio.run(main())


@pytest.mark.parametrize("path", ["", "/"])
def test_it_connects_and_knows_who_is_there(site: Site, mode: str, path: str) -> None:
    async def look(client: Client) -> tuple[str, str | None]:
        await client.list_tools()
        info = client.server_info
        return client.protocol_version, info.name if info else None

    version, name = use(site, mode, look, path)
    assert version == MODES[mode]
    if mode != "2026-07-28":  # in which it asks nothing before it calls
        assert name == "travel-agency"


@pytest.mark.parametrize("asking", ["legacy", "auto"])
def test_it_learns_what_the_server_is_for_and_what_it_has(site: Site, asking: str) -> None:
    async def look(client: Client) -> tuple[str | None, dict[str, Any]]:
        return client.instructions, client.server_capabilities.model_dump(exclude_none=True)

    instructions, capabilities = use(site, asking, look)
    assert "travel agency" in (instructions or "")
    assert {"tools", "resources", "prompts"} <= capabilities.keys()


def test_it_lists_the_tools(site: Site, mode: str) -> None:
    async def look(client: Client) -> Any:
        return await client.list_tools()

    tools = {tool.name: tool for tool in use(site, mode, look).tools}
    assert tools.keys() >= TOOLS
    assert set(tools["search_flights"].input_schema["required"]) == {"origin", "destination", "date"}
    assert all(tool.description for tool in tools.values())


def test_it_lists_resources_templates_and_prompts(site: Site, mode: str) -> None:
    async def look(client: Client) -> tuple[set[str], set[str], set[str]]:
        return (
            {str(each.uri) for each in (await client.list_resources()).resources},
            {each.uri_template for each in (await client.list_resource_templates()).resource_templates},
            {each.name for each in (await client.list_prompts()).prompts},
        )

    resources, templates, prompts = use(site, mode, look)
    assert "travel://cities" in resources
    assert "travel://activities/{city}/{category}" in templates
    assert "plan-vacation" in prompts


def test_it_finds_the_flights_that_are_in_the_database(site: Site, mode: str, agency: Agency) -> None:
    journey = agency.journey

    async def call(client: Client) -> Any:
        arguments = {"origin": journey.origin, "destination": journey.destination, "date": journey.day.isoformat()}
        return await client.call_tool("search_flights", arguments)

    result = use(site, mode, call)
    assert not result.is_error
    found = [
        {
            **{
                key: flight[key]
                for key in ("number", "airline", "origin", "destination", "cabin", "seats_left", "price")
            },
            "departs": datetime.fromisoformat(flight["departs"]),
            "arrives": datetime.fromisoformat(flight["arrives"]),
        }
        for flight in result.structured_content["flights"]
    ]
    expected = [
        {
            **{key: row[key] for key in SAME},
            "price": float(row["price"]),
            "departs": moment(row["departs"]),
            "arrives": moment(row["arrives"]),
        }
        for row in journey.flights
    ]
    assert sorted(found, key=str) == sorted(expected, key=str)
    assert [flight["price"] for flight in found] == [row["price"] for row in expected], "the cheapest come first"
    assert all(row["number"] in result.content[0].text for row in journey.flights)


def test_it_reads_the_museums_of_barcelona(site: Site, mode: str, agency: Agency) -> None:
    async def read(client: Client) -> Any:
        return await client.read_resource("travel://activities/barcelona/museums")

    (contents,) = use(site, mode, read).contents
    assert str(contents.uri) == "travel://activities/barcelona/museums"
    assert contents.mime_type == "application/json"
    offers = {offer["name"]: offer for offer in json.loads(contents.text)}
    rows = {row["name"]: row for row in agency.activities("barcelona", "museums")}
    assert offers.keys() == rows.keys()
    for name, row in rows.items():
        assert offers[name]["description"] == row["description"]
        assert offers[name]["price"] == float(row["price"])
        assert offers[name]["duration_minutes"] == row["duration"] // 60_000_000


def test_it_gets_the_prompt_with_what_the_agency_knows(site: Site, mode: str) -> None:
    async def get(client: Client) -> Any:
        arguments = {"destination": "Barcelona", "duration": "5", "budget": "2000", "interests": "museums"}
        return await client.get_prompt("plan-vacation", arguments)

    result = use(site, mode, get)
    (message,) = result.messages
    assert message.role == "user"
    for words in ("5 days in Barcelona", "€2000", "museums", "BCN"):
        assert words in message.content.text


@pytest.mark.parametrize(
    ("work", "words"),
    [
        (lambda client: client.call_tool("no_such_tool", {}), "no_such_tool"),
        (lambda client: client.get_prompt("no-such-prompt", {}), "no-such-prompt"),
        (lambda client: client.get_prompt("plan-vacation", {"destination": "Rome"}), "'duration'"),
        (lambda client: client.read_resource("travel://activities/atlantis/museums"), "not found"),
        (lambda client: client.read_resource("travel://activities/barcelona/mining"), "not found"),
    ],
    ids=["tool", "prompt", "arguments of a prompt", "city", "category"],
)
def test_what_is_not_there_is_an_error_it_can_name(site: Site, mode: str, work: Any, words: str) -> None:
    async def ask(client: Client) -> str:
        with pytest.raises(MCPError) as caught:
            await work(client)
        return caught.value.error.message

    assert words in use(site, mode, ask)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"origin": "Rome", "destination": "Rome", "date": "2030-05-01"}, "both Rome"),
        ({"origin": "Rome", "destination": "Atlantis", "date": "2030-05-01"}, "Atlantis"),
        ({"origin": "Rome", "destination": "Porto"}, "Missing argument 'date'."),
        ({"origin": "Rome", "destination": "Porto", "date": "soon"}, "'date'"),
        ({"origin": "Rome", "destination": "Porto", "date": "2030-05-01", "cabins": 2}, "Unknown argument 'cabins'"),
    ],
    ids=["senseless", "unknown city", "missing", "no date", "unknown argument"],
)
def test_a_mistake_in_a_call_is_a_result_that_a_model_can_read(
    site: Site, mode: str, arguments: dict[str, Any], words: str
) -> None:
    async def call(client: Client) -> Any:
        return await client.call_tool("search_flights", arguments)

    result = use(site, mode, call)
    assert result.is_error
    assert words in result.content[0].text


def test_many_calls_at_once_each_get_their_own_answer(site: Site, mode: str) -> None:
    async def call(client: Client) -> list[Any]:
        calls = [client.call_tool("calculator_arithmetic", {"expression": f"{number} * 2"}) for number in range(20)]
        return list(await asyncio.gather(*calls))

    results = use(site, mode, call)
    assert [result.structured_content["result"] for result in results] == [number * 2 for number in range(20)]


def test_what_one_client_writes_another_reads(site: Site, mode: str) -> None:
    title = f"Written over {site.kind} in mode {mode}"

    async def write(client: Client) -> Any:
        arguments = {"title": title, "starts": "2031-05-01T15:00:00+02:00", "location": "Lisbon"}
        return await client.call_tool("create_calendar_event", arguments)

    async def read(client: Client) -> Any:
        return await client.read_resource("calendar://events/2031")

    assert not use(site, mode, write).is_error
    (contents,) = use(site, "auto", read).contents
    (event,) = [event for event in json.loads(contents.text) if event["title"] == title]
    assert event["location"] == "Lisbon"
    assert datetime.fromisoformat(event["starts"]) == datetime.fromisoformat("2031-05-01T13:00:00+00:00")

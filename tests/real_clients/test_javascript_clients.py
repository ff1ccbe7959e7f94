"""The official JavaScript clients against real server processes: what the server has, in each of their modes."""

import json
from datetime import datetime
from typing import Any

import pytest

from tests.lanes import at_night
from tests.real_clients.agency import Agency, moment
from tests.real_clients.node import SPEAKERS, Clients
from tests.real_clients.sites import Site

pytestmark = [
    pytest.mark.parametrize("site", ["daphne", at_night("uvicorn")], indirect=True),
    pytest.mark.parametrize("speaker", SPEAKERS),
]

TOOLS = {
    "calculator_arithmetic",
    "check_weather",
    "create_calendar_event",
    "search_documents",
    "search_flights",
    "weather_current",
}
TITLE = "Written by a JavaScript client"


def call(name: str, /, **arguments: Any) -> dict[str, Any]:
    return {"call": "callTool", "params": {"name": name, "arguments": arguments}}


def read(uri: str) -> dict[str, Any]:
    return {"call": "readResource", "params": {"uri": uri}}


def plan(**arguments: str) -> dict[str, Any]:
    return {"call": "getPrompt", "params": {"name": "plan-vacation", "arguments": arguments}}


def complete(ref: dict[str, str], name: str, value: str, **known: str) -> dict[str, Any]:
    argument = {"name": name, "value": value}
    return {"call": "complete", "params": {"ref": ref, "argument": argument, "context": {"arguments": known}}}


PLAN = {"type": "ref/prompt", "name": "plan-vacation"}
FLIGHTS = {"type": "ref/resource", "uri": "travel://flights/{origin}/{destination}"}


def script(agency: Agency) -> dict[str, dict[str, Any]]:
    """What is said, in this order, each under the name by which a test asks for the answer."""
    journey = agency.journey
    way = {"origin": journey.origin, "destination": journey.destination}
    event = {"title": TITLE, "starts": "2032-05-01T15:00:00+02:00", "location": "Lisbon"}
    return {
        "tools": {"list": "listTools"},
        "resources": {"list": "listResources"},
        "templates": {"list": "listResourceTemplates"},
        "prompts": {"list": "listPrompts"},
        "flights": call("search_flights", **way, date=journey.day.isoformat()),
        "senseless": call("search_flights", origin="Rome", destination="Rome", date="2030-05-01"),
        "misspelt": call("search_flights", orign="Rome", destination="Porto", date="2030-05-01"),
        "no tool": call("no_such_tool"),
        "guide": read("travel://guide"),
        "museums": read("travel://activities/barcelona/museums"),
        "no city": read("travel://activities/atlantis/museums"),
        "plan": plan(destination="Barcelona", duration="5", budget="2000", interests="museums"),
        "half a plan": plan(destination="Barcelona"),
        "cities": complete(PLAN, "destination", "Par"),
        "destinations": complete(FLIGHTS, "destination", "", origin="Paris"),
        "written": call("create_calendar_event", **event),
        "calendar": read("calendar://events/2032"),
        "sums": {"together": [call("calculator_arithmetic", expression=f"{number} * 2") for number in range(20)]},
    }


@pytest.fixture(scope="module")
def kept() -> dict[tuple[str, str], dict[str, Any]]:
    """The conversations there were; what was said once is asked about many times."""
    return {}


@pytest.fixture
def said(kept: Any, site: Site, speaker: str, clients: Clients, agency: Agency) -> dict[str, Any]:
    """What came of the conversation of this speaker with this site: who answered, and each answer by its name."""
    if (site.kind, speaker) not in kept:
        steps = script(agency)
        came = clients.talk(speaker, {"url": site.url, "steps": list(steps.values())})
        kept[site.kind, speaker] = came | dict(zip(steps, came["steps"], strict=True))
    return kept[site.kind, speaker]


def test_it_connects_and_learns_who_is_there(said: dict[str, Any], speaker: str) -> None:
    assert said["version"] == SPEAKERS[speaker].version
    assert said["server"]["name"] == "travel-agency"
    assert "travel agency" in said["instructions"]
    assert {"tools", "resources", "prompts"} <= said["capabilities"].keys()


def test_it_lists_the_tools(said: dict[str, Any], speaker: str) -> None:
    tools = {tool["name"]: tool for tool in said["tools"]["result"]["entries"]}
    assert tools.keys() >= TOOLS
    assert set(tools["search_flights"]["inputSchema"]["required"]) == {"origin", "destination", "date"}
    assert all(tool["description"] and tool["title"] for tool in tools.values())


def test_it_lists_resources_templates_and_prompts(said: dict[str, Any], speaker: str) -> None:
    entries = {name: said[name]["result"]["entries"] for name in ("resources", "templates", "prompts")}
    assert "travel://cities" in {each["uri"] for each in entries["resources"]}
    assert "travel://activities/{city}/{category}" in {each["uriTemplate"] for each in entries["templates"]}
    (prompt,) = [each for each in entries["prompts"] if each["name"] == "plan-vacation"]
    assert {each["name"] for each in prompt["arguments"]} == {"destination", "duration", "budget", "interests"}


def test_it_finds_the_flights_that_are_in_the_database(said: dict[str, Any], agency: Agency, speaker: str) -> None:
    """The libraries check ``structuredContent`` against the tool's ``outputSchema`` themselves."""
    result = said["flights"]["result"]
    assert not result.get("isError")
    found = [
        (each["number"], each["price"], datetime.fromisoformat(each["departs"]))
        for each in result["structuredContent"]["flights"]
    ]
    assert found == [(row["number"], float(row["price"]), moment(row["departs"])) for row in agency.journey.flights]
    assert all(row["number"] in result["content"][0]["text"] for row in agency.journey.flights)


@pytest.mark.parametrize(("step", "words"), [("senseless", "both Rome"), ("misspelt", "Unknown argument 'orign'")])
def test_a_mistake_in_a_call_is_a_result_that_a_model_can_read(
    said: dict[str, Any], speaker: str, step: str, words: str
) -> None:
    result = said[step]["result"]
    assert result["isError"]
    assert words in result["content"][0]["text"]


@pytest.mark.parametrize(
    ("step", "words"),
    [("no tool", "no_such_tool"), ("no city", "not found"), ("half a plan", "'duration'")],
)
def test_what_is_not_there_is_an_error_it_can_name(said: dict[str, Any], speaker: str, step: str, words: str) -> None:
    assert words in said[step]["error"]["message"]


def test_it_reads_a_resource_and_a_template(said: dict[str, Any], agency: Agency, speaker: str) -> None:
    (guide,) = said["guide"]["result"]["contents"]
    assert guide["mimeType"] == "text/markdown"
    assert "search_flights" in guide["text"]
    (museums,) = said["museums"]["result"]["contents"]
    expected = {row["name"] for row in agency.activities("barcelona", "museums")}
    assert {offer["name"] for offer in json.loads(museums["text"])} == expected


def test_it_gets_the_prompt_with_what_the_agency_knows(said: dict[str, Any], speaker: str) -> None:
    (message,) = said["plan"]["result"]["messages"]
    assert message["role"] == "user"
    for words in ("5 days in Barcelona", "€2000", "museums", "BCN"):
        assert words in message["content"]["text"]


def test_it_completes_what_a_user_begins_to_type(said: dict[str, Any], speaker: str) -> None:
    assert {"Paris", "Park City"} <= set(said["cities"]["result"]["completion"]["values"])
    destinations = said["destinations"]["result"]["completion"]["values"]
    assert destinations
    assert "Paris" not in destinations


def test_what_it_writes_it_can_read(said: dict[str, Any], speaker: str) -> None:
    assert not said["written"]["result"].get("isError")
    (contents,) = said["calendar"]["result"]["contents"]
    starts = {event["starts"] for event in json.loads(contents["text"]) if event["title"] == TITLE}
    assert {datetime.fromisoformat(each) for each in starts} == {datetime.fromisoformat("2032-05-01T13:00:00+00:00")}


def test_many_calls_at_once_each_get_their_own_answer(said: dict[str, Any], speaker: str) -> None:
    results = [outcome["result"]["structuredContent"]["result"] for outcome in said["sums"]]
    assert results == [number * 2 for number in range(20)]


def test_an_endpoint_with_a_slash_is_the_same_endpoint(clients: Clients, site: Site, speaker: str) -> None:
    steps = [call("calculator_arithmetic", expression="6 * 7")]
    (outcome,) = clients.talk(speaker, {"url": site.url + "/", "steps": steps})["steps"]
    assert outcome["result"]["structuredContent"]["result"] == 42

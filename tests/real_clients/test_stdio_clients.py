"""The official JavaScript clients with the demo as a process of their own, at the other end of its pipes."""

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.lanes import at_night
from tests.real_clients.agency import Agency
from tests.real_clients.node import SPEAKERS, Clients
from tests.real_clients.sites import PROJECT, environment

OWNERS = """
SELECT owner.username FROM travel_calendarevent AS event JOIN auth_user AS owner ON owner.id = event.owner_id
WHERE event.title = ?
"""


def call(name: str, /, **arguments: Any) -> dict[str, Any]:
    return {"call": "callTool", "params": {"name": name, "arguments": arguments}}


@pytest.mark.parametrize(
    "speaker", ["client-auto", "sdk", *map(at_night, sorted({*SPEAKERS} - {"client-auto", "sdk"}))]
)
def test_a_client_has_the_site_to_itself_and_calls_as_its_user(
    clients: Clients, database: Path, agency: Agency, speaker: str
) -> None:
    title = f"Written over pipes by {speaker}"
    command = {
        "command": sys.executable,
        "args": ["manage.py", "mcp_stdio", "--user", "ben"],
        "env": environment(database),
        "cwd": str(PROJECT),
    }
    steps = [
        {"list": "listTools"},
        call("calculator_arithmetic", expression="6 * 7"),
        call("search_flights", origin="Rome", destination="Rome", date="2030-05-01"),
        {"call": "readResource", "params": {"uri": "travel://cities"}},
        call("create_calendar_event", title=title, starts="2033-05-01T15:00:00+02:00"),
    ]
    said = clients.talk(speaker, {"command": command, "steps": steps})
    assert said["version"] == SPEAKERS[speaker].version
    assert said["server"]["name"] == "travel-agency"
    tools, product, senseless, cities, written = said["steps"]
    assert "search_flights" in {tool["name"] for tool in tools["result"]["entries"]}
    assert product["result"]["structuredContent"]["result"] == 42
    assert "both Rome" in senseless["result"]["content"][0]["text"]
    assert "Barcelona" in cities["result"]["contents"][0]["text"]
    assert not written["result"].get("isError")
    assert agency.rows(OWNERS, title) == [{"username": "ben"}]

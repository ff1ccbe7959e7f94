"""A form of the demo, filled in by the official Python client."""

import datetime
from typing import Any

from mcp.client import Client

from tests.real_clients.agency import Agency
from tests.real_clients.sites import Site
from tests.real_clients.test_official_client import mode, use

__all__ = ["mode"]


def test_it_holds_rooms_and_is_told_all_that_is_wrong(site: Site, mode: str, agency: Agency) -> None:
    hotel = agency.rows("SELECT id, name FROM travel_hotel WHERE rooms > 5 ORDER BY id LIMIT 1")[0]
    day = datetime.datetime.now(datetime.UTC).date() + datetime.timedelta(days=200)

    async def fill_in(client: Client) -> Any:
        (tool,) = [each for each in (await client.list_tools()).tools if each.name == "hold_rooms"]
        wrong = await client.call_tool("hold_rooms", {"hotel": hotel["id"], "nights": "many", "room": "cellar"})
        values = {"hotel": hotel["id"], "check_in": str(day), "nights": 1}
        return tool, wrong, await client.call_tool("hold_rooms", values)

    tool, wrong, right = use(site, mode, fill_in)
    assert tool.input_schema["properties"]["room"]["enum"] == ["city", "sea", "garden"]
    assert wrong.is_error
    for sentence in (
        "Missing argument 'check_in'.",
        "Argument 'nights': Enter a whole number.",
        "Argument 'room': Select a valid choice. cellar is not one of the available choices.",
    ):
        assert sentence in wrong.content[0].text
    assert not right.is_error
    held = right.structured_content
    assert (held["hotel"], held["check_in"], held["status"]) == (hotel["name"], str(day), "held")
    kept = agency.rows("SELECT status, nights FROM travel_booking WHERE reference = ?", held["reference"])
    assert kept == [{"status": "held", "nights": 1}]

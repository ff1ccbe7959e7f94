"""A view of the demo, as a page and as a tool of the official Python client, before and after one another."""

import json
import urllib.request
from typing import Any

import pytest
from mcp.client import Client

from tests.real_clients.sites import Site
from tests.real_clients.test_official_client import MODES, use


@pytest.mark.parametrize("mode", sorted(MODES))
def test_the_departures_board_is_the_same_as_a_page_and_as_a_tool(site: Site, mode: str) -> None:
    def page() -> dict[str, Any]:
        address = f"{site.url.removesuffix('/mcp')}/departures/BCN/?hours=168"
        with urllib.request.urlopen(address, timeout=30) as answer:
            return json.load(answer)

    async def call(client: Client) -> tuple[Any, Any]:
        await client.list_tools()  # so that it checks the answer by the schema
        board = await client.call_tool("departures_board", {"airport": "BCN", "hours": 168})
        return board, await client.call_tool("departures_board", {"airport": "nowhere"})

    before = page()
    board, wrong = use(site, mode, call)
    assert board.structured_content["departures"][1:] in (before["departures"][1:], page()["departures"][1:])
    assert board.structured_content["city"] == "Barcelona"
    assert len(before["departures"]) == 20
    assert (wrong.is_error, wrong.content[0].text) == (True, "Not found.")

"""A prompt from a template, through the official client."""

from typing import Any

import pytest
from mcp import MCPError
from mcp.client import Client

from tests.real_clients.sites import Site
from tests.real_clients.test_official_client import MODES, use


@pytest.fixture(params=sorted(MODES))
def mode(request: pytest.FixtureRequest) -> str:
    return request.param


def test_it_gets_a_template_with_what_it_embeds(site: Site, mode: str) -> None:
    async def get(client: Client) -> Any:
        return await client.get_prompt("plan-weekend", {"city": "Barcelona", "month": "May"})

    result = use(site, mode, get)
    assert result.description == "Plan a weekend in a city: what to do, where to eat, what to pack."
    assert [(each.role, each.content.type) for each in result.messages] == [
        ("user", "text"),
        ("user", "resource"),
        ("user", "text"),
        ("user", "resource"),
        ("assistant", "text"),
    ]
    assert "Plan a weekend in Barcelona in May, for one." in result.messages[0].content.text
    assert str(result.messages[3].content.resource.uri) == "travel://activities/Barcelona/food"


def test_it_is_told_what_is_missing(site: Site, mode: str) -> None:
    async def get(client: Client) -> str:
        with pytest.raises(MCPError) as failure:
            await client.get_prompt("plan-weekend", {"town": "Barcelona"})
        return str(failure.value)

    assert "Missing argument 'city'" in use(site, mode, get)

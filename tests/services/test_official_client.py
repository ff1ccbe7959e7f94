"""A site's service: asked itself, and through its tools by the official client."""

import base64
import json
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from mcp.client import Client

from tests.real_clients.sites import Project, Site, served
from tests.real_clients.test_official_client import mode, use

pytestmark = pytest.mark.slow  # they start a server

__all__ = ["mode"]

SERVICES = Project("tests.services.site", "SERVICES_DATABASE")
ASKED = """
import asyncio, json
if {published}:
    from tests.services.site.mcp import clubs
else:
    from tests.services.site.clubs import Clubs
    clubs = Clubs(most=10)
print(json.dumps([
    [club.name for club in clubs.called("Chess")],
    list(clubs.roll()),
    asyncio.run(clubs.motto()),
    clubs.stamp(b"Dear").decode(),
]))
"""
CLUBS = """
from django.contrib.auth.models import Group
for name in ("Chess", "Chess for all", "Secret Chess", "Rowing"):
    Group.objects.create(name=name)
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with served(SERVICES, tmp_path_factory.mktemp("services"), CLUBS) as made:
        yield made


@pytest.fixture(scope="module")
def before(site: Site) -> Any:
    """What the service answers itself: the same whether it is published or not."""
    before, after = (json.loads(site.run(ASKED.format(published=published))) for published in (False, True))
    assert before == after
    return before


def lasting(names: Iterable[str]) -> list[str]:
    """Without the clubs that other tests found at the same site, before or after it was asked."""
    return [name for name in names if not name.startswith(("Padel", "Tennis"))]


def test_the_service_answers_as_before_and_as_its_tools_do(site: Site, before: Any, mode: str) -> None:
    async def work(client: Client) -> list[Any]:
        await client.list_tools()  # so that it checks results against their schemas
        letter = base64.b64encode(b"Dear").decode()
        calls = {"called": {"name": "Chess"}, "roll": {}, "motto": {}, "stamp": {"letter": letter}}
        return [await client.call_tool(name, arguments) for name, arguments in calls.items()]

    called, roll, motto, stamp = use(site, mode, work)
    seen = [row["name"] for row in json.loads(called.content[0].text)]
    assert seen == [name for name in before[0] if not name.startswith("Secret")]
    assert lasting(block.text for block in roll.content) == lasting(before[1])
    assert motto.content[0].text == before[2]
    assert base64.b64decode(stamp.content[0].resource.blob).decode() == before[3]


def test_a_client_names_a_row_repairs_its_call_and_hears_of_progress(site: Site, mode: str) -> None:
    heard: list[tuple[float, str | None]] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, message))

    async def work(client: Client) -> list[Any]:
        await client.list_tools()
        made = await client.call_tool("found", {"name": f"Tennis {mode}"})
        wrong = await client.call_tool("rename", {"club": "Secret Chess", "name": "Open"})
        right = await client.call_tool("rename", {"club": f"Tennis {mode}", "name": f"Padel {mode}"})
        return [made, wrong, right, await client.call_tool("roll", {}, progress_callback=hear)]

    made, wrong, right, roll = use(site, mode, work)
    assert made.structured_content["name"] == f"Tennis {mode}"
    assert wrong.is_error
    assert wrong.content[0].text == "No group with name 'Secret Chess' found. Use search_groups to find one."
    assert right.content[0].text == f"It is Padel {mode} now."
    assert heard == [(number, block.text) for number, block in enumerate(roll.content, 1)]

"""The tutorial as a site of its own: its API asked over HTTP, and its tools by the official client."""

from collections.abc import Iterator
from typing import Any

import pytest
from mcp.client import Client

from tests.real_clients.sites import Project, Site, served
from tests.real_clients.test_official_client import mode, use

pytestmark = pytest.mark.slow  # they start a server

__all__ = ["mode"]

SNIPPETS = Project("tests.contrib.drf.site", "SNIPPETS_DATABASE")
DATA = """
from django.contrib.auth.models import User
from tests.contrib.drf.snippets.models import Snippet
ann = User.objects.create_user("ann")
for number in range(5):
    Snippet.objects.create(owner=ann, title=f"Snippet {number}", code=f"print({number})")
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with served(SNIPPETS, tmp_path_factory.mktemp("snippets"), DATA) as made:
        yield made


def test_a_client_turns_all_pages(site: Site, mode: str) -> None:
    async def work(client: Client) -> list[Any]:
        await client.list_tools()  # so that it checks results against their schemas
        pages = [await client.call_tool("list_snippets", {})]
        while more := pages[-1].structured_content.get("next_arguments"):
            pages.append(await client.call_tool("list_snippets", more))
        return pages

    pages = use(site, mode, work)
    shown = [row for page in pages for row in page.structured_content["results"]]
    assert [row["title"] for row in shown] == [f"Snippet {number}" for number in range(5)]
    of_api = [row for number in (1, 2, 3) for row in site.asked(f"/api/snippets/?page={number}")["results"]]
    assert shown == of_api


def test_a_client_writes_reads_and_repairs_its_call(site: Site, mode: str) -> None:
    before = site.asked("/api/snippets/")

    async def work(client: Client) -> tuple[Any, Any, Any, Any]:
        await client.list_tools()
        wrong = await client.call_tool("create_snippet", {"language": "cobol"})
        made = await client.call_tool("create_snippet", {"language": "sql", "code": "select 1"})
        read = await client.call_tool("get_snippet", {"pk": made.structured_content["id"]})
        gone = await client.call_tool("delete_snippet", {"pk": made.structured_content["id"]})
        return wrong, made, read, gone

    wrong, made, read, gone = use(site, mode, work)
    assert wrong.is_error
    assert "Argument 'code': This field is required." in wrong.content[0].text
    assert read.structured_content == made.structured_content
    assert made.structured_content["owner"] == "ann"
    assert not gone.is_error
    assert site.asked("/api/snippets/") == before

"""The API as a site of its own: asked over HTTP, and its tools by the official client."""

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest
from mcp.client import Client

from tests.real_clients.sites import Project, Site, served
from tests.real_clients.test_official_client import mode, use

pytestmark = pytest.mark.slow  # they start a server

__all__ = ["mode"]

SHELF = Project("tests.contrib.ninja.site", "SHELF_DATABASE")
ANN = "from django.contrib.auth.models import User; User.objects.create_user('ann')"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with served(SHELF, tmp_path_factory.mktemp("shelf"), ANN) as made:
        yield made


def test_a_client_reads_what_the_api_answers(site: Site, mode: str) -> None:
    async def work(client: Client) -> tuple[Any, Any]:
        await client.list_tools()  # so that it checks results against their schemas
        later = await client.call_tool("later", {"name": "Ann"})
        return await client.call_tool("search_books", {"tag": ["love"], "limit": 1}), later

    found, later = use(site, mode, work)
    assert found.structured_content == site.asked("/api/books?tag=love&limit=1")
    assert json.loads(later.content[0].text) == site.asked("/api/later?name=Ann")


def test_a_client_writes_as_its_user_and_repairs_its_call(site: Site, mode: str) -> None:
    async def work(client: Client) -> list[Any]:
        await client.list_tools()
        image = {"filename": "a.png", "content": base64.b64encode(b"1234").decode()}
        return [
            await client.call_tool("add_book", {"title": "", "pages": 3}),
            await client.call_tool("add_book", {"title": f"Of {mode}", "pages": 3}),
            await client.call_tool("cover", {"pk": 1, "image": image, "caption": "x"}),
            await client.call_tool("drop_book", {"pk": 1}),
        ]

    wrong, made, cover, refused = use(site, mode, work)
    assert (wrong.is_error, wrong.content[0].text) == (True, "Argument 'title' must not be empty.")
    assert made.structured_content["owner"] == "ann"
    assert site.asked(f"/api/books/{made.structured_content['id']}") == made.structured_content
    assert json.loads(cover.content[0].text)["bytes"] == 4
    assert refused.is_error
    assert site.asked("/api/books/1")["title"] == "Emma"

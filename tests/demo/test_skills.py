"""The agency's skill: it speaks of what there is, and its files are read as they are told of."""

import hashlib
import re

import pytest

from demo_project.travel.endpoints import open_
from django_mcp import server as agency
from tests.clients import LEGACY, MODERN, Client

pytestmark = pytest.mark.usefixtures("travel")
URI = "skill://plan-a-trip/SKILL.md"


@pytest.fixture
def client() -> Client:
    return Client(agency, MODERN, "view")


@pytest.fixture
def entry(client):
    (found,) = client.request("skills/list").result["skills"]
    return found


def text(client: Client, uri: str) -> str:
    (content,) = client.request("resources/read", {"uri": uri}).result["contents"]
    return content["text"]


def test_it_is_told_of_with_all_its_files(client, entry):
    assert entry["frontmatter"]["name"] == "plan-a-trip"
    assert entry["frontmatter"]["description"].startswith("Plan a trip with this agency, from an idea to booked rooms:")
    for each in entry["resources"]:
        data = text(client, each["uri"]).encode()
        assert (each["digest"], each["size"]) == (f"sha256:{hashlib.sha256(data).hexdigest()}", len(data))


def test_every_tool_and_every_file_that_it_names_is_there(client, entry):
    words = text(client, URI)
    tools = {each["name"] for each in client.list("tools/list")}
    named = re.findall(r"`([a-z]+_[a-z_]+)`", words)
    files = re.findall(r"\]\((.*?)\)", words)

    assert len(named) >= 6
    assert set(named) <= tools
    assert {f"skill://plan-a-trip/{file}" for file in files} == {each["uri"] for each in entry["resources"]} - {URI}


def test_older_clients_read_it_as_a_resource():
    client = Client(agency, LEGACY, "view")

    listed = {each["uri"]: each for each in client.list("resources/list")}
    assert listed[URI]["name"] == "plan-a-trip"
    assert text(client, URI).startswith("---\nname: plan-a-trip\n")


def test_nothing_can_be_booked_at_the_open_endpoint_so_the_skill_is_not_there():
    client = Client(open_, MODERN, "view")

    capabilities = client.request("server/discover").result["capabilities"]
    assert "io.modelcontextprotocol/skills" not in capabilities["extensions"]
    assert client.request("resources/read", {"uri": URI}).code == -32602

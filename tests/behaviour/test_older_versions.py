"""Older clients get what their version knows, and lose nothing that could be told another way."""

import dataclasses
import datetime
import json
from typing import Any

import jsonschema
import pytest

from django_mcp import (
    AudioContent,
    Icon,
    MCPServer,
    ResourceLink,
    TextContent,
    prompt,
    resource,
    tool,
)
from tests.clients import Client

OLD = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
SINCE = {
    "annotations": "2025-03-26",
    "title": "2025-06-18",
    "outputSchema": "2025-06-18",
    "icons": "2025-11-25",
}


@dataclasses.dataclass
class Week:
    number: int


@pytest.fixture(autouse=True)
def offered(server: MCPServer) -> None:
    icons = [Icon("https://example.com/i.png")]

    @tool(server=server, title="T", icons=icons, read_only=True)
    def today() -> datetime.date:
        return datetime.date(2026, 1, 2)

    @tool(server=server)
    def weeks() -> list[Week]:
        return [Week(1), Week(2)]

    @tool(server=server)
    def count() -> float:
        return 42

    @tool(server=server)
    def week() -> Week | None:
        return Week(1)

    @tool(server=server)
    def media() -> list[TextContent | AudioContent | ResourceLink]:
        return [
            TextContent("t"),
            AudioContent(b"wave", "audio/wav"),
            ResourceLink("travel://x", "x", title="The X", description="All of it"),
        ]

    resource("test://x", server=server, name="r", title="T", icons=icons)(lambda: "x")
    resource("test://x/{y}", server=server, name="t", title="T", icons=icons)(lambda y: y)
    prompt(server=server, name="p", title="T", icons=icons)(lambda: AudioContent(b"wave", "audio/wav"))


@pytest.fixture(params=OLD)
def old(request: pytest.FixtureRequest, server: MCPServer, edge: str, open_database: None) -> Client:
    return Client(server, request.param, edge)


def test_lists_have_only_members_the_version_knows(old: Client) -> None:
    listed = old.list("tools/list")[0]
    for member, since in SINCE.items():
        assert (member in listed) == (old.version >= since), member
    for method in ("resources/list", "resources/templates/list", "prompts/list"):
        (entry, *_) = old.list(method)
        assert ("title" in entry) == (old.version >= "2025-06-18")
        assert ("icons" in entry) == (old.version >= "2025-11-25")
        assert entry["name"]


def test_structured_content_is_text_where_it_has_no_place_of_its_own(old: Client) -> None:
    result = old.call("today").result
    assert result["content"] == [{"type": "text", "text": '"2026-01-02"'}]
    assert ("structuredContent" in result) == (old.version >= "2025-06-18")


def test_structured_content_and_its_schema_are_an_object_in_all_older_versions(old: Client) -> None:
    listed = {each["name"]: each for each in old.list("tools/list")}
    for name, value in {
        "today": "2026-01-02",
        "weeks": [{"number": 1}, {"number": 2}],
        "count": 42,
        "week": {"number": 1},
    }.items():
        result = old.call(name).result
        assert json.loads(result["content"][0]["text"]) == value
        if old.version >= "2025-06-18":
            assert result["structuredContent"] == {"result": value}
            schema = listed[name]["outputSchema"]
            assert schema["type"] == "object"
            jsonschema.validate(result["structuredContent"], schema)


@pytest.mark.parametrize("old", ["2026-07-28"], indirect=True)
def test_structured_content_is_what_the_tool_returned_in_the_current_version(old: Client) -> None:
    """An array or a number is not put into an object (SEP-2106; pull request 308 of the conformance suite)."""
    listed = {each["name"]: each for each in old.list("tools/list")}
    for name, kind, value in [
        ("today", "string", "2026-01-02"),
        ("weeks", "array", [{"number": 1}, {"number": 2}]),
        ("count", "number", 42),
        ("week", "object", {"result": {"number": 1}}),  # a union
    ]:
        result = old.call(name).result
        assert result["structuredContent"] == value
        assert listed[name]["outputSchema"]["type"] == kind
        jsonschema.validate(value, listed[name]["outputSchema"])


def test_blocks_a_version_does_not_know_become_the_nearest_it_does(old: Client) -> None:
    _, sound, link = old.call("media").result["content"]
    assert sound["type"] == ("audio" if old.version >= "2025-03-26" else "resource")
    assert sound.get("data", sound.get("resource", {}).get("blob")) == "d2F2ZQ=="
    if old.version >= "2025-06-18":
        assert link["type"] == "resource_link"
    else:
        assert link == {"type": "text", "text": "The X <travel://x>: All of it"}
    (message,) = old.request("prompts/get", {"name": "p"}).result["messages"]
    assert message["content"]["type"] == sound["type"]


def test_no_result_has_the_marks_of_the_newest_version(old: Client) -> None:
    for method, params in [("tools/list", {}), ("tools/call", {"name": "today"}), ("prompts/get", {"name": "p"})]:
        result = old.request(method, params).result
        assert not {"resultType", "ttlMs", "cacheScope", "_meta"} & set(result)


@pytest.mark.parametrize("version", OLD)
def test_the_handshake_names_the_server_as_the_version_does(
    make_server: Any, edge: str, version: str, open_database: None
) -> None:
    server = make_server(
        "named",
        title="Named",
        description="A server with a name.",
        website_url="https://example.com/",
        icons=[Icon("https://example.com/i.png")],
    )
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    info = Client(server, version, edge).request("initialize", params).result["serverInfo"]
    assert ("title" in info) == (version >= "2025-06-18")
    assert ("icons" in info) == ("websiteUrl" in info) == ("description" in info) == (version >= "2025-11-25")

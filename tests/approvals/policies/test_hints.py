"""What the site knows of a tool, in the words of clients that read more than the annotations."""

from collections.abc import Callable
from typing import Any

import pytest

from django_mcp import MCPServer, tool
from django_mcp.approvals.tool_policies import set_policy
from tests.approvals.policies.conftest import tool_of
from tests.behaviour.test_visibility import As
from tests.behaviour.users import group
from tests.clients import LEGACY, MODERN, Client

Make = Callable[..., Any]
ASKS = "anthropic/requiresUserInteraction"


@pytest.fixture
def everybody(make_server: Make, policies: None) -> MCPServer:
    """An endpoint for everybody, whose list is kept."""
    server = make_server("everybody")
    tool(server=server, name="refund")(lambda: "refunded")
    tool(server=server, name="pay", policy="ask")(lambda: "paid")
    return server


def meta(client: Any) -> dict[str, dict[str, Any]]:
    listed = client.request("tools/list").result["tools"]
    return {each["name"]: each.get("_meta", {}) for each in listed}


@pytest.mark.parametrize("version", [MODERN, LEGACY])
def test_a_tool_that_requires_approval_asks_for_a_person_as_long_as_it_does(everybody: MCPServer, version: str) -> None:
    client = Client(everybody, version, "asgi")
    for _ in range(2):
        assert meta(client) == {"refund": {}, "pay": {ASKS: True}}
    assert everybody.pages
    set_policy(everybody, tool_of(everybody, "refund"), "ask")
    set_policy(everybody, tool_of(everybody, "pay"), "allow")
    for _ in range(2):
        assert meta(client) == {"refund": {ASKS: True}, "pay": {}}


def test_a_tool_that_some_may_call_without_approval_does_not(everybody: MCPServer) -> None:
    """The client would deny the call of a program that may make it."""
    client = Client(everybody, MODERN, "asgi")
    set_policy(everybody, tool_of(everybody, "pay"), "allow", client_id="https://robot.example.com")
    assert meta(client)["pay"] == {}
    set_policy(everybody, tool_of(everybody, "pay"), "block", client_id="https://robot.example.com")
    assert meta(client)["pay"] == {ASKS: True}


def test_a_tool_that_only_some_need_approval_for_does_not(server: MCPServer, client: Client, make_user: Make) -> None:
    tool(server=server, name="pay")(lambda: "paid")
    set_policy(server, tool_of(server, "pay"), "ask", group=group("trainees"))
    assert meta(As(client, make_user()))["pay"] == {}


def test_limits_and_lists_become_hints_and_a_tools_own_hint_wins(make_server: Make, policies: None) -> None:
    server = make_server("everybody")
    tool(server=server, name="report", max_output_chars=200_000)(lambda: "x")
    tool(server=server, name="dump", max_output_chars=2_000_000)(lambda: "x")
    tool(server=server, name="endless", max_output_chars=0)(lambda: "x")
    tool(server=server, name="begin", always_listed=True, tags=["desk"])(lambda: "x")
    tool(server=server, name="robot", policy="ask", meta={ASKS: False})(lambda: "x")
    assert meta(Client(server, MODERN, "asgi")) == {
        "report": {"anthropic/maxResultSizeChars": 200_000},
        "dump": {"anthropic/maxResultSizeChars": 500_000},
        "endless": {},
        "begin": {"anthropic/alwaysLoad": True, "fastmcp": {"tags": ["desk"]}},
        "robot": {ASKS: False},
    }


def test_a_client_that_searches_tools_itself_loads_those_that_search_at_the_start(make_server: Make) -> None:
    server = make_server("searched", search_tools=True)
    for name in ("one", "two"):
        tool(server=server, name=name)(lambda: "x")
    found = meta(Client(server, MODERN, "asgi"))
    assert len(found) == 4
    assert all(each == {"anthropic/alwaysLoad": True} for each in found.values())

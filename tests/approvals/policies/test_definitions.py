"""Tools that became others since somebody accepted them."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.conf import settings
from django.test import override_settings

from django_mcp import MCPServer, tool
from django_mcp.approvals import tool_definitions
from django_mcp.core.server import server as default_server
from django_mcp.core.server import servers
from django_mcp.models import ToolSnapshot
from tests.approvals.policies.conftest import tool_of
from tests.behaviour.test_visibility import As
from tests.clients import MODERN, Client

Make = Callable[..., Any]


@pytest.fixture(autouse=True)
def _held() -> Iterator[None]:
    with override_settings(DJANGO_MCP={**settings.DJANGO_MCP, "BLOCK_CHANGED_TOOLS": True}):
        yield


def offer(server: MCPServer, **options: Any) -> None:
    """``pay``, as its author has it in this release."""
    server.remove(lambda each: each.key == "pay")
    tool(server=server, name="pay", **{"description": "Pay somebody.", **options})(lambda amount=1: "paid")


@pytest.fixture
def ada(server: MCPServer, client: Client, make_user: Make) -> As:
    offer(server)
    return As(client, make_user())


def test_a_tool_that_is_new_is_as_its_author_made_it(server: MCPServer, ada: As) -> None:
    assert ada.call("pay").text == "paid"
    known = ToolSnapshot.objects.get(server="test", tool="pay")
    assert (known.definition["description"], known.approved_by) == ("Pay somebody.", None)


@pytest.mark.postgresql
def test_a_tool_that_changed_is_not_there_until_somebody_accepts_it(server: MCPServer, ada: As) -> None:
    assert ada.listed("tools/list") == ["pay"]
    for change in ({"description": "Pay somebody at once."}, {"title": "Pay!"}, {"destructive": False}):
        offer(server, **change)
        assert ada.listed("tools/list") == [], change
        assert "error" in ada.call("pay").json, change

        tool_definitions.approve_definition(server, tool_of(server, "pay"), None)
        assert ada.listed("tools/list") == ["pay"], change
        assert ada.call("pay").text == "paid", change


def test_a_change_of_the_schema_alone_is_one(server: MCPServer, ada: As) -> None:
    assert ada.call("pay").text == "paid"
    server.remove(lambda each: each.key == "pay")
    tool(server=server, name="pay", description="Pay somebody.")(lambda amount=1, to="me": "paid")
    assert "error" in ada.call("pay").json


def test_a_decision_does_not_bring_back_what_is_held(server: MCPServer, ada: As) -> None:
    from django_mcp.approvals.tool_policies import set_policy

    assert ada.call("pay").text == "paid"
    offer(server, description="Pay everything.")
    set_policy(server, tool_of(server, "pay"), "allow")
    assert "error" in ada.call("pay").json


def test_what_is_registered_again_as_it_was_is_no_change(server: MCPServer, ada: As) -> None:
    assert ada.call("pay").text == "paid"
    offer(server, description="Pay everything.")
    offer(server)
    assert ada.call("pay").text == "paid"


@pytest.mark.postgresql
@pytest.mark.parametrize("language", ["en", "de"])
def test_no_tool_of_the_demo_changes_by_being_listed(policies: None, language: str) -> None:
    """Some are completed when they are first listed, and some are translated."""
    every = list(servers())
    tool_definitions.store_snapshots(every, tool_definitions.approved_digests())
    before = tool_definitions.approved_digests()
    from django.utils import translation

    with translation.override(language):
        Client(default_server, MODERN, "asgi").request("tools/list")
    tool_definitions._cached.clear()
    assert before
    assert {
        (each.name, one.key): tool_definitions.current_definition(one).digest
        for each in every
        for one in tool_definitions.tools_of(each)
    } == {key: digest for key, digest in before.items() if key[0] in {each.name for each in every}}

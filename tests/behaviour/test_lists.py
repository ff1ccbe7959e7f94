"""Lists: their order, their pages, and what may be kept of them."""

from collections.abc import Callable

import pytest

from django_mcp import MCPServer, prompt, resource, tool
from tests.behaviour.afresh import afresh
from tests.clients import Client


def fill(server: MCPServer, how_many: int) -> None:
    for number in range(how_many):
        name = f"item_{number:03}"
        tool(server=server, name=name)(lambda: "x")
        prompt(server=server, name=name)(lambda: "x")
        resource(f"test://plain/{name}", server=server, name=name)(lambda: "x")
        resource(f"test://{name}/{{x}}", server=server, name=name)(lambda x: x)


METHODS = ["tools/list", "prompts/list", "resources/list", "resources/templates/list"]


def test_pages_put_together_give_everything_once_and_in_order(
    make_server: Callable[..., MCPServer], version: str, edge: str, open_database: None, subtests: pytest.Subtests
) -> None:
    for page_size in [1, 3, 10, 11]:
        for method in METHODS:
            with subtests.test(method=method, page_size=page_size), afresh():
                server = make_server("paged", page_size=page_size)
                fill(server, 10)
                client = Client(server, version, edge)
                assert [entry["name"] for entry in client.list(method)] == [f"item_{number:03}" for number in range(10)]
                first = client.request(method).result
                assert len(
                    first[next(iter(set(first) & {"tools", "prompts", "resources", "resourceTemplates"}))]
                ) == min(page_size, 10)
                assert ("nextCursor" in first) == (page_size < 10)


def test_the_order_is_that_of_registration_every_time(server: MCPServer, client: Client) -> None:
    for name in ("zebra", "ant", "mule"):
        tool(server=server, name=name)(lambda: "x")
    for _ in range(3):
        assert [entry["name"] for entry in client.list("tools/list")] == ["zebra", "ant", "mule"]


def test_a_tool_registered_later_is_listed_at_once(server: MCPServer, client: Client) -> None:
    tool(server=server, name="first")(lambda: "x")
    assert len(client.list("tools/list")) == 1
    tool(server=server, name="second")(lambda: "x")
    assert [entry["name"] for entry in client.list("tools/list")] == ["first", "second"]


def test_a_cursor_stays_right_while_entries_come_and_go(
    make_server: Callable[..., MCPServer], version: str, edge: str, open_database: None
) -> None:
    server = make_server("paged", page_size=2)
    fill(server, 6)
    client = Client(server, version, edge)
    cursor = client.request("tools/list").result["nextCursor"]
    del server.tools["item_001"]
    del server.tools["item_004"]
    tool(server=server, name="late")(lambda: "x")
    page = client.request("tools/list", {"cursor": cursor}).result
    assert [entry["name"] for entry in page["tools"]] == ["item_002", "item_003"]
    rest = client.request("tools/list", {"cursor": page["nextCursor"]}).result
    assert [entry["name"] for entry in rest["tools"]] == ["item_005", "late"]


def test_a_list_says_how_long_and_for_whom_it_may_be_kept(
    make_server: Callable[..., MCPServer], edge: str, open_database: None, subtests: pytest.Subtests
) -> None:
    for method in METHODS:
        with subtests.test(method=method), afresh():
            server = make_server("kept", ttl=5)
            fill(server, 2)
            result = Client(server, "2026-07-28", edge).request(method).result
            assert (result["ttlMs"], result["cacheScope"]) == (5000, "public")


def test_all_pages_of_a_list_have_the_same_scope(
    make_server: Callable[..., MCPServer], edge: str, open_database: None
) -> None:
    """A proxy must not hand one user's page to another because only a later page holds something hidden."""
    server = make_server("scoped", page_size=2)
    fill(server, 4)
    tool(server=server, name="hidden", permission="auth.delete_user")(lambda: "x")
    client = Client(server, "2026-07-28", edge)
    first = client.request("tools/list").result
    second = client.request("tools/list", {"cursor": first["nextCursor"]}).result
    assert (first["cacheScope"], second["cacheScope"]) == ("private", "private")
    assert "nextCursor" not in second


def test_a_client_that_makes_up_cursors_does_not_fill_the_memory(server: MCPServer, modern: Client) -> None:
    from django_mcp.protocol.pagination import encode_cursor

    fill(server, 3)
    for position in range(50):
        modern.request("tools/list", {"cursor": encode_cursor(position)})
    assert len(server.pages) <= 4

"""Namespaces and tags, and endpoints that offer what is registered elsewhere."""

from collections.abc import Callable
from itertools import permutations
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from django_mcp import MCPServer, ModelResource, prompt, register, resource, tool
from tests.clients import LEGACY, Client
from tests.model_resources.library.models import Author, Book

Make = Callable[..., Any]


def tools_of(server: MCPServer) -> list[str]:
    return list(server.tools)


def offered(server: MCPServer) -> list[str]:
    return [each.key for each in server.registered()]


# Names and tags


def test_a_namespace_goes_before_the_name(server: MCPServer) -> None:
    tool(server=server, namespace="billing")(refund)
    prompt(server=server, namespace="billing", name="remind")(lambda: "x")
    resource("test://rules", server=server, namespace="billing")(refund)
    assert tools_of(server) == ["billing_refund"]
    assert list(server.prompts) == ["billing_remind"]
    assert (list(server.resources), server.resources["test://rules"].name) == (["test://rules"], "billing_refund")
    assert refund() == "refunded"


def refund() -> str:
    """Give money back."""
    return "refunded"


def test_a_namespace_is_a_place_to_register(server: MCPServer, open_database: None) -> None:
    billing = server.namespace("billing", tags=["money"])
    tool(server=billing)(refund)
    tool(server=[billing, server], name="void")(lambda: "x")
    prompt(server=billing, name="remind")(lambda: "x")
    resource("test://rules", server=billing)(refund)
    assert offered(server) == ["billing_refund", "billing_void", "void", "billing_remind", "test://rules"]
    for each in (server.tools["billing_refund"], server.prompts["billing_remind"], server.resources["test://rules"]):
        assert each.tags == {"billing", "money"}
    assert Client(server, LEGACY, "asgi").call("billing_refund").text == "refunded"


def test_namespaces_may_stand_in_each_other(server: MCPServer) -> None:
    tool(server=server.namespace("shop"), namespace="billing")(refund)
    assert tools_of(server) == ["shop_billing_refund"]
    assert server.tools["shop_billing_refund"].tags == {"shop", "billing"}


@pytest.mark.parametrize(
    "register_it",
    [
        lambda server: tool(server=server, namespace="billing", name="x" * 60)(refund),
        lambda server: tool(server=server.namespace("billing"), name="x" * 60)(refund),
    ],
)
def test_a_name_too_long_for_its_namespace_is_told_with_its_length(server: MCPServer, register_it: Any) -> None:
    with pytest.raises(ImproperlyConfigured, match=r"invalid name of 68 characters\. Use 1 to 64 letters") as caught:
        register_it(server)
    assert f"'billing_{'x' * 60}'" in str(caught.value)


def test_a_namespace_that_no_name_can_begin_with_is_refused(server: MCPServer) -> None:
    with pytest.raises(ImproperlyConfigured, match="Namespace 'my billing'"):
        server.namespace("my billing")
    with pytest.raises(ImproperlyConfigured, match=r"tags must be a list, like \['money'\]"):
        server.namespace("billing", tags="money")


def test_tags_are_told_where_clients_look_for_them(server: MCPServer, open_database: None) -> None:
    tool(server=server, tags={"b", "a"}, namespace="n", meta={"example.com/x": 1, "fastmcp": {"more": 2}})(refund)
    (listed,) = Client(server, LEGACY, "asgi").list("tools/list")
    assert listed["_meta"] == {"example.com/x": 1, "fastmcp": {"more": 2, "tags": ["a", "b", "n"]}}
    tool(server=server, name="plain")(refund)
    assert "_meta" not in server.tools["plain"].definition


def test_a_model_goes_into_no_namespace(server: MCPServer) -> None:
    with pytest.raises(ImproperlyConfigured, match="use name, plural and tags of the ModelResource"):
        register(Book, Books, server=server.namespace("billing"))


# Selection


def register_all(server: MCPServer) -> None:
    tool(server=server, name="answer", tags=["support"])(refund)
    tool(server=server, name="erase", tags=["support", "danger"])(refund)
    tool(server=server, name="plan", tags=["crm"])(refund)
    tool(server=server, name="untagged")(refund)
    resource("test://faq", server=server, tags=["support"])(refund)
    resource("test://faq/{name}", server=server, tags=["support"])(lambda name: name)
    prompt(server=server, name="calm", tags=["support"])(lambda: "x")


SUPPORT = ["answer", "erase", "test://faq", "test://faq/{name}", "calm"]


SELECTED: list[tuple[dict[str, Any], list[str]]] = [
    ({"include_tags": ["support"]}, SUPPORT),
    ({"include_tags": {"support"}, "exclude_tags": {"danger"}}, [each for each in SUPPORT if each != "erase"]),
    ({"include_tags": ["crm", "danger"]}, ["erase", "plan"]),
    ({"exclude_tags": ["support"]}, ["plan", "untagged"]),
    ({"select": lambda each: each.kind == "tool" and each.name != "erase"}, ["answer", "plan", "untagged"]),
    ({"include_tags": ["support"], "select": lambda each: "uri" in each.definition}, ["test://faq"]),
    ({"include_tags": ["nothing"]}, []),
    ({}, ["answer", "erase", "plan", "untagged", "test://faq", "test://faq/{name}", "calm"]),
]


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_endpoint_offers_what_it_selects_whenever_that_is_registered(
    server: MCPServer, make_server: Make, when: str
) -> None:
    if when == "before":
        register_all(server)
    made = [make_server(f"support-{at}", source=server, **options) for at, (options, _) in enumerate(SELECTED)]
    if when == "after":
        register_all(server)
    assert [offered(each) for each in made] == [expected for _, expected in SELECTED]
    assert len(offered(server)) == 7


def test_what_is_selected_is_called_and_listed_like_anything_else(
    server: MCPServer, make_server: Make, open_database: None
) -> None:
    tool(server=server, name="first")(refund)
    support = make_server("support", source=server, include_tags=["support"], page_size=1)
    tool(server=support, name="own")(lambda: "own")
    tool(server=server, name="second", tags=["support"])(refund)
    client = Client(support, LEGACY, "asgi")
    assert [each["name"] for each in client.list("tools/list")] == ["own", "second"]
    assert client.call("second").text == "refunded"
    assert "Unknown tool" in client.call("first").error["message"]
    # Each endpoint has its own order, and its cursors.
    assert [each.position for each in server.tools.values()] == [0, 1]
    assert [each.position for each in support.tools.values()] == [0, 1]


def test_the_default_endpoint_is_taken_from_unless_another_is_named(make_server: Make) -> None:
    support = make_server("support", include_tags=["of this test alone"])
    tool(tags=["of this test alone"], name="for_a_moment")(refund)
    assert tools_of(support) == ["for_a_moment"]


def test_selections_may_be_made_of_selections(server: MCPServer, make_server: Make) -> None:
    wide = make_server("wide", source=server, include_tags=["a", "b"])
    narrow = make_server("narrow", source=wide, exclude_tags=["b"])
    for number, tags in enumerate((["a"], ["a", "b"], ["c"])):
        tool(server=server, name=f"t{number}", tags=tags)(refund)
    assert (tools_of(wide), tools_of(narrow)) == (["t0", "t1"], ["t0"])


def test_a_name_that_two_endpoints_have_is_told(server: MCPServer, make_server: Make) -> None:
    support = make_server("support", source=server, include_tags=["support"])
    tool(server=support, name="answer")(refund)
    with pytest.raises(ImproperlyConfigured, match="have the same key 'answer'"):
        tool(server=server, name="answer", tags=["support"])(refund)


@pytest.mark.parametrize("option", ["include_tags", "exclude_tags"])
def test_a_single_tag_is_written_as_a_list(make_server: Make, option: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=rf"{option} must be a list, like \['support'\]"):
        make_server("support", **{option: "support"})


# Models


class Books(ModelResource):
    """Books."""

    fields = ("title", "author")
    tags = ("support",)
    view_permission = None


class Authors(ModelResource):
    """Authors."""

    fields = ("name",)
    view_permission = None


STEPS = {
    "book": lambda server, make: register(Book, Books, server=server),
    "author": lambda server, make: register(Author, Authors, server=server),
    "endpoint": lambda server, make: make("support", source=server, include_tags=["support"]),
}


@pytest.mark.parametrize("order", list(permutations(STEPS)))
def test_models_are_selected_by_the_tags_of_their_declaration(
    server: MCPServer, make_server: Make, order: tuple[str, ...]
) -> None:
    made = {step: STEPS[step](server, make_server) for step in order}
    support = made["endpoint"]
    assert set(support.model_resources) == {Book}
    assert tools_of(support) == ["search_books", "get_book"]
    assert set(support.tools["get_book"].tags) == {"support"}
    assert support.model_resources[Book].server is support, "what it may follow is what this endpoint has"
    assert "search_authors" in server.tools


def test_a_predicate_selects_no_models(server: MCPServer, make_server: Make) -> None:
    register(Book, Books, server=server)
    assert tools_of(make_server("support", source=server, select=lambda each: True)) == []

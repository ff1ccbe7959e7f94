"""How the tools of a large admin are listed: behind tool search, unless the site says otherwise."""

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib.admin import AdminSite, ModelAdmin
from django.db import models
from django.test import override_settings
from django.test.utils import isolate_apps

from demo_project.travel.models import City, Hotel
from django_mcp import MCPServer, admin_tools, tool
from django_mcp.core.server import FINDERS
from django_mcp.test import MCPClient
from tests.integrations.back_office.rows import make_people
from tests.integrations.back_office.shop import site

pytestmark = pytest.mark.django_db

Make = Callable[..., Any]
SEARCHED = ["search_tools", "call_read_tool", "call_write_tool", "call_destructive_tool", "admin_overview"]


@pytest.fixture
def people(settings: Any) -> SimpleNamespace:
    settings.ROOT_URLCONF = "tests.integrations.back_office.urls"
    return make_people()


def listed(server: MCPServer, user: Any) -> list[str]:
    return MCPClient(user, server=server, protocol_version="modern").names()


def characters(server: MCPServer, user: Any) -> int:
    client = MCPClient(user, server=server, protocol_version="modern")
    return len(json.dumps([client.definition(name) for name in client.names()], separators=(",", ":")))


def test_many_tools_are_searched_and_few_are_listed(make_server: Make, people: SimpleNamespace) -> None:
    server = make_server("office")
    admin_tools(site, server=server)
    assert listed(server, people.superuser) == SEARCHED
    plainly = listed(server, people.viewer)
    assert FINDERS.isdisjoint(plainly)
    assert {"search_products", "get_order"} <= {*plainly}
    client = MCPClient(people.superuser, server=server, protocol_version="modern")
    found = client.call("search_tools", query="change a product").assert_ok().structured["tools"]
    assert found[0]["name"] == "change_product"
    assert "price" in found[0]["inputSchema"]["properties"]
    client.call("call_read_tool", name="search_products", arguments={}).assert_ok()


def test_the_list_of_a_large_admin_stays_short(make_server: Make, people: SimpleNamespace) -> None:
    short, long = make_server("short"), make_server("long", search_tools=0)
    for server in (short, long):
        admin_tools(site, server=server)
    assert len(listed(long, people.superuser)) > 100
    assert characters(short, people.superuser) < 4_000 < characters(long, people.superuser) / 10


@pytest.mark.parametrize("how", ["the endpoint", "the setting"])
def test_a_site_that_wants_the_list_gets_it(
    make_server: Make, people: SimpleNamespace, settings: Any, how: str
) -> None:
    server = make_server("office", **({"search_tools": 0} if how == "the endpoint" else {}))
    admin_tools(site, server=server)
    above = {"TOOL_SEARCH_THRESHOLD": 0} if how == "the setting" else {}
    with override_settings(DJANGO_MCP={**settings.DJANGO_MCP, **above}):
        assert len(listed(server, people.superuser)) > 100


def test_an_endpoint_that_takes_them_from_another_searches_too(make_server: Make, people: SimpleNamespace) -> None:
    server = make_server("office")
    admin_tools(site, server=server)
    assert listed(make_server("copy", source=server), people.superuser) == SEARCHED


def test_a_tool_of_the_site_named_like_those_of_tool_search_is_listed_with_all_others(
    make_server: Make, people: SimpleNamespace
) -> None:
    server = make_server("office")
    admin_tools(site, server=server)
    tool(server=server, name="search_tools", description="Hammers and saws.")(lambda: "x")
    assert "search_products" in listed(server, people.superuser)


@isolate_apps("demo_project.travel")
def test_a_model_of_tools_has_its_app_in_the_names(make_server: Make) -> None:
    class Instrument(models.Model):
        """A model whose list would have the name of tool search's tool."""

        class Meta:
            app_label = "travel"
            verbose_name_plural = "tools"

        def __str__(self) -> str:
            return "instrument"

    workshop = AdminSite("workshop")
    workshop.register(Instrument)
    server = make_server("office", search_tools=1)
    admin_tools(workshop, server=server)
    assert "search_travel_tools" in server.tools


# Names


class Histories(ModelAdmin):
    """An action that has the name of another tool, and one with a name that clients do not take."""

    actions = ("history", "send_a_reminder_of_the_end_of_the_season_to_all_of_its_guests_by_mail")

    def history(self, request: Any, queryset: Any) -> None: ...
    def send_a_reminder_of_the_end_of_the_season_to_all_of_its_guests_by_mail(
        self, request: Any, queryset: Any
    ) -> None: ...


def ids_and_texts() -> list[tuple[str, str]]:
    from django_mcp.integrations.checks import check_admin_names

    return [(str(message.id), message.msg) for message in check_admin_names()]


def test_a_name_that_is_taken_leaves_its_tool_out_and_is_reported(make_server: Make) -> None:
    own = AdminSite("own")
    own.register(Hotel, Histories)
    own.register(City)
    server = make_server("office")
    tool(server=server, name="get_city", description="A city.")(lambda: "mine")
    admin_tools(own, server=server)
    assert server.tools["get_city"].definition["description"] == "A city."
    assert server.tools["hotel_history"].read_only
    (long, *_), (city, *_), (history, *_) = (
        [text for _, text in ids_and_texts() if word in text] for word in ("reminder", "'get_city'", "'hotel_history'")
    )
    assert "64" in long
    assert "already" in city
    assert "already" in history
    assert {name for name, _ in ids_and_texts()} == {"django_mcp.E079"}


def test_a_second_admin_site_at_one_endpoint_needs_a_namespace(make_server: Make) -> None:
    one, two = AdminSite("one"), AdminSite("two")
    for each in (one, two):
        each.register(City)
    server = make_server("office")
    admin_tools(one, server=server)
    admin_tools(two, server=server.namespace("second"))
    assert not ids_and_texts()
    admin_tools(two, server=server)
    assert len(ids_and_texts()) > 5

"""What is hidden is not found either: no search, filter, order or choice tells what a hidden field holds."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin import AdminSite, ModelAdmin
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.models import User

from demo_project.travel.models import Booking, Hotel
from django_mcp import admin_tools
from django_mcp.test import MCPClient
from tests.integrations.admin_site.office import make_booking, make_city, make_hotel, own_site

pytestmark = pytest.mark.django_db

Make = Callable[..., Any]
OPEN = ["auth.user.password"]


class Searching(UserAdmin):
    """Searches the hash, which its page hides."""

    search_fields = ("username", "password")


class BookingPage(ModelAdmin):
    """Refers to users by key, and shows when they came in an order of its own."""

    raw_id_fields = ("user",)
    search_fields = ("reference", "^user__password")
    list_display = ("reference", "guest")

    @admin.display(ordering="user__password")
    def guest(self, row: Booking) -> str:
        return row.user.username


@pytest.fixture
def office() -> Iterator[AdminSite]:
    with own_site({User: Searching, Booking: BookingPage, Hotel: ModelAdmin}) as own:
        yield own


@pytest.fixture
def client(make_server: Make, office: AdminSite) -> MCPClient:
    server = make_server("office", search_tools=0)
    admin_tools(office, server=server)
    return MCPClient(User.objects.create_superuser("boss", "boss@example.com", "x"), server=server)


@pytest.fixture
def booking(client: MCPClient) -> Booking:
    return make_booking(make_hotel(make_city()), client.user)


@pytest.mark.parametrize("tool", ["search_users", "search_bookings"])
def test_a_search_that_looks_into_a_hidden_field_is_not_offered(client: MCPClient, tool: str) -> None:
    assert "query" not in client.definition(tool)["inputSchema"]["properties"]
    client.call(tool).assert_ok()
    client.call(tool, query="pbkdf2").assert_error_mentions("'query': cannot be used", "password, which is hidden")


def test_neither_is_it_for_the_choices_of_a_field(client: MCPClient, booking: Booking) -> None:
    asked = {"tool": "change_booking", "argument": "user"}
    assert client.call("admin_choices", **asked, query="").structured["choices"][0]["text"] == "boss"
    client.call("admin_choices", **asked, query="pbk").assert_error_mentions("'query': cannot be used", "password")


def test_a_list_is_not_ordered_by_a_hidden_field_behind_a_column(client: MCPClient, booking: Booking) -> None:
    refused = client.call("search_bookings", order_by="guest")
    refused.assert_error_mentions("columns that this list can be ordered by: reference.")


def test_what_the_site_opened_is_searched_and_ordered_by(
    make_server: Make, office: AdminSite, client: MCPClient, booking: Booking
) -> None:
    server = make_server("second", search_tools=0)
    admin_tools(office, server=server, show=OPEN)
    free = MCPClient(client.user, server=server)
    assert free.call("search_bookings", query="R1", order_by="guest").structured["total"] == 1
    asked = {"tool": "change_booking", "argument": "user", "query": "bos"}
    assert len(free.call("admin_choices", **asked).structured["choices"]) == 1

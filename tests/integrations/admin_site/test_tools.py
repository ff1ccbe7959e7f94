"""``admin_tools`` on the demo's back office."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin import AdminSite
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.core.exceptions import ImproperlyConfigured

from demo_project.travel.models import City, Hotel
from django_mcp import MCPServer, admin_tools
from django_mcp.test import MCPClient
from django_mcp.urls import build_urlpatterns
from tests.integrations.admin_site.office import make_city, make_hotel, own_site

pytestmark = pytest.mark.django_db

Make = Callable[..., Any]


@pytest.fixture
def staff(make_server: Make) -> MCPServer:
    server: MCPServer = make_server("office", search_tools=0)
    admin_tools(server=server)
    return server


@pytest.fixture
def boss() -> User:
    return User.objects.create_superuser("boss", "boss@example.com", "x")


@pytest.fixture
def hotel() -> Hotel:
    return make_hotel(make_city())


def test_staff_find_what_the_admins_list_has(staff: MCPServer, boss: User, hotel: Hotel) -> None:
    found = MCPClient(boss, server=staff).call("search_hotels", query="aur", filters={"stars": 4}, order_by="-price")
    row = {"pk": hotel.pk, "name": "Aurora", "city": "Lisbon, Portugal", "district": "Baixa", "stars": 4}
    row |= {"rating": "4.5", "price": "120.00", "breakfast": False}
    found.assert_structured({"rows": [row], "total": 1, "page": 1, "pages": 1})


def test_a_wrong_filter_is_answered_with_what_would_be_right(staff: MCPServer, boss: User, hotel: Hotel) -> None:
    asked = MCPClient(boss, server=staff).call("search_hotels", filters={"stars": 9, "breakfas": False})
    asked.assert_error_mentions("'filters.stars' must be one of: 4.", "Did you mean 'breakfast'?")


def test_a_row_is_read_as_its_page_shows_it_and_changed_with_its_history(
    staff: MCPServer, boss: User, hotel: Hotel
) -> None:
    client = MCPClient(boss, server=staff)
    read = client.call("get_hotel", pk=hotel.pk).assert_ok().structured
    assert read["fields"]["price"] == "120.00"
    assert read["titles"] == {"city": "Lisbon, Portugal"}
    client.call("change_hotel", pk=hotel.pk, price="150", version=read["version"]).assert_ok()
    hotel.refresh_from_db()
    assert (int(hotel.price), hotel.rooms) == (150, 9)
    (entry,) = client.call("hotel_history", pk=hotel.pk).structured["entries"]
    assert (entry["user"], entry["action"]) == ("boss", "Changed Price per night (€).")
    assert entry["client"]
    assert LogEntry.objects.get().get_change_message() == "Changed Price per night (€)."


def test_a_row_that_somebody_changed_meanwhile_is_not_changed(staff: MCPServer, boss: User, hotel: Hotel) -> None:
    client = MCPClient(boss, server=staff)
    version = client.call("get_hotel", pk=hotel.pk).structured["version"]
    Hotel.objects.update(rooms=8)
    client.call("change_hotel", pk=hotel.pk, price=1, version=version).assert_error_mentions("changed this hotel since")


def test_who_is_not_staff_sees_none_of_it_and_a_viewer_may_only_read(staff: MCPServer, hotel: Hotel) -> None:
    ann = User.objects.create_user("ann", password="x")
    assert MCPClient(ann, server=staff).names() == []
    ann.is_staff = True
    ann.save()
    ann.user_permissions.add(Permission.objects.get(codename="view_hotel"))
    viewer = MCPClient(User.objects.get(pk=ann.pk), server=staff)
    assert viewer.names() == ["admin_overview", "admin_choices", "search_hotels", "get_hotel", "hotel_history"]
    assert viewer.call("get_hotel", pk=hotel.pk).structured["may"] == []
    viewer.call("change_hotel", pk=hotel.pk, price=1).assert_hidden()


def test_a_row_is_added_and_deleted(staff: MCPServer, boss: User, hotel: Hotel) -> None:
    client = MCPClient(boss, server=staff)
    values = {"name": "Belem", "city": hotel.city.pk, "district": "B", "stars": 3, "rating": 8, "price": 90, "rooms": 2}
    client.call("add_hotel", values | {"stars": 99}).assert_error_mentions("hotel_stars")
    made = client.call("add_hotel", values).assert_ok().structured
    assert Hotel.objects.get(pk=made["pk"]).name == "Belem"
    client.call("delete_hotel", pk=made["pk"]).assert_ok()
    assert [*Hotel.objects.all()] == [hotel]


def test_a_model_that_an_app_registers_when_it_is_ready_is_offered_and_one_that_is_unregistered_is_not(
    make_server: Make, boss: User
) -> None:
    site = AdminSite("late")
    site.register(City)
    server = make_server("office", search_tools=0)
    admin_tools(site, server=server)
    site.register(Hotel)
    site.unregister(City)
    build_urlpatterns()
    assert [name for name in MCPClient(boss, server=server).names() if name.startswith("search")] == ["search_hotels"]


def test_a_password_hash_is_hidden_and_what_stands_for_it_is_no_value(staff: MCPServer, boss: User) -> None:
    client = MCPClient(boss, server=staff)
    read = client.call("get_user", pk=boss.pk).assert_ok()
    assert read.structured["fields"]["password"].startswith("hidden")
    assert boss.password not in str(read)
    assert "password" not in client.definition("change_user")["inputSchema"]["properties"]
    client.call("change_user", pk=boss.pk, password="new").assert_error_mentions("'password'")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"only": ["travel.hotle"]}, "the admin has no 'travel.hotle'"),
        ({"exclude": ["hotels"]}, "the admin has no 'hotels'"),
        ({"show": ["api_key"]}, "write app, model and field"),
        ({"show": ["travel.hotle.name"]}, "write app, model and field"),
        ({"safe_actions": ["exprot"]}, "the admin has no action 'exprot'. It has: "),
        ({"only": "travel"}, "only must be a list"),
        ({"approval": "nobody"}, "approval must be one of"),
    ],
)
def test_a_declaration_that_matches_nothing_says_so(make_server: Make, given: Any, words: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=re.escape(words)):
        admin_tools(server=make_server("office"), **given)


class Config:
    """No model, with what the admin asks a model for, as django-constance has it."""

    class Meta:
        app_label, model_name, object_name = "travel", "config", "Config"
        abstract = swapped = is_composite_pk = False
        verbose_name_plural = "config"
        app_config = None

    _meta = Meta()


class ConfigAdmin(admin.ModelAdmin):
    def __init__(self, model: Any, site: Any) -> None:
        model._meta.concrete_model = model
        super().__init__(model, site)


def test_what_is_registered_and_is_no_model_is_left_out(make_server: Make) -> None:
    with own_site({City: admin.ModelAdmin}) as site:
        site.register([Config], ConfigAdmin)
        server = make_server("office")
        admin_tools(site, server=server)
    assert {name for name in server.tools if "config" in name} == set()
    assert "change_city" in server.tools

"""Choices of the admin: of fields as their widgets offer them, and of filters."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import Permission, User

from demo_project.travel.models import Booking, City, Hotel
from django_mcp import MCPServer, admin_tools
from django_mcp.test import MCPClient
from tests.integrations.admin_site.office import make_city, make_hotel, own_site
from tests.integrations.back_office.models import Category, Product

pytestmark = pytest.mark.django_db

Make = Callable[..., Any]


class CityAdmin(admin.ModelAdmin):
    search_fields = ("name",)


class HotelAdmin(admin.ModelAdmin):
    autocomplete_fields = ("city",)
    list_filter = ("stars",)
    search_fields = ("name",)


class BookingAdmin(admin.ModelAdmin):
    raw_id_fields = ("hotel",)


@pytest.fixture
def boss(make_server: Make) -> Iterator[MCPClient]:
    with own_site({City: CityAdmin, Hotel: HotelAdmin, Booking: BookingAdmin, User: admin.ModelAdmin}) as site:
        server: MCPServer = make_server("office", search_tools=0)
        admin_tools(site, server=server)
        yield MCPClient(User.objects.create_superuser("boss"), server=server)


@pytest.fixture
def hotel() -> Hotel:
    return make_hotel(make_city())


def offered(boss: MCPClient, tool: str, argument: str, query: str = "") -> list[tuple[str, str]]:
    found = boss.call("admin_choices", tool=tool, argument=argument, query=query).assert_ok().structured["choices"]
    return [(str(choice["value"]), choice["text"]) for choice in found]


@pytest.mark.parametrize("tool", ["add_hotel", "change_hotel"])
def test_an_autocompleted_field_offers_what_its_page_does(boss: MCPClient, hotel: Hotel, tool: str) -> None:
    assert offered(boss, tool, "city", "lis") == [(str(hotel.city.pk), "Lisbon, Portugal")]
    assert offered(boss, tool, "city", "rome") == []


def test_a_field_of_keys_offers_the_list_of_the_other_model(boss: MCPClient, hotel: Hotel) -> None:
    assert offered(boss, "add_booking", "hotel", "auro") == [(str(hotel.pk), "Aurora")]


def test_other_fields_and_filters_offer_their_choices(boss: MCPClient, hotel: Hotel) -> None:
    assert ("europe", "Europe") in offered(boss, "add_city", "region")
    assert offered(boss, "add_city", "region", "euro") == [("europe", "Europe")]
    assert offered(boss, "search_hotels", "filters.stars") == [("4", "4")]


def test_a_wrong_name_is_answered_with_those_that_have_choices(boss: MCPClient, hotel: Hotel) -> None:
    asked = boss.call("admin_choices", tool="add_hotel", argument="name")
    asked.assert_error_mentions("'argument' must be one of: city.")
    boss.call("admin_choices", tool="add_house", argument="name").assert_error_mentions("'tool' must be the name of")


def test_choices_of_a_page_that_is_not_for_the_caller_do_not_exist(boss: MCPClient, hotel: Hotel) -> None:
    ann = User.objects.create_user("ann", is_staff=True)
    ann.user_permissions.add(Permission.objects.get(codename="view_hotel"))
    viewer = MCPClient(User.objects.get(pk=ann.pk), server=boss.server)
    asked = viewer.call("admin_choices", tool="add_hotel", argument="city")
    asked.assert_error_mentions("'tool' must be the name of")


class Ranged(admin.FieldListFilter):
    """A filter with a form instead of choices, as django-admin-rangefilter's."""

    def expected_parameters(self) -> list[str]:
        return [f"{self.field_path}__gte", f"{self.field_path}__lte"]

    def choices(self, changelist: Any) -> Iterator[dict[str, Any]]:
        yield {"selected": False, "query_string": changelist.get_query_string(remove=self.expected_parameters())}


class Typed(admin.SimpleListFilter):
    """One that takes what is typed in, as an autocompletion's."""

    title = parameter_name = "called"

    def has_output(self) -> bool:
        return True

    def lookups(self, request: Any, model_admin: Any) -> list[Any]:
        return []

    def choices(self, changelist: Any) -> Iterator[dict[str, Any]]:
        return iter(())

    def queryset(self, request: Any, queryset: Any) -> Any:
        return queryset.filter(name=self.value()) if self.value() else queryset


class FilteredAdmin(admin.ModelAdmin):
    list_filter = (("price", Ranged), Typed)


def test_a_filter_without_choices_takes_values_of_its_parameters(make_server: Make, hotel: Hotel) -> None:
    make_hotel(hotel.city, "Cheap", price=9)
    with own_site({Hotel: FilteredAdmin}) as site:
        server = make_server("office", search_tools=0)
        admin_tools(site, server=server)
        client = MCPClient(User.objects.create_superuser("filterer"), server=server)

        def found(**filters: Any) -> list[str]:
            rows = client.call("search_hotels", filters=filters).assert_ok().structured["rows"]
            return [row["title"] for row in rows]

        assert found(price={"price__gte": 5, "price__lte": 50}) == ["Cheap"]
        assert found(called=hotel.name) == [hotel.name]
        wrong = client.call("search_hotels", filters={"price": 9})
        wrong.assert_error_mentions("must be an object with some of: price__gte, price__lte.")
        unknown = client.call("search_hotels", filters={"price": {"city__name": "x"}})
        unknown.assert_error_mentions("must be an object with some of")


def test_a_choice_for_no_value_is_shown_by_its_text(make_server: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    size = Product._meta.get_field("size")
    Product.objects.create(name="Ball", sku="B-1", price=1, category=Category.objects.create(name="Toys"))
    with own_site({Product: type("SizedAdmin", (admin.ModelAdmin,), {"list_display": ("name", "size")})}) as site:
        server = make_server("office", search_tools=0)
        admin_tools(site, server=server)
        client = MCPClient(User.objects.create_superuser("boss"), server=server)
        sizes = []
        for choices in ([(1, "small")], [(None, "Unknown"), (1, "small")]):
            with monkeypatch.context() as patched:
                patched.setattr(size, "choices", choices)
                sizes.append(client.call("search_products").assert_ok().structured["rows"][0]["size"])
    assert sizes == [None, "Unknown"]

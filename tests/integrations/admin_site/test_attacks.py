"""What a client tries that a person cannot: other rows, fields, columns and buttons than the admin's pages have."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.http import HttpRequest
from django.template import engines
from django.template.response import TemplateResponse

from demo_project.travel.models import Booking, City, Hotel
from django_mcp import MCPServer, admin_tools
from django_mcp.test import MCPClient
from django_mcp.test.results import CallResult
from tests.integrations.admin_site.office import make_booking, make_city, make_hotel, own_site

pytestmark = pytest.mark.django_db

Make = Callable[..., Any]

CHOOSE = engines["django"].from_string(
    """<form method="post">{% csrf_token %}<input name="reason">
    {% for hotel in hotels %}<input type="checkbox" checked name="_selected_action" value="{{ hotel.pk }}">{% endfor %}
    <select name="action"><option value="close">close</option><option value="delete_selected">delete</option></select>
    <input type="checkbox" name="select_across" value="1"><input type="submit" name="apply" value="Apply"></form>"""
)


class BookingRows(admin.TabularInline):
    model = Booking
    extra = 0
    fields = ("reference", "user", "nights", "total", "status")


class HotelAdmin(admin.ModelAdmin):
    list_display = ("name", "stars")
    list_filter = ("stars",)
    search_fields = ("name",)
    fields = ("name", "city", "district", "stars", "rating", "price", "rooms")
    readonly_fields = ("district",)
    inlines = (BookingRows,)
    actions = ("close",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).exclude(name__startswith="Secret")

    def close(self, request: HttpRequest, queryset: QuerySet[Any]) -> Any:
        if "apply" in request.POST:
            queryset.update(rooms=0)
            return None
        return TemplateResponse(request, CHOOSE, {"hotels": queryset})


@pytest.fixture
def boss(make_server: Make) -> Iterator[MCPClient]:
    with own_site({Hotel: HotelAdmin, City: admin.ModelAdmin}) as site:
        server: MCPServer = make_server("office", search_tools=0)
        admin_tools(site, server=server, policy="allow")
        yield MCPClient(User.objects.create_superuser("boss"), server=server)


@pytest.fixture
def hotels() -> list[Hotel]:
    city = make_city()
    return [make_hotel(city, name) for name in ("Aurora", "Belem", "Secret Palace")]


def told(result: CallResult, key: Any) -> str:
    return f"{result.text} {result.message}".replace(str(key), "<pk>")


ON_A_ROW: dict[str, dict[str, Any]] = {
    "get_hotel": {},
    "hotel_history": {},
    "change_hotel": {"price": 1},
    "delete_hotel": {},
}


@pytest.mark.parametrize("name", ON_A_ROW)
def test_a_row_out_of_the_list_reads_as_one_that_never_was(name: str, boss: MCPClient, hotels: list[Hotel]) -> None:
    hidden, absent = hotels[2].pk, 987654
    LogEntry.objects.log_actions(boss.user.pk, [hotels[2]], 2, change_message="Secret history")
    answers = [told(boss.call(name, pk=key, **ON_A_ROW[name]), key) for key in (hidden, absent)]
    assert answers[0] == answers[1]
    assert "Secret" not in answers[0]
    hotels[2].refresh_from_db()
    assert hotels[2].price == 120


@pytest.mark.parametrize("pk", ["_31", "1_5F", "%31", "1/change", "1/../2", "../../auth/user/1", "add", "1\x00"])
def test_a_key_is_no_path_and_no_other_spelling_of_one(pk: str, boss: MCPClient, hotels: list[Hotel]) -> None:
    for name, more in ON_A_ROW.items():
        result = boss.call(name, pk=pk, **more)
        assert not result.ok, (name, result.text)
    assert Hotel.objects.filter(price=120).count() == len(hotels)


@pytest.mark.parametrize(
    "arguments",
    [
        {"filters": {"city__name": "Lisbon"}},
        {"filters": {"price__gte": 1}},
        {"filters": {"stars__gte": 1}},
        {"filters": {"name__startswith": "S"}},
        {"filters": {"q": "Aurora"}},
        {"filters": {"o": "1"}},
        {"filters": {"_popup": "1"}},
        {"filters": {"_to_field": "price"}},
        {"order_by": "price"},
        {"order_by": "city__name"},
        {"order_by": "-rooms"},
        {"order_by": "?"},
        {"date": "2026"},
        {"page": 0},
        {"page": "all"},
        {"all": ""},
    ],
)
def test_a_list_is_asked_by_what_its_page_offers(
    arguments: dict[str, Any], boss: MCPClient, hotels: list[Hotel]
) -> None:
    assert not boss.call("search_hotels", **arguments).ok


def test_a_list_counts_and_finds_only_its_rows(boss: MCPClient, hotels: list[Hotel]) -> None:
    assert boss.call("search_hotels").assert_ok().structured["total"] == 2
    assert boss.call("search_hotels", query="Secret").assert_ok().structured["total"] == 0
    assert boss.call("search_hotels", query="Baixa").assert_ok().structured["total"] == 0, "not a field to search"


@pytest.mark.parametrize(
    "arguments",
    [
        {"breakfast": True},
        {"district": "Alfama"},
        {"id": 9},
        {"_popup": "1"},
        {"_saveasnew": "1"},
        {"_continue": "1"},
        {"_to_field": "name"},
        {"csrfmiddlewaretoken": "x"},
        {"bookings-TOTAL_FORMS": "1"},
        {"initial-price": "1"},
    ],
)
def test_a_change_has_the_fields_of_the_page(arguments: dict[str, Any], boss: MCPClient, hotels: list[Hotel]) -> None:
    before = Hotel.objects.filter(pk=hotels[0].pk).values().get()
    assert not boss.call("change_hotel", pk=hotels[0].pk, **arguments).ok
    assert Hotel.objects.filter(pk=hotels[0].pk).values().get() == before


def test_a_row_of_another_parents_inline_stays_where_it_is(boss: MCPClient, hotels: list[Hotel]) -> None:
    booking = make_booking(hotels[2], boss.user)
    for row in ({"pk": booking.pk, "nights": 9}, {"pk": booking.pk, "delete": True}):
        refused = boss.call("change_hotel", pk=hotels[0].pk, bookings=[row])
        assert not refused.ok
        absent = boss.call("change_hotel", pk=hotels[0].pk, bookings=[{**row, "pk": 987654}])
        assert told(refused, booking.pk) == told(absent, 987654)
    booking.refresh_from_db()
    assert (booking.hotel_id, booking.nights) == (hotels[2].pk, 2)


@pytest.mark.parametrize(
    "values",
    [
        {"_selected_action": ["{other}"]},
        {"_selected_action": ["{hidden}"]},
        {"action": "delete_selected"},
        {"select_across": "1"},
        {"index": "1"},
    ],
)
def test_what_an_action_asks_does_not_choose_other_rows_or_another_action(
    values: dict[str, Any], boss: MCPClient, hotels: list[Hotel]
) -> None:
    keys = {"other": hotels[1].pk, "hidden": hotels[2].pk}
    meant = {
        name: [text.format(**keys) for text in value] if isinstance(value, list) else value
        for name, value in values.items()
    }
    refused = boss.call("hotel_close", pks=[hotels[0].pk], values={"reason": "storm", **meant})
    refused.assert_error_mentions("Unknown argument", "'reason'")
    assert Hotel.objects.filter(rooms=9).count() == len(hotels)


def test_an_action_runs_on_the_rows_that_were_named(boss: MCPClient, hotels: list[Hotel]) -> None:
    boss.call("hotel_close", pks=[hotels[0].pk], values={"reason": "storm"}).assert_ok()
    assert [hotel.rooms for hotel in Hotel.objects.order_by("pk")] == [0, 9, 9]


@pytest.mark.parametrize(
    ("name", "arguments", "wrong"),
    [
        ("search_hotels", {"page": "all"}, "page"),
        ("search_hotels", {"page": 0}, "page"),
        ("search_hotels", {"page": 1.5}, "page"),
        ("search_hotels", {"page": [1]}, "page"),
        ("search_hotels", {"query": 5}, "query"),
        ("search_hotels", {"query": {"a": 1}}, "query"),
        ("search_hotels", {"filters": "stars"}, "filters"),
        ("search_hotels", {"filters": [4]}, "filters"),
        ("search_hotels", {"filters": {"stars": {"a": 1}}}, "filters.stars"),
        ("search_hotels", {"order_by": 1}, "order_by"),
        ("search_hotels", {"order_by": {"name": 1}}, "order_by"),
        ("search_hotels", {"order_by": [["name"]]}, "order_by"),
        ("get_hotel", {"pk": {"a": 1}}, "pk"),
        ("get_hotel", {"pk": [1]}, "pk"),
        ("get_hotel", {"pk": True}, "pk"),
        ("get_hotel", {"pk": None}, "pk"),
        ("get_hotel", {}, "pk"),
        ("change_hotel", {"pk": 1, "price": {"a": 1}}, "price"),
        ("change_hotel", {"pk": 1, "price": ["1", "2"]}, "price"),
        ("change_hotel", {"pk": 1, "bookings": {"pk": 1}}, "bookings"),
        ("change_hotel", {"pk": 1, "bookings": ["x"]}, "bookings"),
        ("change_hotel", {"pk": 1, "version": 5}, "version"),
        ("hotel_close", {"pks": 1}, "pks"),
        ("hotel_close", {"pks": "12"}, "pks"),
        ("hotel_close", {"pks": {"a": 1}}, "pks"),
        ("hotel_close", {"pks": [{"a": 1}]}, "pks"),
        ("hotel_close", {"pks": [[1]]}, "pks"),
        ("hotel_close", {"pks": [1], "values": [1]}, "values"),
        ("hotel_close", {"pks": [1], "values": "x"}, "values"),
        ("hotel_close", {"pks": [1], "values": {"reason": {"a": 1}}}, "values.reason"),
        ("hotel_close", {"pks": [1], "button": 5}, "button"),
    ],
)
def test_a_value_of_another_type_is_refused_by_its_name(
    name: str, arguments: dict[str, Any], wrong: str, boss: MCPClient, hotels: list[Hotel]
) -> None:
    first = hotels[0].pk
    if arguments.get("pk") == 1 and arguments["pk"] is not True:
        arguments = {**arguments, "pk": first}
    if arguments.get("pks") == [1]:
        arguments = {**arguments, "pks": [first]}
    boss.call(name, **arguments).assert_error_mentions(wrong)
    assert Hotel.objects.filter(price=120, rooms=9).count() == len(hotels)

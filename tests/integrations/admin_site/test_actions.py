"""Actions of the admin as tools: messages, files, pages in between, and rows that the caller may not see."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django import forms
from django.contrib import admin
from django.contrib.auth.models import Permission, User
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template import engines
from django.template.response import TemplateResponse

from demo_project.travel.models import City, Hotel
from django_mcp import MCPServer, admin_tools
from django_mcp.approvals.decisions import approve
from django_mcp.integrations.admin_site import actions
from django_mcp.models import Approval
from django_mcp.test import MCPClient
from tests.integrations.admin_site.office import make_booking, make_city, make_hotel, own_site

pytestmark = pytest.mark.django_db

Make = Callable[..., Any]

PAGE = engines["django"].from_string(
    """<form method="post">{% csrf_token %}{{ form }}
    {% for hotel in hotels %}<input type="hidden" name="_selected_action" value="{{ hotel.pk }}">{% endfor %}
    <input type="hidden" name="action" value="reprice"><input type="submit" name="apply" value="Apply"></form>"""
)


class PriceForm(forms.Form):
    price = forms.DecimalField(min_value=1, help_text="Of one night.")


class HotelAdmin(admin.ModelAdmin):
    actions = ("with_breakfast", "export", "reprice")
    search_fields = ("name",)
    list_filter = ("stars",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).exclude(name="Secret")

    @admin.action(description="Serve breakfast at the selected %(verbose_name_plural)s", permissions=["change"])
    def with_breakfast(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        count = queryset.update(breakfast=True)
        self.message_user(request, f"{count} serve breakfast now.")

    def export(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse:
        lines = "\n".join(queryset.values_list("name", flat=True))
        return HttpResponse(
            lines, content_type="text/csv", headers={"Content-Disposition": "attachment; filename=h.csv"}
        )

    def reprice(self, request: HttpRequest, queryset: QuerySet[Any]) -> Any:
        form = PriceForm(request.POST if "apply" in request.POST else None)
        if form.is_valid():
            queryset.update(price=form.cleaned_data["price"])
            self.message_user(request, "Priced.")
            return None
        return TemplateResponse(request, PAGE, {"form": form, "hotels": queryset})


@pytest.fixture
def office(make_server: Make) -> Iterator[MCPServer]:
    with own_site({Hotel: HotelAdmin, City: admin.ModelAdmin}) as site:
        server: MCPServer = make_server("office", search_tools=0)
        admin_tools(site, server=server, safe_actions=["export"])
        yield server


@pytest.fixture
def hotels() -> list[Hotel]:
    city = make_city()
    return [make_hotel(city, name) for name in ("Aurora", "Belem", "Secret")]


@pytest.fixture
def boss(office: MCPServer) -> MCPClient:
    return MCPClient(User.objects.create_superuser("boss"), server=office)


def keys(hotels: list[Hotel]) -> list[int]:
    return [hotel.pk for hotel in hotels]


def test_an_action_answers_with_the_admins_messages(boss: MCPClient, hotels: list[Hotel]) -> None:
    done = boss.call("hotel_with_breakfast", pks=keys(hotels[:2]))
    done.assert_structured({"messages": ["2 serve breakfast now."]})
    assert Hotel.objects.filter(breakfast=True).count() == 2
    assert boss.definition("hotel_with_breakfast")["title"] == "Serve breakfast at the selected hotels"


def test_a_file_is_the_result_and_a_safe_action_only_reads(boss: MCPClient, hotels: list[Hotel]) -> None:
    boss.call("hotel_export", pks=keys(hotels[:1])).assert_text("Aurora")
    assert boss.definition("hotel_export")["annotations"]["readOnlyHint"]


def test_a_page_in_between_says_what_it_needs_and_takes_it_with_the_next_call(
    boss: MCPClient, hotels: list[Hotel]
) -> None:
    asked = boss.call("hotel_reprice", pks=keys(hotels[:2])).assert_ok().structured
    assert "Of one night." in asked["needs_values"]["properties"]["price"]["description"]
    assert {hotel.price for hotel in Hotel.objects.all()} == {120}
    boss.call("hotel_reprice", pks=keys(hotels[:2]), values={"price": 0}).assert_error_mentions("greater than or equal")
    boss.call("hotel_reprice", pks=keys(hotels[:2]), values={"prise": 9}).assert_error_mentions("'price'")
    boss.call("hotel_reprice", pks=keys(hotels[:2]), values={"price": 99}).assert_text("Priced.")
    assert [int(hotel.price) for hotel in Hotel.objects.order_by("pk")] == [99, 99, 120]


def test_a_row_out_of_the_list_does_not_exist_for_an_action(boss: MCPClient, hotels: list[Hotel]) -> None:
    hidden = boss.call("hotel_with_breakfast", pks=keys(hotels))
    absent = boss.call("hotel_with_breakfast", pks=[9999])
    wrong = boss.call("hotel_with_breakfast", pks=["x"])
    hidden.assert_error_mentions(f"There is no hotel {hotels[2].pk}.")
    absent.assert_error_mentions("There is no hotel 9999.")
    wrong.assert_error_mentions("There is no hotel x.")
    assert not Hotel.objects.filter(breakfast=True).exists()


def test_an_action_without_permission_does_not_exist(office: MCPServer, hotels: list[Hotel]) -> None:
    ann = User.objects.create_user("ann", is_staff=True)
    ann.user_permissions.add(Permission.objects.get(codename="view_hotel"))
    viewer = MCPClient(User.objects.get(pk=ann.pk), server=office)
    assert [name for name in viewer.names() if name.startswith("hotel_")] == [
        "hotel_history",
        "hotel_export",
        "hotel_reprice",
    ]
    viewer.call("hotel_with_breakfast", pks=keys(hotels[:1])).assert_hidden()
    viewer.call("delete_hotels", pks=keys(hotels[:1])).assert_hidden()


def test_rows_are_deleted_together_or_what_protects_them_is_told(boss: MCPClient, hotels: list[Hotel]) -> None:
    boss.call("delete_hotels", pks=keys(hotels[:1])).assert_ok()
    assert not Hotel.objects.filter(pk=hotels[0].pk).exists()
    make_booking(hotels[1], User.objects.get())
    boss.call("delete_hotels", pks=keys(hotels[1:2])).assert_error_mentions("cannot be deleted", "R1")
    assert Hotel.objects.filter(pk=hotels[1].pk).exists()


@pytest.fixture
def asked(policies: None, boss: MCPClient) -> MCPClient:
    """The same person, whose calls wait for an approval."""
    return boss


def test_an_approver_sees_the_rows_and_values_of_an_action(asked: MCPClient, hotels: list[Hotel]) -> None:
    asked.call("hotel_reprice", pks=keys(hotels[:2]), values={"price": 99}).assert_needs_approval()
    changes = {change["field"]: change["after"] for change in Approval.objects.get().preview["changes"]}
    assert changes == {"pks": ["Aurora", "Belem"], "values.price": 99}
    assert {hotel.price for hotel in Hotel.objects.all()} == {120}


def test_an_approver_sees_what_goes_along_with_a_selection(asked: MCPClient, hotels: list[Hotel]) -> None:
    asked.call("delete_cities", pks=[hotels[0].city.pk]).assert_needs_approval()
    preview = Approval.objects.get().preview
    assert preview["also"] == [{"what": "hotels", "count": 3}]
    assert "Hotel: Aurora" in preview["names"]
    assert Hotel.objects.count() == 3


def test_a_selection_that_something_protects_asks_nobody(asked: MCPClient, hotels: list[Hotel]) -> None:
    make_booking(hotels[0], User.objects.get())
    asked.call("delete_hotels", pks=keys(hotels[:1])).assert_error_mentions("cannot be deleted", "R1")
    assert not Approval.objects.exists()


def test_an_action_runs_on_what_a_search_finds(boss: MCPClient, hotels: list[Hotel]) -> None:
    boss.call("hotel_with_breakfast", search={"query": "e"}).assert_structured({"messages": ["1 serve breakfast now."]})
    boss.call("hotel_with_breakfast", search={"filters": {"stars": 4}}).assert_text("2 serve breakfast now.")
    assert not Hotel.objects.get(name="Secret").breakfast, "it is not in the list"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"search": {"query": "nowhere"}}, "'search': finds no row"),
        ({"search": {"query": "Secret"}}, "'search': finds no row"),
        ({"search": {"query": "a"}, "pks": [1]}, "together with 'pks'"),
        ({"search": {"filters": {"stars": 3}}}, "'filters.stars' must be one of: 4"),
        ({"search": {"filters": {"price": 3}}}, "'filters.price'"),
        ({"search": {"page": 2}}, "search.page"),
        ({"search": "Aurora"}, "'search'"),
        ({}, "'pks'"),
    ],
)
def test_a_search_for_an_action_that_does_not_fit_says_why(
    arguments: dict[str, Any], words: str, boss: MCPClient, hotels: list[Hotel]
) -> None:
    boss.call("hotel_with_breakfast", **arguments).assert_error_mentions(words)
    assert not Hotel.objects.filter(breakfast=True).exists()


def test_a_search_that_finds_too_many_rows_is_refused(
    boss: MCPClient, hotels: list[Hotel], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(actions, "MAX_FOUND", 1)
    boss.call("hotel_with_breakfast", search={}).assert_error_mentions("finds 2 rows; at most 1 are possible")


def test_an_approval_is_bound_to_the_rows_that_the_search_found(asked: MCPClient, hotels: list[Hotel]) -> None:
    waiting = asked.call("hotel_with_breakfast", search={"filters": {"stars": 4}}).assert_needs_approval()
    (shown,) = Approval.objects.get().preview["changes"]
    assert shown == {"field": "search", "label": "Hotels", "after": ["Aurora", "Belem"]}
    make_hotel(hotels[0].city, "Castelo")  # found from now on
    approver = User.objects.create_superuser("approver")
    asked.approve(waiting, approver)
    assert not Hotel.objects.filter(breakfast=True).exists()


def test_a_rule_for_further_calls_holds_for_the_arguments_that_an_approver_chose(
    asked: MCPClient, hotels: list[Hotel]
) -> None:
    waiting = asked.call("change_hotel", pk=hotels[0].pk, price=130).assert_needs_approval()
    approver = User.objects.create_superuser("approver")
    assert approve(Approval.objects.get(), approver, names=["pk"], calls=None, seconds=3600, in_admin=True)
    asked.call(waiting.name, waiting.params["arguments"]).assert_ok()
    asked.call("change_hotel", pk=hotels[0].pk, price=140).assert_ok()
    asked.call("change_hotel", pk=hotels[1].pk, price=140).assert_needs_approval()
    assert [int(hotel.price) for hotel in Hotel.objects.order_by("pk")] == [140, 120, 120]


class OnlyPageAdmin(admin.ModelAdmin):
    """The page of one row takes the place of the list, as that of django-solo does."""

    fields = ("breakfast",)
    actions = (HotelAdmin.with_breakfast,)

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> Any:
        return self.changeform_view(request, str(Hotel.objects.earliest("pk").pk), "", extra_context)


def test_an_action_is_not_sent_to_a_form_that_takes_the_place_of_the_list(
    make_server: Make, hotels: list[Hotel], policies: None
) -> None:
    Hotel.objects.update(breakfast=True)
    with own_site({Hotel: OnlyPageAdmin}) as site:
        server = make_server("office", search_tools=0)
        admin_tools(site, server=server)
        client = MCPClient(User.objects.create_superuser("boss"), server=server)
        client.call("delete_hotels", pks=keys(hotels[:1])).assert_error_mentions("no list of hotels")
        client.call("hotel_with_breakfast", pks=keys(hotels[:1])).assert_error_mentions("no list of hotels")
    assert not Approval.objects.exists()
    assert not Hotel.objects.exclude(breakfast=True).exists()

"""What an approver sees of a call of the admin's tools, and what fails before anybody is asked."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django import forms
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.http import HttpRequest, HttpResponse

from demo_project.travel.models import City, Hotel
from django_mcp import MCPServer, admin_tools
from django_mcp.approvals.decisions import approve
from django_mcp.models import Approval
from django_mcp.test import MCPClient
from tests.integrations.admin_site.office import make_booking, make_city, make_hotel, own_site

pytestmark = pytest.mark.django_db

Make = Callable[..., Any]


class Hotels(admin.TabularInline):
    model = Hotel
    fields = ("name", "district", "stars", "rating", "price", "rooms")
    extra = 0


class CityAdmin(admin.ModelAdmin):
    inlines = (Hotels,)
    saved: list[str] = []

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        self.saved.append(obj.name)
        super().save_model(request, obj, form, change)


class CarelessAdmin(admin.ModelAdmin):
    """Goes on after any error, as packages do that roll back or report by themselves."""

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().changeform_view(request, *args, **kwargs)
        except BaseException:
            if request.method == "GET":
                raise
            return self.response_post_save_change(request, Hotel())


class AnsweringAdmin(admin.ModelAdmin):
    """Answers any error with a page."""

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().changeform_view(request, *args, **kwargs)
        except BaseException:
            if request.method == "GET":
                raise
            return HttpResponse("Not saved. Try again later.")


class OwnPageAdmin(admin.ModelAdmin):
    """Saves in a way of its own."""

    def changeform_view(self, request: HttpRequest, object_id: Any = None, *args: Any, **kwargs: Any) -> Any:
        if request.method == "GET":
            return super().changeform_view(request, object_id, *args, **kwargs)
        Hotel.objects.filter(pk=object_id).update(price=request.POST["price"])
        return self.response_post_save_change(request, Hotel())


@pytest.fixture
def boss() -> User:
    return User.objects.create_superuser("boss", "boss@example.com", "x")


@pytest.fixture
def city() -> City:
    return make_city()


@pytest.fixture
def hotel(city: City) -> Hotel:
    return make_hotel(city)


@pytest.fixture
def office(make_server: Make, policies: None) -> Callable[..., MCPServer]:
    def make(**options: Any) -> MCPServer:
        server: MCPServer = make_server("office", search_tools=0)
        admin_tools(server=server, **options)
        return server

    return make


@pytest.fixture
def own(office: Callable[..., MCPServer]) -> Iterator[Callable[..., MCPServer]]:
    """Makes an endpoint for an admin with one page of the test's."""
    entered: list[Any] = []

    def make(page: Any, model: Any = Hotel) -> MCPServer:
        pages = {model: page} if model is City else {model: page, City: admin.ModelAdmin}
        entered.append(own_site(pages))
        return office(site=entered[-1].__enter__())

    yield make
    for each in entered:
        each.__exit__(None, None, None)


def proposed(client: MCPClient, name: str, /, **given: Any) -> Approval:
    client.call(name, given).assert_needs_approval()
    return Approval.objects.latest("pk")


def lines(approval: Approval) -> list[tuple[Any, ...]]:
    return [(each["label"], each.get("before"), each.get("after")) for each in approval.preview["changes"]]


def failed(client: MCPClient, tool: str, words: str, /, **given: Any) -> None:
    client.call(tool, given).assert_error_mentions(words)
    assert not Approval.objects.exists(), "nobody is asked about what fails"


# Changes


def test_an_approver_sees_old_and_new_values_by_label_and_nothing_is_saved(
    office: Callable[..., MCPServer], boss: User, hotel: Hotel
) -> None:
    client = MCPClient(boss, server=office())
    asked = proposed(client, "change_hotel", pk=hotel.pk, price="150", breakfast=True)
    assert asked.preview["object"] == "Hotel Aurora"
    assert lines(asked) == [("Price per night (€)", "120.00", "150"), ("Breakfast included", False, True)]
    hotel.refresh_from_db()
    assert (int(hotel.price), LogEntry.objects.count()) == (120, 0)


def test_an_approver_sees_rows_added_changed_and_deleted(
    own: Callable[..., MCPServer], boss: User, city: City, hotel: Hotel
) -> None:
    gone = make_hotel(city, "Belem")
    client = MCPClient(boss, server=own(CityAdmin, City))
    rows = [
        {"pk": hotel.pk, "price": 150},
        {"pk": gone.pk, "delete": True},
        {"name": "Chiado", "district": "C", "stars": 3, "rating": 8, "price": 90, "rooms": 2},
    ]
    asked = proposed(client, "change_city", pk=city.pk, country="Spain", hotels=rows)
    shown = lines(asked)
    assert shown[0] == ("Country", "Portugal", "Spain")
    assert ("Hotel Aurora: Price per night (€)", "120.00", "150") in shown
    assert ("Hotel: deleted", "Belem", None) in shown
    assert ("Hotel: added: Name", None, "Chiado") in shown
    assert Hotel.objects.count() == 2
    assert CityAdmin.saved == []
    assert approve(asked, User.objects.create_superuser("other"))
    client.call("change_city", pk=city.pk, country="Spain", hotels=rows).assert_ok()
    assert sorted(Hotel.objects.values_list("name", flat=True)) == ["Aurora", "Chiado"]


def test_an_approver_sees_what_is_added(office: Callable[..., MCPServer], boss: User, city: City) -> None:
    given = {"name": "Belem", "city": city.pk, "district": "B", "stars": 3, "rating": 8, "price": 90, "rooms": 2}
    asked = proposed(MCPClient(boss, server=office()), "add_hotel", **given)
    assert ("City", None, "Lisbon, Portugal") in lines(asked)
    assert asked.preview["verb"] == "create"
    assert not Hotel.objects.exists()


def test_secrets_are_masked_unless_the_site_opened_them(
    office: Callable[..., MCPServer], boss: User, hotel: Hotel
) -> None:
    client = MCPClient(boss, server=office())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "django_mcp.integrations.admin_site.previews.is_secret",
            lambda model, name, opened: name == "district" and f"{model}.{name}" not in opened,
        )
        asked = proposed(client, "change_hotel", pk=hotel.pk, district="Alfama")
    assert lines(asked) == [("District", "hidden", "hidden")]
    assert "Baixa" not in str(asked.preview)


# Packages


@pytest.mark.parametrize("page", [CarelessAdmin, AnsweringAdmin, OwnPageAdmin])
def test_what_the_site_saves_in_a_way_of_its_own_is_marked_as_not_wholly_shown(
    own: Callable[..., MCPServer], boss: User, hotel: Hotel, page: Any
) -> None:
    asked = proposed(MCPClient(boss, server=own(page)), "change_hotel", pk=hotel.pk, price="150")
    assert any("150" in str(line) for line in lines(asked))
    assert "preview" in asked.withheld
    hotel.refresh_from_db()
    assert int(hotel.price) == 120
    with pytest.raises(ValueError, match="preview"):
        approve(asked, User.objects.create_superuser("other"))


class Numbered(forms.ModelForm):
    """Has the name that the version of a row has elsewhere, as django-concurrency's forms do."""

    version = forms.IntegerField(initial=7)

    class Meta:
        model = Hotel
        fields = ("price",)

    def clean_version(self) -> int:
        if self.cleaned_data["version"] != 7:
            raise forms.ValidationError("Somebody was faster.")
        return 7


class NumberedAdmin(admin.ModelAdmin):
    form = Numbered


def test_a_field_that_is_called_version_is_that_field(own: Callable[..., MCPServer], boss: User, hotel: Hotel) -> None:
    client = MCPClient(boss, server=own(NumberedAdmin))
    assert client.definition("change_hotel")["inputSchema"]["properties"]["version"]["type"] == "integer"
    assert client.call("get_hotel", pk=hotel.pk).structured["fields"]["version"] == 7
    failed(client, "change_hotel", "Somebody was faster.", pk=hotel.pk, price="150", version=6)
    assert lines(proposed(client, "change_hotel", pk=hotel.pk, price="150", version=7))[0][0].startswith("Price")


# Deletions


def test_an_approver_of_a_deletion_sees_the_row_and_what_goes_along(
    office: Callable[..., MCPServer], boss: User, city: City
) -> None:
    for number in range(60):
        make_hotel(city, f"Hotel {number:02}")
    asked = proposed(MCPClient(boss, server=office()), "delete_city", pk=city.pk)
    assert ("Country", "Portugal", None) in lines(asked)
    assert asked.preview["also"] == [{"what": "hotels", "count": 60}]
    assert len(asked.preview["names"]) == 51
    assert asked.preview["names"][-1] == "… (10 more)"
    assert City.objects.exists()


def test_a_deletion_is_bound_to_the_rows_that_were_shown(
    office: Callable[..., MCPServer], boss: User, city: City
) -> None:
    for number in range(60):
        make_hotel(city, f"Hotel {number:02}")
    client, other = MCPClient(boss, server=office()), User.objects.create_superuser("other")
    assert approve(proposed(client, "delete_city", pk=city.pk), other)
    last = Hotel.objects.latest("name")
    last.delete()
    make_hotel(city, "Hotel 99")  # as many as before
    client.call("delete_city", pk=city.pk).assert_error_mentions("is not what was approved any more")
    assert City.objects.exists()
    assert approve(proposed(client, "delete_city", pk=city.pk), other)
    client.call("delete_city", pk=city.pk).assert_ok()
    assert not City.objects.exists()


# What fails before an approval


def test_what_fails_asks_nobody(office: Callable[..., MCPServer], boss: User, hotel: Hotel) -> None:
    client = MCPClient(boss, server=office())
    failed(client, "change_hotel", "price", pk=hotel.pk, price="many")
    failed(client, "change_hotel", "There is no hotel", pk=0, price=1)
    failed(client, "delete_hotel", "There is no hotel", pk=0)
    failed(client, "change_hotel", "changed this hotel since", pk=hotel.pk, price=1, version="old")
    failed(client, "change_hotel", "pric", pk=hotel.pk, pric=1)
    failed(client, "add_hotel", "Missing argument 'city'")


def test_a_protected_row_asks_nobody(office: Callable[..., MCPServer], boss: User, hotel: Hotel) -> None:
    make_booking(hotel, boss)
    failed(MCPClient(boss, server=office()), "delete_hotel", "cannot be deleted", pk=hotel.pk)


def test_a_deletion_without_the_permission_for_what_goes_along_asks_nobody(
    office: Callable[..., MCPServer], hotel: Hotel
) -> None:
    clerk = User.objects.create_user("clerk", is_staff=True)
    clerk.user_permissions.set(Permission.objects.filter(codename__in=["view_city", "delete_city"]))
    client = MCPClient(User.objects.get(pk=clerk.pk), server=office())
    failed(client, "delete_city", "rows that you may not delete: hotel", pk=hotel.city.pk)


def test_a_row_that_a_user_may_not_change_asks_nobody(own: Callable[..., MCPServer], boss: User, hotel: Hotel) -> None:
    class Locked(admin.ModelAdmin):
        def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
            return obj is None

    failed(MCPClient(boss, server=own(Locked)), "change_hotel", "may not change", pk=hotel.pk, price=1)


# Rows that change meanwhile


@pytest.mark.parametrize("change", [{"price": 130}, {"rooms": 3}])
def test_a_row_that_changed_in_between_asks_again_if_what_was_shown_changed(
    office: Callable[..., MCPServer], boss: User, hotel: Hotel, change: dict[str, Any]
) -> None:
    client = MCPClient(boss, server=office())
    asked = proposed(client, "change_hotel", pk=hotel.pk, price="150")
    assert approve(asked, boss, in_admin=True)
    Hotel.objects.update(**change)
    called = client.call("change_hotel", pk=hotel.pk, price="150")
    hotel.refresh_from_db()
    if "price" in change:
        called.assert_error_mentions("is not what was approved any more")
        assert int(hotel.price) == 130
    else:
        called.assert_ok()
        assert (int(hotel.price), hotel.rooms) == (150, 3), "the other's change stays"

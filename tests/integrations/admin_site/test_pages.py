"""Lists and forms of the admin in clients with MCP Apps: what is on them, and above all what is not."""

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from bs4 import BeautifulSoup
from django import forms
from django.conf import settings
from django.contrib import admin
from django.contrib.auth.models import Permission, User
from django.core.exceptions import ImproperlyConfigured
from django.test import override_settings
from django.utils import timezone

from demo_project.travel.models import Activity, Booking, City, Flight, Hotel
from django_mcp import MCPServer, admin_tools
from django_mcp.test import MCPClient
from tests.integrations.admin_site.office import make_booking, make_city, make_hotel, own_site

pytestmark = pytest.mark.django_db

Make = Callable[..., Any]


class HotelInline(admin.TabularInline):
    model = Hotel
    fields = ["name", "stars", "price", "breakfast"]
    extra = 2


class ActivityInline(admin.StackedInline):
    model = Activity
    fields = ["name", "category", "duration"]
    extra = 0

    def has_change_permission(self, request: Any, obj: Any = None) -> bool:
        return False

    def has_add_permission(self, request: Any, obj: Any = None) -> bool:
        return False


class CityPage(admin.ModelAdmin):
    list_display = ["name", "shout", "region", "rain_days"]
    list_display_links = ["shout"]
    list_filter = ["region", "country"]
    search_fields = ["name"]
    list_per_page = 2
    fieldsets = [
        (None, {"fields": ["name", ("region", "timezone")]}),
        ("Weather", {"fields": ["rain_days", "shout"], "description": "Means of <b>years</b>."}),
    ]
    readonly_fields = ["shout"]
    inlines = [HotelInline, ActivityInline]

    @admin.display(description="in capitals")
    def shout(self, row: City) -> str:
        return row.name.upper()


@pytest.fixture
def boss() -> User:
    return User.objects.create_superuser("boss", "boss@example.com", "x")


@pytest.fixture
def staff(make_server: Make) -> Iterator[MCPServer]:
    server: MCPServer = make_server("office", search_tools=0)
    with own_site({City: CityPage}) as site:
        admin_tools(site, app=True, server=server)
        yield server


@pytest.fixture
def hotels(make_server: Make) -> MCPServer:
    """The hotels of the demo's own admin."""
    server: MCPServer = make_server("hotels", search_tools=0)
    admin_tools(app=True, server=server, only=["travel.hotel", "travel.flight", "auth"])
    return server


def make_flight(city: City) -> Flight:
    now = timezone.now()
    return Flight.objects.create(
        number="X1",
        airline="X",
        origin=city,
        destination=make_city("Porto"),
        departs=now,
        arrives=now + timedelta(hours=1),
        price=1,
        seats_left=1,
    )


def client(user: User, server: MCPServer, *, apps: bool = True) -> MCPClient:
    return MCPClient(user, server=server, apps=apps, protocol_version="modern")


def page(called: Any) -> BeautifulSoup:
    assert called.html, called.text
    return BeautifulSoup(called.html, "html.parser")


def given(element: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(element["data-mcp-arguments"])
    return found


def words(elements: Any) -> list[str]:
    return [" ".join(element.get_text().split()) for element in elements]


class TestTheList:
    def test_has_the_columns_of_the_admin_and_its_link_in_front(self, staff: MCPServer, boss: User) -> None:
        city = make_city()
        shown = page(client(boss, staff).call("search_cities"))
        assert words(shown.select("thead th")) == ["In capitals", "Name", "Region", "Rain days"]
        assert words(shown.select("tbody th, tbody td")) == ["LISBON", "Lisbon", "Europe", "1.0"]
        link = shown.select_one("tbody th button")
        assert (link["data-mcp-tool"], given(link)) == ("get_city", {"pk": city.pk})

    def test_sorts_by_what_the_admin_sorts_by(self, staff: MCPServer, boss: User) -> None:
        for name in ("Porto", "Lisbon"):
            make_city(name)
        called = client(boss, staff).call("search_cities", order_by="name", page=1)
        (header,) = page(called).select("th[aria-sort]")
        assert (words([header]), header["aria-sort"]) == (["Name"], "ascending")
        assert given(header.button) == {"order_by": "-name"}
        assert not page(called).select_one("thead th:first-child button"), "the method names no field to order by"

    def test_turns_its_pages_with_all_else_as_it_is(self, staff: MCPServer, boss: User) -> None:
        for name in ("Porto", "Lisbon", "Aveiro"):
            make_city(name)
        asked = {"query": "Po", "filters": {"region": "europe"}, "order_by": "name"}
        first = page(client(boss, staff).call("search_cities", **asked))
        assert not first.select("#mcp-next"), "one row matches, which is one page"
        del asked["query"]
        first = page(client(boss, staff).call("search_cities", **asked))
        assert words(first.select("tbody th")) == ["AVEIRO", "LISBON"]
        assert "2 of 3 cities" in first.caption.get_text()
        following = given(first.select_one("#mcp-next"))
        assert following == {**asked, "page": 2}
        second = page(client(boss, staff).call("search_cities", **following))
        assert words(second.select("tbody th")) == ["PORTO"]
        assert given(second.select_one("#mcp-first")) == asked

    def test_filters_with_the_choices_of_the_admin(self, staff: MCPServer, boss: User) -> None:
        make_city()
        for filters in ({}, {"region": "asia"}):
            shown = page(client(boss, staff).call("search_cities", filters=filters))
            select = shown.select_one("select[name=region]")
            assert select.find_parent(attrs={"data-mcp-in": "filters"})
            assert "Europe" in words(select.select("option"))
            assert words(select.select("option[selected]")) == (["Asia"] if filters else [])
            assert len(select.select("option")) == 8, "all regions, whatever is chosen"
        value = json.loads(select.find("option", string="Europe")["value"])
        found = client(boss, staff).call("search_cities", filters={"region": value})
        assert found.structured["total"] == 1

    def test_keeps_a_filter_with_too_many_choices_for_a_menu(
        self, staff: MCPServer, boss: User, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("django_mcp.integrations.admin_site.pages.MAX_SELECT_CHOICES", 0)
        make_city()
        shown = page(client(boss, staff).call("search_cities", filters={"country": "Portugal", "region": "europe"}))
        assert not shown.select("select")
        assert words(shown.select(".chips li")) == ["Region: Europe ×", "Country: Portugal ×"]
        assert given(shown.select(".chips button")[1]) == {"filters": {"region": "europe"}}
        kept = {field["name"]: json.loads(field["value"]) for field in shown.select("[data-mcp-in] input")}
        assert kept == {"region": "europe", "country": "Portugal"}

    def test_asks_for_a_date_where_the_admin_divides_by_dates(self, hotels: MCPServer, boss: User) -> None:
        shown = page(client(boss, hotels).call("search_flights", date="2026"))
        assert shown.select_one("input[name=date]")["value"] == "2026"
        assert "date" not in given(shown.select_one("form.filters"))

    def test_leads_nowhere_for_who_may_not_open_a_row(self, make_server: Make, boss: User) -> None:
        server = make_server("lists", search_tools=0)

        class Listed(CityPage):
            mcp = ["search"]

        make_city()
        with own_site({City: Listed}) as site:
            admin_tools(site, app=True, server=server)
            assert not page(client(boss, server).call("search_cities")).select("tbody button")


class TestTheForm:
    def test_has_the_fieldsets_of_the_admin_with_inputs_of_a_browser(self, staff: MCPServer, boss: User) -> None:
        city = make_city()
        called = client(boss, staff).call("get_city", pk=city.pk)
        shown = page(called)
        form = shown.form
        assert form["data-mcp-tool"] == "change_city"
        assert given(form) == {"pk": city.pk, "version": called.structured["version"]}
        assert words(form.select("h2")) == ["Weather", "Hotels"]
        assert form.select_one("input[name=name]")["value"] == "Lisbon"
        assert form.select_one("select[name=region] option[selected]")["value"] == "europe"
        assert form.select_one("input[name=rain_days]")["type"] == "number"
        assert "Means of years." in form.get_text()
        assert words(form.select(".fields > div:has(> .label)")) == ["In capitals LISBON"]

    def test_labels_each_input_and_has_no_id_twice(self, staff: MCPServer, boss: User) -> None:
        city = make_city()
        make_hotel(city)
        make_hotel(city, "Borealis")
        shown = page(client(boss, staff).call("get_city", pk=city.pk))
        ids = [element["id"] for element in shown.select("[id]")]
        assert len(ids) == len(set(ids))
        inputs = shown.select("input:not([type=hidden]), select, textarea")
        assert {field["id"] for field in inputs} == {label["for"] for label in shown.select("label")}

    def test_has_the_rows_of_inlines_and_one_to_copy(self, staff: MCPServer, boss: User) -> None:
        city = make_city()
        hotel = make_hotel(city)
        shown = page(client(boss, staff).call("get_city", pk=city.pk))
        (row,) = shown.select("[data-mcp-in='hotels[]']")  # which looks into no template
        assert row.select_one("input[name=pk]")["value"] == str(hotel.pk)
        assert row.select_one("input[name=price]")["value"] == "120.00"
        assert row.select_one("input[name=delete]")["type"] == "checkbox"
        blank = {field["name"]: field for field in shown.template.find_all(["input", "select"])}
        assert [*blank] == ["name", "stars", "price", "breakfast"]
        assert "__prefix__" in blank["name"]["id"]

    def test_shows_an_inline_as_text_that_may_not_be_changed(self, staff: MCPServer, boss: User) -> None:
        city = make_city()
        Activity.objects.create(city=city, category="food", name="Pastéis", price=1, duration=timedelta(hours=1.5))
        shown = page(client(boss, staff).call("get_city", pk=city.pk))
        row = shown.find("legend", string="Pastéis").parent
        assert "Food and drink" in row.get_text()
        # Django's page lets the user delete the row, and nothing else.
        assert [field["name"] for field in row.select("input, select, textarea")] == ["pk", "delete"]
        assert len(shown.find_all("template")) == 1, "of the hotels"

    def test_saves_what_it_has(self, staff: MCPServer, boss: User) -> None:
        city = make_city()
        make_hotel(city)
        shown = page(client(boss, staff).call("get_city", pk=city.pk))
        saved = client(boss, staff).call("change_city", **{**given(shown.form), "name": "Lissabon"})
        again = page(saved.assert_ok())
        assert "was changed successfully" in again.select_one("[role=status]").get_text()
        assert again.select_one("input[name=name]")["value"] == "Lissabon"
        assert given(again.form)["version"] != given(shown.form)["version"]

    def test_of_a_viewer_has_no_inputs(self, staff: MCPServer) -> None:
        ann = User.objects.create_user("ann", is_staff=True)
        ann.user_permissions.add(*Permission.objects.filter(codename__in=["view_city", "view_hotel"]))
        city = make_city()
        make_hotel(city)
        shown = page(client(User.objects.get(pk=ann.pk), staff).call("get_city", pk=city.pk))
        assert not shown.select("input, select, textarea, button[type=submit], [data-mcp-in]")
        assert not shown.find_all("template")
        assert "data-mcp-tool" not in shown.form.attrs
        assert {"Region Europe", "Price per night (€) 120.00"} <= {*words(shown.select(".fields > div"))}

    def test_has_no_inputs_where_the_tools_only_read(self, make_server: Make, boss: User) -> None:
        server = make_server("reading", search_tools=0)
        city = make_city()
        with own_site({City: CityPage}) as site:
            admin_tools(site, app=True, write=False, server=server)
            shown = page(client(boss, server).call("get_city", pk=city.pk))
        assert not shown.select("input, select, textarea, button[type=submit]")
        assert not shown.find_all("template")

    def test_lists_the_rows_that_the_admin_offers_and_the_present_one(
        self, hotels: MCPServer, boss: User, subtests: pytest.Subtests
    ) -> None:
        cities = [make_city(name) for name in ("Lisbon", "Porto", "Aveiro")]
        hotel = make_hotel(cities[1])
        select = page(client(boss, hotels).call("get_hotel", pk=hotel.pk)).select_one("select[name=city]")
        assert {option["value"] for option in select.select("option")} == {str(city.pk) for city in cities}
        assert select.select_one("[selected]")["value"] == str(cities[1].pk)
        with subtests.test("who may not look at them has the present one alone"):
            ann = User.objects.create_user("ann", is_staff=True)
            ann.user_permissions.add(*Permission.objects.filter(codename__in=["view_hotel", "change_hotel"]))
            shown = page(client(User.objects.get(pk=ann.pk), hotels).call("get_hotel", pk=hotel.pk))
            assert words(shown.select("select[name=city] option")) == ["Porto, Portugal"]
            assert "Lisbon" not in str(shown)


class TestWhatIsHidden:
    def test_a_password_hash_is_on_no_page(self, hotels: MCPServer, boss: User) -> None:
        algorithm, _, salted = boss.password.partition("$")
        for called in (
            client(boss, hotels).call("search_users"),
            client(boss, hotels).call("get_user", pk=boss.pk),
            client(boss, hotels).call("change_user", pk=boss.pk, first_name="B"),
        ):
            assert "boss" in called.html
            assert algorithm not in called.html
            assert salted[-20:] not in called.html
            assert not page(called).select("[name=password]")

    @pytest.mark.parametrize("opened", [[], ["travel.hotel.district"]])
    def test_a_secret_column_is_on_no_page_until_the_site_opens_it(
        self, make_server: Make, boss: User, opened: list[str]
    ) -> None:
        class Page(admin.ModelAdmin):
            list_display = ["name", "district"]
            list_filter = ["district", "stars"]

        class Inline(admin.TabularInline):
            model = Hotel
            extra = 0

        class Houses(admin.ModelAdmin):
            inlines = [Inline]

        server = make_server("secrets", search_tools=0)
        hotel = make_hotel(make_city(), district="Alfama")
        with (
            override_settings(DJANGO_MCP={**settings.DJANGO_MCP, "REDACTED_ARGUMENTS": ["district"]}),
            own_site({Hotel: Page, City: Houses}) as site,
        ):
            admin_tools(site, app=True, show=opened, server=server)
            pages = [
                page(client(boss, server).call("search_hotels")),
                page(client(boss, server).call("get_hotel", pk=hotel.pk)),
                page(client(boss, server).call("get_city", pk=hotel.city.pk)),
                page(client(boss, server).call("change_hotel", pk=hotel.pk, stars=5)),
            ]
            for shown in pages:
                assert ("Alfama" in str(shown)) is bool(opened)
            assert bool(pages[0].select("select[name=district], #mcp-sort-district")) is bool(opened)
            for shown in pages[1:]:
                assert bool(shown.select("[name=district]")) is bool(opened)

    def test_a_field_with_the_input_of_a_password_has_none_here(self, make_server: Make, boss: User) -> None:
        class Form(forms.ModelForm):
            district = forms.CharField(widget=forms.PasswordInput(render_value=True))

        class Page(admin.ModelAdmin):
            form = Form

        server = make_server("passwords", search_tools=0)
        hotel = make_hotel(make_city(), district="Open sesame")
        with own_site({Hotel: Page}) as site:
            admin_tools(site, app=True, server=server)
            called = client(boss, server).call("get_hotel", pk=hotel.pk)
        assert not page(called).select("[name=district]")
        assert "Open sesame" not in called.html

    @pytest.mark.parametrize("opened", [[], ["travel.booking.hotel", "travel.hotel.city"]])
    def test_nor_are_the_choices_of_a_secret_field(self, make_server: Make, boss: User, opened: list[str]) -> None:
        """They may be the secrets of other rows, whether the field has a value or not."""

        class Page(admin.ModelAdmin):
            fields = ["reference", "hotel", "total"]

        class Stays(admin.TabularInline):
            model = Booking
            fields = ["reference", "hotel", "total"]
            fk_name = "user"
            extra = 0

        class People(admin.ModelAdmin):
            fields = ["username"]
            inlines = [Stays]

        server = make_server("choosing", search_tools=0)
        house = make_hotel(make_city(), "Token of Another")
        booking = make_booking(house, boss)
        Booking.objects.filter(pk=booking.pk).update(hotel=None, flight=make_flight(house.city))
        with (
            override_settings(DJANGO_MCP={**settings.DJANGO_MCP, "REDACTED_ARGUMENTS": ["hotel"]}),
            own_site({Booking: Page, User: People}) as site,
        ):
            admin_tools(site, app=True, show=opened, server=server)
            shown = [
                page(client(boss, server).call("get_booking", pk=booking.pk)),
                page(client(boss, server).call("get_user", pk=boss.pk)),
            ]
            offered = [
                client(boss, server).call("admin_choices", tool=tool, argument=argument).text
                for tool, argument in (("change_booking", "hotel"), ("change_user", "bookings.hotel"))
            ]
        for text in [*map(str, shown), *offered]:
            assert ("Token of Another" in text) is bool(opened)

    def test_nothing_is_said_of_a_row_that_the_admin_does_not_show(self, make_server: Make, boss: User) -> None:
        class Few(admin.ModelAdmin):
            def get_queryset(self, request: Any) -> Any:
                return super().get_queryset(request).exclude(name="Secret House")

        server = make_server("few", search_tools=0)
        city = make_city()
        hidden = make_hotel(city, "Secret House")
        make_hotel(city)
        with own_site({Hotel: Few}) as site:
            admin_tools(site, app=True, server=server)
            listed = client(boss, server).call("search_hotels")
            opened = client(boss, server).call("get_hotel", pk=hidden.pk)
        assert "1 hotel" in listed.html
        assert "Secret House" not in listed.html
        assert not opened.html


class TestClients:
    def test_without_apps_get_no_html(self, staff: MCPServer, boss: User) -> None:
        city = make_city()
        for called in (
            client(boss, staff, apps=False).call("search_cities"),
            client(boss, staff, apps=False).call("get_city", pk=city.pk),
        ):
            assert not called.html
            assert called.structured

    def test_with_apps_get_the_same_result(self, staff: MCPServer, boss: User) -> None:
        city = make_city()
        for name, arguments in (("search_cities", {}), ("get_city", {"pk": city.pk})):
            found = [client(boss, staff, apps=apps).call(name, arguments) for apps in (True, False)]
            assert found[0].structured == found[1].structured
            assert found[0].text == found[1].text

    def test_get_the_text_if_a_page_cannot_be_made(
        self, staff: MCPServer, boss: User, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        def broken(*_: Any, **__: Any) -> Any:
            raise RuntimeError("a widget of the site")

        monkeypatch.setattr("django_mcp.integrations.admin_site.pages.prepare_field", broken)
        city = make_city()
        called = client(boss, staff).call("get_city", pk=city.pk).assert_ok()
        assert called.structured["title"] == "Lisbon, Portugal"
        assert not called.html
        assert "could not be rendered" in caplog.text

    def test_are_offered_pages_only_if_the_site_says_so(self, make_server: Make, boss: User) -> None:
        server = make_server("plain", search_tools=0)
        make_city()
        with own_site({City: CityPage}) as site:
            admin_tools(site, server=server)
            assert not client(boss, server).call("search_cities").html
            assert not [uri for uri in server.resources if uri.startswith("ui://")]


def test_the_option_takes_no_template(make_server: Make) -> None:
    with pytest.raises(ImproperlyConfigured, match="app must be True or False, not 'travel/list"):
        admin_tools(app="travel/list.html", server=make_server("wrong"))  # type: ignore[arg-type]

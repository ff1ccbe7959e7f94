"""Values that a form of the admin cannot take: its own words say so, as in a browser."""

from collections.abc import Callable
from typing import Any

import pytest
from django import forms
from django.contrib import admin
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.models import Permission, User
from django.db.models import CharField
from django.http import HttpRequest

from demo_project.travel.models import Booking, City, Hotel
from django_mcp import admin_tools
from django_mcp.integrations.admin_site.hidden import HIDDEN
from django_mcp.test import MCPClient
from tests.integrations.admin_site.office import make_booking, make_city, make_hotel, own_site
from tests.integrations.back_office.models import Category

pytestmark = pytest.mark.django_db

Make = Callable[..., Any]


def test_a_text_that_is_no_date_and_time_is_answered_by_the_form(make_server: Make) -> None:
    boss = User.objects.create_superuser("boss")
    booking = make_booking(make_hotel(make_city()), boss)
    with own_site({Booking: admin.ModelAdmin}) as site:
        server = make_server("office", search_tools=0)
        admin_tools(site, server=server, policy="allow")
        called = MCPClient(boss, server=server).call("change_booking", pk=booking.pk, created="nonsense", nights=-1)
    called.assert_error_mentions("Enter a valid date.", "Enter a valid time.", "nights")


class ViewedHotels(admin.TabularInline):
    model = Hotel
    extra = 0

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class CityAdmin(admin.ModelAdmin):
    inlines = (ViewedHotels,)


def test_a_wrong_value_beside_rows_that_the_caller_may_only_view_is_answered_by_the_form(make_server: Make) -> None:
    boss = User.objects.create_superuser("boss")
    hotel = make_hotel(make_city())
    with own_site({City: CityAdmin}) as site:
        server = make_server("office", search_tools=0)
        admin_tools(site, server=server, policy="allow")
        client = MCPClient(boss, server=server)
        client.call("change_city", pk=hotel.city.pk, name="").assert_error_mentions("This field is required.")


class CategoryAdmin(admin.ModelAdmin):
    search_fields = ("name",)
    autocomplete_fields = ("parent",)


def test_a_text_that_is_no_key_of_an_autocompleted_row_is_not_taken_for_none(make_server: Make) -> None:
    books = Category.objects.create(name="Books")
    poetry = Category.objects.create(name="Poetry", parent=books)
    with own_site({Category: CategoryAdmin}) as site:
        server = make_server("office", search_tools=0)
        admin_tools(site, server=server, policy="allow")
        client = MCPClient(User.objects.create_superuser("boss"), server=server)
        client.call("change_category", pk=poetry.pk, parent="nonsense").assert_error_mentions("parent")
    poetry.refresh_from_db()
    assert poetry.parent == books


def test_a_password_that_a_page_shows_read_only_is_never_its_hash(make_server: Make) -> None:
    ann = User.objects.create_user("ann", is_staff=True, password="x")
    ann.user_permissions.add(Permission.objects.get(codename="view_user"))
    ann = User.objects.get(pk=ann.pk)
    with own_site({User: UserAdmin}) as site:
        server = make_server("office", search_tools=0)
        admin_tools(site, server=server, show=["auth.user.password"])
        fields = MCPClient(ann, server=server).call("get_user", pk=ann.pk).assert_ok().structured["fields"]
    assert fields["username"] == "ann"
    assert fields["password"] == HIDDEN


class FilledByScript(forms.Textarea):
    """A control that is empty in the page, as that of django-json-widget: its script fills it in."""

    def format_value(self, value: Any) -> str:
        return ""


class ScriptedHotels(admin.TabularInline):
    model = Hotel
    fields = ("name", "district")
    extra = 0
    formfield_overrides = {CharField: {"widget": FilledByScript}}


class ScriptedAdmin(admin.ModelAdmin):
    formfield_overrides = {CharField: {"widget": FilledByScript}}


class ScriptedCityAdmin(admin.ModelAdmin):
    fields = ("name",)
    inlines = (ScriptedHotels,)


def test_a_field_that_a_script_fills_in_keeps_its_value(make_server: Make) -> None:
    hotel = make_hotel(make_city())
    with own_site({Hotel: ScriptedAdmin, City: ScriptedCityAdmin}) as site:
        server = make_server("office", search_tools=0)
        admin_tools(site, server=server, policy="allow")
        client = MCPClient(User.objects.create_superuser("boss"), server=server)
        client.call("change_hotel", pk=hotel.pk, stars=5).assert_ok()
        client.call("change_city", pk=hotel.city.pk, name="Porto").assert_ok()
        client.call("change_hotel", pk=hotel.pk, district="").assert_error_mentions("This field is required.")
    hotel.refresh_from_db()
    assert (hotel.stars, hotel.name, hotel.district, hotel.city.name) == (5, "Aurora", "Baixa", "Porto")

"""What calls write into the admin's history, and how it and the request log lead to each other."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.test import Client as Browser
from django.test import override_settings
from django.urls import reverse

from demo_project.travel.models import Hotel
from django_mcp import MCPServer, admin_tools
from django_mcp.models import RequestLog
from django_mcp.test import MCPClient
from tests.integrations.admin_site.office import make_city, make_hotel

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


@pytest.fixture
def client(call_log: Any, staff: MCPServer, boss: User) -> MCPClient:
    return MCPClient(boss, server=staff, protocol_version="modern")


@pytest.fixture
def browser(boss: User) -> Browser:
    browser = Browser()
    browser.force_login(boss)
    return browser


def page(browser: Browser, name: str, *args: Any) -> str:
    response = browser.get(reverse(f"admin:{name}", args=args))
    assert response.status_code == 200
    return re.sub(r'name="csrfmiddlewaretoken" value="\w+"', "", response.content.decode())


def member(entry: LogEntry) -> dict[str, Any]:
    (found,) = [part["mcp"] for part in json.loads(entry.change_message) if "mcp" in part]
    return dict(found)


def test_an_entry_names_the_client_and_the_call_and_the_admins_page_is_as_without(
    client: MCPClient, browser: Browser, boss: User, hotel: Hotel
) -> None:
    client.call("change_hotel", pk=hotel.pk, price="150", rooms=8).assert_ok()
    entry = LogEntry.objects.get()
    assert member(entry).keys() == {"client", "request"}
    shown = page(browser, "travel_hotel_history", hotel.pk)
    assert "Changed Price per night (€) and Rooms." in shown
    parts = [part for part in json.loads(entry.change_message) if "mcp" not in part]
    LogEntry.objects.update(change_message=json.dumps(parts))
    assert page(browser, "travel_hotel_history", hotel.pk) == shown
    LogEntry.objects.update(change_message=entry.change_message)
    with override_settings(LANGUAGE_CODE="de"):
        assert "geändert" in page(browser, "travel_hotel_history", hotel.pk)


def test_an_addition_and_a_deletion_name_the_call_in_djangos_words(client: MCPClient, hotel: Hotel) -> None:
    values = {"name": "Belem", "city": hotel.city.pk, "district": "B", "stars": 3, "rating": 8, "price": 90, "rooms": 2}
    made = client.call("add_hotel", values).assert_ok().structured
    client.call("delete_hotel", pk=made["pk"]).assert_ok()
    deleted, added = LogEntry.objects.all()
    assert (added.get_change_message(), str(added)) == ("Added.", "Added “Belem”.")
    assert (deleted.get_change_message(), str(deleted)) == ("Deleted hotel “Belem”.", "Deleted “Belem.”")
    assert member(added)["request"] != member(deleted)["request"]


@pytest.mark.parametrize("number", [1, 3])
def test_a_deletion_of_a_selection_names_the_call_in_each_entry(
    client: MCPClient, browser: Browser, hotel: Hotel, number: int
) -> None:
    rows = [hotel, *(make_hotel(hotel.city, f"Belem {more}") for more in range(1, number))]
    client.call("delete_hotels", pks=[row.pk for row in rows]).assert_ok()
    entries = [*LogEntry.objects.all()]
    assert sorted(entry.get_change_message() for entry in entries) == sorted(f"Deleted hotel “{row}”." for row in rows)
    (told,) = {member(entry)["request"] for entry in entries}
    row = RequestLog.objects.get(history_id=told)
    assert row.name == "delete_hotels"
    assert {*row.log_entries.split(",")} == {str(entry.pk) for entry in entries}


def test_a_deletion_of_a_selection_can_name_the_client_on_the_admins_own_page(client: MCPClient, hotel: Hotel) -> None:
    rows = [hotel, make_hotel(hotel.city, "Belem")]
    with override_settings(DJANGO_MCP={**django_settings.DJANGO_MCP, "NAME_CLIENT_IN_HISTORY": True}):
        client.call("delete_hotels", pks=[row.pk for row in rows]).assert_ok()
    name = RequestLog.objects.get(name="delete_hotels").client_name
    texts = {f"Deleted hotel “{row}”. By {name}." for row in rows}
    assert {entry.change_message for entry in LogEntry.objects.all()} == texts


def test_a_message_that_is_set_later_names_the_call_too(
    client: MCPClient, hotel: Hotel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def log(self: Any, request: Any, obj: Any, message: Any) -> Any:
        entry = LogEntry(user=request.user, object_id=obj.pk, object_repr=str(obj), action_flag=2)
        entry.change_message = json.dumps(message)
        entry.save()
        return entry

    monkeypatch.setattr("django.contrib.admin.ModelAdmin.log_change", log)
    client.call("change_hotel", pk=hotel.pk, price="150").assert_ok()
    assert member(LogEntry.objects.get())["request"]


def test_a_change_of_nothing_is_still_shown_as_one(client: MCPClient, hotel: Hotel) -> None:
    client.call("change_hotel", pk=hotel.pk, rooms=hotel.rooms).assert_ok()
    assert [entry.get_change_message() for entry in LogEntry.objects.all()] in (["No fields changed."], [])


def test_the_history_of_a_row_has_the_call_that_the_request_log_finds(
    client: MCPClient, browser: Browser, hotel: Hotel
) -> None:
    client.call("change_hotel", pk=hotel.pk, price="150").assert_ok()
    (entry,) = client.call("hotel_history", pk=hotel.pk).structured["entries"]
    assert entry["action"] == "Changed Price per night (€)."
    row = RequestLog.objects.get(history_id=entry["request"])
    assert (row.name, row.log_entries) == ("change_hotel", str(LogEntry.objects.get().pk))
    found = browser.get(reverse("admin:django_mcp_requestlog_changelist"), {"q": entry["request"]})
    assert [row.pk for row in found.context["cl"].result_list] == [row.pk]


def test_the_request_log_leads_to_the_history_of_the_row(client: MCPClient, browser: Browser, hotel: Hotel) -> None:
    client.call("change_hotel", pk=hotel.pk, price="150").assert_ok()
    row = RequestLog.objects.get(name="change_hotel")
    shown = page(browser, "django_mcp_requestlog_change", row.pk)
    assert reverse("admin:travel_hotel_history", args=[hotel.pk]) in shown
    assert "Aurora: Changed Price per night (€)." in shown


def test_who_may_not_view_the_row_is_not_led_to_its_history(client: MCPClient, hotel: Hotel) -> None:
    client.call("change_hotel", pk=hotel.pk, price="150").assert_ok()
    clerk = User.objects.create_user("clerk", is_staff=True)
    clerk.user_permissions.set(Permission.objects.filter(codename="view_requestlog"))
    browser = Browser()
    browser.force_login(clerk)
    shown = page(browser, "django_mcp_requestlog_change", RequestLog.objects.get(name="change_hotel").pk)
    assert "Aurora" not in shown


def test_a_call_that_fails_leaves_no_trail_to_entries_that_were_rolled_back(
    client: MCPClient, hotel: Hotel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("after it was saved")

    monkeypatch.setattr("django_mcp.integrations.admin_site.changeform.Saved", fail)
    client.call("change_hotel", pk=hotel.pk, price="150").assert_error_mentions("Internal server error")
    row = RequestLog.objects.get(name="change_hotel")
    assert (row.history_id, row.log_entries) == ("", "")
    assert not LogEntry.objects.exists()


def test_entries_outside_of_calls_are_left_alone(browser: Browser, hotel: Hotel) -> None:
    fields = {"name": "A", "city": hotel.city.pk, "district": "B", "stars": 3, "rating": 8, "price": 90, "rooms": 2}
    browser.post(reverse("admin:travel_hotel_change", args=[hotel.pk]), fields)
    assert "mcp" not in LogEntry.objects.get().change_message


def test_a_site_can_have_the_client_named_on_the_admins_own_page(
    client: MCPClient, browser: Browser, hotel: Hotel
) -> None:
    with override_settings(DJANGO_MCP={**django_settings.DJANGO_MCP, "NAME_CLIENT_IN_HISTORY": True}):
        client.call("change_hotel", pk=hotel.pk, price="150").assert_ok()
    entry = LogEntry.objects.get()
    name = RequestLog.objects.get(name="change_hotel").client_name
    assert name
    assert entry.change_message == f"Changed Price per night (€). By {name}."
    assert f"By {name}." in page(browser, "travel_hotel_history", hotel.pk)
    assert RequestLog.objects.get(name="change_hotel").log_entries == str(entry.pk)

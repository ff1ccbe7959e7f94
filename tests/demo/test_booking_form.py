"""The form for holding rooms: a page for people as before, and a tool."""

import datetime
from collections.abc import Iterator
from html import unescape
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client as Browser
from django.utils import timezone

from demo_project.travel.forms import BookingForm
from demo_project.travel.models import Booking, Hotel
from django_mcp import BaseAuthentication, MCPServer, Principal, RequestHead, form_tool
from django_mcp import server as agency
from django_mcp.test import MCPClient
from tests.clients import MODERN, Client

pytestmark = pytest.mark.usefixtures("travel")


class AsBen(BaseAuthentication):
    def authenticate(self, head: RequestHead, server: object) -> Principal:
        return Principal(kind="name", id="ben", user=ben(), scopes=frozenset({"travel:write", "travel:read"}))


def ben() -> Any:
    return get_user_model().objects.get(username="ben")


@pytest.fixture
def client(version: str, settings: Any) -> Client:
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "AUTHENTICATION": [AsBen()]}
    return Client(agency, version, "view")


@pytest.fixture
def browser() -> Browser:
    found = Browser()
    found.force_login(ben())
    return found


@pytest.fixture
def hotel() -> Hotel:
    return Hotel.objects.filter(rooms__gte=2).order_by("pk")[0]


def in_days(days: int) -> datetime.date:
    return timezone.localdate() + datetime.timedelta(days=days)


@pytest.fixture
def values(hotel: Hotel) -> Iterator[dict[str, Any]]:
    return {"hotel": hotel.pk, "check_in": str(in_days(300)), "nights": 2, "travellers": 2, "room": "sea"}


def test_the_page_is_for_whoever_is_signed_in() -> None:
    assert Browser().get("/book/").status_code == 302


def test_people_hold_rooms_on_the_page(browser: Browser, values: dict[str, Any]) -> None:
    page = browser.post("/book/", values).content.decode()
    booking = Booking.objects.filter(user=ben()).latest("pk")
    assert f"Held: {booking.reference}" in page
    assert (booking.status, booking.nights, booking.room) == ("held", 2, "sea")


def test_a_model_holds_rooms_with_the_tool(client: Client, values: dict[str, Any], hotel: Hotel) -> None:
    told = client.call("hold_rooms", **values, insurance=True).result
    assert not told.get("isError"), told
    booking = Booking.objects.filter(user=ben()).latest("pk")
    assert told["structuredContent"]["reference"] == booking.reference
    assert told["structuredContent"]["status"] == "held"
    assert told["content"][0]["text"].startswith("Held: ")
    assert (booking.hotel, booking.insurance, booking.user) == (hotel, True, ben())


def test_a_model_shows_the_form_and_the_user_submits_it(values: dict[str, Any], hotel: Hotel) -> None:
    client = MCPClient(ben(), scopes=["travel:read", "travel:write"], apps=True, protocol_version="modern")

    shown = client.call("hold_rooms_form", hotel=hotel.pk, nights=3)
    assert f'<option value="{hotel.pk}" selected>{hotel.city.name}: {hotel.name}</option>' in shown.html
    assert 'data-mcp-tool="hold_rooms"' in shown.html
    wrong = client.call("hold_rooms", **{**values, "check_in": "2020-01-01"})
    assert "<li>Check-in is possible from" in wrong.html
    held = client.call("hold_rooms", **values)
    assert f"Rooms held: {Booking.objects.filter(user=ben()).latest('pk').reference}" in held.html


def test_the_page_and_the_tool_say_the_same(client: Client, browser: Browser, values: dict[str, Any]) -> None:
    wrong = {**values, "hotel": 10**9, "nights": 99, "room": "cellar", "check_in": "soon"}
    page = unescape(browser.post("/book/", wrong).content.decode())
    text = client.call("hold_rooms", **wrong).text
    errors = BookingForm(wrong).errors
    assert set(errors) == {"hotel", "nights", "room", "check_in"}
    for name, (words,) in errors.items():
        assert words in page
        assert f"Argument {name!r}: {words}" in text
    late = {**values, "check_in": str(in_days(1000))}
    assert "Check-in is possible from" in browser.post("/book/", late).content.decode()
    assert "Argument 'check_in': Check-in is possible from" in client.call("hold_rooms", **late).text


def test_nobody_gets_more_rooms_than_there_are(client: Client, browser: Browser, values: dict[str, Any]) -> None:
    Hotel.objects.filter(pk=values["hotel"]).update(rooms=1)
    many = {**values, "travellers": 8}
    assert "has no room left" in browser.post("/book/", many).content.decode()
    before = Booking.objects.count()
    answer = client.call("hold_rooms", **many)
    assert answer.result["isError"] is True
    assert "has no room left for those nights." in answer.text
    assert Booking.objects.count() == before


def test_the_schema_is_small_however_many_hotels_there_are(client: Client) -> None:
    (tool,) = [each for each in client.list("tools/list") if each["name"] == "hold_rooms"]
    assert tool["inputSchema"]["properties"]["hotel"] == {
        "type": "integer",
        "description": "Primary key of the hotel.",
    }
    assert set(tool["inputSchema"]["required"]) == {"hotel", "check_in", "nights"}
    assert tool["description"].startswith("Hold rooms in a hotel")


def test_publishing_leaves_the_page_as_it_is(make_server: Any, browser: Browser, values: dict[str, Any]) -> None:
    def answers() -> list[str]:
        wrong = {**values, "nights": 99, "room": "cellar"}
        pages = [browser.get("/book/"), browser.post("/book/", wrong)]
        return [str(page.context["form"]) for page in pages]

    before = answers()
    again: MCPServer = make_server()
    assert form_tool(BookingForm, handle="is_valid", server=again) is BookingForm
    Client(again, MODERN, "view").call("booking", **values)
    Client(again, MODERN, "view").call("booking", nights="many")
    assert answers() == before

"""The agency's back office in a conversation: anna asks, sees what would change, and decides in the admin."""

import datetime
import io
import json
from decimal import Decimal
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.test import Client as Browser
from django.urls import reverse
from django.utils import timezone

from demo_project.travel.endpoints import office
from demo_project.travel.models import Booking, Flight, Hotel
from django_mcp.models import Approval
from django_mcp.test import MCPClient

pytestmark = pytest.mark.usefixtures("policies", "travel")


@pytest.fixture(autouse=True)
def _quickly(settings: Any) -> None:
    """Nobody waits for a decision that comes after the answer."""
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "APPROVAL_WAIT_TIMEOUT": 0.001}


def user(name: str) -> Any:
    return get_user_model().objects.get(username=name)


def client_of(name: str) -> MCPClient:
    return MCPClient(user(name), server=office, scopes=["travel:office"], protocol_version="modern")


def signed_in(name: str) -> Browser:
    """A browser with a session, made by the login page."""
    browser = Browser()
    browser.post(reverse("admin:login"), {"username": name, "password": f"travel-{name}"})
    return browser


def page_of(browser: Browser) -> Any:
    """The page of the newest approval in the admin."""
    approval = Approval.objects.latest("pk")
    return browser.get(reverse("admin:django_mcp_approval_change", args=[approval.pk]))


def press(browser: Browser, decision: str) -> Any:
    """Submit the form of that page, as it was sent to the browser."""
    page = page_of(browser)
    approval = Approval.objects.latest("pk")
    address = reverse("admin:django_mcp_approval_decide", args=[approval.pk])
    seen = page.content.decode().partition('name="seen" value="')[2].partition('"')[0]
    return browser.post(address, {"decision": decision, "seen": seen})


@pytest.fixture
def anna() -> MCPClient:
    return client_of("anna")


@pytest.fixture
def hotel() -> Hotel:
    return Hotel.objects.filter(city__slug="rome").order_by("name")[0]


@pytest.fixture
def booking(hotel: Hotel) -> Booking:
    """A flight and a room of ben's, in a month."""
    soon = timezone.now() + datetime.timedelta(days=30)
    flight = Flight.objects.filter(seats_left__gte=5).order_by("pk")[0]
    Flight.objects.filter(pk=flight.pk).update(departs=soon, arrives=soon + datetime.timedelta(hours=2))
    return Booking.objects.create(
        reference="REFUND",
        user=user("ben"),
        hotel=hotel,
        flight=flight,
        check_in=soon.date(),
        nights=2,
        travellers=2,
        total=Decimal("480.50"),
        status=Booking.Status.CONFIRMED,
        created=timezone.now(),
    )


class TestThePriceOfAHotel:
    def test_is_changed_once_anna_has_approved_what_she_saw(self, anna: MCPClient, hotel: Hotel) -> None:
        (row,) = anna.call("search_hotels", query=hotel.name, filters={"city__region": "europe"}).structured["rows"]
        read = anna.call("get_hotel", pk=row["pk"]).structured
        asked = {"pk": row["pk"], "price": "133.00", "version": read["version"]}
        anna.call("change_hotel", **asked).assert_needs_approval()
        hotel.refresh_from_db()
        assert hotel.price != Decimal("133.00")

        browser = signed_in("anna")
        page = page_of(browser).content.decode()
        assert 'value="approve"' in page
        assert "Price per night (€)" in page
        assert read["fields"]["price"] in page
        assert "133.00" in page
        press(browser, "approve")

        assert "was changed successfully" in anna.call("change_hotel", **asked).assert_ok().text
        hotel.refresh_from_db()
        assert hotel.price == Decimal("133.00")
        entry = LogEntry.objects.get(object_id=str(hotel.pk), user=user("anna"))
        assert entry.get_change_message() == "Changed Price per night (€)."

    def test_stays_if_she_denies_it(self, anna: MCPClient, hotel: Hotel) -> None:
        before = hotel.price
        anna.call("change_hotel", pk=hotel.pk, price="1.00").assert_needs_approval()
        press(signed_in("anna"), "deny")

        anna.call("change_hotel", pk=hotel.pk, price="1.00").assert_error_mentions("denied")
        hotel.refresh_from_db()
        assert hotel.price == before

    def test_is_not_for_a_trainee_to_decide(self, anna: MCPClient, hotel: Hotel) -> None:
        anna.call("change_hotel", pk=hotel.pk, price="133.00").assert_needs_approval()
        tim = signed_in("tim")
        assert 'value="approve"' not in page_of(tim).content.decode()
        press(tim, "approve")
        assert Approval.objects.latest("pk").state == "pending"

    def test_is_not_decided_without_the_browser_in_which_anna_is_signed_in(self, anna: MCPClient, hotel: Hotel) -> None:
        anna.call("change_hotel", pk=hotel.pk, price="133.00").assert_needs_approval()
        assert press(Browser(), "approve").status_code == 302
        assert Approval.objects.latest("pk").state == "pending"

    def test_that_is_none_fails_before_anybody_is_asked(self, anna: MCPClient, hotel: Hotel) -> None:
        before = Approval.objects.count()
        anna.call("change_hotel", pk=hotel.pk, price="cheap").assert_error_mentions("price")
        assert Approval.objects.count() == before

    def test_is_nothing_that_a_trainee_may_ask_for(self, hotel: Hotel) -> None:
        client_of("tim").call("change_hotel", pk=hotel.pk, price="133.00").assert_hidden()
        assert client_of("tim").call("get_hotel", pk=hotel.pk).structured["may"] == []


class TestARefund:
    def test_cancels_the_booking_and_is_in_its_history(self, anna: MCPClient, booking: Booking) -> None:
        (row,) = anna.call("search_bookings", query="REFUND").structured["rows"]
        anna.call("booking_refund", pks=[row["pk"]]).assert_needs_approval()
        browser = signed_in("anna")
        assert "REFUND" in page_of(browser).content.decode()
        press(browser, "approve")
        seats = booking.flight.seats_left  # type: ignore[union-attr]

        done = anna.call("booking_refund", pks=[row["pk"]])
        assert done.structured == {"messages": ["REFUND: cancelled, €480.50 refunded."]}
        booking.refresh_from_db()
        assert booking.status == Booking.Status.CANCELLED
        assert Flight.objects.get(pk=booking.flight_id).seats_left == seats + 2
        assert "Refunded €480.50." in anna.call("booking_history", pk=row["pk"]).text

    def test_of_a_trip_that_has_begun_is_refused_in_words(self, anna: MCPClient, booking: Booking) -> None:
        Flight.objects.filter(pk=booking.flight_id).update(departs=timezone.now() - datetime.timedelta(hours=1))
        anna.call("booking_refund", pks=[booking.pk])
        press(signed_in("anna"), "approve")

        (said,) = anna.call("booking_refund", pks=[booking.pk]).structured["messages"]
        assert said == "Not refunded: REFUND has already begun and cannot be cancelled."
        booking.refresh_from_db()
        assert booking.status == Booking.Status.CONFIRMED
        assert not LogEntry.objects.filter(object_id=str(booking.pk)).exists()

    def test_is_an_action_of_the_page_too(self, booking: Booking) -> None:
        browser = signed_in("anna")
        data = {"action": "refund", "_selected_action": [booking.pk]}
        page = browser.post(reverse("admin:travel_booking_changelist"), data, follow=True).content.decode()

        assert "REFUND: cancelled, €480.50 refunded." in page
        booking.refresh_from_db()
        assert booking.status == Booking.Status.CANCELLED


def test_users_are_decided_by_another_person() -> None:
    anna = user("anna")
    client_of("admin").call("change_user", pk=anna.pk, first_name="Anna").assert_needs_approval()
    admin = Browser()
    admin.post(reverse("admin:login"), {"username": "admin", "password": "admin"})
    press(admin, "approve")
    assert Approval.objects.latest("pk").state == "pending"
    press(signed_in("anna"), "approve")
    assert Approval.objects.latest("pk").state == "approved"


class TestArgumentsThatDifferByCaller:
    """The fields of anna's form are known for anna only, so whatever asks for arguments has to ask for hers."""

    def test_are_taken_by_the_command_that_calls(self, hotel: Hotel) -> None:
        out, aside = io.StringIO(), io.StringIO()
        with pytest.raises(SystemExit):
            call_command(
                *("mcp_call", "change_hotel", f"pk={hotel.pk}", "price=133.00", "--server=backoffice", "--as=anna"),
                stdout=out,
                stderr=aside,
            )
        assert "requires approval by the user you act for" in out.getvalue()
        assert "It can be approved here: http://127.0.0.1:8000/backoffice/mcp/approvals/" in aside.getvalue()
        assert Approval.objects.latest("pk").arguments == {"pk": hotel.pk, "price": 133.0}

    def test_are_shown_by_the_command_that_inspects(self) -> None:
        out = io.StringIO()
        call_command(
            *("mcp_inspect", "change_hotel", "--server=backoffice", "--as=anna", "--schemas", "--json"), stdout=out
        )
        found = json.dumps(json.loads(out.getvalue()))
        assert '"breakfast": {"type": "boolean"' in found

    def test_are_fields_of_the_playground(self) -> None:
        query = {"endpoint": "backoffice", "kind": "tool", "key": "change_hotel"}
        page = signed_in("anna").get(reverse("admin:django_mcp_playground_call"), query).content.decode()
        assert "breakfast" in page
        assert "district" in page

"""The agency's tools that ask: a traveller before they book, a model before they recommend."""

import datetime
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any
from unittest import mock

import pytest
from django.contrib.auth import get_user_model
from django.db.models import F
from django.utils import timezone

from demo_project.travel import bookings
from demo_project.travel.models import Booking, CalendarEvent, City, Flight, Hotel
from django_mcp import models as kept
from django_mcp import server as agency
from tests.conversation import CANCEL, DECLINE, ClientError, Conversation, accept, said
from tests.demo.kept import TODAY
from tests.exchange import Room

YES = accept(confirm=True)
CHECK_IN = datetime.date(2026, 7, 17)
Talk = Callable[..., Conversation]


@pytest.fixture(autouse=True)
def agency_data(loaded: None, open_database: None) -> Iterator[None]:
    """The data, put back afterwards: worker threads cannot see a test's transaction."""
    known = {model: list(model.objects.values_list("pk", flat=True)) for model in (Booking, CalendarEvent)}
    with mock.patch.object(bookings, "today", return_value=TODAY):
        yield
    for booking in Booking.objects.exclude(pk__in=known[Booking]).exclude(flight=None):
        Flight.objects.filter(pk=booking.flight_id).update(seats_left=F("seats_left") + booking.travellers)
    for model, keys in known.items():
        model.objects.exclude(pk__in=keys).delete()
    for model in (kept.Session, kept.Event, kept.Step):
        model.objects.all().delete()


@pytest.fixture
def room(edge: str, agency_data: None) -> Iterator[Room]:
    with Room(agency, edge) as room:
        yield room


@pytest.fixture
def talk(version: str, room: Room) -> Conversation:
    return Conversation(room, version)


@pytest.fixture
def hotel() -> Hotel:
    return Hotel.objects.filter(city__slug="barcelona").order_by("-rating", "price").first()


@pytest.fixture
def flight() -> Flight:
    """One that lands in Barcelona on the day of check-in."""
    zone = City.objects.get(slug="barcelona").zone
    start = datetime.datetime.combine(CHECK_IN, datetime.time.min, tzinfo=zone)
    arriving = Flight.objects.filter(arrives__gte=start, arrives__lt=start + datetime.timedelta(days=1))
    return arriving.filter(destination__slug="barcelona", cabin="economy", seats_left__gt=9).first()


def made() -> Booking | None:
    """The booking that was made since the data were loaded."""
    return Booking.objects.filter(created__gte=timezone.now() - datetime.timedelta(minutes=5)).get()


def none_made() -> bool:
    return not Booking.objects.filter(created__gte=timezone.now() - datetime.timedelta(minutes=5)).exists()


def book(talk: Conversation, answers: Any, **arguments: Any) -> Any:
    return talk.call("book_hotel", answers=answers, city="Barcelona", check_in=CHECK_IN.isoformat(), **arguments)


class TestBookHotel:
    def test_shows_what_it_costs_and_asks(self, talk, hotel):
        outcome = book(talk, [YES], hotel=hotel.name, nights=3, travellers=3)
        (question,) = outcome.asked
        form = question["params"]["requestedSchema"]

        assert question["params"]["message"] == (
            f"Confirm your Barcelona trip\n\n{hotel.name}, {hotel.district}, {hotel.stars} stars: 3 nights, from "
            f"Friday 2026-07-17 to Monday 2026-07-20, 2 rooms for 3 travellers: €{hotel.price * 6:.2f}\n"
            f"Total: €{hotel.price * 6:.2f}"
        )
        assert form["required"] == ["confirm"]
        assert form["properties"] == {
            "confirm": {
                "type": "boolean",
                "title": "Confirm the booking",
                "description": "Nothing is booked without your confirmation.",
            },
            "room": {
                "type": "string",
                "title": "Room type",
                "description": "If the hotel has such rooms.",
                "default": "city",
                "oneOf": [
                    {"const": "city", "title": "City view"},
                    {"const": "sea", "title": "Sea view"},
                    {"const": "garden", "title": "Garden view"},
                ],
            },
            "insurance": {
                "type": "boolean",
                "title": "Travel insurance",
                "description": "€4.50 per person and night.",
                "default": False,
            },
        }

    def test_books_once_what_was_agreed_to(self, talk, hotel):
        answer = accept(confirm=True, room="sea", insurance=True)
        outcome = book(talk, [answer], hotel=hotel.name, nights=3, travellers=2)
        booking = made()

        assert (booking.hotel, booking.check_in, booking.nights, booking.travellers) == (hotel, CHECK_IN, 3, 2)
        assert (booking.user, booking.room, booking.seat, booking.insurance) == (None, "sea", "", True)
        assert booking.total == hotel.price * 3 + Decimal("27.00")
        assert booking.status == Booking.Status.CONFIRMED
        assert outcome.text == (
            f"Booked: {booking.reference}, 3 nights at {hotel.name}, Barcelona, Spain, from 2026-07-17, for 2 "
            f"travellers. Room: Sea view. Total €{booking.total:.2f}, with insurance."
        )
        assert outcome.result["structuredContent"]["outcome"] == "booked"
        assert outcome.result["structuredContent"]["booking"]["reference"] == booking.reference

    def test_takes_the_defaults_for_what_was_left_as_it_was(self, talk, hotel):
        book(talk, [YES], hotel=hotel.name)

        assert (made().room, made().insurance) == ("city", False)

    def test_books_nothing_without_a_yes_and_says_what_they_did(self, talk, hotel):
        declined = "the traveller declined. Do not ask again"
        answers = [
            (DECLINE, "declined", declined),
            (accept(confirm=False), "declined", declined),
            (CANCEL, "cancelled", "closed the form without an answer. You may ask again"),
        ]
        for answer, outcome, words in answers:
            said = book(talk, [answer], hotel=hotel.name)

            assert none_made(), answer
            assert said.text.startswith("Nothing was booked: "), answer
            assert words in said.text, answer
            assert said.result["structuredContent"] == {"outcome": outcome, "booking": None}, answer
            assert not said.failed, answer

    def test_lets_the_traveller_choose_among_the_best_hotels(self, talk):
        second = Hotel.objects.filter(city__slug="barcelona").order_by("-rating", "price")[1]
        outcome = book(talk, [accept(hotel=second.name), YES])
        choice, confirmation = outcome.asked
        offered = choice["params"]["requestedSchema"]["properties"]["hotel"]["oneOf"]

        assert choice["params"]["message"] == "Where would you like to stay in Barcelona?"
        assert len(offered) == 5
        assert offered[1]["title"] == (
            f"{second.name}, {second.stars} stars, rated {second.rating}, €{second.price:.2f} a night"
        )
        assert second.name in confirmation["params"]["message"]
        assert made().hotel == second

    def test_an_older_client_gets_the_choices_in_its_own_form(self, room, hotel):
        outcome = book(Conversation(room, "2025-06-18"), [accept(confirm=True, room="garden")], hotel=hotel.name)
        choice = outcome.asked[0]["params"]["requestedSchema"]["properties"]["room"]

        assert choice["enum"] == ["city", "sea", "garden"]
        assert choice["enumNames"] == ["City view", "Sea view", "Garden view"]
        assert "oneOf" not in choice
        assert made().room == "garden"

    def test_asks_no_further_where_no_hotel_is_chosen(self, talk):
        for answer, outcome in ((DECLINE, "declined"), (CANCEL, "cancelled")):
            said = book(talk, [answer])

            assert len(said.asked) == 1, answer
            assert said.result["structuredContent"]["outcome"] == outcome, answer
            assert none_made(), answer

    def test_asks_again_where_the_answer_does_not_fit(self, talk, hotel):
        outcome = book(talk, [accept(confirm=True, room="castle"), YES], hotel=hotel.name)

        assert "castle" not in outcome.text
        assert "room" in outcome.asked[1]["params"]["message"]
        assert made().room == "city"

    def test_with_a_flight_it_asks_for_the_seat_and_takes_it(self, talk, hotel, flight):
        answer = accept(confirm=True, seat="aisle")
        outcome = book(talk, [answer], hotel=hotel.name, nights=2, flight=flight.number.lower())
        seat = outcome.asked[0]["params"]["requestedSchema"]["properties"]["seat"]

        assert [each["title"] for each in seat["oneOf"]] == ["Window", "Aisle", "No preference"]
        assert f"{flight.number}, {flight.origin.name} to Barcelona" in outcome.asked[0]["params"]["message"]
        assert (made().flight, made().seat) == (flight, "aisle")
        assert made().total == hotel.price * 2 + flight.price * 2
        assert Flight.objects.get(pk=flight.pk).seats_left == flight.seats_left - 2
        assert "seat: Aisle" in outcome.text

    @pytest.mark.postgresql
    def test_the_last_room_goes_to_one_of_two(self, talk, hotel):
        Hotel.objects.filter(pk=hotel.pk).update(rooms=1)
        try:
            other = Conversation(talk.room, talk.version)

            def slow(question: Any) -> Any:
                book(other, [YES], hotel=hotel.name)
                return YES

            outcome = book(talk, slow, hotel=hotel.name)
        finally:
            Hotel.objects.filter(pk=hotel.pk).update(rooms=hotel.rooms)

        assert outcome.failed
        assert outcome.text.startswith("Nothing was booked. No hotel with rooms for those nights matches")
        assert made().hotel == hotel

    def test_a_price_that_changes_meanwhile_is_asked_about_again(self, talk, hotel):
        def slow(question: Any) -> Any:
            Hotel.objects.filter(pk=hotel.pk).update(price=hotel.price + 10)
            return YES

        try:
            outcome = book(talk, slow, hotel=hotel.name, nights=1)
        finally:
            Hotel.objects.filter(pk=hotel.pk).update(price=hotel.price)

        assert [f"€{hotel.price:.2f}" in each["params"]["message"] for each in outcome.asked] == [True, False]
        assert made().total == hotel.price + 10

    @pytest.mark.postgresql
    def test_a_yes_that_comes_twice_books_once(self, talk, hotel):
        arguments = {"city": "Barcelona", "check_in": CHECK_IN.isoformat(), "hotel": hotel.name}
        params = {"name": "book_hotel", "arguments": arguments}
        if talk.is_modern:
            (asked,) = talk.begin("tools/call", params)
            answered = params | talk.input(asked["result"], lambda question: YES)
            both = [talk.begin("tools/call", answered), talk.begin("tools/call", answered)]
            first, second = sorted((message for (message,) in both), key=lambda message: "error" in message)
            assert "already used" in second["error"]["message"]
        else:
            for message in talk.begin("tools/call", params):
                if "method" in message:
                    talk.reply(message, YES)
                    talk.reply(message, YES)
                first = message

        assert first["result"]["structuredContent"]["booking"]["reference"] == made().reference

    def test_a_signed_in_traveller_has_the_booking(self, talk, hotel):
        ben = get_user_model().objects.get(username="ben")
        with mock.patch("django_mcp.Context.user", ben):
            book(talk, [YES], hotel=hotel.name)

        assert made().user == ben

    def test_a_client_that_cannot_ask_is_told_so(self, talk, hotel):
        talk.capabilities = {}
        outcome = book(talk, [], hotel=hotel.name)

        assert outcome.failed
        assert outcome.text == (
            "Nothing was booked. A booking requires the traveller's confirmation, but this client does not support "
            "elicitation. Use a client that does."
        )
        assert none_made()

    def test_what_cannot_be_booked_is_explained_before_anybody_is_asked(self, talk):
        refused = [
            ({"hotel": "The Ritz of Atlantis"}, "Choose one of: "),
            ({"hotel": "o"}, "Several hotels match ‘o’. Choose one of: "),
            ({"check_in": "2026-06-14"}, "Check-in is possible from 2026-06-15 to 2027-06-15, not on 2026-06-14."),
            ({"check_in": "9999-12-31"}, "Check-in is possible from"),
            ({"flight": "XX1"}, "No flight ‘XX1’ with 2 seats left arrives in Barcelona on 2026-07-17."),
            ({"city": "Barcelone"}, "Did you mean Barcelona (BCN)?"),
        ]
        wrong = []
        for arguments, words in refused:
            given = {"city": "Barcelona", "check_in": CHECK_IN.isoformat(), **arguments}
            outcome = talk.call("book_hotel", **given)
            if not outcome.failed or words not in outcome.text or outcome.asked:
                wrong.append((arguments, outcome.text))

        assert wrong == []


def find(talk: Conversation, answers: Any = (), **arguments: Any) -> Any:
    given = {"origin": "Paris", "destination": "Barcelona", "date": "2026-07-13", **arguments}
    return talk.call("find_best_flight", answers=answers, meta={"progressToken": "how-far"}, **given)


def codes(question: dict[str, Any]) -> list[str]:
    """The codes of the flights a model was asked to choose among."""
    text = question["params"]["messages"][0]["content"]["text"]
    return [line.partition(":")[0] for line in text.splitlines() if " → " in line]


def choosing(position: int, form: str) -> Callable[[Any], dict[str, Any]]:
    """A model that chooses the flight at *position*, and says so in its own way."""
    return lambda question: said(form.format(codes(question)[position]))


class TestFindBestFlight:
    def test_asks_the_client_s_model_about_the_flights_it_found(self, talk):
        outcome = find(talk, choosing(1, "FLIGHT: {}\nREASON: It leaves after breakfast."), wishes="no early mornings")
        (question,) = outcome.asked
        text = question["params"]["messages"][0]["content"]["text"]
        found = outcome.result["structuredContent"]

        assert question["method"] == "sampling/createMessage"
        assert "What the traveller wishes: no early mornings." in text
        assert len(codes(question)) == found["considered"] == len(set(codes(question)))
        assert {code.split("-")[1][:4] for code in codes(question)} == {"0713", "0714", "0715"}
        assert codes(question)[1].startswith(found["best"]["number"])
        assert found["reason"] == "It leaves after breakfast."
        assert outcome.text.startswith(f"Chosen from {found['considered']} flights: {found['best']['number']} (")
        assert outcome.text.endswith("\nIt leaves after breakfast.")

    def test_understands_models_that_have_their_own_way(self, talk):
        forms = [
            "FLIGHT: {}\nREASON: Cheap.",
            "**Flight:** `{}`\n\n**Reason:** Cheap.",
            "I would take {} because it is cheap.",
            "flight: {}",
        ]
        for form in forms:
            found = find(talk, choosing(0, form)).result["structuredContent"]

            assert found["best"] == found["cheapest"][0], form

    @pytest.mark.parametrize(
        ("answer", "words"),
        [
            (said("They are all lovely."), "chose none of the flights. Its answer: They are all lovely."),
            (ClientError("The user said no."), "choose a flight. The client could not answer: The user said no."),
        ],
    )
    def test_gives_the_cheapest_where_the_model_does_not_choose(self, talk, answer, words):
        outcome = find(talk, [answer])
        found = outcome.result["structuredContent"]

        assert words in outcome.text
        assert found["best"] is None
        assert len(found["cheapest"]) == 5
        assert [each["price"] for each in found["cheapest"]] == sorted(each["price"] for each in found["cheapest"])
        assert all(each["number"] in outcome.text for each in found["cheapest"])
        assert not outcome.failed

    def test_does_not_guess_where_the_model_wavers_between_two(self, talk):
        outcome = find(talk, lambda question: said("{} or {}, I like both.".format(*codes(question))))

        assert outcome.result["structuredContent"]["best"] is None
        assert "I like both" in outcome.text

    def test_says_so_where_the_client_cannot_sample(self, talk):
        talk.capabilities = {"elicitation": {}}
        outcome = find(talk)

        assert outcome.text.startswith(
            "No flight was chosen, because your client does not support sampling. The cheapest of "
        )
        assert len(outcome.text.splitlines()) == 6
        assert not outcome.failed

    def test_tells_how_far_it_is_and_what_was_chosen(self, talk):
        if talk.is_modern:
            talk.capabilities = {"sampling": {}}
        outcome = find(talk, choosing(0, "FLIGHT: {}"), days=4)
        progress = outcome.told("notifications/progress")
        values = [each["progress"] for each in progress]

        assert values[:4] == [1, 2, 3, 4]
        assert {each["total"] for each in progress} == {4}
        assert progress[0]["message"].startswith("2026-07-13: ")
        assert {each["progressToken"] for each in progress} == {"how-far"}
        if not talk.is_modern:
            assert values == [1, 2, 3, 4], "progress of one request must grow"
            (logged,) = outcome.told("notifications/message")
            assert logged["data"] == f"a-model chose {codes(outcome.asked[0])[0]}."

    def test_explains_where_there_is_nothing_to_choose(self, talk):
        wrong = []
        for arguments, words in (
            ({"origin": "Bali", "destination": "Warsaw"}, "No flights from Bali to Warsaw on these days."),
            ({"destination": "CDG"}, "Origin and destination are both Paris."),
            ({"date": "9999-12-30"}, "out of range"),
        ):
            outcome = find(talk, **arguments)
            if not outcome.failed or words not in outcome.text:
                wrong.append((arguments, outcome.text))

        assert wrong == []


@pytest.mark.parametrize("edge", ["asgi", "view under asgi"], indirect=True)  # where a stream can stay open
class TestCalendar:
    def test_subscribers_hear_of_an_event_in_the_year_they_look_at(self, talk):
        uri = "calendar://events/2026"
        if talk.is_modern:
            stream = talk.begin("subscriptions/listen", {"notifications": {"resourceSubscriptions": [uri]}})
            assert stream.next()["method"] == "notifications/subscriptions/acknowledged"
        else:
            talk.request("resources/subscribe", {"uri": uri})
            stream = talk.get()
            stream.next()
        other = Conversation(talk.room, talk.version)
        other.call("create_calendar_event", title="Elsewhere", starts="2027-08-01T10:00:00")
        other.call("create_calendar_event", title="Fitting", starts="2026-08-01T10:00:00")
        told = stream.next()
        message = told if talk.is_modern else told.message
        (stream.exchange if talk.is_modern else stream).leave()

        assert message["method"] == "notifications/resources/updated"
        assert message["params"]["uri"] == uri

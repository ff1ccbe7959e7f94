"""The agency's tools that ask, used through the official JavaScript clients: a booking, and a model's choice."""

import datetime
import itertools
from collections.abc import Callable
from typing import Any

import pytest

from tests.lanes import at_night
from tests.real_clients.agency import Agency
from tests.real_clients.node import Clients
from tests.real_clients.sites import Site

pytestmark = [
    pytest.mark.parametrize("site", ["daphne", at_night("gunicorn"), at_night("uvicorn")], indirect=True),
    pytest.mark.parametrize("speaker", ["sdk", "client-auto"]),
]

HOTELS = """
SELECT hotel.name FROM travel_hotel AS hotel JOIN travel_city AS city ON city.id = hotel.city_id
WHERE city.slug = 'barcelona' ORDER BY hotel.rating DESC, hotel.price
"""
BOOKINGS = """
SELECT hotel.name AS hotel, booking.reference, booking.nights, booking.room, booking.insurance, booking.status
FROM travel_booking AS booking JOIN travel_hotel AS hotel ON hotel.id = booking.hotel_id WHERE booking.check_in = ?
"""

DAYS = itertools.count(60)
"""Each booking is on a day of its own."""

Ask = Callable[..., dict[str, Any]]


@pytest.fixture
def day() -> str:
    return (datetime.datetime.now(datetime.UTC).date() + datetime.timedelta(days=next(DAYS))).isoformat()


@pytest.fixture
def ask(site: Site, speaker: str, clients: Clients) -> Ask:
    """Calls one tool; *can* is what the client can be asked, with its answers."""

    def ask(tool: str, arguments: dict[str, Any], **can: Any) -> dict[str, Any]:
        methods = {"elicitation": "elicitation/create", "sampling": "sampling/createMessage"}
        script = {
            "url": site.url,
            "capabilities": {each: {} for each in can},
            "answers": {methods[each]: answer for each, answer in can.items()},
            "steps": [{"call": "callTool", "params": {"name": tool, "arguments": arguments}}],
        }
        return clients.talk(speaker, script)

    return ask


def result(said: dict[str, Any]) -> dict[str, Any]:
    assert "result" in said["steps"][0], said["steps"]
    return said["steps"][0]["result"]


def test_a_traveller_chooses_a_hotel_and_books_it(ask: Ask, agency: Agency, day: str) -> None:
    before = agency.rows(BOOKINGS, day)
    hotel = agency.rows(HOTELS)[0]["name"]
    yes = {"confirm": True, "room": "sea", "insurance": True}
    answers = [{"action": "accept", "content": content} for content in ({"hotel": hotel}, yes)]
    said = ask("book_hotel", {"city": "Barcelona", "check_in": day, "nights": 2}, elicitation=answers)
    which, confirm = [question["params"] for question in said["questions"]]
    assert hotel in {each["const"] for each in which["requestedSchema"]["properties"]["hotel"]["oneOf"]}
    assert set(confirm["requestedSchema"]["properties"]) == {"confirm", "room", "insurance"}
    assert hotel in confirm["message"]
    answer = result(said)["structuredContent"]
    assert answer["outcome"] == "booked"
    (row,) = [each for each in agency.rows(BOOKINGS, day) if each not in before]
    reference = answer["booking"]["reference"]
    assert row == {
        "hotel": hotel,
        "reference": reference,
        "nights": 2,
        "room": "sea",
        "insurance": 1,
        "status": "confirmed",
    }


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        ({"action": "decline"}, "declined"),
        ({"action": "cancel"}, "cancelled"),
        ({"action": "accept", "content": {"confirm": False, "room": "city"}}, "declined"),
    ],
    ids=["decline", "cancel", "accepts and does not confirm"],
)
def test_without_a_yes_nothing_is_booked(
    ask: Ask, agency: Agency, day: str, answer: dict[str, Any], outcome: str
) -> None:
    before = agency.rows(BOOKINGS, day)
    arguments = {"city": "Barcelona", "check_in": day, "hotel": agency.rows(HOTELS)[0]["name"]}
    said = ask("book_hotel", arguments, elicitation=answer)
    assert result(said)["structuredContent"] == {"outcome": outcome, "booking": None}
    assert agency.rows(BOOKINGS, day) == before


def test_a_client_that_cannot_ask_is_told_so_in_words(ask: Ask, day: str) -> None:
    answer = result(ask("book_hotel", {"city": "Barcelona", "check_in": day}))
    assert answer["isError"]
    assert "does not support elicitation" in answer["content"][0]["text"]


def test_the_clients_model_chooses_among_the_flights_of_the_database(ask: Ask, agency: Agency) -> None:
    journey = agency.journey
    row = journey.flights[-1]
    code = f"{row['number']}-{journey.day:%m%d}{'B' if row['cabin'] == 'business' else ''}"
    words = {"type": "text", "text": f"FLIGHT: {code}\nREASON: It leaves when you want to."}
    arguments = {"origin": journey.origin, "destination": journey.destination, "date": journey.day.isoformat()}
    said = ask(
        "find_best_flight",
        {**arguments, "days": 1, "wishes": "comfort"},
        sampling={"role": "assistant", "model": "a-model", "content": words},
    )
    (question,) = said["questions"]
    offers = question["params"]["messages"][0]["content"]["text"]
    assert "comfort" in offers
    assert all(each["number"] in offers for each in journey.flights)
    answer = result(said)["structuredContent"]
    assert answer["reason"] == "It leaves when you want to."
    assert (answer["best"]["number"], answer["best"]["cabin"]) == (row["number"], row["cabin"])
    assert answer["considered"] == len(journey.flights)
    assert any(str(journey.day) in report.get("message", "") for report in said["steps"][0]["progress"])


def test_without_a_model_the_cheapest_flight_comes_first(ask: Ask, agency: Agency) -> None:
    journey = agency.journey
    arguments = {"origin": journey.origin, "destination": journey.destination, "date": journey.day.isoformat()}
    answer = result(ask("find_best_flight", {**arguments, "days": 1}))["structuredContent"]
    assert answer["best"] is None
    assert answer["cheapest"][0]["number"] == journey.flights[0]["number"]

"""Flights from a table: what is refused at once, what is asked in the middle, and what is in the timetable then."""

import datetime
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth import get_user_model

from demo_project.travel.importing import flights_in, import_flights
from demo_project.travel.models import Flight
from django_mcp import MCPServer, tool
from django_mcp.models import Task
from django_mcp.tasks.extension import NAME
from tests.clients import MODERN
from tests.conversation import DECLINE, Conversation, accept
from tests.demo.people import Somebody
from tests.exchange import Room, eventually

pytestmark = pytest.mark.postgresql
HEADER = "number,airline,origin,destination,departs,arrives,cabin,price,seats_left"
FIRST = "ZZT1,Albatross Air,BCN,LHR,2031-05-01T10:00+02:00,2031-05-01T11:20+01:00,economy,99.50,40"
SECOND = "ZZT2,Albatross Air,LHR,BCN,2031-05-02T10:00+01:00,2031-05-02T13:20+02:00,business,399,8"


def table(*lines: str) -> str:
    return "\n".join([HEADER, *lines])


def ours() -> list[tuple[str, str, int]]:
    """Flights of the tests that are in the timetable."""
    found = Flight.objects.filter(number__startswith="ZZT").order_by("number")
    return [(each.number, str(each.price), each.seats_left) for each in found]


@pytest.fixture(autouse=True)
def timetable(loaded: None, nothing_left: None) -> Iterator[None]:
    """Without the flights of other tests."""
    yield
    Flight.objects.filter(number__startswith="ZZT").delete()


@pytest.fixture
def server(make_server: Callable[..., MCPServer]) -> MCPServer:
    """Where everybody is anna, of the agency's staff, unless they say otherwise."""
    server = make_server(authentication=[Somebody("anna")])
    rights = ["travel.add_flight", "travel.change_flight"]
    tool(server=server, task="optional", before_task=flights_in, permission=rights)(import_flights)
    return server


@pytest.fixture
def room(server: MCPServer, edge: str) -> Iterator[Room]:
    with Room(server, edge) as room:
        yield room


@pytest.fixture
def talk(version: str, room: Room) -> Conversation:
    return Conversation(room, version)


def import_(talk: Conversation, *lines: str, answers: Any = ()) -> Any:
    return talk.call("import_flights", answers=answers, table=table(*lines))


def test_new_flights_are_in_the_timetable_and_nobody_is_asked(talk: Conversation) -> None:
    outcome = import_(talk, FIRST, SECOND)

    assert outcome.result["structuredContent"] == {"added": 2, "replaced": 0, "left": 0}
    assert (outcome.text, outcome.asked) == ("2 flights added, 0 replaced, 0 left.", [])
    assert ours() == [("ZZT1", "99.50", 40), ("ZZT2", "399.00", 8)]
    flight = Flight.objects.get(number="ZZT1")
    assert (flight.origin.slug, flight.destination.slug) == ("barcelona", "london")
    assert flight.departs == datetime.datetime(2031, 5, 1, 8, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ("choice", "done", "price"),
    [
        ("replace", {"added": 1, "replaced": 1, "left": 0}, "55.00"),
        ("leave", {"added": 1, "replaced": 0, "left": 1}, "99.50"),
    ],
    ids=["replace", "leave"],
)
def test_it_asks_what_to_do_with_flights_that_are_there_already(
    talk: Conversation, choice: str, done: dict[str, int], price: str
) -> None:
    Flight.objects.bulk_create(flights_in(table(FIRST)))
    outcome = import_(talk, FIRST.replace("99.50", "55"), SECOND, answers=[accept(existing=choice)])

    (question,) = outcome.asked
    assert question["params"]["message"] == "Already in the timetable: 1 of 2 flights. Replace or leave them?"
    assert outcome.result["structuredContent"] == done
    assert ours() == [("ZZT1", price, 40), ("ZZT2", "399.00", 8)]


def test_without_an_answer_nothing_is_imported(talk: Conversation) -> None:
    Flight.objects.bulk_create(flights_in(table(FIRST)))
    outcome = import_(talk, FIRST.replace("99.50", "55"), SECOND, answers=[DECLINE])

    assert outcome.failed
    assert outcome.text.startswith("Nothing was imported")
    assert ours() == [("ZZT1", "99.50", 40)]


def test_a_client_that_cannot_ask_leaves_what_is_there(room: Room) -> None:
    Flight.objects.bulk_create(flights_in(table(FIRST)))
    outcome = import_(Conversation(room, MODERN, {}), FIRST.replace("99.50", "55"), SECOND)

    assert outcome.result["structuredContent"] == {"added": 1, "replaced": 0, "left": 1}
    assert ours() == [("ZZT1", "99.50", 40), ("ZZT2", "399.00", 8)]


def test_bad_lines_are_named_before_there_is_a_task(talk: Conversation) -> None:
    outcome = import_(talk, FIRST, SECOND.replace("399", "free"), SECOND.replace("LHR", "QQQ"), FIRST)

    assert outcome.failed
    assert outcome.text.splitlines() == [
        "Nothing was imported.",
        "Line 3: price: input should be a valid decimal.",
        "Line 4: unknown airport: QQQ.",
        "Line 5: the same flight is in the table twice.",
    ]
    assert not Task.objects.exists()
    assert ours() == []


def test_a_line_that_is_no_flight_is_refused_in_words(room: Room) -> None:
    refused = [
        (FIRST.replace("LHR", "BCN"), "origin and destination are in the same city"),
        (FIRST.replace("T11:20", "T07:20"), "it arrives before it departs"),
        (FIRST.replace("+02:00", ""), "departs: input should have timezone info"),
        (FIRST.replace("2031-05-01T10:00+02:00", "0001-01-01T00:00+14:00"), "departs: input should be greater than"),
        (FIRST.replace("economy", "cargo"), "cabin: input should be 'economy' or 'business'"),
        (FIRST.replace("Albatross Air", "\0"), "airline: value should have at least 1 item"),
        (FIRST.removesuffix(",40"), "seats_left: input should be a valid integer"),
    ]
    wrong = []
    for line, words in refused:
        outcome = import_(Conversation(room, MODERN), line)
        if not outcome.failed or not outcome.text.splitlines()[1].startswith(f"Line 2: {words}"):
            wrong.append((line, outcome.text))

    assert wrong == []


def test_what_is_no_such_table_is_refused_in_words(room: Room) -> None:
    refused = [
        ("", "The first line must name the columns"),
        (HEADER.removesuffix(",seats_left"), "Missing: seats_left"),
        (HEADER, "The table must have 1 to 5000 flights, not 0."),
        (table(*[FIRST] * 5001), "not 5001"),
        (f'{HEADER}\n"{"x" * 200_000}"', "This cannot be read as CSV"),
        (table(*["nonsense"] * 13), "3 more errors."),
    ]
    wrong = []
    for text, words in refused:
        outcome = Conversation(room, MODERN).call("import_flights", table=text)
        if not outcome.failed or words not in outcome.text:
            wrong.append((text[:200], outcome.text))

    assert wrong == []


def test_it_is_for_staff_who_may_change_flights(room: Room) -> None:
    talk = Conversation(room, MODERN, headers={"x-user": "ben"})

    assert import_(talk, FIRST).error["message"] == "Unknown tool: 'import_flights'."


@pytest.mark.parametrize("edge", ["asgi"])
def test_who_knows_tasks_has_one_that_leaves_nothing_when_it_is_cancelled(room: Room) -> None:
    Flight.objects.bulk_create(flights_in(table(FIRST)))
    talk = Conversation(room, MODERN, {"elicitation": {}, "extensions": {NAME: {}}})
    made = talk.begin("tools/call", {"name": "import_flights", "arguments": {"table": table(FIRST, SECOND)}})
    task_id = made.next()["result"]["taskId"]
    eventually(Task.objects.filter(task_id=task_id, status="input_required").exists, "it never asked")

    ended = talk.begin("tasks/cancel", {"taskId": task_id}, headers={"mcp-name": task_id})

    assert "result" in ended.next()
    assert Task.objects.get(task_id=task_id).status == "cancelled"
    assert ours() == [("ZZT1", "99.50", 40)]
    assert Task.objects.get(task_id=task_id).user == get_user_model().objects.get(username="anna")

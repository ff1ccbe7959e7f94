"""The report of a year, and what is heard of it while it is written."""

import datetime
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from demo_project.travel.models import Booking, Hotel
from demo_project.travel.reports import year_report
from django_mcp import MCPServer, tool
from tests.clients import LEGACY, MODERN
from tests.conversation import Conversation, Outcome
from tests.exchange import Room

YEAR = 2031


@pytest.fixture(autouse=True)
def bookings(loaded: None, open_database: None) -> Iterator[None]:
    """Three of January, one of them cancelled, one of the last moment of the year, and one of the next moment."""
    hotel = Hotel.objects.filter(city__slug="barcelona").first()
    made = [
        (Booking.Status.CONFIRMED, "100", datetime.datetime(YEAR, 1, 1, tzinfo=datetime.UTC)),
        (Booking.Status.HELD, "20.50", datetime.datetime(YEAR, 1, 31, 23, 59, tzinfo=datetime.UTC)),
        (Booking.Status.CANCELLED, "999", datetime.datetime(YEAR, 1, 7, tzinfo=datetime.UTC)),
        (Booking.Status.CONFIRMED, "7", datetime.datetime(YEAR, 12, 31, 23, 59, 59, tzinfo=datetime.UTC)),
        (Booking.Status.CONFIRMED, "5000", datetime.datetime(YEAR + 1, 1, 1, tzinfo=datetime.UTC)),
    ]
    kept = Booking.objects.bulk_create(
        Booking(
            reference=f"REPORT{number}",
            hotel=hotel,
            check_in=datetime.date(YEAR, 2, 1),
            nights=1,
            travellers=2,
            total=Decimal(total),
            status=status,
            created=created,
        )
        for number, (status, total, created) in enumerate(made)
    )
    yield
    Booking.objects.filter(reference__in=[each.reference for each in kept]).delete()


@pytest.fixture(params=[MODERN, LEGACY])
def report(request: pytest.FixtureRequest, server: MCPServer, edge: str) -> Iterator[Any]:
    tool(server=server)(year_report)
    with Room(server, edge) as room:
        talk = Conversation(room, request.param)

        def ask(**arguments: Any) -> Outcome:
            return talk.call("year_report", meta={"progressToken": "how-far"}, **arguments)

        yield ask


def test_it_adds_up_what_was_booked_in_the_year_and_not_cancelled(report: Any) -> None:
    found = report(year=YEAR).result["structuredContent"]
    january, *_, december = found["months"]

    assert (found["year"], found["bookings"], found["turnover"]) == (YEAR, 4, 127.5)
    assert january == {"month": "2031-01", "bookings": 3, "cancelled": 1, "travellers": 4, "turnover": 120.5}
    assert december == {"month": "2031-12", "bookings": 1, "cancelled": 0, "travellers": 2, "turnover": 7.0}
    assert found["destinations"] == [{"city": "Barcelona", "bookings": 3}]


def test_a_reader_gets_a_table(report: Any) -> None:
    lines = report(year=YEAR).text.splitlines()

    assert lines[0] == "# Bookings made in 2031: 4, €127.50"
    assert "| 2031-01 | 3 | 1 | 4 | 120.50 |" in lines
    assert lines[-1] == "Most booked: Barcelona (3)."


def test_a_year_without_bookings_has_nothing_but_noughts(report: Any) -> None:
    found = report(year=2099)

    assert found.result["structuredContent"]["turnover"] == 0
    assert found.text.endswith("Most booked: none.")


def test_it_says_how_far_it_is_after_each_month(report: Any) -> None:
    told = report(year=YEAR).told("notifications/progress")

    assert [each["progress"] for each in told] == list(range(1, 14))
    assert {each["total"] for each in told} == {13}
    assert told[0]["message"] == "2031-01: 3 bookings"
    assert told[-1]["message"] == "Destinations"


def test_a_year_that_cannot_be_is_refused_in_words(report: Any) -> None:
    answer = report(year=1066)

    assert answer.failed
    assert "'year'" in answer.text
    assert "2000" in answer.text

"""The report of a year: what is in it, what is heard of it while it is written, and the table that is left of it."""

import csv
import datetime
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.utils import timezone

from demo_project.travel.models import Booking, Hotel, Report
from demo_project.travel.reports import report_table, year_report
from django_mcp import MCPServer, resource, tool
from tests.clients import MODERN, Client
from tests.conversation import Conversation, Outcome
from tests.demo.people import Somebody
from tests.exchange import Room

pytestmark = pytest.mark.postgresql
YEAR = 2031


@pytest.fixture(autouse=True)
def bookings(loaded: None, nothing_left: None) -> Iterator[None]:
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


@pytest.fixture
def server(make_server: Callable[..., MCPServer]) -> MCPServer:
    """Where everybody is anna, of the agency's staff, unless they say otherwise."""
    server = make_server(authentication=[Somebody("anna")])
    tool(server=server, read_only=True, task="optional", permission="travel.view_booking")(year_report)
    resource("travel://reports/{report}", mime_type="text/csv", server=server)(report_table)
    return server


@pytest.fixture
def report(version: str, server: MCPServer, edge: str) -> Iterator[Any]:
    with Room(server, edge) as room:
        talk = Conversation(room, version)

        def ask(**arguments: Any) -> Outcome:
            return talk.call("year_report", meta={"progressToken": "how-far"}, **arguments)

        yield ask


@pytest.fixture
def reader(server: MCPServer) -> Client:
    return Client(server, MODERN, "view")


def read(reader: Client, uri: str, user: str = "anna") -> list[dict[str, str]] | None:
    """The lines of a table; None where there is none for them."""
    answer = reader.request("resources/read", {"uri": uri}, headers={"x-user": user}).json
    if "error" in answer:
        assert answer["error"]["message"] == "Resource not found"
        return None
    (content,) = answer["result"]["contents"]
    assert content["mimeType"] == "text/csv"
    return list(csv.DictReader(content["text"].splitlines()))


def test_it_adds_up_what_was_booked_in_the_year_and_not_cancelled(report: Any) -> None:
    found = report(year=YEAR).result["structuredContent"]
    january, *_, december = found["months"]

    assert (found["year"], found["bookings"], found["turnover"]) == (YEAR, 4, 127.5)
    assert january == {"month": "2031-01", "bookings": 3, "cancelled": 1, "travellers": 4, "turnover": 120.5}
    assert december == {"month": "2031-12", "bookings": 1, "cancelled": 0, "travellers": 2, "turnover": 7.0}
    assert found["destinations"] == [{"city": "Barcelona", "bookings": 3}]


def test_a_reader_gets_a_summary_and_a_link_to_the_table(report: Any) -> None:
    outcome = report(year=YEAR)
    lines = outcome.text.splitlines()
    (link,) = [block for block in outcome.result["content"] if block["type"] == "resource_link"]

    assert lines[0] == "# Bookings made in 2031: 4, €127.50"
    assert "| 2031-01 | 3 | 1 | 4 | 120.50 |" in lines
    assert lines[-2:] == [
        "Most booked: Barcelona (3).",
        f"All bookings as CSV, available until tomorrow: {link['uri']}",
    ]
    assert (link["name"], link["mimeType"]) == ("Bookings of 2031", "text/csv")
    assert outcome.result["structuredContent"]["table"] == link["uri"]


def test_the_table_has_every_booking_of_the_year(report: Any, reader: Client) -> None:
    first, *_, last = read(reader, report(year=YEAR).result["structuredContent"]["table"])

    assert list(first.values()) == [
        *("REPORT0", "2031-01-01 00:00:00+00:00", "confirmed", "Barcelona", "2031-02-01", "1", "2", "100.00"),
    ]
    assert (last["reference"], last["total"]) == ("REPORT3", "7.00")


def test_the_table_is_for_whoever_made_it_and_for_a_day(report: Any, reader: Client) -> None:
    uri = report(year=YEAR).result["structuredContent"]["table"]
    (kept,) = Report.objects.all()

    assert read(reader, uri, "admin") is None
    assert datetime.timedelta(hours=23) < kept.expires - timezone.now() <= datetime.timedelta(days=1)
    Report.objects.update(expires=timezone.now())
    assert read(reader, uri) is None


def test_a_new_table_clears_away_the_old_ones(report: Any) -> None:
    anna = get_user_model().objects.get(username="anna")
    old = [Report(owner=anna, title=title, expires=timezone.now()) for title in ("one", "two")]
    Report.objects.bulk_create(old)

    report(year=YEAR)

    assert [each.title for each in Report.objects.all()] == ["Bookings of 2031"]


def test_a_year_without_bookings_has_nothing_but_noughts(report: Any, reader: Client) -> None:
    outcome = report(year=2099)

    assert outcome.result["structuredContent"]["turnover"] == 0
    assert "Most booked: none." in outcome.text
    assert read(reader, outcome.result["structuredContent"]["table"]) == []


def test_whoever_waits_hears_how_far_it_is(report: Any) -> None:
    """It may be quicker than anybody can follow; the last word is heard."""
    told = report(year=YEAR).told("notifications/progress")
    heard = [each["progress"] for each in told]

    assert heard == sorted(set(heard))
    assert {each["total"] for each in told} == {13}
    assert (told[-1]["progress"], told[-1]["message"]) == (13, "Destinations")


def test_a_year_that_cannot_be_is_refused_in_words(report: Any) -> None:
    answer = report(year=1066)

    assert answer.failed
    assert "'year'" in answer.text
    assert "2000" in answer.text

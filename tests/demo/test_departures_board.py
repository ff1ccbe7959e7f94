"""The departures board of the agency's own pages, and the same as a tool."""

import datetime
from unittest import mock

import pytest
from django.test import Client as Browser
from django.utils import timezone

from demo_project.travel.endpoints import open_
from demo_project.travel.models import Flight
from django_mcp import server as agency
from tests.clients import Client
from tests.demo.kept import TODAY

pytestmark = pytest.mark.usefixtures("travel")

NOON = datetime.datetime.combine(TODAY, datetime.time(12), tzinfo=datetime.UTC)
BOARD = "/departures/BCN/"


@pytest.fixture(autouse=True)
def noon():
    with mock.patch.object(timezone, "now", return_value=NOON):
        yield


@pytest.fixture
def client(version: str) -> Client:
    return Client(open_, version, "view")


def test_the_page_has_what_leaves_soon_in_the_order_in_which_it_leaves():
    board = Browser().get(BOARD, {"hours": 48}).json()

    times = [each["departs"] for each in board["departures"]]
    assert times == sorted(times)
    assert times
    assert Flight.objects.filter(number=board["departures"][0]["number"], origin__airport="BCN").exists()


def test_the_page_refuses_hours_that_are_none():
    for hours in ("0", "169", "-1", "x", "1" * 5000, "٣"):
        response = Browser().get(BOARD, {"hours": hours})

        assert (response.status_code, response.json()) == (400, {"hours": ["Enter a number from 1 to 168."]}), hours


def test_the_tool_tells_what_the_page_tells(client):
    page = Browser().get(BOARD, {"hours": 48})
    told = client.call("departures_board", airport="BCN", hours=48).result

    assert told["structuredContent"] == page.json()
    again = Browser().get(BOARD, {"hours": 48})
    assert (again.content, dict(again.items())) == (page.content, dict(page.items()))


def test_the_tool_knows_no_other_airports_and_no_other_hours(client):
    assert client.call("departures_board", airport="XXX").text == "Not found."
    assert "must be at most 168" in client.call("departures_board", airport="BCN", hours=169).text


def test_it_is_offered_at_every_endpoint_to_read_only():
    for server in (agency, open_):
        definition = server.tools["departures_board"].definition
        hints = {"readOnlyHint": True, "destructiveHint": False, "openWorldHint": False}
        assert definition["annotations"] == hints
        assert definition["description"].startswith("List the next departures of an airport")
        assert definition["inputSchema"]["properties"]["airport"]["description"].startswith("IATA code")

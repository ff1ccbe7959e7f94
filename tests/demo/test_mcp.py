"""The agency as a client sees it, in both eras of the protocol."""

import datetime
import json
from typing import Any
from unittest import mock

import pytest
from django.contrib.auth import get_user_model
from django.utils import timezone

from demo_project.travel import documents
from demo_project.travel.models import CalendarEvent, City, Document, Region
from django_mcp import server as agency
from tests.clients import Client

pytestmark = pytest.mark.usefixtures("travel")

NOON = datetime.datetime(2026, 6, 15, 12, tzinfo=datetime.UTC)


@pytest.fixture
def client(version: str) -> Client:
    return Client(agency, version, "view")


def read(client: Client, uri: str) -> Any:
    (content,) = client.request("resources/read", {"uri": uri}).result["contents"]
    return json.loads(content["text"]) if content["mimeType"] == "application/json" else content["text"]


class TestLists:
    def test_there_are_the_tools(self, client):
        names = [entry["name"] for entry in client.list("tools/list")]
        assert names[:16] == [
            "book_hotel",
            "find_best_flight",
            "cancel_booking",
            "hold_rooms",
            "list_own_events",
            "get_own_event",
            "update_own_event",
            "delete_own_event",
            "departures_board",
            "send_email",
            "search_flights",
            "check_weather",
            "weather_current",
            "calculator_arithmetic",
            "search_documents",
            "create_calendar_event",
        ]
        assert {name.partition("_")[0] for name in names[16:]} == {"search", "get", "aggregate"}

    def test_every_tool_and_argument_is_described(self, client):
        for entry in client.list("tools/list"):
            assert entry["title"]
            assert entry["description"]
            if not entry["name"].startswith("delete_"):  # which has nothing to show
                assert entry["outputSchema"]["type"] == "object"
            assert "Args:" not in entry["description"]
            for name, schema in entry["inputSchema"]["properties"].items():
                assert schema.get("description"), f"{entry['name']}({name})"

    def test_only_bookings_mail_and_the_calendar_are_written(self, client):
        writing = [e["name"] for e in client.list("tools/list") if not e["annotations"]["readOnlyHint"]]

        own = ["update_own_event", "delete_own_event"]
        assert writing == ["book_hotel", "cancel_booking", "hold_rooms", *own, "send_email", "create_calendar_event"]

    def test_there_are_the_templates(self, client):
        assert {entry["uriTemplate"] for entry in client.list("resources/templates/list")} >= {
            "calendar://events/{year}",
            "travel://activities/{city}/{category}",
            "travel://flights/{origin}/{destination}",
            "weather://forecast/{city}/{date}",
            "travel://hotels/{pk}{?format}",
            "trips://history/{slug}{?format}",
            "travel://preferences/{region}{?format}",
            "travel://documents/{slug}/{field}",
        }

    def test_there_are_the_plain_resources(self, client):
        listed = {entry["uri"] for entry in client.list("resources/list")}
        assert listed >= {"travel://cities", "travel://guide", "travel://cities/rome", "schema://travel/city"}
        assert len([uri for uri in listed if uri.startswith("travel://cities/")]) == City.objects.count()


class TestSearchFlights:
    def test_gives_flights_as_data_and_in_words(self, client):
        answer = client.call("search_flights", origin="Paris", destination="BCN", date="2026-07-15")
        found = answer.result["structuredContent"]

        assert (found["origin"], found["destination"], found["date"]) == ("CDG", "BCN", "2026-07-15")
        assert found["flights"]
        for flight in found["flights"]:
            assert flight["departs"].startswith("2026-07-15T")
            assert flight["departs"].endswith("+02:00")
            for value in (flight["number"], flight["airline"], f"€{flight['price']:.2f}", flight["cabin"]):
                assert value in answer.text

    def test_suggests_cities_for_a_typing_error(self, client):
        answer = client.call("search_flights", origin="Barcelone", destination="Paris", date="2026-07-15")

        assert answer.result["isError"]
        assert answer.text == "There is no city ‘Barcelone’. Did you mean Barcelona (BCN)?"

    def test_names_the_next_day_where_nothing_flies(self, client):
        days = [f"2026-07-{day:02}" for day in range(1, 8)]
        answers = [client.call("search_flights", origin="Boston", destination="NYC", date=day) for day in days]
        empty = [answer for answer in answers if not answer.result["structuredContent"]["flights"]]

        assert empty
        for answer in empty:
            assert answer.result["structuredContent"]["next_date"] in answer.text

    @pytest.mark.parametrize("day", ["0001-01-01", "9999-12-31"])
    def test_answers_for_the_edges_of_the_calendar(self, client, day):
        for origin in ("Tokyo", "Honolulu"):
            assert (
                "Internal server error"
                not in client.call("search_flights", origin=origin, destination="Sydney", date=day).text
            )

    def test_refuses_a_round_trip_to_nowhere(self, client):
        answer = client.call("search_flights", origin="NYC", destination="JFK", date="2026-07-15")

        assert answer.text == "Origin and destination are both New York."

    def test_says_so_where_there_is_no_route(self, client):
        answer = client.call("search_flights", origin="Bali", destination="Warsaw", date="2026-07-15")

        assert "Try a connection" in answer.text
        assert answer.result["structuredContent"]["next_date"] is None


class TestWeather:
    def test_is_the_same_in_the_tool_and_in_the_resource(self, client):
        answer = client.call("check_weather", city="sydney", date="2027-01-15")

        assert answer.result["structuredContent"] == read(client, "weather://forecast/sydney/2027-01-15")
        assert answer.text.startswith("Sydney, Australia, Friday 2027-01-15: ")

    @pytest.mark.parametrize(("units", "sign"), [("metric", "°C"), ("imperial", "°F"), ("kelvin", "K")])
    def test_now_comes_in_the_units_asked_for(self, client, units, sign):
        answer = client.call("weather_current", location="New York", units=units)

        assert answer.result["structuredContent"]["temperature_unit"] == sign
        assert f" {sign}, " in answer.text

    def test_knows_its_cities_only(self, client):
        assert "Did you mean Paris" in client.call("weather_current", location="Pari").text


class TestCalculator:
    def test_calculates(self, client):
        answer = client.call("calculator_arithmetic", expression="2 * (3 + sqrt(16))")

        assert answer.result["structuredContent"] == {"expression": "2 * (3 + sqrt(16))", "result": 14}
        assert answer.text == "2 * (3 + sqrt(16)) = 14.0"

    def test_explains_what_it_cannot(self, client):
        answer = client.call("calculator_arithmetic", expression="9**9**9")

        assert answer.result["isError"]
        assert answer.text == "The result is too large."

    def test_gives_whole_numbers_that_every_client_can_read(self, client):
        answer = client.call("calculator_arithmetic", expression="2 ** 100")

        assert answer.result["structuredContent"]["result"] == 2**100
        assert str(2**100) in answer.text


class TestSearchDocuments:
    def test_counts_all_and_shows_ten(self, client):
        answer = client.call("search_documents", keyword="the", page_index=2)
        found = answer.result["structuredContent"]

        assert (found["totalCount"], found["pageCount"], found["pageIndex"]) == (50, 5, 2)
        assert len(found["documents"]) == documents.PAGE_SIZE
        assert all(hit["title"] in answer.text and hit["snippet"] in answer.text for hit in found["documents"])

    def test_leads_to_the_whole_text(self, client):
        (hit,) = client.call("search_documents", keyword="ski helicopter").result["structuredContent"]["documents"]

        assert Document.objects.get(title=hit["title"]).text in read(client, hit["uri"])

    def test_says_so_where_nothing_is_found(self, client):
        answer = client.call("search_documents", keyword="zeppelin")

        assert answer.result["structuredContent"]["totalCount"] == 0
        assert "No document contains" in answer.text

    @pytest.mark.parametrize("page_index", [0, 11])
    def test_has_ten_pages(self, client, page_index):
        assert client.call("search_documents", keyword="the", page_index=page_index).result["isError"]


class TestCalendar:
    def test_a_stranger_s_event_is_the_agency_s(self, client):
        answer = client.call("create_calendar_event", title="Fitting", starts="2026-08-01T10:00:00", location="Paris")
        event = CalendarEvent.objects.get(title="Fitting")

        assert event.owner is None
        assert (event.ends - event.starts).total_seconds() == 3600
        assert answer.result["structuredContent"]["starts"] == "2026-08-01T10:00:00Z"
        assert answer.text == (
            f"Created: Fitting (event {event.pk}), 2026-08-01 10:00 UTC to 2026-08-01 11:00 UTC, at Paris."
        )
        assert "Fitting" in [entry["title"] for entry in read(client, "calendar://events/2026")]

    def test_a_user_s_event_is_the_user_s(self, client):
        ben = get_user_model().objects.get(username="ben")
        with mock.patch("django_mcp.Context.user", ben):
            client.call("create_calendar_event", title="Dentist", starts="2026-08-01T10:00:00+02:00")
            own = read(client, "calendar://events/2026")

        assert CalendarEvent.objects.get(title="Dentist").owner == ben
        assert "Dentist" in [entry["title"] for entry in own]
        assert "Dentist" not in [entry["title"] for entry in read(client, "calendar://events/2026")]

    def test_an_event_ends_after_it_starts(self, client):
        answer = client.call(
            "create_calendar_event", title="Backwards", starts="2026-08-01T10:00:00", ends="2026-08-01T09:00:00"
        )

        assert "must not be before starts" in answer.text
        assert not CalendarEvent.objects.filter(title="Backwards").exists()

    def test_an_event_has_a_title(self, client):
        for title in ("", "   ", "\0"):
            answer = client.call("create_calendar_event", title=title, starts="2026-08-01T10:00:00")
            assert answer.result["isError"], title

    def test_an_event_outside_all_calendars_is_refused_in_words(self, client):
        for starts in ("9999-12-31T23:59:00-10:00", "0001-01-01T00:00:00+10:00", "9999-12-31T23:30:00"):
            answer = client.call("create_calendar_event", title="Late", starts=starts)
            assert "out of range" in answer.text, starts


class TestResources:
    def test_barcelona_has_museums(self, client):
        names = [offer["name"] for offer in read(client, "travel://activities/barcelona/museums")]

        assert "Picasso Museum" in names

    def test_barcelona_has_hotels(self, client):
        offers = client.call("search_hotels", city="barcelona").result["structuredContent"]["rows"]

        assert len(offers) == 8
        assert all(float(offer["price"]) > 0 and offer["name"] for offer in offers)
        assert {offer["city"]["uri"] for offer in offers} == {"travel://cities/barcelona"}

    def test_the_next_flights_are_twenty(self, client):
        with mock.patch.object(timezone, "now", return_value=NOON):
            assert len(read(client, "travel://flights/paris/barcelona")) == 20

    def test_a_trip_has_its_itinerary(self, client):
        trip = read(client, "trips://history/2025-barcelona")

        assert trip["city"] == {"uri": "travel://cities/barcelona", "title": "Barcelona"}
        assert trip["itinerary"].startswith("Day 1: ")

    def test_each_region_has_preferences(self, client):
        for region in Region.values:
            assert read(client, f"travel://preferences/{region}")["preferences"]["budget_per_day"] > 0, region

    def test_all_cities_are_listed(self, client):
        found = read(client, "travel://cities")

        assert len(found["rows"]) == City.objects.count()
        assert found["next"] is None

    def test_the_guide_names_every_tool_and_template(self, client):
        text = read(client, "travel://guide")

        for entry in client.list("tools/list"):
            verb, _, noun = entry["name"].partition("_")
            generated = verb in {"search", "get", "aggregate"} and noun.replace("_", " ").rstrip("y") in text.lower()
            assert entry["name"] in text or generated, entry["name"]

    def test_what_does_not_exist_is_not_found(self, client):
        uris = [
            "calendar://events/soon",
            "calendar://events/0",
            "calendar://events/99999",
            "travel://activities/atlantis/museums",
            "travel://activities/barcelona/volcanoes",
            "travel://flights/paris/atlantis",
            "travel://hotels/atlantis",
            "travel://preferences/atlantis",
            "travel://documents/nothing",
            "travel://documents/%00",
            "trips://history/1066-hastings",
            "weather://forecast/atlantis/2026-01-01",
            "weather://forecast/paris/tomorrow",
        ]
        codes = {uri: client.request("resources/read", {"uri": uri}).code for uri in uris}

        assert {uri: code for uri, code in codes.items() if code not in {-32002, -32602}} == {}


class TestPlanVacation:
    def get(self, client: Client, **arguments: str) -> str:
        result = client.request("prompts/get", {"name": "plan-vacation", "arguments": arguments}).result
        (message,) = result["messages"]
        return message["content"]["text"]

    def test_tells_what_the_agency_knows(self, client):
        text = self.get(client, destination="Barcelona", duration="7", budget="3000", interests="art, food")

        assert "7 days in Barcelona for €3000" in text
        assert "Interests: art, food." in text
        assert "2025-barcelona" in text

    def test_does_without_interests(self, client):
        assert "a bit of everything" in self.get(client, destination="PAR", duration="1", budget="450.50")

    def test_says_where_the_agency_does_not_go(self, client):
        assert "Say so before you plan" in self.get(client, destination="Atlantis", duration="3", budget="1000")

    def test_refuses_a_duration_that_is_none(self, client):
        arguments = {"destination": "Rome", "duration": "a week", "budget": "1000"}

        assert client.request("prompts/get", {"name": "plan-vacation", "arguments": arguments}).code == -32602

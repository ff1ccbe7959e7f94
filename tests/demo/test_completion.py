"""What the agency offers while somebody fills in a prompt or a resource template."""

from typing import Any

import pytest

from demo_project.travel.models import City, Document, Trip
from django_mcp import server as agency
from tests.clients import Client

pytestmark = pytest.mark.usefixtures("travel")

PLAN = {"type": "ref/prompt", "name": "plan-vacation"}
FLIGHTS = "travel://flights/{origin}/{destination}"


@pytest.fixture
def client(version: str) -> Client:
    return Client(agency, version, "view")


def complete(client: Client, ref: Any, name: str, value: str, **chosen: str) -> dict[str, Any]:
    if isinstance(ref, str):
        ref = {"type": "ref/resource", "uri": ref}
    params = {"ref": ref, "argument": {"name": name, "value": value}, "context": {"arguments": chosen}}
    return client.request("completion/complete", params).result["completion"]


def test_par_may_become_paris_or_park_city_wherever_a_city_is_asked_for(client):
    asked = [
        (PLAN, "destination"),
        ("travel://activities/{city}/{category}", "city"),
        (FLIGHTS, "origin"),
        (FLIGHTS, "destination"),
        ("weather://forecast/{city}/{date}", "city"),
    ]
    offered = {"values": ["Paris", "Park City"], "total": 2, "hasMore": False}

    assert [complete(client, ref, name, "Par") for ref, name in asked] == [offered] * 5


def test_cities_are_offered_by_name_and_by_code(client):
    offers = {
        "bcn": ["Barcelona", "BCN"],
        " BC": ["Barcelona", "BCN"],
        "são p": ["São Paulo"],
        "fran": ["San Francisco"],
        "東京": [],
        "\0": [],
        "\0par": ["Paris", "Park City"],
        "' OR 1=1 --": [],
        "x" * 5000: [],
    }

    assert {typed: complete(client, PLAN, "destination", typed)["values"] for typed in offers} == offers


def test_each_offer_is_a_city_that_exists(client):
    for value in complete(client, PLAN, "destination", "b")["values"]:
        assert City.objects.called(value).count() == 1


def test_nothing_typed_offers_all_cities(client):
    offered = complete(client, PLAN, "destination", "")

    assert offered["total"] == City.objects.count()
    assert "Barcelona" in offered["values"]


def test_a_destination_is_one_with_flights_from_the_origin(client):
    offered = complete(client, FLIGHTS, "destination", "", origin="BCN")["values"]
    reached = City.objects.filter(arrivals__origin__slug="barcelona").distinct()

    assert offered == [city.name for city in reached]
    assert 0 < len(offered) < City.objects.count()
    assert "Barcelona" not in offered


def test_an_origin_that_is_none_leaves_all_destinations(client):
    for origin in ("Atlantis", ""):
        assert complete(client, FLIGHTS, "destination", "", origin=origin)["total"] == City.objects.count(), origin
    assert complete(client, FLIGHTS, "destination", "", origin="\0")["total"] == 0, "which no URI could have"


def test_other_variables_are_completed_where_their_values_are_known(client):
    for template, name, typed, values in (
        ("travel://activities/{city}/{category}", "category", "m", ["museums"]),
        ("travel://preferences/{region}{?format}", "region", "Lat", ["latin-america"]),
        ("trips://history/{slug}{?format}", "slug", "2025-Bar", ["2025-barcelona"]),
        ("calendar://events/{year}", "year", "2", []),
    ):
        assert complete(client, template, name, typed)["values"] == values, template


@pytest.mark.parametrize(
    ("template", "name", "slugs"),
    [
        ("trips://history/{slug}{?format}", "slug", Trip.objects),
        ("travel://documents/{slug}{?format}", "slug", Document.objects),
    ],
)
def test_all_trips_and_documents_can_be_found_by_their_slugs(client, template, name, slugs):
    offered = complete(client, template, name, "")

    assert len(offered["values"]) == min(slugs.count(), 100)
    assert offered["hasMore"] is (slugs.count() > 100)
    for slug in offered["values"][:5]:
        uri = template.replace(f"{{{name}}}", slug).replace("{?format}", "")
        assert "result" in client.request("resources/read", {"uri": uri}).json

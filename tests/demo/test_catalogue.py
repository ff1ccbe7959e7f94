"""The agency's models as resources: short to declare, sound, and quiet about what is not declared."""

import ast
import inspect
import json

import pytest
from django.contrib.auth import get_user_model

from demo_project.travel import catalogue, models
from django_mcp import server as agency
from django_mcp.model_resources.checks import found_problems
from tests.clients import Client

TEN = {
    *(models.City, models.Airport, models.Flight, models.Hotel, models.Activity),
    *(models.Trip, models.RegionPreference, models.Document, models.CalendarEvent, models.Booking),
}


@pytest.fixture
def client(version: str, travel: None) -> Client:
    return Client(agency, version, "view")


def test_ten_models_are_declared_in_less_than_80_lines() -> None:
    """Lines of code: imports, docstrings, comments and blank lines are not counted."""
    tree = ast.parse(inspect.getsource(catalogue))
    lines: set[int] = set()
    for node in ast.walk(tree):
        is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if isinstance(node, ast.stmt) and not is_docstring and not isinstance(node, ast.Import | ast.ImportFrom):
            end = node.body[0].lineno - 1 if hasattr(node, "body") else node.end_lineno
            decorated = min([each.lineno for each in getattr(node, "decorator_list", ())], default=node.lineno)
            lines |= set(range(decorated, max(end, node.lineno) + 1))
    blank = {at for at, line in enumerate(inspect.getsource(catalogue).splitlines(), 1) if not line.strip()}
    assert set(agency.model_resources) == TEN
    assert len(lines - blank) < 80


def test_the_declarations_are_sound() -> None:
    assert found_problems() == []


def test_whoever_is_nobody_sees_the_catalogue_and_no_bookings(client: Client) -> None:
    found = client.call("search_bookings").result

    assert client.call("search_hotels", city="rome").result["structuredContent"]["total"] > 0
    assert found["structuredContent"]["total"] == 0


def test_nothing_of_users_or_of_undeclared_columns_is_told(client: Client) -> None:
    get_user_model().objects.filter(username="ben").update(email="ben@example.com")
    told = json.dumps([client.list(f"{kind}/list") for kind in ("tools", "resources")])
    told += json.dumps([client.call(f"search_{each}").json for each in ("cities", "airports", "bookings", "trips")])

    for word in ("ben@example.com", "pbkdf2", "folded", "temp_mean", "owner"):
        assert word not in told


def test_hotels_are_added_up_by_city(client: Client) -> None:
    found = client.call("aggregate_hotels", measures=["count", "min_price"], by=["city__name"], city="rome").result
    rome = models.Hotel.objects.filter(city__slug="rome")

    (group,) = found["structuredContent"]["groups"]
    assert (group["city__name"], group["count"]) == ("Rome", rome.count())
    assert float(group["min_price"]) == float(min(rome.values_list("price", flat=True)))


def test_links_lead_to_resources(client: Client) -> None:
    row = client.call("search_airports", query="LHR").result["structuredContent"]["rows"][0]
    contents = client.request("resources/read", {"uri": row["city"]["uri"]}).result["contents"]

    assert json.loads(contents[0]["text"])["name"] == "London"
    assert {"uri": "travel://airports/LHR", "title": row["name"]} in json.loads(contents[0]["text"])["airports"]

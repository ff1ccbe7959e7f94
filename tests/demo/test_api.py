"""The agency's REST API, and the tools made of it."""

import datetime
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from rest_framework.test import APIClient

from demo_project.travel.api import EventViewSet
from demo_project.travel.models import CalendarEvent
from demo_project.urls import urlpatterns
from django_mcp import MCPServer
from django_mcp.contrib.drf import drf_tools
from tests.contrib.drf.beside import api_beside
from tests.model_resources.conftest import ByName, Reader, reader, version  # noqa: F401 - fixtures

pytestmark = pytest.mark.django_db

NOON = datetime.datetime(2030, 5, 1, 12, tzinfo=datetime.UTC)


@pytest.fixture(autouse=True)
def api_beside_the_endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with api_beside(urlpatterns[:-1], monkeypatch):
        yield


@pytest.fixture
def ann() -> Any:
    return get_user_model().objects.create_user("ann")


@pytest.fixture
def events(ann: Any) -> list[CalendarEvent]:
    """One of the agency's, one of Bob's, and two of Ann's."""
    bob = get_user_model().objects.create_user("bob")
    named = {"Fair": None, "Dentist": bob, "Concert": ann, "Ferry": ann}
    hour = datetime.timedelta(hours=1)
    made = [CalendarEvent(title=title, owner=owner, starts=NOON, ends=NOON + hour) for title, owner in named.items()]
    return CalendarEvent.objects.bulk_create(made)


@pytest.fixture
def rest(ann: Any) -> APIClient:
    client = APIClient()
    client.force_login(ann)
    return client


@pytest.fixture
def server(make_server: Callable[..., MCPServer]) -> MCPServer:
    """As ``existing.py`` publishes it, for callers known by name."""
    made = make_server(authentication=[ByName()])
    drf_tools(EventViewSet, name="own_event", write_scopes=["travel:write"], server=made)
    return made


def test_it_shows_whoever_is_signed_in_their_own_events(rest: APIClient, events: list[CalendarEvent]) -> None:
    assert [each["title"] for each in rest.get("/api/events/").json()["results"]] == ["Concert", "Ferry"]
    assert APIClient().get("/api/events/").status_code == 403


def test_it_writes(rest: APIClient, ann: Any) -> None:
    given = {"title": "Concert", "starts": "2030-05-01T19:00+02:00", "ends": "2030-05-01T22:00+02:00"}
    made = rest.post("/api/events/", given, format="json")
    assert made.status_code == 201
    assert CalendarEvent.objects.get(pk=made.json()["id"]).owner == ann
    path = f"/api/events/{made.json()['id']}/"
    refused = rest.patch(path, {"ends": "2030-05-01T18:00+02:00"}, format="json")
    assert (refused.status_code, refused.json()) == (400, {"ends": ["The event must not end before it starts."]})
    assert rest.delete(path).status_code == 204


def test_its_tools_show_the_same(
    rest: APIClient,
    reader: Callable[..., Reader],  # noqa: F811
    events: list[CalendarEvent],
) -> None:
    shown = reader("ann").data("list_own_events", search="concert")
    assert shown == rest.get("/api/events/?search=concert").json()
    assert reader("ann").data("get_own_event", pk=events[2].pk)["title"] == "Concert"
    assert "No CalendarEvent matches" in reader("ann").problem("get_own_event", pk=events[1].pk)


def test_its_tools_write_the_same(
    rest: APIClient,
    reader: Callable[..., Reader],  # noqa: F811
    events: list[CalendarEvent],
) -> None:
    client = reader("ann", scopes="travel:read travel:write")
    before = rest.get("/api/events/").json()
    assert client.data("update_own_event", pk=events[3].pk, location="Harbour")["location"] == "Harbour"
    told = client.problem("update_own_event", pk=events[3].pk, ends="2030-05-01T11:00:00Z")
    assert told.startswith("Argument 'ends': The event must not end before it starts.")
    assert client.call("delete_own_event", pk=events[3].pk).text == "Deleted."
    client.data("create_own_event", title="Ferry", starts="2030-05-01T12:00:00Z", ends="2030-05-01T13:00:00Z")
    after = rest.get("/api/events/").json()
    for page in (before, after):
        for row in page["results"]:
            del row["id"]
    assert after == before


def test_writing_takes_its_scope(reader: Callable[..., Reader], ann: Any) -> None:  # noqa: F811
    assert reader("ann", scopes="travel:read").tool_names() == {"list_own_events", "get_own_event"}


def test_the_agency_publishes_what_it_says() -> None:
    from django_mcp import server as agency

    published = {name for name in agency.tools if "own_event" in name}
    assert published == {"list_own_events", "get_own_event", "update_own_event", "delete_own_event"}

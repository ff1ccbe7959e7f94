"""What each of the demo's four endpoints offers, and to whom, under the settings that ``make demo`` has."""

import datetime
import sys
import types
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client as Browser
from django.urls import clear_url_caches
from django.utils import timezone

from demo_project import settings as demo
from demo_project import urls as demo_urls
from demo_project.travel.endpoints import office, open_, staff
from demo_project.travel.models import Booking, Flight, Hotel
from django_mcp import MCPServer
from django_mcp import server as agency
from django_mcp.auth.api_keys import create_key
from django_mcp.auth.protected_resource import resource_of
from django_mcp.auth.toolkit import get_access_token_model, get_application_model, set_token_value
from django_mcp.urls import build_urlpatterns
from tests.clients import MODERN
from tests.oauth.site import Caller

pytestmark = pytest.mark.usefixtures("travel", "as_in_the_demo")

OPEN_TOOLS = {
    "departures_board",
    "search_flights",
    "check_weather",
    "weather_current",
    "calculator_arithmetic",
    "search_documents",
}
LISTS = {
    "travel://cities": "slug",
    "travel://airports": "code",
    "travel://flight": "pk",
    "travel://hotels": "pk",
    "travel://activity": "pk",
    "trips://history": "slug",
    "travel://preferences": "region",
    "travel://documents": "slug",
    "travel://calendarevent": "pk",
}
"""Models that are resources, by the URI that lists their rows, and what addresses one."""
WITH_TEXTS = {
    "travel://activity",
    "trips://history",
    "travel://preferences",
    "travel://documents",
    "travel://calendarevent",
}
OPEN_TEMPLATES = {
    "travel://activities/{city}/{category}",
    "travel://flights/{origin}/{destination}",
    "weather://forecast/{city}/{date}",
}
SIGNED_IN_TEMPLATES = {
    *OPEN_TEMPLATES,
    "calendar://events/{year}",
    *(f"{base}{{?cursor}}" for base in LISTS),
    *(f"{base}/{{{lookup}}}{{?format}}" for base, lookup in LISTS.items()),
    *(f"{base}/{{{LISTS[base]}}}/{{field}}" for base in WITH_TEXTS),
}
BOOKING_TEMPLATES = {"travel://booking{?cursor}", "travel://booking/{reference}{?format}"}
WRITING = {
    "book_hotel",
    "hold_rooms",
    "create_calendar_event",
    "cancel_booking",
    "send_email",
    "update_own_event",
    "delete_own_event",
}
GENERATED_TOOLS = {
    *(f"search_{each}" for each in ("cities", "airports", "hotels", "activities", "trips", "calendar_events")),
    *(f"get_{each}" for each in ("city", "airport", "flight", "hotel", "activity", "trip", "preferences")),
    *("get_document", "get_calendar_event"),
    *(f"aggregate_{each}" for each in ("cities", "flights", "hotels", "activities")),
}
EVENT_TOOLS = {"list_own_events", "get_own_event"}
BOOKING_TOOLS = {"search_bookings", "get_booking", "aggregate_bookings"}
CUSTOMER_TOOLS = {*OPEN_TOOLS, *WRITING, "find_best_flight", *GENERATED_TOOLS, *BOOKING_TOOLS, *EVENT_TOOLS}
STAFF_TOOLS = {
    *OPEN_TOOLS,
    "find_best_flight",
    "cancel_any_booking",
    "hotel_occupancy",
    *("year_report", "import_flights", "get_task_result"),
    *GENERATED_TOOLS,
    *BOOKING_TOOLS,
}


@pytest.fixture
def as_in_the_demo(settings: Any) -> Iterator[None]:
    settings.DJANGO_MCP = demo.DJANGO_MCP
    settings.OAUTH2_PROVIDER = demo.OAUTH2_PROVIDER
    urls = types.ModuleType("tests.demo.urls_of_the_demo")
    urls.urlpatterns = [*demo_urls.urlpatterns[:-1], *build_urlpatterns()]
    sys.modules[urls.__name__] = urls
    settings.ROOT_URLCONF = urls.__name__
    clear_url_caches()
    yield
    del sys.modules[urls.__name__]
    clear_url_caches()


def caller(server: MCPServer, token: str | None = None, version: str = MODERN, edge: str = "view") -> Caller:
    found = Caller(server, version, edge)
    found.token = token
    return found


def user(name: str) -> Any:
    return get_user_model().objects.get(username=name)


def token_for(name: str, server: MCPServer, *scopes: str) -> str:
    """An access token of a user, for a client, at an endpoint; as the toolkit stores them."""
    application, _ = get_application_model().objects.get_or_create(
        client_id="an-mcp-client",
        defaults={"client_type": "public", "authorization_grant_type": "authorization-code", "name": "A client"},
    )
    token = f"token-of-{name}-for-{server.name}-{'-'.join(scopes)}"
    row = get_access_token_model()(
        user=user(name),
        application=application,
        scope=" ".join(scopes),
        resource=[resource_of(server)],
        expires=timezone.now() + datetime.timedelta(hours=1),
    )
    set_token_value(row, token)
    row.save()
    return token


def tools(client: Caller) -> set[str]:
    return {entry["name"] for entry in client.list("tools/list")}


def templates(client: Caller) -> set[str]:
    return {entry["uriTemplate"] for entry in client.list("resources/templates/list")}


def resources(client: Caller) -> set[str]:
    return {entry["uri"] for entry in client.list("resources/list")}


def booking_of(name: str, **changes: Any) -> Booking:
    """A booking of a room in a month."""
    values = {
        "reference": f"T{Booking.objects.count():05}",
        "user": user(name),
        "hotel": Hotel.objects.filter(city__slug="barcelona").first(),
        "check_in": timezone.localdate() + datetime.timedelta(days=30),
        "nights": 2,
        "travellers": 3,
        "total": 400,
        "status": Booking.Status.CONFIRMED,
        "created": timezone.now(),
        **changes,
    }
    return Booking.objects.create(**values)


class TestOpen:
    def test_it_offers_these_and_nothing_else_to_anybody(self, version):
        client = caller(open_, version=version)

        assert tools(client) == OPEN_TOOLS
        assert templates(client) == OPEN_TEMPLATES
        assert resources(client) == set()
        assert "prompts" not in open_.capabilities

    def test_it_answers_without_a_credential(self):
        answer = caller(open_).call("calculator_arithmetic", expression="6 * 7")

        assert answer.result["structuredContent"]["result"] == 42

    def test_it_only_reads(self):
        assert all(entry["annotations"]["readOnlyHint"] for entry in caller(open_).list("tools/list"))

    def test_what_others_offer_does_not_exist_here(self):
        names = (CUSTOMER_TOOLS | STAFF_TOOLS) - OPEN_TOOLS
        client = caller(open_)

        assert {name: client.call(name).code for name in names} == dict.fromkeys(names, -32602)

    def test_nor_do_their_resources(self):
        for uri in ("travel://cities", "calendar://events/2026", "travel://hotels/barcelona"):
            assert caller(open_).request("resources/read", {"uri": uri}).code in {-32002, -32602}, uri

    def test_no_authorization_server_is_named_for_it(self):
        assert Browser().get("/.well-known/oauth-protected-resource/open/mcp").status_code == 404


class TestWithoutACredential:
    @pytest.mark.parametrize(
        ("server", "scope"), [(agency, "travel:read"), (staff, "travel:staff"), (office, "travel:office")]
    )
    def test_a_client_is_told_where_to_get_one(self, server, scope, edge):
        answer = caller(server, edge=edge).request("tools/list")
        url = f"http://127.0.0.1:8000/.well-known/oauth-protected-resource/{server.path}"

        assert answer.status == 401
        assert answer.headers["www-authenticate"] == f'Bearer scope="{scope}", resource_metadata="{url}"'

    @pytest.mark.parametrize("server", [agency, staff, office])
    def test_and_what_is_there_is_of_that_endpoint(self, server):
        found = Browser().get(f"/.well-known/oauth-protected-resource/{server.path}").json()

        assert found["resource"] == f"http://127.0.0.1:8000/{server.path}"
        assert found["authorization_servers"] == ["http://127.0.0.1:8000"]


class TestCustomers:
    def test_ben_sees_all_of_it_and_can_ask_for_more_scopes(self, version):
        client = caller(agency, token_for("ben", agency, "travel:read"), version)

        assert tools(client) == CUSTOMER_TOOLS
        assert templates(client) == SIGNED_IN_TEMPLATES | BOOKING_TEMPLATES | {"skill://plan-a-trip/{+path}"}
        assert resources(client) >= {*LISTS, "travel://guide", "travel://booking", "travel://cities/barcelona"}
        assert [entry["name"] for entry in client.list("prompts/list")] == ["plan-weekend", "plan-vacation"]

    def test_who_may_only_look_is_told_what_writing_takes(self):
        client = caller(agency, token_for("ben", agency, "travel:read"))
        for name in sorted(WRITING):
            answer = client.call(name)

            assert answer.status == 403, name
            assert 'error="insufficient_scope"' in answer.headers["www-authenticate"], name
            assert 'scope="travel:read travel:write"' in answer.headers["www-authenticate"], name

    def test_to_write_is_to_read_too(self):
        client = caller(agency, token_for("ben", agency, "travel:write"))
        answer = client.call("create_calendar_event", title="Dentist", starts="2026-08-01T10:00:00+02:00")

        assert not answer.result.get("isError")
        own = client.request("resources/read", {"uri": "calendar://events/2026"}).result["contents"][0]["text"]
        others = caller(agency, token_for("anna", agency, "travel:read")).request(
            "resources/read", {"uri": "calendar://events/2026"}
        )
        assert "Dentist" in own
        assert "Dentist" not in others.result["contents"][0]["text"]

    def test_ben_sees_his_own_bookings_only(self):
        mine, hers = booking_of("ben"), booking_of("anna")
        found = caller(agency, token_for("ben", agency, "travel:read")).call("search_bookings", limit=50)

        assert mine.reference in found.text
        assert hers.reference not in found.text
        assert found.result["structuredContent"]["total"] == Booking.objects.filter(user=user("ben")).count()

    def test_another_s_booking_does_not_exist_for_ben_by_any_way(self):
        hers = booking_of("anna")
        client = caller(agency, token_for("ben", agency, "travel:read"))
        missing = client.call("get_booking", reference="NOSUCH").text

        assert client.call("get_booking", reference=hers.reference).text == missing.replace("NOSUCH", hers.reference)
        assert client.request("resources/read", {"uri": f"travel://booking/{hers.reference}"}).status == 400
        assert client.call("search_bookings", query=hers.reference).result["structuredContent"]["total"] == 0
        assert f"travel://booking/{hers.reference}" not in resources(client)
        assert f"travel://booking/{booking_of('ben').reference}" in resources(client)

    def test_ben_cancels_his_booking_and_the_seats_are_free_again(self):
        flight = Flight.objects.filter(departs__gt=timezone.now()).first()
        booking = booking_of("ben", flight=flight)
        answer = caller(agency, token_for("ben", agency, "travel:write")).call(
            "cancel_booking", reference=booking.reference.lower()
        )

        assert answer.text.startswith(f"Cancelled: {booking.reference}, cancelled: ")
        booking.refresh_from_db()
        assert booking.status == Booking.Status.CANCELLED
        assert Flight.objects.get(pk=flight.pk).seats_left == flight.seats_left + 3

    def test_a_booking_is_cancelled_once(self):
        booking = booking_of("ben")
        client = caller(agency, token_for("ben", agency, "travel:write"))
        client.call("cancel_booking", reference=booking.reference)
        answer = client.call("cancel_booking", reference=booking.reference)

        assert answer.result["isError"]
        assert answer.text == f"Nothing was cancelled. {booking.reference} is already cancelled."

    def test_what_has_begun_is_not_cancelled(self):
        booking = booking_of("ben", check_in=timezone.localdate() - datetime.timedelta(days=2))
        answer = caller(agency, token_for("ben", agency, "travel:write")).call(
            "cancel_booking", reference=booking.reference
        )

        assert "has already begun" in answer.text
        booking.refresh_from_db()
        assert booking.status == Booking.Status.CONFIRMED

    def test_nobody_cancels_what_is_another_s_or_learns_that_it_exists(self):
        hers = booking_of("anna")
        client = caller(agency, token_for("ben", agency, "travel:write"))
        theirs = client.call("cancel_booking", reference=hers.reference).text
        nobodys = client.call("cancel_booking", reference="NOSUCH").text

        assert theirs == nobodys.replace("NOSUCH", hers.reference)
        hers.refresh_from_db()
        assert hers.status == Booking.Status.CONFIRMED

    def test_a_guest_s_bookings_are_not_those_of_whoever_is_not_signed_in(self):
        booking_of("ben", user=None)

        assert not Booking.objects.made_by(types.SimpleNamespace(pk=None, is_authenticated=False)).exists()


class TestKeys:
    def test_a_key_shows_what_it_may_use_and_hides_the_rest(self, version):
        _, key = create_key(user("ben"), "laptop")

        assert tools(caller(agency, key, version)) == CUSTOMER_TOOLS - WRITING
        assert caller(agency, key).call("search_bookings").result["structuredContent"]["total"] > 0

    def test_a_key_is_for_the_endpoints_it_was_made_for(self):
        _, key = create_key(user("anna"), "laptop")

        assert caller(staff, key).request("tools/list").status == 401


class TestStaff:
    def test_anna_sees_all_of_it(self, version):
        client = caller(staff, token_for("anna", staff, "travel:staff"), version)

        assert tools(client) == STAFF_TOOLS
        assert templates(client) == {*SIGNED_IN_TEMPLATES, *BOOKING_TEMPLATES, "travel://reports/{report}"}
        assert resources(client) >= {*LISTS, "travel://booking", "travel://cities/barcelona"}

    def test_ben_is_refused_whatever_his_token_says_until_he_is_staff(self):
        client = caller(staff, token_for("ben", staff, "travel:staff", "travel:write"))

        assert client.request("tools/list").status == 401
        get_user_model().objects.filter(username="ben").update(is_staff=True)
        assert client.request("tools/list").status == 200

    def test_a_token_for_customers_is_refused_even_of_staff(self):
        token = token_for("anna", agency, "travel:staff", "travel:write")

        assert caller(staff, token).request("tools/list").status == 401

    def test_a_token_without_the_scope_of_staff_is_told_to_ask_for_it(self):
        answer = caller(staff, token_for("anna", staff, "travel:read")).request("tools/list")

        assert answer.status == 403
        assert 'scope="travel:read travel:staff"' in answer.headers["www-authenticate"]

    def test_tools_for_which_somebody_has_no_permission_do_not_exist(self, version):
        get_user_model().objects.create_user("carl", is_staff=True)
        client = caller(staff, token_for("carl", staff, "travel:staff", "travel:write"), version)

        assert tools(client) == {*OPEN_TOOLS, "find_best_flight", "get_task_result", *GENERATED_TOOLS}
        assert client.call("cancel_any_booking", reference="ABCDEF").code == -32602

    def test_to_cancel_takes_the_scope_of_writing_too(self):
        answer = caller(staff, token_for("anna", staff, "travel:staff")).call("cancel_any_booking", reference="ABCDEF")

        assert answer.status == 403
        assert 'scope="travel:write travel:staff"' in answer.headers["www-authenticate"]

    def test_anna_lists_the_bookings_of_one_customer_in_one_city(self):
        wanted = booking_of("ben")
        booking_of("anna")
        booking_of("ben", status=Booking.Status.CANCELLED)
        client = caller(staff, token_for("anna", staff, "travel:staff"))
        arguments = {"user__username": "ben", "hotel__city__name": "Barcelona", "status": "confirmed"}
        found = client.call("search_bookings", **arguments).result["structuredContent"]["rows"]

        assert wanted.reference in [each["reference"] for each in found]
        assert {each["user__username"] for each in found} == {"ben"}
        assert {each["hotel__city__name"] for each in found} == {"Barcelona"}
        assert {each["status"] for each in found} == {"confirmed"}

    def test_every_sample_booking_can_be_told(self):
        client = caller(staff, token_for("anna", staff, "travel:staff"))
        found = client.call("search_bookings", limit=50)

        assert found.result["structuredContent"]["total"] == Booking.objects.count()
        assert len(found.result["structuredContent"]["rows"]) == 50

    def test_a_list_of_bookings_takes_few_queries(self, django_assert_max_num_queries):
        client = caller(staff, token_for("anna", staff, "travel:staff"))
        with django_assert_max_num_queries(8):
            client.call("search_bookings", limit=50)

    def test_there_may_be_none(self):
        client = caller(staff, token_for("anna", staff, "travel:staff"))

        found = client.call("search_bookings", user__username="nobody").result["structuredContent"]

        assert (found["rows"], found["note"]) == ([], "0 rows. This is the last page.")

    def test_anna_cancels_for_a_customer(self):
        booking = booking_of("ben")
        client = caller(staff, token_for("anna", staff, "travel:staff", "travel:write"))
        answer = client.call("cancel_any_booking", reference=booking.reference)

        assert answer.result["structuredContent"]["customer"] == "ben"
        booking.refresh_from_db()
        assert booking.status == Booking.Status.CANCELLED

    def test_occupancy_counts_rooms_from_the_first_night_to_the_last(self):
        booking = booking_of("ben")  # three people, so two rooms
        booking_of("anna", hotel=booking.hotel, status=Booking.Status.CANCELLED)
        client = caller(staff, token_for("anna", staff, "travel:staff"))

        def taken(days: int) -> int:
            night = (booking.check_in + datetime.timedelta(days=days)).isoformat()
            found = client.call("hotel_occupancy", city="barcelona", night=night).result["structuredContent"]
            return next(each["taken"] for each in found["hotels"] if each["hotel"] == booking.hotel.name)

        assert [taken(days) for days in (-1, 0, 1, 2)] == [0, 2, 2, 0]


class TestTheBackOffice:
    """The site's admin, declared in one line: ``tests/demo/test_office.py`` has what it does."""

    def test_an_agent_is_offered_what_the_admin_lets_her_do(self, version):
        found = tools(caller(office, token_for("anna", office, "travel:office"), version))

        assert {"admin_overview", "search_hotels", "get_hotel", "hotel_history", "add_hotel", "change_hotel"} <= found
        assert "booking_refund" in found
        assert not {name for name in found if name.startswith("delete_")}, "agents delete nothing"
        assert "search_users" not in found

    def test_a_trainee_only_looks(self, version):
        client = caller(office, token_for("tim", office, "travel:office"), version)

        assert {entry["annotations"]["readOnlyHint"] for entry in client.list("tools/list")} == {True}
        assert {"search_hotels", "get_booking"} <= tools(client)

    def test_a_customer_is_not_let_in_whatever_the_token_says(self):
        assert caller(office, token_for("ben", office, "travel:office")).request("tools/list").status == 401

    def test_a_token_of_the_other_endpoint_for_staff_is_refused(self):
        assert caller(office, token_for("anna", staff, "travel:office")).request("tools/list").status == 401


def test_every_scope_that_is_needed_is_declared_and_every_declared_one_needed():
    needed = {
        scope for server in (agency, staff, office, open_) for each in server.tools.values() for scope in each.scopes
    }

    assert needed | staff.scopes | office.scopes | agency.scopes == set(demo.DJANGO_MCP["SCOPES"])

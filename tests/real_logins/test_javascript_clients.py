"""The official JavaScript clients log in: a person goes through the demo's login and consent pages in Chromium."""

from typing import Any

import pytest

from tests.auth_check.site import Certificate, Demo
from tests.real_clients.node import Clients
from tests.real_logins.documents import Documents
from tests.real_logins.javascript import LIBRARIES, JavaScriptClient
from tests.real_logins.people import READ, WRITE, expire, status_of

BOOKINGS = {"name": "search_bookings", "arguments": {}}


@pytest.fixture(params=LIBRARIES)
def javascript(
    request: pytest.FixtureRequest, clients: Clients, demo: Demo, certificate: Certificate, open_browser: str
) -> Any:
    return JavaScriptClient(clients, demo, certificate, request.param, open_browser)


def test_it_registers_a_person_lets_it_in_and_it_refreshes(
    javascript: JavaScriptClient, demo: Demo, certificate: Certificate
) -> None:
    first = javascript.call(BOOKINGS, BOOKINGS)
    for outcome in first.outcomes:
        # As many as the sample data have of ben's.
        assert outcome["result"]["structuredContent"]["total"] == 45
    (visit,) = first.visits
    assert visit.signed_in
    for words in ("JavaScript client", "127.0.0.1", demo.endpoint, "ben", READ):
        assert words in visit.consent
    assert WRITE not in visit.consent
    assert visit.complaints == []
    tokens = first.kept["tokens"]
    assert tokens["scope"] == "travel:read"

    expire(demo, tokens["access_token"])
    assert status_of(demo, certificate, tokens["access_token"]) == 401
    second = javascript.call(BOOKINGS, kept=first.kept)
    assert "result" in second.outcomes[0], second.outcomes
    assert second.visits == [], "nobody is asked again"
    assert second.kept["client"] == first.kept["client"]
    assert second.kept["tokens"]["access_token"] != tokens["access_token"]
    assert second.kept["tokens"]["refresh_token"] != tokens["refresh_token"]


def test_a_client_with_a_document_needs_no_registration(javascript: JavaScriptClient, documents: Documents) -> None:
    done = javascript.call(BOOKINGS, document=documents.url)
    assert "result" in done.outcomes[0], done.outcomes
    assert done.kept["client"]["client_id"] == documents.url
    (visit,) = done.visits
    for words in ("Example Assistant", "client.example", "127.0.0.1"):
        assert words in visit.consent
    assert "JavaScript client" not in visit.consent


@pytest.mark.parametrize("javascript", ["client-auto"], indirect=True)
def test_a_tool_that_needs_more_sends_the_person_to_the_consent_page_again(javascript: JavaScriptClient) -> None:
    event = {"title": "Written by JavaScript after a second look", "starts": "2034-05-01T15:00:00+02:00"}
    done = javascript.call(BOOKINGS, {"name": "create_calendar_event", "arguments": event})
    assert all("result" in outcome for outcome in done.outcomes), done.outcomes
    first, second = done.visits
    assert WRITE not in first.consent
    assert WRITE in second.consent
    assert set(done.kept["tokens"]["scope"].split()) == {"travel:read", "travel:write"}

"""The official Python client logs in: a person goes through the demo's login and consent pages in Chromium."""

import json
from typing import Any

import pytest
from mcp.client import Client

from tests.auth_check.site import Certificate, Demo
from tests.real_logins.documents import Documents
from tests.real_logins.people import READ, WRITE, PythonClient, expire, status_of


@pytest.fixture(params=["legacy", "auto"])
def mode(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def python_client(demo: Demo, certificate: Certificate, mode: str, open_browser: str) -> PythonClient:
    return PythonClient(demo, certificate, mode, open_browser)


def test_it_registers_and_a_person_lets_it_in(python_client: PythonClient, demo: Demo) -> None:
    bookings = python_client.call("search_bookings")
    assert not bookings.is_error
    (visit,) = python_client.visits
    assert visit.signed_in
    for words in ("Python client", "127.0.0.1", demo.endpoint, "ben", READ):
        assert words in visit.consent
    assert WRITE not in visit.consent
    assert visit.complaints == []
    assert python_client.information is not None
    assert python_client.information.client_id
    assert python_client.tokens is not None
    assert python_client.tokens.scope == "travel:read"
    assert visit.answer["iss"] == demo.url


def test_it_acts_as_the_person_who_let_it_in_for_many_connections(python_client: PythonClient) -> None:
    assert not python_client.call("calculator_arithmetic", expression="6 * 7").is_error
    result = python_client.call("search_bookings")
    assert result.structured_content["total"] == 45  # as many as the sample data have of ben's
    assert len(python_client.visits) == 1


def test_a_tool_that_needs_more_sends_the_person_to_the_consent_page_again(
    python_client: PythonClient, mode: str
) -> None:
    assert not python_client.call("search_bookings").is_error
    title = f"Written after a second look, {mode}"
    result = python_client.call("create_calendar_event", title=title, starts="2033-05-01T15:00:00+02:00")
    assert not result.is_error
    first, second = python_client.visits
    assert WRITE not in first.consent
    assert WRITE in second.consent
    assert python_client.tokens is not None
    assert set((python_client.tokens.scope or "").split()) == {"travel:read", "travel:write"}

    async def read(client: Client) -> Any:
        return await client.read_resource("calendar://events/2033")

    (contents,) = python_client.use(read).contents
    assert title in {event["title"] for event in json.loads(contents.text)}
    assert len(python_client.visits) == 2


def test_it_replaces_an_expired_access_token_without_asking_anybody(
    python_client: PythonClient, demo: Demo, certificate: Certificate
) -> None:
    assert not python_client.call("search_bookings").is_error
    before = python_client.tokens
    assert before is not None
    expire(demo, before.access_token)
    assert status_of(demo, certificate, before.access_token) == 401
    python_client.provider.context.token_expiry_time = 1.0  # it goes by its own clock
    assert not python_client.call("search_bookings").is_error
    after = python_client.tokens
    assert after is not None
    assert after.access_token != before.access_token
    assert after.refresh_token != before.refresh_token
    assert after.scope == before.scope
    assert status_of(demo, certificate, after.access_token) == 200
    assert len(python_client.visits) == 1


def test_a_client_with_a_document_needs_no_registration(
    demo: Demo, certificate: Certificate, documents: Documents, mode: str, open_browser: str
) -> None:
    client = PythonClient(demo, certificate, mode, open_browser, document=documents.url)
    assert not client.call("search_bookings").is_error
    assert client.information is not None
    assert client.information.client_id == documents.url
    assert documents.fetched == 1, "it is fetched once, and then kept"
    (visit,) = client.visits
    for words in ("Example Assistant", "client.example", "127.0.0.1"):
        assert words in visit.consent
    assert "Python client" not in visit.consent

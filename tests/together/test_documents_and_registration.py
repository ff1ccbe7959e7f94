"""Clients of documents that cannot be fetched, registration, and the users who sign in meanwhile."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.cache import cache

from django_mcp.auth.toolkit import get_application_model
from django_mcp.oauth.cimd import Unreachable
from tests.oauth.conftest import site
from tests.oauth.published_documents import DOCUMENTS
from tests.oauth.site import CALLBACK, Browser, Site
from tests.oauth.test_documents import StubFetcher

__all__ = ["site"]

CLAUDE_CODE = DOCUMENTS["Claude Code"]["client_id"]
METADATA = "/.well-known/oauth-authorization-server"


@pytest.fixture
def documents(site: Site) -> Iterator[dict[str, Any]]:
    """What can be fetched."""
    cache.clear()
    site.configure_toolkit(CIMD_METADATA_FETCHER=StubFetcher)
    StubFetcher.documents, StubFetcher.asked = {}, []
    yield StubFetcher.documents
    StubFetcher.documents = {}
    cache.clear()


def metadata() -> dict[str, Any]:
    return dict(json.loads(Browser().get(METADATA).content))


def register(address: str = "203.0.113.7") -> Any:
    body = {"client_name": "Claude Code", "redirect_uris": [CALLBACK], "token_endpoint_auth_method": "none"}
    response = Browser().post("/o/register/", json.dumps(body), "application/json", REMOTE_ADDR=address)
    assert response.status_code == 201, response.content
    return get_application_model().objects.get(client_id=json.loads(response.content)["client_id"])


def test_a_client_whose_document_cannot_be_fetched_registers_and_its_user_signs_in(
    site: Site, documents: dict[str, Any]
) -> None:
    documents[CLAUDE_CODE] = Unreachable("Name or service not known")
    assert metadata()["client_id_metadata_document_supported"] is True
    page = site.ask(client_id=CLAUDE_CODE, redirect_uri="http://localhost/callback")
    assert "could not reach claude.ai" in page.content.decode()
    again = metadata()
    assert again["client_id_metadata_document_supported"] is False
    assert again["registration_endpoint"].endswith("/o/register/")
    client = register()
    assert site.status(site.tokens_for(application=client)["access_token"]) == 200


@pytest.mark.postgresql
def test_logins_of_a_document_go_on_while_it_cannot_be_fetched(site: Site, documents: dict[str, Any]) -> None:
    documents[CLAUDE_CODE] = {**DOCUMENTS["Claude Code"], "redirect_uris": [CALLBACK]}
    code = site.code_for(client_id=CLAUDE_CODE)
    tokens = json.loads(site.exchange(code, client_id=CLAUDE_CODE).content)
    documents[CLAUDE_CODE] = Unreachable("no route")
    get_application_model().objects.filter(client_id=CLAUDE_CODE).update(cimd_expires_at="2020-01-01T00:00:00Z")
    assert site.ask(client_id=CLAUDE_CODE).status_code == 400
    assert site.status(tokens["access_token"]) == 200
    assert site.refresh(tokens["refresh_token"], client_id=CLAUDE_CODE).status_code == 200


@pytest.mark.postgresql
def test_a_full_room_keeps_no_new_network_from_registering_and_signing_in(
    site: Site, documents: dict[str, Any]
) -> None:
    site.configure(MAX_UNUSED_CLIENTS=5, REGISTRATION_RATE="5/h")
    for number in range(10):
        register(f"2001:db8:{number // 5:x}:{number:x}::1")
    newcomer = register("203.0.113.9")
    for number in range(10, 20):
        register(f"2001:db8:{number // 5:x}:{number:x}::1")
    assert site.status(site.tokens_for(application=newcomer)["access_token"]) == 200
    assert get_application_model().objects.filter(registration_source="dcr").count() <= 6


def test_requests_of_a_neighbour_without_a_login_keep_nobody_from_signing_in(
    site: Site, documents: dict[str, Any]
) -> None:
    """At the token endpoint with documents and wrong secrets, and at registration, from the same address."""
    documents[CLAUDE_CODE] = {**DOCUMENTS["Claude Code"], "redirect_uris": [CALLBACK]}
    for number in range(30):
        client_id = f"https://client.example.com/{number}.json"
        site.token(grant_type="refresh_token", refresh_token="x", client_id=client_id, client_secret="x")
        Browser().post("/o/register/", "{}", "application/json")
    code = site.code_for(client_id=CLAUDE_CODE)
    tokens = json.loads(site.exchange(code, client_id=CLAUDE_CODE).content)
    assert site.status(tokens["access_token"]) == 200
    assert StubFetcher.asked == [CLAUDE_CODE]

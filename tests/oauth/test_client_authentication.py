"""Errors of client authentication, at every view of the toolkit that asks for it: no view fails."""

import base64
from typing import Any
from urllib.parse import urlencode

import pytest
from django.contrib.auth.models import AnonymousUser
from django.core.cache import cache
from django.http import HttpResponse
from django.views import View
from oauth2_provider import views
from oauth2_provider.views.mixins import ClientProtectedResourceMixin

from django_mcp.oauth.register import hash_secret
from tests.oauth.site import Site

VALIDATORS = ["django_mcp.oauth.validator.Validator", "tests.oauth.own_validator.MixedValidator"]
GRANTS = ["refresh_token", "client_credentials", "password", ""]


class OwnResource(ClientProtectedResourceMixin, View):  # type: ignore[misc]
    """A view of a site that lets clients in."""

    def post(self, request: Any) -> HttpResponse:
        return HttpResponse("let in")


ENDPOINTS = [views.TokenView, views.RevokeTokenView]
QUESTIONS = [views.IntrospectTokenView, OwnResource]


def basic(client_id: str, secret: str) -> dict[str, str]:
    return {"HTTP_AUTHORIZATION": "Basic " + base64.b64encode(f"{client_id}:{secret}".encode()).decode()}


@pytest.fixture
def send(rf: Any) -> Any:
    def send(view: Any, body: dict[str, str], **headers: str) -> HttpResponse:
        request = rf.post("/o/x/", urlencode(body), "application/x-www-form-urlencoded", **headers)
        request.user = AnonymousUser()
        response: HttpResponse = view.as_view()(request)
        return response

    return send


@pytest.fixture
def stranger(site: Site) -> Any:
    """A client that registered itself, with a secret."""
    values = {"client_type": "confidential", "client_secret": hash_secret("right"), "hash_client_secret": False}
    return site.make_client("stranger", registration_source="dcr", **values)


@pytest.mark.parametrize("validator", VALIDATORS)
def test_two_ways_are_an_error_at_endpoints_and_no_login_elsewhere(
    site: Site, stranger: Any, send: Any, validator: str, subtests: pytest.Subtests
) -> None:
    site.configure_toolkit(OAUTH2_VALIDATOR_CLASS=validator)
    for grant_type in GRANTS:
        body = {"token": "x", "refresh_token": "x", "code": "x", "username": "x", "password": "x"}
        body |= {"grant_type": grant_type, "client_id": "stranger", "client_secret": "right"}
        for view in [*ENDPOINTS, *QUESTIONS]:
            with subtests.test(view=view.__name__, grant_type=grant_type):
                response = send(view, body, **basic("stranger", "right"))
                assert response.status_code == (400 if view in ENDPOINTS else 403)
                assert b"let in" not in response.content


@pytest.mark.parametrize("validator", VALIDATORS)
def test_too_many_secrets_are_429_at_endpoints_and_no_login_elsewhere(
    site: Site, stranger: Any, send: Any, hashed: list[str], validator: str, subtests: pytest.Subtests
) -> None:
    site.configure_toolkit(OAUTH2_VALIDATOR_CLASS=validator)
    for view in [*ENDPOINTS, *QUESTIONS]:
        for grant_type in ["refresh_token", "client_credentials"]:
            with subtests.test(view=view.__name__, grant_type=grant_type):
                cache.clear()
                hashed.clear()
                body = {"grant_type": grant_type, "token": "x", "refresh_token": "x", "client_id": "stranger"}
                statuses = [send(view, {**body, "client_secret": "wrong"}).status_code for _ in range(22)]
                first, last = (401, 429) if view in ENDPOINTS else (403, 403)
                assert statuses == [first] * 20 + [last] * 2
                assert len(hashed) == 20
                assert send(view, {**body, "client_secret": "right"}).status_code != 429


@pytest.mark.parametrize("validator", VALIDATORS)
def test_a_client_that_registered_itself_is_none_of_the_sites_own(
    site: Site, stranger: Any, send: Any, validator: str, subtests: pytest.Subtests
) -> None:
    """Its secret opens no view that the site had for its clients, nor tells it about tokens."""
    site.configure_toolkit(OAUTH2_VALIDATOR_CLASS=validator)
    site.make_client("own", client_type="confidential", client_secret="right")
    for client_id, status in [("own", 200), ("stranger", 403)]:
        for view in QUESTIONS:
            for grant_type in ["", "client_credentials"]:
                with subtests.test(view=view.__name__, client_id=client_id, grant_type=grant_type):
                    body = {"token": "x", "grant_type": grant_type}
                    assert send(view, body, **basic(client_id, "right")).status_code == status
                    assert send(view, {**body, "client_id": client_id, "client_secret": "right"}).status_code == status
    assert send(views.RevokeTokenView, {"token": "x"}, **basic("stranger", "right")).status_code == 200


@pytest.mark.parametrize("validator", VALIDATORS)
def test_no_header_makes_a_view_fail(site: Site, send: Any, validator: str, subtests: pytest.Subtests) -> None:
    site.configure_toolkit(OAUTH2_VALIDATOR_CLASS=validator)
    headers = [
        "",
        "Basic",
        "Basic ",
        "Basic =",
        "Basic /w==",
        "Basic bm9jb2xvbg==",
        "Basic \xe9",
        "Basic\xa0x",
        "Bearer",
    ]
    for header in headers:
        for view in [*ENDPOINTS, *QUESTIONS]:
            with subtests.test(view=view.__name__, header=header):
                body = {"token": "x", "grant_type": "refresh_token", "refresh_token": "x"}
                assert send(view, body, HTTP_AUTHORIZATION=header).status_code in {400, 401, 403}

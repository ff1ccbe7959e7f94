"""Clients that act without a person: only those the site's owner chose, each as the user it was given."""

import base64
from typing import Any

import pytest

from django_mcp.auth.toolkit import get_access_token_model, get_refresh_token_model
from django_mcp.models import ClientPolicy
from tests.oauth.site import Browser, Site

AccessToken, RefreshToken = get_access_token_model(), get_refresh_token_model()

SERVICE = {
    "client_type": "confidential",
    "client_secret": "s3cret",
    "authorization_grant_type": "client-credentials",
    "redirect_uris": "",
}


@pytest.fixture
def service(site: Site) -> Any:
    """A client that may act as a user of its own; it belongs to another."""
    site.configure(CLIENT_CREDENTIALS=True)
    robot = site.make_user("robot")
    owner = site.make_user("owner", is_staff=True, is_superuser=True)
    application = site.make_client("service", **SERVICE, user=owner)
    ClientPolicy.objects.create(client_id="service", service_account=robot)
    return application


def ask(site: Site, **changes: Any) -> Any:
    values = {"client_id": "service", "client_secret": "s3cret", "resource": site.resource(), **changes}
    return site.token(grant_type="client_credentials", **values)


def test_it_acts_as_the_user_it_was_given(site: Site, service: Any) -> None:
    response = ask(site)
    assert response.status_code == 200, response.content
    tokens = response.json()
    assert "refresh_token" not in tokens
    assert tokens["scope"] == "travel:read"
    assert site.status(tokens["access_token"]) == 200
    assert site.status(tokens["access_token"], site.beta) == 401
    assert AccessToken.objects.get().user.username == "robot"
    names = {each["name"] for each in site.caller(tokens["access_token"]).list("tools/list")}
    assert "administer" not in names


def test_it_may_send_its_secret_in_the_header(site: Site, service: Any) -> None:
    credentials = base64.b64encode(b"service:s3cret").decode()
    values = {"grant_type": "client_credentials", "resource": site.resource()}
    response = Browser().post_form("/o/token/", values, headers={"authorization": f"Basic {credentials}"})
    assert response.status_code == 200, response.content


def test_its_tokens_die_with_the_policy(site: Site, service: Any) -> None:
    token = ask(site).json()["access_token"]
    ClientPolicy.objects.update(service_account=site.user)
    assert site.status(token) == 401
    ClientPolicy.objects.all().delete()
    assert site.status(token) == 401


def test_it_has_to_know_its_secret(site: Site, service: Any, subtests: pytest.Subtests) -> None:
    for password in ["wrong", "", None]:
        with subtests.test(password=password), site.afresh():
            response = ask(site, client_secret=password)
            assert response.status_code == 401
            assert response.json() == {"error": "invalid_client"}


def test_no_other_client_may(site: Site, service: Any, subtests: pytest.Subtests) -> None:
    for changes in [
        {"registration_source": "dcr"},
        {"registration_source": "cimd"},
        {"client_type": "public"},
        {"authorization_grant_type": "authorization-code"},
    ]:
        with subtests.test(changes=changes), site.afresh():
            for name, value in changes.items():
                setattr(service, name, value)
            service.save()
            assert ask(site).json()["error"] in {"unauthorized_client", "invalid_client"}
            assert not AccessToken.objects.exists()


def test_it_needs_an_active_user_and_the_setting(site: Site, service: Any, subtests: pytest.Subtests) -> None:
    for change in ["no policy", "nobody", "inactive", "blocked", "off"]:
        with subtests.test(change=change), site.afresh():
            policies = ClientPolicy.objects.filter(client_id="service")
            match change:
                case "no policy":
                    policies.delete()
                case "nobody":
                    policies.update(service_account=None)
                case "inactive":
                    policies.get().service_account.__class__.objects.filter(username="robot").update(is_active=False)
                case "blocked":
                    policies.update(blocked=True)
                case "off":
                    site.configure(CLIENT_CREDENTIALS=False)
            assert ask(site).json() == {"error": "unauthorized_client"}
            assert not AccessToken.objects.exists()


def test_it_is_for_known_endpoints_that_are_for_its_user(site: Site, service: Any) -> None:
    assert ask(site, resource="https://evil.example/").json()["error"] == "invalid_target"
    site.alpha.user_passes_test = lambda user: user.username != "robot"
    assert ask(site).json()["error"] == "invalid_grant"
    assert ask(site, resource=site.resource(site.beta)).status_code == 200


def test_it_gets_scopes_within_its_policy(site: Site, service: Any, subtests: pytest.Subtests) -> None:
    for asked, limit, given in [
        ("travel:write openid", None, "travel:write"),
        ("travel:write", ["travel:read"], "travel:read"),
        (None, None, "travel:read"),
        ("openid", None, "travel:read"),
    ]:
        with subtests.test(asked=asked, limit=limit, given=given), site.afresh():
            policy = ClientPolicy.objects.get()
            policy.scopes = limit
            policy.save()
            assert ask(site, scope=asked).json()["scope"] == given


def test_it_gets_nothing_where_its_policy_allows_nothing(site: Site, service: Any) -> None:
    policy = ClientPolicy.objects.get()
    policy.scopes = []
    policy.save()
    assert ask(site).json() == {"error": "invalid_scope"}


def test_it_cannot_use_other_grants(site: Site, service: Any) -> None:
    values = {"client_id": "service", "client_secret": "s3cret"}
    for grant in (
        {"grant_type": "authorization_code", "code": "x"},
        {"grant_type": "refresh_token", "refresh_token": "x"},
    ):
        assert site.token(**grant, **values).json() == {"error": "unauthorized_client"}

"""A site that had an authorization server before it had MCP: its own clients keep the rules they had."""

import base64

import pytest

from django_mcp.auth.toolkit import get_access_token_model, get_refresh_token_model
from django_mcp.models import ClientPolicy
from tests.oauth.site import CALLBACK, VERIFIER, Browser, Site

OTHER = "https://api.example.com/"

AccessToken, RefreshToken = get_access_token_model(), get_refresh_token_model()


@pytest.fixture
def mixed(site: Site) -> Site:
    """Such a site, with scopes of its own and without the gates that OAuth 2.1 asks for."""
    site.configure_toolkit(
        OAUTH2_VALIDATOR_CLASS="tests.oauth.own_validator.MixedValidator",
        SCOPES={"api": "Use the API", **site.settings.OAUTH2_PROVIDER["SCOPES"]},
        DEFAULT_SCOPES=["api"],
        PKCE_REQUIRED=False,
        COMPLIANT_BCP_RFC9700_PASSWORD_GRANT=False,
        COMPLIANT_BCP_RFC9700_PKCE_METHOD=False,
    )
    site.authorize_path = "/both/authorize/"
    return site


OWN = {"scope": "api", "resource": None, "code_challenge": None, "code_challenge_method": None}


def test_a_client_of_its_own_logs_in_as_before(mixed: Site, subtests: pytest.Subtests) -> None:
    for resource in [None, OTHER]:
        with subtests.test(resource=resource), mixed.afresh():
            code = mixed.code_for(**{**OWN, "resource": resource})
            tokens = mixed.exchange(code, code_verifier=None).json()
            assert tokens["scope"] == "api"
            assert AccessToken.objects.get().resource == ([resource] if resource else [])
            assert mixed.refresh(tokens["refresh_token"]).json()["scope"] == "api"
            assert mixed.status(mixed.refresh(tokens["refresh_token"]).json().get("access_token", "x")) == 401


@pytest.mark.filterwarnings("ignore:.*password.*")
def test_a_password_client_of_its_own_works_as_before(mixed: Site) -> None:
    mixed.make_client("old", authorization_grant_type="password")
    response = mixed.token(grant_type="password", client_id="old", username="ada", password="secret", scope="api")
    assert response.status_code == 200, response.content
    assert mixed.status(response.json()["access_token"]) == 401


def test_but_not_for_an_endpoint(mixed: Site) -> None:
    mixed.make_client("old", authorization_grant_type="password")
    values = {"username": "ada", "password": "secret", "resource": mixed.resource()}
    response = mixed.token(grant_type="password", client_id="old", **values)
    assert response.json() == {"error": "unauthorized_client"}


@pytest.mark.filterwarnings("ignore:.*implicit.*")
def test_an_implicit_client_of_its_own_gets_no_token_for_an_endpoint(mixed: Site) -> None:
    mixed.configure_toolkit(COMPLIANT_BCP_RFC9700_IMPLICIT_GRANT=False)
    old = mixed.make_client("old", authorization_grant_type="implicit")
    own = {**OWN, "response_type": "token"}
    assert "access_token=" in mixed.agree(mixed.ask(old, **own))["Location"]
    page = mixed.ask(old, **{**own, "resource": mixed.resource()})
    assert "error=unauthorized_client" in page["Location"]


def test_its_client_credentials_work_as_before(mixed: Site) -> None:
    changes = {"client_type": "confidential", "client_secret": "s3cret"}
    mixed.make_client("old", authorization_grant_type="client-credentials", **changes)
    ClientPolicy.objects.create(client_id="old", blocked=True)
    values = {"client_id": "old", "client_secret": "s3cret"}
    response = mixed.token(grant_type="client_credentials", scope="api", **values)
    assert response.status_code == 200
    assert AccessToken.objects.get().user is None
    refused = mixed.token(grant_type="client_credentials", resource=mixed.resource(), **values)
    assert refused.json() == {"error": "unauthorized_client"}


def test_its_clients_may_authenticate_as_before_but_not_for_an_endpoint(mixed: Site) -> None:
    old = mixed.make_client("old", client_type="confidential", client_secret="s3cret")
    headers = {"authorization": "Basic " + base64.b64encode(b"old:s3cret").decode()}
    values = {"grant_type": "authorization_code", "redirect_uri": CALLBACK, "client_secret": "s3cret"}
    code = mixed.code_for(old, **OWN)
    assert Browser().post_form("/o/token/", {**values, "code": code}, headers=headers).status_code == 200
    refused = {**values, "code": mixed.code_for(old), "code_verifier": VERIFIER}
    assert Browser().post_form("/o/token/", refused, headers=headers).json()["error"] == "invalid_request"


def test_unknown_scopes_and_grants_are_refused_as_before(mixed: Site) -> None:
    assert mixed.answer(**{**OWN, "scope": "api other"})["error"] == "invalid_scope"
    code = mixed.code_for(**OWN)
    assert mixed.exchange(code, grant_type="openid").json()["error"] == "unauthorized_client"


def test_what_was_not_issued_for_an_endpoint_is_not_bound_to_one_later(mixed: Site, subtests: pytest.Subtests) -> None:
    for resource in [None, OTHER]:
        with subtests.test(resource=resource), mixed.afresh():
            own = {**OWN, "resource": resource}
            code, asked = mixed.code_for(**own), {"resource": mixed.resource()}
            assert mixed.exchange(code, code_verifier=None, **asked).json()["error"] in {
                "invalid_grant",
                "invalid_target",
            }
            tokens = mixed.exchange(mixed.code_for(**own), code_verifier=None).json()
            assert mixed.refresh(tokens["refresh_token"], **asked).json()["error"] == "invalid_grant"


def test_a_client_of_its_own_that_names_an_endpoint_is_held_to_mcp(mixed: Site) -> None:
    assert mixed.answer(resource=[OTHER, mixed.resource()])["error"] == "invalid_target"
    assert mixed.answer(code_challenge_method="plain", code_challenge=VERIFIER)["error"] == "invalid_request"
    tokens = mixed.tokens_for(scope="api travel:read")
    assert tokens["scope"] == "travel:read"
    assert mixed.status(tokens["access_token"]) == 200
    assert mixed.refresh(tokens["refresh_token"]).status_code == 200
    assert mixed.refresh(tokens["refresh_token"]).status_code == 200


def test_a_client_that_registered_itself_is_held_to_mcp(mixed: Site, subtests: pytest.Subtests) -> None:
    for source in ["dcr", "cimd"]:
        with subtests.test(source=source), mixed.afresh():
            stranger = mixed.make_client("stranger", registration_source=source)
            for changes, error in [(OWN, "invalid_request"), ({"resource": OTHER}, "invalid_target")]:
                page = mixed.ask(stranger, **changes)
                assert (page.status_code, "Location" in page) == (400, False)
                assert f"<code>{error}: " in page.content.decode()
            tokens = mixed.exchange(mixed.code_for(stranger, resource=None, scope="api"), stranger).json()
            assert tokens["scope"] == "travel:read"


def test_revoking_a_token_of_its_own_leaves_other_logins(mixed: Site) -> None:
    first, second = (mixed.exchange(mixed.code_for(**OWN), code_verifier=None).json() for _ in range(2))
    assert mixed.revoke(first["refresh_token"]).status_code == 200
    assert mixed.refresh(first["refresh_token"]).status_code == 400
    assert mixed.refresh(second["refresh_token"]).status_code == 200

"""What the validator adds to django-oauth-toolkit's: audiences, scopes, proof keys, grants, and people."""

from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.test import override_settings
from django.utils import timezone

from django_mcp.auth.toolkit import get_access_token_model, get_grant_model, get_refresh_token_model
from django_mcp.models import ClientPolicy
from tests.oauth.site import BASE_URL, CALLBACK, VERIFIER, Site, challenge_of

AccessToken, Grant, RefreshToken = get_access_token_model(), get_grant_model(), get_refresh_token_model()


def make_code(site: Site, **changes: Any) -> str:
    """A code as it is stored, whoever stored it."""
    values = {
        "application": site.application,
        "user": site.user,
        "code": "the-code",
        "expires": timezone.now() + timedelta(minutes=1),
        "redirect_uri": CALLBACK,
        "scope": "travel:read",
        "code_challenge": challenge_of(VERIFIER),
        "code_challenge_method": "S256",
        "resource": [site.resource()],
        **changes,
    }
    return Grant.objects.create(**values).code


def problem(response: Any, status: int = 400) -> str:
    assert response.status_code == status, response.content.decode()
    assert "access_token" not in response.json()
    return response.json()["error"]


def test_a_whole_login(site: Site) -> None:
    tokens = site.tokens_for()
    assert tokens["token_type"] == "Bearer"
    assert tokens["scope"] == "travel:read"
    assert site.status(tokens["access_token"]) == 200
    assert site.status(tokens["access_token"], site.beta) == 401


# What a token is for


def test_a_resource_may_be_spelt_in_several_ways(site: Site, subtests: pytest.Subtests) -> None:
    for spelling in ["{}", "{}/", "HTTPS://TRAVEL.example.com/alpha/mcp", "{}//"]:
        with subtests.test(spelling=spelling), site.afresh():
            resource = spelling.format(site.resource())
            tokens = site.tokens_for(resource=resource)
            assert site.status(tokens["access_token"]) == 200
            assert AccessToken.objects.get().resource == [site.resource()]
            assert site.refresh(tokens["refresh_token"], resource=resource).status_code == 200


def test_a_resource_may_be_sent_twice(site: Site) -> None:
    code = site.code_for(resource=[site.resource()] * 2)
    response = site.exchange(code, resource=[site.resource()] * 2)
    assert site.status(response.json()["access_token"]) == 200
    assert site.refresh(response.json()["refresh_token"], resource=[site.resource()] * 2).status_code == 200
    assert AccessToken.objects.get().resource == [site.resource()]


def test_without_a_resource_it_is_the_default_endpoint(site: Site) -> None:
    from django_mcp.oauth.grants import default_resource

    response = site.exchange(site.code_for(resource=None))
    assert response.status_code == 200
    assert AccessToken.objects.get().resource == [default_resource()]


def test_a_token_for_two_endpoints_can_be_narrowed_to_one(site: Site) -> None:
    code = site.code_for(resource=[site.resource(), site.resource(site.beta)])
    tokens = site.exchange(code, resource=site.resource(site.beta)).json()
    assert site.status(tokens["access_token"]) == 401
    assert site.status(tokens["access_token"], site.beta) == 200
    response = site.refresh(tokens["refresh_token"], resource=site.resource())
    assert problem(response) == "invalid_target"


BAD_RESOURCES = [
    BASE_URL,
    f"{BASE_URL}/alpha",
    f"{BASE_URL}/alpha/mcp/x",
    f"{BASE_URL}/alpha/mcp#fragment",
    f"{BASE_URL}/alpha/mcp?x=1",
    "https://ada@travel.example.com/alpha/mcp",
    "https://evil.example/alpha/mcp",
    "http://travel.example.com/alpha/mcp",
    "urn:alpha",
    "https://travel.example.com:port/alpha/mcp",
    "x\0y",
]


def test_an_unknown_resource_is_refused_before_consent(site: Site, subtests: pytest.Subtests) -> None:
    for resource in BAD_RESOURCES[:-1]:
        with subtests.test(resource=resource), site.afresh():
            answer = site.answer(resource=[site.resource(), resource])
            assert (answer["error"], answer["state"]) == ("invalid_target", "the-state")
            assert not Grant.objects.exists()


def test_signing_in_for_an_endpoint_that_needs_no_token_says_so(site: Site) -> None:
    opened = site.make_server("welcome", authentication=["django_mcp.AllowAny"])
    for resource, words in [
        (site.resource(opened), "does not accept access tokens of this site"),
        ("https://evil.example/mcp", "is not an endpoint of this site"),
    ]:
        answer = site.answer(resource=resource)
        assert answer["error"] == "invalid_target"
        assert words in answer["error_description"]


def test_an_unknown_resource_is_refused_at_the_token_endpoint(site: Site, subtests: pytest.Subtests) -> None:
    for resource in BAD_RESOURCES:
        with subtests.test(resource=resource), site.afresh():
            tokens = site.tokens_for()
            wanted = "invalid_request" if "\0" in resource else "invalid_target"
            assert problem(site.refresh(tokens["refresh_token"], resource=resource)) == wanted
            assert problem(site.exchange(site.code_for(), resource=resource)) == wanted
            assert AccessToken.objects.count() == 1


def test_a_code_for_one_endpoint_gives_no_token_for_another(site: Site) -> None:
    assert problem(site.exchange(site.code_for(), resource=site.resource(site.beta))) == "invalid_target"
    assert not AccessToken.objects.exists()


def test_a_code_for_no_endpoint_gives_no_token_for_any(site: Site) -> None:
    code = make_code(site, resource=[])
    assert problem(site.exchange(code, resource=site.resource())) == "invalid_grant"
    assert problem(site.exchange(code)) == "invalid_grant"
    assert not AccessToken.objects.exists()


def test_a_refresh_token_for_no_endpoint_gives_no_token_for_any(site: Site, subtests: pytest.Subtests) -> None:
    for stored in [[], ["https://gone.example/mcp"]]:
        with subtests.test(stored=stored), site.afresh():
            tokens = site.tokens_for()
            RefreshToken.objects.update(resource=stored)
            assert problem(site.refresh(tokens["refresh_token"], resource=site.resource())) == "invalid_grant"
            assert problem(site.refresh(tokens["refresh_token"])) == "invalid_grant"


# Scopes


def test_unknown_scopes_are_left_out(site: Site, subtests: pytest.Subtests) -> None:
    for asked, granted in [
        ("travel:read", "travel:read"),
        ("travel:write openid email profile", "travel:write"),
        ("travel:read offline_access", "travel:read"),
        ("openid", "travel:read"),
        (None, "travel:read"),
        ("oauth2_provider:registration", "travel:read"),
    ]:
        with subtests.test(asked=asked, granted=granted), site.afresh():
            assert site.tokens_for(scope=asked)["scope"] == granted


def test_a_refresh_gives_no_scopes_that_were_not_granted(site: Site, subtests: pytest.Subtests) -> None:
    for asked in ["travel:write", "travel:read travel:write"]:
        with subtests.test(asked=asked), site.afresh():
            tokens = site.tokens_for(scope="travel:read")
            assert problem(site.refresh(tokens["refresh_token"], scope=asked)) == "invalid_scope"
            assert site.refresh(tokens["refresh_token"]).json()["scope"] == "travel:read"


def test_a_refresh_may_narrow_scopes_and_name_unknown_ones(site: Site, subtests: pytest.Subtests) -> None:
    for asked, given in [
        (None, "travel:write"),
        ("travel:read", "travel:read"),
        ("travel:write offline_access", "travel:write"),
    ]:
        with subtests.test(asked=asked, given=given), site.afresh():
            tokens = site.tokens_for(scope="travel:write")
            assert site.refresh(tokens["refresh_token"], scope=asked).json()["scope"] == given


def test_a_client_gets_no_more_scopes_than_its_policy_has(site: Site) -> None:
    before = site.tokens_for(scope="travel:write")
    ClientPolicy.objects.create(client_id=site.application.client_id, scopes=["travel:read"])
    assert site.tokens_for(scope="travel:write")["scope"] == "travel:read"
    assert site.refresh(before["refresh_token"]).json()["scope"] == "travel:read"


def test_a_client_whose_policy_has_no_scopes_gets_nothing(site: Site) -> None:
    tokens = site.tokens_for()
    code = site.code_for()
    ClientPolicy.objects.create(client_id=site.application.client_id, scopes=[])
    assert problem(site.refresh(tokens["refresh_token"])) == "invalid_grant"
    assert site.answer()["error"] == "invalid_scope"
    token = site.exchange(code).json().get("access_token", "none")
    assert site.status(token) != 200


def test_a_blocked_client_gets_nothing(site: Site) -> None:
    tokens, code, page = site.tokens_for(), site.code_for(), site.ask()
    ClientPolicy.objects.create(client_id=site.application.client_id, blocked=True)
    assert problem(site.exchange(code)) == "unauthorized_client"
    assert problem(site.refresh(tokens["refresh_token"])) == "unauthorized_client"
    assert "code=" not in site.agree(page).headers.get("Location", "")
    assert site.ask().status_code == 403


# Proof keys


def test_a_request_without_s256_is_refused_before_consent(site: Site, subtests: pytest.Subtests) -> None:
    cases = [
        {"code_challenge": None, "code_challenge_method": None},
        {"code_challenge": ""},
        {"code_challenge": "short"},
        {"code_challenge_method": None},
        {"code_challenge_method": "plain"},
        {"code_challenge_method": "S512"},
        {"code_challenge_method": "s256"},
    ]
    for path in ["/o/authorize/", "/stock/authorize/"]:
        for changes in cases:
            with subtests.test(changes=changes, path=path), site.afresh():
                site.authorize_path = path
                page = site.ask(**changes)
                assert page.status_code == 302
                assert "error=invalid_request" in page["Location"]
                assert "state=the-state" in page["Location"]


def test_a_wrong_verifier_is_refused(site: Site, subtests: pytest.Subtests) -> None:
    for verifier in [None, "", "wrong" * 10, challenge_of(VERIFIER)]:
        with subtests.test(verifier=verifier), site.afresh():
            code = site.code_for()
            assert problem(site.exchange(code, code_verifier=verifier)) in {"invalid_grant", "invalid_request"}
            assert not AccessToken.objects.exists()


def test_a_stored_code_without_s256_is_refused(site: Site, subtests: pytest.Subtests) -> None:
    for method, challenge in [("plain", VERIFIER), ("", VERIFIER), ("S256", ""), ("", "")]:
        with subtests.test(method=method, challenge=challenge), site.afresh():
            code = make_code(site, code_challenge_method=method, code_challenge=challenge)
            assert problem(site.exchange(code)) == "invalid_grant"


# Codes


def test_a_code_that_is_used_twice_costs_what_was_issued_for_it(site: Site) -> None:
    code = site.code_for()
    tokens = site.exchange(code).json()
    assert site.status(tokens["access_token"]) == 200
    assert problem(site.exchange(code)) == "invalid_grant"
    assert site.status(tokens["access_token"]) == 401
    assert problem(site.refresh(tokens["refresh_token"])) == "invalid_grant"


def test_it_costs_what_was_refreshed_since_too(site: Site) -> None:
    code = site.code_for()
    tokens = site.refresh(site.exchange(code).json()["refresh_token"]).json()
    site.exchange(code)
    assert site.status(tokens["access_token"]) == 401


def test_another_client_with_a_used_code_changes_nothing(site: Site) -> None:
    code, other = site.code_for(), site.make_client("other")
    tokens = site.exchange(code).json()
    assert problem(site.exchange(code, other)) == "invalid_grant"
    assert site.status(tokens["access_token"]) == 200


def test_a_code_is_for_its_redirect_uri(site: Site, subtests: pytest.Subtests) -> None:
    for changes in [
        {"redirect_uri": "http://127.0.0.1/other"},
        {"redirect_uri": None},
        {"redirect_uri": f"{CALLBACK}/"},
    ]:
        with subtests.test(changes=changes), site.afresh():
            site.application.redirect_uris = f"http://127.0.0.1/other {CALLBACK}"
            site.application.save()
            response = site.exchange(site.code_for(), **changes)
            assert problem(response) in {"invalid_request", "invalid_grant"}


def test_a_code_is_for_its_client(site: Site) -> None:
    other = site.make_client("other")
    assert problem(site.exchange(site.code_for(), other)) == "invalid_grant"


def test_a_code_is_good_for_a_minute(site: Site) -> None:
    code = site.code_for()
    assert Grant.objects.get().expires <= timezone.now() + timedelta(minutes=1)
    Grant.objects.update(expires=timezone.now())
    assert problem(site.exchange(code)) == "invalid_grant"


# People


def test_an_inactive_user_gets_no_tokens(site: Site, subtests: pytest.Subtests) -> None:
    for what in ["code", "refresh"]:
        with subtests.test(what=what), site.afresh():
            tokens, code = site.tokens_for(), site.code_for()
            site.user.is_active = False
            site.user.save()
            response = site.exchange(code) if what == "code" else site.refresh(tokens["refresh_token"])
            assert problem(response) == "invalid_grant"
            assert site.status(tokens["access_token"]) == 401


def test_a_deleted_user_leaves_nothing_that_works(site: Site) -> None:
    tokens, code = site.tokens_for(), site.code_for()
    site.user.delete()
    assert problem(site.exchange(code)) == "invalid_grant"
    assert problem(site.refresh(tokens["refresh_token"])) == "invalid_grant"
    assert site.status(tokens["access_token"]) == 401


def test_users_whom_an_endpoint_is_not_for_get_no_tokens_for_it(site: Site) -> None:
    tokens, code = site.tokens_for(), site.code_for()
    site.alpha.user_passes_test = lambda user: user.is_staff
    assert problem(site.exchange(code)) == "invalid_grant"
    assert problem(site.refresh(tokens["refresh_token"])) == "invalid_grant"
    assert site.ask().status_code == 403
    assert site.tokens_for(site.beta)["access_token"]


# Grants


def test_there_are_no_other_grants(site: Site, subtests: pytest.Subtests) -> None:
    for source in ["dcr", "cimd", "manual"]:
        for grant_type in ["client_credentials", "password", "openid", "implicit", "x", ""]:
            with subtests.test(grant_type=grant_type, source=source), site.afresh():
                application = site.make_client(
                    "secret-client", client_type="confidential", client_secret="s3cret", registration_source=source
                )
                values = {"client_id": application.client_id, "client_secret": "s3cret"}
                response = site.token(grant_type=grant_type, username="ada", password="secret", code="x", **values)
                assert problem(response) in {"unauthorized_client", "unsupported_grant_type"}


def test_nor_for_clients_that_were_registered_for_them(site: Site, subtests: pytest.Subtests) -> None:
    for grant_type in ["client_credentials", "password"]:
        for registered in ["client-credentials", "password", "implicit", "openid-hybrid"]:
            with subtests.test(registered=registered, grant_type=grant_type), site.afresh():
                changes = {"client_type": "confidential", "client_secret": "s3cret", "registration_source": "dcr"}
                application = site.make_client("service", authorization_grant_type=registered, **changes)
                values = {"client_id": application.client_id, "client_secret": "s3cret", "resource": site.resource()}
                response = site.token(grant_type=grant_type, username="ada", password="secret", **values)
                assert problem(response) == "unauthorized_client"


def test_the_token_endpoint_does_not_tell_which_passwords_are_right(site: Site, subtests: pytest.Subtests) -> None:
    for password in ["secret", "wrong"]:
        with subtests.test(password=password), site.afresh():
            client_id = site.application.client_id
            response = site.token(grant_type="password", client_id=client_id, username="ada", password=password)
            assert response.json() == {"error": "unauthorized_client"}


def test_there_is_no_device_flow(site: Site, subtests: pytest.Subtests) -> None:
    for grant_type in ["urn:ietf:params:oauth:grant-type:device_code", "urn:x"]:
        with subtests.test(grant_type=grant_type), site.afresh():
            response = site.token(grant_type=grant_type, client_id=site.application.client_id)
            assert problem(response) == "unsupported_grant_type"
            assert (
                response.json()["error_description"] == "grant_type must be one of authorization_code, refresh_token."
            )


def test_an_unknown_grant_type_is_answered_with_those_that_are_served(site: Site) -> None:
    with override_settings(DJANGO_MCP={**settings.DJANGO_MCP, "CLIENT_CREDENTIALS": True}):
        response = site.token(grant_type="urn:x", client_id=site.application.client_id)
    assert response.json()["error_description"].endswith("authorization_code, refresh_token, client_credentials.")


def test_there_is_no_implicit_flow(site: Site, subtests: pytest.Subtests) -> None:
    for response_type in ["token", "id_token", "code token", "none", "x"]:
        with subtests.test(response_type=response_type), site.afresh():
            site.application.authorization_grant_type = "implicit"
            site.application.save()
            page = site.ask(response_type=response_type)
            assert "access_token" not in page.headers.get("Location", "")
            assert page.status_code == 302
            assert "error=un" in page["Location"]

"""The authorization server's own document (RFC 8414)."""

import json
from typing import Any

import pytest

from tests.oauth.site import BASE_URL, Browser, Site

PATH = "/.well-known/oauth-authorization-server"


def document(path: str = PATH, **options: Any) -> dict[str, Any]:
    response = Browser().get(path, **options)
    assert (response.status_code, response["Content-Type"]) == (200, "application/json")
    return json.loads(response.content)


def test_it_says_all_that_a_client_has_to_know(site: Site) -> None:
    assert document() == {
        "issuer": BASE_URL,
        "authorization_endpoint": f"{BASE_URL}/o/authorize/",
        "token_endpoint": f"{BASE_URL}/o/token/",
        "registration_endpoint": f"{BASE_URL}/o/register/",
        "revocation_endpoint": f"{BASE_URL}/o/revoke_token/",
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": ["authorization_code", "refresh_token"],
        "token_endpoint_auth_methods_supported": ["none", "client_secret_post", "client_secret_basic"],
        "revocation_endpoint_auth_methods_supported": ["none", "client_secret_post", "client_secret_basic"],
        "code_challenge_methods_supported": ["S256"],
        "scopes_supported": ["travel:read", "travel:write"],
        "client_id_metadata_document_supported": True,
        "authorization_response_iss_parameter_supported": True,
    }


def test_every_endpoint_it_names_is_there(site: Site) -> None:
    for name, url in document().items():
        if name.endswith("_endpoint"):
            assert Browser().get(url.removeprefix(BASE_URL)).status_code != 404, name


def test_the_issuer_is_the_one_that_protected_resources_name(site: Site) -> None:
    resource = document("/.well-known/oauth-protected-resource/alpha/mcp")
    assert resource["authorization_servers"] == [document()["issuer"]]


def test_the_issuer_is_the_one_of_authorization_responses(site: Site) -> None:
    assert site.answer()["iss"] == document()["issuer"]


def test_offline_access_is_never_offered(site: Site) -> None:
    site.configure(SCOPES={"travel:read": "Look", "offline_access": "Stay"}, DEFAULT_SCOPES=["travel:read"])
    assert document()["scopes_supported"] == ["travel:read"]


def test_grants_without_a_person_are_named_only_where_the_site_has_them(site: Site) -> None:
    site.configure(CLIENT_CREDENTIALS=True)
    assert "client_credentials" in document()["grant_types_supported"]


def test_what_the_toolkits_settings_add_is_not_promised(site: Site, settings: Any) -> None:
    grants = ["authorization_code", "implicit", "password", "urn:ietf:params:oauth:grant-type:device_code"]
    weak = {"OAUTH2_GRANT_TYPES_SUPPORTED": grants, "OAUTH2_RESPONSE_TYPES_SUPPORTED": ["code", "token"]}
    weak["COMPLIANT_BCP_RFC9700_PKCE_METHOD"] = weak["COMPLIANT_BCP_RFC9700_IMPLICIT_GRANT"] = False
    settings.OAUTH2_PROVIDER = {**settings.OAUTH2_PROVIDER, **weak}
    found = document()
    assert found["grant_types_supported"] == ["authorization_code"]
    assert found["response_types_supported"] == ["code"]
    assert found["code_challenge_methods_supported"] == ["S256"]


def test_what_is_off_is_not_promised(site: Site, settings: Any) -> None:
    settings.OAUTH2_PROVIDER = {**settings.OAUTH2_PROVIDER, "DCR_ENABLED": False, "CIMD_ENABLED": False}
    found = document()
    assert "registration_endpoint" not in found
    assert found["client_id_metadata_document_supported"] is False


def test_the_host_of_the_request_never_matters(site: Site, settings: Any) -> None:
    settings.ALLOWED_HOSTS = ["*"]
    settings.USE_X_FORWARDED_HOST = True
    evil = {"HTTP_HOST": "evil.example", "HTTP_X_FORWARDED_HOST": "evil.example", "HTTP_X_FORWARDED_PROTO": "http"}
    assert document(**evil) == document()
    assert "evil" not in json.dumps(document(**evil))


ELSEWHERE = """
/.well-known/oauth-authorization-server/
/.well-known/oauth-authorization-server/mcp
/.well-known/oauth-authorization-server/alpha/mcp
/.well-known/oauth-authorization-server/o
/.well-known/openid-configuration
/.well-known/openid-configuration/alpha/mcp
/o/.well-known/oauth-authorization-server
/o/.well-known/jwks.json
/o/introspect/
/o/applications/
/o/applications/register/
/o/device-authorization/
/o/userinfo/
"""


def test_nothing_else_is_there(site: Site, subtests: pytest.Subtests) -> None:
    for path in ELSEWHERE.split():
        with subtests.test(path=path), site.afresh():
            assert site.browser().get(path).status_code == 404
            assert site.browser().post(path).status_code == 404


def test_every_page_may_read_it_and_caches_may_keep_it(site: Site) -> None:
    response = Browser().get(PATH, HTTP_ORIGIN="https://anywhere.example")
    assert response["Access-Control-Allow-Origin"] == "*"
    assert response["Cache-Control"] == "public, max-age=300"
    assert "Cookie" not in response.get("Vary", "")
    assert not response.cookies


def test_a_preflight_is_answered(site: Site) -> None:
    response = Browser().options(PATH, HTTP_ORIGIN="https://anywhere.example", HTTP_ACCESS_CONTROL_REQUEST_METHOD="GET")
    assert (response.status_code, response["Access-Control-Allow-Origin"]) == (204, "*")
    assert response["Access-Control-Allow-Headers"] == "*"


def test_it_can_only_be_read(site: Site) -> None:
    assert Browser().head(PATH).status_code == 200
    for method in ("POST", "PUT", "DELETE"):
        response = Browser(enforce_csrf_checks=False).generic(method, PATH)
        assert (response.status_code, response["Allow"]) == (405, "GET, HEAD, OPTIONS")


def test_where_every_page_needs_a_login_this_one_does_not(site: Site, settings: Any) -> None:
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, "django.contrib.auth.middleware.LoginRequiredMiddleware"]
    assert document()["issuer"] == BASE_URL


def test_it_takes_no_query(site: Site, django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(0):
        document()

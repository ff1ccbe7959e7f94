"""The toolkit's own views, at a site that had them before, and endpoints: no way around the consent page."""

import sys
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlencode

import pytest
from django.http import HttpRequest, HttpResponse
from django.urls import clear_url_caches, include, path

from django_mcp import MCPServer
from django_mcp.auth.toolkit import AuthorizationView, OAuthToolkitError, get_access_token_model, get_grant_model
from django_mcp.oauth.authorize import AuthorizeView
from tests.oauth.site import CALLBACK, Site, challenge_of, forget_urlconfs, make_site

pytestmark = pytest.mark.filterwarnings("ignore:.*RFC 9700")  # of gates that are open here

Grant, AccessToken = get_grant_model(), get_access_token_model()
EVIL = "https://evil.example/phish"
STOCK = "/old/authorize/"
VALIDATORS = {
    "every client": "django_mcp.oauth.validator.Validator",
    "mixin": "tests.oauth.own_validator.MixedValidator",
}


class OwnView(AuthorizationView):  # type: ignore[misc]
    """A site's own page, which asks nobody."""

    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        try:
            scopes, credentials = self.validate_authorization_request(request)
            credentials["resource"] = request.GET.getlist("resource")
            uri, *_ = self.create_authorization_response(request, " ".join(scopes), credentials, allow=True)
        except OAuthToolkitError as error:
            response: HttpResponse = self.error_response(error, application=None)
            return response
        return self.redirect(uri, None)


@pytest.fixture(params=VALIDATORS)
def site(request: Any, settings: Any, make_server: Callable[..., MCPServer], db: None) -> Iterator[Site]:
    """A site with all views of the toolkit at /old/, every gate open, and ours at /o/."""
    site = make_site(settings, make_server)
    site.configure_toolkit(
        OAUTH2_VALIDATOR_CLASS=VALIDATORS[request.param],
        REQUEST_APPROVAL_PROMPT="auto",
        PKCE_REQUIRED=False,
        COMPLIANT_BCP_RFC9700_IMPLICIT_GRANT=False,
        COMPLIANT_BCP_RFC9700_PASSWORD_GRANT=False,
        COMPLIANT_BCP_RFC9700_PKCE_METHOD=False,
        OIDC_ENABLED=True,
    )
    urls = sys.modules[settings.ROOT_URLCONF]
    urls.urlpatterns = [
        path("own/authorize/", OwnView.as_view()),
        path("old/", include(("oauth2_provider.urls", "oauth2_provider"), namespace="old")),
        *urls.urlpatterns,
    ]
    clear_url_caches()
    yield site
    forget_urlconfs()


def earlier_token(site: Site, application: Any, resource: list[str]) -> None:
    """A valid token with every scope, as of an earlier login."""
    token = AccessToken(
        user=site.user,
        application=application,
        scope="travel:read travel:write",
        resource=resource,
        token="",
        token_checksum="0" * 64,
        expires="2099-01-01T00:00:00Z",
    )
    AccessToken.objects.bulk_create([token])


def goes_nowhere(response: HttpResponse) -> bool:
    """Return True if neither a code nor a token was given."""
    location = response.get("Location", "")
    return "code=" not in location and "access_token=" not in location and "id_token=" not in location


WAYS: dict[str, dict[str, Any]] = {
    "as usual": {},
    "approval_prompt": {"approval_prompt": "auto"},
    "implicit": {"response_type": "token", "approval_prompt": "auto"},
    "hybrid": {"response_type": "code token", "approval_prompt": "auto"},
    "openid": {
        "response_type": "code id_token",
        "scope": "openid travel:read",
        "nonce": "n",
        "approval_prompt": "auto",
    },
    "no proof key": {"code_challenge": None, "code_challenge_method": None, "approval_prompt": "auto"},
    "resource twice": {"resource": ["https://api.example.com/", "https://travel.example.com/alpha/mcp"]},
    "resource in other letters": {"resource": "HTTPS://TRAVEL.example.com:443/alpha/mcp/", "approval_prompt": "auto"},
}


@pytest.mark.parametrize("view", [STOCK, "/own/authorize/"])
def test_another_authorization_view_gives_nothing_for_an_endpoint(
    site: Site, view: str, subtests: pytest.Subtests
) -> None:
    grants = {"implicit": "implicit", "hybrid": "openid-hybrid", "openid": "openid-hybrid"}
    site.authorize_path = view
    for way, changes in WAYS.items():
        for skips in [False, True]:
            for earlier in [[], [site.resource()], [site.resource(site.beta)]]:
                with subtests.test(way=way, skips=skips, earlier=earlier), site.afresh():
                    kind = grants.get(way, "authorization-code")
                    client = site.make_client("own", authorization_grant_type=kind, skip_authorization=skips)
                    earlier_token(site, client, earlier)
                    response = site.ask(client, **changes)
                    assert goes_nowhere(response)
                    assert response.status_code == 302
                    assert response["Location"].startswith(CALLBACK)
                    assert not Grant.objects.exists()
                    assert AccessToken.objects.count() == 1


@pytest.mark.parametrize("view", [STOCK, "/own/authorize/"])
def test_nor_anything_for_a_client_that_registered_itself_not_even_a_redirect(
    site: Site, view: str, subtests: pytest.Subtests
) -> None:
    site.authorize_path = view
    for way, changes in {**WAYS, "error": {"response_type": "x"}, "no endpoint": {"resource": None}}.items():
        for source in ["dcr", "cimd"]:
            with subtests.test(way=way, source=source), site.afresh():
                client = site.make_client(
                    "stranger", registration_source=source, redirect_uris=EVIL, skip_authorization=True
                )
                earlier_token(site, client, [site.resource()])
                response = site.ask(client, **{"redirect_uri": EVIL, **changes})
                assert (response.status_code, "Location" in response) == (400, False)
                assert not Grant.objects.exists()


def test_a_form_of_the_toolkits_page_cannot_be_sent_for_an_endpoint(site: Site, subtests: pytest.Subtests) -> None:
    """The page was shown for something else, or not at all."""
    fields = {
        "client_id": "conf-public",
        "redirect_uri": CALLBACK,
        "response_type": "code",
        "scope": "travel:read",
        "state": "x",
        "code_challenge": challenge_of("v" * 43),
        "code_challenge_method": "S256",
        "allow": "Authorize",
    }
    for resource in [site.resource(), f"https://api.example.com/ {site.resource()}", site.resource() + "/"]:
        with subtests.test(resource=resource):
            url = f"{STOCK}?{urlencode(site.authorize_query(resource=None))}"
            response = site.browser().post_form(url, {**fields, "resource": resource})
            assert goes_nowhere(response)
            assert not Grant.objects.exists()


def test_ours_before_theirs_serves_both(site: Site) -> None:
    urls = sys.modules[site.settings.ROOT_URLCONF]
    view = AuthorizeView.as_view(other_view=AuthorizationView.as_view())
    urls.urlpatterns = [path("old/authorize/", view), *urls.urlpatterns]
    clear_url_caches()
    site.authorize_path = STOCK
    assert "Redirects to" in site.ask().content.decode()
    assert site.status(site.tokens_for()["access_token"]) == 200
    stranger = site.make_client("stranger", registration_source="dcr")
    assert "Redirects to" in site.ask(stranger, resource=None).content.decode()
    if site.settings.OAUTH2_PROVIDER["OAUTH2_VALIDATOR_CLASS"] == VALIDATORS["mixin"]:
        own = {"resource": None, "scope": "travel:read", "code_challenge": None, "code_challenge_method": None}
        assert "Redirects to" not in site.ask(**own).content.decode()
        assert site.code_for(**own)


def test_no_parameter_counts_as_consent(site: Site, subtests: pytest.Subtests) -> None:
    site.authorize_path = STOCK
    for name in ["_django_mcp", "django_mcp.authorize_view", "agreed", "DJANGO_MCP.AUTHORIZE_VIEW"]:
        for value in ["1", "True"]:
            with subtests.test(name=name, value=value), site.afresh():
                query = urlencode({**site.authorize_query(), "approval_prompt": "auto", name: value})
                earlier_token(site, site.application, [site.resource()])
                header = "HTTP_" + name.upper().replace(".", "_").replace("-", "_")
                response = site.browser().get(f"{STOCK}?{query}", headers={name: value}, **{header: value})
                assert goes_nowhere(response)
                assert not Grant.objects.exists()

"""System checks of the authorization server."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.core.checks import ERROR, run_checks
from django.db import connection, connections
from django.middleware.csrf import CsrfViewMiddleware
from django.urls import include, path, re_path
from django.views import View

from django_mcp import MCPServer, SessionAuthentication
from django_mcp.auth.toolkit import (
    AuthorizationView,
    OAuth2Validator,
    TokenView,
    get_application_model,
    oauth2_settings,
)
from django_mcp.oauth import oauth_defaults
from django_mcp.oauth.authorize import AuthorizeView
from django_mcp.oauth.checks import RULES, compared
from django_mcp.oauth.validator import Validator
from tests.auth.checked_site import DJANGO_MCP, CheckedSite, findings, ids, make_checked_site, only

DEFAULTS = oauth_defaults(DJANGO_MCP)


@pytest.fixture
def site(
    settings: Any, make_server: Callable[..., MCPServer], monkeypatch: pytest.MonkeyPatch
) -> Iterator[CheckedSite]:
    yield from make_checked_site(settings, make_server, monkeypatch)


class OwnCsrf(CsrfViewMiddleware):
    """A site's own."""


# OAUTH2_PROVIDER

WEAK: dict[str, list[Any]] = {
    "SCOPES": [{"travel:read": "Look up"}, {}],
    "DEFAULT_SCOPES": [["travel:read", "travel:write"], ["__all__"]],
    "ACCESS_TOKEN_EXPIRE_SECONDS": [36000, 0, None, "3600"],
    "REFRESH_TOKEN_EXPIRE_SECONDS": [None, 0, timedelta(days=365)],
    "REFRESH_TOKEN_GRACE_PERIOD_SECONDS": [60],
    "REQUEST_APPROVAL_PROMPT": ["auto"],
    "ALLOWED_REDIRECT_URI_SCHEMES": [["http", "https", "cursor", "javascript"], ["https"]],
    "OAUTH2_RESPONSE_TYPES_SUPPORTED": [["code", "token"], []],
    "OAUTH2_GRANT_TYPES_SUPPORTED": [["authorization_code", "refresh_token", "password"]],
    "OAUTH2_TOKEN_ENDPOINT_AUTH_METHODS_SUPPORTED": [["client_secret_basic"]],
    "CIMD_METADATA_FETCHER": ["oauth2_provider.cimd.SafeMetadataFetcher", "nowhere.Fetcher"],
    "CIMD_REGISTRATION_PERMISSION_CLASSES": [("oauth2_provider.cimd.AllowAllCIMDPermission",), ()],
    "OAUTH2_VALIDATOR_CLASS": ["oauth2_provider.oauth2_validators.OAuth2Validator", "nowhere.Validator", None],
    "ALLOW_URI_WILDCARDS": [True],
    "AUTHORIZATION_CODE_EXPIRE_SECONDS": [3600],
    "OIDC_ISS_ENDPOINT": ["", "https://travel.example.com/", "https://other.example.com"],
}
CHOICES = {"DCR_ENABLED", "CIMD_ENABLED"}
ERRORS = {
    "SCOPES",
    "REFRESH_TOKEN_GRACE_PERIOD_SECONDS",
    "ROTATE_REFRESH_TOKEN",
    "PKCE_REQUIRED",
    "COMPLIANT_BCP_RFC9700_PKCE_METHOD",
    "COMPLIANT_BCP_RFC9700_TOKEN_STORAGE",
    "OAUTH2_VALIDATOR_CLASS",
    "ALLOW_URI_WILDCARDS",
}


def test_each_value_that_is_weakened_is_named_with_what_it_is_and_what_is_safe(
    site: CheckedSite, subtests: pytest.Subtests
) -> None:
    for key in sorted({*DEFAULTS, *RULES} - CHOICES):
        with subtests.test(key=key), site.afresh():
            safe = DEFAULTS.get(key, oauth2_settings.defaults[key])
            for value in WEAK.get(key, [False]):
                site.settings.OAUTH2_PROVIDER = {**DEFAULTS, key: value}
                finding = only("E017" if key == "OIDC_ISS_ENDPOINT" else "E016" if key in ERRORS else "W008")
                assert f"OAUTH2_PROVIDER[{key!r}] is {value!r}" in finding.msg
                assert repr(safe) in finding.hint + finding.msg


def test_settings_of_the_toolkit_that_are_missing_are_found_once(site: CheckedSite) -> None:
    site.settings.OAUTH2_PROVIDER = {}
    assert "oauth_defaults(DJANGO_MCP)" in only("E016").hint


def test_the_toolkits_own_defaults_are_held_against_ours(site: CheckedSite) -> None:
    """Whoever writes one key by hand hears of all that they left out."""
    site.settings.OAUTH2_PROVIDER = {"SCOPES": DEFAULTS["SCOPES"]}
    told = " ".join(each.msg for each in findings())
    stock = oauth2_settings.defaults
    for key in DEFAULTS.keys() - CHOICES - {"SCOPES"}:
        assert (f"[{key!r}]" in told) == (stock[key] != DEFAULTS[key]), key


def test_what_a_site_may_choose_is_no_finding(site: CheckedSite, subtests: pytest.Subtests) -> None:
    cases = [
        ("ACCESS_TOKEN_EXPIRE_SECONDS", 300),
        ("ACCESS_TOKEN_EXPIRE_SECONDS", 8 * 3600),
        ("REFRESH_TOKEN_EXPIRE_SECONDS", timedelta(days=90)),
        ("SCOPES", {**DEFAULTS["SCOPES"], "own": "The site’s own"}),
        ("DEFAULT_SCOPES", []),
        ("PKCE_REQUIRED", lambda client_id: True),
        ("DCR_ENABLED", False),
        ("CIMD_ENABLED", False),
        ("ALLOWED_REDIRECT_URI_SCHEMES", ("cursor", "https", "http")),
        ("CLIENT_SECRET_GENERATOR_LENGTH", 64),
    ]
    for key, value in cases:
        with subtests.test(key=key, value=value), site.afresh():
            site.toolkit(**{key: value})
            assert findings() == []


def test_a_validator_made_from_ours_is_as_good(site: CheckedSite) -> None:
    class Own(Validator):
        pass

    class Other(OAuth2Validator):
        pass

    site.toolkit(OAUTH2_VALIDATOR_CLASS=Own)
    assert findings() == []
    site.toolkit(OAUTH2_VALIDATOR_CLASS=Other)
    only("E016")


def test_every_value_of_the_defaults_is_compared_with_the_function_itself(site: CheckedSite) -> None:
    assert {key: safe for key, _, safe in compared() if key in DEFAULTS} == DEFAULTS


def test_a_site_without_oauth_may_have_any_toolkit_settings(site: CheckedSite) -> None:
    site.configure(AUTHENTICATION=["django_mcp.APIKeyAuthentication"])
    site.settings.OAUTH2_PROVIDER = {"PKCE_REQUIRED": False}
    site.settings.LOGIN_URL = "/nowhere/"
    assert findings(deploy=True) == []


def test_no_check_raises_whatever_a_setting_of_the_toolkit_holds(site: CheckedSite, subtests: pytest.Subtests) -> None:
    for key in sorted(DEFAULTS):
        with subtests.test(key=key), site.afresh():
            for value in [None, "", 5, -1, [None], [[]], {}, {"a": None}, object(), object, "nowhere.Nothing", {5}]:
                site.settings.OAUTH2_PROVIDER = {**DEFAULTS, key: value}
                findings(deploy=True)


# The rest of the site


def test_an_app_that_is_missing_is_found(site: CheckedSite, subtests: pytest.Subtests) -> None:
    for app in ["oauth2_provider", "django.contrib.sessions"]:
        with subtests.test(app=app), site.afresh():
            site.settings.INSTALLED_APPS = [each for each in site.settings.INSTALLED_APPS if each != app]
            finding = next(each for each in findings() if each.id == "django_mcp.E013")
            assert repr(app) in finding.msg
            assert "INSTALLED_APPS" in finding.hint


def test_session_callers_need_sessions(site: CheckedSite, make_server: Any) -> None:
    site.configure(AUTHENTICATION=[SessionAuthentication()])
    assert findings() == []
    site.settings.INSTALLED_APPS = [each for each in site.settings.INSTALLED_APPS if each != "django.contrib.sessions"]
    only("E013")


def test_middleware_that_is_missing_is_found(site: CheckedSite, subtests: pytest.Subtests) -> None:
    for name in ["SessionMiddleware", "AuthenticationMiddleware", "CsrfViewMiddleware"]:
        with subtests.test(name=name), site.afresh():
            site.settings.MIDDLEWARE = [each for each in site.settings.MIDDLEWARE if not each.endswith(f".{name}")]
            assert name in only("E014").msg


def test_middleware_made_from_djangos_is_as_good(site: CheckedSite) -> None:
    own = [f"{__name__}.OwnCsrf" if each.endswith("CsrfViewMiddleware") else each for each in site.settings.MIDDLEWARE]
    site.settings.MIDDLEWARE = own
    assert findings() == []


def test_a_login_page_that_is_not_there_is_found(site: CheckedSite, subtests: pytest.Subtests) -> None:
    for url in ["/nowhere/", "nowhere", ""]:
        with subtests.test(url=url), site.afresh():
            site.settings.LOGIN_URL = url
            if url:
                assert repr(url) in only("E015").msg
            else:
                assert "django_mcp.E015" in ids()


def test_a_login_page_that_is_there_is_fine(site: CheckedSite, subtests: pytest.Subtests) -> None:
    for url in ["login", "/accounts/login/", "/accounts/login/?next=/", "https://login.example.com/"]:
        with subtests.test(url=url), site.afresh():
            site.settings.LOGIN_URL = url
            assert findings() == []


def test_the_admins_login_page_is_warned_of(site: CheckedSite, subtests: pytest.Subtests) -> None:
    for url in ["admin:login", "/admin/login/"]:
        with subtests.test(url=url), site.afresh():
            site.settings.LOGIN_URL = url
            assert "staff" in only("W007").msg


def test_a_path_that_makes_wrong_addresses_is_found(site: CheckedSite, subtests: pytest.Subtests) -> None:
    for value in ["/o/", "o", "/o"]:
        with subtests.test(value=value), site.afresh():
            site.settings.DJANGO_MCP = {**DJANGO_MCP, "OAUTH_PATH": value}
            assert "'o/'" in only("E019").hint


# Clients


def test_an_extra_redirect_uri_that_is_none_or_dangerous_is_found(site: CheckedSite, subtests: pytest.Subtests) -> None:
    cases = [
        "callback",
        "/callback",
        "cursor:",
        "cursor://*.example/callback",
        "cursor://a/callback#x",
        "cursor://me@a/callback",
        "cursor://a/call back",
        "cursor://a\\b",
        "javascript:alert(1)",
        "JavaScript:alert(1)",
        "data:text/html,x",
        "http://evil.example/callback",
        "https://[",
        "",
        None,
        5,
    ]
    for uri in cases:
        with subtests.test(uri=uri), site.afresh():
            site.settings.DJANGO_MCP = {**DJANGO_MCP, "EXTRA_REDIRECT_URIS": [uri]}
            assert repr(uri) in next(each for each in findings() if each.id == "django_mcp.E018").msg


def test_an_extra_redirect_uri_that_is_one_is_fine(site: CheckedSite, subtests: pytest.Subtests) -> None:
    for uri in ["cursor://a/callback", "com.example.app:/callback", "http://127.0.0.1/callback"]:
        with subtests.test(uri=uri), site.afresh():
            site.configure(EXTRA_REDIRECT_URIS=[uri])
            assert findings() == []


def test_a_port_that_is_none_is_found(site: CheckedSite, subtests: pytest.Subtests) -> None:
    for port in [0, 65536, "443", True]:
        with subtests.test(port=port), site.afresh():
            site.configure(CLIENT_DOCUMENT_PORTS=[443, port])
            assert repr(port) in only("E020").msg


def test_a_grace_of_more_than_an_hour_is_warned_of(site: CheckedSite) -> None:
    site.configure(REFRESH_TOKEN_GRACE_TTL=3600)
    assert findings() == []
    site.configure(REFRESH_TOKEN_GRACE_TTL=3601)
    only("W012")


def redirect_findings() -> list[Any]:
    found = run_checks(tags=["database"], databases=["default"])
    return [each for each in found if each.id == "django_mcp.W011"]


def application(redirect_uris: str, source: str = "manual") -> Any:
    return get_application_model().objects.create(
        name="Desk",
        client_type="public",
        authorization_grant_type="authorization-code",
        redirect_uris=redirect_uris,
        registration_source=source,
    )


@pytest.mark.django_db
def test_an_application_that_sends_people_over_http_is_found_in_the_database(site: CheckedSite) -> None:
    made = application("https://a.example/cb http://evil.example/cb http://127.0.0.1/cb cursor://other/callback")
    found = redirect_findings()
    assert [re_quoted(each.msg) for each in found] == ["http://evil.example/cb", "cursor://other/callback"]
    assert "'Desk'" in found[0].msg
    assert made.client_id in found[0].msg
    assert redirect_findings() == found


def re_quoted(message: str) -> str:
    return message.partition("redirect URI '")[2].partition("'")[0]


@pytest.mark.django_db
def test_applications_that_send_people_where_they_may_are_no_finding(site: CheckedSite) -> None:
    application("https://a.example/cb http://localhost/cb cursor://anysphere.cursor-mcp/oauth/callback")
    application("http://evil.example/cb", "dcr")
    assert redirect_findings() == []


@pytest.mark.django_db
def test_the_database_is_asked_only_where_it_may_be(site: CheckedSite, django_assert_num_queries: Any) -> None:
    application("http://evil.example/cb")
    with django_assert_num_queries(0):
        assert [each for each in run_checks(tags=["database"], databases=[]) if each.id == "django_mcp.W011"] == []
        findings(deploy=True)


def consent_findings() -> list[str]:
    found = run_checks(tags=["database"], databases=["default"])
    return [each.msg for each in found if each.id == "django_mcp.W037"]


@pytest.mark.django_db
def test_applications_that_skip_the_consent_page_are_named(site: CheckedSite) -> None:
    asked = application("https://a.example/cb")
    assert consent_findings() == []
    skips = application("https://a.example/cb http://127.0.0.1/cb")
    ignored = [application("http://127.0.0.1/cb"), application("https://b.example/cb", source="dcr")]
    get_application_model().objects.exclude(pk=asked.pk).update(skip_authorization=True)
    told = consent_findings()
    assert [each.partition("(")[2].partition(")")[0] for each in told] == [each.client_id for each in [skips, *ignored]]
    assert "not asked at https://a.example/cb." in told[0]
    assert all("which is ignored" in each for each in told[1:])


@pytest.mark.django_db(transaction=True)
def test_before_the_first_migrate_there_is_no_table_and_no_finding(site: CheckedSite) -> None:
    model = get_application_model()
    table, model._meta.db_table = model._meta.db_table, "not_yet_there"
    try:
        assert redirect_findings() == []
    finally:
        model._meta.db_table = table
    assert connection.is_usable()


# What is mounted


def test_the_toolkits_own_urls_are_named_with_what_each_does(site: CheckedSite) -> None:
    site.mount(behind=[path("toolkit/", include("oauth2_provider.urls"))])
    found = [each for each in findings() if each.id == "django_mcp.W009"]
    told = "\n".join(each.msg for each in found)
    for address in ("introspect/", "applications/", "applications/register/", "device/", "register/", "authorize/"):
        assert f"/toolkit/{address}" in told
    assert len(found) == 7
    assert {each.id for each in findings()} == {"django_mcp.W009"}


class OwnAuthorizationView(AuthorizationView):  # type: ignore[misc]
    """A site's own page."""


@pytest.mark.parametrize("view", [AuthorizationView, OwnAuthorizationView])
@pytest.mark.parametrize(
    "validator", ["tests.oauth.own_validator.MixedValidator", "django_mcp.oauth.validator.Validator"]
)
def test_an_authorization_view_that_gives_clients_nothing_is_an_error(
    site: CheckedSite, view: Any, validator: str
) -> None:
    site.configure(OAUTH_PATH=None)
    site.settings.OAUTH2_PROVIDER = {**site.settings.OAUTH2_PROVIDER, "OAUTH2_VALIDATOR_CLASS": validator}
    theirs = [path("authorize/", view.as_view(), name="authorize"), path("token/", TokenView.as_view(), name="token")]
    own = path("oauth/", include((theirs, "oauth2_provider")))
    site.mount(behind=[own])
    (error,) = [each for each in findings() if each.level >= ERROR]
    assert error.id == "django_mcp.E037"
    assert "/oauth/authorize/" in error.msg
    assert view.__qualname__ in error.msg
    assert "AuthorizeView" in str(error.hint)
    ours = path("oauth/authorize/", AuthorizeView.as_view(other_view=view.as_view()))
    site.mount(before=[ours], behind=[own])
    assert "django_mcp.E037" not in ids()
    assert "/oauth/authorize/" not in "".join(each.msg for each in findings())


def test_a_root_include_of_the_toolkit_that_hides_our_metadata_is_found(site: CheckedSite) -> None:
    site.mount(before=[path("", include("oauth2_provider.urls"))])
    told = [each.msg.split()[0] for each in findings() if each.id == "django_mcp.W010"]
    assert told == ["/.well-known/oauth-protected-resource/trips/mcp", "/.well-known/oauth-authorization-server"]


class Everything(View):
    """A site's page for whatever is not found."""


def test_a_pattern_that_matches_everything_may_stand_behind_but_not_before(site: CheckedSite) -> None:
    everything = re_path(".*", Everything.as_view())
    site.mount(behind=[everything])
    assert findings() == []
    site.mount(before=[everything])
    assert {each.id for each in findings()} == {"django_mcp.W010"}


def test_endpoints_that_are_not_at_the_root_are_found(site: CheckedSite) -> None:
    site.mount(wrap=lambda ours: [path("api/", include(ours))])
    found = findings()
    assert {each.id for each in found} == {"django_mcp.W010"}
    assert "/.well-known/oauth-protected-resource/api/trips/mcp" in found[0].msg
    assert "MCPServer(path=" in found[0].hint


def test_errors_are_errors_and_stop_the_start(site: CheckedSite) -> None:
    site.toolkit(PKCE_REQUIRED=False)
    assert only("E016").level == ERROR


# Databases


class Lagging:
    """A router that reads where it does not write."""

    def db_for_read(self, model: Any, **hints: Any) -> str:
        return "replica"

    def db_for_write(self, model: Any, **hints: Any) -> str:
        return "default"


class Apart:
    """A router that keeps the package's rows apart from users."""

    def db_for_write(self, model: Any, **hints: Any) -> str | None:
        return "own" if model._meta.app_label == "django_mcp" else None

    db_for_read = db_for_write


def test_tokens_that_are_read_from_a_replica_are_found(site: CheckedSite, settings: Any) -> None:
    settings.DATABASE_ROUTERS = [f"{__name__}.Lagging"]
    found = only("W036")
    assert "is written to the database 'default' and read from 'replica'" in found.msg
    settings.DATABASE_ROUTERS = []
    assert ids() == set()


def test_rows_in_another_database_than_the_users_are_found(
    site: CheckedSite, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(connections.settings, "own", connections.settings["default"])
    settings.DATABASE_ROUTERS = [f"{__name__}.Apart"]
    found = only("E056")
    assert found.msg == "The tables of django_mcp are written to the database 'own', and users to 'default'."
    settings.DATABASE_ROUTERS = []
    assert ids() == set()

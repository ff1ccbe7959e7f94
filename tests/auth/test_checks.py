"""System checks of who may call: each says what is wrong and what to write, and a good site hears nothing."""

import io
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from django.contrib import admin
from django.core.checks import ERROR, WARNING
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from django.forms import modelform_factory
from django.test import override_settings
from django.utils.translation import gettext_lazy

import django_mcp
from django_mcp import (
    AllowAny,
    BaseAuthentication,
    JWTAuthentication,
    MCPServer,
    ModelResource,
    OAuth2Authentication,
    SessionAuthentication,
    conf,
    form_tool,
    prompt,
    register,
    resource,
    tool,
)
from django_mcp.auth.base import Misconfigured, load_authenticators, required_authenticators
from django_mcp.auth.oauth import has_toolkit
from django_mcp.checks import MAX_TOOLS
from tests.auth.checked_site import DJANGO_MCP, CheckedSite, findings, forget_urlconfs, ids, make_checked_site, only
from tests.model_resources.library.models import Tag

ROOT = Path(django_mcp.__file__).resolve().parent


@pytest.fixture
def site(
    settings: Any, make_server: Callable[..., MCPServer], monkeypatch: pytest.MonkeyPatch
) -> Iterator[CheckedSite]:
    yield from make_checked_site(settings, make_server, monkeypatch)


class Elsewhere(BaseAuthentication):
    """A site's own, with an issuer of its own."""

    def __init__(self, *issuers: Any) -> None:
        self.issuers = issuers

    def authenticate(self, *_: Any) -> None:
        return None

    def authorization_servers(self, server: MCPServer) -> Any:
        return self.issuers


class Broken(BaseAuthentication):
    def __init__(self) -> None:
        raise RuntimeError("no configuration file")


class Unsure(BaseAuthentication):
    def authorization_servers(self, server: MCPServer) -> Any:
        raise LookupError(server.name)


def test_a_site_as_the_documentation_has_it_hears_nothing(site: CheckedSite, subtests: pytest.Subtests) -> None:
    for deploy in [False, True]:
        with subtests.test(deploy=deploy), site.afresh():
            assert findings(deploy=deploy) == []


@pytest.mark.slow
def test_the_demo_has_no_findings() -> None:
    """In a process of its own: its URLs are made when they are read, of what is set then."""
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "demo_project.settings", "DEMO_DATABASE": ":memory:"}
    command = [sys.executable, "manage.py", "check", "--fail-level", "WARNING"]
    done = subprocess.run(command, cwd=ROOT.parent, env=environment, capture_output=True, text=True)  # noqa: PLW1510 - asserted
    assert (done.returncode, done.stderr) == (0, "")


def test_every_finding_is_described_in_the_documentation_and_no_other() -> None:
    pattern = r"django_mcp\.([EW]\d{3})"
    code = {number for path in ROOT.rglob("*.py") for number in re.findall(pattern, path.read_text())}
    page = (ROOT.parent / "docs" / "checks.md").read_text()
    assert re.findall(rf"^\| `{pattern}`", page, re.MULTILINE) == sorted(code)


def test_a_tool_without_a_description_is_found(site: CheckedSite) -> None:
    tool(server=site.server, name="mute")(lambda: "")
    found = only("W014")
    assert "tool 'mute' (tests.auth.test_checks.<lambda>) has no description" in found.msg
    assert found.level == WARNING


# Authenticators


def test_an_authenticator_that_cannot_be_made_or_is_none_is_found(
    site: CheckedSite, make_server: Any, subtests: pytest.Subtests
) -> None:
    for given in ["django_mcp.Nothing", "nowhere.Nothing", Broken, 5, "django_mcp.MCPServer"]:
        with subtests.test(given=given), site.afresh():
            make_server("strange", authentication=[given])
            assert "'strange'" in only("E006").msg


def test_the_reason_why_an_authenticator_cannot_be_made_is_told(site: CheckedSite, make_server: Any) -> None:
    make_server("strange", authentication=[Broken])
    assert "no configuration file" in only("E006").msg


@pytest.fixture
def older_toolkit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A toolkit as sites have it that were providers before; visited for real in ``tests/sites``."""
    known = metadata.version
    monkeypatch.setattr(metadata, "version", lambda name: "2.3.0" if name == "django-oauth-toolkit" else known(name))


@pytest.mark.parametrize("given", ["django_mcp.OAuth2Authentication", OAuth2Authentication, OAuth2Authentication()])
def test_an_older_toolkit_is_found_where_oauth_needs_it(
    site: CheckedSite, make_server: Any, older_toolkit: None, given: Any
) -> None:
    server = make_server("strange", authentication=[given, "django_mcp.APIKeyAuthentication"])
    found = next(each for each in findings() if each.obj is server and each.id == "django_mcp.E006")
    assert "needs django-oauth-toolkit 3.4.1 or later, and 2.3.0 is installed." in found.msg
    assert "APIKeyAuthentication" in str(found.hint)
    with pytest.raises(Misconfigured):
        required_authenticators(server)


def test_an_older_toolkit_is_no_concern_of_endpoints_without_oauth(
    site: CheckedSite, make_server: Any, older_toolkit: None, settings: Any, db: None
) -> None:
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "AUTHENTICATION": ["django_mcp.APIKeyAuthentication"]}
    make_server("keys", authentication=["django_mcp.APIKeyAuthentication"])
    assert "django_mcp.E006" not in ids()
    assert not has_toolkit()
    call_command("mcp_clear", stdout=io.StringIO())


@pytest.mark.parametrize(
    ("own", "owner"),
    [
        (["django_mcp.Publik"], "<MCPServer 'strange' at 'strange/mcp'>, authentication"),
        (None, 'DJANGO_MCP["AUTHENTICATION"]'),
    ],
)
def test_a_path_that_leads_nowhere_is_told_with_the_nearest_one(
    settings: Any, make_server: Any, own: Any, owner: str
) -> None:
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "AUTHENTICATION": ["django_mcp.Publik"]}
    with pytest.raises(ImproperlyConfigured) as caught:
        load_authenticators(make_server("strange", authentication=own))
    reason = 'Module "django_mcp" does not define a "Publik" attribute/class'
    assert str(caught.value) == (
        f"{owner}: 'django_mcp.Publik' cannot be imported ({reason}). Did you mean 'django_mcp.AllowAny'?"
    )


ELSEWHERE = JWTAuthentication("https://login.example.com", user=lambda claims: None)


def test_an_authenticator_that_is_never_asked_is_found(
    site: CheckedSite, make_server: Any, subtests: pytest.Subtests
) -> None:
    for given in [
        [AllowAny(), OAuth2Authentication()],
        [AllowAny(), "django_mcp.APIKeyAuthentication"],
        [OAuth2Authentication(), ELSEWHERE],
    ]:
        with subtests.test(given=given), site.afresh():
            make_server("ordered", authentication=given)
            assert "never used" in next(each for each in findings() if each.id == "django_mcp.E021").msg


def test_authenticators_that_leave_something_for_those_behind_them_are_fine(
    site: CheckedSite, make_server: Any, subtests: pytest.Subtests
) -> None:
    for given in [
        [OAuth2Authentication(), AllowAny()],
        [ELSEWHERE, OAuth2Authentication(), AllowAny()],
        [SessionAuthentication(), OAuth2Authentication()],
    ]:
        with subtests.test(given=given), site.afresh():
            make_server("ordered", authentication=given)
            assert "django_mcp.E021" not in ids()


# Addresses


def test_a_missing_base_url_is_found_with_an_endpoint_that_needs_it(
    site: CheckedSite, subtests: pytest.Subtests
) -> None:
    for value in [None, ...]:
        with subtests.test(value=value), site.afresh():
            site.configure(BASE_URL=value)
            finding = next(each for each in findings() if each.id == "django_mcp.E010")
            assert "missing" in finding.msg
            assert "'trips'" in finding.msg
            assert "'https://travel.example.com'" in finding.hint


def test_a_site_without_tokens_needs_no_base_url(site: CheckedSite) -> None:
    site.configure(BASE_URL=..., AUTHENTICATION=["django_mcp.APIKeyAuthentication"])
    assert findings() == []


def test_a_base_url_that_is_no_origin_is_found(site: CheckedSite, subtests: pytest.Subtests) -> None:
    cases = [
        "https://travel.example.com/",
        "https://travel.example.com/mcp",
        "https://travel.example.com?x=1",
        "https://travel.example.com#a",
        "https://someone@travel.example.com",
        "https://Travel.example.com",
        "HTTPS://travel.example.com",
        "https://travel.example.com:443",
        "https://travel.example.com:port",
        "https://*.example.com",
        "https://travel example.com",
        "https://[::1",
        "https://",
        "https://reisebüro.example",
        "travel.example.com",
        "ftp://travel.example.com",
        "",
    ]
    for url in cases:
        with subtests.test(url=url), site.afresh():
            site.configure(BASE_URL=url)
            finding = next(each for each in findings() if each.id == ("django_mcp.E075" if url else "django_mcp.E010"))
            assert not url or repr(url) in finding.msg


def test_http_on_this_machine_is_fine(site: CheckedSite, subtests: pytest.Subtests) -> None:
    for url in ["http://localhost:8000", "http://127.0.0.1:8000", "http://[::1]:8000"]:
        with subtests.test(url=url), site.afresh():
            site.configure(BASE_URL=url)
            assert findings() == []


def test_http_elsewhere_is_an_error_and_a_warning_while_debugging(site: CheckedSite) -> None:
    site.configure(BASE_URL="http://travel.example.com:8080")
    finding = only("E011")
    assert finding.level == ERROR
    assert "'https://travel.example.com:8080'" in finding.hint
    site.settings.DEBUG = True
    assert only("W002").level == WARNING


def test_an_external_issuer_that_is_no_https_url_is_found(
    site: CheckedSite, make_server: Any, subtests: pytest.Subtests
) -> None:
    for issuer in ["http://login.example.com", "login.example.com", "", None, 5, "https://[", "ftp://a.b"]:
        with subtests.test(issuer=issuer), site.afresh():
            make_server("elsewhere", authentication=[Elsewhere(issuer)])
            assert repr(issuer) in next(each for each in findings() if each.id == "django_mcp.E012").msg


def test_an_external_issuer_over_https_is_fine(site: CheckedSite, make_server: Any) -> None:
    make_server("elsewhere", authentication=[Elsewhere("https://login.example.com/realms/staff")])
    site.configure()
    assert findings() == []


def test_an_external_issuer_needs_a_base_url_too(site: CheckedSite, make_server: Any) -> None:
    make_server("elsewhere", authentication=[Elsewhere("https://login.example.com")])
    site.configure(BASE_URL=..., AUTHENTICATION=["django_mcp.APIKeyAuthentication"])
    assert "'elsewhere'" in next(each for each in findings() if each.id == "django_mcp.E010").msg


def test_a_header_that_no_request_has_is_found(site: CheckedSite, subtests: pytest.Subtests) -> None:
    for name, meant in [
        ("HTTP_X_REAL_IP", "'X-Real-Ip'"),
        ("X Real", "'X-Real-IP'"),
        ("X-Real-IP:", "'X-Real-IP'"),
        ("", "'X-Real-IP'"),
    ]:
        with subtests.test(name=name, meant=meant), site.afresh():
            site.configure(CLIENT_ADDRESS_HEADER=name)
            assert meant in only("E009").hint


def test_a_header_as_proxies_send_it_is_fine(site: CheckedSite) -> None:
    site.configure(CLIENT_ADDRESS_HEADER="X-Real-IP")
    assert findings() == []


# Scopes


def test_a_default_scope_that_is_not_declared_is_found_with_the_nearest(site: CheckedSite) -> None:
    site.configure(DEFAULT_SCOPES=["travel:raed"])
    finding = only("E007")
    assert "'travel:raed'" in finding.msg
    assert "DEFAULT_SCOPES" in finding.msg
    assert "'travel:read'" in finding.hint


def test_a_scope_of_an_endpoint_that_is_not_declared_is_found(site: CheckedSite, make_server: Any) -> None:
    make_server("staff", authentication=None, scopes=["qqq"])
    site.configure()
    finding = only("E007")
    assert "'staff'" in finding.msg
    assert "travel:read, travel:write" in finding.hint


def test_a_scope_of_what_is_offered_that_is_not_declared_is_found(site: CheckedSite, subtests: pytest.Subtests) -> None:
    for kind in ["tool", "resource", "template", "prompt"]:
        with subtests.test(kind=kind), site.afresh():
            match kind:
                case "tool":
                    tool(server=site.server, name="it", description="It.", scopes=["travel:wite"])(lambda: "")
                case "resource":
                    resource("a://it", server=site.server, name="it", scopes=["travel:wite"])(lambda: "")
                case "template":
                    resource("a://{it}", server=site.server, name="it", scopes=["travel:wite"])(lambda it: it)
                case "prompt":
                    prompt(server=site.server, name="it", scopes=["travel:wite"])(lambda: "")
            finding = only("E007")
            assert "'it'" in finding.msg
            assert "'travel:write'" in finding.hint


def test_an_entry_of_scopes_that_is_none_is_found(site: CheckedSite, subtests: pytest.Subtests) -> None:
    cases = [
        ({"a b": "Words"}, "'a b'"),
        ({'a"b': "Words"}, "name"),
        ({"a\\b": "Words"}, "name"),
        ({"é": "Words"}, "name"),
        ({"": "Words"}, "name"),
        ({5: "Words"}, "name"),
        ({"a": ""}, "has no description"),
        ({"a": None}, "has no description"),
        ({"a": {}}, "has no description"),
        ({"a": {"text": ["Words"]}}, "has no description"),
        ({"a": {"text": "Words", "imply": []}}, "'imply'"),
        ({"a": {"text": "Words", "implies": "travel:read"}}, "not a list"),
        ({"a": {"text": "Words", "implies": ["travel:raed"]}}, "'travel:raed'"),
        ({"a": {"text": "Words", "implies": [["travel:read"]]}}, "not declared"),
    ]
    for scopes, told in cases:
        with subtests.test(scopes=scopes, told=told), site.afresh():
            site.settings.DJANGO_MCP = {**DJANGO_MCP, "SCOPES": {**DJANGO_MCP["SCOPES"], **scopes}}
            found = [each for each in findings() if each.id == "django_mcp.E008"]
            assert len(found) == 1
            assert told in found[0].msg


def test_words_that_are_translated_later_are_words(site: CheckedSite) -> None:
    site.configure(SCOPES={**DJANGO_MCP["SCOPES"], "a": gettext_lazy("Yes")})
    assert findings() == []


# What is more open than it may be meant to be


def test_keys_in_urls_are_warned_of(site: CheckedSite) -> None:
    site.configure(API_KEYS_IN_URL=True)
    assert only("W003").level == WARNING


def test_an_endpoint_for_everybody_is_warned_of_before_deployment_with_what_it_offers(
    site: CheckedSite, make_server: Any
) -> None:
    server = make_server("open")
    tool(server=server, name="look", description="Look.", read_only=True)(lambda: "")
    tool(server=server, name="book", description="Book.")(lambda: "")
    assert findings() == []
    finding = only("W004", deploy=True)
    assert "'open'" in finding.msg
    assert "2 tools, 1 of which are not read_only" in finding.msg


def test_what_anybody_may_destroy_is_refused_before_deployment(
    site: CheckedSite, make_server: Any, subtests: pytest.Subtests
) -> None:
    for options, is_told in [
        ({"policy": "allow"}, True),
        ({}, False),  # it asks, for it is destructive
        ({"policy": "block"}, False),
        ({"policy": "allow", "permission": "auth.delete_user"}, False),
    ]:
        with subtests.test(options=options, is_told=is_told), site.afresh():
            server = make_server("open")
            tool(server=server, name="wipe", description="Wipe it.", destructive=True, **options)(lambda: "")
            assert {each.id for each in findings()} <= {"django_mcp.W020"}
            found = [each for each in findings(deploy=True) if each.id == "django_mcp.E035"]
            assert [(each.level, "wipe" in each.msg) for each in found] == [(ERROR, True)] * is_told


def test_approvals_of_callers_who_never_sign_in_are_warned_of(
    site: CheckedSite, make_server: Any, subtests: pytest.Subtests
) -> None:
    for authentication, options, is_warned_of in [
        ([AllowAny], {"policy": "ask"}, True),
        ([AllowAny], {"destructive": True}, True),
        ([AllowAny], {"policy": "allow"}, False),
        ([AllowAny], {"policy": "ask", "permission": "auth.delete_user"}, False),
        (["django_mcp.APIKeyAuthentication", AllowAny], {"policy": "ask"}, False),
    ]:
        with subtests.test(authentication=authentication, options=options), site.afresh():
            server = make_server("open", authentication=authentication)
            tool(server=server, name="wipe", description="Wipe it.", **options)(lambda: "")
            found = [each for each in findings() if each.id == "django_mcp.W020"]
            assert [(each.level, "wipe" in each.msg) for each in found] == [(WARNING, True)] * is_warned_of


def test_a_site_without_the_admin_is_told_that_nobody_can_approve_calls(site: CheckedSite, make_server: Any) -> None:
    server = make_server("closed", authentication=["django_mcp.APIKeyAuthentication"])
    tool(server=server, name="wipe", description="Wipe it.", destructive=True)(lambda: "")
    assert "django_mcp.W022" not in {each.id for each in findings()}
    site.settings.INSTALLED_APPS = [each for each in site.settings.INSTALLED_APPS if each != "django.contrib.admin"]
    assert "wipe" in only("W022").msg


def test_so_is_one_whose_users_the_admin_cannot_ask_whether_they_are_staff(
    site: CheckedSite, make_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = make_server("closed", authentication=["django_mcp.APIKeyAuthentication"])
    tool(server=server, name="wipe", description="Wipe it.", destructive=True)(lambda: "")
    people = type("Person", (), {"_meta": SimpleNamespace(label="shop.Person")})
    monkeypatch.setattr("django_mcp.approvals.checks.get_user_model", lambda: people)
    assert "has no such attribute" in only("W064").msg
    assert "admin.site.has_permission = lambda request:" in str(only("W064").hint)

    class Urlconf(ModuleType):
        @property
        def urlpatterns(self) -> list[Any]:  # read when a urlconf is loaded
            monkeypatch.setattr(admin.site, "has_permission", lambda request: request.user.is_superuser, raising=False)
            return []

    site.settings.ROOT_URLCONF = Urlconf("urlconf")
    forget_urlconfs()
    assert "django_mcp.W064" not in ids()


def test_an_endpoint_with_more_tools_than_clients_take_is_found(site: CheckedSite, make_server: Any) -> None:
    def add(server: MCPServer, number: int) -> None:
        tool(server=server, name=f"tool_{number}", description=f"Do {number}.", read_only=True)(lambda: "")

    many, searched = (
        make_server(name, authentication=["django_mcp.APIKeyAuthentication"], **options)
        for name, options in {"many": {}, "searched": {"search_tools": 40}}.items()
    )
    for number in range(MAX_TOOLS):
        add(many, number)
        add(searched, number)
    assert "django_mcp.W029" not in ids()
    add(many, MAX_TOOLS)
    add(searched, MAX_TOOLS)
    found = only("W029")
    assert found.obj is many
    assert "lists 129 tools" in found.msg
    assert "search_tools=40" in str(found.hint)


def test_an_endpoint_that_lets_everybody_in_and_takes_oauth_is_told_that_nobody_is_asked_to_sign_in(
    site: CheckedSite, make_server: Any
) -> None:
    make_server("mixed", authentication=["django_mcp.APIKeyAuthentication", AllowAny])
    assert "django_mcp.W021" not in {each.id for each in findings()}
    make_server("both", authentication=[OAuth2Authentication, AllowAny])
    assert "'both'" in next(each for each in findings() if each.id == "django_mcp.W021").msg


def test_what_users_may_destroy_is_their_own_affair(site: CheckedSite, make_server: Any) -> None:
    server = make_server("closed", authentication=["django_mcp.APIKeyAuthentication"])
    tool(server=server, name="wipe", description="Wipe it.", destructive=True, policy="allow")(lambda: "")
    assert "django_mcp.E035" not in {each.id for each in findings(deploy=True)}


def test_a_form_through_which_anybody_may_write_rows_is_warned_of_before_deployment(
    site: CheckedSite, make_server: Any, subtests: pytest.Subtests
) -> None:
    form = modelform_factory(Tag, fields=("word",))
    for options, is_warned_of in [
        ({}, False),
        ({"permission": None}, True),
        ({"permission": None, "groups": ["editors"]}, False),
        ({"permission": "library.add_tag"}, False),
    ]:
        with subtests.test(options=options), site.afresh():
            form_tool(form, server=make_server("open"), **options)
            assert findings() == []
            found = [each for each in findings(deploy=True) if each.id == "django_mcp.W019"]
            assert [(each.level, "create_tag" in each.msg) for each in found] == [(WARNING, True)] * is_warned_of


def test_a_site_that_asks_about_nothing_is_told_what_that_means_before_deployment(
    site: CheckedSite, make_server: Any
) -> None:
    tool(server=make_server("open"), name="wipe", description="Wipe it.", destructive=True)(lambda: "")
    site.configure(REQUIRE_APPROVAL_FOR=None)
    assert "wipe" in next(each for each in findings(deploy=True) if each.id == "django_mcp.E035").msg


def test_a_site_that_answers_to_every_name_is_warned_of_before_deployment(site: CheckedSite) -> None:
    site.settings.ALLOWED_HOSTS = ["*"]
    assert findings() == []
    assert "'*'" in only("W005", deploy=True).msg


def test_limits_that_processes_do_not_share_are_warned_of_before_deployment(
    site: CheckedSite, subtests: pytest.Subtests
) -> None:
    for backend, counts in [("locmem.LocMemCache", "per process"), ("dummy.DummyCache", "not enforced")]:
        with subtests.test(backend=backend, counts=counts), site.afresh():
            site.settings.CACHES = {"default": {"BACKEND": f"django.core.cache.backends.{backend}"}}
            assert findings() == []
            assert counts in only("W006", deploy=True).msg


def test_calls_that_are_counted_need_a_shared_cache_too(site: CheckedSite) -> None:
    site.settings.CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}
    site.configure(AUTHENTICATION=["django_mcp.APIKeyAuthentication"])
    assert findings(deploy=True) == []
    tool(server=site.server, name="often", description="Often.", rate_limit="5/m")(lambda: "")
    assert "calls to <MCPServer 'trips'" in only("W006", deploy=True).msg


def test_a_rate_that_is_none_is_found(site: CheckedSite, subtests: pytest.Subtests) -> None:
    for key in ["RATE_LIMIT", "REGISTRATION_RATE"]:
        with subtests.test(key=key), site.afresh():
            site.configure(**{key: "often"})
            found = [each for each in findings(deploy=True) if each.id == "django_mcp.E005"]
            assert key in found[0].msg


# Whatever a site writes

JUNK: list[Any] = [None, True, -1, 0, 3.5, "", "x y", "://", "https://[", [None], [[]], [{}], ["*"], {}, {None: None}]
JUNK += [{"a": {"implies": 5}}, {"a": [5]}, SimpleNamespace(), object, b"x", {5}, ["nowhere.Nothing"]]


@pytest.mark.slow
def test_no_check_raises_whatever_a_key_holds(site: CheckedSite, subtests: pytest.Subtests) -> None:
    for key in conf.KEYS:
        with subtests.test(key=key), site.afresh():
            for value in JUNK:
                with override_settings(DJANGO_MCP={**DJANGO_MCP, key: value}):
                    findings(deploy=True)


def test_no_check_of_ours_raises_whatever_another_setting_holds(site: CheckedSite, subtests: pytest.Subtests) -> None:
    for key in ["OAUTH2_PROVIDER", "LOGIN_URL", "MIDDLEWARE", "ALLOWED_HOSTS", "CACHES", "ROOT_URLCONF"]:
        with subtests.test(key=key), site.afresh():
            values: dict[str, list[Any]] = {
                "OAUTH2_PROVIDER": [{}, {"SCOPES": None}],  # what is no dict stops the toolkit itself
                "MIDDLEWARE": [[], ["nowhere"], [None], [5]],
                "ALLOWED_HOSTS": [[], ["*"], ()],
                "CACHES": [{"default": {"BACKEND": "nowhere.Nothing"}}, {"default": {}}],
                "ROOT_URLCONF": ["nowhere.urls", "tests.auth"],
            }
            for value in values.get(
                key, ["", "nowhere", "/nowhere/", "a b", "https://[", 5, None, "https://login.example.com/"]
            ):
                setattr(site.settings, key, value)
                findings(deploy=True)


def test_an_authenticator_that_fails_when_it_is_asked_for_issuers_stops_no_check(
    site: CheckedSite, make_server: Any
) -> None:
    make_server("unsure", authentication=[Unsure()])
    assert findings() == []


def test_a_setting_that_cannot_be_read_is_left_to_the_check_that_says_so(site: CheckedSite) -> None:
    site.settings.DJANGO_MCP = {**DJANGO_MCP, "WORKER_THREADS": "8", "BASE_URL": "nonsense"}
    assert ids() == {"django_mcp.E003"}


# Models


class Tags(ModelResource):
    fields = ["word"]


class OpenTags(Tags):
    view_permission = None


class AskedTags(Tags):
    def has_view_permission(self, ctx: Any, obj: Any = None) -> bool:
        return ctx.request.headers["X-Shelf"] == "open"


@pytest.mark.parametrize(
    ("declared", "authentication", "is_found"),
    [
        (Tags, [AllowAny()], True),
        (OpenTags, [AllowAny()], False),
        (AskedTags, [AllowAny()], False),
        (Tags, [OAuth2Authentication()], False),
        (Tags, [OAuth2Authentication(), AllowAny()], False),
    ],
)
def test_a_model_that_takes_a_permission_where_nobody_has_any_is_found(
    make_server: Callable[..., MCPServer], declared: Any, authentication: Any, is_found: bool
) -> None:
    server = make_server("shelves", authentication=authentication)
    register(Tag, declared, server=server)
    found = [each for each in findings() if each.id == "django_mcp.W013" and each.obj is server]

    assert bool(found) is is_found
    assert not is_found or "view_permission = None" in found[0].hint

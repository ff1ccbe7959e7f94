"""Protected resource metadata: one document for each endpoint, from what the site says of itself."""

import importlib
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.test import Client as Browser
from django.test import override_settings
from django.urls import clear_url_caches, re_path

from django_mcp import AllowAny, MCPServer, OAuth2Authentication, tool
from django_mcp.approvals.messages import page_url
from django_mcp.auth.protected_resource import metadata_url_of
from django_mcp.models import Approval
from django_mcp.transports import resource_metadata as module
from tests.auth.conftest import BASE

Make = Callable[..., Any]
WELL_KNOWN = "/.well-known/oauth-protected-resource"


@pytest.fixture
def endpoints(make_server: Make, site: None) -> list[MCPServer]:
    first = make_server("first", path="mcp.one/v1", authentication=[OAuth2Authentication()], title="The first")
    second = make_server("second", authentication=[OAuth2Authentication()], scopes=["travel:read", "travel:write"])
    open_to_all = make_server("everybody", path="public/mcp", authentication=[AllowAny()])
    tool(server=open_to_all, name="look")(lambda: "x")
    return [first, second]


@pytest.fixture
def browser(endpoints: list[MCPServer]) -> Iterator[Browser]:
    urlconf = types.ModuleType("tests.auth.urlconf_of_metadata")
    urlconf.urlpatterns = module.metadata_patterns()
    sys.modules[urlconf.__name__] = urlconf
    with override_settings(ROOT_URLCONF=urlconf.__name__):
        clear_url_caches()
        yield Browser()
    clear_url_caches()


def test_each_endpoint_has_its_document(browser: Browser) -> None:
    answer = browser.get(f"{WELL_KNOWN}/mcp.one/v1")
    assert answer.status_code == 200
    assert answer["content-type"] == "application/json"
    assert answer["access-control-allow-origin"] == "*"
    assert answer.json() == {
        "resource": f"{BASE}/mcp.one/v1",
        "authorization_servers": [BASE],
        "bearer_methods_supported": ["header"],
        "resource_name": "The first",
        "scopes_supported": ["travel:read"],
    }
    assert browser.get(f"{WELL_KNOWN}/second/mcp").json()["scopes_supported"] == ["travel:read", "travel:write"]


def test_a_pattern_that_django_cannot_reverse_hides_no_document(browser: Browser, endpoints: list[MCPServer]) -> None:
    urlconf: Any = types.ModuleType("tests.auth.urlconf_with_flags")
    urlconf.urlpatterns = [re_path("(?i)^others/$", lambda request: None), *module.metadata_patterns()]
    with override_settings(ROOT_URLCONF=urlconf):
        assert metadata_url_of(endpoints[1]) == f"{BASE}{WELL_KNOWN}/second/mcp"
        assert browser.get(f"{WELL_KNOWN}/second/mcp").json()["resource"] == f"{BASE}/second/mcp"
        assert page_url(Approval(pk=1)) == ""


def test_the_resource_is_spelt_as_the_client_spelt_it(browser: Browser) -> None:
    assert browser.get(f"{WELL_KNOWN}/second/mcp/").json()["resource"] == f"{BASE}/second/mcp/"


def test_there_is_no_document_for_anything_else(browser: Browser, subtests: pytest.Subtests) -> None:
    """[22] A document for any path would vouch for whatever an attacker makes a client ask for."""
    for path in [
        "",
        "/",
        "/mcp",
        "/second",
        "/second/mcp/more",
        "/second/mcp//",
        "/public/mcp",
        "/mcpXone/v1",
        "/../second/mcp",
    ]:
        with subtests.test(path=path):
            assert browser.get(WELL_KNOWN + path).status_code == 404


def test_what_a_request_says_of_its_host_is_in_no_document(browser: Browser, subtests: pytest.Subtests) -> None:
    for headers in [{"host": "evil.example.com"}, {"x-forwarded-host": "evil.example.com"}]:
        with subtests.test(headers=headers):
            with override_settings(ALLOWED_HOSTS=["*"], USE_X_FORWARDED_HOST=True):
                answer = browser.get(f"{WELL_KNOWN}/second/mcp", headers=headers)
            assert answer.status_code == 200
            assert "evil" not in answer.content.decode()


def test_where_there_is_one_endpoint_the_bare_address_has_its_document(make_server: Make, site: None) -> None:
    make_server("only", authentication=[OAuth2Authentication()])
    patterns = [str(each.pattern) for each in module.metadata_patterns()]
    assert "^\\.well\\-known/oauth\\-protected\\-resource$" in patterns


def test_pages_of_any_origin_may_read_it(browser: Browser) -> None:
    preflight = browser.options(f"{WELL_KNOWN}/second/mcp", headers={"origin": "https://a.example"})
    assert (preflight.status_code, preflight["access-control-allow-origin"]) == (204, "*")
    assert "mcp-protocol-version" in preflight["access-control-allow-headers"].lower() or (
        preflight["access-control-allow-headers"] == "*"
    )


def test_it_is_only_read(browser: Browser, subtests: pytest.Subtests) -> None:
    for verb in ["post", "put", "delete", "patch"]:
        with subtests.test(verb=verb):
            answer = getattr(browser, verb)(f"{WELL_KNOWN}/second/mcp")
            assert (answer.status_code, answer["allow"]) == (405, "GET, HEAD, OPTIONS")


def test_a_site_that_asks_everybody_to_sign_in_does_not_ask_here(browser: Browser) -> None:
    from django.conf import settings

    with override_settings(MIDDLEWARE=[*settings.MIDDLEWARE, "django.contrib.auth.middleware.LoginRequiredMiddleware"]):
        assert browser.get(f"{WELL_KNOWN}/second/mcp").status_code == 200


def test_the_module_can_be_loaded_anew() -> None:
    """It holds nothing that a second import would lose."""
    assert importlib.import_module(module.__name__) is module

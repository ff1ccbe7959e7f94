"""A site that its server says is below a path (``uvicorn --root-path``), and the clients that sign in there."""

import asyncio
import re
import sys
from collections.abc import Callable, Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from django.conf.urls.i18n import i18n_patterns
from django.core.handlers.asgi import ASGIHandler
from django.http import HttpRequest
from django.test import RequestFactory, override_settings
from django.urls import clear_url_caches, include, path, re_path, set_script_prefix
from django.utils import translation

from django_mcp import MCPServer, OAuth2Authentication, RequestHead, tool
from django_mcp.auth.protected_resource import resource_of
from django_mcp.core.resources import find_ended
from django_mcp.tasks.principal_snapshot import restore, snapshot
from django_mcp.transports.asgi import MCPApplication
from django_mcp.transports.resource_metadata import metadata_patterns
from django_mcp.transports.view import mcp_view
from django_mcp.urls import APP_NAME
from tests.auth.conftest import BASE
from tests.clients import Answer, exchange

HEADERS = {"host": "travel.example.com", "content-type": "application/json", "accept": "application/json"}
LIST = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}'
WELL_KNOWN = "/.well-known/oauth-protected-resource"
BELOW = ["", "/shop", "/a/shop", ""]
"""Paths below which one process is reached: each may be the first."""

Ask = Callable[..., Answer]


@pytest.fixture
def server(make_server: Callable[..., MCPServer], site: None) -> MCPServer:
    server = make_server(authentication=[OAuth2Authentication()])
    tool(server=server, name="look")(lambda: "seen")
    return server


@pytest.fixture(params=["asgi", "view"])
def ask(request: pytest.FixtureRequest, server: MCPServer) -> Iterator[Ask]:
    """Sends a request below a path; the URLconf is that of ``django_mcp.urls``."""
    module = ModuleType("tests.urlconf_below_a_path")
    view = re_path(rf"^{server.path}/?$", mcp_view(server), name=server.name)
    vars(module)["urlpatterns"] = [path("", include(([view, *metadata_patterns()], APP_NAME)))]
    sys.modules[module.__name__] = module

    def send(below: str, verb: str, path: str, token: str = "", body: bytes = b"") -> Answer:
        headers = {**HEADERS, **({"authorization": f"Bearer {token}"} if token else {})}
        try:
            return asyncio.run(exchange(application, verb, path, headers, body, root_path=below))
        finally:
            set_script_prefix("/")

    with override_settings(ROOT_URLCONF=module.__name__, MIDDLEWARE=[]):
        clear_url_caches()
        application = MCPApplication(ASGIHandler()) if request.param == "asgi" else ASGIHandler()
        yield send
    clear_url_caches()


def test_challenge_and_metadata_name_the_address_that_the_client_called(ask: Ask, open_database: None) -> None:
    for below in BELOW:
        refused = ask(below, "POST", "/test/mcp", body=LIST)
        assert refused.status == 401
        found = re.search(r'resource_metadata="([^"]*)"', refused.headers["www-authenticate"])
        assert found is not None
        assert found[1] == f"{BASE}{below}{WELL_KNOWN}/test/mcp"
        for address in (found[1].removeprefix(BASE + below), f"{WELL_KNOWN}{below}/test/mcp"):
            assert ask(below, "GET", address).json["resource"] == f"{BASE}{below}/test/mcp"


def test_there_is_no_document_below_the_path_of_another_request(ask: Ask) -> None:
    assert ask("/shop", "GET", f"{WELL_KNOWN}/shop/test/mcp").status == 200
    assert ask("", "GET", f"{WELL_KNOWN}/shop/test/mcp").status == 404
    assert ask("/a", "GET", f"{WELL_KNOWN}/shop/test/mcp").status == 404


def test_an_endpoint_in_a_urlconf_of_each_language_has_the_address_of_the_request(
    server: MCPServer,
) -> None:
    module = ModuleType("tests.urlconf_of_languages")
    view = re_path(rf"^{server.path}/?$", mcp_view(server), name=server.name)
    vars(module)["urlpatterns"] = i18n_patterns(path("", include(([view], "django_mcp"))))
    with override_settings(ROOT_URLCONF=module, LANGUAGES=[("en", "English"), ("de", "German")]):
        for language in ("en", "de", "en"):
            with translation.override(language):
                assert resource_of(server) == f"{BASE}/{language}/test/mcp"


@pytest.mark.parametrize("below", ["", "/shop"])
def test_a_token_opens_the_endpoint_that_it_names_alone(ask: Ask, make_token: Callable[..., str], below: str) -> None:
    token = make_token(resource=[f"{BASE}{below}/test/mcp"])
    assert {each: ask(each, "POST", "/test/mcp", token, LIST).status for each in BELOW} == {
        each: 200 if each == below else 401 for each in BELOW
    }


def test_what_goes_on_without_a_request_keeps_the_token_of_its_address(
    server: MCPServer, make_token: Callable[..., str]
) -> None:
    """A stream looks its token up in the process's own thread, a task in another process: neither has the path."""
    token = make_token(resource=[f"{BASE}/shop/test/mcp"])
    set_script_prefix("/shop")
    try:
        head = RequestHead("POST", {"authorization": f"Bearer {token}"}, "travel.example.com", bool, HttpRequest)
        principal: Any = OAuth2Authentication().authenticate(head, server)
    finally:
        set_script_prefix("/")
    assert principal is not None
    assert find_ended([principal], server) == []
    kept = snapshot(SimpleNamespace(principal=principal, request=RequestFactory().get("/")))  # type: ignore[arg-type]
    task: Any = SimpleNamespace(
        user=principal.user, caller=kept, principal_kind=principal.kind, principal_id=principal.id
    )
    assert restore(task, server).scopes == principal.scopes

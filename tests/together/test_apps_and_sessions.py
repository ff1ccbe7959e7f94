"""Apps in hosts of older versions that send no session id, or open a second session for the page of an app."""

from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings
from django.test import override_settings

from django_mcp import AllowAny, APIKeyAuthentication, MCPServer, OAuth2Authentication, tool
from django_mcp.auth.api_keys import create_key
from django_mcp.auth.protected_resource import resource_of
from tests.clients import LEGACY, Client
from tests.core.test_apps import templates

__all__ = ["templates"]

pytestmark = pytest.mark.usefixtures("templates", "open_database")
SHOWS = {"extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}}
NOTHING: dict[str, Any] = {}


@pytest.fixture
def server(make_server: Callable[..., MCPServer], site: None) -> MCPServer:
    """An endpoint with a tool that has an app, one for its page alone, and one whose page has scripts of its own."""
    server = make_server(authentication=[OAuth2Authentication(), APIKeyAuthentication(), AllowAny()])
    tool(server=server, name="city", app="part.html", read_only=True)(lambda: "Oslo")
    tool(server=server, name="more", visibility=["app"], read_only=True)(lambda: "more")
    tool(server=server, name="own", app="own.html", read_only=True)(lambda: "Oslo")
    return server


class Program:
    """A client program with a credential."""

    def __init__(self, server: MCPServer, token: str = "", name: str = "host") -> None:
        self.client, self.name = Client(server, LEGACY, "asgi"), name
        self.headers = {"authorization": f"Bearer {token}"} if token else {}
        self.ids = 0

    def open(self, capabilities: Any) -> str:
        """Initialize a session; return its id."""
        info = {"name": self.name, "version": "1"}
        params = {"protocolVersion": LEGACY, "clientInfo": info, "capabilities": capabilities}
        answer = self.client.request("initialize", params, headers={**self.headers, "mcp-protocol-version": None})
        return answer.headers["mcp-session-id"]

    def has_app(self, session: str = "") -> bool:
        """Whether the list, the result and the tools for pages have apps: all or none."""

        def ask(method: str, **params: Any) -> Any:
            sent = {**self.headers, **({"mcp-session-id": session} if session else {})}
            return self.client.request(method, params, headers=sent)

        tools = {each["name"]: each.get("_meta", {}) for each in ask("tools/list").result["tools"]}
        pages = [each for each in ask("resources/list").result["resources"] if each["uri"] == "ui://part.html"]
        called = ask("tools/call", name="city").result
        more = ask("tools/call", name="more")
        found = {
            "the list": "resourceUri" in tools["city"].get("ui", {}),
            "tools for pages": "more" in tools,
            "pages": bool(pages),
            "the result": "django-mcp/html" in called.get("_meta", {}),
            "their calls": "error" not in more.json,
        }
        assert len(set(found.values())) == 1, found
        assert tools["own"]["ui"]["resourceUri"] == "ui://own.html"
        return found["the list"]


@pytest.fixture
def oauth(server: MCPServer, make_token: Callable[..., str]) -> Callable[..., Program]:
    return lambda name="host", **fields: Program(server, make_token(resource=[resource_of(server)], **fields), name)


@pytest.fixture
def key(server: MCPServer, user: Any) -> str:
    return create_key(user, "of several programs", endpoints=[server.name])[1]


def test_an_oauth_client_that_declared_apps_has_them_in_requests_without_a_session(oauth: Any) -> None:
    host = oauth()
    assert host.has_app() is False
    host.open(SHOWS)
    assert host.has_app() is True


def test_a_second_session_of_the_client_has_them_whatever_it_declares(oauth: Any) -> None:
    host = oauth()
    first, second = host.open(SHOWS), host.open(NOTHING)
    assert [host.has_app(first), host.has_app(second)] == [True, True]


def test_another_client_of_the_same_user_has_none(oauth: Any, make_application: Callable[..., Any]) -> None:
    oauth().open(SHOWS)
    assert oauth(application=make_application(name="Other")).has_app() is False


@pytest.mark.postgresql
def test_of_programs_with_one_key_those_have_them_that_say_so(server: MCPServer, key: str) -> None:
    host, script = Program(server, key), Program(server, key, "script")
    first, second, other = host.open(SHOWS), host.open(NOTHING), script.open(NOTHING)
    assert [host.has_app(first), host.has_app(second), script.has_app(other)] == [True, True, False]


def test_an_anonymous_caller_is_known_by_its_session_alone(server: MCPServer) -> None:
    host, script = Program(server), Program(server, name="script")
    first, second, other = host.open(SHOWS), host.open(NOTHING), script.open(NOTHING)
    assert [host.has_app(first), host.has_app(second), script.has_app(other)] == [True, True, False]
    assert host.has_app() is False
    with override_settings(DJANGO_MCP={**settings.DJANGO_MCP, "APP_CLIENTS": [""]}):
        assert host.has_app() is True

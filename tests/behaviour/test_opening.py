"""How a conversation opens: discovery, the handshake, and which version is spoken."""

import json
from typing import Any

import pytest

from django_mcp import Context, MCPServer, prompt, resource, tool
from tests.clients import META, MODERN, Client

ALL = ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]
LEGACY_VERSIONS = ALL[1:]


def hello(version: Any = "2025-11-25") -> dict[str, Any]:
    return {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "tests", "version": "1"}}


def told(client: Client) -> dict[str, bool]:
    """What a list declares where a stream can be held open, to tell of its changes on."""
    return {} if client.edge == "view" else {"listChanged": True}


def speak(ctx: Context) -> str:
    return "x"


@pytest.fixture(autouse=True)
def one_tool(server: MCPServer) -> None:
    @tool(server=server)
    def greet(name: str) -> str:
        """Greet somebody."""
        return f"Hello, {name}!"


def test_discovery_tells_versions_capabilities_and_who_answers(modern: Client) -> None:
    result = modern.request("server/discover").result
    assert result["supportedVersions"] == ALL
    assert result["capabilities"] == {"tools": told(modern)}
    assert result["_meta"][META + "serverInfo"]["name"] == "test"
    assert result["cacheScope"] == "public"


def test_discovery_passes_on_the_instructions_for_the_model(make_server: Any, edge: str, open_database: None) -> None:
    server = make_server("guided", instructions="Ask for the date first.")
    assert Client(server, MODERN, edge).request("server/discover").result["instructions"] == "Ask for the date first."


def test_capabilities_name_just_what_is_registered(server: MCPServer, client: Client) -> None:
    def capabilities() -> dict[str, Any]:
        if client.is_modern:
            return client.request("server/discover").result["capabilities"]
        return client.request("initialize", hello()).result["capabilities"]

    changes = told(client)
    watched = {"subscribe": True} if changes else {}
    assert capabilities() == {"tools": changes}
    resource("test://{x}", server=server)(lambda x: x)
    prompt(server=server, name="p")(lambda: "x")
    assert capabilities() == {"tools": changes, "resources": {**changes, **watched}, "prompts": changes}
    tool(server=server, name="speaks")(speak)
    assert capabilities().keys() == {"tools", "resources", "prompts", "logging"}


def test_discovery_under_a_legacy_header_is_answered_too(legacy: Client) -> None:
    assert legacy.request("server/discover").result["supportedVersions"] == ALL


@pytest.mark.parametrize("version", LEGACY_VERSIONS)
def test_initialize_echoes_every_legacy_version_it_is_asked_for(legacy: Client, version: str) -> None:
    assert legacy.request("initialize", hello(version)).result["protocolVersion"] == version


@pytest.mark.parametrize("version", ["2026-07-28", "1999-01-01", "latest"])
def test_initialize_offers_the_newest_legacy_version_instead_of_any_other(legacy: Client, version: str) -> None:
    assert legacy.request("initialize", hello(version)).result["protocolVersion"] == "2025-11-25"


def test_initialize_without_a_version_says_what_is_missing(legacy: Client) -> None:
    answer = legacy.request("initialize", {"capabilities": {}})
    assert (answer.status, answer.code) == (200, -32602)
    assert "protocolVersion" in answer.error["message"]


@pytest.mark.parametrize("version", [None, "2025-11-25", "1900-01-01"])
def test_initialize_is_answered_whatever_the_headers_say(
    legacy: Client, version: str, subtests: pytest.Subtests
) -> None:
    for accept in ["*/*", None, "application/json", "application/json;q=0.9, */*;q=0.1"]:
        with subtests.test(accept=accept):
            answer = legacy.request("initialize", hello(), headers={"accept": accept, "mcp-protocol-version": version})
            assert answer.status == 200
            assert answer.headers["content-type"] == "application/json"


def test_initialize_with_modern_header_and_modern_meta_is_an_unknown_method(modern: Client) -> None:
    answer = modern.request("initialize", hello())
    assert (answer.status, answer.code) == (404, -32601)
    assert all(version in answer.error["message"] for version in ALL)


def test_initialize_with_a_modern_header_alone_is_the_handshake(legacy: Client) -> None:
    answer = legacy.request("initialize", hello(), headers={"mcp-protocol-version": MODERN})
    assert answer.result["protocolVersion"] == "2025-11-25"


def test_nothing_is_remembered_of_a_discovery(server: MCPServer, edge: str, open_database: None) -> None:
    Client(server, MODERN, edge).request("server/discover")
    client = Client(server, "2025-11-25", edge)
    assert client.request("initialize", hello()).result["protocolVersion"] == "2025-11-25"


def test_a_notification_is_accepted_with_an_empty_body(client: Client, subtests: pytest.Subtests) -> None:
    for method in [
        "notifications/initialized",
        "notifications/cancelled",
        "notifications/roots/list_changed",
        "x/unknown",
    ]:
        with subtests.test(method=method):
            body, headers = client.compose(method, {})
            del body["id"]
            answer = client.post(json.dumps(body).encode(), headers)
            assert (answer.status, answer.body) == (202, b"")
            assert "content-type" not in answer.headers


def test_ping_is_answered_with_an_empty_object(legacy: Client) -> None:
    assert legacy.request("ping").result == {}


def test_modern_methods_that_do_not_exist_are_404(modern: Client, subtests: pytest.Subtests) -> None:
    for method in ["ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe", "unknown/method", ""]:
        with subtests.test(method=method):
            answer = modern.request(method)
            assert (answer.status, answer.code) == (404, -32601)


def test_legacy_methods_that_do_not_exist_are_200_with_an_error(legacy: Client, subtests: pytest.Subtests) -> None:
    """Clients ask for lists that were never declared, and take another status for a failed login."""
    for method in ["unknown/method", "prompts/list", "resources/list", "resources/templates/list"]:
        with subtests.test(method=method):
            answer = legacy.request(method)
            assert (answer.status, answer.code) == (200, -32601)


def test_a_capability_that_is_not_declared_has_no_methods(modern: Client, subtests: pytest.Subtests) -> None:
    for method in ["prompts/list", "resources/list", "resources/templates/list", "prompts/get"]:
        with subtests.test(method=method):
            answer = modern.request(method, {"name": "x"} if method == "prompts/get" else {})
            assert (answer.status, answer.code) == (404, -32601)

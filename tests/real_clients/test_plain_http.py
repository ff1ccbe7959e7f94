"""What a client that knows nothing of anybody's library sees of real server processes."""

import http.client
import json
from contextlib import closing, suppress
from typing import Any

import pytest

from tests import referee
from tests.real_clients.sites import HOST, Site

JSON = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
META = "io.modelcontextprotocol/"
ABOUT = {META + "protocolVersion": "2026-07-28", META + "clientCapabilities": {}}


def ask(
    site: Site, path: str, message: Any, headers: dict[str, str], verb: str = "POST"
) -> tuple[http.client.HTTPResponse, bytes]:
    """One request on a connection of its own; redirects are not followed."""
    with closing(http.client.HTTPConnection(HOST, site.port, timeout=30)) as connection:
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        connection.request(verb, path, body, {**JSON, **headers})
        response = connection.getresponse()
        return response, response.read()


INITIALIZE = (
    "initialize",
    {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "plain", "version": "1"}},
    {},
)
DISCOVER = (
    "server/discover",
    {"_meta": ABOUT},
    {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "server/discover"},
)


@pytest.mark.parametrize(("method", "params", "headers"), [INITIALIZE, DISCOVER], ids=["initialize", "discover"])
@pytest.mark.parametrize("path", ["/mcp", "/mcp/"])
def test_both_slash_forms_answer_without_a_redirect(
    site: Site, path: str, method: str, params: dict[str, Any], headers: dict[str, str]
) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    response, body = ask(site, path, message, headers)
    assert response.status == 200
    assert response.getheader("Location") is None
    assert response.getheader("Content-Type", "").startswith("application/json")
    answer = json.loads(body)
    referee.check(answer, method, "2026-07-28" if headers else "2025-11-25")
    assert answer["id"] == 1


@pytest.mark.parametrize("path", ["/mcp", "/mcp/"])
def test_a_get_is_told_what_to_do_instead(site: Site, path: str) -> None:
    response, body = ask(site, path, b"", {}, verb="GET")
    assert response.status == 405
    assert "POST" in response.getheader("Allow", "")
    assert "POST" in json.loads(body)["error"]["message"]


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"[" * 100_000])
def test_a_body_that_is_not_json_is_a_parse_error(site: Site, body: bytes) -> None:
    response, answer = ask(site, "/mcp", body, {})
    assert response.status == 400
    assert json.loads(answer)["error"]["code"] == -32700


@pytest.mark.parametrize("origin", ["https://evil.example", "null"])
def test_a_page_of_another_site_is_turned_away(site: Site, origin: str) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": INITIALIZE[0], "params": INITIALIZE[1]}
    response, _ = ask(site, "/mcp", message, {"Origin": origin})
    assert response.status == 403
    assert response.getheader("Access-Control-Allow-Origin") is None


def test_a_host_that_is_not_ours_is_turned_away(site: Site) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": INITIALIZE[0], "params": INITIALIZE[1]}
    response, _ = ask(site, "/mcp", message, {"Host": "evil.example"})
    assert response.status == 400


def test_a_body_larger_than_allowed_is_turned_away(site: Site) -> None:
    """The answer may come before the body was sent: a client that is cut off still reads it."""
    body = b" " * (4 * 1024 * 1024 + 1)
    with closing(http.client.HTTPConnection(HOST, site.port, timeout=30)) as connection:
        connection.putrequest("POST", "/mcp")
        for name, value in {**JSON, "Content-Length": str(len(body))}.items():
            connection.putheader(name, value)
        connection.endheaders()
        with suppress(BrokenPipeError, ConnectionResetError):
            connection.send(body)
        assert connection.getresponse().status == 413


def test_the_site_itself_is_still_there(site: Site) -> None:
    response, body = ask(site, "/", b"", {}, verb="GET")
    assert response.status == 200
    assert b"<html" in body

"""Behind a proxy: what it says is believed exactly where Django's settings say so, at both edges alike."""

import asyncio
import json
from typing import Any

import pytest
from django.test import override_settings

from django_mcp import Context, MCPServer, tool
from django_mcp.transports.asgi import MCPApplication, host_of, read_headers
from django_mcp.transports.base import is_our_host, is_our_origin
from tests.clients import MODERN, Client, no_django

PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
INNER = {"host": "10.0.0.7:8000", "x-forwarded-host": "testserver"}

NO_ADDRESS = {"AUTHENTICATION": ["django_mcp.AllowAny"]}


@pytest.fixture(autouse=True)
def one_tool(server: MCPServer) -> None:
    tool(server=server, name="one")(lambda: "x")


@pytest.mark.every_way_in
def test_a_forwarded_host_is_believed_only_where_the_site_says_so(legacy: Client) -> None:
    with override_settings(MIDDLEWARE=[]):
        assert legacy.post(PING, INNER).status == 400
        with override_settings(USE_X_FORWARDED_HOST=True):
            assert legacy.post(PING, INNER).status == 200
            assert legacy.post(PING, {**INNER, "x-forwarded-host": "evil.example.com"}).status == 400
            # Django's get_host does not look further either.
            assert legacy.post(PING, {"host": "testserver", "x-forwarded-host": ""}).status == 400


def test_the_scheme_a_proxy_tells_decides_which_origin_is_our_own(legacy: Client, subtests: pytest.Subtests) -> None:
    """Where it does not know its own address."""
    for told, origin, status in [("https", "https", 200), ("https", "http", 403), ("http", "https", 403)]:
        with subtests.test(told=told, origin=origin, status=status):
            headers = {"x-forwarded-proto": told, "origin": f"{origin}://testserver"}
            with override_settings(DJANGO_MCP=NO_ADDRESS):
                with override_settings(SECURE_PROXY_SSL_HEADER=("HTTP_X_FORWARDED_PROTO", "https")):
                    assert legacy.post(PING, headers).status == status
                expected = 200 if origin == "http" else 403
                assert legacy.post(PING, headers).status == expected, "and is nothing without the setting"


def test_a_proxy_that_tells_no_scheme_leaves_the_connections_own(legacy: Client) -> None:
    forwarded = ("HTTP_X_FORWARDED_PROTO", "https")
    with override_settings(DJANGO_MCP=NO_ADDRESS, SECURE_PROXY_SSL_HEADER=forwarded):
        assert legacy.post(PING, {"origin": "http://testserver"}).status == 200


def test_a_header_that_came_twice_is_both_values(server: MCPServer) -> None:
    """RFC 9110, section 5.2. A proxy that looks at one copy and a server that looks at the other would disagree."""
    raw = [(b"mcp-name", b"one"), (b"accept", b"a"), (b"mcp-name", b"two"), (b"accept", b"b")]
    assert read_headers(raw) == {"mcp-name": "one, two", "accept": "a, b"}
    body, headers = Client(server, MODERN, "asgi").compose("tools/call", {"name": "one"})
    twice = [*headers.items(), ("mcp-name", "other"), ("host", "testserver"), ("content-type", "application/json")]
    status, answer = post(json.dumps(body).encode(), twice)
    assert (status, answer["error"]["code"]) == (400, -32020)


def test_what_is_longer_than_any_name_is_refused_and_not_remembered(legacy: Client, subtests: pytest.Subtests) -> None:
    """Anybody may send them, and what is known of names is kept."""
    for header in ["host", "origin"]:
        with subtests.test(header=header):
            long = ("https://" if header == "origin" else "") + "a" * 300 + ".testserver"
            with override_settings(ALLOWED_HOSTS=[".testserver"], MIDDLEWARE=[]):
                assert legacy.post(PING, {}).status == 200
                kept = [known.cache_info().currsize for known in (is_our_host, is_our_origin)]
                assert legacy.post(PING, {header: long}).status == (400 if header == "host" else 403)
                assert [known.cache_info().currsize for known in (is_our_host, is_our_origin)] == kept


def test_two_hosts_are_no_host(server: MCPServer) -> None:
    status, answer = post(PING, [("host", "testserver"), ("host", "testserver"), ("content-type", "application/json")])
    assert status == 400
    assert "Unknown host" in answer["error"]["message"]


def test_without_a_host_header_the_servers_own_name_counts() -> None:
    assert host_of({"server": ("testserver", 8000)}, {}) == "testserver:8000"
    assert host_of({"server": ("/run/site.sock", None)}, {}) == "/run/site.sock"
    assert host_of({}, {}) == ""


def post(body: bytes, headers: list[tuple[str, str]]) -> tuple[int, Any]:
    """A POST whose headers are sent as they are."""
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": body}

    async def send(message: Any) -> None:
        sent.append(message)

    raw = [(name.encode(), value.encode()) for name, value in headers]
    scope = {"type": "http", "method": "POST", "path": "/test/mcp", "headers": raw, "scheme": "http"}
    asyncio.run(MCPApplication(no_django)(scope, receive, send))
    return sent[0]["status"], json.loads(sent[1]["body"])


def test_a_tool_sees_the_address_the_client_used(server: MCPServer, edge: str, open_database: None) -> None:
    @tool(server=server)
    def where(ctx: Context) -> str:
        return str(ctx.request.build_absolute_uri("/rooms/5"))

    settings = {"USE_X_FORWARDED_HOST": True, "SECURE_PROXY_SSL_HEADER": ("HTTP_X_FORWARDED_PROTO", "https")}
    with override_settings(**settings):
        answer = Client(server, MODERN, edge).request(
            "tools/call", {"name": "where"}, headers={**INNER, "x-forwarded-proto": "https"}
        )
    assert answer.text == "https://testserver/rooms/5"

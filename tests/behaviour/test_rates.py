"""Row 43: agents call fifty times in a breath, and are told when to call again."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.core.cache import cache
from django.core.checks import run_checks
from django.core.exceptions import ImproperlyConfigured
from django.test import override_settings

from django_mcp import MCPServer, Principal, tool
from tests.clients import LEGACY, MODERN, Client


class ByHeader:
    """Calls everybody what they call themselves."""

    blocking = False

    def authenticate(self, headers: Any) -> Principal:
        return Principal("test", headers.get("x-user", "somebody"), None)


@pytest.fixture(autouse=True)
def no_calls_yet(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nobody has called, and no window ends in the middle of a test."""
    monkeypatch.setattr("time.time", lambda: 1_800_000_030.0)
    cache.clear()
    yield
    cache.clear()


def ping(server: MCPServer, **options: Any) -> None:
    tool(server=server, name="ping", read_only=True, **options)(lambda: "pong")


def test_one_call_too_many_is_answered_with_429_and_when_to_come_back(
    make_server: Callable[..., MCPServer], version: str, edge: str, open_database: None
) -> None:
    server = make_server(authentication=[ByHeader()], rate_limit="50/m")
    ping(server)
    client = Client(server, version, edge)
    assert [client.call("ping").status for _ in range(50)] == [200] * 50
    refused = client.call("ping")
    assert refused.status == 429
    assert refused.headers["retry-after"] == "31"
    assert refused.code == -32000
    assert refused.error["data"] == {"retryAfter": 31}
    assert client.request("tools/list").status == 200


@pytest.fixture
def client(make_server: Callable[..., MCPServer], open_database: None) -> Client:
    return Client(make_server(authentication=[ByHeader()]), MODERN, "asgi")


def call(client: Client, user: str, name: str = "ping") -> int:
    return client.request("tools/call", {"name": name, "arguments": {}}, headers={"x-user": user}).status


def test_each_caller_is_counted_alone(client: Client) -> None:
    ping(client.server, rate_limit="1/m")
    assert [call(client, user) for user in ("ada", "ada", "ben")] == [200, 429, 200]


def test_a_tool_has_a_limit_of_its_own(client: Client) -> None:
    ping(client.server, rate_limit="1/m")
    tool(server=client.server, name="free")(lambda: "x")
    assert [call(client, "ada", name) for name in ("ping", "free", "free", "ping")] == [200, 200, 200, 429]


def test_a_new_window_begins_at_nought(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    ping(client.server, rate_limit="1/m")
    assert [call(client, "ada"), call(client, "ada")] == [200, 429]
    monkeypatch.setattr("time.time", lambda: 1_800_000_061.0)
    assert call(client, "ada") == 200


def test_what_is_hidden_is_unknown_however_often_it_is_called(client: Client) -> None:
    ping(client.server, rate_limit="1/m", permission="a.b")
    assert [call(client, "ada") for _ in range(3)] == [400, 400, 400]


@override_settings(DJANGO_MCP={"AUTHENTICATION": ["django_mcp.Public"], "RATE_LIMIT": "1/m"})
def test_the_setting_counts_for_endpoints_that_say_nothing(client: Client) -> None:
    ping(client.server)
    assert [call(client, "ada"), call(client, "ada")] == [200, 429]


@pytest.mark.parametrize("rate", ["", "60", "60/", "0/m", "-1/m", "1/w", "1 / m", "x/m"])
def test_what_is_no_rate_is_refused_in_words(make_server: Callable[..., MCPServer], rate: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="like '60/m'"):
        make_server(rate_limit=rate)


@override_settings(DJANGO_MCP={"AUTHENTICATION": ["django_mcp.Public"], "RATE_LIMIT": "often"})
def test_a_setting_that_is_no_rate_is_found_by_the_system_check() -> None:
    assert "django_mcp.E005" in [message.id for message in run_checks(tags=["django_mcp"])]


@pytest.mark.parametrize("method", ["server/discover", "initialize", "tools/list", "tools/call", "ping"])
@pytest.mark.parametrize("version", [MODERN, LEGACY])
def test_row_39_whoever_nobody_recognises_is_challenged_whatever_they_ask(
    make_server: Callable[..., MCPServer], edge: str, version: str, method: str
) -> None:
    class Nobody:
        blocking = False

        def authenticate(self, headers: Any) -> None:
            return None

    client = Client(make_server(authentication=[Nobody()]), version, edge)
    body, headers = client.compose(method, {})
    answer = client.send("POST", {"content-type": "application/json", **headers}, str(body).encode())
    assert answer.status == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")

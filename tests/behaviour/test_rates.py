"""Row 43: agents call fifty times in a breath, and are told when to call again."""

import contextvars
import datetime
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.cache import cache
from django.core.cache.backends import db
from django.core.cache.backends.locmem import LocMemCache
from django.core.checks import run_checks
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from django.db import connection
from django.test import override_settings

from django_mcp import BaseAuthentication, MCPServer, Principal, RequestHead, tool
from django_mcp.core import throttling
from django_mcp.core.throttling import RateThrottle
from django_mcp.primitives.base import parse_rate
from tests.behaviour.beside import beside
from tests.clients import LEGACY, MODERN, Client


class ByHeader(BaseAuthentication):
    """Calls everybody what they call themselves."""

    blocking = False

    def authenticate(self, head: RequestHead, server: object) -> Principal:
        return Principal("test", head.headers.get("x-user", "somebody"), None)


@pytest.fixture(autouse=True)
def no_calls_yet(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nobody has called, and no window ends in the middle of a test."""
    monkeypatch.setattr("time.time", lambda: 1_699_999_230.0)
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
    assert refused.error["message"] == "Too many calls of tools; the limit is 50 a minute. Retry after 31 s."
    assert client.request("tools/list").status == 200


@pytest.fixture
def client(make_server: Callable[..., MCPServer], open_database: None) -> Client:
    return Client(make_server(authentication=[ByHeader()]), MODERN, "asgi")


def may(rate: str) -> bool:
    return RateThrottle("requests", parse_rate(rate)).allow_request("ada")


def call(client: Client, user: str, name: str = "ping") -> int:
    return client.request("tools/call", {"name": name, "arguments": {}}, headers={"x-user": user}).status


def test_each_caller_is_counted_alone(client: Client) -> None:
    ping(client.server, rate_limit="1/m")
    assert [call(client, user) for user in ("ada", "ada", "ben")] == [200, 429, 200]


def test_a_tool_has_a_limit_of_its_own(client: Client) -> None:
    ping(client.server, rate_limit="1/m")
    tool(server=client.server, name="free")(lambda: "x")
    assert [call(client, "ada", name) for name in ("ping", "free", "free", "ping")] == [200, 200, 200, 429]


@pytest.mark.parametrize(("rate", "words"), [("1/s", "1 a second"), ("1/h", "1 an hour"), ("1/d", "1 a day")])
def test_the_refusal_names_the_tool_and_its_limit(client: Client, version: str, rate: str, words: str) -> None:
    ping(client.server, rate_limit=rate)
    client.version = version
    client.call("ping")
    assert f"Too many calls of 'ping'; the limit is {words}. Retry after" in client.call("ping").error["message"]


def test_a_new_window_begins_at_nought(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    ping(client.server, rate_limit="1/m")
    assert [call(client, "ada"), call(client, "ada")] == [200, 429]
    monkeypatch.setattr("time.time", lambda: 1_699_999_261.0)
    assert call(client, "ada") == 200


def test_what_is_hidden_is_unknown_however_often_it_is_called(client: Client) -> None:
    ping(client.server, rate_limit="1/m", permission="a.b")
    assert [call(client, "ada") for _ in range(3)] == [400, 400, 400]


@override_settings(DJANGO_MCP={"AUTHENTICATION": ["django_mcp.AllowAny"], "RATE_LIMIT": "1/m"})
def test_the_setting_counts_for_endpoints_that_say_nothing(client: Client) -> None:
    ping(client.server)
    assert [call(client, "ada"), call(client, "ada")] == [200, 429]


class AdaMayAsOftenAsSheLikes(RateThrottle):
    """A site's own class."""

    def get_cache_key(self, ident: str, principal: Principal | None) -> str | None:
        return None if principal is not None and principal.id == "ada" else super().get_cache_key("all", principal)

    def wait(self) -> int:
        return 7


@override_settings(
    DJANGO_MCP={"AUTHENTICATION": ["django_mcp.AllowAny"], "THROTTLE_CLASS": f"{__name__}.AdaMayAsOftenAsSheLikes"}
)
def test_a_site_can_count_in_a_way_of_its_own(client: Client) -> None:
    ping(client.server, rate_limit="1/m")
    assert [call(client, user) for user in ("ada", "ada", "ada", "ben", "cleo")] == [200, 200, 200, 200, 429]
    refused = client.request("tools/call", {"name": "ping", "arguments": {}}, headers={"x-user": "ben"})
    assert refused.headers["retry-after"] == "7"


def test_a_throttle_class_that_is_none_is_found_by_the_system_check(subtests: pytest.Subtests) -> None:
    for path in ("nowhere.Throttle", ".x", "", "django_mcp.MCPServer", 5):
        given = {"AUTHENTICATION": ["django_mcp.AllowAny"], "THROTTLE_CLASS": path}
        with subtests.test(path=path), override_settings(DJANGO_MCP=given):
            found = [str(each.msg) for each in run_checks(tags=["django_mcp"]) if each.id == "django_mcp.E003"]
            assert len(found) == 1
            assert "THROTTLE_CLASS" in found[0]


@pytest.fixture(params=["locmem.LocMemCache", "db.DatabaseCache", "filebased.FileBasedCache"])
def counting_cache(
    request: pytest.FixtureRequest, open_database: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """Each kind of cache that comes with Django and needs no service, with the clock of the test."""
    monkeypatch.setattr(db, "tz_now", lambda: datetime.datetime.fromtimestamp(time.time(), tz=datetime.UTC))
    location = str(tmp_path) if request.param.startswith("file") else "counting_cache"
    caches = {"default": {"BACKEND": f"django.core.cache.backends.{request.param}", "LOCATION": location}}
    with override_settings(CACHES=caches):
        call_command("createcachetable", verbosity=0)
        cache.clear()
        yield request.param
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS counting_cache")


@pytest.mark.postgresql
def test_every_cache_counts(counting_cache: str, client: Client) -> None:
    ping(client.server, rate_limit="5/d")
    assert [call(client, "ada") for _ in range(7)] == [200] * 5 + [429] * 2
    assert call(client, "ben") == 200


@pytest.mark.postgresql
def test_a_count_lasts_as_long_as_its_window(counting_cache: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Django's own ``incr`` of a database cache keeps an entry for five minutes from then on, whatever it was to be."""
    assert [may("3/d") for _ in range(3)] == [True] * 3
    monkeypatch.setattr("time.time", lambda: 1_699_999_230.0 + 3600)
    assert not may("3/d")


@pytest.mark.postgresql
@pytest.mark.parametrize("counting_cache", ["locmem.LocMemCache", "db.DatabaseCache"], indirect=True)
def test_of_many_at_once_no_more_than_allowed_are_let_through(counting_cache: str) -> None:
    barrier, allowed = threading.Barrier(8), []

    def call() -> None:
        barrier.wait()
        allowed.extend(may("10/m") for _ in range(5))

    for thread in [beside(call) for _ in range(8)]:
        thread.join()
    assert (allowed.count(True), len(allowed)) == (10, 40)


def test_while_the_cache_is_away_everybody_is_let_through_and_the_log_says_so(
    client: Client, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object, **__: object) -> None:
        raise ConnectionError("the cache is away")

    ping(client.server, rate_limit="1/m")
    with monkeypatch.context() as patch:
        patch.setattr(LocMemCache, "add", away)
        assert [call(client, "ada") for _ in range(3)] == [200] * 3
    assert {record.levelname for record in caplog.records} == {"WARNING"}
    assert "calls of 'ping' are not counted because the cache failed: ConnectionError" in caplog.text
    assert [call(client, "ada"), call(client, "ada")] == [200, 429]


def test_a_thread_has_one_cache_however_many_requests_it_serves() -> None:
    """Django has one for each context, and each request has its own: Redis would be connected to anew each time."""
    one, other = (contextvars.Context().run(throttling._cache) for _ in range(2))
    assert one is other
    with override_settings(CACHES={"default": {"BACKEND": "django.core.cache.backends.dummy.DummyCache"}}):
        assert throttling._cache() is not one


def test_what_is_no_rate_is_refused_in_words(make_server: Callable[..., MCPServer], subtests: pytest.Subtests) -> None:
    for rate in ["", "60", "60/", "0/m", "-1/m", "1/w", "1 / m", "x/m"]:
        with subtests.test(rate=rate), pytest.raises(ImproperlyConfigured, match="such as '60/m'"):
            make_server(rate_limit=rate)


@override_settings(DJANGO_MCP={"AUTHENTICATION": ["django_mcp.AllowAny"], "RATE_LIMIT": "often"})
def test_a_setting_that_is_no_rate_is_found_by_the_system_check() -> None:
    assert "django_mcp.E005" in [message.id for message in run_checks(tags=["django_mcp"])]


@pytest.mark.parametrize("method", ["server/discover", "initialize", "tools/list", "tools/call", "ping"])
@pytest.mark.parametrize("version", [MODERN, LEGACY])
def test_row_39_whoever_nobody_recognises_is_challenged_whatever_they_ask(
    make_server: Callable[..., MCPServer], edge: str, version: str, method: str
) -> None:
    class Nobody(BaseAuthentication):
        blocking = False

        def authenticate(self, head: RequestHead, server: object) -> None:
            return None

    client = Client(make_server(authentication=[Nobody()]), version, edge)
    body, headers = client.compose(method, {})
    answer = client.send("POST", {"content-type": "application/json", **headers}, str(body).encode())
    assert answer.status == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")

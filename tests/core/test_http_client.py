"""The HTTP client: names, proxies, and errors. Deadlines and addresses: ``tests/oauth/test_documents.py``."""

import os
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from django_mcp.core import http_client
from django_mcp.core.http_client import NoConnection, Resolver, send
from tests.exchange import eventually
from tests.ports import free_port


class Proxy:
    """Answers whatever it is asked.

    Attributes:
        requests: (method, target, headers) of each.
    """

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                headers = {name.lower(): value for name, value in self.headers.items()}
                proxy.requests.append((self.command, self.path, headers))
                self.send_response(200 if self.command == "GET" else 502)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"ok")

            do_GET = do_CONNECT = answer  # noqa: N815

            def log_message(self, *_: Any) -> None:
                pass

        self.http = HTTPServer(("127.0.0.1", free_port()), Handler)
        self.host = f"127.0.0.1:{self.http.server_address[1]}"


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    for name in [each for each in os.environ if each.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    made = Proxy()
    thread = threading.Thread(target=made.http.serve_forever, args=(0.01,))
    thread.start()
    yield made
    made.http.shutdown()
    made.http.server_close()
    thread.join()


def get(url: str, **options: Any) -> bytes:
    with send("GET", url, {}, timeout=5, **options) as response:
        return response.read()


def test_the_proxy_of_the_environment_is_used_with_its_login(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", f"http://ada:p%40ss@{proxy.host}")
    assert get("http://hooks.example/a?b=c") == b"ok"
    [(_, target, headers)] = proxy.requests
    assert target == "http://hooks.example/a?b=c"
    assert headers["host"] == "hooks.example"
    assert headers["proxy-authorization"] == "Basic YWRhOnBAc3M="


def test_https_goes_through_a_tunnel_of_the_proxy(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", proxy.host)
    with pytest.raises(OSError, match="502"):
        get("https://hooks.example/secret")
    assert [each[:2] for each in proxy.requests] == [("CONNECT", "hooks.example:443")]


def test_no_proxy_is_used_where_none_is_wanted_or_the_address_is_given(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = proxy.http.server_address[1]
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{free_port()}")
    assert get(f"http://hooks.example:{port}/pinned", address="127.0.0.1") == b"ok"
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert get(f"http://{proxy.host}/direct") == b"ok"
    assert [each[1] for each in proxy.requests] == ["/pinned", "/direct"]
    assert proxy.requests[0][2]["host"] == f"hooks.example:{port}"


def test_an_error_does_not_repeat_the_url(proxy: Proxy) -> None:
    for url in (
        f"http://127.0.0.1:{free_port()}/a-secret",
        "http://hooks.example:x/a-secret",
        "ftp://127.0.0.1/a-secret",
    ):
        with pytest.raises(OSError, match=r"\w") as raised:
            get(url)
        assert "a-secret" not in str(raised.value)


def test_without_time_nothing_is_sent(proxy: Proxy) -> None:
    with pytest.raises(TimeoutError), send("GET", f"http://{proxy.host}/", {}, timeout=0):
        pass
    assert proxy.requests == []


# Names


@pytest.fixture
def unanswered(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """A name server that answers nothing before the event is set, and knows no name."""
    answers = threading.Event()

    def hang(*_: Any, **__: Any) -> Any:
        answers.wait(30)
        raise socket.gaierror("Name or service not known")

    monkeypatch.setattr(http_client.socket, "getaddrinfo", hang)
    yield answers
    answers.set()


def test_a_name_that_is_not_answered_ends_at_the_deadline(proxy: Proxy, unanswered: threading.Event) -> None:
    with pytest.raises(NoConnection), send("GET", "http://hooks.example/", {}, timeout=0.05):
        pass


def test_unanswered_lookups_do_not_pile_up(unanswered: threading.Event) -> None:
    resolver = Resolver(2)
    for _ in range(2):
        with pytest.raises(TimeoutError):
            resolver.resolve("hooks.example", 443, 0.01)
    with pytest.raises(BlockingIOError):
        resolver.resolve("hooks.example", 443, 0.01)
    assert resolver.resolve("192.0.2.1", 443, 0.01) == ["192.0.2.1"], "an address needs no lookup"
    unanswered.set()
    for _ in range(2):
        eventually(lambda: resolver._places.acquire(blocking=False))


def test_a_name_without_an_address_is_no_connection(proxy: Proxy, unanswered: threading.Event) -> None:
    unanswered.set()
    with pytest.raises(NoConnection, match="no address"):
        get("http://hooks.example/")


def test_the_next_address_is_tried_if_nothing_listens_at_the_first(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    def resolve(host: str, port: int, *_: Any, **__: Any) -> list[Any]:
        addresses = ("127.0.0.2", "127.0.0.1") if host == "hooks.example" else (host,)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port)) for each in addresses]

    monkeypatch.setattr(http_client.socket, "getaddrinfo", resolve)
    assert get(f"http://hooks.example:{proxy.http.server_address[1]}/a") == b"ok"
    assert proxy.requests[0][2]["host"].startswith("hooks.example:")

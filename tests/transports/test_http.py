"""What is decided before a message is read: hosts, origins, methods, media types and sizes."""

import asyncio
import gzip
import io
import json
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.core.handlers.wsgi import WSGIRequest
from django.test import RequestFactory, override_settings

from django_mcp import BaseAuthentication, MCPServer, RequestHead, tool
from django_mcp.transports.asgi import MCPApplication
from django_mcp.transports.view import mcp_view
from tests.clients import Client, no_django, urls

PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'


@pytest.fixture(autouse=True)
def one_tool(server: MCPServer) -> None:
    tool(server=server, name="one")(lambda: "x")


def test_the_url_answers_with_and_without_a_slash(legacy: Client, subtests: pytest.Subtests) -> None:
    for append_slash in [True, False]:
        for path in ["/test/mcp", "/test/mcp/"]:
            with subtests.test(path=path, append_slash=append_slash), override_settings(APPEND_SLASH=append_slash):
                assert legacy.post(PING, path=path).status == 200


def test_other_urls_are_the_sites_own(legacy: Client, subtests: pytest.Subtests) -> None:
    for path in ["/test/mcp//", "/test", "/test/mcp/x", "/", "/TEST/MCP"]:
        with subtests.test(path=path):
            assert legacy.post(PING, path=path).status == 404


def test_other_methods_are_not_served(legacy: Client, subtests: pytest.Subtests) -> None:
    for protocol in [None, "2025-11-25", "2026-07-28"]:
        for verb in ["PUT", "PATCH", "HEAD", "TRACE"]:
            with subtests.test(verb=verb, protocol=protocol):
                answer = legacy.send(verb, {"mcp-protocol-version": protocol, "accept": "text/event-stream"})
                assert answer.status == 405
                assert answer.headers["allow"] == "POST, GET, DELETE, OPTIONS"


def test_without_a_session_there_is_nothing_but_post(legacy: Client, subtests: pytest.Subtests) -> None:
    for verb, protocol, status in [
        ("GET", None, 405),
        ("GET", "2025-11-25", 405),
        ("GET", "2026-07-28", 405),
        ("DELETE", None, 400),
        ("DELETE", "2025-11-25", 400),
        ("DELETE", "2026-07-28", 405),
    ]:
        with subtests.test(verb=verb, protocol=protocol, status=status):
            answer = legacy.send(verb, {"mcp-protocol-version": protocol, "accept": "text/event-stream"})
            assert answer.status == status
            if status == 405:
                assert answer.headers["allow"] == "POST, OPTIONS"
            else:
                assert "Mcp-Session-Id" in answer.error["message"]


def test_a_foreign_host_is_refused(legacy: Client, subtests: pytest.Subtests) -> None:
    for host in ["evil.example.com", "evil.example.com:80", "", "localhost.evil.com", "127.0.0.1@evil"]:
        with subtests.test(host=host):
            with override_settings(MIDDLEWARE=[]):  # Django's own would refuse it before us
                answer = legacy.post(PING, {"host": host})
            assert answer.status == 400
            assert "ALLOWED_HOSTS" in answer.error["message"]


def test_our_own_hosts_are_served(legacy: Client, subtests: pytest.Subtests) -> None:
    for host in ["localhost", "localhost:8000", "127.0.0.1:8000", "[::1]:8000", "LOCALHOST"]:
        with subtests.test(host=host):
            assert legacy.post(PING, {"host": host}).status == 200


FOREIGN = [
    "http://evil.example.com",
    "null",
    "https://testserver",
    "http://testserver:81",
    "http://testserver.evil.com",
    "file://",
    "",
]


def test_a_foreign_origin_is_refused_before_anything_is_read(legacy: Client, subtests: pytest.Subtests) -> None:
    for verb in ["POST", "GET", "OPTIONS"]:
        for origin in FOREIGN:
            with subtests.test(origin=origin, verb=verb):
                answer = legacy.send(verb, {"origin": origin, "content-type": "application/json"}, b"not json")
                assert answer.status == 403
                assert "ALLOWED_ORIGINS" in answer.error["message"]
                assert "access-control-allow-origin" not in answer.headers


def test_no_origin_is_no_browser_and_is_served(legacy: Client) -> None:
    answer = legacy.post(PING)
    assert answer.status == 200
    assert not [name for name in answer.headers if name.startswith("access-control")]


def test_where_a_site_does_not_know_its_address_pages_of_this_very_host_may_call(
    legacy: Client, subtests: pytest.Subtests
) -> None:
    """Its address settles it otherwise: tests/auth/test_cors.py."""
    for origin, host in [("http://testserver", "testserver"), ("http://localhost:8000", "localhost:8000")]:
        with subtests.test(origin=origin, host=host):
            with override_settings(DJANGO_MCP={"AUTHENTICATION": ["django_mcp.AllowAny"]}):
                answer = legacy.post(PING, {"origin": origin, "host": host})
            assert answer.status == 200
            assert answer.headers["access-control-allow-origin"] == origin


def test_where_any_host_is_allowed_the_host_vouches_for_no_origin(legacy: Client) -> None:
    """DNS rebinding: the attacker's name resolves to us, and Host and Origin agree."""
    with override_settings(ALLOWED_HOSTS=["*"]):
        evil = {"host": "evil.example.com", "origin": "http://evil.example.com"}
        assert legacy.post(PING, evil).status == 403


def test_configured_origins_may_call_and_read_even_the_errors(legacy: Client) -> None:
    allowed = {"AUTHENTICATION": ["django_mcp.AllowAny"], "ALLOWED_ORIGINS": ["https://inspector.example.com"]}
    with override_settings(DJANGO_MCP=allowed):
        headers = {"origin": "https://inspector.example.com"}
        for body, status in ((PING, 200), (b"{", 400), (b" " * 5_000_000, 413)):
            answer = legacy.post(body, headers)
            assert answer.status == status
            assert answer.headers["access-control-allow-origin"] == "https://inspector.example.com"
            assert "access-control-allow-credentials" not in answer.headers
            assert answer.headers["vary"] == "Origin"


def test_a_preflight_is_answered_before_anybody_is_asked_who_they_are(
    make_server: Any, edge: str, open_database: None
) -> None:
    class Nobody(BaseAuthentication):
        blocking = False

        def authenticate(self, head: RequestHead, server: object) -> None:
            return None

    server = make_server("closed", authentication=[Nobody()])
    client = Client(server, "2025-11-25", edge)
    asked = {
        "origin": django_settings.DJANGO_MCP["BASE_URL"],
        "access-control-request-method": "POST",
        "access-control-request-headers": "content-type, mcp-param-region",
    }
    answer = client.send("OPTIONS", asked)
    assert (answer.status, answer.body) == (204, b"")
    assert "POST" in answer.headers["access-control-allow-methods"]
    allowed = answer.headers["access-control-allow-headers"].lower()
    for name in ("mcp-protocol-version", "mcp-method", "authorization", "mcp-param-region", "idempotency-key"):
        assert name in allowed
    refused = client.post(b"[" * 100)
    assert refused.status == 401
    assert refused.headers["www-authenticate"]


def test_another_content_type_is_unsupported(legacy: Client, subtests: pytest.Subtests) -> None:
    """A browser sends these without asking first, so they must not reach a tool."""
    for content_type in ["text/plain", "application/x-www-form-urlencoded", "application/jsonx", None]:
        with subtests.test(content_type=content_type):
            answer = legacy.post(PING, {"content-type": content_type})
            assert answer.status == 415
            assert "application/json" in answer.error["message"]


def test_json_is_taken_with_parameters(legacy: Client, subtests: pytest.Subtests) -> None:
    for content_type in ["application/json", "Application/JSON; charset=utf-8"]:
        with subtests.test(content_type=content_type):
            assert legacy.post(PING, {"content-type": content_type}).status == 200


def test_a_client_that_takes_json_gets_json(legacy: Client, subtests: pytest.Subtests) -> None:
    for accept in [
        None,
        "*/*",
        "application/json",
        "application/*",
        "application/json, text/event-stream",
        "text/html, */*",
    ]:
        with subtests.test(accept=accept):
            answer = legacy.post(PING, {"accept": accept})
            assert answer.status == 200
            assert answer.headers["content-type"] == "application/json"


def test_a_client_that_takes_only_events_gets_one(legacy: Client, subtests: pytest.Subtests) -> None:
    for accept in ["text/event-stream", "text/*", "text/event-stream;q=1"]:
        with subtests.test(accept=accept):
            answer = legacy.post(PING, {"accept": accept})
            assert answer.status == 200
            assert answer.headers["content-type"] == "text/event-stream"
            assert answer.headers["x-accel-buffering"] == "no"
            assert answer.body == b'event: message\r\ndata: {"jsonrpc":"2.0","id":1,"result":{}}\r\n\r\n'


def test_a_client_that_takes_neither_is_told_so(legacy: Client, subtests: pytest.Subtests) -> None:
    for accept in ["text/html", "image/png, application/xml"]:
        with subtests.test(accept=accept):
            answer = legacy.post(PING, {"accept": accept})
            assert answer.status == 406
            assert "text/event-stream" in answer.error["message"]


def test_a_body_over_the_limit_is_refused(legacy: Client) -> None:
    small = {"AUTHENTICATION": ["django_mcp.AllowAny"], "MAX_BODY_BYTES": len(PING)}
    with override_settings(DJANGO_MCP=small):
        assert legacy.post(PING).status == 200
        answer = legacy.post(PING + b" ")
        assert answer.status == 413
        assert f"exceeds {len(PING)} bytes" in answer.error["message"]


def test_a_body_larger_than_djangos_form_limit_is_still_read(legacy: Client) -> None:
    with override_settings(DATA_UPLOAD_MAX_MEMORY_SIZE=10):
        assert legacy.post(PING).status == 200


@pytest.mark.parametrize("length", ["4194305", "9" * 5000, None, "banana", "-5"])
def test_no_more_than_the_limit_is_read(server: MCPServer, length: str | None) -> None:
    """Ten chunks of a mebibyte are on offer; nothing is taken when the length says so, else five."""
    taken = 0

    async def receive() -> dict[str, Any]:
        nonlocal taken
        taken += 1
        assert taken <= 10
        return {"type": "http.request", "body": b" " * 2**20, "more_body": True}

    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    headers = [(b"host", b"testserver"), (b"content-type", b"application/json")]
    if length is not None:
        headers.append((b"content-length", length.encode()))
    scope = {"type": "http", "method": "POST", "path": "/test/mcp", "headers": headers, "scheme": "http"}
    asyncio.run(MCPApplication(no_django)(scope, receive, send))
    assert sent[0]["status"] == 413
    assert taken == (0 if length in {"4194305", "9" * 5000} else 5)


def test_a_body_in_many_chunks_is_one_body(server: MCPServer) -> None:
    chunks = [PING[:5], b"", PING[5:20], PING[20:]]
    messages = [{"type": "http.request", "body": chunk, "more_body": number < 3} for number, chunk in enumerate(chunks)]
    sent = run(messages)
    assert json.loads(sent[1]["body"]) == {"jsonrpc": "2.0", "id": 1, "result": {}}


def test_a_client_that_leaves_before_its_body_ends_gets_nothing(server: MCPServer) -> None:
    assert run([{"type": "http.request", "body": PING[:5], "more_body": True}, {"type": "http.disconnect"}]) == []


def run(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    incoming = iter(messages)
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return next(incoming)

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    headers = [(b"host", b"testserver"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": "/test/mcp", "headers": headers, "scheme": "http"}
    asyncio.run(MCPApplication(no_django)(scope, receive, send))
    return sent


def test_in_development_loopback_needs_no_setting(legacy: Client) -> None:
    with override_settings(DEBUG=True, ALLOWED_HOSTS=[], MIDDLEWARE=[]):
        for host, status in (("localhost:8000", 200), ("127.0.0.1", 200), ("[::1]", 200), ("evil.example.com", 400)):
            assert legacy.post(PING, {"host": host}).status == status
    with override_settings(DEBUG=False, ALLOWED_HOSTS=[], MIDDLEWARE=[]):
        assert legacy.post(PING, {"host": "localhost:8000"}).status == 400


def test_a_compressed_body_is_refused_with_what_would_be_right(legacy: Client, subtests: pytest.Subtests) -> None:
    for encoding in ["gzip", "br", "identity, gzip"]:
        with subtests.test(encoding=encoding):
            answer = legacy.post(gzip.compress(b"{}"), {"content-encoding": encoding})
            assert answer.status == 415
            assert "Content-Encoding" in answer.error["message"]
            assert answer.headers["accept-encoding"] == "identity"
    body, headers = legacy.compose("ping", {})
    assert legacy.post(json.dumps(body).encode(), {**headers, "content-encoding": "identity"}).status == 200


def chunked(server: MCPServer, body: bytes, **environ: Any) -> tuple[int, Any]:
    """POST a body without Content-Length to the view, as a WSGI server hands it on."""
    own = {"HTTP_TRANSFER_ENCODING": "chunked", "wsgi.input": io.BytesIO(body), "CONTENT_TYPE": "application/json"}
    with urls(server):
        request = RequestFactory().post(f"/{server.path}", b"", content_type="application/json")
        made = {**request.META, **own, **environ}
        made.pop("CONTENT_LENGTH", None)
        response = mcp_view(server)(WSGIRequest(made))
    return response.status_code, json.loads(response.content)


def test_a_chunked_body_under_wsgi_is_read_where_the_server_ends_it(server: MCPServer, open_database: None) -> None:
    """gunicorn and mod_wsgi say so; Django reads nothing without Content-Length."""
    body = json.dumps({"jsonrpc": "2.0", "id": 5, "method": "ping"}).encode()
    assert chunked(server, body, **{"wsgi.input_terminated": True}) == (200, {"jsonrpc": "2.0", "id": 5, "result": {}})
    with override_settings(DJANGO_MCP={"AUTHENTICATION": ["django_mcp.AllowAny"], "MAX_BODY_BYTES": 20}):
        assert chunked(server, body, **{"wsgi.input_terminated": True})[0] == 413


def test_a_chunked_body_under_wsgi_needs_a_length_where_the_server_does_not_end_it(
    server: MCPServer, open_database: None
) -> None:
    status, answer = chunked(server, b"{}")
    assert status == 411
    assert "Content-Length" in answer["error"]["message"]

"""A client in the same process, for each protocol version and each edge.

It sends what real clients send, and has the referee look at all that comes back.
"""

import asyncio
import json
import sys
import types
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from django.core.handlers.asgi import ASGIHandler
from django.test import Client as DjangoClient
from django.test import override_settings
from django.urls import clear_url_caches, re_path

from django_mcp import MCPServer
from django_mcp.transports.asgi import MCPApplication
from django_mcp.transports.view import mcp_view
from tests import referee

MODERN = "2026-07-28"
LEGACY = "2025-11-25"
META = "io.modelcontextprotocol/"
EDGES = ("asgi", "view", "view under asgi")
NAMED_BY = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}


@dataclass
class Answer:
    """An HTTP answer, its headers by lower-case name."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def result(self) -> dict[str, Any]:
        assert "result" in self.json, self.json
        return self.json["result"]

    @property
    def error(self) -> dict[str, Any]:
        assert "error" in self.json, self.json
        return self.json["error"]

    @property
    def code(self) -> int:
        return self.error["code"]

    @property
    def text(self) -> str:
        """The text of a tool's result."""
        return "\n".join(block["text"] for block in self.result["content"] if block["type"] == "text")


@dataclass
class Client:
    """One way to reach *server*: a protocol version over an edge, one of ``EDGES``."""

    server: MCPServer
    version: str
    edge: str
    host: str = "testserver"
    ids: Iterator[int] = field(default_factory=lambda: iter(range(1, 1_000_000)))

    @property
    def is_modern(self) -> bool:
        return self.version == MODERN

    def request(self, method: str, params: Any = None, *, headers: Mapping[str, str | None] | None = None) -> Answer:
        """Send a request as a client of this version does; *headers* replace or (None) remove its own."""
        body, own = self.compose(method, params or {})
        answer = self.post(json.dumps(body).encode(), {**own, **(headers or {})})
        if answer.body:
            referee.check(answer.json, method, self.version)
            assert answer.json["id"] == body["id"]
        return answer

    def compose(self, method: str, params: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
        headers = {"mcp-protocol-version": self.version}
        if method == "initialize" and not self.is_modern:
            headers = {}
        if self.is_modern:
            meta = {
                META + "protocolVersion": MODERN,
                META + "clientInfo": {"name": "tests", "version": "1"},
                META + "clientCapabilities": {},
            }
            params = {**params, "_meta": {**meta, **params.get("_meta", {})}}
            headers["mcp-method"] = method
            if (named_by := NAMED_BY.get(method)) in params:
                headers["mcp-name"] = str(params[named_by])
        return {"jsonrpc": "2.0", "id": next(self.ids), "method": method, "params": params}, headers

    def call(self, name: str, /, **arguments: Any) -> Answer:
        return self.request("tools/call", {"name": name, "arguments": arguments})

    def as_sent(self, value: Any) -> Any:
        """A value as structured content of this version; older ones take only objects."""
        return value if self.is_modern or isinstance(value, dict) else {"result": value}

    def list(self, method: str) -> list[dict[str, Any]]:
        """All pages of a list."""
        entries: list[dict[str, Any]] = []
        params: dict[str, Any] = {}
        for _ in range(1000):
            result = self.request(method, params).result
            member = next(key for key in ("tools", "resources", "resourceTemplates", "prompts") if key in result)
            entries += result[member]
            if "nextCursor" not in result:
                return entries
            params = {"cursor": result["nextCursor"]}
        raise AssertionError("the list does not end")

    def post(self, body: bytes, headers: Mapping[str, str | None] | None = None, path: str | None = None) -> Answer:
        """Send bytes, with the headers every client sends; None removes one."""
        own = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
        return self.send("POST", {**own, **(headers or {})}, body, path)

    def send(self, verb: str, headers: Mapping[str, str | None], body: bytes = b"", path: str | None = None) -> Answer:
        given = {name.lower(): value for name, value in headers.items() if value is not None}
        given.setdefault("host", self.host)
        send = {"asgi": self._by_asgi, "view": self._by_view, "view under asgi": self._by_view_under_asgi}[self.edge]
        return send(verb, path or f"/{self.server.path}", given, body)

    def _by_asgi(self, verb: str, path: str, headers: dict[str, str], body: bytes) -> Answer:
        return asyncio.run(exchange(MCPApplication(no_django), verb, path, headers, body))

    def _by_view(self, verb: str, path: str, headers: dict[str, str], body: bytes) -> Answer:
        with urls(self.server):
            content_type = headers.pop("content-type", "")
            response = DjangoClient(raise_request_exception=True).generic(
                verb, path, body, content_type=content_type, headers=headers, CONTENT_TYPE=content_type
            )
        return Answer(response.status_code, {name.lower(): value for name, value in response.items()}, response.content)

    def _by_view_under_asgi(self, verb: str, path: str, headers: dict[str, str], body: bytes) -> Answer:
        with urls(self.server):
            return asyncio.run(exchange(ASGIHandler(), verb, path, headers, body))


async def no_django(scope: Any, receive: Any, send: Any) -> None:
    """What stands in for Django's own application: a 404."""
    await send({"type": "http.response.start", "status": 404, "headers": []})
    await send({"type": "http.response.body", "body": b"this is Django"})


async def exchange(
    application: Any, verb: str, path: str, headers: Mapping[str, str], body: bytes, root_path: str = ""
) -> Answer:
    """One request to an ASGI application; *root_path* as of ``uvicorn --root-path``, which puts it before the path."""
    path = root_path + path
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": verb,
        "scheme": "http",
        "path": urlsplit(path).path,
        "root_path": root_path,
        "raw_path": path.encode(),
        "query_string": urlsplit(path).query.encode(),
        "headers": [
            (name.lower().encode(), value.encode("latin-1"))
            for name, value in {"content-length": str(len(body)), **headers}.items()
        ],
        "server": ("testserver", 80),
        "client": ("127.0.0.1", 12345),
    }
    sent: list[dict[str, Any]] = []
    incoming = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def receive() -> dict[str, Any]:
        for message in incoming:
            return message
        return await asyncio.get_running_loop().create_future()  # the client stays until it has its answer

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await application(scope, receive, send)
    start, *parts = sent
    names = {name.decode().lower(): value.decode() for name, value in start["headers"]}
    return Answer(start["status"], names, b"".join(part.get("body", b"") for part in parts))


@contextmanager
def urls(server: MCPServer) -> Iterator[None]:
    """A URLconf with the one endpoint, as ``include("django_mcp.urls")`` makes it."""
    module = types.ModuleType("tests.urlconf_of_one_endpoint")
    module.urlpatterns = [re_path(rf"^{server.path}/?$", mcp_view(server))]
    sys.modules[module.__name__] = module
    with override_settings(ROOT_URLCONF=module.__name__):
        clear_url_caches()
        yield
    clear_url_caches()

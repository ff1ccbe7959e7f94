"""Requests as bytes on the wire, and what makes an answer to one of them right.

A *shape* is one kind of request. Its requests are encoded before the clock starts, and differ in their ids and
arguments, so that no server can answer from memory and no answer can be mistaken for another one's.
"""

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from benchmarks.catalogue import TOOLS
from benchmarks.credentials import KEYS, SESSION

MODERN = "2026-07-28"
LEGACY = "2025-11-25"
FULL = "/full/mcp"
"""Path of the endpoint that asks for a key, looks at policies and keeps a log."""
_FIRST_ID = 1_000_000  # long enough not to occur by chance in an answer


class Request(NamedTuple):
    """One request, ready to be sent."""

    encoded: bytes
    id: int
    total: int  # what the tool must answer; 0 for a list


Check = Callable[[bytes, Request], str | None]
"""Says what is wrong with an answer's body, or None."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A kind of request: its protocol version, method and the tool it calls, if any.

    Attributes:
        path: of the endpoint. At the one that wants to know who calls, requests carry an API key.
        in_session: they name a session as well.
        keys: how many API keys the requests have, in turn.
        structured: the answer's structured content is looked at; not every package sends one for a number.
    """

    version: str
    method: str
    tool: str | None = None
    path: str = "/mcp"
    in_session: bool = False
    keys: int = 1
    structured: bool = True

    def requests(self, count: int, host: str, seed: int = 0) -> list[Request]:
        """Return ``count`` different requests."""
        numbers = random.Random(seed)
        return [
            self._request(_FIRST_ID + i, numbers.randrange(10**6), numbers.randrange(10**6), host) for i in range(count)
        ]

    def _request(self, request_id: int, a: int, b: int, host: str) -> Request:
        params: dict[str, Any] = {}
        headers = [
            f"POST {self.path} HTTP/1.1",
            f"Host: {host}",
            "Content-Type: application/json",
            "Accept: application/json, text/event-stream",
            f"MCP-Protocol-Version: {self.version}",
        ]
        if self.path == FULL:
            headers.append(f"Authorization: Bearer {KEYS[request_id % self.keys]}")
        if self.in_session:
            headers.append(f"Mcp-Session-Id: {SESSION}")
        if self.tool:
            params |= {"name": self.tool, "arguments": {"a": a, "b": b}}
        if self.version == MODERN:
            headers.append(f"Mcp-Method: {self.method}")
            if self.tool:
                headers.append(f"Mcp-Name: {self.tool}")
            params["_meta"] = {
                "io.modelcontextprotocol/protocolVersion": MODERN,
                "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {},
            }
        message = {"jsonrpc": "2.0", "id": request_id, "method": self.method, "params": params}
        body = json.dumps(message, separators=(",", ":")).encode()
        head = "\r\n".join([*headers, f"Content-Length: {len(body)}", "", ""]).encode()
        return Request(head + body, request_id, a + b if self.tool else 0)

    def check(self) -> Check:
        """Return a new check of answers to this shape's requests."""
        if not self.tool:
            return ListCheck(len(TOOLS))
        return check_call if self.structured else check_text


def check_text(body: bytes, request: Request) -> str | None:
    """Say what is wrong with the answer to an addition: its id and its text must be right."""
    return check_call(body, request, structured=False)


def check_call(body: bytes, request: Request, *, structured: bool = True) -> str | None:
    """Say what is wrong with the answer to an addition: its id, its text and its structure must be right."""
    try:
        answer = json.loads(body)
        result = answer["result"]
        if answer["id"] != request.id:
            return f"id {request.id} was answered as {answer['id']}"
        right = (
            answer["jsonrpc"] == "2.0"
            and not result.get("isError")
            and result["content"] == [{"type": "text", "text": str(request.total)}]
            and (not structured or result["structuredContent"] in ({"result": request.total}, request.total))
        )
    except (ValueError, LookupError, TypeError, AttributeError):
        right = False
    return None if right else f"expected the sum {request.total}, got {body[:300]!r}"


class ListCheck:
    """Checks answers to ``tools/list`` without becoming the bottleneck.

    Parsing 50 tools takes longer than a fast server takes to send them. So one answer is parsed and
    checked in full, and after that an answer is right when it has the same bytes around its own id.
    """

    def __init__(self, tools: int) -> None:
        self._tools = tools
        self._around_id: tuple[bytes, bytes] | None = None

    def __call__(self, body: bytes, request: Request) -> str | None:
        """Say what is wrong with the answer: its id, or the number of tools and the two that matter."""
        request_id = b"%d" % request.id
        if self._around_id and body == request_id.join(self._around_id):
            return None
        try:
            answer = json.loads(body)
            names = {tool["name"] for tool in answer["result"]["tools"] if tool["inputSchema"]}
            if answer["id"] != request.id:
                return f"id {request.id} was answered as {answer['id']}"
        except (ValueError, LookupError, TypeError):
            return f"expected a list of tools, got {body[:300]!r}"
        if len(names) != self._tools or not {"add", "aadd"} <= names:
            return f"expected {self._tools} tools with add and aadd, got {len(names)}"
        before, found, after = body.partition(request_id)
        if found and request_id not in after:
            self._around_id = before, after
        return None


SHAPES: dict[str, Shape] = {
    "modern-add": Shape(MODERN, "tools/call", "add"),
    "modern-aadd": Shape(MODERN, "tools/call", "aadd"),
    "modern-list": Shape(MODERN, "tools/list"),
    "legacy-add": Shape(LEGACY, "tools/call", "add"),
    "legacy-aadd": Shape(LEGACY, "tools/call", "aadd"),
    "modern-add-slash": Shape(MODERN, "tools/call", "add", "/mcp/"),
    "modern-add-slash-text": Shape(MODERN, "tools/call", "add", "/mcp/", structured=False),
    "full-modern-add": Shape(MODERN, "tools/call", "add", FULL),
    "full-modern-add-keys": Shape(MODERN, "tools/call", "add", FULL, keys=len(KEYS)),
    "full-modern-aadd": Shape(MODERN, "tools/call", "aadd", FULL),
    "full-legacy-add": Shape(LEGACY, "tools/call", "add", FULL, in_session=True),
}

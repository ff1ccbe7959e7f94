"""The kinds of stream: what opens one, what shows that it is open, and what makes the server tell all of them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.process import HOST
from benchmarks.shapes import LEGACY, MODERN

META = "io.modelcontextprotocol/"
SESSION = b"$SESSION"
"""Stands in a request for the id of the session that the first answer named."""
LONG = "bench://" + "long/" * 400
"""A resource with a name of two kilobytes, so that a few thousand notifications are more than a socket holds."""
LIST_CHANGED = "tools/list_changed"
UPDATED = "resources/updated"


@dataclass(frozen=True, slots=True)
class Kind:
    """A way to hold a stream.

    Attributes:
        requests: sent one after the other on one connection; the last one's answer is the stream.
        opened: what the stream says first.
        tell: for each word that streams can be told, the request that has it told to all.
    """

    name: str
    requests: tuple[bytes, ...]
    opened: bytes
    tell: Mapping[str, bytes]


def post(port: int, message: Mapping[str, Any], headers: Mapping[str, str]) -> bytes:
    """A POST of a message."""
    body = json.dumps(message, separators=(",", ":")).encode()
    own = {
        "Host": f"{HOST}:{port}",
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "Content-Length": str(len(body)),
    }
    lines = ["POST /mcp HTTP/1.1", *(f"{name}: {value}" for name, value in {**own, **headers}.items()), "", ""]
    return "\r\n".join(lines).encode() + body


def modern(port: int, method: str, params: Mapping[str, Any], name: str = "") -> bytes:
    """A request of 2026-07-28."""
    meta = {
        META + "protocolVersion": MODERN,
        META + "clientInfo": {"name": "bench", "version": "1"},
        META + "clientCapabilities": {},
    }
    headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": method, **({"Mcp-Name": name} if name else {})}
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
    return post(port, message, headers)


def call(port: int, tool: str, **arguments: Any) -> bytes:
    """A call of a tool."""
    return modern(port, "tools/call", {"name": tool, "arguments": arguments}, tool)


def listening(port: int, *, uri: str | None = None) -> Kind:
    """``subscriptions/listen``, to changes of the list of tools, or of a resource."""
    asked: dict[str, Any] = {"toolsListChanged": True} if uri is None else {"resourceSubscriptions": [uri]}
    request = modern(port, "subscriptions/listen", {"notifications": asked})
    return Kind("subscriptions/listen, 2026-07-28", (request,), b"acknowledged", _told(port))


def in_session(port: int) -> Kind:
    """The GET stream of a session, one for each stream."""
    client = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
    hello = post(port, {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": client}, {})
    session = {"MCP-Protocol-Version": LEGACY, "Mcp-Session-Id": SESSION.decode()}
    initialized = post(port, {"jsonrpc": "2.0", "method": "notifications/initialized"}, session)
    lines = (f"{name}: {value}" for name, value in session.items())
    get = "\r\n".join(["GET /mcp HTTP/1.1", f"Host: {HOST}:{port}", "Accept: text/event-stream", *lines, "", ""])
    return Kind("GET in a session, 2025-11-25", (hello, initialized, get.encode()), b"id: changes.", _told(port))


def bare(port: int) -> Kind:
    """An application that holds a stream and does nothing else."""
    return Kind(
        "bare ASGI application",
        (modern(port, "subscriptions/listen", {"notifications": {}}),),
        b"acknowledged",
        {LIST_CHANGED: call(port, "announce")},
    )


def of_sdk(port: int) -> Kind:
    """The official SDK's ``subscriptions/listen``. Nothing of its site tells anything."""
    return Kind("official SDK, 2026-07-28", listening(port).requests, b"acknowledged", {})


def _told(port: int) -> dict[str, bytes]:
    return {LIST_CHANGED: call(port, "announce"), UPDATED: call(port, "announce_updates", uri=LONG, times=1)}

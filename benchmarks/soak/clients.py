"""Requests of both eras, as real clients send them."""

import itertools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from benchmarks.credentials import KEY
from benchmarks.shapes import LEGACY, MODERN
from benchmarks.soak.wire import Reply, send

PATH = "/soak/mcp"
META = "io.modelcontextprotocol/"
NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri", "tasks/get": "taskId"}
CLIENT = {"name": "soak", "version": "1"}
ids = itertools.count(1)
"""Request ids, never the same twice."""

BASE = {
    "Accept": "application/json, text/event-stream",
    "Content-Type": "application/json",
    "Authorization": f"Bearer {KEY}",
}


def encoded(message: Mapping[str, Any]) -> bytes:
    """A JSON-RPC message as bytes."""
    return json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode()


def accepted(value: str) -> dict[str, Any]:
    """A form, filled in."""
    return {"action": "accept", "content": {"value": value}}


class Modern:
    """2026-07-28: everything is in each request, so there is nothing to keep."""

    revision = "modern"

    def compose(self, method: str, params: Mapping[str, Any]) -> tuple[dict[str, str], bytes]:
        """Headers and body of a request."""
        meta = {
            META + "protocolVersion": MODERN,
            META + "clientInfo": CLIENT,
            META + "clientCapabilities": {"elicitation": {}},
            **params.get("_meta", {}),
        }
        headers = {**BASE, "MCP-Protocol-Version": MODERN, "Mcp-Method": method}
        if (named_by := NAMED_BY.get(method)) is not None:
            headers["Mcp-Name"] = str(params[named_by])
        return headers, encoded({"id": next(ids), "method": method, "params": {**params, "_meta": meta}})

    async def request(self, port: int, method: str, params: Mapping[str, Any]) -> Reply:
        """Send one."""
        return await send(port, "POST", PATH, *self.compose(method, params))


@dataclass
class Legacy:
    """2025-11-25: a session, if there is one."""

    session: str = ""
    revision: str = field(default="legacy", init=False)

    @property
    def headers(self) -> dict[str, str]:
        """Those of each request."""
        own = {**BASE, "MCP-Protocol-Version": LEGACY}
        return {**own, "Mcp-Session-Id": self.session} if self.session else own

    async def post(self, port: int, message: Mapping[str, Any]) -> Reply:
        """Send a message."""
        return await send(port, "POST", PATH, self.headers, encoded(message))

    async def request(self, port: int, method: str, params: Mapping[str, Any]) -> Reply:
        """Send a request."""
        return await self.post(port, {"id": next(ids), "method": method, "params": dict(params)})

    async def initialize(self, port: int) -> Reply:
        """Shake hands; the answer's header has the session."""
        params = {"protocolVersion": LEGACY, "capabilities": {"elicitation": {}}, "clientInfo": CLIENT}
        return await send(
            port, "POST", PATH, BASE, encoded({"id": next(ids), "method": "initialize", "params": params})
        )

    async def listen(self, port: int, last_event_id: str | None = None) -> Reply:
        """GET: the stream that an event id is of, else that of changes."""
        given = {} if last_event_id is None else {"Last-Event-ID": last_event_id}
        return await send(port, "GET", PATH, {**self.headers, **given})

    async def end(self, port: int) -> Reply:
        """DELETE."""
        return await send(port, "DELETE", PATH, self.headers)


Client = Modern | Legacy


def call_of(name: str, arguments: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """The params of a ``tools/call``."""
    return {"name": name, "arguments": dict(arguments), **more}

"""Two small clients, one for each era, that can do no more than read lists."""

import json
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any

LEGACY = "2025-11-25"
MODERN = "2026-07-28"
META = "io.modelcontextprotocol/"
CLIENT = {"name": "conformance-harness", "version": "1"}
WITHIN = 10.0
"""Seconds for one answer."""
MAX_PAGES = 100


class WireError(Exception):
    """The server answered something else than was asked for."""


class Legacy:
    """A client with a handshake, and with a session where the server makes one."""

    version = LEGACY

    def __init__(self, url: str) -> None:
        self.url = url
        self.headers = {"mcp-protocol-version": LEGACY}
        params = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": CLIENT}
        headers, _ = post(url, request("initialize", params), {})
        if session := headers.get("mcp-session-id"):
            self.headers["mcp-session-id"] = session
        post(url, {"jsonrpc": "2.0", "method": "notifications/initialized"}, self.headers)

    def list(self, method: str, member: str) -> list[dict[str, Any]]:
        """All entries of a list, which are in *member* of the results."""
        return pages(lambda params: post(self.url, request(method, params), self.headers)[1], member)

    def close(self) -> None:
        """End the session; the server may leave that to itself."""
        if "mcp-session-id" in self.headers:
            send(urllib.request.Request(self.url, headers=self.headers, method="DELETE"))


class Modern:
    """A client that says everything in each request."""

    version = MODERN

    def __init__(self, url: str) -> None:
        self.url = url

    def list(self, method: str, member: str) -> list[dict[str, Any]]:
        """All entries of a list, which are in *member* of the results."""
        headers = {"mcp-protocol-version": MODERN, "mcp-method": method}
        meta = {META + "protocolVersion": MODERN, META + "clientInfo": CLIENT, META + "clientCapabilities": {}}
        return pages(lambda params: post(self.url, request(method, {**params, "_meta": meta}), headers)[1], member)

    def close(self) -> None:
        """There is nothing to close."""


def pages(ask: Callable[[dict[str, Any]], dict[str, Any]], member: str) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = []
    params: dict[str, Any] = {}
    for _ in range(MAX_PAGES):
        answer = ask(params)
        if member not in answer.get("result", ()):
            raise WireError(f"there are no {member} in {answer}")
        entries += answer["result"][member]
        if "nextCursor" not in answer["result"]:
            return entries
        params = {"cursor": answer["result"]["nextCursor"]}
    raise WireError(f"the list of {member} does not end")


def request(method: str, params: Mapping[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": dict(params)}


def post(url: str, message: Mapping[str, Any], headers: Mapping[str, str]) -> tuple[Mapping[str, str], dict[str, Any]]:
    """Send a message; the answer's headers, and its last message."""
    own = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    return send(urllib.request.Request(url, json.dumps(message).encode(), {**own, **headers}))


def send(prepared: urllib.request.Request) -> tuple[Mapping[str, str], dict[str, Any]]:
    try:
        with urllib.request.urlopen(prepared, timeout=WITHIN) as answer:
            headers, body = answer.headers, answer.read().decode()
    except urllib.error.HTTPError as error:  # says no, in words that are worth reading too
        with error:
            headers, body = error.headers, error.read().decode()
    except (OSError, ValueError) as error:
        raise WireError(f"{prepared.full_url} does not answer: {error}") from error
    if headers.get_content_type() == "text/event-stream":
        lines = [line[5:].strip() for line in body.splitlines() if line.startswith("data:")]
        body = next((line for line in reversed(lines) if line), "")
    try:
        return headers, json.loads(body) if body.strip() else {}
    except ValueError:
        raise WireError(f"{prepared.full_url} answered no JSON: {body[:300]!r}") from None

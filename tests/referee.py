"""Every message the server sends in any test passes here: ``mcp-types`` says whether it is right."""

import re
from collections.abc import Iterator
from typing import Any

from mcp_types import methods
from mcp_types.jsonrpc import JSONRPCError, JSONRPCResponse

MODERN = "2026-07-28"
CACHEABLE = {
    "server/discover",
    "tools/list",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "prompts/list",
}


URI = re.compile(r"[a-zA-Z][\w+.-]*:([\w.~:/?#\[\]@!$&'()*+,;=-]|%[0-9a-fA-F]{2})*", re.ASCII)


def uris(value: Any) -> Iterator[str]:
    """What stands under ``uri``, ``src`` and ``websiteUrl`` anywhere; mcp-types does not look at formats."""
    if isinstance(value, dict):
        for key, member in value.items():
            if key in {"structuredContent", "_meta", "inputSchema", "outputSchema"}:
                continue
            if key in {"uri", "src", "websiteUrl"} and isinstance(member, str):
                yield member
            yield from uris(member)
    elif isinstance(value, list):
        for member in value:
            yield from uris(member)


def check(message: dict[str, Any], method: str, version: str) -> None:
    """Raise unless *message* is a right answer to *method* in *version*."""
    if "error" in message:
        assert message.get("id", 0) is not None, "an error leaves an unreadable id out; it is never null"
        JSONRPCError.model_validate({"id": None, **message})
        assert message["error"]["message"]
        return
    JSONRPCResponse.model_validate(message)
    result = message["result"]
    if method == "server/discover":
        version = MODERN  # answered to every client, always in this shape
    methods.validate_server_result(method, version, result)
    for uri in uris(result):
        assert URI.fullmatch(uri), f"{uri!r} is no URI, which the specification's JSON Schema wants here"
    if version == MODERN:
        assert result["resultType"] == "complete"
        server_info = result["_meta"]["io.modelcontextprotocol/serverInfo"]
        assert server_info["name"]
        assert server_info["version"]
        if method in CACHEABLE:
            assert type(result["ttlMs"]) is int
            assert result["ttlMs"] >= 0
            assert result["cacheScope"] in {"public", "private"}

"""What the schemas of server cards and of ``server.json`` ask of the members that an endpoint has, as JSON Schemas.

Written from ``schema.json`` of ``modelcontextprotocol/experimental-ext-server-card`` (2026-07-24) and the registry's
``schemas/2025-12-11/server.schema.json``. Both give the members named here these types, patterns and lengths.
"""

from typing import Any

from django_mcp.listing.documents import CARD_SCHEMA, REGISTRY_SCHEMA

_INPUT = {
    "type": "object",
    "properties": {
        "value": {"type": "string"},
        "isRequired": {"type": "boolean"},
        "isSecret": {"type": "boolean"},
    },
}
_HEADER = {
    "type": "object",
    "required": ["name"],
    "properties": {
        **_INPUT["properties"],  # type: ignore[dict-item]
        "name": {"type": "string"},
        "variables": {"type": "object", "additionalProperties": _INPUT},
    },
    "additionalProperties": False,
}
_REMOTE = {
    "type": {"enum": ["streamable-http", "sse"]},
    "url": {"type": "string", "pattern": r"^https?://[^\s]+$"},
    "headers": {"type": "array", "items": _HEADER},
}
_ICON = {
    "src": {"type": "string", "format": "uri"},
    "mimeType": {"type": "string"},
    "sizes": {"type": "array", "items": {"type": "string"}},
    "theme": {"enum": ["light", "dark"]},
}
_REGISTRY_ICON = {
    **_ICON,
    "src": {"type": "string", "pattern": "^https://", "maxLength": 255},
    "mimeType": {"enum": ["image/png", "image/jpeg", "image/jpg", "image/svg+xml", "image/webp"]},
    "sizes": {"type": "array", "items": {"type": "string", "pattern": r"^(\d+x\d+|any)$"}},
}


def _closed(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def _server(schema: str, remote: dict[str, Any], icon: dict[str, Any]) -> dict[str, Any]:
    members = {
        "$schema": {"const": schema},
        "name": {
            "type": "string",
            "minLength": 3,
            "maxLength": 200,
            "pattern": "^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$",
        },
        "title": {"type": "string", "minLength": 1, "maxLength": 100},
        "description": {"type": "string", "minLength": 1, "maxLength": 100},
        "version": {"type": "string", "maxLength": 255},
        "websiteUrl": {"type": "string", "format": "uri"},
        "icons": {"type": "array", "items": _closed(icon, "src")},
        "remotes": {"type": "array", "items": _closed(remote, "type", "url")},
    }
    return _closed(members, "$schema", "name", "description", "version")


SERVER_CARD = _server(
    CARD_SCHEMA, {**_REMOTE, "supportedProtocolVersions": {"type": "array", "items": {"type": "string"}}}, _ICON
)
SERVER_JSON = _server(REGISTRY_SCHEMA, _REMOTE, _REGISTRY_ICON)

"""Public documents about endpoints: server cards and catalogs (SEP-2127), and ``server.json`` of the MCP registry.

They name no tools, resources or prompts. Server cards and catalogs follow ``docs/discovery.md`` of
``modelcontextprotocol/experimental-ext-server-card``; ``server.json`` follows the registry's schema of 2025-12-11.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from django.urls import URLPattern, re_path

from django_mcp.auth.api_keys import takes_keys
from django_mcp.auth.base import AllowAny, authenticators
from django_mcp.auth.protected_resource import base_url, has_metadata, path_of
from django_mcp.conf import settings
from django_mcp.core.server import MCPServer, servers
from django_mcp.protocol.versions import SUPPORTED
from django_mcp.transports.resource_metadata import public_document

CARD_SCHEMA = "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json"
REGISTRY_SCHEMA = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
MAX_DESCRIPTION = MAX_TITLE = 100
NAME = re.compile(r"(?=.{3,200}\Z)[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+")
AUTH_RECORD = re.compile(r"v=MCPv1; k=(ed25519|ecdsap384); p=[A-Za-z0-9+/]+=*")
"""``MCP_REGISTRY_AUTH``: the public key with which the registry checks who owns a domain."""
_MAX_ICON_URL = 255
_ICON_TYPES = ("image/png", "image/jpeg", "image/jpg", "image/svg+xml", "image/webp")
_ICON_SIZE = re.compile(r"\d+x\d+|any")
_CARD_SUFFIX = "/server-card"
_HOUR = 3600


def registry_name(server: MCPServer) -> str:
    """Return the name of an endpoint in reverse-DNS form, such as ``com.example.travel/booking``.

    Raises:
        ImproperlyConfigured: ``BASE_URL`` is missing.
    """
    if server.registry_name is not None:
        return server.registry_name
    host = urlsplit(base_url()).hostname or ""
    name = re.sub(r"[^a-zA-Z0-9._-]+", "-", str(server.implementation["name"]))
    return f"{'.'.join(reversed(host.split('.')))}/{name}"


def server_card(server: MCPServer) -> dict[str, Any]:
    """Return the server card of an endpoint.

    Raises:
        ImproperlyConfigured: ``BASE_URL`` is missing.
    """
    described = _described(server, for_registry=False)
    remote = {**_remote(server), "supportedProtocolVersions": list(SUPPORTED)}
    return {"$schema": CARD_SCHEMA, **described, "remotes": [remote]}


def server_json(server: MCPServer) -> dict[str, Any]:
    """Return the ``server.json`` with which an endpoint is published to the MCP registry.

    Raises:
        ImproperlyConfigured: ``BASE_URL`` is missing.
    """
    return {"$schema": REGISTRY_SCHEMA, **_described(server, for_registry=True), "remotes": [_remote(server)]}


def ai_catalog() -> dict[str, Any]:
    entries = []
    for server in listed_servers():
        namespace, _, name = registry_name(server).partition("/")
        publisher = ".".join(reversed(namespace.split(".")))
        identifier = f"urn:air:{publisher}:mcp:{name}"
        entries.append({"identifier": identifier, "type": "application/mcp-server-card+json", "url": _card_url(server)})
    return {"specVersion": "1.0", "entries": entries}


def mcp_catalog() -> dict[str, Any]:
    """Return the same as the MCP Catalog of earlier drafts of SEP-2127."""
    entries = [
        {
            "identifier": f"urn:mcp:server:{registry_name(server)}",
            "displayName": _title(server),
            "mediaType": "application/mcp-server+json",
            "url": _card_url(server),
        }
        for server in listed_servers()
    ]
    return {"specVersion": "draft", "entries": entries}


def listed_servers() -> list[MCPServer]:
    return [server for server in servers() if server.server_card]


def _described(server: MCPServer, *, for_registry: bool) -> dict[str, Any]:
    info = server.implementation
    found = {
        "name": registry_name(server),
        "title": _title(server),
        "description": info.get("description") or _title(server),
        "version": info["version"],
        "websiteUrl": info.get("websiteUrl"),
        "icons": [icon for icon in info.get("icons", ()) if not for_registry or _is_for_registry(icon)],
    }
    return {key: value for key, value in found.items() if value}


def _is_for_registry(icon: Mapping[str, Any]) -> bool:
    # The registry refuses a whole document for one icon.
    src = icon["src"]
    is_typed = icon.get("mimeType") in {None, *_ICON_TYPES}
    is_sized = all(_ICON_SIZE.fullmatch(size) for size in icon.get("sizes", ()))
    return src.startswith("https:") and len(src) <= _MAX_ICON_URL and is_typed and is_sized


def _title(server: MCPServer) -> str:
    return str(server.implementation.get("title") or server.implementation["name"])


def _remote(server: MCPServer) -> dict[str, Any]:
    remote: dict[str, Any] = {"type": "streamable-http", "url": base_url() + path_of(server)}
    is_public = any(isinstance(authenticator, AllowAny) for authenticator in authenticators(server))
    if takes_keys(server) and not is_public and not has_metadata(server):
        header = {"name": "Authorization", "value": "Bearer {api_key}", "isRequired": True, "isSecret": True}
        remote["headers"] = [{**header, "variables": {"api_key": {"isRequired": True, "isSecret": True}}}]
    return remote


def _card_url(server: MCPServer) -> str:
    return base_url() + path_of(server) + _CARD_SUFFIX


def document_patterns() -> list[URLPattern]:
    return [re_path(rf"^{path}$", public_document(make, kind, age)) for path, make, kind, age in _documents()]


def _documents() -> Iterator[tuple[str, Callable[[], Any], str, int]]:
    for server in (cards := listed_servers()):
        path = re.escape(server.path + _CARD_SUFFIX)
        yield path, partial(server_card, server), "application/mcp-server-card+json", _HOUR
    if cards:
        yield r"\.well-known/ai-catalog\.json", ai_catalog, "application/ai-catalog+json", _HOUR
        yield r"\.well-known/mcp/catalog\.json", mcp_catalog, "application/json", _HOUR
    if token := settings.OPENAI_APPS_CHALLENGE:
        yield r"\.well-known/openai-apps-challenge", partial(str, token), "text/plain; charset=utf-8", 0
    if key := settings.MCP_REGISTRY_AUTH:
        yield r"\.well-known/mcp-registry-auth", partial(str, key), "text/plain; charset=utf-8", 0

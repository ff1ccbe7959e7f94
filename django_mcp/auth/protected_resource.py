"""Resource identifiers of endpoints (RFC 8707) and ``WWW-Authenticate`` (RFC 6750, section 3; RFC 9728, section
5.1).
"""

import json
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed
from django.urls import NoReverseMatch, reverse

from django_mcp.auth.base import authenticators
from django_mcp.conf import settings
from django_mcp.core.permissions import in_order
from django_mcp.core.server import MCPServer

WELL_KNOWN = ".well-known/oauth-protected-resource"
_DEFAULT_PORTS = {"http": 80, "https": 443}


def canonical(uri: str) -> str:
    """Return the canonical form of a resource identifier. All comparisons of audiences use it.

    Scheme and host are in lower case; a default port and trailing slashes of the path are removed (RFC 8707, section 2;
    2026-07-28, Authorization, Canonical Server URI).

    Raises:
        ValueError: it is not an absolute http or https URI, or has a fragment or user information.
    """
    parts = urlsplit(uri)
    scheme, host, port = parts.scheme.lower(), parts.hostname, parts.port
    if scheme not in _DEFAULT_PORTS or not host:
        raise ValueError("not an absolute http or https URI")
    if "#" in uri or "@" in parts.netloc or any(character <= " " or character == "\\" for character in uri):
        raise ValueError("contains a fragment, user information or white space")
    shown = f"[{host}]" if ":" in host else host
    netloc = shown if port in {None, _DEFAULT_PORTS[scheme]} else f"{shown}:{port}"
    return urlunsplit((scheme, netloc, parts.path.rstrip("/"), parts.query, ""))


def base_url() -> str:
    """Return the site's origin.

    Raises:
        ImproperlyConfigured: ``BASE_URL`` is missing.
    """
    if not settings.BASE_URL:
        msg = "DJANGO_MCP['BASE_URL'] is missing. Set it to the site's address, such as 'https://travel.example.com'."
        raise ImproperlyConfigured(msg)
    return settings.BASE_URL.rstrip("/")


@lru_cache(maxsize=256)
def path_of(server: MCPServer) -> str:
    """Return the URL path of an endpoint, without a trailing slash."""
    try:
        return reverse(f"django_mcp:{server.name}")
    except NoReverseMatch:
        return f"/{server.path}"


@lru_cache(maxsize=256)
def resource_of(server: MCPServer) -> str:
    """Return the resource identifier of an endpoint (RFC 8707): its URL in canonical form."""
    return canonical(base_url() + path_of(server))


@lru_cache(maxsize=256)
def metadata_url_of(server: MCPServer) -> str:
    """Return the URL of an endpoint's protected resource metadata (RFC 9728, section 3)."""
    try:
        return base_url() + reverse(f"django_mcp:{server.name}-metadata")
    except NoReverseMatch:
        return f"{base_url()}/{WELL_KNOWN}{path_of(server)}"


def _forget(*, setting: str, **_: Any) -> None:
    if setting in {"DJANGO_MCP", "ROOT_URLCONF", "FORCE_SCRIPT_NAME"}:
        for each in (path_of, resource_of, metadata_url_of):
            each.cache_clear()


setting_changed.connect(_forget, dispatch_uid="django_mcp.auth.identifiers")


INVALID_TOKEN = "The access token is invalid, expired, or not for this endpoint."  # noqa: S105
"""One message for every invalid token: the reason would only help an attacker."""


def challenge(
    server: MCPServer, error: str | None = None, description: str = "", scopes: Iterable[str] | None = None
) -> str:
    """Return the value of ``WWW-Authenticate``: one challenge with quoted parameters.

    Args:
        server: the endpoint.
        error: an error code, or None if no credential was sent.
        description: for display. Must not contain "scope=" or "error=", which clients search for.
        scopes: scopes to request; by default those that every call at the endpoint needs.
    """
    parameters = {"error": error, "error_description": description or None}
    parameters["scope"] = in_order(server.scopes if scopes is None else scopes) or None
    if has_metadata(server):
        parameters["resource_metadata"] = metadata_url_of(server)
    told = ", ".join(f'{name}="{_quoted(value)}"' for name, value in parameters.items() if value)
    return f"Bearer {told}" if told else "Bearer"


def has_metadata(server: MCPServer) -> bool:
    """Return True if an authorization server issues tokens for the endpoint."""
    return any(each.authorization_servers(server) for each in authenticators(server))


def issuers(server: MCPServer) -> Sequence[str]:
    """Return the issuers of tokens for the endpoint, without duplicates."""
    found = [issuer for each in authenticators(server) for issuer in each.authorization_servers(server)]
    return list(dict.fromkeys(found))


def body(error: str, description: str) -> bytes:
    """Return the JSON body of an error, as at the token endpoint (RFC 6749, section 5.2)."""
    return json.dumps({"error": error, "error_description": description}).encode()


def _quoted(value: str) -> str:
    """Escape a value for a quoted-string (RFC 9110, section 5.6.4) and drop non-printable characters."""
    printable = "".join(character for character in value if " " <= character <= "~")
    return printable.replace("\\", "\\\\").replace('"', '\\"')

"""What an endpoint is called in OAuth: absolute URLs from ``DJANGO_MCP["BASE_URL"]``, never from a request."""

from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed
from django.urls import NoReverseMatch, reverse

from django_mcp.conf import settings
from django_mcp.core.server import MCPServer

WELL_KNOWN = ".well-known/oauth-protected-resource"
_DEFAULT_PORTS = {"http": 80, "https": 443}


def canonical(uri: str) -> str:
    """The form in which resource identifiers are compared, which is the only comparison of audiences there is.

    Scheme and host in lower case, without the scheme's usual port and without slashes at the path's end
    (RFC 8707, section 2; 2026-07-28, Authorization, Canonical Server URI).

    Raises:
        ValueError: it is no absolute http or https URI, or has a fragment or user information.
    """
    parts = urlsplit(uri)
    scheme, host, port = parts.scheme.lower(), parts.hostname, parts.port
    if scheme not in _DEFAULT_PORTS or not host:
        raise ValueError("not an absolute http or https URI")
    if "#" in uri or "@" in parts.netloc or any(character <= " " or character == "\\" for character in uri):
        raise ValueError("with a fragment, user information or white space")
    shown = f"[{host}]" if ":" in host else host
    netloc = shown if port in {None, _DEFAULT_PORTS[scheme]} else f"{shown}:{port}"
    return urlunsplit((scheme, netloc, parts.path.rstrip("/"), parts.query, ""))


def base_url() -> str:
    """The site's origin.

    Raises:
        ImproperlyConfigured: the setting is missing.
    """
    if not settings.BASE_URL:
        msg = "DJANGO_MCP['BASE_URL'] is missing: the site's public address, like 'https://travel.example.com'."
        raise ImproperlyConfigured(msg)
    return settings.BASE_URL.rstrip("/")


@lru_cache(maxsize=256)
def path_of(server: MCPServer) -> str:
    """The URL path of a server's endpoint, without a final slash."""
    try:
        return reverse(f"django_mcp:{server.name}")
    except NoReverseMatch:
        return f"/{server.path}"


@lru_cache(maxsize=256)
def resource_of(server: MCPServer) -> str:
    """An endpoint's resource identifier (RFC 8707): its URL, in canonical form."""
    return canonical(base_url() + path_of(server))


@lru_cache(maxsize=256)
def metadata_url_of(server: MCPServer) -> str:
    """Where an endpoint's protected resource metadata is (RFC 9728, section 3)."""
    try:
        return base_url() + reverse(f"django_mcp:{server.name}-metadata")
    except NoReverseMatch:
        return f"{base_url()}/{WELL_KNOWN}{path_of(server)}"


def _forget(*, setting: str, **_: Any) -> None:
    if setting in {"DJANGO_MCP", "ROOT_URLCONF", "FORCE_SCRIPT_NAME"}:
        for each in (path_of, resource_of, metadata_url_of):
            each.cache_clear()


setting_changed.connect(_forget, dispatch_uid="django_mcp.auth.identifiers")

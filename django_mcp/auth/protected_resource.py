"""Resource identifiers of endpoints (RFC 8707) and ``WWW-Authenticate`` challenges (RFC 6750, RFC 9728)."""

import json
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, wraps
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed
from django.urls import Resolver404, get_script_prefix, get_urlconf, resolve, reverse
from django.utils.encoding import iri_to_uri
from django.utils.translation import get_language

from django_mcp.auth.base import authenticators
from django_mcp.conf import settings
from django_mcp.core.permissions import in_order
from django_mcp.core.server import MCPServer

WELL_KNOWN = ".well-known/oauth-protected-resource"
_DEFAULT_PORTS = {"http": 80, "https": 443}


def canonical(uri: str) -> str:
    """Return the canonical form of a resource identifier, in which all audiences are compared.

    Scheme and host become lower case; default port and trailing slashes go (RFC 8707, section 2; 2026-07-28,
    Authorization, Canonical Server URI).

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


def url_of(server: MCPServer) -> str:
    """Return the absolute URL of an endpoint, or "" if ``BASE_URL`` is not set."""
    try:
        return base_url() + path_of(server)
    except ImproperlyConfigured:
        return ""


def _cached(function: Callable[[MCPServer], str]) -> Callable[[MCPServer], str]:
    # A request can change the script prefix, the URLconf and the language.
    found = lru_cache(maxsize=256)(lambda server, _prefix, _urlconf, _language: function(server))
    _caches.append(found)

    @wraps(function)
    def cached(server: MCPServer) -> str:
        return found(server, get_script_prefix(), get_urlconf(), get_language())

    return cached


_caches: list[Any] = []


@_cached
def path_of(server: MCPServer) -> str:
    """Return an endpoint's URL path, without trailing slash."""
    name = f"django_mcp:{server.name}"
    own = iri_to_uri(f"{get_script_prefix()}{server.path}")
    try:
        # At the root, as documented: the first reverse() of a process would read every pattern of the site.
        if resolve(f"/{server.path}").view_name == name:
            return own
    except Resolver404:
        pass
    try:
        return reverse(name)
    except Exception:  # noqa: BLE001 - Django cannot reverse every pattern of a site, and then none
        return own


@_cached
def resource_of(server: MCPServer) -> str:
    """Return an endpoint's resource identifier (RFC 8707), its canonical URL."""
    return canonical(base_url() + path_of(server))


@_cached
def metadata_url_of(server: MCPServer) -> str:
    """Return the URL of protected resource metadata (RFC 9728, section 3)."""
    try:
        return base_url() + reverse(f"django_mcp:{server.name}-metadata")
    except Exception:  # noqa: BLE001 - likewise
        return f"{base_url()}/{WELL_KNOWN}{path_of(server)}"


def _forget(*, setting: str, **_: Any) -> None:
    if setting in {"DJANGO_MCP", "ROOT_URLCONF", "FORCE_SCRIPT_NAME"}:
        for cached in _caches:
            cached.cache_clear()


setting_changed.connect(_forget, dispatch_uid="django_mcp.auth.identifiers")


INVALID_TOKEN = "The access token is invalid, expired, or not for this endpoint."  # noqa: S105
"""For every invalid token: the reason would help attackers only."""
UNSET_VARIABLE = (
    "The Authorization header has the name of a variable in place of its value. Set the variable for the client."
)
"""For what no token looks like: a client that found no value for ``${MYSITE_MCP_KEY}``."""


def challenge(
    server: MCPServer, error: str | None = None, description: str = "", scopes: Iterable[str] | None = None
) -> str:
    """Return the value of ``WWW-Authenticate`` (RFC 6750, section 3; RFC 9728, section 5.1).

    Args:
        error: an error code; None without a credential.
        description: for people. Clients search the header for "scope=" and "error=", which it must not contain.
        scopes: scopes to request; by default those every call needs.
    """
    parameters = {"error": error, "error_description": description or None}
    parameters["scope"] = in_order(server.scopes if scopes is None else scopes) or None
    if has_metadata(server):
        parameters["resource_metadata"] = metadata_url_of(server)
    told = ", ".join(f'{name}="{_quoted(value)}"' for name, value in parameters.items() if value)
    return f"Bearer {told}" if told else "Bearer"


def has_metadata(server: MCPServer) -> bool:
    return any(authenticator.authorization_servers(server) for authenticator in authenticators(server))


def issuers(server: MCPServer) -> Sequence[str]:
    found = [
        issuer for authenticator in authenticators(server) for issuer in authenticator.authorization_servers(server)
    ]
    return list(dict.fromkeys(found))


def body(error: str, description: str) -> bytes:
    """Return an error as JSON, as at the token endpoint (RFC 6749, section 5.2)."""
    return json.dumps({"error": error, "error_description": description}).encode()


def _quoted(value: str) -> str:
    # quoted-string: RFC 9110, section 5.6.4.
    printable = "".join(character for character in value if " " <= character <= "~")
    return printable.replace("\\", "\\\\").replace('"', '\\"')

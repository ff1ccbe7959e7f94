"""Readers of a site's settings for system checks, which never raise.

A site's settings are input: a check that raises hides all others, so nothing in them may make one raise.
"""

import re
from ipaddress import ip_address
from typing import Any
from urllib.parse import SplitResult, urlsplit

from django_mcp.auth.base import Authenticator, authenticators
from django_mcp.auth.oauth import OAuth
from django_mcp.auth.public import Public
from django_mcp.core.server import MCPServer, servers


def made(server: MCPServer) -> tuple[Any, ...]:
    """An endpoint's authenticators; none where one of them cannot be made, which a check of its own reports."""
    try:
        return authenticators(server)
    except Exception:  # noqa: BLE001 - whatever a site's own class raises
        return ()


def lets_everybody_in(server: MCPServer) -> bool:
    """Whether nobody needs a credential there."""
    return any(isinstance(each, Public) for each in made(server))


def lets_only_strangers_in(server: MCPServer) -> bool:
    """Return True if nobody can be recognised there, credential or not."""
    found = made(server)
    return bool(found) and all(isinstance(each, Public) for each in found)


def takes_oauth(server: MCPServer) -> bool:
    """Whether it takes tokens of this site's authorization server."""
    return any(isinstance(each, OAuth) for each in made(server))


def uses_oauth() -> bool:
    """Whether any endpoint does."""
    return any(takes_oauth(server) for server in servers())


def split(uri: Any) -> SplitResult | None:
    """The parts of a URI, with a port that is a number; None for what is none."""
    try:
        parts = urlsplit(uri)
        parts.port  # noqa: B018 - reading it is the test
    except (ValueError, TypeError, AttributeError):
        return None
    return parts if isinstance(uri, str) and not re.search(r"[\s\\\x00-\x1f\x7f]", uri) else None


def is_loopback(host: str | None) -> bool:
    """Whether a host is this machine (RFC 8252, section 7.3)."""
    try:
        return host == "localhost" or ip_address(host or "").is_loopback
    except ValueError:
        return False


def external_issuers(server: MCPServer) -> list[Any]:
    """Issuers of authorization servers that are not this site."""
    found: list[Any] = []
    for each in made(server):
        if isinstance(each, Authenticator) and not isinstance(each, OAuth):
            try:
                found += each.authorization_servers(server)
            except Exception:  # noqa: BLE001, S112 - a site's own class; its traceback comes with the first request
                continue
    return found

"""What access is asked for and granted to: endpoints that take this site's tokens (RFC 8707)."""

from collections.abc import Iterable, Mapping

from django_mcp.auth.base import authenticators
from django_mcp.auth.identifiers import canonical, resource_of
from django_mcp.auth.oauth import OAuth
from django_mcp.conf import settings
from django_mcp.core.server import MCPServer, servers


def known_resources() -> Mapping[str, MCPServer]:
    """Endpoints with an ``OAuth`` authenticator by their canonical identifier, in the order they were made."""
    return {
        resource_of(server): server
        for server in servers()
        if any(isinstance(each, OAuth) for each in authenticators(server))
    }


def default_resource() -> str | None:
    """What a client that names no resource gets access to, as clients of 2025-03-26 do; None where there is nothing."""
    return next(iter(known_resources()), None)


def chosen_resources(given: Iterable[str]) -> list[str]:
    """The canonical identifiers of what a request names, each once; the default where it names nothing.

    Raises:
        ValueError: one of them is no endpoint of ours, or there is none at all.
    """
    known = known_resources()
    found = list(dict.fromkeys(canonical(uri) for uri in given)) or [*filter(None, [default_resource()])]
    if not found or any(uri not in known for uri in found):
        raise ValueError("not an endpoint of this site")
    return found


def why_not_a_resource(given: Iterable[str]) -> str:
    """Return why ``chosen_resources`` refused what a request names, in the words of an ``error_description``."""
    others = {resource_of(server) for server in servers()} - known_resources().keys()
    for uri in given:
        try:
            if canonical(uri) in others:
                return (
                    "resource is an endpoint that takes no access tokens of this site: call it without signing in, or "
                    "with what its owner gave you, like an API key."
                )
        except ValueError:
            continue
    return "resource is not an endpoint of this site."


def default_scopes(uris: Iterable[str]) -> frozenset[str]:
    """What a client gets that asks for no scope: those that calls need at the endpoints, or the site's default.

    Args:
        uris: of endpoints, in canonical form.
    """
    own = frozenset[str]().union(*(known_resources()[uri].scopes for uri in uris))
    return own or frozenset(settings.DEFAULT_SCOPES)

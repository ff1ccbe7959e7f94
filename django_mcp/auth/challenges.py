"""What a caller is told who may not call: ``WWW-Authenticate`` (RFC 6750, section 3; RFC 9728, section 5.1)."""

import json
from collections.abc import Iterable, Sequence

from django_mcp.auth.base import authenticators
from django_mcp.auth.identifiers import metadata_url_of
from django_mcp.core.permissions import in_order
from django_mcp.core.server import MCPServer

INVALID_TOKEN = "The access token is invalid, expired, or not for this endpoint."  # noqa: S105
"""The same for all that may be wrong with a token: which it is helps nobody but a thief."""


def challenge(
    server: MCPServer, error: str | None = None, description: str = "", scopes: Iterable[str] | None = None
) -> str:
    """The header's value: one challenge, each parameter quoted.

    Args:
        server: the endpoint.
        error: an error code; None where no credential was sent.
        description: for people; must not hold "scope=" or "error=", which clients search the header for.
        scopes: what to ask for; by default what every call at the endpoint needs.
    """
    parameters = {"error": error, "error_description": description or None}
    parameters["scope"] = in_order(server.scopes if scopes is None else scopes) or None
    if has_metadata(server):
        parameters["resource_metadata"] = metadata_url_of(server)
    told = ", ".join(f'{name}="{_quoted(value)}"' for name, value in parameters.items() if value)
    return f"Bearer {told}" if told else "Bearer"


def has_metadata(server: MCPServer) -> bool:
    """Whether any authorization server issues tokens for the endpoint."""
    return any(each.authorization_servers(server) for each in authenticators(server))


def issuers(server: MCPServer) -> Sequence[str]:
    """The issuers of tokens for the endpoint, each once."""
    found = [issuer for each in authenticators(server) for issuer in each.authorization_servers(server)]
    return list(dict.fromkeys(found))


def body(error: str, description: str) -> bytes:
    """The JSON that goes with it, as the token endpoint has it (RFC 6749, section 5.2)."""
    return json.dumps({"error": error, "error_description": description}).encode()


def _quoted(value: str) -> str:
    """As the inside of a quoted-string (RFC 9110, section 5.6.4), in printable ASCII."""
    printable = "".join(character for character in value if " " <= character <= "~")
    return printable.replace("\\", "\\\\").replace('"', '\\"')

"""A user through an OAuth client, as the endpoint would know them by a token."""

import dataclasses
from collections.abc import Collection

from django.core.management.base import CommandError

from django_mcp.core.permissions import declared, expanded
from django_mcp.core.principal import Principal
from django_mcp.core.server import MCPServer
from django_mcp.models import ClientPolicy


def with_client(server: MCPServer, principal: Principal, client_id: str, scopes: Collection[str] | None) -> Principal:
    """The caller, with what the site's owner decided about the client.

    Args:
        server: the endpoint.
        principal: the user.
        client_id: of the client. One that nobody decided anything about may do what its users agree to.
        scopes: what its token allows; None for what clients are told to ask for first.

    Raises:
        CommandError: there is no such scope.
    """
    known = declared()
    if strange := [each for each in scopes or () if known and each not in known]:
        raise CommandError(f"There is no scope {strange[0]!r}; --scope takes one of {', '.join(known)}.")
    policy = ClientPolicy.objects.filter(client_id=client_id).first()
    granted = frozenset(server.scopes if scopes is None else scopes)
    if policy is not None and policy.scopes is not None:
        granted = expanded(granted) & expanded(frozenset(policy.scopes))
    tools = None if policy is None or policy.tools is None else frozenset(policy.tools)
    return dataclasses.replace(principal, kind="oauth", scopes=granted, client_id=client_id, tools=tools, steps_up=True)

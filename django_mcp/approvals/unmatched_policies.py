"""Policies that match nobody: their tool, client or the members of their group do not exist."""

from collections.abc import Collection, Iterable
from typing import Any

from django.contrib.auth import get_user_model
from django.utils.translation import gettext as _

from django_mcp.auth.base import authenticators
from django_mcp.auth.oauth import has_toolkit
from django_mcp.core.server import MCPServer, every_server
from django_mcp.models import ClientPolicy, RequestLog, ToolPolicy


def unknown_clients(client_ids: Iterable[str]) -> set[str]:
    """Return those client ids that no client has. Two queries at most.

    Clients that are registered elsewhere are known by their logged requests.
    """
    unknown = {client_id for client_id in client_ids if client_id}
    if unknown and has_toolkit():
        from django_mcp.auth.toolkit import get_application_model  # noqa: PLC0415 - where it is installed

        known = get_application_model().objects.filter(client_id__in=unknown)
        unknown -= set(known.values_list("client_id", flat=True))
    if unknown and may_register_elsewhere():
        seen = RequestLog.objects.filter(client_id__in=unknown).order_by()
        unknown -= set(seen.values_list("client_id", flat=True).distinct())
    return unknown


def may_register_elsewhere() -> bool:
    # With an issuer of JWTs, or by the site's own code.
    found = (authenticator for server in every_server() for authenticator in authenticators(server))
    return any(type(authenticator).__module__ not in WITHOUT_OTHER_CLIENTS for authenticator in found)


WITHOUT_OTHER_CLIENTS = {f"django_mcp.auth.{name}" for name in ("api_keys", "base", "oauth", "session")}
"""Modules of authentication classes whose callers have no client, or one that is registered with this site."""


def find_problems(rows: Collection[ToolPolicy]) -> dict[Any, str]:
    """Return by primary key why policies match no caller, of those that match none. Three queries at most."""
    unknown = unknown_clients(row.client_id for row in rows)
    groups = {row.group.name for row in rows if row.group is not None}
    joined: set[str] = set()
    if groups and hasattr(get_user_model(), "groups"):  # some user models have none
        # By name, as for a caller: the groups of the site's users may be rows of another model.
        users = get_user_model()._default_manager.filter(groups__name__in=groups)  # noqa: SLF001 - documented API
        joined.update(users.order_by().values_list("groups__name", flat=True).distinct())
    found: dict[Any, str] = {}
    for row in rows:
        if row.client_id in unknown:
            found[row.pk] = _("matches nobody: no client has this id")
        elif row.group is not None and row.group.name not in joined:
            found[row.pk] = _("matches nobody: the group has no members")
    return found


def find_unmatched(server: MCPServer) -> list[str]:
    """Return a sentence about each policy of an endpoint, and of a client, that matches nobody. A few queries."""
    rows = list(ToolPolicy.objects.filter(server=server.name).select_related("group").order_by("tool", "pk"))
    problems = find_problems(rows)
    of_tools = [
        f"{row.decision} of {row.tool}: no such tool"
        if row.tool not in server.tools
        else f"{row.decision} of {row.tool} for {row.client_id or f'group {row.group}'} {problems[row.pk]}"
        for row in rows
        if row.tool not in server.tools or row.pk in problems
    ]
    unknown = unknown_clients(ClientPolicy.objects.values_list("client_id", flat=True))
    return [
        *of_tools,
        *(f"the policy of the client {client_id}: no client has this id" for client_id in sorted(unknown)),
    ]

"""Deciding about tools. It counts in this process at once, and in others after ``POLICY_SECONDS``."""

from typing import Any

from django.db.models.signals import post_delete, post_save
from django.dispatch import receiver

from django_mcp.core import database
from django_mcp.core.policies import book
from django_mcp.core.server import MCPServer, every_server
from django_mcp.models import KnownTool, ToolPolicy
from django_mcp.policies.announcing import announce
from django_mcp.primitives.tool import Tool


def decide(
    server: MCPServer,
    tool: Tool,
    decision: str | None,
    *,
    group: Any = None,
    client_id: str = "",
    user: Any = None,
) -> None:
    """Decide about a tool.

    Args:
        server: its endpoint.
        tool: the tool.
        decision: ``"allow"``, ``"ask"`` or ``"block"``; None for what the tool says of itself.
        group: a Django group, whose users it is for; None for everybody.
        client_id: the OAuth client it is for; empty for all.
        user: who decides.
    """
    which = {"server": server.name, "tool": tool.key, "group": group, "client_id": client_id}
    with database.atomic():
        if decision is None:
            for row in ToolPolicy.objects.filter(**which):
                row.delete()
        else:
            ToolPolicy.objects.update_or_create(**which, defaults={"decision": decision, "changed_by": user})


@receiver([post_save, post_delete], sender=ToolPolicy, dispatch_uid="django_mcp.policies")
@receiver([post_save, post_delete], sender=KnownTool, dispatch_uid="django_mcp.policies.known")
def _on_changed(instance: ToolPolicy | KnownTool, raw: bool = False, **_: Any) -> None:
    """Look again before the next call, and tell clients that listen that a list is another one now."""
    if raw:
        return
    database.on_commit(book.expire)
    for server in every_server():
        if server.name == instance.server and instance.tool in server.tools:
            announce(server)

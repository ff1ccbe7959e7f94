"""Definitions of tools as models and clients see them, and the snapshots of those that were approved."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from django.conf import settings as django_settings
from django.utils import timezone, translation

from django_mcp.core import database
from django_mcp.core.server import MCPServer
from django_mcp.models import ToolSnapshot
from django_mcp.primitives.base import translate
from django_mcp.primitives.tool import Tool

DEFINITION_KEYS = ("name", "title", "description", "inputSchema", "outputSchema", "annotations")
"""Parts of a tool's definition that models and clients see."""


class CurrentDefinition(NamedTuple):
    """A tool's definition and its digest."""

    definition: dict[str, Any]
    digest: str


# Weak, because the tools of models are made again when a model is registered.
_cached: WeakKeyDictionary[Tool, tuple[Mapping[str, Any], CurrentDefinition]] = WeakKeyDictionary()


def current_definition(tool: Tool) -> CurrentDefinition:
    """Return a tool's current definition and digest, cached until the definition changes."""
    before = _cached.get(tool)
    if before is not None and before[0] is tool.definition:
        return before[1]
    shown = {key: tool.definition[key] for key in DEFINITION_KEYS if key in tool.definition}
    with translation.override(django_settings.LANGUAGE_CODE):
        plain = json.loads(json.dumps(translate(shown, django_settings.LANGUAGE_CODE), sort_keys=True, default=str))
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
    now = CurrentDefinition(plain, hashlib.sha256(text.encode()).hexdigest())
    _cached[tool] = tool.definition, now
    return now


def tools_of(server: MCPServer) -> Iterator[Tool]:
    # The tools of tool search have no policy.
    return (tool for tool in server.tools.values() if tool.kind == "tool")


def approved_digests() -> Mapping[tuple[str, str], str]:
    rows = ToolSnapshot.objects.values_list("server", "tool", "digest")
    return {(server, tool): digest for server, tool, digest in rows}


def store_snapshots(servers: Iterable[MCPServer], before: Mapping[tuple[str, str], str]) -> bool:
    """Store snapshots of new tools: a new definition is trusted, and only later changes need approval.

    Return False if there are none.
    """
    now = timezone.now()
    rows = [
        ToolSnapshot(
            server=server.name, tool=tool.key, definition=current.definition, digest=current.digest, approved=now
        )
        for server in servers
        for tool in tools_of(server)
        if (server.name, tool.key) not in before
        and tool.find_failure() is None
        and (current := current_definition(tool))
    ]
    if rows:
        ToolSnapshot.objects.bulk_create(rows, ignore_conflicts=True)
    return bool(rows)


def approve_definition(server: MCPServer, tool: Tool, user: Any) -> None:
    current = current_definition(tool)
    with database.atomic():
        ToolSnapshot.objects.update_or_create(
            server=server.name,
            tool=tool.key,
            defaults={
                "definition": current.definition,
                "digest": current.digest,
                "approved": timezone.now(),
                "approved_by": user,
            },
        )

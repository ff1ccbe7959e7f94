"""Tools as somebody accepted them: where one became another since, people see the difference."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from django.conf import settings as django_settings
from django.utils import timezone, translation

from django_mcp.core import database
from django_mcp.core.server import MCPServer
from django_mcp.models import KnownTool
from django_mcp.primitives.base import spoken
from django_mcp.primitives.tool import Tool

SHOWN = ("name", "title", "description", "inputSchema", "outputSchema", "annotations")
"""What a model sees of a tool, and what clients tell people about it."""


class Known(NamedTuple):
    """What a tool is, and the digest of that."""

    definition: dict[str, Any]
    digest: str


_known: WeakKeyDictionary[Tool, tuple[Mapping[str, Any], Known]] = WeakKeyDictionary()


def known(tool: Tool) -> Known:
    """What a tool is now; worked out again when it is described anew."""
    before = _known.get(tool)
    if before is not None and before[0] is tool.definition:
        return before[1]
    shown = {key: tool.definition[key] for key in SHOWN if key in tool.definition}
    with translation.override(django_settings.LANGUAGE_CODE):
        plain = json.loads(json.dumps(spoken(shown, django_settings.LANGUAGE_CODE), sort_keys=True, default=str))
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
    now = Known(plain, hashlib.sha256(text.encode()).hexdigest())
    _known[tool] = tool.definition, now
    return now


def tools_of(server: MCPServer) -> Iterator[Tool]:
    """The tools about which something can be decided: not those that only find others."""
    return (each for each in server.tools.values() if each.kind == "tool")


def accepted() -> Mapping[tuple[str, str], str]:
    """Endpoint and tool -> the digest of what was accepted. One query."""
    rows = KnownTool.objects.values_list("server", "tool", "digest")
    return {(server, tool): digest for server, tool, digest in rows}


def remember(servers: Iterable[MCPServer], before: Mapping[tuple[str, str], str]) -> None:
    """Note what nobody has seen so far: a new tool is as its author made it, and only a change is news."""
    now = timezone.now()
    rows = [
        KnownTool(server=server.name, tool=tool.key, definition=is_now.definition, digest=is_now.digest, accepted=now)
        for server in servers
        for tool in tools_of(server)
        if (server.name, tool.key) not in before and tool.find_failure() is None and (is_now := known(tool))
    ]
    if rows:
        KnownTool.objects.bulk_create(rows, ignore_conflicts=True)


def accept(server: MCPServer, tool: Tool, user: Any) -> None:
    """Say that a tool is right as it is now."""
    is_now = known(tool)
    with database.atomic():
        KnownTool.objects.update_or_create(
            server=server.name,
            tool=tool.key,
            defaults={
                "definition": is_now.definition,
                "digest": is_now.digest,
                "accepted": timezone.now(),
                "accepted_by": user,
            },
        )

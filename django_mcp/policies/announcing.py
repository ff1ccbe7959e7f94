"""Telling clients that listen that a list of tools is another one, because somebody decided something."""

import json
from datetime import datetime, timedelta

from django_mcp.conf import settings
from django_mcp.core.server import MCPServer
from django_mcp.live import changes
from django_mcp.models import Event

SKEW = timedelta(seconds=1)
"""How far the clocks of processes may be apart."""


def announce(server: MCPServer) -> None:
    """Tell of it as soon as every process knows, so that whoever looks upon hearing is shown what is true now."""
    server.pages = {}
    changes.publish([(changes.topic(server), _change())])


def was_announced(server: MCPServer, since: datetime) -> bool:
    """Whether some process told of it since a time."""
    data = json.dumps(_change())
    return Event.objects.filter(topic=changes.topic(server), data=data, created__gt=since - SKEW).exists()


def _change() -> dict[str, object]:
    return {"method": changes.list_changed_method("tools"), "params": {}, "after": settings.POLICY_SECONDS}

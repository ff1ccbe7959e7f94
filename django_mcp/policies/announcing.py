"""Telling clients that listen that a list of tools is another one, because somebody decided something."""

import json
from datetime import datetime, timedelta

from django_mcp.conf import settings
from django_mcp.core.server import MCPServer
from django_mcp.models import Event
from django_mcp.pubsub import publish

SKEW = timedelta(seconds=1)
"""How far the clocks of processes may be apart."""


def announce(server: MCPServer) -> None:
    """Tell of it as soon as every process knows, so that whoever looks upon hearing is shown what is true now."""
    server.pages = {}
    publish.publish([(publish.topic(server), _change())])


def was_announced(server: MCPServer, since: datetime) -> bool:
    """Whether some process told of it since a time."""
    data = json.dumps(_change())
    return Event.objects.filter(topic=publish.topic(server), data=data, created__gt=since - SKEW).exists()


def _change() -> dict[str, object]:
    return {"method": publish.list_changed_method("tools"), "params": {}, "after": settings.POLICY_SECONDS}

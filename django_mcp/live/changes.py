"""Changes of an endpoint: from whoever makes them to every stream that wants to hear of them."""

import asyncio
import json
from collections.abc import Callable
from functools import partial
from typing import Any

from django.db import connection, transaction
from django.dispatch import receiver

from django_mcp.core.concurrency import on_event_loop, shared_pool
from django_mcp.core.registry import MCPServer
from django_mcp.core.signals import list_changed, resource_updated
from django_mcp.live import log
from django_mcp.live.patience import patiently

KINDS = ("tools", "prompts", "resources")
UPDATED = "notifications/resources/updated"
_background: set[asyncio.Future[Any]] = set()


def topic(server: MCPServer) -> str:
    """Under which an endpoint's changes are logged."""
    return f"server:{server.name}"


def list_changed_method(kind: str) -> str:
    """The notification that says that a list changed."""
    return f"notifications/{kind}/list_changed"


@receiver(list_changed, dispatch_uid="django_mcp.live.changes")
def _on_list_changed(sender: MCPServer, kind: str, **_: Any) -> None:
    _publish(topic(sender), {"method": list_changed_method(kind), "params": {}})


@receiver(resource_updated, dispatch_uid="django_mcp.live.changes")
def _on_resource_updated(sender: MCPServer, uri: str, **_: Any) -> None:
    _publish(topic(sender), {"method": UPDATED, "params": {"uri": uri}})


def _publish(under: str, message: dict[str, Any]) -> None:
    """Log it once what was changed is committed; on an event loop, in a worker thread."""
    if connection.vendor == "unknown":
        return
    write = partial(log.append, [(under, json.dumps(message))])
    if on_event_loop():
        _in_background(lambda: transaction.on_commit(write))
    else:
        transaction.on_commit(write)


def _in_background(write: Callable[[], Any]) -> None:
    future = asyncio.ensure_future(patiently(shared_pool(), write))
    _background.add(future)
    future.add_done_callback(_background.discard)

"""Changes of an endpoint: from whoever makes them to every stream that wants to hear of them."""

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

from django.db import transaction
from django.dispatch import receiver

from django_mcp.core import database
from django_mcp.core.concurrency import on_event_loop, patiently, shared_pool
from django_mcp.core.principal import Principal
from django_mcp.core.server import MCPServer
from django_mcp.core.signals import Change, list_changed, resource_updated, rows_changed
from django_mcp.live import log
from django_mcp.live.revocation import topic_of, user_topic

KINDS = ("tools", "prompts", "resources")
UPDATED = "notifications/resources/updated"
UNKNOWN: Mapping[str, Any] = {"method": "", "params": {}}
_background: set[asyncio.Future[Any]] = set()


def topic(server: MCPServer) -> str:
    """Under which an endpoint's changes are logged."""
    return f"server:{server.name}"


def list_changed_method(kind: str) -> str:
    """The notification that says that a list changed."""
    return f"notifications/{kind}/list_changed"


@lru_cache(maxsize=128)
def read(data: str) -> Mapping[str, Any]:
    """An entry's data, read once for all streams; nobody may change it.

    It has ``method`` and ``params`` of the notification, and perhaps what is never sent: ``about``, URIs, of which one
    must exist for whoever is told; ``for``, those who alone are told (``names_of``); ``after``, seconds until every
    process knows what changed, so that nobody who looks upon hearing of it is shown what was true before.

    What a process of another version wrote and this one does not know is ``UNKNOWN``, which nobody asked for.
    """
    try:
        change = json.loads(data)
    except ValueError:
        return UNKNOWN
    if isinstance(change, dict):
        change = {**UNKNOWN, **change}
        if isinstance(change["method"], str) and isinstance(change["params"], dict):
            return change
    return UNKNOWN


def names_of(principal: Principal) -> frozenset[str]:
    """How a change may name a caller that it is for."""
    pk = getattr(principal.user, "pk", None)
    return frozenset({topic_of(principal)} if pk is None else {topic_of(principal), user_topic(pk)})


@receiver(list_changed, dispatch_uid="django_mcp.live.changes")
def _on_list_changed(sender: MCPServer, kind: str, **_: Any) -> None:
    publish([(topic(sender), {"method": list_changed_method(kind), "params": {}})])


@receiver(resource_updated, dispatch_uid="django_mcp.live.changes")
def _on_resource_updated(sender: MCPServer, uri: str, **_: Any) -> None:
    publish([(topic(sender), {"method": UPDATED, "params": {"uri": uri}})])


@receiver(rows_changed, dispatch_uid="django_mcp.live.changes")
def _on_rows_changed(changes: Iterable[Change], **_: Any) -> None:
    """Log all of them with one statement."""
    write = partial(log.append, [(topic(each.server), json.dumps(_message(each))) for each in changes])
    if on_event_loop():
        _in_background(write)
    else:
        write()


def _message(change: Change) -> dict[str, Any]:
    if change.uri is None:
        message: dict[str, Any] = {"method": list_changed_method("resources"), "params": {}}
    else:
        message = {"method": UPDATED, "params": {"uri": change.uri}}
    return {**message, "about": list(change.about)} if change.about else message


def publish(messages: Sequence[tuple[str, Any]]) -> None:
    """Log messages under topics once what was changed is committed; on an event loop, in a worker thread."""
    if not database.has_database() or not messages:
        return
    write = partial(log.append, [(under, json.dumps(message)) for under, message in messages])
    if on_event_loop():
        _in_background(lambda: transaction.on_commit(write, using=database.tools_alias()))
    else:
        transaction.on_commit(write, using=database.tools_alias())


def _in_background(write: Callable[[], Any]) -> None:
    future = asyncio.ensure_future(patiently(shared_pool(), write))
    _background.add(future)
    future.add_done_callback(_background.discard)

"""Publishing of events: changed lists and resources, ended streams and access.

Receivers are determined when something changes; one statement stores the events after commit. Each stream reads with
its own user's rights.
"""

import asyncio
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

from django_mcp.core import database
from django_mcp.core.after_fork import clear_after_fork
from django_mcp.core.concurrency import free_pool, on_event_loop, retry_database
from django_mcp.core.principal import Principal
from django_mcp.core.server import MCPServer, every_server
from django_mcp.core.signals import access_ended
from django_mcp.pubsub import event_store

REVOKED = "revoked"
ACCOUNT = "account"
"""In place of ``Principal.kind``: all callers of one user."""


def revocation_topic(kind: str, id: str) -> str:  # noqa: A002 - as ``Principal`` has it
    return f"caller:{kind}:{id}"


def user_topic(pk: object) -> str:
    return f"user:{pk}"


def revocation_topics(principal: Principal) -> tuple[str, ...]:
    pk = getattr(principal.user, "pk", None)
    return (caller_topic(principal),) if pk is None else (caller_topic(principal), revocation_topic(ACCOUNT, str(pk)))


def end_streams_of_user(pk: object) -> None:
    end_streams(ACCOUNT, str(pk))


def end_streams(kind: str, id: str) -> None:  # noqa: A002
    """End a caller's streams in every process, once the transaction is committed.

    Args:
        kind: ``Principal.kind``.
        id: ``Principal.id``.
    """
    append_if_migrated([(revocation_topic(kind, id), REVOKED)])


def append_if_migrated(entries: Sequence[tuple[str, str]]) -> None:
    # If the table of events does not exist yet, there are no streams.
    with database.unless_unmigrated():
        event_store.append(entries)


def end_access(kind: str, id: str) -> None:  # noqa: A002
    """End streams and tasks after a credential was revoked.

    Args:
        kind: ``Principal.kind``.
        id: ``Principal.id``.
    """
    end_streams(kind, id)
    access_ended.send(sender=None, kind=kind, id=id)


def caller_topic(principal: Principal) -> str:
    return revocation_topic(principal.kind, principal.id)


KINDS = ("tools", "prompts", "resources")
UPDATED = "notifications/resources/updated"
UNKNOWN: Mapping[str, Any] = {"method": "", "params": {}}
_background: set[asyncio.Future[Any]] = clear_after_fork(set())


def server_topic(server: MCPServer) -> str:
    return f"server:{server.name}"


def list_changed_method(kind: str) -> str:
    return f"notifications/{kind}/list_changed"


@lru_cache(maxsize=128)
def decode_event(data: str) -> Mapping[str, Any]:
    """Decode an event, cached for all streams; do not modify it.

    Besides ``method`` and ``params`` it may have: ``about``, URIs of which a receiver must see one; ``for``, the only
    receivers (``addresses_of``); ``after``, seconds until every process knows the change, before which clients could
    read the old state.

    Data of another version that cannot be read becomes ``UNKNOWN``, to which no stream subscribes.
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


def addresses_of(principal: Principal) -> frozenset[str]:
    pk = getattr(principal.user, "pk", None)
    return frozenset({caller_topic(principal)} if pk is None else {caller_topic(principal), user_topic(pk)})


def publish(messages: Sequence[tuple[str, Any]]) -> None:
    """Store messages after commit, on an event loop in a worker thread."""
    if not database.has_database() or not messages:
        return
    write = partial(append_if_migrated, [(under, json.dumps(message)) for under, message in messages])
    # A query would block the event loop.
    if on_event_loop():
        in_background(lambda: database.on_commit(write, database.tools_alias()))
    else:
        database.on_commit(write, database.tools_alias())


def in_background(write: Callable[[], Any]) -> None:
    future = asyncio.ensure_future(retry_database(free_pool(), write))
    # An event loop keeps weak references to its tasks only.
    _background.add(future)
    future.add_done_callback(_background.discard)


def renew_streams(kind: str, id: str) -> None:  # noqa: A002 - as ``Principal`` has it
    """Notify a caller's streams of changed lists, and end them.

    They keep the rights they were opened with; clients open new ones.

    Args:
        kind: ``Principal.kind``.
        id: ``Principal.id``.
    """
    caller = revocation_topic(kind, id)
    entries = [entry for server in every_server() for entry in list_events(server, [caller], bool)]
    publish([*entries, (caller, REVOKED)])


def list_events(
    server: MCPServer, addresses: Collection[str] | None, depends: Callable[[Collection[Any]], bool]
) -> Iterable[tuple[str, Any]]:
    """Yield an event per list that depends on the change."""
    for kind, primitives in server.lists().items():
        if depends(primitives):
            message = {"method": list_changed_method(kind), "params": {}}
            yield server_topic(server), message if addresses is None else {**message, "for": list(addresses)}

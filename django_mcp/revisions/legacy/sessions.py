"""Sessions in the database: log level, subscriptions and cancellation (2025-11-25, Transports).

Many clients send ``initialize`` on each connect and never return, so unused sessions expire soon.
"""

import asyncio
import datetime
import hashlib
import json
import secrets
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import aclosing
from functools import partial
from typing import Any

from django.db.models import Q, QuerySet
from django.utils import timezone

from django_mcp.conf import settings
from django_mcp.core import database
from django_mcp.core.after_fork import clear_after_fork
from django_mcp.core.channel import LEVELS
from django_mcp.core.concurrency import create_background_task, free_pool, retry_database
from django_mcp.core.context import Context
from django_mcp.core.database import Prepared
from django_mcp.core.principal import Principal
from django_mcp.core.resources import readable_uris
from django_mcp.core.server import MCPServer
from django_mcp.models import Event, Session
from django_mcp.protocol.errors import (
    InvalidParams,
    InvalidRequest,
    MethodNotFound,
    ProtocolError,
    RequestId,
    ResourceNotFound,
)
from django_mcp.protocol.jsonrpc import MAX_FILTER_BYTES
from django_mcp.protocol.meta import ClientInfo, shows_apps
from django_mcp.pubsub import event_store
from django_mcp.pubsub.cleanup import clear
from django_mcp.pubsub.follower import follow
from django_mcp.revisions.legacy import calls
from django_mcp.revisions.legacy.channel import LegacyChannel

UNUSED_SECONDS = 600
"""Lifetime of a session that is never used."""
CLEAR_EVERY = 100
"""Number of new sessions between deletions of expired ones, for sites that never run ``mcp_clear``."""
MAX_CLEARED = 500


class SessionNotFound(ProtocolError):
    """The session is unknown, expired or another caller's."""

    code = -32600
    http_status = 404
    broken_envelope = True

    def __init__(self, request_id: RequestId | None = None) -> None:
        super().__init__("Unknown session. Send 'initialize' to open a new one.", request_id=request_id)


def open_session(server: MCPServer, principal: Principal, version: str, client: Any, capabilities: Any) -> str | None:
    """Create a session; return its id of 256 random bits in visible ASCII, or None without a database."""
    if not database.has_database():
        return None
    _end_oldest(server, principal)
    session_id = secrets.token_urlsafe(32)
    session = Session.objects.create(
        key=_hash(session_id),
        server=server.name,
        principal_kind=principal.kind,
        principal_id=principal.id,
        version=version,
        # Icons and descriptions are not used, and may be large.
        client={name: text for name, text in ClientInfo.read(client)._asdict().items() if text},
        capabilities=capabilities if isinstance(capabilities, dict) else {},
        expires=_expiry_in(min(UNUSED_SECONDS, settings.SESSION_TTL)),
    )
    if session.pk % CLEAR_EVERY == 0:
        clear(MAX_CLEARED)
    return session_id


def _end_oldest(server: MCPServer, principal: Principal) -> None:
    # Refusing a new one would lock out, for a day, users of a client that never ends its sessions.
    mine = Session.objects.filter(
        principal_kind=principal.kind, principal_id=principal.id, server=server.name, expires__gt=timezone.now()
    )
    most = settings.MAX_SESSIONS_PER_CALLER - 1
    for session in mine.order_by("-expires", "-pk")[most : most + MAX_CLEARED]:
        end_session(session)


def find_session(session_id: str, server: MCPServer, principal: Principal) -> Session:
    """Return the session and extend its lifetime.

    Raises:
        SessionNotFound: it is unknown, expired, or of another endpoint or caller.
    """
    session: Session | None = _LIVE.first(
        key=_hash(session_id),
        server=server.name,
        principal_kind=principal.kind,
        principal_id=principal.id,
        now=timezone.now(),
    )
    if session is None:
        raise SessionNotFound
    _extend(session)
    return session


def _extend(session: Session) -> None:
    # Written once per tenth of the lifetime, not on each request.
    if session.expires < _expiry_in(settings.SESSION_TTL * 9 // 10):
        Session.objects.filter(pk=session.pk).update(expires=_expiry_in(settings.SESSION_TTL))


MAX_OTHER_SESSIONS = 100
"""Sessions of a caller among which one that shows apps is looked for."""


def app_extensions(server: MCPServer, principal: Principal, session: Session | None) -> Mapping[str, Any]:
    """Return the extensions of a client that showed that it knows MCP Apps in another of its sessions, else none.

    Some hosts initialize a session and never send its id, others open a second one for the page of an app. An OAuth
    client is known by its credential. Other credentials may be used by several programs, so a session must be of the
    same one. Anonymous callers are known by their session alone.
    """
    same: dict[str, Any] = {}
    if session is not None and (principal.client_id is None or principal.is_anonymous):
        same = {"client": session.client} if session.client else {}
    if not database.has_database() or (principal.is_anonymous and not same):
        return {}
    mine = _live(
        timezone.now(), server=server.name, principal_kind=principal.kind, principal_id=principal.id, **same
    ).order_by("-expires", "-pk")
    for other in mine[:MAX_OTHER_SESSIONS]:
        if shows_apps(other.capabilities):
            _extend(other)
            return {"extensions": other.capabilities["extensions"]}
    return {}


def _live(now: datetime.datetime, **which: Any) -> QuerySet[Session]:
    return Session.objects.filter(**which, expires__gt=now)


_LIVE = Prepared(_live, key=str, server=str, principal_kind=str, principal_id=str, now=datetime.datetime)


def end_session(session: Session) -> None:
    Event.objects.filter(topic__in=[f"stream:{key}" for key in session.calls.values_list("key", flat=True)]).delete()
    event_store.append([(topic(session), '{"ended": true}')])
    session.delete()


def subscriptions_of(pk: int) -> list[str]:
    return Session.objects.filter(pk=pk).values_list("subscriptions", flat=True).first() or []


@database.retry_conflicts
def forget_subscriptions(pk: int, uris: Collection[str]) -> None:
    with database.atomic():
        # Locked, because concurrent requests and streams rewrite the whole list.
        locked = Session.objects.select_for_update().filter(pk=pk).first()
        if locked is not None:
            locked.subscriptions = [subscribed for subscribed in locked.subscriptions if subscribed not in uris]
            locked.save(update_fields=["subscriptions"])


def topic(session: Session) -> str:
    return f"session:{session.pk}"


def _hash(session_id: str) -> str:
    return hashlib.sha256(session_id.encode()).hexdigest()


def _expiry_in(seconds: float) -> datetime.datetime:
    return timezone.now() + datetime.timedelta(seconds=seconds)


CANCEL_WATCH_DELAY = 0.05
"""Seconds before a call starts to watch for cancellation; most calls are done by then."""
MAX_SUBSCRIPTIONS = 1000


async def set_level(context: Context, session: Session | None) -> dict[str, Any]:
    # Without a session this has no effect.
    if "logging" not in context.server.capabilities:
        raise MethodNotFound("This server sends no log messages.")
    level = context.params.get("level")
    if level not in LEVELS:
        raise InvalidParams(f'"params.level" must be one of {", ".join(LEVELS)}.')
    if session is not None:
        update = Session.objects.filter(pk=session.pk).update
        await context.runner.own.sync(partial(update, log_level=level))
    return {}


async def subscribe(context: Context, session: Session | None) -> dict[str, Any]:
    uri, session = _subscription(context, session)
    if not await readable_uris(context, [uri]):
        raise ResourceNotFound(uri)
    await context.runner.own.sync(partial(_change, session, "subscribed", uri))
    return {}


async def unsubscribe(context: Context, session: Session | None) -> dict[str, Any]:
    uri, session = _subscription(context, session)
    await context.runner.own.sync(partial(_change, session, "unsubscribed", uri))
    return {}


HANDLERS: Mapping[str, Callable[[Context, Session | None], Awaitable[dict[str, Any]]]] = {
    "logging/setLevel": set_level,
    "resources/subscribe": subscribe,
    "resources/unsubscribe": unsubscribe,
}


def _subscription(context: Context, session: Session | None) -> tuple[str, Session]:
    if "resources" not in context.server.capabilities:
        raise MethodNotFound(f"Unknown method {context.method!r}.")
    uri = context.params.get("uri")
    if not isinstance(uri, str):
        raise InvalidParams('"params.uri" must be a string.')
    if session is None:
        raise InvalidRequest(f"{context.method} requires a session. Send 'initialize', then Mcp-Session-Id.")
    return uri, session


@database.retry_conflicts
def _change(session: Session, what: str, uri: str) -> None:
    with database.atomic():
        # Locked, because concurrent requests of the session rewrite the whole list, and each change has its event.
        locked = Session.objects.select_for_update().get(pk=session.pk)
        uris = [subscribed for subscribed in locked.subscriptions if subscribed != uri]
        if what == "subscribed":
            uris.append(uri)
        elif len(uris) == len(locked.subscriptions):
            return  # nothing was subscribed, so no stream has to know
        if len(uris) > MAX_SUBSCRIPTIONS:
            raise InvalidParams(f"A session holds at most {MAX_SUBSCRIPTIONS} subscriptions.")
        if what == "subscribed" and sum(map(len, uris)) > MAX_FILTER_BYTES:
            raise InvalidParams(f"The subscribed URIs of a session must total at most {MAX_FILTER_BYTES} characters.")
        locked.subscriptions = uris
        locked.save(update_fields=["subscriptions"])
        _append(session, {what: uri}, replaced=_one_of({"subscribed": uri}, {"unsubscribed": uri}))


def cancel(session: Session, params: Mapping[str, Any]) -> None:
    """Cancel a call that runs or waits in any process (2025-11-25, Cancellation). Unknown ids are ignored."""
    request_id = params.get("requestId")
    if type(request_id) is int or type(request_id) is str:
        if (channel := _running.get((session.pk, request_id))) is not None:
            # At once if the call runs here; its process, if it is another one, reads the event below.
            channel.cancel_threadsafe()
        calls.end_cancelled(session, request_id)
        _store_event(session.pk, {"cancelled": request_id}, replaced=_one_of({"cancelled": request_id}))


def open_stream(pk: int, token: str) -> bool:
    """End the session's earlier stream of changes in any process. Return False if the session has ended."""
    return _store_event(pk, {"opened": token}, replaced=Q(data__startswith='{"opened": '))


MAX_EVENTS = 1000
"""Events that the topic of a session keeps: as many as a stream reads that is resumed."""
TRIM_EVERY = 100
"""Positions after which the topic of a session is cut to that many events."""


@database.retry_conflicts
def _store_event(pk: int, change: Mapping[str, Any], replaced: Q) -> bool:
    with database.atomic():
        # As for subscriptions: events of a session are deleted only under its lock.
        session = Session.objects.select_for_update().filter(pk=pk).first()
        if session is not None:
            _append(session, change, replaced)
        return session is not None


def _one_of(*changes: Mapping[str, Any]) -> Q:
    return Q(data__in=list(map(json.dumps, changes)))


def _append(session: Session, change: Mapping[str, Any], replaced: Q) -> None:
    # Events replace earlier ones of the same kind, because clients may send any number of them.
    stored = Event.objects.filter(topic=topic(session))
    stored.filter(replaced).delete()
    [newest] = event_store.append_numbered([(topic(session), json.dumps(change))])
    Session.objects.filter(pk=session.pk).update(last_event=newest)
    # Positions are those of all sessions: multiples of TRIM_EVERY could always be another one's.
    if newest // TRIM_EVERY != session.last_event // TRIM_EVERY:
        kept = stored.exclude(position=None).order_by("-position").values_list("position", flat=True)
        stored.filter(position__lt=next(iter(kept[MAX_EVENTS - 1 : MAX_EVENTS]), 0)).delete()


_running: dict[tuple[int, RequestId], LegacyChannel] = clear_after_fork({})
"""Calls of this process, cancelled directly: a tool that writes may hold the lock of the event store."""


def register_call(session: Session, channel: LegacyChannel) -> None:
    key = session.pk, channel.request.id

    def forget(_: object) -> None:
        # The client may have reused the id for a later request.
        if _running.get(key) is channel:
            del _running[key]

    _running[key] = channel
    if channel.task is not None:
        channel.task.add_done_callback(forget)


def watch_cancellation(session: Session, channel: LegacyChannel) -> None:
    watching = create_background_task(_follow_cancellation(session, channel))
    if channel.task is not None:
        channel.task.add_done_callback(lambda _: watching.cancel())


async def _follow_cancellation(session: Session, channel: LegacyChannel) -> None:
    stream = topic(session)
    subscription = await follow(stream)
    try:
        # What was cancelled before the call began is no concern of it, and may be much.
        began = session.last_event
        # Subscribe before reading, so that nothing is missed in between.
        for entry in await retry_database(free_pool(), partial(event_store.after, began, [stream])):
            if _is_cancellation(entry, channel):
                channel.cancel()
        async with aclosing(subscription.entries()) as entries:
            async for found in entries:
                if found is not None and found.id > began and _is_cancellation(found, channel):
                    channel.cancel()
                    return
    except asyncio.CancelledError:  # the call has ended
        pass
    finally:
        subscription.close()


def _is_cancellation(entry: event_store.Entry, channel: LegacyChannel) -> bool:
    change = json.loads(entry.data)
    return "ended" in change or ("cancelled" in change and change["cancelled"] == channel.request.id)

"""Streams a client opens with GET: to go on with one it lost, or to hear of changes (2025-11-25, Transports)."""

import json
import secrets
from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial

from django.utils import timezone

from django_mcp.core.concurrency import shared_pool
from django_mcp.core.registry import MCPServer
from django_mcp.eras.base import KEEP_ALIVE, Answer, Event, Inbound, notification
from django_mcp.eras.legacy import calls, sessions
from django_mcp.eras.legacy.channel import PRIMING_SINCE, RETRY_MS
from django_mcp.live import changes, log
from django_mcp.live.follower import follow
from django_mcp.live.patience import patiently
from django_mcp.models import Call, Session
from django_mcp.protocol.errors import InvalidRequest

CHANGES = "changes"
"""The stream of changes in event ids."""


async def tail(call: Call, position: int) -> AsyncGenerator[Event, None]:
    """A call's stream after *position*, as it grows, to its end."""
    topic = calls.topic(call)
    subscription = await follow(topic)
    try:
        # Subscribed first, then read: what is written in between comes twice, and goes out once.
        for entry in await patiently(shared_pool(), partial(log.after, position, [topic])):
            if entry.data == calls.END:
                return
            position = entry.id
            yield _event(call, entry)
        async with aclosing(subscription.entries()) as entries:
            async for found in entries:
                if found is None:
                    if call.expires < timezone.now():  # whoever ran it is gone
                        return
                    yield KEEP_ALIVE
                elif found.id > position:
                    if found.data == calls.END:
                        return
                    position = found.id
                    yield _event(call, found)
        yield Event(retry=RETRY_MS)
    finally:
        subscription.close()


async def resumed(call: Call, position: int, inbound: Inbound) -> Answer:
    """A call's stream for a client that comes back."""
    if inbound.wire.can_hold:
        return Answer(200, stream=tail(call, position))
    entries = await inbound.runner.sync(partial(log.after, position, [calls.topic(call)]))
    inbound.wire.send(Event(retry=RETRY_MS))
    for entry in entries:
        if entry.data != calls.END:
            inbound.wire.send(_event(call, entry))
    return Answer(200)


async def changes_for(session: Session, server: MCPServer, position: int | None) -> AsyncGenerator[Event, None]:
    """The changes a session's client is told about: of lists, and of resources it subscribed to.

    A message goes to one stream of a session only, so a second one ends the first.
    """
    topics = [changes.topic(server), sessions.topic(session)]
    subscription = await follow(*topics)
    run = partial(patiently, shared_pool())
    token = secrets.token_urlsafe(8)
    try:
        # Read now: what is subscribed to from here on, the subscription above hears of.
        uris = set(await run(partial(sessions.subscriptions_of, session)))
        if position is None:
            position = await run(log.newest)
            backlog = []
        else:
            backlog = await run(partial(log.after, position, topics))
        await run(partial(log.append, [(sessions.topic(session), json.dumps({"opened": token}))]))
        if session.version >= PRIMING_SINCE:
            yield Event(id=f"{CHANGES}.{position}", retry=RETRY_MS)
        else:
            yield KEEP_ALIVE  # the headers go out with the first event
        for entry in backlog:
            position = entry.id
            if (event := _change(entry, uris)) is not None:
                yield event
        async with aclosing(subscription.entries()) as entries:
            async for found in entries:
                if found is None:
                    yield KEEP_ALIVE
                elif found.id > position:
                    position = found.id
                    if _ends(found, token):
                        return
                    if (event := _change(found, uris)) is not None:
                        yield event
    finally:
        subscription.close()


def _change(entry: log.Entry, uris: set[str]) -> Event | None:
    """The event for an entry; entries about the session itself change *uris* instead."""
    change = json.loads(entry.data)
    if "subscribed" in change:
        uris.add(change["subscribed"])
    elif "unsubscribed" in change:
        uris.discard(change["unsubscribed"])
    elif "method" in change and (change["method"] != changes.UPDATED or change["params"]["uri"] in uris):
        return Event(notification(change["method"], change["params"]), id=f"{CHANGES}.{entry.id}")
    return None


def _ends(entry: log.Entry, token: str) -> bool:
    change = json.loads(entry.data)
    return "ended" in change or change.get("opened", token) != token


def _event(call: Call, entry: log.Entry) -> Event:
    return Event(entry.data.encode(), id=f"{call.key}.{entry.id}")


async def open_get(session: Session, last_event_id: str | None, inbound: Inbound) -> Answer | None:
    """What a GET gets; None where this edge has nothing for it.

    Raises:
        InvalidRequest: the event id is none of this session's.
    """
    if last_event_id is not None and not last_event_id.startswith(f"{CHANGES}."):
        found = await inbound.runner.sync(partial(calls.find, session, last_event_id))
        if found is None:
            raise InvalidRequest("Last-Event-ID names no stream of this session. GET without it to hear of changes.")
        return await resumed(*found, inbound)
    if not inbound.wire.can_hold:
        return None
    position = (last_event_id or "").partition(".")[2]
    known = int(position) if position.isdecimal() and len(position) < 19 else None  # noqa: PLR2004
    return Answer(200, stream=changes_for(session, inbound.server, known))

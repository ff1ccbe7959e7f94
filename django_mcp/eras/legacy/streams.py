"""Streams a client opens with GET: to go on with one it lost, or to hear of changes (2025-11-25, Transports)."""

import json
import secrets
from collections.abc import AsyncGenerator, Collection, Iterable, Sequence
from contextlib import aclosing
from functools import partial
from itertools import takewhile

from django.utils import timezone

from django_mcp.core.concurrency import shared_pool
from django_mcp.core.principal import Principal
from django_mcp.eras.base import KEEP_ALIVE, Answer, Event, Inbound, notification
from django_mcp.eras.hearing import Hearing
from django_mcp.eras.legacy import calls, outcomes, sessions
from django_mcp.eras.legacy.channel import PRIMING_SINCE, RETRY_MS
from django_mcp.eras.legacy.tasks import RESULT
from django_mcp.live import changes, log
from django_mcp.live.follower import follow
from django_mcp.live.patience import patiently
from django_mcp.models import Call, Session
from django_mcp.protocol.errors import InvalidRequest

CHANGES = "changes"
"""The stream of changes in event ids."""


async def tail(call: Call, position: int, principal: Principal | None = None) -> AsyncGenerator[Event, None]:
    """A call's stream after *position*, as it grows, to its end."""
    topic = calls.topic(call)
    subscription = await follow(topic, principal=principal)
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
    if call.request["method"] == RESULT:
        return await outcomes.resumed(call, position, inbound)
    if inbound.wire.can_hold:
        return Answer(200, stream=tail(call, position, inbound.principal))
    entries = await inbound.runner.sync(partial(log.after, position, [calls.topic(call)]))
    inbound.wire.send(Event(retry=RETRY_MS))
    for entry in entries:
        if entry.data != calls.END:
            inbound.wire.send(_event(call, entry))
    return Answer(200)


async def changes_for(session: Session, inbound: Inbound, position: int | None) -> AsyncGenerator[Event, None]:
    """The changes a session's client is told about: of lists, and of resources it subscribed to.

    A message goes to one stream of a session only, so a second one ends the first.
    """
    topics = [changes.topic(inbound.server), sessions.topic(session)]
    subscription = await follow(*topics, principal=inbound.principal)
    hearing = SessionHearing(session, inbound)
    subscription.wants = hearing.wants
    run = partial(patiently, shared_pool())
    token = secrets.token_urlsafe(8)
    try:
        if position is None:
            position = await run(log.newest)
            backlog = []
        else:
            backlog = await run(partial(log.after, position, topics))
        last_words = await hearing.begin(backlog)
        await run(partial(log.append, [(sessions.topic(session), json.dumps({"opened": token}))]))
        if session.version >= PRIMING_SINCE:
            yield Event(id=f"{CHANGES}.{position}", retry=RETRY_MS)
        else:
            yield KEEP_ALIVE  # the headers go out with the first event
        for event in last_words:
            yield event
        read = {entry.id for entry in backlog}
        async with aclosing(subscription.batches()) as batches:
            async for entries in batches:
                if not entries:
                    yield KEEP_ALIVE
                later = [entry for entry in entries if entry.id > position and entry.id not in read]
                current = list(takewhile(lambda entry: not _ends(entry, token), later))
                for event in await hearing.events(current):
                    yield event
                if len(current) < len(later):
                    return
    finally:
        subscription.close()


class SessionHearing:
    """What a session's stream hears; between the changes, the log says what is subscribed to.

    Args:
        session: whose subscriptions count.
        inbound: the request that opened the stream.
    """

    def __init__(self, session: Session, inbound: Inbound) -> None:
        self._session = session
        self._topic = sessions.topic(session)
        self._hearing = Hearing(inbound, [changes.list_changed_method(kind) for kind in changes.KINDS])
        self._begun = False
        self._unsubscribed: set[str] = set()

    def wants(self, entry: log.Entry) -> bool:
        """Whether an entry is worth keeping. What is subscribed to counts from the moment it comes."""
        if entry.topic != self._topic:
            return not self._begun or self._hearing.wants(entry)
        change = changes.read(entry.data)
        if "subscribed" in change:
            self._hearing.uris.add(change["subscribed"])
            self._unsubscribed.discard(change["subscribed"])
        elif "unsubscribed" in change:
            self._hearing.uris.discard(change["unsubscribed"])
            self._unsubscribed.add(change["unsubscribed"])
        return True

    async def begin(self, backlog: Sequence[log.Entry]) -> list[Event]:
        """Take over what the session is subscribed to, and tell of what happened to it meanwhile.

        What exists no longer for the caller has its last word there, and is no longer subscribed to.
        """
        stored = await patiently(shared_pool(), partial(sessions.subscriptions_of, self._session))
        known = await self._hearing.known(stored)
        self._hearing.uris.update(uri for uri in stored if uri not in self._unsubscribed)
        events = await self.events(backlog)
        if known is not None:
            await self._forget({uri for uri in stored if uri not in known})
        self._begun = True
        return events

    async def events(self, entries: Iterable[log.Entry]) -> list[Event]:
        """Those for entries that came together."""
        told = await self._hearing.told(entry for entry in entries if entry.topic != self._topic)
        await self._forget(self._hearing.lost)
        self._hearing.lost = set()
        return [Event(notification(each.method, each.params), id=f"{CHANGES}.{each.id}") for each in told]

    async def _forget(self, uris: Collection[str]) -> None:
        self._hearing.uris.difference_update(uris)
        if uris:
            await patiently(shared_pool(), partial(sessions.forget_subscriptions, self._session, uris))


def _ends(entry: log.Entry, token: str) -> bool:
    change = changes.read(entry.data)
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
    return Answer(200, stream=changes_for(session, inbound, known))

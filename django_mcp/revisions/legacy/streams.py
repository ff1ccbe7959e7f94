"""Streams that a client opens with GET: resumed calls and changes (2025-11-25, Transports)."""

import asyncio
import secrets
from collections.abc import AsyncGenerator, Iterable, Sequence
from collections.abc import Set as AbstractSet
from contextlib import aclosing, suppress
from functools import partial
from itertools import takewhile
from weakref import WeakValueDictionary

from django.utils import timezone

from django_mcp.core.concurrency import free_pool, retry_database
from django_mcp.models import Call, Session
from django_mcp.protocol.errors import InvalidRequest
from django_mcp.pubsub import event_store, publish
from django_mcp.pubsub.follower import Subscription, follow
from django_mcp.revisions.base import KEEP_ALIVE, Event, MCPRequest, MCPResponse, notification
from django_mcp.revisions.legacy import calls, sessions
from django_mcp.revisions.legacy.channel import PRIMING_SINCE, RETRY_MS
from django_mcp.revisions.legacy.tasks import RESULT
from django_mcp.revisions.subscriptions import NONE, ParkedStream, SlotStream, StreamSlot, SubscriptionFilter, size_of

CHANGES = "changes"
"""Prefix of event ids in the stream of changes."""
_LISTS = frozenset(publish.list_changed_method(kind) for kind in publish.KINDS)


class _Reader:
    """The stream of this process that reads a call; it need not have begun."""

    __slots__ = ("__weakref__", "_begun", "_is_replaced", "slot")

    def __init__(self, slot: StreamSlot) -> None:
        self.slot = slot
        self._begun: tuple[asyncio.AbstractEventLoop, Subscription] | None = None
        self._is_replaced = False

    def begin(self, subscription: Subscription) -> None:
        # In this order, and ``replace`` in the other: it may be called at the same time, in another thread.
        self._begun = asyncio.get_running_loop(), subscription
        if self._is_replaced:
            subscription.end()

    def replace(self) -> None:
        self._is_replaced = True
        if self._begun is not None:
            loop, subscription = self._begun
            with suppress(RuntimeError):  # the loop is closed, and its streams with it
                loop.call_soon_threadsafe(subscription.end)


_readers: WeakValueDictionary[str, _Reader] = WeakValueDictionary()
"""By topic; each lives as long as its stream."""


def read_call(call: Call, position: int, mcp_request: MCPRequest, kind: str = "") -> SlotStream:
    """Return the stream of a call after *position*. It ends the stream of this process that reads the call already.

    A client that comes back has lost that one, and each message goes to one stream only (2025-11-25, Transports,
    Multiple Connections). It is ended here, not when the new one begins: streams do not begin in the order of their
    requests, and an earlier one would end a later one.

    Args:
        kind: see ``StreamSlot``.

    Raises:
        TooManyRequests: the caller has too many open streams.
    """
    topic = calls.topic(call)
    previous = _readers.get(topic)
    slot = StreamSlot(mcp_request.principal, replaced=None if previous is None else previous.slot, kind=kind)
    reader = _readers[topic] = _Reader(slot)
    if previous is not None:
        previous.replace()
    return SlotStream(tail(call, position, mcp_request, reader), slot)


def is_read(call: Call) -> bool:
    return calls.topic(call) in _readers


async def tail(
    call: Call, position: int, mcp_request: MCPRequest, reader: _Reader | None = None
) -> AsyncGenerator[Event, None]:
    """Yield the events of a call's stream after *position*, until its end."""
    topic, run, lost = calls.topic(call), partial(retry_database, free_pool()), 0
    subscription = await follow(topic, principal=mcp_request.principal, server=mcp_request.server)
    try:
        if reader is not None:
            reader.begin(subscription)
        position = min(position, await run(event_store.newest))  # as in ``SessionStream.begin``
        # Subscribe before reading; entries written in between arrive twice and are sent once.
        for entry in await run(partial(event_store.after, position, [topic])):
            if entry.data == calls.END:
                return
            position = entry.id
            yield _event(call, entry)
        yield KEEP_ALIVE  # the headers go out with the first event, which may be long in coming
        async with aclosing(subscription.entries()) as entries:
            async for found in entries:
                if found is None:
                    if call.expires < timezone.now():
                        return
                    lost = lost + 1 if await run(partial(calls.is_lost, call)) else 0
                    if lost > 1:  # twice in a row: after a database outage the lease must be renewed first
                        await run(partial(calls.give_up, call))
                    yield KEEP_ALIVE
                elif found.id > position:
                    if found.data == calls.END:
                        return
                    position = found.id
                    yield _event(call, found)
        yield Event(retry=RETRY_MS)
    finally:
        subscription.close()


async def resumed(call: Call, position: int, mcp_request: MCPRequest) -> MCPResponse:
    """Return a call's stream for a client that reconnects."""
    if call.request["method"] == RESULT:
        from django_mcp.revisions.legacy import task_results  # noqa: PLC0415 - most sites have no tasks

        return await task_results.resumed(call, position, mcp_request)
    if mcp_request.response.can_hold:
        return MCPResponse(200, stream=read_call(call, position, mcp_request))
    if await mcp_request.runner.own.sync(partial(calls.is_lost, call)):
        await mcp_request.runner.own.sync(partial(calls.give_up, call))
    entries = await mcp_request.runner.own.sync(partial(event_store.after, position, [calls.topic(call)]))
    mcp_request.response.send(Event(retry=RETRY_MS))
    for entry in entries:
        if entry.data != calls.END:
            mcp_request.response.send(_event(call, entry))
    return MCPResponse(200)


def changes_for(session: Session, mcp_request: MCPRequest, position: int | None, slot: StreamSlot) -> "SessionStream":
    """Return the stream of list changes and subscribed resources of a session, after entry *position* if given.

    *slot* counts the resources that it subscribes to.
    """
    return SessionStream(session, mcp_request, position, slot)


class SessionStream(ParkedStream):
    """The stream of a session's changes. Its topic also has changes of the subscriptions.

    A session has one such stream, since each message goes to one stream only; a second one ends the first.
    """

    __slots__ = (
        "_begun",
        "_forgotten",
        "_hearing",
        "_position",
        "_primes",
        "_principal",
        "_server",
        "_session",
        "_token",
        "_topic",
        "_unsubscribed",
    )

    def __init__(self, session: Session, mcp_request: MCPRequest, position: int | None, slot: StreamSlot) -> None:
        super().__init__()
        self._session: int = session.pk  # the row itself would need more memory than the rest
        self._topic = sessions.topic(session)
        self._primes = session.version >= PRIMING_SINCE
        self._server, self._principal = mcp_request.server, mcp_request.principal
        self._hearing = SubscriptionFilter(mcp_request, _LISTS, slot)
        self._position = position
        self._token = secrets.token_urlsafe(8)
        self._begun = False
        self._unsubscribed: AbstractSet[str] = NONE
        self._forgotten: AbstractSet[str] = NONE

    async def begin(self) -> AsyncGenerator[Event, None]:
        """Yield the id to resume from and missed events."""
        topics = [publish.topic(self._server), self._topic]
        self.subscription = await follow(*topics, principal=self._principal, server=self._server)
        self.subscription.wants = self.wants
        run = partial(retry_database, free_pool())
        backlog: list[event_store.Entry] = []
        newest = await run(event_store.newest)
        if self._position is None:
            position = self._position = newest
        else:
            # An id from before the database was restored from a backup would be in the future.
            position = self._position = min(self._position, newest)
            if backlog := await run(partial(event_store.latest, position, topics)):
                self._position = backlog[-1].id  # the subscription has them too
        last_words = await self._catch_up(backlog)
        if not await run(partial(sessions.open_stream, self._session, self._token)):
            self.subscription.end()  # the session ended before its topic was followed
        if self._primes:
            yield Event(id=f"{CHANGES}.{position}", retry=RETRY_MS)
        else:
            yield KEEP_ALIVE  # the headers go out with the first event
        for event in last_words:
            yield event

    def wants(self, entry: event_store.Entry) -> bool:
        """Return True if an entry may lead to an event; apply changes of subscriptions."""
        if entry.topic != self._topic:
            return not self._begun or self._hearing.wants(entry)
        change = publish.read(entry.data)
        if "subscribed" in change:
            if change["subscribed"] in self._forgotten and self._is_old(entry):
                return True  # it was read late: the resource has been found to be gone since
            self._add({change["subscribed"]})
            self._unsubscribed -= {change["subscribed"]}
            self._forgotten -= {change["subscribed"]}
        elif "unsubscribed" in change:
            self._hearing.remove({change["unsubscribed"]})
            self._unsubscribed |= {change["unsubscribed"]}
        return True

    def _add(self, uris: AbstractSet[str]) -> None:
        if not self._hearing.add(uris):  # the client reads why when it comes back
            assert self.subscription is not None  # noqa: S101
            self.subscription.end()

    def _is_old(self, entry: event_store.Entry) -> bool:
        return entry.id <= (self._position or 0)

    async def tell(self, entries: Sequence[event_store.Entry]) -> Sequence[Event]:
        """Return events of changes, until the session ends or opens another stream."""
        later = [entry for entry in entries if not self._is_old(entry)]
        current = list(takewhile(lambda entry: not _ends(entry, self._token), later))
        self.is_over = len(current) < len(later)
        return await self._events_for(current)

    async def _catch_up(self, backlog: Sequence[event_store.Entry]) -> list[Event]:
        """Load the subscriptions; return missed events. A resource that is gone gets one last event."""
        stored = await retry_database(free_pool(), partial(sessions.subscriptions_of, self._session))
        known = await self._hearing.known(stored)
        # Also those of requests that came after the stream was asked for, which nothing has counted.
        self._add(set(stored) - self._unsubscribed)
        events = await self._events_for(backlog)
        if known is not None:
            await self._forget({uri for uri in stored if uri not in known})
        self._begun = True
        return events

    async def _events_for(self, entries: Iterable[event_store.Entry]) -> list[Event]:
        told = await self._hearing.told(entry for entry in entries if entry.topic != self._topic)
        lost, self._hearing.lost = self._hearing.lost, NONE
        await self._forget(lost)
        return [Event(notification(notice.method, notice.params), id=f"{CHANGES}.{notice.id}") for notice in told]

    async def _forget(self, uris: AbstractSet[str]) -> None:
        if uris:
            self._hearing.remove(uris)
            self._forgotten |= uris
            await retry_database(free_pool(), partial(sessions.forget_subscriptions, self._session, uris))


def _ends(entry: event_store.Entry, token: str) -> bool:
    change = publish.read(entry.data)
    return "ended" in change or change.get("opened", token) != token


def _event(call: Call, entry: event_store.Entry) -> Event:
    return Event(entry.data.encode(), id=f"{call.key}.{entry.id}")


async def open_get(session: Session, last_event_id: str | None, mcp_request: MCPRequest) -> MCPResponse | None:
    """Answer a GET; None if the transport cannot.

    Raises:
        InvalidRequest: the event id does not belong to this session.
        TooManyRequests: the caller has too many open streams.
    """
    if last_event_id is not None and not last_event_id.startswith(f"{CHANGES}."):
        found = await mcp_request.runner.own.sync(partial(calls.find, session, last_event_id))
        if found is None:
            raise InvalidRequest("Last-Event-ID names no stream of this session. Send GET without it for a new stream.")
        return await resumed(*found, mcp_request)
    if not mcp_request.response.can_hold:
        return None
    position = (last_event_id or "").partition(".")[2]
    known = int(position) if position.isdecimal() and len(position) < 19 else None  # noqa: PLR2004
    slot = StreamSlot(mcp_request.principal, size=size_of(session.subscriptions))
    stream = changes_for(session, mcp_request, known, slot)
    stream.slot = slot
    return MCPResponse(200, stream=stream)

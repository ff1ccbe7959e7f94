"""Streams that a client opens with GET: resumed calls and changes (2025-11-25, Transports)."""

import secrets
from collections.abc import AsyncGenerator, Iterable, Sequence
from collections.abc import Set as AbstractSet
from contextlib import aclosing
from functools import partial
from itertools import takewhile

from django.utils import timezone

from django_mcp.core.concurrency import free_pool, retry_database
from django_mcp.models import Call, Session
from django_mcp.protocol.errors import InvalidRequest
from django_mcp.pubsub import event_store, publish
from django_mcp.pubsub.follower import follow
from django_mcp.pubsub.stream_slots import StreamSlot, size_of
from django_mcp.revisions.base import KEEP_ALIVE, MCPRequest, MCPResponse, SSEEvent, encode_notification
from django_mcp.revisions.legacy import calls, sessions, task_results
from django_mcp.revisions.legacy.channel import PRIMING_SINCE, RETRY_MS
from django_mcp.revisions.legacy.tasks import RESULT
from django_mcp.revisions.subscriptions import (
    NONE,
    Begun,
    ParkedStream,
    SlotStream,
    SubscriptionFilter,
    has_stream,
    replace_stream,
)

CHANGES = "changes"
"""Prefix of event ids in the stream of changes."""
_LISTS = frozenset(publish.list_changed_method(kind) for kind in publish.KINDS)


def call_stream(call: Call, position: int, mcp_request: MCPRequest) -> SlotStream:
    """Return the stream of a call after *position*. It ends the stream of this process that reads the call already.

    Raises:
        TooManyRequests: the caller has too many open streams.
    """
    slot = StreamSlot(mcp_request.principal, key=calls.topic(call), kind=mcp_request.stream_kind)
    return SlotStream(tail(call, position, mcp_request, replace_stream(slot.key)), slot)


def has_reader(call: Call) -> bool:
    return has_stream(calls.topic(call))


async def tail(
    call: Call, position: int, mcp_request: MCPRequest, begun: Begun | None = None
) -> AsyncGenerator[SSEEvent, None]:
    """Yield the events of a call's stream after *position*, until its end."""
    topic, run, lost = calls.topic(call), partial(retry_database, free_pool()), 0
    subscription = await follow(topic, principal=mcp_request.principal, server=mcp_request.server)
    try:
        if begun is not None:
            begun(subscription)
        position = min(position, await run(event_store.newest))  # as in ``SessionStream.first_events``
        # Subscribe before reading; entries written in between arrive twice and are sent once.
        for entry in await run(partial(event_store.after, position, [topic])):
            if entry.data == calls.END_OF_STREAM:
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
                        await run(partial(calls.fail_lost, call))
                    yield KEEP_ALIVE
                elif found.id > position:
                    if found.data == calls.END_OF_STREAM:
                        return
                    position = found.id
                    yield _event(call, found)
        yield SSEEvent(retry=RETRY_MS)
    finally:
        subscription.close()


async def resume(call: Call, position: int, mcp_request: MCPRequest) -> MCPResponse:
    if call.request["method"] == RESULT:
        return await task_results.resume(call, position, mcp_request)
    if mcp_request.response.can_hold:
        return MCPResponse(200, stream=call_stream(call, position, mcp_request))
    if await mcp_request.runner.own.sync(partial(calls.is_lost, call)):
        await mcp_request.runner.own.sync(partial(calls.fail_lost, call))
    entries = await mcp_request.runner.own.sync(partial(event_store.after, position, [calls.topic(call)]))
    mcp_request.response.send(SSEEvent(retry=RETRY_MS))
    for entry in entries:
        if entry.data != calls.END_OF_STREAM:
            mcp_request.response.send(_event(call, entry))
    return MCPResponse(200)


def session_stream(
    session: Session, mcp_request: MCPRequest, position: int | None, slot: StreamSlot, begun: Begun | None = None
) -> "SessionStream":
    """Return the stream of list changes and subscribed resources of a session, after entry *position* if given.

    *slot* counts the resources that it subscribes to.
    """
    return SessionStream(session, mcp_request, position, slot, begun)


class SessionStream(ParkedStream):
    """The stream of a session's changes. Its topic also has changes of the subscriptions.

    A session has one such stream, since each message goes to one stream only; a second one ends the first.
    """

    __slots__ = (
        "_begun",
        "_filter",
        "_forgotten",
        "_on_begin",
        "_position",
        "_primes",
        "_principal",
        "_server",
        "_session",
        "_token",
        "_topic",
        "_unsubscribed",
    )

    def __init__(
        self,
        session: Session,
        mcp_request: MCPRequest,
        position: int | None,
        slot: StreamSlot,
        begun: Begun | None,
    ) -> None:
        super().__init__()
        self._on_begin = begun  # which lives as long as the stream
        self._session: int = session.pk  # the row itself would need more memory than the rest
        self._topic = sessions.topic(session)
        self._primes = session.version >= PRIMING_SINCE
        self._server, self._principal = mcp_request.server, mcp_request.principal
        self._filter = SubscriptionFilter(mcp_request, _LISTS, slot)
        self._position = position
        self._token = secrets.token_urlsafe(8)
        self._begun = False
        self._unsubscribed: AbstractSet[str] = NONE
        self._forgotten: AbstractSet[str] = NONE

    async def first_events(self) -> AsyncGenerator[SSEEvent, None]:
        topics = [publish.server_topic(self._server), self._topic]
        self.subscription = await follow(*topics, principal=self._principal, server=self._server)
        self.subscription.matches = self.matches
        if self._on_begin is not None:
            self._on_begin(self.subscription)
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
            yield SSEEvent(id=f"{CHANGES}.{position}", retry=RETRY_MS)
        else:
            yield KEEP_ALIVE  # the headers go out with the first event
        for event in last_words:
            yield event

    def matches(self, entry: event_store.Entry) -> bool:
        """Return True if an entry may lead to an event; apply changes of subscriptions."""
        if entry.topic != self._topic:
            return not self._begun or self._filter.matches(entry)
        change = publish.decode_event(entry.data)
        if "subscribed" in change:
            if change["subscribed"] in self._forgotten and self._is_old(entry):
                return True  # it was read late: the resource has been found to be gone since
            self._add({change["subscribed"]})
            self._unsubscribed -= {change["subscribed"]}
            self._forgotten -= {change["subscribed"]}
        elif "unsubscribed" in change:
            self._filter.remove({change["unsubscribed"]})
            self._unsubscribed |= {change["unsubscribed"]}
        return True

    def _add(self, uris: AbstractSet[str]) -> None:
        if not self._filter.add(uris):  # the client reads why when it comes back
            assert self.subscription is not None  # noqa: S101
            self.subscription.end()

    def _is_old(self, entry: event_store.Entry) -> bool:
        return entry.id <= (self._position or 0)

    async def events_for(self, entries: Sequence[event_store.Entry]) -> Sequence[SSEEvent]:
        later = [entry for entry in entries if not self._is_old(entry)]
        current = list(takewhile(lambda entry: not _is_end(entry, self._token), later))
        self.is_over = len(current) < len(later)
        return await self._notifications_for(current)

    async def _catch_up(self, backlog: Sequence[event_store.Entry]) -> list[SSEEvent]:
        stored = await retry_database(free_pool(), partial(sessions.subscriptions_of, self._session))
        known = await self._filter.known_uris(stored)
        # Also those of requests that came after the stream was asked for, which nothing has counted.
        self._add(set(stored) - self._unsubscribed)
        events = await self._notifications_for(backlog)
        # Resources that are gone have just got their last event.
        if known is not None:
            await self._forget({uri for uri in stored if uri not in known})
        self._begun = True
        return events

    async def _notifications_for(self, entries: Iterable[event_store.Entry]) -> list[SSEEvent]:
        notifications = await self._filter.notifications_for(entry for entry in entries if entry.topic != self._topic)
        lost, self._filter.lost = self._filter.lost, NONE
        await self._forget(lost)
        return [
            SSEEvent(encode_notification(sent.method, sent.params), id=f"{CHANGES}.{sent.id}") for sent in notifications
        ]

    async def _forget(self, uris: AbstractSet[str]) -> None:
        if uris:
            self._filter.remove(uris)
            self._forgotten |= uris
            await retry_database(free_pool(), partial(sessions.forget_subscriptions, self._session, uris))


def _is_end(entry: event_store.Entry, token: str) -> bool:
    change = publish.decode_event(entry.data)
    return "ended" in change or change.get("opened", token) != token


def _event(call: Call, entry: event_store.Entry) -> SSEEvent:
    return SSEEvent(entry.data.encode(), id=f"{call.key}.{entry.id}")


async def open_get(session: Session, last_event_id: str | None, mcp_request: MCPRequest) -> MCPResponse | None:
    """Answer a GET; None if the transport cannot.

    Raises:
        InvalidRequest: the event id does not belong to this session.
        TooManyRequests: the caller has too many open streams.
    """
    if last_event_id is not None and not last_event_id.startswith(f"{CHANGES}."):
        found = await mcp_request.runner.own.sync(partial(calls.find_by_event_id, session, last_event_id))
        if found is None:
            raise InvalidRequest("Last-Event-ID names no stream of this session. Send GET without it for a new stream.")
        return await resume(*found, mcp_request)
    if not mcp_request.response.can_hold:
        return None
    position = (last_event_id or "").partition(".")[2]
    known = int(position) if position.isdecimal() and len(position) < 19 else None  # noqa: PLR2004
    # The key, as the stream ends the session's one before, which may not have noticed that its client is gone.
    slot = StreamSlot(mcp_request.principal, key=sessions.topic(session), size=size_of(session.subscriptions))
    stream = session_stream(session, mcp_request, known, slot, replace_stream(slot.key))
    stream.slot = slot
    return MCPResponse(200, stream=stream)

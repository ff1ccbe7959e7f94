"""Subscriptions: filtering of changes per stream, and idle streams.

Permissions and rows change during a stream's life, so access is checked for each notification. A resource that no
longer exists for the caller gets one last notification.

A process may hold ten thousand streams. An idle one has no task: it is an object, and the follower notifies the
transport of new entries.
"""

import asyncio
import logging
import sys
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Hashable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import aclosing, suppress
from functools import partial
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from django_mcp.core.after_fork import clear_after_fork
from django_mcp.core.channel import Channel
from django_mcp.core.concurrency import checks_pool, retry_database
from django_mcp.core.context import Context
from django_mcp.core.request import CallSource
from django_mcp.core.resources import find_known, may_query, refresh_principal
from django_mcp.protocol.jsonrpc import Request
from django_mcp.pubsub import publish
from django_mcp.pubsub.event_store import Entry
from django_mcp.pubsub.follower import Subscription
from django_mcp.pubsub.stream_slots import StreamSlot, size_of
from django_mcp.revisions.base import KEEP_ALIVE, MCPRequest, SSEEvent

logger = logging.getLogger("django_mcp")

NONE: AbstractSet[str] = frozenset()
"""The empty set, shared by most streams."""


class ResourceNotification(NamedTuple):
    """A notification to send. ``id`` is that of its entry in the event store."""

    id: int
    method: str
    params: Mapping[str, Any]


class SubscriptionFilter:
    """The subscriptions of one stream.

    Args:
        mcp_request: the request that opened the stream.
        methods: list-changed notifications to send.
        slot: counts the resources; None if the stream is not counted.

    Attributes:
        uris: resources still subscribed.
        lost: resources whose last notification was sent.
    """

    __slots__ = ("_get_django_request", "_methods", "_principal", "_server", "_size", "_slot", "lost", "uris")

    def __init__(self, mcp_request: MCPRequest, methods: Collection[str], slot: StreamSlot | None) -> None:
        self.uris: AbstractSet[str] = NONE
        self.lost: AbstractSet[str] = NONE
        self._server, self._principal = mcp_request.server, mcp_request.principal
        self._get_django_request = mcp_request.get_django_request
        self._methods = methods
        self._slot, self._size = slot, 0

    def add(self, uris: Iterable[str]) -> bool:
        """Subscribe to resources that exist for the caller; return False if its streams subscribe to too much then."""
        # Interned, because many streams subscribe to the same resources.
        new = frozenset(map(sys.intern, uris)) - self.uris
        self.uris |= new
        self._size += size_of(new)
        return self._slot is None or self._slot.resize(self._size)

    def remove(self, uris: AbstractSet[str]) -> None:
        gone = self.uris & uris
        self.uris -= gone
        self._size -= size_of(gone)
        if self._slot is not None:
            self._slot.resize(self._size)

    def matches(self, entry: Entry) -> bool:
        change = publish.decode_event(entry.data)
        if "for" in change and publish.addresses_of(self._principal).isdisjoint(change["for"]):
            return False
        return change["method"] in self._methods or change["params"].get("uri") in self.uris

    async def notifications_for(self, entries: Iterable[Entry]) -> list[ResourceNotification]:
        """Return notifications for entries that came together, without duplicates for rows."""
        asked = [entry for entry in entries if self.matches(entry)]
        wanted = [(entry.id, publish.decode_event(entry.data)) for entry in asked]
        if after := max((change.get("after", 0) for _, change in wanted), default=0):
            await asyncio.sleep(after)
        known = await self.known_uris(_uris(change for _, change in wanted))
        if known is None:  # the other entries may still be sent
            return (
                [notice for entry in asked for notice in await self.notifications_for([entry])]
                if len(asked) > 1
                else []
            )
        notifications: dict[Any, ResourceNotification] = {}
        for number, change in wanted:
            uri, about = change["params"].get("uri"), change.get("about")
            if about is not None and known.isdisjoint(about):
                continue
            if uri is not None and not self._is_subscribed(uri, known):
                continue
            key = number if about is None else (change["method"], uri)
            notifications.setdefault(key, ResourceNotification(number, change["method"], change["params"]))
        return list(notifications.values())

    def _is_subscribed(self, uri: str, known: Collection[str]) -> bool:
        if uri not in self.uris:
            return False
        if uri not in known:
            self.remove({uri})
            self.lost |= {uri}
        return True

    async def known_uris(self, uris: Iterable[str]) -> set[str] | None:
        """Return those of *uris* that exist for the caller now; None if this cannot be determined."""
        wanted = list(dict.fromkeys(uris))
        if self._server.user_passes_test is not None and not await self._may_call():
            return None
        if not wanted:
            return set()
        server, method = self._server, "resources/subscribe"
        source = CallSource(server, self._principal, checks_pool(), self._get_django_request)
        context = Context(source, Request(0, method, {}), Channel())
        if not may_query(server):
            return set(find_known(context, wanted))
        try:
            return set(
                await retry_database(context.site_runner.checks, partial(find_known, context, wanted, afresh=True))
            )
        except Exception:
            logger.exception("no notifications sent to %r: cannot determine readable resources", context.principal)
            return None

    async def _may_call(self) -> bool:
        look = partial(refresh_principal, self._principal, self._server)
        return await retry_database(checks_pool(), look) is not None


def _uris(wanted: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    for change in wanted:
        about: Sequence[str] = change.get("about", ())
        yield from about
        if "uri" in change["params"]:
            yield change["params"]["uri"]


class SlotStream:
    """A stream of events with its slot, which is released when it is closed.

    Not by the generator: closing one that never began runs no ``finally``.

    Args:
        events: the events.
        slot: see ``StreamSlot``.
    """

    __slots__ = ("_events", "_slot")

    def __init__(self, events: AsyncGenerator[SSEEvent, None], slot: StreamSlot) -> None:
        self._events, self._slot = events, slot

    def __aiter__(self) -> AsyncIterator[SSEEvent]:
        return self._events

    async def aclose(self) -> None:
        try:
            await self._events.aclose()
        finally:
            self._slot.close()


class _Reader:
    """The stream of this process with a key; it need not have begun."""

    __slots__ = ("__weakref__", "_begun", "_is_replaced")

    def __init__(self) -> None:
        self._begun: tuple[asyncio.AbstractEventLoop, Subscription] | None = None
        self._is_replaced = False

    def start(self, subscription: Subscription) -> None:
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


_readers: WeakValueDictionary[Hashable, _Reader] = clear_after_fork(WeakValueDictionary())
"""By the key of their slots; each lives as long as its stream."""
Begun = Callable[[Subscription], None]
"""To be called once a stream has subscribed."""


def replace_stream(key: Hashable) -> Begun:
    """End the stream of this process with a key, and return what a new one with this key calls.

    A client that comes back has lost that one, and each message goes to one stream only (2025-11-25, Transports,
    Multiple Connections). It is ended here, not when the new one begins: streams do not begin in the order of their
    requests, and an earlier one would end a later one.
    """
    previous = _readers.get(key)
    reader = _readers[key] = _Reader()
    if previous is not None:
        previous.replace()
    return reader.start


def has_stream(key: Hashable) -> bool:
    return key in _readers


class ParkedStream(ABC):
    """A stream without a task while it is idle; also readable as an asynchronous generator.

    Attributes:
        is_over: the last event was sent.
        slot: released when the stream is closed.
    """

    __slots__ = ("_reading", "is_over", "slot", "subscription")

    def __init__(self) -> None:
        self.subscription: Subscription | None = None
        self.is_over = False
        self.slot: StreamSlot | None = None
        self._reading: AsyncGenerator[SSEEvent, None] | None = None

    @abstractmethod
    def first_events(self) -> AsyncGenerator[SSEEvent, None]:
        """Subscribe; yield the first events."""

    @abstractmethod
    async def events_for(self, entries: Sequence[Entry]) -> Sequence[SSEEvent]:
        """Return the events for entries that came together."""

    def closing_events(self) -> Sequence[SSEEvent]:
        return ()

    def close(self) -> None:
        if self.subscription is not None:
            self.subscription.close()
        if self.slot is not None:
            self.slot.close()

    def __aiter__(self) -> AsyncGenerator[SSEEvent, None]:
        self._reading = self._events()
        return self._reading

    async def aclose(self) -> None:
        try:
            if self._reading is not None:
                await self._reading.aclose()
        finally:
            # A stream that never began has a slot, too.
            self.close()

    async def _events(self) -> AsyncGenerator[SSEEvent, None]:
        try:
            async with aclosing(self.first_events()) as first:
                async for event in first:
                    yield event
            assert self.subscription is not None  # noqa: S101
            async with aclosing(self.subscription.batches()) as batches:
                async for entries in batches:
                    if not entries:
                        yield KEEP_ALIVE
                    for event in await self.events_for(entries):
                        if self.subscription.revoked:  # meanwhile
                            break
                        yield event
                    if self.is_over:
                        return
            for event in self.closing_events():
                yield event
        finally:
            self.close()

"""Which changes a stream receives, and streams that are idle for most of their life.

A stream lives longer than rights and rows do. So the caller is asked about anew whenever there is something to tell:
of what does not exist for them any more they hear once, as they do of what was deleted, and then never again.

There may be ten thousand of them in a process. So while one has nothing to say, nothing runs for it and nothing waits:
it is an object, of which the follower tells the edge that holds its connection when there is something to say.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import AsyncGenerator, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import aclosing
from functools import partial
from typing import Any, NamedTuple

from django_mcp.conf import settings
from django_mcp.core.channel import Channel
from django_mcp.core.concurrency import patiently, shared_pool
from django_mcp.core.context import Context
from django_mcp.core.principal import Principal
from django_mcp.core.resources import find_known, may_query, refresh_principal
from django_mcp.protocol.errors import TooManyRequests
from django_mcp.pubsub import publish
from django_mcp.pubsub.event_store import Entry
from django_mcp.pubsub.follower import Subscription
from django_mcp.revisions.base import KEEP_ALIVE, Event, MCPRequest

logger = logging.getLogger("django_mcp")

NONE: AbstractSet[str] = frozenset()
"""The empty set, which most streams have, and which is one for all of them."""


class ResourceNotification(NamedTuple):
    """A notification that goes out.

    Attributes:
        id: of its entry in the log.
    """

    id: int
    method: str
    params: Mapping[str, Any]


class SubscriptionFilter:
    """Of one stream.

    Args:
        mcp_request: the request that opened it; of it is kept only who asked.
        methods: the notifications of lists that it is to hear.
        uris: the resources it is to hear of.

    Attributes:
        uris: those it is to hear of still. Whoever knows that they exist for the caller may add some.
        lost: those it heard of for the last time.
    """

    __slots__ = ("_edge", "_methods", "_principal", "_server", "lost", "uris")

    def __init__(self, mcp_request: MCPRequest, methods: Collection[str], uris: Iterable[str] = ()) -> None:
        self.uris: AbstractSet[str] = frozenset(uris) or NONE
        self.lost: AbstractSet[str] = NONE
        self._server, self._principal = mcp_request.server, mcp_request.principal
        self._edge = mcp_request.edge
        self._methods = methods

    def wants(self, entry: Entry) -> bool:
        """Whether a change is among what it asked for."""
        change = publish.read(entry.data)
        if "for" in change and publish.names_of(self._principal).isdisjoint(change["for"]):
            return False
        return change["method"] in self._methods or change["params"].get("uri") in self.uris

    async def told(self, entries: Iterable[Entry]) -> list[ResourceNotification]:
        """What goes out for changes that came together. The same is told but once where it is about rows."""
        asked = [entry for entry in entries if self.wants(entry)]
        wanted = [(entry.id, publish.read(entry.data)) for entry in asked]
        if after := max((change.get("after", 0) for _, change in wanted), default=0):
            await asyncio.sleep(after)
        known = await self.known(_uris(change for _, change in wanted))
        if known is None:  # which is no reason to keep silent about the others
            return [each for entry in asked for each in await self.told([entry])] if len(asked) > 1 else []
        told: dict[Any, ResourceNotification] = {}
        for number, change in wanted:
            uri, about = change["params"].get("uri"), change.get("about")
            if about is not None and known.isdisjoint(about):
                continue
            if uri is not None and not self._is_heard(uri, known):
                continue
            key = number if about is None else (change["method"], uri)
            told.setdefault(key, ResourceNotification(number, change["method"], change["params"]))
        return list(told.values())

    def _is_heard(self, uri: str, known: Collection[str]) -> bool:
        if uri not in self.uris:
            return False
        if uri not in known:
            self.uris -= {uri}
            self.lost |= {uri}
        return True

    async def known(self, uris: Iterable[str]) -> set[str] | None:
        """Those of *uris* that exist for the caller now; None where that cannot be found out."""
        wanted = list(dict.fromkeys(uris))
        if self._server.user_passes_test is not None and not await self._may_call():
            return None
        if not wanted:
            return set()
        server, method = self._server, "resources/subscribe"
        context = Context(server, self._principal, shared_pool(), self._edge, 0, method, {}, None, {}, Channel())
        if not may_query(server):
            return set(find_known(context, wanted))
        try:
            return set(await patiently(context.site_runner, partial(find_known, context, wanted, afresh=True)))
        except Exception:
            logger.exception("no notifications sent to %r: cannot determine readable resources", context.principal)
            return None

    async def _may_call(self) -> bool:
        """Return True if the caller may still call the endpoint."""
        look = partial(refresh_principal, self._principal, self._server)
        return await patiently(shared_pool(), look) is not None


def _uris(wanted: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    """All that has to be asked about to tell of changes."""
    for change in wanted:
        about: Sequence[str] = change.get("about", ())
        yield from about
        if "uri" in change["params"]:
            yield change["params"]["uri"]


RETRY_SECONDS = 60
"""After how long a caller with too many open streams is told to try again."""

_open: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
"""The slots that are taken in this process, by kind and id of their caller."""


class StreamSlot:
    """One of the streams that a caller may have open in this process. It is free again when closed or collected.

    Args:
        principal: the caller.

    Raises:
        TooManyRequests: the caller has ``MAX_STREAMS_PER_CALLER`` open streams.
    """

    __slots__ = ("_caller",)

    def __init__(self, principal: Principal) -> None:
        self._caller: tuple[str, str] | None = None
        caller = principal.kind, principal.id
        if len(_open[caller]) >= settings.MAX_STREAMS_PER_CALLER:
            most = settings.MAX_STREAMS_PER_CALLER
            reason = f"You have {most} open streams, the maximum. Close one of them."
            raise TooManyRequests(RETRY_SECONDS, reason)
        self._caller = caller
        _open[caller].add(id(self))

    def close(self) -> None:
        """Give it back."""
        caller, self._caller = self._caller, None
        if caller is not None:
            taken = _open[caller]
            taken.discard(id(self))
            if not taken:
                _open.pop(caller, None)

    __del__ = close  # a stream that never began is not closed


class ParkedStream(ABC):
    """One of them. An edge that does not care reads it like any asynchronous generator.

    Attributes:
        subscription: to what it tells of, once it has begun.
        is_over: it has said its last word.
        slot: of its caller's streams, where it counts as one; given back when it is closed.
    """

    __slots__ = ("_reading", "is_over", "slot", "subscription")

    def __init__(self) -> None:
        self.subscription: Subscription | None = None
        self.is_over = False
        self.slot: StreamSlot | None = None
        self._reading: AsyncGenerator[Event, None] | None = None

    @abstractmethod
    def begin(self) -> AsyncGenerator[Event, None]:
        """Subscribe, and say what comes first."""

    @abstractmethod
    async def tell(self, entries: Sequence[Entry]) -> Sequence[Event]:
        """What it says of entries that came together."""

    def part(self) -> Sequence[Event]:
        """What it says when the server ends it."""
        return ()

    def close(self) -> None:
        """It is wanted no more."""
        if self.subscription is not None:
            self.subscription.close()
        if self.slot is not None:
            self.slot.close()

    def __aiter__(self) -> AsyncGenerator[Event, None]:
        """Its events as they come."""
        self._reading = self._events()
        return self._reading

    async def aclose(self) -> None:
        """See ``close``."""
        if self._reading is not None:
            await self._reading.aclose()

    async def _events(self) -> AsyncGenerator[Event, None]:
        try:
            async with aclosing(self.begin()) as first:
                async for event in first:
                    yield event
            assert self.subscription is not None  # noqa: S101
            async with aclosing(self.subscription.batches()) as batches:
                async for entries in batches:
                    if not entries:
                        yield KEEP_ALIVE
                    for event in await self.tell(entries):
                        yield event
                    if self.is_over:
                        return
            for event in self.part():
                yield event
        finally:
            self.close()

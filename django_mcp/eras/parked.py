"""Streams that are silent for most of their life.

There may be ten thousand of them in a process. So while one has nothing to say, nothing runs for it and nothing waits:
it is an object, of which the follower tells the edge that holds its connection when there is something to say.
"""

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from django_mcp.conf import settings
from django_mcp.core.principal import Principal
from django_mcp.eras.base import KEEP_ALIVE, Event
from django_mcp.protocol.errors import TooManyRequests
from django_mcp.pubsub.event_store import Entry
from django_mcp.pubsub.follower import Subscription

RETRY_SECONDS = 60
"""After how long a caller with too many open streams is told to try again."""

_open: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
"""The slots that are taken in this process, by kind and id of their caller."""


class StreamSlot:
    """One of the streams that a caller may have open in this process. It is free again when closed or collected.

    Args:
        principal: the caller.

    Raises:
        TooManyRequests: the caller has ``STREAMS_PER_CALLER`` open streams.
    """

    __slots__ = ("_caller",)

    def __init__(self, principal: Principal) -> None:
        self._caller: tuple[str, str] | None = None
        caller = principal.kind, principal.id
        if len(_open[caller]) >= settings.STREAMS_PER_CALLER:
            reason = (
                f"You have {settings.STREAMS_PER_CALLER} open streams, which is the most at once. Close one of them."
            )
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

"""The reader of stored events for all streams of a process, and their end at shutdown.

One query serves all streams, at each notification, or every ``POLL_INTERVAL`` without a shared channel layer. Without
streams there is none.
"""

import asyncio
import logging
import math
import signal
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing, suppress
from functools import partial
from itertools import islice, takewhile
from types import FrameType
from weakref import WeakKeyDictionary

from django.db import Error as DatabaseError

from django_mcp.conf import settings
from django_mcp.core.concurrency import detached, shared_pool
from django_mcp.core.failures import log_rate_limited
from django_mcp.core.principal import Principal
from django_mcp.pubsub import event_store
from django_mcp.pubsub.event_store import Entry, clear
from django_mcp.pubsub.notify import Listener
from django_mcp.pubsub.publish import topics_of

Handler = Callable[[int, FrameType | None], object]


class _SigtermHook:
    """Notes SIGTERM, then calls the server's handler."""

    def __init__(self, server: Handler) -> None:
        self.was_told = False
        self._server = server

    def __call__(self, number: int, frame: FrameType | None) -> object:
        self.was_told = True
        return self._server(number, frame)


def server_stops() -> bool:
    """Return True if the server is shutting down, as far as it can be observed.

    uvicorn's signal handler, also under gunicorn, is a method of the server, gunicorn's own a method of the worker;
    their objects have the state. Other servers need ``listen_for_stop``.
    """
    handler = signal.getsignal(signal.SIGTERM)
    if isinstance(handler, _SigtermHook):
        return handler.was_told
    server = getattr(handler, "__self__", None)
    return bool(getattr(server, "should_exit", False)) or getattr(server, "alive", True) is False


def listen_for_stop() -> None:
    """Install ``_SigtermHook`` if the server exposes no state.

    granian handles signals on its event loop, by a file descriptor, and gives no notice, but a Python handler can
    precede it. A process without handler is ended by the signal and left alone.
    """
    handler = signal.getsignal(signal.SIGTERM)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        return
    if isinstance(handler, _SigtermHook | signal.Handlers) or hasattr(
        getattr(handler, "__self__", None), "should_exit"
    ):
        return
    signal.signal(signal.SIGTERM, _SigtermHook(handler))
    signal.siginterrupt(signal.SIGTERM, False)  # as event loops do


logger = logging.getLogger("django_mcp")

LOOK_UP_SECONDS = 1.0
"""Interval of checks for shutdown, which waits for streams."""
CLEAR_SECONDS = 600.0
"""Interval of deletions of expired rows, for sites that never run ``mcp_clear``."""
CLEAR_MOST = 500
"""Maximum number of rows of each kind per deletion."""
SAFETY_SECONDS = 15.0
"""Polling interval while notifications work, in case one is missed."""
MAX_SEEN = 2 * (event_store.LOOK_BACK + event_store.MOST)
"""Remembered ids, so that events read twice are delivered once."""
MAX_WAITING = 1000
"""Maximum number of events buffered for a stream, which then ends; its client may resume."""
MANY_TOPICS = 500
"""Above this number all new events are read and filtered here: naming all topics costs more."""
AT_ONCE = 100
"""Number of streams served before the event loop's other tasks get their turn."""


class Subscription:
    """The events of one stream. There may be very many, so each is small.

    Attributes:
        callers: topics whose events end the stream.
        until: latest end, in seconds since the epoch.
        since: id of the last event before the stream.
        wants: filter of events; None for all.
        ended: no events follow those buffered.
        ready: called when ``take`` has something.
    """

    __slots__ = ("_follower", "_waiting", "callers", "ended", "ready", "since", "topics", "until", "wants")

    def __init__(self, follower: "Follower", topics: Iterable[str], principal: Principal | None) -> None:
        self.callers = topics_of(principal) if principal is not None else ()
        expires = principal.expires if principal is not None else None
        self.until = expires.timestamp() if expires is not None else None
        self.topics = tuple(dict.fromkeys((*topics, *self.callers)))
        self.since = 0
        self.wants: Callable[[Entry], bool] | None = None
        self.ready: Callable[[], object] | None = None
        self._follower = follower
        self._waiting: list[Entry | None] | None = None
        self.ended = False

    @property
    def waits(self) -> bool:
        """True if there are events, or the end."""
        return self._waiting is not None or self.ended

    def take(self) -> list[Entry | None] | None:
        """Return buffered events, or one None for a keep-alive; None for nothing."""
        waiting, self._waiting = self._waiting, None
        return waiting

    async def entries(self) -> AsyncGenerator[Entry | None, None]:
        """Yield events, or None for a keep-alive, until the server stops."""
        async with aclosing(self._taken()) as taken:
            async for batch in taken:
                for entry in batch:
                    yield entry

    async def batches(self) -> AsyncGenerator[list[Entry], None]:
        """Yield lists of events; empty for a keep-alive."""
        async with aclosing(self._taken()) as taken:
            async for batch in taken:
                yield [entry for entry in batch if entry is not None]

    async def _taken(self) -> AsyncGenerator[list[Entry | None], None]:
        there_is = asyncio.Event()
        self.ready = there_is.set
        while True:
            if (batch := self.take()) is not None:
                yield batch
            elif self.ended:
                return
            else:
                there_is.clear()
                await there_is.wait()

    def put(self, entry: Entry | None) -> None:
        """Buffer an event, or None for a keep-alive."""
        if entry is None:
            if self._waiting is not None or self.ended:
                return
        elif entry.topic in self.callers:
            if entry.id > self.since:
                self.end()
            return
        elif self.ended or (self.wants is not None and not self.wants(entry)):
            return
        if self._waiting is None:
            self._waiting = []
        self._waiting.append(entry)
        if len(self._waiting) > MAX_WAITING:
            self._waiting = None
            self.ended = True
        self._wake()

    def end(self) -> None:
        """End after the buffered events."""
        self.ended = True
        self._wake()

    def close(self) -> None:
        """Stop immediately."""
        self.ended = True
        self._waiting = self.wants = self.ready = None
        self._follower.leave(self)

    def _wake(self) -> None:
        if self.ready is not None:
            self.ready()


class Follower:
    """Reads events for the streams of an event loop. Use ``follow``."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._rung = asyncio.Event()
        self._listener = Listener(loop, self._rung.set)
        self._topics: dict[str, set[Subscription]] = {}
        self._task: asyncio.Task[None] | None = None
        self._position: int | None = None
        self._seen: dict[int, None] = {}
        # Each stream with the time of its last output, oldest first.
        self._silent: dict[Subscription, float] = {}
        self._expiry = math.inf
        self._cleared = time.monotonic()

    async def join(self, topics: Iterable[str], principal: Principal | None) -> Subscription:
        """Subscribe to events from now on."""
        subscription = Subscription(self, topics, principal)
        # Not the follower's position, which is older: events written since then precede this subscription.
        newest = await self.newest()
        subscription.since = newest or self._position or 0
        for topic in subscription.topics:
            self._topics.setdefault(topic, set()).add(subscription)
        self._silent[subscription] = time.monotonic()
        if subscription.until is not None:
            self._expiry = min(self._expiry, subscription.until)
        if self._task is None:
            self._position = newest
            self._listener.start()
            listen_for_stop()
            self._task = self._loop.create_task(self._run())
        return subscription

    async def newest(self) -> int | None:
        """Return the newest id, or None while the database is unavailable, which must not deny a stream."""
        try:
            return await shared_pool().sync(event_store.newest)
        except DatabaseError as error:
            _cannot_read(error)
            return None

    def leave(self, subscription: Subscription) -> None:
        """Remove a subscription. The last one ends reading."""
        self._silent.pop(subscription, None)
        for topic in subscription.topics:
            subscribers = self._topics.get(topic, set())
            subscribers.discard(subscription)
            if not subscribers:
                self._topics.pop(topic, None)
        if not self._topics:
            self._rung.set()

    def end(self) -> None:
        """End all streams."""
        for subscription in list(self._silent):
            _end(subscription)

    async def _run(self) -> None:
        try:
            while self._topics:
                try:
                    await self._wait()
                    if self._topics:
                        await self._read()
                        self._look_after()
                        self._clear_now_and_then()
                except Exception:  # all streams of the process depend on this loop
                    logger.exception("following the event log failed, continuing")
                    await asyncio.sleep(settings.POLL_INTERVAL)
        finally:
            self._task = None
            await self._listener.stop()

    async def _wait(self) -> None:
        """Wait until there may be events, keeping streams alive and ending expired ones."""
        pause = SAFETY_SECONDS if self._listener.works else settings.POLL_INTERVAL
        until = time.monotonic() + min(pause, settings.KEEP_ALIVE_INTERVAL)
        while not self._rung.is_set() and (left := until - time.monotonic()) > 0:
            self._look_after()
            with suppress(TimeoutError):
                async with asyncio.timeout(min(left, LOOK_UP_SECONDS)):
                    await self._rung.wait()
        self._rung.clear()

    async def _read(self) -> None:
        """Deliver new events, or retry later without a database."""
        run = shared_pool().sync
        try:
            position = await run(event_store.newest) if self._position is None else self._position
            topics = list(self._topics) if len(self._topics) <= MANY_TOPICS else None
            entries = await run(partial(event_store.since, position, topics))
        except DatabaseError as error:
            _cannot_read(error)
            await asyncio.sleep(settings.POLL_INTERVAL)
            return
        self._position = position
        for entry in entries:
            if entry.id not in self._seen:
                self._seen[entry.id] = None
                self._position = max(self._position, entry.id)
                await self._hand_out(entry)
        while len(self._seen) > MAX_SEEN:
            self._seen.pop(next(iter(self._seen)))
        if sum(entry.id > position for entry in entries) >= event_store.MOST:  # there may be more
            self._rung.set()

    async def _hand_out(self, entry: Entry) -> None:
        for number, subscription in enumerate(list(self._topics.get(entry.topic, ())), 1):
            _put(subscription, entry)
            if number % AT_ONCE == 0:
                await asyncio.sleep(0)

    def _look_after(self) -> None:
        """End streams at shutdown and expiry, and send keep-alives."""
        if server_stops():
            self.end()
        if self._expiry <= time.time():
            self._end_expired()
        self._keep_alive()

    def _clear_now_and_then(self) -> None:
        if time.monotonic() - self._cleared >= CLEAR_SECONDS:
            self._cleared = time.monotonic()
            detached(_clear())

    def _end_expired(self) -> None:
        now, self._expiry = time.time(), math.inf
        for subscription in self._silent:
            if subscription.until is None or subscription.ended:
                continue
            if subscription.until <= now:
                _end(subscription)
            else:
                self._expiry = min(self._expiry, subscription.until)

    def _keep_alive(self) -> None:
        """Send due keep-alives, spread over the period."""
        now, period = time.monotonic(), settings.KEEP_ALIVE_INTERVAL
        most = AT_ONCE + int(2 * LOOK_UP_SECONDS / period * len(self._silent))
        silent = takewhile(lambda item: item[1] <= now - period, self._silent.items())
        for subscription, _ in list(islice(silent, most)):
            del self._silent[subscription]
            self._silent[subscription] = now
            _put(subscription, None)


async def _clear() -> None:
    try:
        await shared_pool().sync(partial(clear, CLEAR_MOST))
    except DatabaseError as error:
        log_rate_limited(logging.WARNING, "expired rows could not be deleted: %s", error)


def _cannot_read(error: Exception) -> None:
    log_rate_limited(logging.WARNING, "the event log cannot be read, retrying: %s", error)


def _put(subscription: Subscription, entry: Entry | None) -> None:
    """Deliver an event. An error costs only this stream the event."""
    try:
        subscription.put(entry)
    except Exception as error:  # noqa: BLE001 - a newer version may write events that this one cannot read
        log_rate_limited(logging.ERROR, "a stream missed %s of the event log: %r", entry or "a keep-alive", error)


def _end(subscription: Subscription) -> None:
    try:
        subscription.end()
    except Exception as error:  # noqa: BLE001 - likewise
        log_rate_limited(logging.ERROR, "a stream could not be notified that it ended: %r", error)


_followers: WeakKeyDictionary[asyncio.AbstractEventLoop, Follower] = WeakKeyDictionary()


async def follow(*topics: str, principal: Principal | None = None) -> Subscription:
    """Subscribe to events of *topics* from now on.

    Events of the last seconds may be included; compare ids with ``position()``.

    Args:
        principal: the caller; the subscription ends with the credential.
    """
    return await _follower().join(topics, principal)


async def position() -> int:
    """Return the id of the newest event, or 0 while the database is unavailable."""
    return await _follower().newest() or 0


def _follower() -> Follower:
    loop = asyncio.get_running_loop()
    follower = _followers.get(loop)
    if follower is None:
        follower = _followers[loop] = Follower(loop)
    return follower


def end_streams() -> None:
    """End the streams of all event loops, each as its protocol requires."""
    for loop, follower in list(_followers.items()):
        with suppress(RuntimeError):  # the loop is closed and has no streams
            loop.call_soon_threadsafe(follower.end)

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
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing, suppress
from functools import partial
from itertools import islice, takewhile
from types import FrameType
from weakref import WeakKeyDictionary

from django.db import Error as DatabaseError
from django.utils import timezone

from django_mcp.conf import settings
from django_mcp.core.after_fork import clear_after_fork
from django_mcp.core.concurrency import checks_pool, create_background_task, free_pool
from django_mcp.core.principal import Principal
from django_mcp.core.rate_limited_log import log_rate_limited
from django_mcp.core.resources import checking_pool, find_ended
from django_mcp.core.server import MCPServer
from django_mcp.pubsub import event_store
from django_mcp.pubsub.cleanup import clear
from django_mcp.pubsub.event_store import Entry
from django_mcp.pubsub.notify import Listener
from django_mcp.pubsub.publish import revocation_topics

logger = logging.getLogger("django_mcp")

Handler = Callable[[int, FrameType | None], object]


class _SigtermHook:
    """Notes SIGTERM, then calls the server's handler."""

    def __init__(self, server: Handler) -> None:
        self.was_received = False
        self._server = server

    def __call__(self, number: int, frame: FrameType | None) -> object:
        self.was_received = True
        return self._server(number, frame)


def server_stops() -> bool:
    """Return True if the server is shutting down, as far as it can be observed.

    uvicorn's signal handler, also under gunicorn, is a method of the server, gunicorn's own a method of the worker;
    their objects have the state. Other servers need ``listen_for_stop``.
    """
    handler = signal.getsignal(signal.SIGTERM)
    if isinstance(handler, _SigtermHook):
        return handler.was_received
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


SHUTDOWN_CHECK_SECONDS = 1.0
"""Interval of checks for shutdown, which waits for streams."""
CLEAR_SECONDS = 600.0
"""Interval of deletions of expired rows, for sites that never run ``mcp_clear``."""
MAX_CLEARED = 500
"""Maximum number of rows of each kind per deletion."""
FALLBACK_POLL_SECONDS = 15.0
"""Polling interval while notifications work, in case one is missed."""
REREAD_SECONDS = 0.01
"""Pause before events are read again that another process is giving positions to; doubled each time."""
MAX_BUFFERED = 1000
"""Maximum number of events buffered for a stream, which then ends; its client may resume."""
MAX_NAMED_TOPICS = 500
"""Above this number all new events are read and filtered here: naming all topics costs more."""
MAX_PER_TURN = 100
"""Number of streams served before the event loop's other tasks get their turn."""
MAX_CREDENTIALS = 500
"""Maximum number of streams whose credentials are looked up with one query."""


class Subscription:
    """The events of one stream. There may be very many, so each is small.

    Attributes:
        principal: the caller, and ``server`` the endpoint, to look the credential up again; None for neither.
        caller_topics: topics whose events end the stream.
        until: latest end, in seconds since the epoch.
        since: id of the last event before the stream; None while that is found out.
        matches: filter of events; None for all.
        ended: no events follow those buffered.
        revoked: the credential was found to have ended, so nothing more may be sent of events.
        ready: called when ``take`` has something.
    """

    __slots__ = (
        "_buffer",
        "_ended_at",
        "_follower",
        "caller_topics",
        "ended",
        "matches",
        "principal",
        "ready",
        "revoked",
        "server",
        "since",
        "topics",
        "until",
    )

    def __init__(
        self,
        follower: "Follower",
        topics: Iterable[str],
        principal: Principal | None,
        server: MCPServer | None = None,
    ) -> None:
        self.principal, self.server = principal, server
        self.caller_topics = revocation_topics(principal) if principal is not None else ()
        expires = principal.expires if principal is not None else None
        self.until = expires.timestamp() if expires is not None else None
        self.topics = tuple(dict.fromkeys((*topics, *self.caller_topics)))
        self.since: int | None = None
        self._ended_at = 0
        self.matches: Callable[[Entry], bool] | None = None
        self.ready: Callable[[], object] | None = None
        self._follower = follower
        self._buffer: list[Entry | None] | None = None
        self.ended = self.revoked = False

    @property
    def has_entries(self) -> bool:
        return self._buffer is not None or self.ended

    def take(self) -> list[Entry | None] | None:
        waiting, self._buffer = self._buffer, None
        return waiting

    async def entries(self) -> AsyncGenerator[Entry | None, None]:
        """Yield events, or None for a keep-alive, until the server stops."""
        async with aclosing(self._batches()) as taken:
            async for batch in taken:
                for entry in batch:
                    if self.revoked:  # while the reader was busy with the entry before
                        return
                    yield entry

    async def batches(self) -> AsyncGenerator[list[Entry], None]:
        async with aclosing(self._batches()) as taken:
            async for batch in taken:
                yield [entry for entry in batch if entry is not None]

    async def _batches(self) -> AsyncGenerator[list[Entry | None], None]:
        arrived = asyncio.Event()
        self.ready = arrived.set
        while True:
            if (batch := self.take()) is not None:
                yield batch
            elif self.ended:
                return
            else:
                # Nothing is awaited between take() and this, so no wake-up is lost in between.
                arrived.clear()
                await arrived.wait()

    def put(self, entry: Entry | None) -> None:
        """Buffer an event, or None for a keep-alive."""
        if entry is None:
            if self.ended:
                return
            if self._buffer is not None:
                self._wake()  # again, in case the last time failed
                return
        elif entry.topic in self.caller_topics:
            # The stream's position may not be known yet, and an older event must not end it.
            self._ended_at = entry.id
            self._end_if_since()
            return
        elif self.ended or (self.matches is not None and not self.matches(entry)):
            return
        if self._buffer is None:
            self._buffer = []
        self._buffer.append(entry)
        # The client does not read. Its stream ends, so that it does not fill the memory.
        if len(self._buffer) > MAX_BUFFERED:
            self._buffer = None
            self.ended = True
        self._wake()

    def start_after(self, since: int) -> None:
        self.since = since
        # The event may have arrived while the position was looked up.
        self._end_if_since()

    def _end_if_since(self) -> None:
        if self.since is not None and self._ended_at > self.since:
            self.end()

    def end(self) -> None:
        # The events that are buffered are read first.
        self.ended = True
        self._wake()

    def revoke(self) -> None:
        # The events that are buffered go too: the caller may no longer read them.
        self._buffer, self.revoked = None, True
        self.end()

    def close(self) -> None:
        self.ended = True
        self._buffer = self.matches = self.ready = None
        self._follower.leave(self)

    def _wake(self) -> None:
        if self.ready is not None:
            self.ready()


class Follower:
    """Reads events for the streams of an event loop. Use ``follow``.

    Holds no reference to the loop while there are no streams: it is found by the loop and would keep it alive.
    """

    def __init__(self) -> None:
        self._notified = asyncio.Event()
        self._listener = Listener(self._on_notification)
        self._topics: dict[str, set[Subscription]] = {}
        self._task: asyncio.Task[None] | None = None
        self._position: int | None = None
        self._began = timezone.now()
        self._pause = REREAD_SECONDS
        # Each stream with the time of its last output, and of the last look at its credential, oldest first.
        self._last_output: dict[Subscription, float] = {}
        self._last_check: dict[Subscription, float] = {}
        self._checking: asyncio.Task[None] | None = None
        self._expiry = math.inf
        self._cleared = time.monotonic()

    def _on_notification(self) -> None:
        self._notified.set()

    async def join(
        self, topics: Iterable[str], principal: Principal | None, server: MCPServer | None = None
    ) -> Subscription:
        subscription = Subscription(self, topics, principal, server)
        # Before the newest event is looked up: a read that ends in between would skip events of the new topics.
        for topic in subscription.topics:
            self._topics.setdefault(topic, set()).add(subscription)
        began = timezone.now()
        try:
            newest = await newest_position()
            # Checked after the wait: of streams that join together, only one starts the task.
            if self._task is None:
                self._position, self._began = newest, began
                self._listener.start()
                listen_for_stop()
                self._task = asyncio.get_running_loop().create_task(self._run())
        except BaseException:  # nothing is left of a stream that cannot begin
            self.leave(subscription)
            raise
        # Not the follower's position, which is older: events written since then precede this subscription.
        subscription.start_after(newest or self._position or 0)
        self._last_output[subscription] = time.monotonic()
        if principal is not None and server is not None and not principal.is_anonymous:
            self._last_check[subscription] = time.monotonic()
        if subscription.until is not None:
            self._expiry = min(self._expiry, subscription.until)
        return subscription

    def leave(self, subscription: Subscription) -> None:
        self._last_output.pop(subscription, None)
        self._last_check.pop(subscription, None)
        for topic in subscription.topics:
            subscribers = self._topics.get(topic, set())
            subscribers.discard(subscription)
            if not subscribers:
                self._topics.pop(topic, None)
        if not self._topics:
            # This wakes _run(), which ends if there are no streams.
            self._notified.set()

    def end(self) -> None:
        # A copy: streams leave while they are ended.
        for subscription in list(self._last_output):
            _end(subscription)

    async def _run(self) -> None:
        try:
            while self._topics:
                try:
                    await self._wait()
                    if self._topics:
                        await self._read()
                        self._maintain_streams()
                        self._clear_regularly()
                except Exception:  # all streams of the process depend on this loop
                    logger.exception("following the event log failed, continuing")
                    await asyncio.sleep(settings.POLL_INTERVAL)
        finally:
            # Set before anything is awaited, so that a stream that joins meanwhile starts a new task.
            self._task = None
            self._notified = asyncio.Event()  # the old one knows the event loop
            await self._listener.stop()

    async def _wait(self) -> None:
        pause = FALLBACK_POLL_SECONDS if self._listener.works else settings.POLL_INTERVAL
        until = time.monotonic() + min(pause, settings.KEEP_ALIVE_INTERVAL)
        while not self._notified.is_set() and (left := until - time.monotonic()) > 0:
            self._maintain_streams()
            # Woken up also without an event: for the end of the server, expired tokens and keep-alives.
            with suppress(TimeoutError):
                async with asyncio.timeout(min(left, SHUTDOWN_CHECK_SECONDS)):
                    await self._notified.wait()
        # Cleared before the read, so that events written during it start another round.
        self._notified.clear()

    async def _read(self) -> None:
        run = free_pool().sync
        topics = list(self._topics) if len(self._topics) <= MAX_NAMED_TOPICS else None
        try:
            if (
                self._position is None
            ):  # it could not be read when the first stream began, which has heard nothing since
                self._position = await run(partial(event_store.position_at, self._began))
            page = await run(partial(event_store.since, self._position, topics))
            if topics is not None and not self._topics.keys() <= set(topics):
                # Streams joined meanwhile, and their events were not read.
                page = await run(partial(event_store.since, self._position, None))
        except DatabaseError as error:
            _log_unreadable(error)
            await asyncio.sleep(settings.POLL_INTERVAL)
            return
        if self._position is not None and page.position < self._position:
            # The database was replaced by an older one. The streams know later positions; their clients come back.
            self.end()
        has_moved, self._position = page.position != self._position, page.position
        for entry in page.entries:
            await self._deliver(entry)
        if page.is_whole or has_moved:
            self._pause = REREAD_SECONDS
        if not page.is_whole:
            if not has_moved:  # another process is giving positions, of whose end nothing is heard
                await asyncio.sleep(self._pause)
                self._pause = min(2 * self._pause, settings.POLL_INTERVAL)
            self._notified.set()

    async def _deliver(self, entry: Entry) -> None:
        # Copied, because streams may leave during sleep(0).
        for number, subscription in enumerate(list(self._topics.get(entry.topic, ())), 1):
            _put(subscription, entry)
            if number % MAX_PER_TURN == 0:
                await asyncio.sleep(0)

    def _maintain_streams(self) -> None:
        if server_stops():
            self.end()
        if self._expiry <= time.time():
            self._end_expired()
        # One look at a time, or looks would pile up behind a slow database.
        if self._checking is None and (due := self._due(self._last_check)):
            self._checking = create_background_task(self._check_credentials(due))
        self._keep_alive()

    def _clear_regularly(self) -> None:
        if time.monotonic() - self._cleared >= CLEAR_SECONDS:
            # Noted before it is done: after a failure the next try is after the interval, not after each event.
            self._cleared = time.monotonic()
            create_background_task(_clear())

    def _end_expired(self) -> None:
        now, self._expiry = time.time(), math.inf
        for subscription in self._last_output:
            if subscription.until is None or subscription.ended:
                continue
            if subscription.until <= now:
                _end(subscription)
            else:
                self._expiry = min(self._expiry, subscription.until)

    def _keep_alive(self) -> None:
        for subscription in self._due(self._last_output):
            _put(subscription, None)

    def _due(self, times: dict[Subscription, float]) -> list[Subscription]:
        now, period = time.monotonic(), settings.KEEP_ALIVE_INTERVAL
        # Thousands of streams may have begun together, so their times are spread.
        most = MAX_PER_TURN + int(2 * SHUTDOWN_CHECK_SECONDS / period * len(times))
        old = takewhile(lambda item: item[1] <= now - period, times.items())
        due = [subscription for subscription, _ in islice(old, most)]
        for subscription in due:
            # Moved to the end, so that the dict stays sorted by time.
            del times[subscription]
            times[subscription] = now
        return due

    async def _check_credentials(self, due: Iterable[Subscription]) -> None:
        # Credentials may end without a signal: by SQL, by update(), or in another program.
        try:
            of_server: dict[MCPServer, list[Subscription]] = {}
            for subscription in due:
                if subscription.server is not None:
                    of_server.setdefault(subscription.server, []).append(subscription)
            for server, subscriptions in of_server.items():
                for start in range(0, len(subscriptions), MAX_CREDENTIALS):
                    await _end_revoked(server, subscriptions[start : start + MAX_CREDENTIALS])
        finally:
            self._checking = None


async def _end_revoked(server: MCPServer, subscriptions: Sequence[Subscription]) -> None:
    principals = [subscription.principal for subscription in subscriptions if subscription.principal is not None]
    try:
        ended = {
            id(principal) for principal in await checking_pool(server).sync(partial(find_ended, principals, server))
        }
    except DatabaseError as error:  # no credential can be used meanwhile; checked again after the interval
        log_rate_limited(logging.WARNING, "the credentials of open streams cannot be checked, retrying: %s", error)
        return
    for subscription in subscriptions:
        if id(subscription.principal) in ended:
            try:
                subscription.revoke()
            except Exception as error:  # noqa: BLE001 - the others must end too
                log_rate_limited(logging.ERROR, "a stream could not be notified that it ended: %r", error)


async def _clear() -> None:
    try:
        await checks_pool().sync(partial(clear, MAX_CLEARED))
    except DatabaseError as error:
        log_rate_limited(logging.WARNING, "expired rows could not be deleted: %s", error)


def _log_unreadable(error: Exception) -> None:
    log_rate_limited(logging.WARNING, "the event log cannot be read, retrying: %s", error)


def _put(subscription: Subscription, entry: Entry | None) -> None:
    # An error must not affect other streams.
    try:
        subscription.put(entry)
    except Exception as error:  # noqa: BLE001 - a newer version may write events that this one cannot read
        log_rate_limited(logging.ERROR, "a stream missed %s of the event log: %r", entry or "a keep-alive", error)


def _end(subscription: Subscription) -> None:
    try:
        subscription.end()
    except Exception as error:  # noqa: BLE001 - likewise
        log_rate_limited(logging.ERROR, "a stream could not be notified that it ended: %r", error)


# Weak, because async_to_sync makes a loop for each of its calls.
_followers: WeakKeyDictionary[asyncio.AbstractEventLoop, Follower] = clear_after_fork(WeakKeyDictionary())


async def follow(*topics: str, principal: Principal | None = None, server: MCPServer | None = None) -> Subscription:
    """Subscribe to all events of *topics* that are committed after this returned.

    Earlier ones may be included; compare ids with ``position()``.

    Args:
        principal: the caller; the subscription ends with the credential.
        server: the endpoint whose authentication classes look the credential up again now and then.
    """
    return await _follower().join(topics, principal, server)


async def position() -> int:
    """Return the id of the newest event, or 0 while the database is unavailable."""
    return await newest_position() or 0


async def newest_position() -> int | None:
    """Return the newest id, or None while it cannot be read, which must not deny a stream."""
    try:
        return await free_pool().sync(event_store.newest)
    except Exception as error:  # noqa: BLE001 - the database, no thread, no memory
        _log_unreadable(error)
        # A stream may begin without knowing its position. See _read().
        return None


def _follower() -> Follower:
    loop = asyncio.get_running_loop()
    follower = _followers.get(loop)
    if follower is None:
        for closed in [loop for loop in _followers if loop.is_closed()]:  # whose streams were never closed
            del _followers[closed]
        follower = _followers[loop] = Follower()
    return follower


def end_streams() -> None:
    """End the streams of all event loops, each as its protocol requires."""
    for loop, follower in list(_followers.items()):
        with suppress(RuntimeError):  # the loop is closed and has no streams
            loop.call_soon_threadsafe(follower.end)

"""One reader of stored events for all open streams of a process, and its shutdown.

However many streams there are, the log is read by one query: when the bell rings, or every ``POLL_INTERVAL`` where
no shared channel layer rings it. Without open streams nothing is read.
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
    """Stands before the server's own handler of SIGTERM, which still has the word.

    Attributes:
        was_told: the signal came.
    """

    def __init__(self, server: Handler) -> None:
        self.was_told = False
        self._server = server

    def __call__(self, number: int, frame: FrameType | None) -> object:
        """Note it, and let the server do what it does."""
        self.was_told = True
        return self._server(number, frame)


def server_stops() -> bool:
    """Whether this process was told to stop, as far as its server can be asked or ``listen_for_stop`` heard of it.

    uvicorn, alone or under gunicorn, handles signals with a method of the server, which has the answer; gunicorn's own
    workers do so with one of the worker.
    """
    handler = signal.getsignal(signal.SIGTERM)
    if isinstance(handler, _SigtermHook):
        return handler.was_told
    server = getattr(handler, "__self__", None)
    return bool(getattr(server, "should_exit", False)) or getattr(server, "alive", True) is False


def listen_for_stop() -> None:
    """Hear of SIGTERM from now on, under a server that cannot be asked.

    granian has its event loop handle signals, waits for open connections, and tells nobody. An event loop learns of
    signals by a file descriptor; the handler in Python stands beside it and can be preceded by another. A process
    without one is ended by the signal itself, and left alone.
    """
    handler = signal.getsignal(signal.SIGTERM)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        return
    if isinstance(handler, _SigtermHook | signal.Handlers) or hasattr(
        getattr(handler, "__self__", None), "should_exit"
    ):
        return
    signal.signal(signal.SIGTERM, _SigtermHook(handler))
    signal.siginterrupt(signal.SIGTERM, False)  # as event loops have it


logger = logging.getLogger("django_mcp")

LOOK_UP_SECONDS = 1.0
"""How often to look whether the server is stopping: it waits for streams, and they would wait for ever."""
CLEAR_SECONDS = 600.0
"""How often a process with open streams deletes some of what has expired, for sites that never run ``mcp_clear``."""
CLEAR_MOST = 500
"""Rows of each kind that are deleted at a time."""
SAFETY_SECONDS = 15.0
"""How often the log is read although the bell works, in case it missed a ring."""
MAX_SEEN = 2 * (event_store.LOOK_BACK + event_store.MOST)
"""Ids remembered, so that what is read twice is handed out once."""
MAX_WAITING = 1000
"""Entries kept for a stream whose client does not read; after that it is ended, and the client may resume."""
MANY_TOPICS = 500
"""With more of them everything new is read and sorted out here: a query that names them all costs more."""
AT_ONCE = 100
"""Streams that are handed something before others on the event loop have their turn."""


class Subscription:
    """The entries of some topics, for one stream. There may be very many of them, so each is small.

    Attributes:
        topics: all of them.
        callers: those of its caller; any entry there ends the stream.
        until: when it ends at the latest, in seconds since the epoch.
        since: entries up to here were written before it began.
        wants: which entries are worth keeping for it; all, until it says otherwise.
        ended: there will be no more than what waits.
        ready: called whenever there is something to ``take``.
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
        """Whether there is something for its reader: entries, or the end."""
        return self._waiting is not None or self.ended

    def take(self) -> list[Entry | None] | None:
        """All that waits: entries, or one None when it is time for a keep-alive. None for nothing."""
        waiting, self._waiting = self._waiting, None
        return waiting

    async def entries(self) -> AsyncGenerator[Entry | None, None]:
        """Entries as they come; None when it is time for a keep-alive. Ends when the server goes down."""
        async with aclosing(self._taken()) as taken:
            async for batch in taken:
                for entry in batch:
                    yield entry

    async def batches(self) -> AsyncGenerator[list[Entry], None]:
        """The same, with all that came meanwhile at once; empty when it is time for a keep-alive."""
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
        """Hand it an entry, or None to keep it alive."""
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
        """No more entries after those that wait."""
        self.ended = True
        self._wake()

    def close(self) -> None:
        """The stream wants no more."""
        self.ended = True
        self._waiting = self.wants = self.ready = None
        self._follower.leave(self)

    def _wake(self) -> None:
        if self.ready is not None:
            self.ready()


class Follower:
    """Reads the log for the streams of one event loop. Use ``follow``."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._rung = asyncio.Event()
        self._listener = Listener(loop, self._rung.set)
        self._topics: dict[str, set[Subscription]] = {}
        self._task: asyncio.Task[None] | None = None
        self._position: int | None = None
        self._seen: dict[int, None] = {}
        # Each stream with the time from which its silence counts, the longest silence first.
        self._silent: dict[Subscription, float] = {}
        self._expiry = math.inf
        self._cleared = time.monotonic()

    async def join(self, topics: Iterable[str], principal: Principal | None) -> Subscription:
        """A subscription to what is written from now on."""
        subscription = Subscription(self, topics, principal)
        # Not where the others are: that is some time ago, and what was written since is none of this one's business.
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
        """Where to begin; None while the database is away, which is no reason to turn a stream down."""
        try:
            return await shared_pool().sync(event_store.newest)
        except DatabaseError as error:
            _cannot_read(error)
            return None

    def leave(self, subscription: Subscription) -> None:
        """Forget it; the last one ends the reading."""
        self._silent.pop(subscription, None)
        for topic in subscription.topics:
            subscribers = self._topics.get(topic, set())
            subscribers.discard(subscription)
            if not subscribers:
                self._topics.pop(topic, None)
        if not self._topics:
            self._rung.set()

    def end(self) -> None:
        """End all streams: the server goes down."""
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
                except Exception:  # every stream of the process waits for the next round
                    logger.exception("following the event log failed, continuing")
                    await asyncio.sleep(settings.POLL_INTERVAL)
        finally:
            self._task = None
            await self._listener.stop()

    async def _wait(self) -> None:
        """Until there may be something to read. Meanwhile streams are kept alive, and ended when their time comes."""
        pause = SAFETY_SECONDS if self._listener.works else settings.POLL_INTERVAL
        until = time.monotonic() + min(pause, settings.KEEP_ALIVE_INTERVAL)
        while not self._rung.is_set() and (left := until - time.monotonic()) > 0:
            self._look_after()
            with suppress(TimeoutError):
                async with asyncio.timeout(min(left, LOOK_UP_SECONDS)):
                    await self._rung.wait()
        self._rung.clear()

    async def _read(self) -> None:
        """Hand out what is new. A database that is away is asked again later."""
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
        """What has its time, whether something was logged or not."""
        if server_stops():
            self.end()
        if self._expiry <= time.time():
            self._end_expired()
        self._keep_alive()

    def _clear_now_and_then(self) -> None:
        """Delete some of what has expired, in a worker thread, which nothing waits for."""
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
        """Have those say something whose time it is; not too many, so that they are spread over the period."""
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
    """Hand one stream an entry. An error is that stream's: it misses the entry, the others do not."""
    try:
        subscription.put(entry)
    except Exception as error:  # noqa: BLE001 - a newer version may log what this one cannot read
        log_rate_limited(logging.ERROR, "a stream missed %s of the log: %r", entry or "a keep-alive", error)


def _end(subscription: Subscription) -> None:
    try:
        subscription.end()
    except Exception as error:  # noqa: BLE001 - likewise
        log_rate_limited(logging.ERROR, "a stream could not be notified that it ended: %r", error)


_followers: WeakKeyDictionary[asyncio.AbstractEventLoop, Follower] = WeakKeyDictionary()


async def follow(*topics: str, principal: Principal | None = None) -> Subscription:
    """A subscription to what is written under *topics* from now on, on this event loop.

    What was written some seconds before may come too: whoever minds compares with ``position``.

    Args:
        topics: of the log.
        principal: for whom; the subscription ends with their credential.
    """
    return await _follower().join(topics, principal)


async def position() -> int:
    """The id of the newest entry of the log; 0 while the database is away."""
    return await _follower().newest() or 0


def _follower() -> Follower:
    loop = asyncio.get_running_loop()
    follower = _followers.get(loop)
    if follower is None:
        follower = _followers[loop] = Follower(loop)
    return follower


def end_streams() -> None:
    """End the streams of all loops, each with the words its protocol has for that."""
    for loop, follower in list(_followers.items()):
        with suppress(RuntimeError):  # a loop that is closed has no streams
            loop.call_soon_threadsafe(follower.end)

"""Notification of event readers, in this process and, by a Channels layer, in others.

Without a layer that processes share, they poll every ``POLL_INTERVAL``.
"""

import asyncio
import atexit
import logging
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from functools import cache
from typing import Any
from weakref import ReferenceType, WeakSet, ref

from django.conf import settings

from django_mcp.core.after_fork import clear_after_fork, reset_after_fork

logger = logging.getLogger("django_mcp")

GROUP = "django_mcp.events"
MESSAGE = {"type": "django_mcp.events"}


class Listener:
    """Receives notifications on an event loop. Does not keep the loop alive.

    Args:
        on_notification: called for each, and when events should be read anyway.

    Attributes:
        works: whether those of other processes arrive.
    """

    def __init__(self, on_notification: Callable[[], None]) -> None:
        self.loop: ReferenceType[asyncio.AbstractEventLoop] | None = None
        self.on_notification = on_notification
        self.works = False
        self._task: asyncio.Task[None] | None = None
        # Reused while the loop lives: a layer keeps group members for a day and sends to each of them.
        self._channel: str | None = None

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        # Weak: the listener would keep a loop alive that its owner has dropped.
        self.loop = ref(loop)
        _listeners.add(self)
        if self._task is None and shared_layer() is not None:
            self._task = loop.create_task(self._listen())

    async def stop(self) -> None:
        _listeners.discard(self)
        self.works = False
        # Taken first, as start() may be called while this waits.
        listening, self._task = self._task, None
        while listening is not None and not listening.done():
            listening.cancel()  # repeated, because a connecting Redis client may swallow it
            await asyncio.wait([listening], timeout=CANCEL_SECONDS)

    async def _listen(self) -> None:
        while True:
            layer = shared_layer()
            try:
                await self._join(layer)
            except Exception as error:  # noqa: BLE001 - each layer has errors of its own
                _outage.begins(error)
                if self.works:
                    self.works = False
                    self.on_notification()  # switches to the shorter polling interval
                await asyncio.sleep(RETRY_SECONDS)
                continue
            _outage.ends()
            self.works = True
            self.on_notification()  # events may have been written meanwhile
            joined = time.monotonic()
            # An error here may be a Redis client's timeout. An outage is noticed when joining again.
            with suppress(Exception):
                async with asyncio.timeout(RENEW_SECONDS):  # membership in a group expires
                    while True:
                        await layer.receive(self._channel)
                        self.on_notification()
            if time.monotonic() - joined < RETRY_SECONDS:
                await asyncio.sleep(RETRY_SECONDS)

    async def _join(self, layer: Any) -> None:
        if self._channel is not None:
            # The Pub/Sub layer of channels_redis forgets a channel when receive() is cancelled, and refuses it then.
            with suppress(Exception):
                await layer.group_add(GROUP, self._channel)
                return
        channel = await layer.new_channel()
        await layer.group_add(GROUP, channel)
        # Not before: during an outage nothing can be added, and each attempt would end with another channel, while
        # the first one stays in the group.
        self._channel = channel


class _Outage:
    """Logs an outage once, not for each notification."""

    def __init__(self) -> None:
        self.is_logged = False

    def begins(self, error: BaseException) -> None:
        if not self.is_logged:
            logger.warning("the channel layer is unavailable, polling the event log instead: %r", error)
        self.is_logged = True

    def ends(self) -> None:
        if self.is_logged:
            logger.info("the channel layer is available again")
        self.is_logged = False


_outage = _Outage()


def is_layer_unavailable() -> bool:
    return _outage.is_logged


RENEW_SECONDS = 3600
RETRY_SECONDS = 1
CANCEL_SECONDS = 0.1
SEND_TIMEOUT = 5.0
"""Limit for sending one notification."""
FLUSH_TIMEOUT = 1.0
"""How long a process that ends waits for its last notification."""
# Weak, because loops may be closed without stopping their listeners.
_listeners: WeakSet[Listener] = clear_after_fork(WeakSet())


def shared_layer() -> Any:
    """Return the channel layer if processes share it, else None."""
    if not getattr(settings, "CHANNEL_LAYERS", None):
        return None
    layers = _layers()
    layer = layers.get_channel_layer()
    return None if layer is None or isinstance(layer, layers.InMemoryChannelLayer) else layer


@cache
def _layers() -> Any:
    from channels import layers  # noqa: PLC0415 - optional

    return layers


def notify_readers() -> None:
    """Notify of new events. Thread-safe; never raises, and never waits for the layer."""
    for listener in list(_listeners):
        loop = None if listener.loop is None else listener.loop()
        try:
            if loop is not None:
                loop.call_soon_threadsafe(listener.on_notification)
                continue
        except RuntimeError:  # the loop is closed
            pass
        # The loop was closed without stopping its listener.
        _listeners.discard(listener)
    if shared_layer() is None:
        return
    try:
        _sender.notify()
    except Exception:  # for example no thread can be started
        logger.debug("other processes could not be notified", exc_info=True)


class _Sender:
    """Notifies other processes, in a thread that lives from the first notification on.

    It has an event loop of its own, since a layer's connections belong to one and most callers have none, and so one
    connection. Those notified while a message is on its way are sent as one afterwards, so nothing piles up while Redis
    is away.
    """

    def __init__(self) -> None:
        self._is_registered = False
        self.after_fork()
        reset_after_fork(self)

    def after_fork(self) -> None:
        # One condition for both directions: notify() wakes the thread, and the thread wakes flush().
        self._changed = threading.Condition()
        self._asked = self._sent = 0
        self._thread: threading.Thread | None = None

    def notify(self) -> None:
        with self._changed:
            self._asked += 1
            if self._thread is None:
                thread = threading.Thread(target=self._work, name="django-mcp-notify", daemon=True)
                # Kept once it runs: if it cannot start, the next notification tries again.
                thread.start()
                self._thread = thread
                if not self._is_registered:
                    self._is_registered = True
                    atexit.register(self.flush)
            self._changed.notify_all()

    def flush(self) -> None:
        """Wait, not for long, until all is sent: a command may end right after its commit."""
        with self._changed:
            self._changed.wait_for(lambda: self._sent >= self._asked, FLUSH_TIMEOUT)

    def _work(self) -> None:
        with closing(asyncio.new_event_loop()) as loop:
            while True:
                with self._changed:
                    self._changed.wait_for(lambda: self._asked > self._sent)
                    asked = self._asked
                try:
                    is_sent = loop.run_until_complete(_send())
                except BaseException as error:  # noqa: BLE001 - the thread must not end: no other one is started
                    is_sent = False
                    _outage.begins(error)
                with self._changed:
                    # Notifications requested during the sending need another message.
                    self._sent = asked
                    self._changed.notify_all()
                if not is_sent:
                    time.sleep(RETRY_SECONDS)


_sender = _Sender()


async def _send() -> bool:
    # The first attempt after an outage fails, because connections are broken.
    for last in (False, True):
        try:
            if (layer := shared_layer()) is not None:
                async with asyncio.timeout(SEND_TIMEOUT):
                    await layer.group_send(GROUP, MESSAGE)
        except Exception as error:  # noqa: BLE001 - each layer has errors of its own
            if last:
                _outage.begins(error)
        else:
            _outage.ends()
            return True
    return False

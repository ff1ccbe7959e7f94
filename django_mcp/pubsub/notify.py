"""Notification of event readers, in this process and, by a Channels layer, in others.

Without a layer that processes share, they poll every ``POLL_INTERVAL``.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any
from weakref import WeakSet

from asgiref.sync import async_to_sync
from django.conf import settings

logger = logging.getLogger("django_mcp")

GROUP = "django_mcp.bell"
MESSAGE = {"type": "ring"}


class Listener:
    """Receives notifications on an event loop.

    Args:
        heard: called for each, and when events should be read anyway.

    Attributes:
        works: whether those of other processes arrive.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, heard: Callable[[], None]) -> None:
        self.loop = loop
        self.heard = heard
        self.works = False
        self._task: asyncio.Task[None] | None = None
        # Reused while the loop lives: a layer keeps group members for a day and sends to each of them.
        self._channel: str | None = None

    def start(self) -> None:
        """Start listening."""
        _listeners.add(self)
        if shared_layer() is not None:
            self._task = self.loop.create_task(self._listen())

    async def stop(self) -> None:
        """Stop listening."""
        _listeners.discard(self)
        self.works = False
        listening, self._task = self._task, None
        while listening is not None and not listening.done():
            listening.cancel()  # repeated, because a connecting Redis client may swallow it
            await asyncio.wait([listening], timeout=AGAIN_SECONDS)

    async def _listen(self) -> None:
        """Receive notifications of other processes. During an outage ``works`` is False.

        An error while receiving may be a Redis client's timeout. One while joining is an outage.
        """
        while True:
            layer = shared_layer()
            try:
                await self._join(layer)
            except Exception as error:  # noqa: BLE001 - each layer has errors of its own
                _outage.begins(error)
                if self.works:
                    self.works = False
                    self.heard()  # switches to the shorter polling interval
                await asyncio.sleep(RETRY_SECONDS)
                continue
            _outage.ends()
            self.works = True
            self.heard()  # events may have been written meanwhile
            joined = time.monotonic()
            with suppress(Exception):
                async with asyncio.timeout(RENEW_SECONDS):  # membership in a group expires
                    while True:
                        await layer.receive(self._channel)
                        self.heard()
            if time.monotonic() - joined < RETRY_SECONDS:
                await asyncio.sleep(RETRY_SECONDS)

    async def _join(self, layer: Any) -> None:
        if self._channel is None:
            self._channel = await layer.new_channel()
        await layer.group_add(GROUP, self._channel)


class _Outage:
    """Logs an outage once, not for each notification."""

    def __init__(self) -> None:
        self.told = False

    def begins(self, error: Exception) -> None:
        if not self.told:
            logger.warning("the channel layer is unavailable, polling the event log instead: %s", error)
        self.told = True

    def ends(self) -> None:
        if self.told:
            logger.info("the channel layer is available again")
        self.told = False


_outage = _Outage()
RENEW_SECONDS = 3600
RETRY_SECONDS = 1
AGAIN_SECONDS = 0.1
_listeners: WeakSet[Listener] = WeakSet()


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


def ring() -> None:
    """Notify of new events. Thread-safe; never raises."""
    loops: list[asyncio.AbstractEventLoop] = []
    for listener in list(_listeners):
        try:
            listener.loop.call_soon_threadsafe(listener.heard)
            loops.append(listener.loop)
        except RuntimeError:  # the loop is closed
            _listeners.discard(listener)
    layer = shared_layer()
    if layer is None:
        return
    try:
        if loops:  # a layer's connections belong to an event loop
            asyncio.run_coroutine_threadsafe(_send(layer), loops[0])
        else:
            async_to_sync(_send)(layer)
    except Exception:
        logger.debug("other processes could not be notified", exc_info=True)


async def _send(layer: Any) -> None:
    """Send, with one retry: after an outage connections are broken."""
    for last in (False, True):
        try:
            await layer.group_send(GROUP, MESSAGE)
        except Exception as error:  # noqa: BLE001 - each layer has errors of its own
            if last:
                _outage.begins(error)
        else:
            _outage.ends()
            return

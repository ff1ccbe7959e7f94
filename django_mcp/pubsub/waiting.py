"""Waiting for a row to change, by events on an event loop, else by polling."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from functools import partial
from typing import TypeVar

from asgiref.sync import async_to_sync

from django_mcp.core.channel import no_waiting
from django_mcp.core.concurrency import retry_database
from django_mcp.core.context import Context
from django_mcp.protocol.errors import TooManyRequests
from django_mcp.pubsub.event_store import Entry
from django_mcp.pubsub.follower import follow, listen_for_stop, server_stops
from django_mcp.pubsub.stream_slots import StreamSlot

T = TypeVar("T")

MIN_POLL_SECONDS, MAX_POLL_SECONDS = 0.02, 0.5
"""Seconds between two queries when polling, growing from the first to the second."""

EntryFilter = Callable[[Entry], bool]


async def wait_for(
    context: Context,
    topic: str,
    look: Callable[[], T],
    has_come: Callable[[T], bool],
    seconds: float | None,
    *,
    matches: EntryFilter | None = None,
    handles: EntryFilter | None = None,
) -> T:
    """Return what *look* reads once *has_come* accepts it, or after the timeout.

    Its response is held open meanwhile, so it counts as a stream. It does not wait if the caller has too many.

    Args:
        topic: the row's events.
        look: reads the row; blocks.
        seconds: timeout; None for no limit.
        matches: filter of events; by default all.
        handles: True for an event that is handled, without reading the row.
    """
    look_there = partial(retry_database, context.runner.checks, look)
    if context.runner.is_inline and no_waiting.get():
        return await look_there()
    try:
        slot = StreamSlot(context.principal, key=context.channel.stream_key, kind=context.channel.stream_kind)
    except TooManyRequests:  # it is answered as after the timeout, and its client may come back
        return await look_there()
    try:
        if context.runner.is_inline:
            return _poll(context, look, has_come, seconds)
        return await _hear(context, topic, look_there, has_come, seconds, matches, handles)
    finally:
        slot.close()


async def _hear(
    context: Context,
    topic: str,
    look: Callable[[], Awaitable[T]],
    has_come: Callable[[T], bool],
    seconds: float | None,
    matches: EntryFilter | None,
    handles: EntryFilter | None,
) -> T:
    """Wait for events, on an event loop."""
    subscription = await follow(topic, principal=context.principal, server=context.server)
    if matches is not None:
        subscription.matches = matches
    try:
        async with asyncio.timeout(seconds):
            # Read after subscribing, so that no change is missed in between.
            found = await look()
            if has_come(found):
                return found
            async with aclosing(subscription.entries()) as entries:
                async for entry in entries:
                    if entry is not None and handles is not None and handles(entry):
                        continue
                    if has_come(found := await look()):
                        return found
    except TimeoutError:
        pass
    finally:
        subscription.close()
    return await look()


async def _listen() -> None:
    # Only the main thread can set signal handlers.
    listen_for_stop()


def _poll(context: Context, look: Callable[[], T], has_come: Callable[[T], bool], seconds: float | None) -> T:
    # The server waits for this call when it stops, so polling must end then.
    until = None if seconds is None else time.monotonic() + seconds
    pause = MIN_POLL_SECONDS
    with suppress(RuntimeError):  # this thread runs an event loop
        async_to_sync(_listen)()
    while not has_come(found := look()) and (until is None or time.monotonic() < until) and not server_stops():
        context.check_cancelled()
        time.sleep(pause)
        pause = min(MAX_POLL_SECONDS, pause * 1.5)
    return found

"""Several streams as one."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing

from django_mcp.eras.base import Event, EventStream

logger = logging.getLogger("django_mcp")


class Joined:
    """The messages of several streams, as they come. Streams may be added while it is read."""

    def __init__(self) -> None:
        # Of one place: who does not read makes the streams wait, not the memory grow.
        self._events: asyncio.Queue[Event | None] = asyncio.Queue(1)
        self._tasks: set[asyncio.Task[None]] = set()

    def add(self, stream: EventStream, *, ends: bool = False) -> None:
        """Add a stream.

        Args:
            stream: is closed at the end. Of its events only the messages are taken: ids are of no use here.
            ends: all of it ends with this stream, and its keep-alive is that of the whole.
        """
        task = asyncio.get_running_loop().create_task(self._take(stream, ends=ends))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def events(self) -> AsyncGenerator[Event, None]:
        """The messages."""
        while (event := await self._events.get()) is not None:
            yield event

    async def close(self) -> None:
        """End all of it."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _take(self, stream: EventStream, *, ends: bool) -> None:
        try:
            async with aclosing(stream):
                async for event in stream:
                    if event.data:
                        await self._events.put(Event(event.data))
                    elif ends:
                        await self._events.put(event)
        except Exception:
            logger.exception("a stream broke off")
            ends = True  # with a hole in it, it is worth nothing to its client
        if ends:
            await self._events.put(None)

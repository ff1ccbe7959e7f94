"""What runs when the server stops is let finish, where the server itself would not wait.

daphne cancels its applications the moment it is told to stop, and cuts their connections. Other servers wait first.
"""

import asyncio
import sys
from collections.abc import Coroutine
from typing import Any

from django_mcp.pubsub.follower import end_streams

GRACE_SECONDS = 5.0
"""How long calls go on after daphne was told to stop; Docker kills a process ten seconds after it told it."""
PARTING_SECONDS = 0.1
"""For what was written last to leave before connections are cut, and for calls that are cut off to say so."""


class Patience:
    """That of one application.

    Attributes:
        is_needed: whether the server is daphne; None until it serves, for only then it can be told.
    """

    def __init__(self) -> None:
        self.is_needed: bool | None = None
        self._stops = False
        self._serving: set[asyncio.Task[None]] = set()

    def look(self) -> bool:
        """Find out which server this is, where that is not known yet; under daphne, have it wait when it stops."""
        if self.is_needed is None:
            reactor: Any = sys.modules.get("twisted.internet.reactor")
            self.is_needed = bool(getattr(reactor, "running", False))
            if self.is_needed:
                reactor.addSystemEventTrigger("before", "shutdown", self._stop)
        return self.is_needed

    async def serve(self, serving: Coroutine[Any, Any, None]) -> None:
        """Serve a connection; to its end, if it is not its client that has gone."""
        task = asyncio.create_task(serving)
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            if not self._stops:
                task.cancel()
                await asyncio.wait([task])
            raise

    def _stop(self) -> object:
        self._stops = True
        end_streams()
        # Twisted comes with daphne, which has loaded it; nothing here needs it otherwise, so it is not imported.
        deferred: Any = sys.modules["twisted.internet.defer"]
        return deferred.Deferred.fromFuture(asyncio.ensure_future(self._finish()))

    async def _finish(self) -> None:
        if self._serving:
            await asyncio.wait(self._serving, timeout=GRACE_SECONDS)
        for task in self._serving:
            task.cancel()
        await asyncio.sleep(PARTING_SECONDS)

"""Running the work of a task in its own thread, so that it can be stopped from another."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from django_mcp.core.channel import Cancelled
from django_mcp.core.concurrency import Inline

T = TypeVar("T")


class CancellableInline(Inline):
    """Everything in the thread of the task; what waits there can be stopped from another."""

    def __init__(self) -> None:
        self._waiting: tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]] | None = None
        self._cancelled = False
        self._lock = threading.Lock()

    async def sync(self, function: Callable[[], T]) -> T:
        """Call it. In a worker's main thread ``SystemExit`` may be a signal that stops the worker, and passes."""
        if threading.current_thread() is threading.main_thread():
            return function()
        return await super().sync(function)

    async def coroutine(self, function: Callable[..., Awaitable[T]], /, **keywords: Any) -> T:
        """Run it to its end, or until it is cancelled.

        Raises:
            Cancelled: it was.
        """

        async def run(**given: Any) -> T:
            task = asyncio.current_task()
            assert task is not None  # noqa: S101
            with self._lock:
                if self._cancelled:
                    raise Cancelled
                self._waiting = asyncio.get_running_loop(), task
            try:
                return await function(**given)
            except asyncio.CancelledError:
                if not self._cancelled:
                    raise
                raise Cancelled from None
            finally:
                with self._lock:
                    self._waiting = None

        return await super().coroutine(run, **keywords)

    def cancel(self) -> None:
        """Stop what waits, and what will."""
        with self._lock:
            is_new, self._cancelled = not self._cancelled, True
            if is_new and self._waiting is not None:  # once: a second time would stop it tidying up
                loop, task = self._waiting
                loop.call_soon_threadsafe(task.cancel)

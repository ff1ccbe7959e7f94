"""How the work of a task speaks: nobody holds a connection open for it, so what it says is kept for those who ask."""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from django.db import transaction

from django_mcp.core.channel import Cancelled
from django_mcp.core.concurrency import Inline
from django_mcp.core.dialogue import Dialogue
from django_mcp.core.questions import Question
from django_mcp.live.channel import StepChannel
from django_mcp.models import Task
from django_mcp.primitives.tool import ToolError
from django_mcp.tasks import rows

T = TypeVar("T")

logger = logging.getLogger("django_mcp")

MOST_MESSAGES = 1000
"""Log messages of one run that are kept."""


class TaskChannel(StepChannel):
    """Of one run of a task.

    What it says is taken down here and saved by the keeper, in another thread and over another connection: the tool may
    be in a transaction, where nobody else would see it.

    Attributes:
        is_settled: the outcome is saved already, in the tool's own transaction.
    """

    is_task = True
    log_level = "debug"

    def __init__(self, task: Task, dialogue: Dialogue) -> None:
        self.task = task
        self.dialogue = dialogue
        self.is_settled = False
        self.runner = CancellableInline()
        self._progress: tuple[float, float | None, str | None] | None = None
        self._messages: list[Mapping[str, Any]] = []
        self._said = 0
        self._lock = threading.Lock()
        self._saving = threading.Lock()

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Keep a log message for those who wait for the result. Progress comes by ``note_progress``."""
        with self._lock:
            if method == "notifications/message" and self._said < MOST_MESSAGES:
                self._said += 1
                self._messages.append(params)

    def note_progress(self, progress: float, total: float | None, message: str | None) -> None:
        """The last word counts, and the last message."""
        with self._lock:
            last = self._progress
            self._progress = progress, total, message if message is not None or last is None else last[2]

    def flush(self) -> None:
        """Save what was said since. Of the keeper and the task's own thread, one at a time."""
        if self._progress is None and not self._messages:
            return
        with self._saving, transaction.atomic():
            progress, messages = self._progress, list(self._messages)
            if progress is not None:
                rows.note(self.task, *progress)
            for each in messages:
                rows.tell(self.task.task_id, message=each)
        with self._lock:  # only now: what could not be saved is still to be said
            del self._messages[: len(messages)]
            if self._progress is progress:
                self._progress = None

    def settle(self, fields: dict[str, Any]) -> None:
        """Save the result, together with what the tool wrote or not at all.

        Raises:
            Cancelled: the task was cancelled, or taken over by another worker that took this one for dead.
        """
        if not rows.finish(self.task, result=fields):
            raise Cancelled
        self.is_settled = True

    def cancel(self) -> None:
        """Stop: a coroutine where it waits, a function where it next uses its context. From any thread."""
        self.cancelled = True
        self.runner.cancel()

    def lacks(self, question: Question[Any]) -> Exception:
        """The client is not there to be told of a protocol error; the model can read a tool's."""
        return ToolError(question.refusal)


class CancellableInline(Inline):
    """Everything in the thread of the task; what waits there can be stopped from another."""

    def __init__(self) -> None:
        self._waiting: tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]] | None = None
        self._cancelled = False
        self._lock = threading.Lock()

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
            self._cancelled = True
            if self._waiting is not None:
                loop, task = self._waiting
                loop.call_soon_threadsafe(task.cancel)

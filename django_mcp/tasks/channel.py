"""The channel of a running task: messages, progress and cancellation."""

import asyncio
import datetime
import json
import logging
import math
import threading
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from django_mcp.core import database
from django_mcp.core.channel import Cancelled
from django_mcp.core.concurrency import Inline
from django_mcp.core.elicitation import Dialogue
from django_mcp.core.failures import Escaped
from django_mcp.models import Task
from django_mcp.primitives.base import ToolError
from django_mcp.protocol.errors import InternalError
from django_mcp.protocol.jsonrpc import UnencodableResult, encode
from django_mcp.pubsub import event_store
from django_mcp.pubsub.once import StepChannel, expiry
from django_mcp.tasks import store

if TYPE_CHECKING:
    from django_mcp.core.elicitation import Question

logger = logging.getLogger("django_mcp")

T = TypeVar("T")


class CancellableInline(Inline):
    """Runs everything in the task's thread; waiting coroutines can be cancelled from others."""

    def __init__(self) -> None:
        self._waiting: tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]] | None = None
        self._cancelled = False
        self._lock = threading.Lock()

    async def sync(self, function: Callable[[], T]) -> T:
        # In a worker's main thread, SystemExit may come from a signal and must propagate.
        try:
            return await super().sync(function)
        except Escaped as error:
            if isinstance(error.__cause__, SystemExit) and threading.current_thread() is threading.main_thread():
                raise error.__cause__ from None
            raise

    async def coroutine(self, function: Callable[..., Awaitable[T]], /, **keywords: Any) -> T:
        async def run(**given: Any) -> T:
            task = asyncio.current_task()
            assert task is not None  # noqa: S101
            with self._lock:
                # The lock orders this and cancel(), which otherwise could miss the task.
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
                # Under the lock: cancel() must not cancel a task that is over, of a loop that is closed.
                with self._lock:
                    self._waiting = None

        return await super().coroutine(run, **keywords)

    def cancel(self) -> None:
        with self._lock:
            is_new, self._cancelled = not self._cancelled, True
            if is_new and self._waiting is not None:  # once: a second cancel would interrupt cleanup
                loop, task = self._waiting
                # A heartbeat or another thread calls this, and tasks may only be cancelled in the thread of their
                # loop.
                loop.call_soon_threadsafe(task.cancel)


MAX_MESSAGES = 500
"""Maximum number of stored log messages per run, as many as a stream takes at once."""
MAX_STORED_BYTES = 1024 * 1024
"""Their length in all."""
FLUSH_TIMEOUT = 0.2
"""How long the end of a task waits for a save in progress."""


def plain(value: Any) -> Any:
    """Return a value as plain JSON.

    Raises:
        InternalError: it has no JSON form.
    """
    try:
        return json.loads(encode(value))
    except UnencodableResult as error:
        logger.error("output of a task cannot be encoded as JSON: %s", error)  # noqa: TRY400 - a traceback adds nothing
        raise InternalError("The result cannot be encoded as JSON. See the server's log for details.") from None


class TaskChannel(StepChannel):
    """The channel of one run.

    The heartbeat saves progress and messages over its own connection: writes of the tool's transaction would be
    invisible.

    Attributes:
        is_settled: whether the outcome is committed with the tool's transaction.
    """

    is_task = True
    log_level = "debug"

    def __init__(self, task: Task, dialogue: Dialogue, *, has_slot: bool = False) -> None:
        self.task = task
        self.has_slot = has_slot
        self.dialogue = dialogue
        self.needs_approval = task.needs_approval
        self.is_settled = False
        self.runner = CancellableInline()
        self._progress: tuple[float, float | None, str | None] | None = None
        self._messages: list[Mapping[str, Any]] = []
        # _lock guards the buffers. _saving is held while they are saved; see flush().
        self._message_count = self._message_bytes = 0
        self._lock = threading.Lock()
        self._saving = threading.Lock()

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        if method != "notifications/message" or self._message_count >= MAX_MESSAGES:
            return
        try:
            encoded = encode(params)
        except UnencodableResult as error:
            msg = f"{method} cannot be encoded as JSON: {error}"
            # Raised here, so that the tool sees it.
            raise TypeError(msg) from None
        with self._lock:
            self._message_count += 1
            self._message_bytes += len(encoded)
            if self._message_bytes <= MAX_STORED_BYTES:
                # A copy: the tool may change what it logged before the heartbeat saves it.
                self._messages.append(json.loads(encoded))

    def note_progress(self, progress: float, total: float | None, message: str | None) -> None:
        if not math.isfinite(progress):  # not a JSON number
            return
        text = None if message is None else database.storable_text(str(message))
        said = _number(progress), None if total is None or not math.isfinite(total) else _number(total), text
        with self._lock:
            last = self._progress
            # The last message is kept until there is another.
            self._progress = said if message is not None or last is None else (*said[:2], last[2])

    def flush(self) -> None:
        """Save what is buffered. Heartbeat and task do so one at a time."""
        # Without the lock: what is added just now is saved by the next heartbeat, or at the end.
        if self._progress is None and not self._messages:
            return
        # Lock order: transaction, then _saving. On SQLite the heartbeat waits here for the tool's transaction, and
        # store_result() must be able to take _saving meanwhile.
        with database.atomic(), self._saving:
            self._save()

    def _save(self) -> None:
        # Again, under _saving: the other thread may have saved it meanwhile.
        if self._progress is None and not self._messages:
            return
        with database.atomic():
            progress, messages = self._progress, list(self._messages)
            if progress is not None:
                store.save_progress(self.task, *progress)
            if messages:
                topic = store.topic(self.task.task_id)
                event_store.append([(topic, json.dumps({"message": message})) for message in messages])
        with self._lock:  # only after saving, so that a failed save is repeated
            del self._messages[: len(messages)]
            if self._progress is progress:
                self._progress = None

    def store_result(self, fields: dict[str, Any]) -> None:
        """Save the result together with what the tool wrote.

        Without a transaction it is saved later, with retries.

        Raises:
            Cancelled: the task was cancelled, or taken over after its lease expired.
        """
        if not database.own_connection().in_atomic_block:
            return
        # Save pending messages first, unless the heartbeat is saving: on SQLite it may wait for this transaction.
        if self._saving.acquire(timeout=FLUSH_TIMEOUT):
            try:
                self._save()
            finally:
                self._saving.release()
        # The row is of another run once the lease has expired. Raising rolls back what the tool wrote in this one.
        if not store.finish(self.task, result=plain(fields)):
            self.cancelled = True
            raise Cancelled
        if self.record is not None:
            self.record(fields)
        database.on_commit(self._settled)  # the commit may still fail

    def _settled(self) -> None:
        self.is_settled = self.is_recorded = True

    def cancel(self) -> None:
        # Coroutines stop where they wait, functions at their next use of the context.
        self.cancelled = True
        self.runner.cancel()

    def _attempt(self) -> str:
        task_id: str = self.task.task_id
        return task_id

    def _expiry(self) -> datetime.datetime:
        return expiry(self.task.expires)  # until then it may be answered, or run again

    def missing_capability(self, question: "Question[Any]") -> Exception:
        # No client waits for a protocol error, but the model can read a tool error.
        return ToolError(question.refusal)


def _number(value: Any) -> float:
    # Numbers of other types, such as Decimal, fit neither rows nor JSON.
    return value if type(value) is int else float(value)

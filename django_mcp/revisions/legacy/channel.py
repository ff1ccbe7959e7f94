"""Channel of a call in a session, whose messages are stored so that its stream can be resumed.

A call without messages before its response stores nothing. The first message opens the stream; messages are then
queued, stored and sent to the connection if it is still open.
"""

import asyncio
import contextvars
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

from django_mcp.conf import settings
from django_mcp.core import database
from django_mcp.core.after_fork import clear_after_fork
from django_mcp.core.concurrency import create_background_task, free_pool, retry_attempt
from django_mcp.core.execution import run_to_completion
from django_mcp.core.rate_limited_log import log_rate_limited
from django_mcp.models import Call, Session, Task
from django_mcp.primitives.base import ToolError
from django_mcp.protocol.errors import MethodNotFound
from django_mcp.protocol.jsonrpc import Request, Result
from django_mcp.pubsub.once import StepChannel
from django_mcp.revisions.base import MCPRequest, MCPResponse, SSEEvent, encode_notification
from django_mcp.revisions.legacy import calls
from django_mcp.revisions.legacy.tasks import has_tasks, task_result, wants_task

if TYPE_CHECKING:
    from django_mcp.core.elicitation import Question

T = TypeVar("T")

_NO_CONTEXT = contextvars.Context()
"""Prevents timers from keeping the context of the call that started them."""


class _Leases:
    """Leases of the calls that run on one event loop, renewed together.

    Not by the thread of ``tasks.worker.LeaseHeartbeat``: nearly all calls end before the first renewal, and a timer
    costs them no thread and no connection.
    """

    __slots__ = ("held", "is_due")

    def __init__(self) -> None:
        self.held: set[int] = set()
        self.is_due = False

    def add(self, call: Call) -> None:
        self.held.add(call.pk)
        self._schedule(settings.KEEP_ALIVE_INTERVAL / 2)

    def discard(self, call: Call) -> None:
        self.held.discard(call.pk)

    def _schedule(self, pause: float) -> None:
        if not self.is_due:
            self.is_due = True
            asyncio.get_running_loop().call_later(pause, self._on_timer, context=_NO_CONTEXT)

    def _on_timer(self) -> None:
        self.is_due = False
        if self.held:
            create_background_task(self._renew(tuple(self.held)))

    async def _renew(self, held: Sequence[int]) -> None:
        pause = settings.KEEP_ALIVE_INTERVAL / 2
        try:
            await free_pool().sync(partial(calls.renew_leases, held))
        except Exception as error:  # noqa: BLE001 - whatever it is: without renewals running calls count as lost
            log_rate_limited(logging.ERROR, "leases of running calls cannot be renewed, retrying: %s", error)
            pause = min(pause, settings.POLL_INTERVAL)
        self._schedule(pause)


# Weak, because async_to_sync makes a loop for each of its calls.
_leases: WeakKeyDictionary[asyncio.AbstractEventLoop, _Leases] = clear_after_fork(WeakKeyDictionary())


def _leases_of(loop: asyncio.AbstractEventLoop) -> _Leases:
    leases = _leases.get(loop)
    if leases is None:
        leases = _leases[loop] = _Leases()
    return leases


MAX_STORED = 500
"""Progress and log messages that are stored for a round of a call.

Later ones are sent to the connection of the call if it is open, and the last is stored before the answer.
"""
MAX_STORED_BYTES = 1024 * 1024
"""Their length in all; what is longer is not stored either."""
RETRY_MS = 500
"""Milliseconds before a client whose connection was closed reconnects."""
PRIMING_SINCE = "2025-11-25"
"""Older clients reject events without data."""


class QuietChannel(StepChannel):
    """Channel of a call without a stream, as in a batch, whose calls run in turn; so it never waits for approvals."""

    waits = False

    def __init__(self, version: str = "") -> None:
        self.protocol = version

    def missing_capability(self, question: "Question[Any]") -> Exception:
        # These versions have no protocol error for it.
        return ToolError(question.refusal)

    def wants_task(self, support: str) -> bool:
        # Versions before 2025-11-25 have no tasks.
        if support == "required" and database.has_database():
            raise MethodNotFound("This tool runs only as a task, and this protocol version has no tasks.")
        return False


class LegacyChannel(QuietChannel):
    """Channel of a call with a stored stream.

    Args:
        mcp_request: the POST that runs the call.
        session: the client's session, or None.
        request: the JSON-RPC request.
        version: the protocol version.
        call: the stored call in later rounds; nothing is then sent to the connection of *mcp_request*.

    Attributes:
        opened: True once something was sent, or is queued to be.
    """

    waits = True

    def __init__(
        self, mcp_request: MCPRequest, session: Session | None, request: Request, version: str, call: Call | None = None
    ) -> None:
        self.log_level = session.log_level if session else None
        self.mcp_request = mcp_request
        self.session = session
        self.request = request
        self.version = self.protocol = version
        self.call = call
        self.opened = call is not None
        self._call_key = None if call is None else call.key
        self.stream_kind = mcp_request.stream_kind
        self._wire = mcp_request.response if call is None else None
        self._messages: deque[bytes] = deque()
        self._count = self._stored = self._storable = self._size = 0
        self._latest: bytes | None = None
        self._is_latest_sent = False
        self._writing: asyncio.Task[None] | None = None
        # Orders the writers: _write(), ask() and end().
        self._write_lock = asyncio.Lock()
        self._closes_connection = self._is_closed = False
        self._loop = (
            asyncio.get_running_loop() if mcp_request.response.can_hold and mcp_request.response.is_live else None
        )
        self.task: asyncio.Task[Any] | None = None

    @property
    def can_ask(self) -> bool:
        # A question needs a way to the client, and a session in which its answer reaches this call.
        return self.session is not None and (self.call is not None or self.mcp_request.response.takes_events)

    @property
    def stream_key(self) -> str | None:
        return None if self.session is None else calls.topic_of(self._key_of_call())

    def _key_of_call(self) -> str:
        """Return the key that the row of the call has, or will have if it is made: most calls need none."""
        if self._call_key is None:
            self._call_key = calls.new_key()
        return self._call_key

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification, through the event store if there is a session. After the call it is dropped."""
        if self._is_closed or (self.call is None and not self.mcp_request.response.takes_events):
            return
        message = encode_notification(method, params)
        if self.session is None:
            self.mcp_request.response.send(SSEEvent(message, is_optional=True))
            return
        self._count += 1
        self._size += len(message)
        if self._count <= MAX_STORED and self._size <= MAX_STORED_BYTES:
            self._storable += 1
        else:
            self._latest = message
            self._is_latest_sent = (
                self._wire is not None and self._loop is not None and len(self._messages) < MAX_STORED
            )
            if not self._is_latest_sent:
                return
        self.opened = True
        self._messages.append(message)
        self._wake()

    def close_connection(self) -> None:
        # The client reconnects with the id of the last event.
        resumable = self.mcp_request.over_http and self.version >= PRIMING_SINCE
        if self.session is not None and resumable and self._loop is not None:
            self.opened = self._closes_connection = True
            self._wake()

    def cancel(self) -> None:
        if not self.cancelled and self.task is not None:  # once, or the end of the stream is cancelled too
            self.task.cancel()
        # A function in a thread stops at its next use of the context.
        self.cancelled = True

    def cancel_threadsafe(self) -> None:
        if self._loop is not None:
            # From the thread that read the cancellation in the event store.
            self._loop.call_soon_threadsafe(self.cancel)

    # Tasks

    def wants_task(self, support: str) -> bool:
        if has_tasks(self.mcp_request.server, self.version):
            return wants_task(self.request.params, support)
        return super().wants_task(support)

    def announce_task(self, task: Task) -> Result:
        return task_result(task)

    # The lease, while this process runs the call

    def take_lease(self, call: Call) -> None:
        # A lease taken after close() would never be released.
        if self._loop is not None and not self._is_closed:
            _leases_of(self._loop).add(call)

    def close(self) -> None:
        # From here on nothing is opened: the lease of a row created later would never be released.
        self._is_closed = True
        if self._writing is not None:
            self._writing.cancel()
        if self._loop is not None and self.call is not None:
            _leases_of(self._loop).discard(self.call)

    # The end of a round

    async def ask(self, requests: Mapping[str, Any]) -> int:
        async with self._write_lock:
            call = await self._write_last()
            asked = await self._save(partial(calls.store_questions, call, self.dialogue, requests, self.version))
            self._send(call, asked)
        return asked[-1][0]

    async def end(self, messages: list[bytes]) -> None:
        async with self._write_lock:
            call = await self._write_last()
            ids = await self._save(partial(calls.end_call, call, messages))
            self._send(call, list(zip(ids, messages, strict=True)))

    async def finish(self, body: bytes) -> MCPResponse:
        """Return the rest of the response after earlier messages."""
        if self.mcp_request.response.is_live:
            await self.end([body])
            return MCPResponse(200)
        # Sent together, so there is nothing to resume.
        for message in (*self._messages, *([] if self._latest is None else [self._latest])):
            self.mcp_request.response.send(SSEEvent(message, is_optional=True))
        return MCPResponse(200, body)

    # Writing to the event store

    def _wake(self) -> None:
        if self._loop is not None:
            # A tool in a worker thread sends: the queue of messages is appended to there, and read by the event loop
            # only.
            self._loop.call_soon_threadsafe(self._start)

    def _start(self) -> None:
        if self._writing is None and not self._is_closed and (self._messages or self._closes_connection):
            self._writing = self._loop.create_task(self._write())  # type: ignore[union-attr]

    async def _write(self) -> None:
        try:
            async with self._write_lock:
                await self._write_all()
            if self._closes_connection and self._wire is not None:
                self._wire.send(SSEEvent(retry=RETRY_MS))
                self._wire.close()
                self._wire = None
        except Exception as error:  # noqa: BLE001 - they stay queued; the next message or the end of the call tries again
            log_rate_limited(logging.WARNING, "messages of a call cannot be stored, retrying: %s", error)
        finally:
            self._writing = None

    async def _write_all(self) -> Call:
        # The caller holds the lock: concurrent writers would open two streams, or reorder messages.
        call = await self._open_stream()
        while waiting := len(self._messages):
            messages = [self._messages[position] for position in range(waiting)]
            stored = messages[: self._storable - self._stored]
            ids = await self._save(partial(calls.append_messages, call, stored)) if stored else []
            self._stored += len(stored)
            for _ in messages:  # only after they were written
                self._messages.popleft()
            self._send(call, list(zip(ids, stored, strict=True)), is_optional=True)
            if self._wire is not None:
                for message in messages[len(stored) :]:
                    self._wire.send(SSEEvent(message, is_optional=True))
        return call

    async def _write_last(self) -> Call:
        call = await self._write_all()
        # The latest message was not stored if there were too many. Clients that resume need it.
        if (latest := self._latest) is not None:
            self._latest = None
            [position] = await self._save(partial(calls.append_messages, call, [latest]))
            if not self._is_latest_sent:
                self._send(call, [(position, latest)], is_optional=True)
        return call

    async def _open_stream(self) -> Call:
        if self.call is None:
            assert self.session is not None  # noqa: S101
            await self._save(partial(self._create_call, self.session, self._key_of_call()))
            assert self.call is not None  # noqa: S101
            self.take_lease(self.call)
            if self._wire is not None and self.version >= PRIMING_SINCE:
                self._wire.send(SSEEvent(id=f"{self.call.key}.0", retry=RETRY_MS))
        return self.call

    def _create_call(self, session: Session, key: str) -> None:
        # Kept here, in the thread: a cancelled coroutine gets no result, and its call is to be ended too.
        self.call = calls.create_call(session, self.request, key, leased=self._loop is not None)
        self.opened = True

    async def _save(self, write: Callable[[], T]) -> T:
        # Retried while the database is away, as the call may have taken effect. A cancellation waits for a write that
        # has begun. Otherwise the questions of a cancelled call could be committed after the end of its stream, and its
        # row be created without being known here.
        runner = self.mcp_request.runner.own
        if runner.is_inline:
            return await runner.sync(write)
        return await retry_attempt(partial(run_to_completion, runner, write))

    def _send(self, call: Call, messages: list[tuple[int, bytes]], *, is_optional: bool = False) -> None:
        if self._wire is not None:
            for position, message in messages:
                self._wire.send(SSEEvent(message, id=f"{call.key}.{position}", is_optional=is_optional))

"""Channel of a call in a session, whose messages are stored so that its stream can be resumed.

A call without messages before its response stores nothing. The first message opens the stream; messages are then
queued, stored and sent to the connection if it is still open.
"""

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

from django.db import DatabaseError

from django_mcp.conf import settings
from django_mcp.core import database
from django_mcp.core.concurrency import detached, free_pool, patiently
from django_mcp.models import Call, Session, Task
from django_mcp.primitives.base import ToolError
from django_mcp.protocol.errors import MethodNotFound
from django_mcp.protocol.jsonrpc import Request, Result
from django_mcp.pubsub.once import StepChannel
from django_mcp.revisions.base import Event, MCPRequest, MCPResponse, notification
from django_mcp.revisions.legacy import calls
from django_mcp.revisions.legacy.tasks import has_tasks, made, wants_task

if TYPE_CHECKING:
    from django_mcp.core.elicitation import Question

_NO_CONTEXT = contextvars.Context()
"""Prevents timers from keeping the context of the call that started them."""


class _Running:
    """Running calls of one event loop; their leases are renewed in one statement."""

    __slots__ = ("held", "is_due")

    def __init__(self) -> None:
        self.held: set[int] = set()
        self.is_due = False

    def expect(self) -> None:
        if not self.is_due:
            self.is_due = True
            pause = settings.KEEP_ALIVE_INTERVAL / 2
            asyncio.get_running_loop().call_later(pause, self._come, context=_NO_CONTEXT)

    def _come(self) -> None:
        self.is_due = False
        if self.held:
            self.expect()
            detached(self._renew(tuple(self.held)))

    async def _renew(self, held: tuple[int, ...]) -> None:
        with suppress(DatabaseError):  # other processes cannot read expired leases either
            await free_pool().sync(partial(calls.renew, held))


_running: WeakKeyDictionary[asyncio.AbstractEventLoop, _Running] = WeakKeyDictionary()


def hold(call: Call) -> None:
    """Renew the lease of a call that runs on this event loop."""
    loop = asyncio.get_running_loop()
    running = _running.get(loop)
    if running is None:
        running = _running[loop] = _Running()
    running.held.add(call.pk)
    running.expect()


def release(call: Call) -> None:
    """Stop renewing the lease of a call."""
    running = _running.get(asyncio.get_running_loop())
    if running is not None:
        running.held.discard(call.pk)


T = TypeVar("T")

RETRY_MS = 500
"""Milliseconds before a client whose connection was closed reconnects."""
PRIMING_SINCE = "2025-11-25"
"""Older clients reject events without data."""


class QuietChannel(StepChannel):
    """Channel of a call without a stream, as in a batch, whose calls run in turn; so it never waits for approvals."""

    waits = False

    def __init__(self, version: str = "") -> None:
        self.protocol = version

    def lacks(self, question: "Question[Any]") -> Exception:
        """Return a tool error, because these versions have no protocol error for it."""
        return ToolError(question.refusal)

    def wants_task(self, support: str) -> bool:
        """Return False: versions before 2025-11-25 have no tasks."""
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
        self._wire = mcp_request.response if call is None else None
        self._messages: deque[bytes] = deque()
        self._writing: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()
        self._letting_go = False
        self._loop = (
            asyncio.get_running_loop() if mcp_request.response.can_hold and mcp_request.response.is_live else None
        )
        self.task: asyncio.Task[Any] | None = None

    @property
    def can_ask(self) -> bool:
        """True if a question can reach the client and its answer this call."""
        return self.session is not None and (self.call is not None or self.mcp_request.response.takes_events)

    @property
    def opened(self) -> bool:
        """True if something was sent."""
        return self.call is not None or bool(self._messages) or self._writing is not None or self._letting_go

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification, through the event store if there is a session."""
        if self.call is None and not self.mcp_request.response.takes_events:
            return
        message = notification(method, params)
        if self.session is None:
            self.mcp_request.response.send(Event(message))
            return
        self._messages.append(message)
        self._wake()

    def let_go(self) -> None:
        """Close the connection; the client reconnects with the id of the last event."""
        resumable = self.mcp_request.over_http and self.version >= PRIMING_SINCE
        if self.session is not None and resumable and self._loop is not None:
            self._letting_go = True
            self._wake()

    def cancel(self) -> None:
        """Cancel a coroutine where it awaits, a function at its next use of the context."""
        if not self.cancelled and self.task is not None:  # once, or the end of the stream is cancelled too
            self.task.cancel()
        self.cancelled = True

    def withdraw(self) -> None:
        """Cancel the call from any thread."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self.cancel)

    # Tasks

    def wants_task(self, support: str) -> bool:
        """Return True if the call requests a task."""
        if has_tasks(self.mcp_request.server, self.version):
            return wants_task(self.request.params, support)
        return super().wants_task(support)

    def task_made(self, task: Task) -> Result:
        """Return a ``CreateTaskResult``."""
        return made(task)

    # Leases

    @property
    def is_leased(self) -> bool:
        """True if this process can renew leases."""
        return self._loop is not None

    def hold(self) -> None:
        """Start renewing the lease."""
        if self.is_leased and self.call is not None:
            hold(self.call)

    def release(self) -> None:
        """Stop renewing the lease."""
        if self.is_leased and self.call is not None:
            release(self.call)

    # The end of a round

    async def ask(self, requests: Mapping[str, Any]) -> int:
        """Send questions; return the position after the last."""
        async with self._turn:
            call = await self._say_all()
            asked = await self._saved(partial(calls.ask, call, self.dialogue, requests, self.version))
            self._send(call, asked)
        return asked[-1][0]

    async def end(self, messages: list[bytes]) -> None:
        """Send the last messages and end the stream."""
        async with self._turn:
            call = await self._say_all()
            ids = await self._saved(partial(calls.end, call, messages))
            self._send(call, list(zip(ids, messages, strict=True)))

    async def finish(self, body: bytes) -> MCPResponse:
        """Return the rest of the response after earlier messages."""
        if self.mcp_request.response.is_live:
            await self.end([body])
            return MCPResponse(200)
        for message in self._messages:  # sent together, so there is nothing to resume
            self.mcp_request.response.send(Event(message))
        return MCPResponse(200, body)

    # Writing to the event store

    def _wake(self) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._start)

    def _start(self) -> None:
        if self._writing is None and (self._messages or self._letting_go):
            self._writing = self._loop.create_task(self._write())  # type: ignore[union-attr]

    async def _write(self) -> None:
        try:
            async with self._turn:
                await self._say_all()
            if self._letting_go and self._wire is not None:
                self._wire.send(Event(retry=RETRY_MS))
                self._wire.close()
                self._wire = None
        finally:
            self._writing = None

    async def _say_all(self) -> Call:
        """Write queued messages, under the lock: concurrent writers would open two streams or reorder messages."""
        call = await self._open()
        while waiting := len(self._messages):
            messages = [self._messages[position] for position in range(waiting)]
            ids = await self._saved(partial(calls.say, call, messages))
            for _ in messages:  # only after they were written
                self._messages.popleft()
            self._send(call, list(zip(ids, messages, strict=True)))
        return call

    async def _open(self) -> Call:
        if self.call is None:
            assert self.session is not None  # noqa: S101
            self.call = await self._saved(partial(calls.begin, self.session, self.request, leased=self.is_leased))
            self.hold()
            if self._wire is not None and self.version >= PRIMING_SINCE:
                self._wire.send(Event(id=f"{self.call.key}.0", retry=RETRY_MS))
        return self.call

    async def _saved(self, write: Callable[[], T]) -> T:
        """Write, retrying while the database is away: the call may have taken effect."""
        return await patiently(self.mcp_request.runner, write)

    def _send(self, call: Call, messages: list[tuple[int, bytes]]) -> None:
        if self._wire is not None:
            for position, message in messages:
                self._wire.send(Event(message, id=f"{call.key}.{position}"))

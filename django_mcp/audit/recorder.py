"""The observer of calls: counts queries, measures time, writes log entries and sends ``call_logged``."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from contextvars import ContextVar
from functools import partial
from typing import Any

from django.db import connections
from django.db.backends.signals import connection_created
from django.utils import timezone

from django_mcp.audit import entry, otel
from django_mcp.audit import writer as rows
from django_mcp.audit.entry import Ended, Facts
from django_mcp.audit.otel import wanted
from django_mcp.audit.writer import writer, written
from django_mcp.core.channel import Cancelled
from django_mcp.core.concurrency import Runner, shared_pool
from django_mcp.core.context import Context
from django_mcp.core.dispatch import watching
from django_mcp.core.principal import Principal
from django_mcp.core.server import MCPServer
from django_mcp.core.signals import call_logged
from django_mcp.models import RequestLog
from django_mcp.protocol.errors import ProtocolError
from django_mcp.protocol.jsonrpc import Result

_current: "ContextVar[_Call | None]" = ContextVar("django_mcp_call", default=None)
"""The call whose queries are counted. Worker threads inherit it with the call's context variables."""


def _counting(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
    call = _current.get()
    # SQLite's BEGIN passes through wrappers; other drivers start transactions outside of them.
    if call is not None and not (isinstance(sql, str) and sql.startswith("BEGIN")):
        call.queries += 1
    return execute(sql, params, many, context)


def _begin(*, connection: Any, **_: Any) -> None:
    if watching.observer is not None and _counting not in connection.execute_wrappers:
        # Before wrappers of the site, which may count or block queries.
        connection.execute_wrappers.insert(0, _counting)


def count_queries() -> None:
    """Count queries on connections of this thread and on all that are opened from now on."""
    connection_created.connect(_begin, dispatch_uid="django_mcp.audit.queries")
    for connection in connections.all(initialized_only=True):
        _begin(connection=connection)


def tell(runner: Runner, server: MCPServer, facts: Facts) -> None:
    """Send ``call_logged``. At the ASGI edge the caller does not wait for its receivers."""
    send = partial(_send, server, facts)
    if runner.is_inline:
        send()
    else:
        shared_pool().begin(send)


def _send(server: MCPServer, facts: Facts) -> None:
    call_logged.send_robust(sender=server, call=RequestLog(**facts))


REFUSALS_A_MINUTE = 60
"""Maximum rejected requests of unknown callers logged per minute, so that they cannot fill the table."""


class Recorder:
    """The ``core.dispatch.Observer`` of the request log."""

    def __init__(self) -> None:
        self._minute, self._refused = 0, 0

    def watch(self, context: Context) -> "AbstractAsyncContextManager[_Call] | None":
        """Return a context manager that records a list, read or call, or None for other methods such as completions."""
        if wanted.due <= time.monotonic():  # inlined, as every call checks it
            wanted.look()
        is_logged = context.server.log_calls
        if not (is_logged or wanted.spans or wanted.metrics):
            return None
        if context.method == "completion/complete" or context.method.startswith("tasks/"):
            return None
        return self._watched(context, is_logged)

    @asynccontextmanager
    async def _watched(self, context: Context, is_logged: bool) -> AsyncIterator["_Call"]:
        call = _Call(context, is_logged=is_logged)
        if writer.is_failing and call.is_logged and not context.channel.is_task and rows.is_there():
            await writer.check(context.runner, call.known(Ended(entry.Outcome.OK), 0.0))
        if context.method == "tools/call":
            context.channel.record = call.save_with_result
        token = _current.set(call)
        try:
            with otel.spanned(context) if wanted.spans or wanted.metrics else nullcontext() as call.span:
                try:
                    yield call
                except BaseException as error:
                    await call.end(entry.of_error(error), error)
                    raise
                assert call.result is not None  # noqa: S101
                await call.end(entry.of_result(context, call.result))
        finally:
            _current.reset(token)
            context.channel.record = None  # break the reference cycle of call and channel

    async def refused(
        self,
        server: MCPServer,
        principal: Principal | None,
        runner: Runner,
        edge: Callable[[], Any],
        message: Any,
        reason: str,
    ) -> None:
        """Log a request that was rejected before dispatch."""
        if not server.log_calls or (principal is None and not self._is_within_rate()):
            return
        for each in message if isinstance(message, list) else [message]:
            row = entry.of_refusal(server, principal, edge, timezone.now(), each, reason)
            if rows.is_there():
                await written(runner, row, is_task=False)
            if call_logged.receivers:
                tell(runner, server, row)

    def _is_within_rate(self) -> bool:
        minute = int(time.monotonic() // 60)
        if minute != self._minute:
            self._minute, self._refused = minute, 0
        self._refused += 1
        return self._refused <= REFUSALS_A_MINUTE


class _Call:
    """A call that is recorded; if ``is_logged``, it gets a row in the request log."""

    def __init__(self, context: Context, *, is_logged: bool) -> None:
        self.context = context
        self.is_logged = is_logged
        self.queries = 0
        self.result: Result | None = None
        self.span: otel.Span | None = None
        self._called = timezone.now()
        self._began = time.perf_counter()
        self._saved_with_result: Facts | None = None

    async def end(self, ended: Ended, error: BaseException | None = None) -> None:
        """End the span and write the entry, unless it was saved with the task.

        Raises:
            NotRecorded: it could not be written.
        """
        context, seconds = self.context, time.perf_counter() - self._began
        if self.span is not None:
            self.span.end(context, ended, seconds, error.code if isinstance(error, ProtocolError) else None)
        if not self.is_logged:
            return
        row = self.known(ended, seconds)
        is_left = isinstance(error, Cancelled | asyncio.CancelledError)
        if self._saved_with_result is not None and context.channel.is_recorded and not is_left:
            row = self._saved_with_result
        elif rows.is_there():
            if is_left and not context.runner.is_inline:
                writer.post(row)  # no caller waits for it
            else:
                await written(context.runner, row, is_task=context.channel.is_task)
        if call_logged.receivers:
            tell(context.runner, context.server, row)

    def save_with_result(self, fields: dict[str, Any]) -> None:
        """Write the entry in the open transaction that also saves the task or its result."""
        if not self.is_logged:
            return
        ended = entry.of_result(self.context, Result(fields))
        self._saved_with_result = self.known(ended, time.perf_counter() - self._began)
        rows.save([self._saved_with_result])

    def known(self, ended: Ended, seconds: float) -> Facts:
        milliseconds = round(seconds * 1000, 3)
        trace_id = "" if self.span is None else self.span.trace_id
        return entry.of_call(self.context, ended, self._called, milliseconds, self.queries, trace_id)


def install() -> None:
    """Install the observer."""
    watching.observer = Recorder()
    count_queries()

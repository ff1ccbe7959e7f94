"""The observer of calls: counts queries, measures time, writes log entries and sends ``request_logged``."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
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
from django_mcp.audit.writer import NotRecordable, NotRecorded, writer
from django_mcp.core import dispatch
from django_mcp.core.channel import Cancelled
from django_mcp.core.concurrency import NoThread, Runner, shared_pool
from django_mcp.core.context import Context
from django_mcp.core.failures import log_survived, must_propagate, survive
from django_mcp.core.principal import Principal
from django_mcp.core.rate_limited_log import log_rate_limited
from django_mcp.core.server import MCPServer
from django_mcp.core.signals import request_logged
from django_mcp.models import RequestLog
from django_mcp.protocol.errors import ProtocolError
from django_mcp.protocol.jsonrpc import Result

_current: "ContextVar[_RecordedCall | None]" = ContextVar("django_mcp_call", default=None)
"""The call whose queries are counted. Worker threads inherit it with the call's context variables."""


def _counting(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
    call = _current.get()
    # SQLite's BEGIN passes through wrappers; other drivers start transactions outside of them.
    if call is not None and not (isinstance(sql, str) and sql.startswith("BEGIN")):
        call.queries += 1
    return execute(sql, params, many, context)


def _add_counter(*, connection: Any, **_: Any) -> None:
    if dispatch.observer is not None and _counting not in connection.execute_wrappers:
        # Before wrappers of the site, which may count or block queries.
        connection.execute_wrappers.insert(0, _counting)


def count_queries() -> None:
    """Count queries on connections of this thread and on all that are opened from now on."""
    connection_created.connect(_add_counter, dispatch_uid="django_mcp.audit.queries")
    for connection in connections.all(initialized_only=True):
        _add_counter(connection=connection)


def send_request_logged(runner: Runner, server: MCPServer, facts: Facts) -> None:
    send = partial(_send, server, facts)
    if runner.is_inline:
        send()
    else:
        try:
            # At the ASGI edge the caller does not wait for receivers.
            shared_pool().post(send)
        except NoThread as error:  # the call has run and is logged
            log_rate_limited(logging.WARNING, "request_logged is not sent: %s", error)


def _send(server: MCPServer, facts: Facts) -> None:
    request_logged.send_robust(sender=server, entry=RequestLog(**facts))


REFUSALS_A_MINUTE = 60
"""Maximum rejected requests of unknown callers logged per minute, so that they cannot fill the table."""


class Recorder:
    """The ``core.dispatch.Observer`` of the request log."""

    def __init__(self) -> None:
        self._minute, self._refused = 0, 0

    def watch(self, context: Context) -> "AbstractAsyncContextManager[_RecordedCall] | None":
        """Return a context manager that records a list, read or call, or None for other methods such as completions."""
        if wanted.due <= time.monotonic():  # inlined, as every call checks it
            wanted.look()
        is_logged = context.server.log_requests
        if not (is_logged or wanted.spans or wanted.metrics):
            return None
        if context.method == "completion/complete" or context.method.startswith("tasks/"):
            return None
        return self._record(context, is_logged)

    @asynccontextmanager
    async def _record(self, context: Context, is_logged: bool) -> AsyncIterator["_RecordedCall"]:
        call = _RecordedCall(context, is_logged=is_logged)
        # Only after a failed write: an entry before each call would double the writes.
        if writer.is_failing and call.is_logged and rows.is_there():
            facts, is_task = call.build_facts(Ended(entry.Outcome.FAILED), 0.0), context.channel.is_task
            call.row = await writer.begin_call(context.runner, facts, is_task=is_task)
        if context.method == "tools/call":
            context.channel.record = call.save_with_result
        token = _current.set(call)
        try:
            with ExitStack() as stack:
                if wanted.spans or wanted.metrics:
                    call.span = survive(partial(_open_span, context, stack), "the span of a call")
                try:
                    yield call
                except BaseException as error:
                    await call.end(error)
                    raise
                await call.end()
        finally:
            _current.reset(token)
            context.channel.record = None  # break the reference cycle of call and channel

    async def refused(
        self,
        server: MCPServer,
        principal: Principal | None,
        runner: Runner,
        get_django_request: Callable[[], Any],
        message: Any,
        reason: str,
        crash: BaseException | None = None,
    ) -> None:
        """Log a request that was rejected before dispatch, in one row.

        Raises:
            NotRecordable: the row could not be written.
        """
        if not server.log_requests or (principal is None and not self._is_within_rate()):
            return
        row = entry.of_refusal(server, principal, get_django_request, timezone.now(), message, reason, crash)
        if rows.is_there():
            try:
                await writer.write(runner, row, is_task=False)
            except NotRecorded as error:
                raise NotRecordable(error.cause) from None  # nothing ran
        if request_logged.receivers:
            survive(partial(send_request_logged, runner, server, row), "the signal request_logged")

    def _is_within_rate(self) -> bool:
        minute = int(time.monotonic() // 60)
        if minute != self._minute:
            self._minute, self._refused = minute, 0
        # Without a lock: a row too many is harmless.
        self._refused += 1
        return self._refused <= REFUSALS_A_MINUTE


def _open_span(context: Context, stack: ExitStack) -> otel.Span:
    spanned = otel.spanned(context)
    span = spanned.__enter__()
    # What ends the call is recorded by ``Span.end``; it must neither reach the tracer here nor come from it.
    stack.callback(survive, partial(spanned.__exit__, None, None, None), "the span of a call")
    return span


class _RecordedCall:
    """A call that is recorded; if ``is_logged``, it gets a row in the request log."""

    def __init__(self, context: Context, *, is_logged: bool) -> None:
        self.context = context
        self.is_logged = is_logged
        self.queries = 0
        self.result: Result | None = None
        self.span: otel.Span | None = None
        self.row: int | None = None  # primary key of an entry that was written before the call ran
        self._called = timezone.now()
        self._began = time.perf_counter()
        self._saved_with_result: Facts | None = None

    async def end(self, error: BaseException | None = None) -> None:  # noqa: C901 - a helper would cost each call a frame
        """End the span and write the entry, unless it was saved with the task.

        The call has run, so whatever goes wrong here is logged and its answer goes out.

        Raises:
            NotRecorded: the entry could not be written.
        """
        try:
            context, seconds = self.context, time.perf_counter() - self._began
            if error is not None:
                ended = entry.of_error(context, error)
            else:
                assert self.result is not None  # noqa: S101
                ended, self.result = entry.of_result(context, self.result)
            if self.span is not None:
                code = error.code if isinstance(error, ProtocolError) else None
                survive(partial(self.span.end, context, ended, seconds, code), "the span of a call")
            if not self.is_logged:
                return
            row = self.build_facts(ended, seconds)
            is_left = isinstance(error, Cancelled | asyncio.CancelledError)
            if self._saved_with_result is not None and context.channel.is_recorded and not is_left:
                row = self._saved_with_result
            elif rows.is_there():
                if is_left and not context.runner.is_inline:
                    writer.post(self._entry(row))  # no caller waits for it
                else:
                    facts = row if self.row is None else self._entry(row)
                    await writer.write(context.runner, facts, is_task=context.channel.is_task)
            if request_logged.receivers:
                survive(partial(send_request_logged, context.runner, context.server, row), "the signal request_logged")
        except ProtocolError:
            raise
        except BaseException as fault:
            if must_propagate(fault):
                raise
            log_survived(fault, "the request log")

    def save_with_result(self, fields: dict[str, Any]) -> None:
        """Write the entry in the open transaction that also saves the task or its result."""
        if not self.is_logged:
            return
        ended, _ = entry.of_result(self.context, Result(fields))
        self._saved_with_result = self.build_facts(ended, time.perf_counter() - self._began)
        rows.save([self._entry(self._saved_with_result)])

    def _entry(self, facts: Facts) -> Facts:
        return facts if self.row is None else {**facts, "id": self.row}

    def build_facts(self, ended: Ended, seconds: float) -> Facts:
        milliseconds = round(seconds * 1000, 3)
        trace_id = "" if self.span is None else self.span.trace_id
        return entry.of_call(self.context, ended, self._called, milliseconds, self.queries, trace_id)


def install() -> None:
    dispatch.observer = Recorder()
    count_queries()

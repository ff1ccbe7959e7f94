"""Observe calls: count queries, measure, write the log entry, send ``call_logged``."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextvars import ContextVar, Token
from functools import partial
from typing import Any, Self

from django.db import connections
from django.db.backends.signals import connection_created
from django.utils import timezone

from django_mcp.audit import entry, otel
from django_mcp.audit import writer as rows
from django_mcp.audit.entry import Ended, Facts
from django_mcp.audit.writer import writer, written
from django_mcp.core.channel import Cancelled
from django_mcp.core.concurrency import Runner, shared_pool
from django_mcp.core.context import Context
from django_mcp.core.dispatch import watching
from django_mcp.core.principal import Principal
from django_mcp.core.server import MCPServer
from django_mcp.core.signals import call_logged
from django_mcp.models import ToolCall
from django_mcp.protocol.errors import ProtocolError
from django_mcp.protocol.jsonrpc import Result


class Count:
    """Of the queries made within, also by threads that work for it: they have its context variables.

    Attributes:
        value: queries so far.
    """

    __slots__ = ("_token", "value")
    _token: "Token[Count | None]"

    def __init__(self) -> None:
        self.value = 0

    def __enter__(self) -> Self:
        """Begin."""
        self._token = _current.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        """End."""
        _current.reset(self._token)


_current: ContextVar[Count | None] = ContextVar("django_mcp_queries", default=None)


def _counting(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
    """For ``execute_wrappers``."""
    count = _current.get()
    # SQLite's way to begin a transaction passes here; other drivers begin theirs by themselves, unseen.
    if count is not None and not (isinstance(sql, str) and sql.startswith("BEGIN")):
        count.value += 1
    return execute(sql, params, many, context)


def _begin(*, connection: Any, **_: Any) -> None:
    if watching.observer is not None and _counting not in connection.execute_wrappers:
        # Before those of the site, which may count or refuse.
        connection.execute_wrappers.insert(0, _counting)


def count_queries() -> None:
    """Count on every connection that is made from now on, as long as calls are watched, and on those of this thread."""
    connection_created.connect(_begin, dispatch_uid="django_mcp.audit.queries")
    for connection in connections.all(initialized_only=True):
        _begin(connection=connection)


def tell(runner: Runner, server: MCPServer, facts: Facts) -> None:
    """Send the signal, where somebody receives it. At the ASGI edge the caller does not wait for that."""
    if not call_logged.receivers:
        return
    send = partial(_send, server, facts)
    if runner.is_inline:
        send()
    else:
        shared_pool().begin(send)


def _send(server: MCPServer, facts: Facts) -> None:
    call_logged.send_robust(sender=server, call=ToolCall(**facts))


REFUSALS_A_MINUTE = 60
"""Refusals of unknown callers that are written in a minute: whoever has no credential must not fill a table."""


class Recorder:
    """See ``core.dispatch.Observer``."""

    def __init__(self) -> None:
        self._minute, self._refused = 0, 0

    def wants(self, context: Context) -> bool:
        """Lists, reads and calls. What is asked while somebody types, or waits for a task, is none of them."""
        method, wanted = context.method, otel.wanted.look()
        if not (context.server.log_calls or wanted.spans or wanted.metrics):
            return False
        return method != "completion/complete" and not method.startswith("tasks/")

    async def watch(self, context: Context, serve: Callable[[], Awaitable[Result]]) -> Result:
        """Serve a call, and write down what came of it."""
        call = _Call(context)
        if writer.is_failing and context.server.log_calls and not context.channel.is_task and rows.is_there():
            await writer.check(context.runner, call.known(Ended(entry.Outcome.OK), 0.0))
        if context.method == "tools/call":
            context.channel.record = call.save_with_result
        try:
            with call.queries, otel.spanned(context) as call.span:
                return await self._watched(call, serve)
        finally:
            context.channel.record = None  # the call has the channel: neither would be freed before the next collection

    async def _watched(self, call: "_Call", serve: Callable[[], Awaitable[Result]]) -> Result:
        try:
            result = await serve()
        except (Cancelled, asyncio.CancelledError) as error:
            call.end(entry.of_error(error))
            await call.leave_behind()
            raise
        except BaseException as error:
            call.end(entry.of_error(error), error)
            await call.save()
            raise
        call.end(entry.of_result(call.context, result))
        await call.save()
        return result

    async def refused(
        self,
        server: MCPServer,
        principal: Principal | None,
        runner: Runner,
        edge: Callable[[], Any],
        message: Any,
        reason: str,
    ) -> None:
        """Write down a request that was turned down."""
        if not server.log_calls or (principal is None and not self._is_within_rate()):
            return
        for each in message if isinstance(message, list) else [message]:
            row = entry.of_refusal(server, principal, edge, timezone.now(), each, reason)
            if rows.is_there():
                await written(runner, row, is_task=False)
            tell(runner, server, row)

    def _is_within_rate(self) -> bool:
        minute = int(time.monotonic() // 60)
        if minute != self._minute:
            self._minute, self._refused = minute, 0
        self._refused += 1
        return self._refused <= REFUSALS_A_MINUTE


class _Call:
    """One call that is watched."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.queries = Count()
        self.span = otel.Span()
        self._called = timezone.now()
        self._began = time.perf_counter()
        self._facts: Facts | None = None
        self._saved_with_result: Facts | None = None

    def end(self, ended: Ended, error: BaseException | None = None) -> None:
        """It is over."""
        seconds = time.perf_counter() - self._began
        code = error.code if isinstance(error, ProtocolError) else None
        self.span.end(self.context, ended, seconds, code)
        if self.context.server.log_calls:
            self._facts = self.known(ended, seconds)

    async def save(self) -> None:
        """Have it written down, unless it was together with what the tool wrote.

        Raises:
            NotRecorded: it could not be.
        """
        row = self._facts
        if row is None:
            return
        if self._saved_with_result is not None and self.context.channel.is_recorded:
            row = self._saved_with_result
        elif rows.is_there():
            await written(self.context.runner, row, is_task=self.context.channel.is_task)
        tell(self.context.runner, self.context.server, row)

    async def leave_behind(self) -> None:
        """Have it written down, though nobody waits for it."""
        row, runner = self._facts, self.context.runner
        if row is None:
            return
        if rows.is_there():
            if runner.is_inline:
                await written(runner, row, is_task=self.context.channel.is_task)
            else:
                writer.post(row)
        tell(runner, self.context.server, row)

    def save_with_result(self, fields: dict[str, Any]) -> None:
        """Write it down in the transaction that is open, in which its task or the task's result is saved too."""
        if not self.context.server.log_calls:
            return
        ended = entry.of_result(self.context, Result(fields))
        self._saved_with_result = self.known(ended, time.perf_counter() - self._began)
        rows.save([self._saved_with_result])

    def known(self, ended: Ended, seconds: float) -> Facts:
        milliseconds = round(seconds * 1000, 3)
        return entry.of_call(self.context, ended, self._called, milliseconds, self.queries.value, self.span.trace_id)


def install() -> None:
    """Watch calls from now on."""
    watching.observer = Recorder()
    count_queries()

"""Limits of a tool's run: concurrency, idempotency, time and size.

A client that lost its connection repeats the call under the same idempotency key: the tool runs once, and every repeat
gets its result. Most calls have no limits and skip this module (``dispatch.call_tool``).
"""

import asyncio
import hashlib
import json
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

from django_mcp.conf import settings
from django_mcp.core.after_fork import FreshLock, reset_after_fork
from django_mcp.core.channel import Cancelled, IdempotencyRecord
from django_mcp.core.concurrency import Runner, create_background_task
from django_mcp.core.deadline import (
    Deadline,
    DeadlineExceeded,
    answered_in_time,
    cancelled_in_time,
    is_out_of_time,
    limit_statements,
    stopped_at_queries,
)
from django_mcp.primitives.base import ToolError
from django_mcp.primitives.output import OutputTooLarge
from django_mcp.primitives.tool import Tool
from django_mcp.protocol.errors import InvalidParams
from django_mcp.protocol.meta import IDEMPOTENCY_KEY, meta_of

if TYPE_CHECKING:
    from django_mcp.core.request import RequestContext

T = TypeVar("T")

NARROWING = (
    *("limit", "page_size", "per_page", "max_results", "top", "first", "count", "size"),
    *("fields", "columns", "include", "page", "offset", "cursor"),
    *("query", "search", "words", "filter", "filters", "since", "until", "after", "before", "start", "end"),
)
"""Usual names of arguments that reduce a result, the most likely first."""
MAX_NAMED = 4


def ask_for_less(tool: Tool) -> str:
    properties = tool.definition["inputSchema"].get("properties", {})
    names = [f"`{name}`" for name in NARROWING if name in properties][:MAX_NAMED]
    if not names:
        return "Ask for less: narrow the request, or fetch one part at a time."
    listed = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
    return f"Ask for less, with {listed}."


def too_large(error: OutputTooLarge, tool: Tool) -> str:
    result = f"This result has {error.size:,} {error.unit}; the limit is {error.limit:,}, so it was not sent."
    return f"{result}{'' if tool.read_only else _effects_note(tool)} {ask_for_less(tool)}"


def took_too_long(seconds: float, tool: Tool) -> str:
    return f"The tool took longer than {seconds:g} s and was stopped.{_effects_note(tool)} {ask_for_less(tool)}"


def busy(tool: Tool) -> str:
    most = tool.concurrency_limit
    calls = "one call" if most == 1 else f"{most} calls"
    return f"The tool is busy: its limit is {calls} at a time. Retry in a few seconds."


def _effects_note(tool: Tool) -> str:
    if tool.read_only:
        return ""
    if tool.atomic and not tool.function.is_async:
        return " Its unfinished changes to the database were rolled back."
    return " Changes made before that may have taken effect; check before retrying."


MAX_KEY_LENGTH = 255


def idempotency_record(context: "RequestContext", tool: Tool, arguments: Mapping[str, Any]) -> IdempotencyRecord | None:
    """Return the idempotency record of a call, or None if it has no key or may safely run again.

    A key is scoped to caller, endpoint, tenant and tool. Anonymous callers share their keys: a repeated call does not
    run again, but does not get the first one's result.

    Raises:
        ToolError, InvalidParams: invalid key.
    """
    key = _argument_key(tool, arguments)
    if key is None and not tool.read_only:
        key = _client_key(context.params)
    if key is None:
        return None
    principal = context.principal
    call = _digest([context.server.name, *context.addressed_to, principal.kind, principal.id, tool.name, key])
    return context.channel.idempotency(call, _digest(arguments), is_shared=principal.is_anonymous)


def _argument_key(tool: Tool, arguments: Mapping[str, Any]) -> str | None:
    name = tool.idempotency_key
    if name is None or (value := arguments.get(name)) is None:
        return None
    if not _is_key(key := str(value)):
        raise ToolError(f"Argument {name!r} must have 1 to {MAX_KEY_LENGTH} characters.")
    return key


def _client_key(params: Mapping[str, Any]) -> str | None:
    key = meta_of(params).get(IDEMPOTENCY_KEY)
    if key is None:
        return None
    if not isinstance(key, str) or not _is_key(key):
        raise InvalidParams(
            f'"params._meta[{IDEMPOTENCY_KEY!r}]" must be a string of 1 to {MAX_KEY_LENGTH} characters.'
        )
    return key


def _is_key(key: str) -> bool:
    return 0 < len(key) <= MAX_KEY_LENGTH


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


WAIT_SECONDS = 5.0
"""Time that a call waits for a slot, if waiting does not block a thread."""


class Slots:
    """A semaphore of *most* slots with a first-in, first-out queue. A slot may be released in any thread."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.after_fork()
        reset_after_fork(self)

    def after_fork(self) -> None:
        self._taken = 0
        self._waiting: deque[Future[None]] = deque()
        # Held for a few statements, so that release() finds each call either holding a slot or in the queue.
        self._lock = threading.Lock()

    def acquire(self, turn: "Future[None] | None" = None) -> bool:
        """Take a slot and return True if one is free. Otherwise *turn* is completed when one is."""
        with self._lock:
            if self._taken < self._most:
                self._taken += 1
                return True
            # Under the same lock: a slot that was released in between would wake nobody.
            if turn is not None:
                self._waiting.append(turn)
            return False

    async def wait(self) -> bool:
        """Wait for a slot. Return False after ``WAIT_SECONDS``."""
        turn: Future[None] = Future()
        if self.acquire(turn):
            return True
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await asyncio.wrap_future(turn)
        except BaseException as error:
            if not turn.cancel():  # completed in the meantime
                self.release()
            if isinstance(error, TimeoutError):
                return False
            raise
        return True

    def release(self) -> None:
        with self._lock:
            while self._waiting:
                turn = self._waiting.popleft()
                # False if the caller gave up; the slot is then for the next one in the queue. From here on the caller
                # cannot cancel its turn any more, and releases the slot if it gives up.
                if turn.set_running_or_notify_cancel():
                    break
            else:
                self._taken -= 1
                return
        turn.set_result(None)  # outside of the lock: it calls back, and who is called may release the slot


Fields = dict[str, Any]


async def execute_tool(
    context: "RequestContext",
    tool: Tool,
    arguments: Mapping[str, Any],
    run: Callable[["ToolExecution"], Awaitable[Fields]],
) -> Fields:
    """Return the result of *run* within the limits of its tool. *run* must call the methods of its ``ToolExecution``.

    Raises:
        ToolError: a limit of time or concurrency was exceeded, or the same call is already running.
    """
    execution = ToolExecution(context, tool, arguments)
    try:
        return await execution.run(partial(run, execution))
    except DeadlineExceeded:
        raise ToolError(took_too_long(execution.seconds or 0, tool)) from None


class ToolExecution:
    """The limits of one call, or of one round of a call that asks.

    Attributes:
        seconds: time limit of the call or round, or None.
        deadline: end of that time.
    """

    def __init__(self, context: "RequestContext", tool: Tool, arguments: Mapping[str, Any]) -> None:
        self._context, self._tool = context, tool
        self._slots = None if context.channel.has_slot else slots_of(tool)
        self._end = threading.Lock()  # taken once and for all, by the call that leaves or by its job that starts
        self._idempotency = idempotency_record(context, tool, arguments)
        # The site's default is for clients that wait; tasks have the tool's limit only.
        usual = None if context.channel.is_task else settings.TOOL_TIMEOUT
        self.seconds = (usual if tool.timeout is None else tool.timeout) or None
        self.deadline: Deadline | None = None
        if self._idempotency is not None:
            context.channel.step_key = self._idempotency.step_key
            context.channel.shares_steps = self._idempotency.is_shared

    async def run(self, run: Callable[[], Awaitable[Fields]]) -> Fields:
        """Return the result of *run*. The slot is released when the tool itself ends, which may be later."""
        await self._take_slot()
        try:
            if self.seconds is not None:
                self.deadline = self._context.deadline = Deadline(self.seconds)
            if self._tool.function.is_async:
                return await self._run_once(run)
            in_thread = not self._context.runner.is_inline
            return await (answered_in_time(self.deadline, run) if self.deadline and in_thread else run())
        finally:
            # A job that has started keeps the slot until it ends, as its thread goes on without this call. One that has
            # not started will not run.
            if self._end.acquire(blocking=False) and self._slots is not None:
                self._slots.release()

    # Functions that may block, in their thread

    def run_in_thread(self, work: Callable[[], Fields]) -> Fields:
        """Return the result of *work*, a function's whole run with its transaction. Takes over the call's slot."""
        if not self._end.acquire(blocking=False):  # the call has left, and its slot is another's
            raise Cancelled
        try:
            self._context.check_cancelled()  # while it waited for a thread
            kept = self._claim_key()
            return kept or self._run_work(work)
        finally:
            if self._slots is not None:
                self._slots.release()

    def _claim_key(self) -> Fields | None:
        if self._idempotency is None:
            return None
        try:
            return self._idempotency.claim()
        except ToolError:  # the key is another attempt's
            raise
        except BaseException:  # it may have been committed nevertheless
            self._idempotency.release()
            raise

    def _run_work(self, work: Callable[[], Fields]) -> Fields:
        has_ended = False
        try:
            with stopped_at_queries(self.deadline):
                fields = work()
            has_ended = True
            if not self._tool.atomic:  # effects remain, so store the result for repeated calls even if late
                self._store(fields)
                self._finish_deadline()
        except BaseException as error:
            if self._idempotency is not None and self._may_run_again(error, has_ended=has_ended):
                self._idempotency.release()
            if is_out_of_time(error, self.deadline):
                raise DeadlineExceeded from error
            raise
        return fields

    def limit_statements(self) -> None:
        limit_statements(self.deadline)

    def store_result(self, fields: Fields) -> None:
        """Store the function's result in the tool's transaction, so that both are committed or neither.

        Raises:
            DeadlineExceeded: time has run out.
        """
        if self._tool.atomic:
            self._finish_deadline()
            self._store(fields)

    def _store(self, fields: Fields) -> None:
        if self._idempotency is not None:
            self._idempotency.store(fields)

    def _finish_deadline(self) -> None:
        if self.deadline is not None:
            self.deadline.finish()

    # Coroutine functions

    def in_time(self, call: Callable[..., Awaitable[T]]) -> Callable[..., Awaitable[T]]:
        return call if self.deadline is None else cancelled_in_time(self.deadline, call)

    async def _run_once(self, run: Callable[[], Awaitable[Fields]]) -> Fields:
        if self._idempotency is None:
            return await run()
        has_begun = has_ended = False
        try:
            kept = await self._run_to_completion(self._claim_key)
            if kept is not None:
                return kept
            # From here on the function may have effects, so _may_run_again() decides about the key.
            has_begun = True
            fields = await run()
            has_ended = True
            await self._run_to_completion(partial(self._store, fields))
        except BaseException as error:
            if not has_begun or self._may_run_again(error, has_ended=has_ended):
                await self._run_to_completion(self._idempotency.release)
            raise
        return fields

    async def _run_to_completion(self, function: Callable[[], T]) -> T:
        return await run_to_completion(self._context.runner.own, function)

    # Both

    def _may_run_again(self, error: BaseException, *, has_ended: bool) -> bool:
        if not has_ended and not isinstance(error, Cancelled | asyncio.CancelledError):
            return True
        # A call that was cancelled, or whose result could not be stored, may be repeated only if it left no effects.
        return (self._tool.atomic and not self._tool.function.is_async) or self._tool.is_repeatable

    async def _take_slot(self) -> None:
        if self._slots is None:
            return
        # Under WSGI a waiting call would block a worker.
        taken = self._slots.acquire() if self._context.runner.is_inline else await self._slots.wait()
        if not taken:
            raise ToolError(busy(self._tool))


async def run_to_completion(runner: Runner, function: Callable[[], T]) -> T:
    """Call *function* off the event loop, to completion even if the calling task is cancelled."""
    if runner.is_inline:
        return await runner.sync(function)
    calling = create_background_task(runner.sync(function))
    try:
        return await asyncio.shield(calling)
    except asyncio.CancelledError:
        # A thread cannot be cancelled. Cleanup, such as the release of a key, must not run before it ends.
        await asyncio.wait([calling])
        raise


# Weak: the slots of a tool that was unregistered go with its last call.
_slots: WeakKeyDictionary[Tool, Slots] = WeakKeyDictionary()
_lock = FreshLock()


def slots_of(tool: Tool) -> Slots | None:
    """Return the slots shared by all calls of a tool, at whichever endpoint, or None without a limit."""
    if tool.concurrency_limit is None:
        return None
    # Two concurrent first calls must get the same slots.
    with _lock:
        slots = _slots.get(tool.origin)
        if slots is None:
            slots = _slots[tool.origin] = Slots(tool.concurrency_limit)
        return slots

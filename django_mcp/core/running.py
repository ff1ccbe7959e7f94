"""What is seen to while a call of a tool runs: its time, its turn, and that a repeated call runs once.

Calls without any of this, most of all, know nothing of it (``methods.call_tool``).
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

from django_mcp.conf import settings
from django_mcp.core.channel import Cancelled
from django_mcp.core.concurrency import Runner, detached
from django_mcp.core.deadlines import Deadline, DeadlineExceeded, answered_in_time, cancelled_in_time
from django_mcp.core.limits import busy, took_too_long
from django_mcp.core.repeats import repeat_of
from django_mcp.core.slots import Slots
from django_mcp.core.statements import is_out_of_time, limit_statements, stopped_at_queries
from django_mcp.primitives.tool import Tool, ToolError

if TYPE_CHECKING:
    from django_mcp.core.request import RequestContext

T = TypeVar("T")
Fields = dict[str, Any]


async def conducted(
    context: "RequestContext", tool: Tool, arguments: Mapping[str, Any], run: Callable[["Conduct"], Awaitable[Fields]]
) -> Fields:
    """Return the result of *run*, within the limits of its tool.

    Args:
        context: of the call.
        tool: what is called.
        arguments: as the client sent them.
        run: takes the ``Conduct``, whose methods it calls on the way.

    Raises:
        ToolError: it took too long, too many run at once, or the same call is under way.
    """
    conduct = Conduct(context, tool, arguments)
    try:
        return await conduct.run(partial(run, conduct))
    except DeadlineExceeded:
        raise ToolError(took_too_long(conduct.seconds or 0, tool)) from None


class Conduct:
    """Of one call, or of one round of a call that asks. The time of each round counts from its own start.

    Attributes:
        seconds: how long the call may take; None for no limit.
        deadline: when that is over.
    """

    def __init__(self, context: "RequestContext", tool: Tool, arguments: Mapping[str, Any]) -> None:
        self._context, self._tool = context, tool
        self._slots = slots_of(tool)
        self._repeat = repeat_of(context, tool, arguments)
        # What the site says of calls is about clients that wait; a task has the time its tool gives it.
        usual = None if context.channel.is_task else settings.TOOL_TIMEOUT
        self.seconds = (usual if tool.timeout is None else tool.timeout) or None
        self.deadline: Deadline | None = None
        if self._repeat is not None:
            context.channel.acts = self._repeat.acts
            context.channel.shares_acts = self._repeat.is_shared

    async def run(self, run: Callable[[], Awaitable[Fields]]) -> Fields:
        """The result. What is taken on the way is given back where the tool itself ends, which may be later."""
        await self._take_slot()
        if self.seconds is not None:
            self.deadline = self._context.deadline = Deadline(self.seconds)
        if not self._tool.function.is_async:
            in_thread = not self._context.runner.is_inline
            return await (answered_in_time(self.deadline, run) if self.deadline and in_thread else run())
        try:
            return await self._once(run)
        finally:
            self._give_back_slot()

    # Functions that may block, in their thread

    def watch(self, work: Callable[[], Fields]) -> Fields:
        """The result of *work*: all of a function's run, its transaction included."""
        try:
            self._context.check_cancelled()  # while it waited for a thread
            kept = None if self._repeat is None else self._repeat.begin()
            return kept or self._watched(work)
        finally:
            self._give_back_slot()

    def _watched(self, work: Callable[[], Fields]) -> Fields:
        try:
            with stopped_at_queries(self.deadline):
                fields = work()
            if not self._tool.atomic:  # what was done stays done, so a repeated call has its result, however late
                self._keep(fields)
                self._finish()
        except BaseException as error:
            if self._repeat is not None and self._may_run_again(error):
                self._repeat.forget()
            if is_out_of_time(error, self.deadline):
                raise DeadlineExceeded from error
            raise
        return fields

    def begin(self) -> None:
        """In a transaction that has begun: let no statement take longer than there is time, where a database can."""
        limit_statements(self.deadline)

    def settle(self, fields: Fields) -> None:
        """The function is done. What its transaction wrote is committed with the note of its result, or not at all.

        Raises:
            DeadlineExceeded: too late.
        """
        if self._tool.atomic:
            self._finish()
            self._keep(fields)

    def _keep(self, fields: Fields) -> None:
        if self._repeat is not None:
            self._repeat.keep(fields)

    def _finish(self) -> None:
        if self.deadline is not None:
            self.deadline.finish()

    # Coroutine functions

    def in_time(self, call: Callable[..., Awaitable[T]]) -> Callable[..., Awaitable[T]]:
        """*call*, cancelled where it waits when the time is up."""
        return call if self.deadline is None else cancelled_in_time(self.deadline, call)

    async def _once(self, run: Callable[[], Awaitable[Fields]]) -> Fields:
        if self._repeat is None:
            return await run()
        began = False
        try:
            kept = await self._surely(self._repeat.begin)
            if kept is not None:
                return kept
            began = True
            fields = await run()
            await self._surely(partial(self._keep, fields))
        except BaseException as error:
            if not began or self._may_run_again(error):
                await self._surely(self._repeat.forget)
            raise
        return fields

    async def _surely(self, function: Callable[[], T]) -> T:
        """Call it off the event loop, to its end even if the call is cancelled meanwhile."""
        return await surely(self._context.runner, function)

    # Both

    def _may_run_again(self, error: BaseException) -> bool:
        """Whether a call that ended with *error* may be repeated: where it was cut off, only if it left nothing."""
        if not isinstance(error, Cancelled | asyncio.CancelledError):
            return True
        return (self._tool.atomic and not self._tool.function.is_async) or self._tool.is_repeatable

    async def _take_slot(self) -> None:
        if self._slots is None:
            return
        if self._context.channel.is_task:  # nobody holds a connection open for it
            self._slots.wait_here(self._context.check_cancelled)
            return
        # Under WSGI a call that waits would hold a worker.
        taken = self._slots.take() if self._context.runner.is_inline else await self._slots.wait()
        if not taken:
            raise ToolError(busy(self._tool))

    def _give_back_slot(self) -> None:
        if self._slots is not None:
            self._slots.give_back()


async def surely(runner: Runner, function: Callable[[], T]) -> T:
    """Call it off the event loop, to its end even if the calling task is cancelled meanwhile."""
    if runner.is_inline:
        return await runner.sync(function)
    calling = detached(runner.sync(function))
    try:
        return await asyncio.shield(calling)
    except asyncio.CancelledError:
        await asyncio.wait([calling])
        raise


_slots: WeakKeyDictionary[Tool, Slots] = WeakKeyDictionary()
_lock = threading.Lock()


def slots_of(tool: Tool) -> Slots | None:
    """Those of a tool, the same for all its calls; None where it has no limit."""
    if tool.concurrency_limit is None:
        return None
    with _lock:
        return _slots.setdefault(tool, Slots(tool.concurrency_limit))

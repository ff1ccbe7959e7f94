"""Makes the n-th use of something fail, once: of a statement, a thread, a task, a send, or an await.

Places are not picked by hand: whatever a call passes while a ``Fault`` is armed is counted, and a sweep tries all.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from types import TracebackType
from typing import Any, Self
from unittest.mock import patch

from django.core.cache.backends.locmem import LocMemCache
from django.db import InterfaceError, OperationalError
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.utils import CursorWrapper

from django_mcp.core.concurrency import NoThread, Pool
from django_mcp.core.execution import Slots
from django_mcp.pubsub import notify
from django_mcp.pubsub.follower import Follower
from django_mcp.pubsub.once import StepRecord
from django_mcp.pubsub.stream_slots import StreamSlot
from django_mcp.revisions.legacy import sessions
from django_mcp.revisions.legacy.channel import _Leases
from django_mcp.tasks.worker import LeaseHeartbeat
from django_mcp.transports.authentication import Lookups
from tests.exchange import SERVING, Exchange


class Fault:
    """Fails at its *number*-th place, in any thread but the client's.

    Args:
        number: from 1.
        point: a name in ``POINTS``.
    """

    def __init__(self, number: int, point: str) -> None:
        self.number = number
        self._error, self._install = POINTS[point]
        self._count = 0
        self._lock = threading.Lock()
        self._client = threading.get_ident()
        self.where = ""

    @property
    def happened(self) -> bool:
        return self._count >= self.number

    def is_due(self, where: object) -> bool:
        """Count a place, and say whether it is the one."""
        if threading.get_ident() == self._client:
            return False
        with self._lock:
            self._count += 1
            if self._count == self.number:
                self.where = str(where)
                return True
            return False

    def pass_by(self, where: object) -> None:
        """Count a place, and fail at the one."""
        if self.is_due(where):
            assert self._error is not None
            raise self._error

    def __enter__(self) -> Self:
        self._installed = self._install(self)
        self._installed.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._installed.__exit__(kind, error, at)


Install = Callable[[Fault], AbstractContextManager[Any]]


def before(owner: Any, *names: str) -> Install:
    """Fail in place of a method's work."""

    @contextmanager
    def install(fault: Fault) -> Iterator[None]:
        with ExitStack() as stack:
            for name in names:
                stack.enter_context(patch.object(owner, name, _failing(getattr(owner, name), fault)))
            yield

    return install


def before_all(**names: Any) -> Install:
    """Fail in place of the work of methods of several owners: *names* are methods with their owners."""

    @contextmanager
    def install(fault: Fault) -> Iterator[None]:
        with ExitStack() as stack:
            for name, owners in names.items():
                for owner in owners:
                    stack.enter_context(before(owner, name)(fault))
            yield

    return install


def _failing(method: Callable[..., Any], fault: Fault) -> Callable[..., Any]:
    def instead(*arguments: Any, **keywords: Any) -> Any:
        coroutines = [each for each in arguments if asyncio.iscoroutine(each)]
        if not any(each.__qualname__.startswith("Room.") for each in coroutines) and keywords.get("name") != SERVING:
            try:
                fault.pass_by((method.__name__, *map(_short, arguments[1:2])))
            except BaseException:
                for coroutine in coroutines:
                    coroutine.close()  # it is never awaited
                raise
        return method(*arguments, **keywords)

    return instead


def _short(value: object) -> str:
    """Name a place. Not by the arguments of a function, whose text could be a query."""
    return (value if isinstance(value, str) else str(getattr(value, "func", type(value))))[:120]


@contextmanager
def layer(fault: Fault) -> Iterator[None]:
    """A channel layer, of which one use fails."""

    class Layer:
        async def new_channel(self) -> str:
            fault.pass_by("new_channel")
            return "ours"

        async def group_add(self, group: str, channel: str) -> None:
            fault.pass_by("group_add")

        async def group_send(self, group: str, message: object) -> None:
            fault.pass_by("group_send")

        async def receive(self, channel: str) -> object:
            fault.pass_by("receive")
            return await asyncio.get_running_loop().create_future()

    shared = Layer()
    with patch.object(notify, "shared_layer", lambda: shared):
        yield


def at_awaits(do: Callable[[], object]) -> Install:
    """At the n-th time that any task of the server waits for something."""

    @contextmanager
    def install(fault: Fault) -> Iterator[None]:
        create_task = asyncio.BaseEventLoop.create_task

        def counted(loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Any], **keywords: Any) -> Any:
            task = create_task(loop, _counting(coroutine, fault, do), **keywords)
            task.add_done_callback(lambda _: coroutine.close())  # of a task that was cancelled before it began
            return task

        with patch.object(asyncio.BaseEventLoop, "create_task", counted):
            yield

    return install


async def _counting(coroutine: Coroutine[Any, Any, Any], fault: Fault, do: Callable[[], object]) -> Any:
    return await _Counting(coroutine, fault, do)


class _Counting:
    def __init__(self, coroutine: Coroutine[Any, Any, Any], fault: Fault, do: Callable[[], object]) -> None:
        self._coroutine, self._fault, self._do = coroutine, fault, do

    def __await__(self) -> Iterator[Any]:
        send, value, name = self._coroutine.send, None, self._coroutine.__qualname__
        while True:
            try:
                waited_for = send(value)
            except StopIteration as stop:
                return stop.value
            if self._fault.is_due(name):
                self._do()
            try:
                value = yield waited_for
            except GeneratorExit:
                self._coroutine.close()
                raise
            except BaseException as error:  # noqa: BLE001 - passed on
                value, send = error, self._coroutine.throw
            else:
                send = self._coroutine.send


def cancel_connection() -> None:
    """Cancel the task that serves a connection, as daphne does when its client is gone."""
    for task in asyncio.all_tasks():
        if task.get_name() == SERVING:
            task.cancel()


def leave() -> None:
    """Close all connections."""
    for exchange in Exchange.open:
        exchange.leave()


def withdraw() -> None:
    """Cancel the calls of all sessions."""
    for channel in list(sessions._running.values()):
        channel.cancel()


AWAY = "server closed the connection unexpectedly"
NO_THREAD = "can't start new thread"

POINTS: dict[str, tuple[BaseException | None, Install]] = {
    "statement": (OperationalError(AWAY), before(CursorWrapper, "_execute_with_wrappers")),
    "statement, out of memory": (MemoryError(), before(CursorWrapper, "_execute_with_wrappers")),
    "commit": (OperationalError(AWAY), before(BaseDatabaseWrapper, "_commit")),
    "connect": (InterfaceError(AWAY), before(BaseDatabaseWrapper, "connect")),
    "acquire": (
        MemoryError(),
        before_all(
            acquire=[Slots],
            __init__=[StreamSlot],
            join=[Follower],
            add=[_Leases],
            add_queued=[LeaseHeartbeat],
            add_running=[LeaseHeartbeat],
            register_call=[sessions],
            find=[Lookups],
            claim=[StepRecord],
        ),
    ),
    "start": (RuntimeError(NO_THREAD), before(threading.Thread, "start")),
    "submit": (NoThread(), before(Pool, "submit", "post")),
    "create_task": (MemoryError(), before(asyncio.BaseEventLoop, "create_task")),
    "send": (OSError("broken pipe"), before(Exchange, "put")),
    "send, unknown error": (RuntimeError("the server broke"), before(Exchange, "put")),
    "cache": (ConnectionError("the cache is away"), before(LocMemCache, "add", "incr", "get", "set")),
    "channel layer": (ConnectionError("the layer is away"), layer),
    "cancelled": (None, at_awaits(cancel_connection)),
    "left": (None, at_awaits(leave)),
    "withdrawn": (None, at_awaits(withdraw)),
}
"""What fails how."""
COLD = {"connect", "start"}
"""Those that only happen where no thread has been started yet."""

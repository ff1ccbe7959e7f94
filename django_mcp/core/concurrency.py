"""Runners of sync and async code, worker threads, the site's context managers, and database retries.

All code between the transports and a tool is written once, as coroutines that wait only through a ``Runner``. The ASGI
application uses a ``Pool`` of threads. The Django view uses ``INLINE``, where nothing waits, so that a coroutine
completes in one ``send`` (``run_inline``).
"""

import asyncio
import contextvars
import itertools
import logging
import threading
import time
import weakref
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cache, partial
from operator import attrgetter
from queue import SimpleQueue
from typing import Any, Protocol, TypeVar
from weakref import WeakKeyDictionary

from asgiref.sync import SyncToAsync, ThreadSensitiveContext, async_to_sync, sync_to_async
from django.db import InterfaceError, OperationalError, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils.module_loading import import_string

from django_mcp.conf import settings
from django_mcp.core.database import give_back, is_temporary, pooled_aliases, refresh_connections

T = TypeVar("T")

logger = logging.getLogger("django_mcp")

AROUND_JOBS: contextvars.ContextVar[Callable[[Callable[[], Any]], Any]] = contextvars.ContextVar(
    "django_mcp.around_jobs"
)
"""A wrapper for the jobs of a context in worker threads, which sets up thread-local state."""

ESCAPING = (SystemExit, KeyboardInterrupt, GeneratorExit, StopIteration, asyncio.CancelledError)
"""Exceptions that would end a thread, loop, generator or task instead of the call."""
CALL_SECONDS = 0.05
"""Interval at which stopping threads are woken."""
LOOK_SECONDS = 1.0
"""Interval at which a busy thread checks its connections. It also checks them after an error."""
PATIENCE_SECONDS = 60.0
"""Time for which a statement is retried while the database is unavailable."""


class Runner(Protocol):
    """A transport's executor of the site's code.

    If ``is_inline``, everything runs in the calling thread, and nothing may wait.
    """

    is_inline: bool

    @property
    def is_overloaded(self) -> bool:
        """Return True if so many jobs are queued that requests are rejected."""

    async def sync(self, function: Callable[[], T]) -> T:
        """Return the result of a function that may block."""

    def coroutine(self, function: Callable[..., Awaitable[T]], /, **keywords: Any) -> Awaitable[T]:
        """Return the result of a coroutine function."""

    async def later(self, function: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a coroutine function after the response, if the transport can, else now."""


def contained(error: BaseException) -> BaseException:
    """Return the error for the caller instead of one of ``ESCAPING``: a tool may call ``sys.exit()``."""
    if not isinstance(error, ESCAPING):
        return error
    made = RuntimeError(f"The site's code raised {error!r}.")
    made.__cause__ = error
    return made


class Inline:
    """The runner of the calling thread."""

    is_inline = True
    is_overloaded = False

    async def sync(self, function: Callable[[], T]) -> T:
        """Call the function."""
        try:
            return function()
        except (SystemExit, GeneratorExit, asyncio.CancelledError) as error:
            raise contained(error) from error

    async def coroutine(self, function: Callable[..., Awaitable[T]], /, **keywords: Any) -> T:
        """Run to completion, on the server's event loop if there is one, else on a new one."""

        async def run() -> T:  # asgiref warns about other kinds of awaitables
            return await function(**keywords)

        try:
            return async_to_sync(run)()
        except SystemExit as error:
            raise contained(error) from error

    async def later(self, function: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run it now."""
        await function()


INLINE = Inline()


async def aside(runner: Runner, function: Callable[[], T]) -> T:
    """Call *function* off the event loop, which an async function has even if the transport has none."""
    return await (sync_to_async(function)() if runner.is_inline else runner.sync(function))


def run_inline(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that waits only through ``INLINE``. Raise ``RuntimeError`` if it waits for anything else."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]
    coroutine.close()
    msg = "code between the view and the tool awaited something other than its Runner"
    raise RuntimeError(msg)


class _Mailbox:
    """Finished jobs of one event loop. One wake-up delivers all that are ready.

    Holds no reference to the loop: the mailbox is found by it and would keep it alive.
    """

    __slots__ = ("done", "woken")

    def __init__(self) -> None:
        self.done: deque[tuple[asyncio.Future[Any], Any, BaseException | None]] = deque()
        self.woken = False

    def put(self, future: "asyncio.Future[Any]", value: Any, error: BaseException | None) -> None:
        self.done.append((future, value, error))
        if not self.woken:
            self.woken = True
            try:
                future.get_loop().call_soon_threadsafe(self.empty)
            except RuntimeError:  # the loop is closed
                self.done.clear()

    def empty(self) -> None:
        # Cleared first: a later job is either taken below or wakes the loop again.
        self.woken = False
        while self.done:
            future, value, error = self.done.popleft()
            if future.done():  # cancelled
                continue
            if error is None:
                future.set_result(value)
            else:
                future.set_exception(contained(error))


class _Nobody:
    """A mailbox for jobs without a caller."""

    def put(self, future: None, value: Any, error: BaseException | None) -> None:  # noqa: ARG002 - see _Mailbox
        if error is not None:
            logger.error("a background job failed", exc_info=error)


_NOBODY = _Nobody()
_Job = tuple[Callable[[], Any], contextvars.Context, Any, Any]


class Pool:
    """A bounded set of threads, started on demand, with persistent database connections.

    asgiref would use a thread, and so a connection, per request.
    """

    is_inline = False

    def __init__(self, size: int) -> None:
        self.size = size
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        # Two counters instead of one number: several threads move them, and only next() is atomic.
        self._submit = itertools.count(1).__next__
        self._finish = itertools.count(1).__next__
        self._finished = 0
        self._lock = threading.Lock()
        self._mailboxes: WeakKeyDictionary[asyncio.AbstractEventLoop, _Mailbox] = WeakKeyDictionary()
        self._last: tuple[Callable[[], object], _Mailbox] = (lambda: None, _Mailbox())

    @property
    def is_overloaded(self) -> bool:
        """Return True if more than ``DJANGO_MCP["MAX_QUEUED_CALLS"]`` jobs are queued."""
        most = settings.MAX_QUEUED_CALLS
        return most is not None and self._jobs.qsize() > most

    async def sync(self, function: Callable[[], T]) -> T:
        """Call *function* in a worker thread, with the caller's context variables."""
        return await self.submit(function)

    def submit(self, function: Callable[[], T]) -> "asyncio.Future[T]":
        """Start ``sync`` without waiting. Needs a running event loop."""
        loop = asyncio.get_running_loop()
        last, mailbox = self._last
        if last() is not loop:
            mailbox = self._mailbox_of(loop)
        future: asyncio.Future[T] = loop.create_future()
        if self._submit() - self._finished > len(self._threads) < self.size:
            self._start()
        self._jobs.put((function, contextvars.copy_context(), future, mailbox))
        return future

    def _mailbox_of(self, loop: asyncio.AbstractEventLoop) -> _Mailbox:
        mailbox = self._mailboxes.get(loop)
        if mailbox is None:
            mailbox = self._mailboxes[loop] = _Mailbox()
        self._last = weakref.ref(loop), mailbox  # most processes have one loop
        return mailbox

    def begin(self, function: Callable[[], object]) -> None:
        """Call *function* in a worker thread without a result. Thread-safe."""
        if self._submit() - self._finished > len(self._threads) < self.size:
            self._start()
        self._jobs.put((function, contextvars.Context(), None, _NOBODY))

    async def coroutine(self, function: Callable[..., Awaitable[T]], /, **keywords: Any) -> T:
        """Await on the loop, with a dedicated thread for ``sync_to_async`` and the async ORM.

        asgiref would use one thread for all calls; Django's ASGI handler also has one per request. The thread closes
        its connections and ends after the coroutine, which does not wait for it.
        """
        own = ThreadSensitiveContext()
        token = SyncToAsync.thread_sensitive_context.set(own)
        try:
            return await function(**keywords)
        except SystemExit as error:
            raise contained(error) from error
        finally:
            SyncToAsync.thread_sensitive_context.reset(token)
            executor = SyncToAsync.context_to_thread_executor.pop(own, None)
            if executor is not None:
                executor.submit(connections.close_all)
                executor.shutdown(wait=False)

    async def later(self, function: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Start a task that outlives the connection."""
        detached(function())

    def close(self) -> None:
        """End the threads after the queued jobs, and close their database connections."""
        with self._lock:
            threads, self._threads = self._threads, []
        for thread in threads:
            while thread.is_alive():
                self._jobs.put(None)
                thread.join(CALL_SECONDS)  # a thread started meanwhile may have taken the None

    def _start(self) -> None:
        with self._lock:
            if len(self._threads) < self.size:
                name = f"django-mcp-{len(self._threads) + 1}"
                thread = threading.Thread(target=self._work, name=name, daemon=True)
                self._threads.append(thread)
                thread.start()

    def _work(self) -> None:
        idle_since, looked_at, had_error = time.monotonic(), 0.0, attrgetter("errors_occurred")
        known: Sequence[BaseDatabaseWrapper] = ()
        pooled = pooled_aliases()
        while (job := self._jobs.get()) is not None or threading.current_thread() in self._threads:
            if job is None:  # meant for a stopping thread
                continue
            function, context, future, mailbox = job
            started = time.monotonic()
            try:
                if not known or started - looked_at > LOOK_SECONDS or any(map(had_error, known)):
                    known = refresh_connections(started - idle_since)
                    looked_at = started
                around = context.get(AROUND_JOBS)
                value = context.run(function) if around is None else context.run(around, function)
            except BaseException as error:  # noqa: BLE001 - raised in the caller
                mailbox.put(future, None, error)
            else:
                mailbox.put(future, value, None)
            self._finished = self._finish()
            if pooled:
                give_back(pooled)
            idle_since = time.monotonic()
            # Keep nothing of this job alive until the next one.
            del job, function, context, future, mailbox
            value = None
        connections.close_all()


_detached: set[asyncio.Task[Any]] = set()


def detached(coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Start a task and keep it alive until it is done."""
    task = asyncio.get_running_loop().create_task(coroutine)
    _detached.add(task)
    task.add_done_callback(_detached.discard)
    return task


@cache
def shared_pool() -> Pool:
    """Return the pool of this process, with ``DJANGO_MCP["WORKER_THREADS"]`` threads."""
    return Pool(settings.WORKER_THREADS)


@cache
def free_pool() -> Pool:
    """Return a thread for work that every call may wait for. It never runs the site's code."""
    return Pool(1)


def on_event_loop() -> bool:
    """Return True if the calling thread runs an event loop, so that nothing may block."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


async def patiently(runner: Runner, function: Callable[[], T]) -> T:
    """Return the result of *function*, retried while the database is unavailable. An inline runner tries once.

    Raises:
        OperationalError, InterfaceError: the database did not recover in time, or retrying does not help.
    """
    if runner.is_inline:
        return await runner.sync(function)
    return await again_and_again(partial(runner.sync, function))


async def again_and_again(attempt: Callable[[], Awaitable[T]]) -> T:
    """Return the result of *attempt*, retried as by ``patiently``."""
    until = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return await attempt()
        except (OperationalError, InterfaceError) as error:
            if time.monotonic() > until or not is_temporary(error):
                raise
        await asyncio.sleep(settings.POLL_INTERVAL)


Manager = Callable[[Any], AbstractContextManager[object]]


def context_managers() -> Sequence[Manager]:
    """Return the ``CALL_CONTEXT_MANAGERS``, the outermost first."""
    return [import_string(each) if isinstance(each, str) else each for each in settings.CALL_CONTEXT_MANAGERS]


class SiteRunner:
    """A runner whose jobs run inside the site's context managers.

    Packages keep the acting user in thread-locals or context variables, so the managers are entered around each
    function, in its own thread. Nested functions do not enter them again.

    Args:
        runner: runs the jobs.
        request: returns the Django request of the call, whose ``user`` is the caller.
    """

    def __init__(self, runner: Runner, request: Callable[[], Any]) -> None:
        self._runner, self._request = runner, request
        self.is_inline = runner.is_inline

    @property
    def is_overloaded(self) -> bool:
        """See ``Runner``."""
        return self._runner.is_overloaded

    async def sync(self, function: Callable[[], T]) -> T:
        """Call *function* inside the managers."""
        return await self._runner.sync(partial(self._within, function))

    async def coroutine(self, function: Callable[..., Awaitable[T]], /, **keywords: Any) -> T:
        """Await inside the managers, which are entered in the thread of ``sync_to_async``.

        Django does the same with synchronous middleware around async views.
        """

        async def run() -> T:
            return await function(**keywords)

        if self.is_inline:
            with _entered(self._request):
                return await self._runner.coroutine(run)
            raise _suppressed()
        return await self._runner.coroutine(sync_to_async(partial(self._within, async_to_sync(run))))

    async def later(self, function: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """See ``Runner``."""
        await self._runner.later(function)

    def _within(self, function: Callable[[], T]) -> T:
        with _entered(self._request):
            return function()
        raise _suppressed()


_of_thread = threading.local()


@contextmanager
def _entered(request: Callable[[], Any]) -> Iterator[None]:
    if getattr(_of_thread, "is_entered", False):
        yield
        return
    with ExitStack() as stack:
        for manager in context_managers():
            stack.enter_context(manager(request()))
        _of_thread.is_entered = True
        stack.callback(setattr, _of_thread, "is_entered", False)
        yield


def _suppressed() -> RuntimeError:
    return RuntimeError("A context manager of CALL_CONTEXT_MANAGERS suppressed an exception; it must re-raise it.")

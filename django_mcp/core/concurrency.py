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
from concurrent.futures import Executor, Future
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import cache, partial
from math import ceil
from operator import attrgetter
from queue import SimpleQueue
from typing import Any, NamedTuple, Protocol, TypeVar
from weakref import WeakKeyDictionary

from asgiref.sync import SyncToAsync, ThreadSensitiveContext, async_to_sync, sync_to_async
from django.db import InterfaceError, OperationalError, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils.module_loading import import_string

from django_mcp.conf import settings
from django_mcp.core.after_fork import clear_after_fork, reset_after_fork
from django_mcp.core.database import (
    IDLE_SECONDS,
    end_open_transactions,
    give_back,
    is_temporary,
    pooled_aliases,
    refresh_connections,
)
from django_mcp.core.failures import as_call_error, keep_language, raise_as_call_error

T = TypeVar("T")

logger = logging.getLogger("django_mcp")

AROUND_JOBS: contextvars.ContextVar[Callable[[Callable[[], Any]], Any]] = contextvars.ContextVar(
    "django_mcp.around_jobs"
)
"""A wrapper for the jobs of a context in worker threads, which sets up thread-local state."""

JOIN_SECONDS = 0.05
"""Interval at which stopping threads are woken."""
CONNECTION_CHECK_SECONDS = 1.0
"""Interval at which a busy thread checks its connections. It also checks them after an error."""
RETRY_TIMEOUT = 60.0
"""Time for which a statement is retried while the database is unavailable."""


class NoThread(RuntimeError):
    """No thread could be started for a job, and there is none that could run it. The job will not run."""

    def __init__(self) -> None:
        super().__init__(
            "No thread could be started. The process has reached its limit of threads or memory; see `ulimit -u` and "
            "the container's limit of processes."
        )


class Runner(Protocol):
    """A transport's executor of the site's code.

    If ``is_inline``, everything runs in the calling thread, and nothing may wait.
    """

    is_inline: bool

    @property
    def is_overloaded(self) -> bool:
        """Return True if so many jobs are queued that requests are rejected."""

    @property
    def own(self) -> "Runner":
        """The runner of the package's own reads and writes, which no code of the site delays."""

    @property
    def checks(self) -> "Runner":
        """The runner of what the site decides before or beside a tool, and of async functions; no tool delays it."""

    async def sync(self, function: Callable[[], T]) -> T:
        """Return the result of a function that may block. Raises what ``as_call_error`` makes of exceptions."""

    def coroutine(self, function: Callable[..., Awaitable[T]], /, **keywords: Any) -> Awaitable[T]:
        """Return the result of a coroutine function. Raises what ``as_call_error`` makes of exceptions."""

    async def later(self, function: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a coroutine function after the response, if the transport can, else now."""


class Inline:
    """The runner of the calling thread."""

    is_inline = True
    is_overloaded = False

    @property
    def own(self) -> "Inline":
        return self

    @property
    def checks(self) -> "Inline":
        return self

    async def sync(self, function: Callable[[], T]) -> T:
        try:
            return function()
        except BaseException as error:  # noqa: BLE001
            raise_as_call_error(error)

    async def coroutine(self, function: Callable[..., Awaitable[T]], /, **keywords: Any) -> T:
        async def run() -> T:  # asgiref warns about other kinds of awaitables
            try:
                return await function(**keywords)
            except BaseException as error:  # noqa: BLE001 - here, in the task that a server may cancel
                raise_as_call_error(error)

        # This uses the server's event loop if there is one, else a new one.
        return async_to_sync(run)()

    async def later(self, function: Callable[[], Coroutine[Any, Any, None]]) -> None:
        await function()


INLINE = Inline()


async def run_off_loop(runner: Runner, function: Callable[[], T]) -> T:
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
        # The result is there before the flag is read: either deliver() still takes it, or this wakes the loop again.
        if not self.woken:
            self.woken = True
            try:
                future.get_loop().call_soon_threadsafe(self.deliver)
            except RuntimeError:  # the loop is closed
                self.done.clear()

    def deliver(self) -> None:
        # Cleared first: a later job is either taken below or wakes the loop again.
        self.woken = False
        while self.done:
            future, value, error = self.done.popleft()
            if future.done():  # cancelled
                continue
            if error is None:
                future.set_result(value)
            else:
                future.set_exception(as_call_error(error))


class _Job(NamedTuple):
    """A function to call in a context, and the mailbox and future for its result; None without a caller."""

    function: Callable[[], Any]
    context: contextvars.Context
    future: Any
    mailbox: _Mailbox | None


class Pool:
    """A bounded set of threads, started on demand, with persistent database connections.

    asgiref would use a thread, and so a connection, per request.

    Args:
        size: maximum number of threads.
        name: of the threads, after ``django-mcp-``.
        keeps_transactions: True if a job may leave a transaction open for a later one.
    """

    is_inline = False

    def __init__(self, size: int, name: str = "worker", *, keeps_transactions: bool = False) -> None:
        self.size, self.name, self._keeps_transactions = size, name, keeps_transactions
        self.after_fork()
        reset_after_fork(self)

    def after_fork(self) -> None:
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        # Two counters instead of one number: several threads move them, and only next() is atomic.
        self._submit = itertools.count(1).__next__
        self._finish = itertools.count(1).__next__
        self._finished = 0
        self._is_refused = False
        # Guards the list of threads. It is held while one starts, never while a job runs.
        self._lock = threading.Lock()
        # Weak, because async_to_sync makes a loop for each of its calls.
        self._mailboxes: WeakKeyDictionary[asyncio.AbstractEventLoop, _Mailbox] = WeakKeyDictionary()
        self._last: tuple[Callable[[], object], _Mailbox] = (lambda: None, _Mailbox())

    @property
    def is_overloaded(self) -> bool:
        most = settings.MAX_QUEUED_CALLS
        if most is None:
            return False
        own, checks = free_pool()._jobs, checks_pool()._jobs  # noqa: SLF001 - of this class
        return max(self._jobs.qsize(), own.qsize(), checks.qsize(), len(async_threads().waiting)) > most

    @property
    def own(self) -> "Pool":
        return free_pool()

    @property
    def checks(self) -> "Pool":
        return checks_pool()

    async def sync(self, function: Callable[[], T]) -> T:
        """Call *function* in a worker thread, with the caller's context variables.

        Raises:
            NoThread: no thread could be started, and there is none.
        """
        return await self.submit(function)

    def submit(self, function: Callable[[], T], future: "asyncio.Future[T] | None" = None) -> "asyncio.Future[T]":
        """Start ``sync`` without waiting. Needs a running event loop.

        Args:
            function: the job.
            future: of this loop, for the result; by default a new one.

        Raises:
            NoThread: see ``sync``.
        """
        loop = asyncio.get_running_loop()
        # Loop and mailbox are one tuple, so that another thread's loop cannot come between them.
        last, mailbox = self._last
        if last() is not loop:
            mailbox = self._mailbox_of(loop)
        if future is None:
            future = loop.create_future()
        # Threads that finish together may store their numbers out of order. That starts a thread early, never one too
        # few.
        if self._submit() - self._finished > len(self._threads) < self.size:
            self._start()
        # Put after the thread was started: if none can be, no job is left that nothing runs. The context is copied
        # now, as the caller may change its variables before the job begins.
        self._jobs.put(_Job(function, contextvars.copy_context(), future, mailbox))
        return future

    def _mailbox_of(self, loop: asyncio.AbstractEventLoop) -> _Mailbox:
        mailbox = self._mailboxes.get(loop)
        if mailbox is None:
            mailbox = self._mailboxes[loop] = _Mailbox()
        self._last = weakref.ref(loop), mailbox  # most processes have one loop
        return mailbox

    def post(self, function: Callable[[], object]) -> None:
        """Call *function* in a worker thread without a result. Thread-safe.

        Raises:
            NoThread: see ``sync``.
        """
        if self._submit() - self._finished > len(self._threads) < self.size:
            self._start()
        # An empty context: the job has no caller, and must not keep a request in memory that has ended by then.
        self._jobs.put(_Job(function, contextvars.Context(), None, None))

    async def coroutine(self, function: Callable[..., Awaitable[T]], /, **keywords: Any) -> T:
        # asgiref would start a thread, with connections of its own, for each call, as Django's ASGI handler does.
        executor, call = CallExecutor(), ThreadSensitiveContext()
        SyncToAsync.context_to_thread_executor[call] = executor
        token = SyncToAsync.thread_sensitive_context.set(call)
        try:
            return await function(**keywords)
        except BaseException as error:  # noqa: BLE001
            raise_as_call_error(error)
        finally:
            SyncToAsync.thread_sensitive_context.reset(token)
            # Most calls never left the event loop, and have no thread to give back.
            if executor.thread is not None or executor.waiting:
                async_threads().end(executor)

    async def later(self, function: Callable[[], Coroutine[Any, Any, None]]) -> None:
        create_background_task(function())

    def close(self) -> None:
        """End the threads after the queued jobs, and close their database connections."""
        # From here on _is_open() is False in these threads, and new jobs start other threads.
        with self._lock:
            threads, self._threads = self._threads, []
        for thread in threads:
            while thread.is_alive():
                self._jobs.put(None)
                thread.join(JOIN_SECONDS)  # a thread started meanwhile may have taken the None

    def _start(self) -> None:
        with self._lock:
            if len(self._threads) >= self.size:
                return
            thread = threading.Thread(
                target=self._work, name=f"django-mcp-{self.name}-{len(self._threads) + 1}", daemon=True
            )
            try:
                thread.start()
            except Exception as error:
                if not self._threads:
                    self._finished = self._finish()  # the job is not queued
                    raise NoThread from error
                if not self._is_refused:  # the jobs wait for the threads that there are; the next one tries again
                    logger.warning("%s cannot be started: %s", thread.name, error)
                self._is_refused = True
            else:
                # Counted once it has started: the pool would be smaller for ever if it had not.
                self._threads.append(thread)
                self._is_refused = False

    def _is_open(self) -> bool:
        # The lock waits for _start(): a thread that has just started may not be in the list yet, and would end.
        with self._lock:
            return threading.current_thread() in self._threads

    def _work(self) -> None:
        asked_at, looked_at, had_error = time.monotonic(), 0.0, attrgetter("errors_occurred")
        known: Sequence[BaseDatabaseWrapper] = ()
        pooled = pooled_aliases()
        while (job := self._jobs.get()) is not None or self._is_open():
            if job is None:  # meant for a stopping thread
                continue
            function, context, future, mailbox = job
            started, value, error = time.monotonic(), None, None
            try:
                try:
                    if not known or started - looked_at > CONNECTION_CHECK_SECONDS or any(map(had_error, known)):
                        # Not the time without a job: jobs that ask nothing would keep a dead connection.
                        known = refresh_connections(started - asked_at)
                        looked_at = started
                        asked_at = started if started - asked_at > IDLE_SECONDS else asked_at
                    around = context.get(AROUND_JOBS)
                    value = context.run(function) if around is None else context.run(around, function)
                except BaseException as failure:  # noqa: BLE001 - raised in the caller
                    error = failure
                # Counted before the caller goes on, whose next job would start another thread.
                self._finished = self._finish()
                if mailbox is not None:
                    mailbox.put(future, value, error)
                elif error is not None:
                    logger.error("a background job failed", exc_info=error)
                if not self._keeps_transactions and any(map(_IN_ATOMIC_BLOCK, connections.all(initialized_only=True))):
                    end_open_transactions()
                if pooled:
                    give_back(pooled)
            except BaseException:  # of the connections' pool, say; the thread goes on, as it stays counted
                known = ()
                with suppress(BaseException):
                    logger.exception("a worker thread failed outside of its jobs; it continues")
            # Keep nothing of this job alive until the next one.
            del job, function, context, future, mailbox
            value = error = None
        # Connections belong to their thread: once it is gone, nothing else could close them.
        with suppress(Exception):
            connections.close_all()


class CallExecutor(Executor):
    """The executor that asgiref uses as the thread of one call of an async tool.

    Attributes:
        thread: the call's, from its first job on.
        waiting: jobs that wait for a thread.
        has_ended: the call is over; background tasks that it started may go on.
    """

    thread: "_CallThread | None" = None
    waiting: "Sequence[_CallJob]" = ()
    has_ended = False

    def submit(self, function: Callable[..., T], /, *args: Any, **keywords: Any) -> "Future[T]":
        future: Future[T] = Future()
        async_threads().run(self, _CallJob(future, partial(function, *args, **keywords)))
        return future


class _CallJob(NamedTuple):
    future: "Future[Any]"
    function: Callable[[], Any]


class _CallThread:
    """A thread of ``AsyncThreads``.

    Attributes:
        calls: number of calls that have it.
        jobs: number of their jobs that wait or run.
        is_in_transaction: the last job left a transaction open, perhaps for the next one of its call.
    """

    def __init__(self, number: int) -> None:
        self.pool = Pool(1, f"async-{number}", keeps_transactions=True)
        self.calls = self.jobs = 0
        self.is_in_transaction = False


class AsyncThreads:
    """A bounded number of kept threads, of which each call of an async tool has one.

    A call gets its thread with its first job, and has it alone while there are as many threads as calls. Further calls
    share. If they waited for a thread of their own, they would wait for what its call does without it, such as an HTTP
    request, and for ever if that waits for them. A call that has none yet takes whichever thread is free first, so a
    job that takes long delays only the calls that share its thread already.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self.after_fork()
        reset_after_fork(self)

    def after_fork(self) -> None:
        # One lock for threads and queue: a thread that becomes free and a call that looks for one must not miss each
        # other.
        self._lock = threading.Lock()
        self._threads = [_CallThread(number + 1) for number in range(self._size)]
        self.waiting: deque[CallExecutor] = deque()

    def run(self, call: CallExecutor, job: _CallJob) -> None:
        """Run a job in the call's thread.

        Raises:
            NoThread: see ``Pool.sync``.
        """
        with self._lock:
            if call.thread is not None:
                self._begin(call.thread, job)
                return
            if not call.waiting:
                for thread in sorted((thread for thread in self._threads if not thread.jobs), key=_CALLS):
                    with suppress(NoThread):  # then one that has started already is shared
                        # Begun before it is assigned: a call that has a thread that did not start would wait for it
                        # for ever.
                        self._begin(thread, job)
                        self._assign(call, thread)
                        return
                if not any(thread.jobs for thread in self._threads):
                    raise NoThread
                self.waiting.append(call)
            call.waiting = [*call.waiting, job]

    def end(self, call: CallExecutor) -> None:
        """End a call. The thread is the next one's, but for background tasks that the call started."""
        with self._lock:
            call.has_ended, thread = True, call.thread
            if thread is not None:
                thread.calls -= 1
                # While another call shares the thread, the transaction may be that call's.
                if thread.is_in_transaction and not thread.calls:
                    thread.pool.post(end_open_transactions)

    def close(self) -> None:
        for thread in self._threads:
            thread.pool.close()

    def _assign(self, call: CallExecutor, thread: _CallThread) -> None:
        call.thread = thread
        if not call.has_ended:
            thread.calls += 1

    def _begin(self, thread: _CallThread, job: _CallJob) -> None:
        # post() raises if no thread starts, so the job is counted after it. _run() cannot count it down before, since
        # it waits for the lock that the caller holds.
        thread.pool.post(partial(self._run, thread, job))
        thread.jobs += 1

    def _run(self, thread: _CallThread, job: _CallJob) -> None:
        future, tell = job.future, None
        # A job that was cancelled while it waited does not run, but is counted down like all others.
        if future.set_running_or_notify_cancel():
            try:
                tell = partial(future.set_result, job.function())
            except BaseException as error:  # noqa: BLE001 - raised in the call
                tell = partial(future.set_exception, error)
        try:
            with self._lock:  # before the call goes on, whose next job finds the thread free
                thread.jobs -= 1
                thread.is_in_transaction = any(map(_IN_ATOMIC_BLOCK, connections.all(initialized_only=True)))
                if not thread.jobs and self.waiting:
                    call = self.waiting.popleft()
                    self._assign(call, thread)
                    for waiting in call.waiting:
                        self._begin(thread, waiting)
                    call.waiting = ()
        finally:
            if tell is not None:
                tell()
        del future, tell, job  # whose error holds this frame


_IN_ATOMIC_BLOCK = attrgetter("in_atomic_block")
_CALLS = attrgetter("calls")


_background_tasks: set[asyncio.Task[Any]] = clear_after_fork(set())


def create_background_task(coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Start a task and keep it alive until it is done."""
    try:
        task = asyncio.get_running_loop().create_task(coroutine)
    except BaseException:
        coroutine.close()  # Python warns of coroutines that never began
        raise
    # An event loop keeps weak references to its tasks only.
    _background_tasks.add(task)
    task.add_done_callback(_background_tasks.discard)
    return task


# Four sorts of work, so that none waits for another: see docs/decisions/0053-three-sorts-of-work.md


@cache
def shared_pool() -> Pool:
    """Return the ``DJANGO_MCP["WORKER_THREADS"]`` threads of the site's blocking code."""
    return Pool(settings.WORKER_THREADS)


FREE_THREADS = 2
"""A query takes a fraction of a millisecond; the second thread is for one that takes longer."""


@cache
def free_pool() -> Pool:
    # They never run the site's code, so that what every call or stream waits for is as fast as the database.
    return Pool(FREE_THREADS, "own")


@cache
def checks_pool() -> Pool:
    # What decides before or beside tools of the site: authentication, permissions, limits, lists, tasks and the
    # results of async tools. They would otherwise wait for synchronous tools, which may take minutes.
    return Pool(ceil(settings.WORKER_THREADS / 2), "checks")


@cache
def async_threads() -> "AsyncThreads":
    """Return as many threads again, of the ORM and ``sync_to_async`` of async tools."""
    return AsyncThreads(settings.WORKER_THREADS)


def on_event_loop() -> bool:
    """Return True if the calling thread runs an event loop, so that nothing may block."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


async def retry_database(runner: Runner, function: Callable[[], T]) -> T:
    """Return the result of *function*, retried while the database is unavailable. An inline runner tries once.

    Raises:
        OperationalError, InterfaceError: the database did not recover in time, or retrying does not help.
    """
    if runner.is_inline:
        return await runner.sync(function)
    return await retry_attempt(partial(runner.sync, function))


async def retry_attempt(attempt: Callable[[], Awaitable[T]]) -> T:
    """Return the result of *attempt*, retried as by ``retry_database``."""
    until = time.monotonic() + RETRY_TIMEOUT
    while True:
        try:
            return await attempt()
        except (OperationalError, InterfaceError) as error:
            if time.monotonic() > until or not is_temporary(error):
                raise
        await asyncio.sleep(settings.POLL_INTERVAL)


Manager = Callable[[Any], AbstractContextManager[object]]


def context_managers() -> Sequence[Manager]:
    # They are entered in this order, so the first is the outermost.
    return [
        import_string(manager) if isinstance(manager, str) else manager for manager in settings.CALL_CONTEXT_MANAGERS
    ]


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
        return self._runner.is_overloaded

    @property
    def own(self) -> Runner:
        return self._runner.own

    @property
    def checks(self) -> Runner:
        return SiteRunner(self._runner.checks, self._request)

    async def sync(self, function: Callable[[], T]) -> T:
        return await self._runner.sync(partial(self._within, function))

    async def coroutine(self, function: Callable[..., Awaitable[T]], /, **keywords: Any) -> T:
        # The managers are entered in the thread of sync_to_async, as Django does with synchronous middleware around
        # async views.
        async def run() -> T:
            try:
                return await function(**keywords)
            except BaseException as error:  # noqa: BLE001 - here, before asgiref passes it between tasks and threads
                keep_language(error)
                raise_as_call_error(error)

        if self.is_inline:
            with _site_contexts(self._request):
                return await self._runner.coroutine(run)
            raise _suppressed()
        return await self._runner.coroutine(sync_to_async(partial(self._within, async_to_sync(run))))

    async def later(self, function: Callable[[], Coroutine[Any, Any, None]]) -> None:
        await self._runner.later(function)

    def _within(self, function: Callable[[], T]) -> T:
        with _site_contexts(self._request):
            try:
                return function()
            except Exception as error:
                keep_language(error)
                raise
        raise _suppressed()


_of_thread = threading.local()


@contextmanager
def _site_contexts(request: Callable[[], Any]) -> Iterator[None]:
    if getattr(_of_thread, "is_entered", False):
        yield
        return
    with ExitStack() as stack:
        for manager in context_managers():
            stack.enter_context(manager(request()))
        # Reset before the managers end, also if one of them raises: the thread runs other calls afterwards.
        _of_thread.is_entered = True
        stack.callback(setattr, _of_thread, "is_entered", False)
        yield


def _suppressed() -> RuntimeError:
    return RuntimeError("A context manager of CALL_CONTEXT_MANAGERS suppressed an exception; it must re-raise it.")

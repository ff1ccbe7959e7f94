"""Where sync meets async: runners, worker threads, the site's context managers, and database retries.

Everything between the edges and a tool is written once, as coroutines that wait only through a ``Runner``. The
ASGI edge brings a ``Pool`` of worker threads. The Django view brings ``INLINE``: nothing waits, so that the coroutine
runs from start to end in one ``send`` (``run_inline``).
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
"""Calls what worker threads run for a context, where something of a thread has to be there before."""

ESCAPING = (SystemExit, KeyboardInterrupt, GeneratorExit, StopIteration, asyncio.CancelledError)
"""Exceptions that end a thread, a loop, a generator or a task where nobody awaits them as errors."""
CALL_SECONDS = 0.05
"""How often threads are told to end, until they have."""
LOOK_SECONDS = 1.0
"""A busy thread looks after its connections this often, and whenever one of them had an error."""
PATIENCE_SECONDS = 60.0
"""How long a statement is repeated while the database is away."""


class Runner(Protocol):
    """How an edge runs the code of a site.

    Attributes:
        is_inline: everything runs in the calling thread, so that nothing can wait for anything else.
        is_overloaded: so much waits already that it is better to come back later.
    """

    is_inline: bool

    @property
    def is_overloaded(self) -> bool:
        """See above."""

    async def sync(self, function: Callable[[], T]) -> T:
        """The result of a function that may block."""

    def coroutine(self, function: Callable[..., Awaitable[T]], /, **keywords: Any) -> Awaitable[T]:
        """The result of a coroutine function."""

    async def later(self, function: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Have a coroutine function run after the answer, where there is an after; else now."""


def contained(error: BaseException) -> BaseException:
    """Return the error that a caller gets instead of one of ``ESCAPING``, which would end more than the call.

    A tool may run the entry point of a command, which calls ``sys.exit()``; a future refuses ``StopIteration``.
    """
    if not isinstance(error, ESCAPING):
        return error
    made = RuntimeError(f"The site's code raised {error!r}.")
    made.__cause__ = error
    return made


class Inline:
    """Everything here and now, in the calling thread."""

    is_inline = True
    is_overloaded = False

    async def sync(self, function: Callable[[], T]) -> T:
        """Call it."""
        try:
            return function()
        except (SystemExit, GeneratorExit, asyncio.CancelledError) as error:
            raise contained(error) from error

    async def coroutine(self, function: Callable[..., Awaitable[T]], /, **keywords: Any) -> T:
        """Run it to its end, on the server's loop where there is one, else on one of its own."""

        async def run() -> T:  # asgiref warns of what is async in other ways than this
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
    """Call it off the event loop, which an async function has even where the edge has none."""
    return await (sync_to_async(function)() if runner.is_inline else runner.sync(function))


def run_inline(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never has to wait.

    Raises:
        RuntimeError: it did wait, which ``INLINE`` never does.
    """
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]
    coroutine.close()
    msg = "something between the view and the tool awaited something else than its Runner"
    raise RuntimeError(msg)


class _Mailbox:
    """Finished jobs on their way back to one event loop; one wake-up brings all that are ready.

    It does not hold the loop, or the loop would be kept as long as the mailbox that is found by it.
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
            except RuntimeError:  # the loop is closed: nobody waits any more
                self.done.clear()

    def empty(self) -> None:
        # Cleared first: what is put from now on either is taken below or wakes the loop again.
        self.woken = False
        while self.done:
            future, value, error = self.done.popleft()
            if future.done():  # its caller went away
                continue
            if error is None:
                future.set_result(value)
            else:
                future.set_exception(contained(error))


class _Nobody:
    """Stands for a loop where nobody waits for what a job gives."""

    def put(self, future: None, value: Any, error: BaseException | None) -> None:  # noqa: ARG002 - see _Mailbox
        if error is not None:
            logger.error("what ran in the background failed", exc_info=error)


_NOBODY = _Nobody()
_Job = tuple[Callable[[], Any], contextvars.Context, Any, Any]


class Pool:
    """A bounded set of threads, started when first needed, whose database connections persist.

    asgiref would give each request a thread, and so a connection, of its own.
    """

    is_inline = False

    def __init__(self, size: int) -> None:
        self.size = size
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        # Counters, not one number up and down: both are moved by several threads, and next() is atomic.
        self._submit = itertools.count(1).__next__
        self._finish = itertools.count(1).__next__
        self._finished = 0
        self._lock = threading.Lock()
        self._mailboxes: WeakKeyDictionary[asyncio.AbstractEventLoop, _Mailbox] = WeakKeyDictionary()
        self._last: tuple[Callable[[], object], _Mailbox] = (lambda: None, _Mailbox())

    @property
    def is_overloaded(self) -> bool:
        """Whether more jobs wait for a thread than ``DJANGO_MCP["MAX_QUEUED_CALLS"]``."""
        most = settings.MAX_QUEUED_CALLS
        return most is not None and self._jobs.qsize() > most

    async def sync(self, function: Callable[[], T]) -> T:
        """Call it in a worker thread, with the context variables of the caller."""
        return await self.submit(function)

    def submit(self, function: Callable[[], T]) -> "asyncio.Future[T]":
        """``sync`` without waiting, on an event loop."""
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
        """Call it in a worker thread, of which nobody hears anything. From any thread."""
        if self._submit() - self._finished > len(self._threads) < self.size:
            self._start()
        self._jobs.put((function, contextvars.Context(), None, _NOBODY))

    async def coroutine(self, function: Callable[..., Awaitable[T]], /, **keywords: Any) -> T:
        """Await it on the loop, with a thread of its own for ``sync_to_async`` and the async ORM.

        asgiref has one thread for all who have none, as Django's ASGI handler gives each request. It ends with the
        coroutine, and its database connections are closed in it; nothing waits for that.
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
        """Start a task that does not end with the connection."""
        detached(function())

    def close(self) -> None:
        """End the threads when they have done what is queued, and close their database connections."""
        with self._lock:
            threads, self._threads = self._threads, []
        for thread in threads:
            while thread.is_alive():
                self._jobs.put(None)
                thread.join(CALL_SECONDS)  # a thread begun meanwhile may have been the one that heard

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
            if job is None:  # meant for those that are to end
                continue
            function, context, future, mailbox = job
            started = time.monotonic()
            try:
                if not known or started - looked_at > LOOK_SECONDS or any(map(had_error, known)):
                    known = refresh_connections(started - idle_since)
                    looked_at = started
                around = context.get(AROUND_JOBS)
                value = context.run(function) if around is None else context.run(around, function)
            except BaseException as error:  # noqa: BLE001 - whatever it is belongs to the caller
                mailbox.put(future, None, error)
            else:
                mailbox.put(future, value, None)
            self._finished = self._finish()
            if pooled:
                give_back(pooled)
            idle_since = time.monotonic()
            # Until the next job nothing of this one is kept alive by this frame.
            del job, function, context, future, mailbox
            value = None
        connections.close_all()


_detached: set[asyncio.Task[Any]] = set()


def detached(coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """A task of its own, kept alive until it is done."""
    task = asyncio.get_running_loop().create_task(coroutine)
    _detached.add(task)
    task.add_done_callback(_detached.discard)
    return task


@cache
def shared_pool() -> Pool:
    """The pool of this process, ``DJANGO_MCP["WORKER_THREADS"]`` wide."""
    return Pool(settings.WORKER_THREADS)


@cache
def free_pool() -> Pool:
    """One thread for what every call may wait for: no code of a site runs in it."""
    return Pool(1)


def on_event_loop() -> bool:
    """Whether the calling thread runs an event loop, so that nothing may block it."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


async def patiently(runner: Runner, function: Callable[[], T]) -> T:
    """Return what a function that reads or writes events returns; repeat it while the database does not answer.

    Where nothing can wait, there is one attempt.

    Raises:
        OperationalError, InterfaceError: the database did not come back in time, or waiting does not help.
    """
    if runner.is_inline:
        return await runner.sync(function)
    return await again_and_again(partial(runner.sync, function))


async def again_and_again(attempt: Callable[[], Awaitable[T]]) -> T:
    """Return what an attempt returns; repeat it while the database does not answer.

    Raises:
        OperationalError, InterfaceError: the database did not come back in time, or waiting does not help.
    """
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
    """Return what the setting names, the outermost first."""
    return [import_string(each) if isinstance(each, str) else each for each in settings.CALL_CONTEXT_MANAGERS]


class SiteRunner:
    """Another runner, whose work is done within the site's context managers, in the thread that does it.

    Packages keep the acting user in variables of a thread as well as in those of a context, so a manager is entered
    where the code runs, for each function anew; a function within another one is within its managers already.

    Args:
        runner: does the work.
        request: gives the Django request of the call, whose ``user`` is the caller.
    """

    def __init__(self, runner: Runner, request: Callable[[], Any]) -> None:
        self._runner, self._request = runner, request
        self.is_inline = runner.is_inline

    @property
    def is_overloaded(self) -> bool:
        """See ``Runner``."""
        return self._runner.is_overloaded

    async def sync(self, function: Callable[[], T]) -> T:
        """Call it within the managers."""
        return await self._runner.sync(partial(self._within, function))

    async def coroutine(self, function: Callable[..., Awaitable[T]], /, **keywords: Any) -> T:
        """Await it within the managers, which are entered in the thread of its ``sync_to_async``.

        That is what Django does with a synchronous middleware before an async view.
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
    return RuntimeError("A context manager of CALL_CONTEXT_MANAGERS suppressed an exception; it has to let it through.")

"""What a test must not leave behind: everything that calls take and give back again.

The fixture ``_nothing_left`` of ``tests/conftest.py`` waits after each test for what ends later, and fails with what
does not. Open files are pytest's to find: it makes an error of each ``ResourceWarning``.
"""

import contextvars
import gc
import threading
import time
import weakref
from collections.abc import Iterator
from itertools import chain
from typing import Any

from asgiref.sync import SyncToAsync
from django.conf import settings as django_settings
from django.db import connection, connections
from django.urls import get_script_prefix
from django.utils import timezone, translation

from django_mcp.audit.writer import log_pool, writer
from django_mcp.core import concurrency, execution
from django_mcp.core.concurrency import Pool, async_threads, checks_pool, free_pool, shared_pool
from django_mcp.pubsub import follower, notify, publish, stream_slots
from django_mcp.revisions.legacy import channel, sessions
from django_mcp.tasks.backends import _pool as task_pool
from django_mcp.tasks.worker import heartbeat
from django_mcp.transports import sse
from django_mcp.transports.authentication import lookups

WITHIN = 5.0
"""Seconds for what ends after its call: threads of async tools, tasks of closed streams."""
COLLECTED_AFTER = 0.1


def pools() -> list[Pool]:
    """Return those of this process."""
    return [
        shared_pool(),
        checks_pool(),
        free_pool(),
        log_pool(),
        task_pool(),
        *(thread.pool for thread in async_threads()._threads),
    ]


LATER = ("django-mcp-notices", "django-mcp-notify")
"""Threads that end by themselves, after their last notice is due, or with the process, which has one."""
OF_TESTS = ("(process_request_thread)", "(kept by tests)")
"""End the names of threads of ``http.server``, which only tests use, as browsers keep connections that they may need;
and of threads of fixtures that several tests share.
"""

_entered: set[str] = set()


class _Entered(threading.local):
    """``core.concurrency._of_thread``, with a list of the threads that are inside the site's context managers."""

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        (_entered.add if value else _entered.discard)(threading.current_thread().name)


concurrency._of_thread = _Entered()


def taken() -> Iterator[str]:
    """Say what calls hold in this process. Between calls it is nothing."""
    yield from (f"a slot of {tool.name!r}" for tool, slots in list(execution._slots.items()) if slots._taken)
    yield from (
        f"a caller waiting for {tool.name!r}" for tool, slots in list(execution._slots.items()) if slots._waiting
    )
    for leases in list(channel._leases.values()):
        yield from (f"the lease of call {key}" for key in list(leases.held))
    yield from (f"the lease of task {task_id}" for task_id in [*heartbeat._running, *heartbeat._queued])
    yield from (f"call {key} for cancellations" for key in list(sessions._running))
    yield from chain.from_iterable((f"a lookup ({name})" for _ in kept) for name, kept in vars(lookups).items())
    yield from (f"a stream of {caller}" for caller, streams in list(stream_slots._slots.items()) for _ in streams)
    yield from _followed()
    for alive in list(sse._keep_alives.values()):
        yield from (f"the connection {wire!r}" for wire in alive.wires | alive._begun | alive._waited)
    yield from (f"the task {task!r}" for task in list(concurrency._background_tasks))
    yield from ("a notice that is being stored" for _ in list(publish._background))
    yield from (f"{len(writer._waiting)} entries of the log, unwritten" for _ in [0] if writer._waiting)
    yield from (f"{name} inside the context managers" for name in list(_entered))
    yield from _jobs()
    for thread in async_threads()._threads:
        yield from (f"the thread {thread.pool.name!r} for a call" for _ in range(thread.calls))
    yield from ("a call that waits for a thread" for _ in async_threads().waiting)


def _followed() -> Iterator[str]:
    for found in list(follower._followers.values()):
        yield from (f"the topic {topic!r}" for topic in list(found._topics))
        yield from (f"the subscription {each!r}" for each in list(found._last_output))
        if found._task is not None:
            yield "a task that follows events"


def _jobs() -> Iterator[str]:
    for pool in pools():
        # The next number of each counter, which only its text shows without taking it.
        queued, done = (int(repr(count.__self__)[6:-1]) for count in (pool._submit, pool._finish))
        if queued != done:
            yield f"{queued - done} jobs of the pool {pool.name!r}"


def threads() -> set[threading.Thread]:
    """Return all threads but those that the process keeps from their first use on."""
    kept = {thread for pool in pools() for thread in pool._threads} | {notify._sender._thread}
    return {
        thread
        for thread in threading.enumerate()
        if thread not in kept and not thread.name.startswith(LATER) and not thread.name.endswith(OF_TESTS)
        if not _is_asgirefs(thread)
    }


def _is_asgirefs(thread: threading.Thread) -> bool:
    """Return True for an idle thread of an executor that asgiref leaves to the garbage collector.

    A logged traceback may refer to the executor until the test is over.
    """
    reference = next(iter(getattr(thread, "_args", ())), None)
    executor = reference() if isinstance(reference, weakref.ref) else None
    of_calls = SyncToAsync.context_to_thread_executor.values()
    return executor is not None and executor._idle_semaphore._value > 0 and executor not in of_calls


def state() -> dict[str, Any]:
    """Return what calls may change for the time of their run, in this thread."""
    return {
        "settings": django_settings._wrapped,
        "language": translation.get_language(),
        "time zone": timezone.get_current_timezone_name(),
        "script prefix": get_script_prefix(),
        "transactions": {
            each.alias: len(each.savepoint_ids)
            for each in connections.all(initialized_only=True)
            if each.connection is not None and each.in_atomic_block
        },
        "context variables": {
            variable.name: value
            for variable, value in contextvars.copy_context().items()
            if variable.name.startswith(("django_mcp", "no_waiting", "rendering"))
        },
    }


class Before:
    """What there was before a test, and what there is more of after it."""

    def __init__(self) -> None:
        self._threads, self._state = threads(), state()
        self._taken = {*taken()}  # by the test before, which failed for it

    def left(self) -> list[str]:
        """Say what is left; what ends by itself is waited for."""
        began = time.monotonic()
        while left := [*self._found()]:
            waited = time.monotonic() - began
            if waited > WITHIN:
                break
            if waited > COLLECTED_AFTER:
                gc.collect()  # asgiref's threads end with the executors that they belong to
            time.sleep(0.002)
        return left

    def _found(self) -> Iterator[str]:
        yield from (each for each in taken() if each not in self._taken)
        yield from (f"the thread {thread.name}" for thread in threads() - self._threads)
        yield from (f"the {name} {value}" for name, value in state().items() if value != self._state[name])


CLAIMS = """
    SELECT 'a running call', id FROM django_mcp_call WHERE status = 'running'
    UNION ALL SELECT 'a question of an ended call', question.id FROM django_mcp_pendingrequest question
        JOIN django_mcp_call asking ON asking.id = question.call_id WHERE asking.status = 'ended'
    UNION ALL SELECT 'an idempotency key whose call runs', step.id FROM django_mcp_step step
        WHERE step.key = 'repeat' AND NOT step.done
"""
"""Rows that say that something runs or waits for an answer. ``call`` and ``key`` alone are reserved in MariaDB."""
BUSY = """
    SELECT state, query FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
    AND state LIKE 'idle in transaction%'
"""
BACKENDS = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"


def rows() -> list[str]:
    """Say which rows claim that something runs, or waits for an answer, though nothing does. Waits for what ends."""
    deadline = time.monotonic() + WITHIN
    while (left := [*_rows()]) and time.monotonic() < deadline:
        time.sleep(0.01)
    return left


def _rows() -> Iterator[str]:
    with connection.cursor() as cursor:
        cursor.execute(CLAIMS)
        yield from (f"the row {pk} of {what}" for what, pk in cursor.fetchall())
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(BUSY)
            yield from (f"a connection {state}: {query}" for state, query in cursor.fetchall())
            cursor.execute(BACKENDS)
            count, kept = cursor.fetchone()[0], len(threading.enumerate())
            if count > kept:
                yield f"{count} connections to the database for {kept} threads"

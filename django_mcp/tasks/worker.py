"""Execution of tasks, and the heartbeat that renews their leases."""

import atexit
import logging
import math
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, suppress
from functools import partial
from os import getpid
from typing import Any, TypeVar

from django.db import Error as DatabaseError
from django.db import InterfaceError, OperationalError, connections

from django_mcp.conf import settings
from django_mcp.core import database
from django_mcp.core.after_fork import reset_after_fork
from django_mcp.core.channel import Cancelled
from django_mcp.core.concurrency import RETRY_TIMEOUT, Pool, checks_pool, free_pool, run_inline
from django_mcp.core.context import Context
from django_mcp.core.database import refresh_connections
from django_mcp.core.dispatch import dispatch
from django_mcp.core.elicitation import InputRequired
from django_mcp.core.failures import report_crash
from django_mcp.core.request import CallSource, without_credentials
from django_mcp.core.resources import checking_pool
from django_mcp.core.server import server_named
from django_mcp.core.signals import server_stopped
from django_mcp.models import Task
from django_mcp.protocol.errors import InternalError, ProtocolError
from django_mcp.protocol.jsonrpc import Request
from django_mcp.tasks import store
from django_mcp.tasks.channel import TaskChannel, plain
from django_mcp.tasks.principal_snapshot import PrincipalGone, request_of, restore

T = TypeVar("T")

logger = logging.getLogger("django_mcp")

HEARTBEAT_SECONDS = 0.5
"""Seconds between heartbeats, which save progress and notice cancellation."""
MAX_CHECKED = 100
"""Maximum number of tasks that are not of this process whose callers are looked up at a time."""


class LeaseHeartbeat:
    """Renews the leases of this process, in a thread that lives while there are any.

    Attributes:
        look_after: called now and then to recover tasks of lost workers.
    """

    def __init__(self) -> None:
        self._queued: set[str] = set()
        self._running: dict[str, TaskChannel] = {}
        # The first guards what is held, for a moment each. The second orders the writes of leases, which may take
        # long.
        self._lock, self._lease_lock = threading.Lock(), threading.Lock()
        self._thread: threading.Thread | None = None
        self._wake = threading.Event()
        self._failing = False
        self._is_registered = self._is_released = False
        self.recover_lost: Callable[[], object] = lambda: None
        # A lock and not a flag: it is taken by this object's thread, and released by one of a pool.
        self._checked, self._checked_to, self._checking = time.monotonic(), 0, threading.Lock()
        reset_after_fork(self)

    def add_queued(self, task_id: str) -> None:
        with self._lock:
            self._ensure_thread()
            self._queued.add(task_id)

    def add_running(self, channel: TaskChannel) -> None:
        with self._lock:
            self._ensure_thread()
            self._queued.discard(channel.task.task_id)
            before = self._running.get(channel.task.task_id)
            self._running[channel.task.task_id] = channel
        if before is not None:  # its lease had expired
            before.cancel()

    def remove_queued(self, task_id: str) -> None:
        with self._lock:
            self._queued.discard(task_id)

    def remove_running(self, channel: TaskChannel) -> None:
        with self._lock:
            # The next run of the task may have started already.
            if self._running.get(channel.task.task_id) is channel:
                del self._running[channel.task.task_id]
            # The thread ends now, and not after its next pause.
            if not self._queued and not self._running:
                self._wake.set()

    def holds(self, task_id: str) -> bool:
        # Without the lock: the answer may be out of date as soon as it is given.
        return task_id in self._running or task_id in self._queued

    def cancel(self, task_id: str) -> None:
        if (channel := self._running.get(task_id)) is not None:
            channel.cancel()

    def _ensure_thread(self) -> None:
        # Callers add their task afterwards, so a thread that cannot be started leaves nothing behind. The thread sees
        # the task, because it looks under the same lock.
        if not self._is_registered:
            self._is_registered = True
            atexit.register(self._release)
            server_stopped.connect(self._release, weak=False)
        self._is_released = False
        if self._thread is None or not self._thread.is_alive():
            self._wake.clear()
            thread = threading.Thread(target=self._work, name="django-mcp-tasks", daemon=True)
            thread.start()
            self._thread = thread

    def _work(self) -> None:
        renewed = -math.inf
        while True:
            self._wake.wait(HEARTBEAT_SECONDS)
            with self._lock:
                if not self._queued and not self._running:
                    # Set under the lock, so that a task added later starts another thread.
                    self._thread = None
                    break
                self._wake.clear()
                running, held = dict(self._running), self._held()
            try:
                if time.monotonic() - renewed > settings.TASK_LEASE_TTL / 3:
                    # _release() must be the last to write a lease.
                    with self._lease_lock:
                        # On SQLite, store.renew() waits for a tool that holds the write lock, whose lease may expire
                        # meanwhile.
                        if not self._is_released:
                            store.renew(held)
                    renewed = time.monotonic()
                    self.recover_lost()
                self._save_and_stop(running, held)
                if time.monotonic() - self._checked > settings.KEEP_ALIVE_INTERVAL and self._checking.acquire(
                    blocking=False
                ):
                    self._checked = time.monotonic()
                    self._post_check(free_pool(), partial(self._check_callers, held))
                self._failing = False
            except DatabaseError as error:
                # Progress is saved in a later round; the task itself continues.
                if not self._failing:
                    logger.warning("the state of running tasks cannot be saved, retrying: %s", error)
                self._failing = True
                # The connection may have broken during the outage.
                refresh_connections(math.inf)
            except Exception:  # without this thread the leases of running tasks would expire
                logger.exception("the state of running tasks cannot be saved")
        connections.close_all()

    def _save_and_stop(self, running: Mapping[str, TaskChannel], held: Mapping[str, str]) -> None:
        for channel in running.values():
            try:
                channel.flush()
            except (OperationalError, InterfaceError):
                raise
            except Exception:  # must not affect other tasks
                logger.exception("messages of %s cannot be saved", channel.task)
        working = store.still_working(held)
        for task_id, channel in running.items():
            if task_id not in working and not channel.is_settled:
                channel.cancel()
        for task_id in held.keys() - running.keys() - working:  # cancelled while queued
            self.remove_queued(task_id)

    def _post_check(self, pool: Pool, check: Callable[[], object]) -> None:
        # Checks run in another thread, because slow ones must not delay the renewal of leases.
        try:
            pool.post(check)
        except BaseException:
            self._checking.release()
            raise

    def _check_callers(self, held: Mapping[str, str]) -> None:
        # Callers may lose access without a signal, for example by SQL. Tasks that are not held here are checked in
        # turn.
        with ExitStack() as stack:
            stack.callback(self._checking.release)
            tasks = store.to_check(list(held), self._checked_to, MAX_CHECKED)
            others = [task.pk for task in tasks if task.task_id not in held]
            self._checked_to = others[-1] if len(others) == MAX_CHECKED else 0
            by_site = [task for task in tasks if _is_checked_by_site(task)]
            _cancel_those_without_access(task for task in tasks if task not in by_site)
            if by_site:
                # Held until they have been looked at, or looks would queue up behind slow tools of the site.
                stack.pop_all()
                self._post_check(checks_pool(), partial(self._check_by_site, by_site))

    def _check_by_site(self, tasks: Iterable[Task]) -> None:
        try:
            _cancel_those_without_access(tasks)
        finally:
            self._checking.release()

    def _held(self) -> dict[str, str]:
        running = {task_id: channel.task.worker for task_id, channel in self._running.items()}
        return {**dict.fromkeys(self._queued, ""), **running}

    def _release(self, **_: object) -> None:
        # Other processes then recover the tasks without delay. Some servers end by a signal, without atexit, so
        # server_stopped calls this too.
        with self._lease_lock, suppress(Exception):
            self._is_released = True  # stops the thread from renewing leases
            store.release(self._held())

    def after_fork(self) -> None:
        # The tasks go on in the parent, and a lock that its thread holds would never be released here.
        self._queued, self._running = set(), {}
        self._lock, self._lease_lock, self._wake = threading.Lock(), threading.Lock(), threading.Event()
        self._thread, self._checking = None, threading.Lock()


heartbeat = LeaseHeartbeat()


DatabaseUnavailable = OperationalError, InterfaceError


def worker_name() -> str:
    return f"{socket.gethostname()[:64]}:{getpid()}:{secrets.token_hex(8)}"


def run(task_id: str, *, has_slot: bool = False) -> None:
    """Run a task that waits to be run. Its outcome goes into its row.

    *has_slot* is True if the caller holds a slot of its tool's ``concurrency_limit``, if the tool has one.
    """
    worker, task = worker_name(), None
    try:
        task = _retry_database(partial(store.claim, task_id, worker))
        if task is not None:
            _run_with_lease(task, has_slot=has_slot)
    except BaseException:  # the process stops, or the database stays unavailable
        give_up(task_id, worker, "")  # a claim that failed may have been committed
        raise
    finally:
        if task is None:
            heartbeat.remove_queued(task_id)


def give_up(task_id: str, *claimed_by: str) -> None:
    """Leave a task that cannot be run here to be recovered now, for others or for the next who asks. Blocks."""
    heartbeat.remove_queued(task_id)  # not started here, so not held here
    # While the database is away the lease expires by its time, which has the same effect later.
    with suppress(Exception):
        for worker in claimed_by:
            store.release({task_id: worker})


def run_here(task_id: str) -> None:
    """Run a task in the thread and transaction that created it, without lease."""
    task = store.claim(task_id, worker_name())
    if task is not None:
        _run(task, TaskChannel(task, store.dialogue_of(task)))


def _run_with_lease(task: Task, *, has_slot: bool) -> None:
    channel = TaskChannel(task, _retry_database(partial(store.dialogue_of, task)), has_slot=has_slot)
    try:
        heartbeat.add_running(channel)
        _run(task, channel)
    finally:
        heartbeat.remove_running(channel)


def _run(task: Task, channel: TaskChannel) -> None:
    save: Callable[[], object] = _save_nothing
    try:
        save = _dispatch(task, channel)
    except Cancelled:  # the row is no longer this run's to change
        pass
    except ProtocolError as error:
        save = partial(store.finish, task, error=_storable_error(error), message=error.message)
    except Exception as error:  # noqa: BLE001 - it is logged
        save = partial(_fail, task, report_crash(error, f"{task}: its run"))
    try:
        _retry_database(channel.flush)
    except Exception:  # lost messages must not lose the outcome
        logger.exception("messages of %s could not be saved", task)
    try:
        _retry_database(save)
    except DatabaseUnavailable:
        raise
    except Exception as error:  # noqa: BLE001 - it is logged
        _retry_database(partial(_fail, task, report_crash(error, f"{task}: saving its outcome")))


def _fail(task: Task, message: str) -> bool:
    error = InternalError(message)
    return store.finish(task, error=error.to_wire(), message=error.message)


def _storable_error(error: ProtocolError) -> dict[str, Any]:
    try:
        return dict(plain(error.to_wire()))
    except InternalError:
        return {"code": error.code, "message": database.storable_text(error.message)}


def _dispatch(task: Task, channel: TaskChannel) -> Callable[[], object]:
    try:
        result = run_inline(dispatch(_context(task, channel)))
    except InputRequired as needed:
        return partial(store.ask, task, plain(needed.requests), channel.dialogue)
    return _save_nothing if channel.is_settled else partial(store.finish, task, result=plain(result.fields))


def _save_nothing() -> None:
    """Do nothing."""


def _retry_database(function: Callable[[], T]) -> T:
    # The work is done, so its outcome must not be lost.
    until = time.monotonic() + RETRY_TIMEOUT
    while True:
        try:
            return function()
        except DatabaseUnavailable as error:
            if time.monotonic() > until or not database.is_temporary(error):
                raise
            database.own_connection().close_if_unusable_or_obsolete()
            time.sleep(settings.POLL_INTERVAL)


def _is_checked_by_site(task: Task) -> bool:
    server = server_named(task.server)
    return server is not None and checking_pool(server) is not free_pool()


def _cancel_those_without_access(tasks: Iterable[Task]) -> None:
    for task in tasks:
        if not has_access(task) and store.cancel(task):
            logger.warning("%s was cancelled: its caller no longer has access", task)


def has_access(task: Task) -> bool:
    server = server_named(task.server)
    try:
        # Another process may have the endpoint of the task.
        return server is None or restore(task, server) is not None
    except PrincipalGone:
        return False
    except DatabaseError:
        raise
    except Exception:  # of the site's code; the others are checked all the same
        logger.exception("the caller of %s cannot be checked", task)
        return True


def _context(task: Task, channel: TaskChannel) -> Context:
    server = server_named(task.server)
    if server is None:
        raise InternalError(f"The endpoint {task.server!r} no longer exists.")
    try:
        principal = restore(task, server)
    except PrincipalGone:
        raise InternalError("The caller of this task no longer has access.") from None
    source = CallSource(server, principal, channel.runner, lambda: without_credentials(request_of(task)))
    request = Request(task.task_id, task.request["method"], task.request["params"])
    return Context(source, request, channel, task.client, task.capabilities)

"""Run one task, and keep the lease of its row with a heartbeat."""

import atexit
import logging
import math
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from os import getpid
from typing import Any, TypeVar

from django.db import Error as DatabaseError
from django.db import InterfaceError, OperationalError, connections

from django_mcp.conf import settings
from django_mcp.core import database
from django_mcp.core.channel import Cancelled
from django_mcp.core.concurrency import PATIENCE_SECONDS, run_inline
from django_mcp.core.context import Context
from django_mcp.core.database import refresh_connections
from django_mcp.core.dispatch import dispatch
from django_mcp.core.elicitation import InputRequired
from django_mcp.core.request import without_credentials
from django_mcp.core.server import servers
from django_mcp.core.signals import server_stopped
from django_mcp.models import Task
from django_mcp.protocol.errors import InternalError, ProtocolError
from django_mcp.tasks import store
from django_mcp.tasks.channel import TaskChannel, plain
from django_mcp.tasks.principal_snapshot import Gone, request_of, restored

logger = logging.getLogger("django_mcp")

LOOK_SECONDS = 0.5
"""How often it looks whether there is something to save, and whether a task was cancelled elsewhere."""


class LeaseHeartbeat:
    """Of one process. Its thread lives as long as there is something to keep.

    Attributes:
        look_after: called now and then, to see to tasks of workers that are gone.
    """

    def __init__(self) -> None:
        self._queued: set[str] = set()
        self._running: dict[str, TaskChannel] = {}
        self._lock, self._lease_lock = threading.Lock(), threading.Lock()
        self._thread: threading.Thread | None = None
        self._wake = threading.Event()
        self._failing = False
        self._is_registered = self._is_released = False
        self.look_after: Callable[[], object] = lambda: None

    def expect(self, task_id: str) -> None:
        """A task waits in this process for its turn; it is not abandoned."""
        with self._lock:
            self._queued.add(task_id)
            self._begin()

    def keep(self, channel: TaskChannel) -> None:
        """A task runs here."""
        with self._lock:
            self._queued.discard(channel.task.task_id)
            before = self._running.get(channel.task.task_id)
            self._running[channel.task.task_id] = channel
            self._begin()
        if before is not None:  # it was taken for dead
            before.cancel()

    def skip(self, task_id: str) -> None:
        """A task that waited here for its turn is not to be run."""
        with self._lock:
            self._queued.discard(task_id)

    def forget(self, channel: TaskChannel) -> None:
        """A run is over. The next one of the same task may be here already."""
        with self._lock:
            if self._running.get(channel.task.task_id) is channel:
                del self._running[channel.task.task_id]
            if not self._queued and not self._running:
                self._wake.set()

    def holds(self, task_id: str) -> bool:
        """Whether a task runs here, or waits here."""
        return task_id in self._running or task_id in self._queued

    def cancel(self, task_id: str) -> None:
        """Stop a task that runs here at once."""
        if (channel := self._running.get(task_id)) is not None:
            channel.cancel()

    def _begin(self) -> None:
        if not self._is_registered:
            self._is_registered = True
            atexit.register(self._release)
            server_stopped.connect(self._release, weak=False)
        self._is_released = False
        if self._thread is None or not self._thread.is_alive():
            self._wake.clear()
            self._thread = threading.Thread(target=self._work, name="django-mcp-tasks", daemon=True)
            self._thread.start()

    def _work(self) -> None:
        renewed = -math.inf
        while True:
            self._wake.wait(LOOK_SECONDS)
            with self._lock:
                if not self._queued and not self._running:
                    self._thread = None
                    break
                self._wake.clear()
                running, held = dict(self._running), self._held()
            try:
                if time.monotonic() - renewed > settings.TASK_LEASE_TTL / 3:
                    with self._lease_lock:
                        if not self._is_released:
                            store.renew(held)
                    renewed = time.monotonic()
                    self.look_after()
                self._save_and_stop(running, held)
                self._failing = False
            except DatabaseError as error:
                # What it says is said again next time; the work itself goes on.
                if not self._failing:
                    logger.warning("the state of running tasks cannot be saved, retrying: %s", error)
                self._failing = True
                refresh_connections(math.inf)
            except Exception:  # without this thread all that runs here would be taken for dead
                logger.exception("the state of running tasks cannot be saved")
        connections.close_all()

    def _save_and_stop(self, running: Mapping[str, TaskChannel], held: Mapping[str, str]) -> None:
        for channel in running.values():
            try:
                channel.flush()
            except (OperationalError, InterfaceError):
                raise
            except Exception:  # of one task, which the others are not to wait for
                logger.exception("messages of %s cannot be saved", channel.task)
        working = store.still_working(held)
        for task_id, channel in running.items():
            if task_id not in working and not channel.is_settled:
                channel.cancel()
        for task_id in held.keys() - running.keys() - working:  # nor does it wait for its turn any more
            self.skip(task_id)

    def _held(self) -> dict[str, str]:
        running = {task_id: channel.task.worker for task_id, channel in self._running.items()}
        return {**dict.fromkeys(self._queued, ""), **running}

    def _release(self, **_: object) -> None:
        """The process ends: whoever looks after what it held need not wait for its lease to run out.

        Some servers raise their signal again after they have shut down, and Python's ``atexit`` never comes.
        """
        with self._lease_lock, suppress(Exception):
            self._is_released = True  # or the lease would be renewed by a thread that is still there
            store.release(self._held())

    def after_fork(self) -> None:
        """What the parent keeps is not the child's, nor is its thread; and its lock may have been held."""
        self._queued, self._running = set(), {}
        self._lock, self._lease_lock, self._wake = threading.Lock(), threading.Lock(), threading.Event()
        self._thread = None


keeper = LeaseHeartbeat()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=keeper.after_fork)


T = TypeVar("T")

DatabaseAway = OperationalError, InterfaceError


def worker_name() -> str:
    """What one run is called in leases: where it is, and what no other has."""
    return f"{socket.gethostname()[:64]}:{getpid()}:{secrets.token_hex(8)}"


def run(task_id: str) -> None:
    """Run a task, if it is there to be run and nobody does so. Whatever comes of it goes into its row."""
    worker, task = worker_name(), None
    try:
        task = _surely(partial(store.claim, task_id, worker))
        if task is not None:
            _keep_and_run(task)
    except BaseException:  # the process is told to stop, or the database is gone for good
        keeper.skip(task_id)  # what was never begun here is not held here
        with suppress(Exception):
            store.release({task_id: worker})
        raise
    finally:
        if task is None:
            keeper.skip(task_id)


def run_here(task_id: str) -> None:
    """The same for whoever makes a task and does its work at once, in one thread and transaction, with no lease."""
    task = store.claim(task_id, worker_name())
    if task is not None:
        _run(task, TaskChannel(task, store.dialogue_of(task)))


def _keep_and_run(task: Task) -> None:
    channel = TaskChannel(task, _surely(partial(store.dialogue_of, task)))
    keeper.keep(channel)
    try:
        _run(task, channel)
    finally:
        keeper.forget(channel)


def _run(task: Task, channel: TaskChannel) -> None:
    save: Callable[[], object] = _nothing
    try:
        save = _served(task, channel)
    except Cancelled:  # by somebody who wrote that into the row, or would have
        pass
    except ProtocolError as error:
        save = partial(store.finish, task, error=_readable(error), message=error.message)
    except Exception:
        logger.exception("%s could not be run", task)
        save = partial(_broken, task)
    try:
        _surely(channel.flush)
    except Exception:  # the outcome is worth more than what was said on the way
        logger.exception("messages of %s could not be saved", task)
    try:
        _surely(save)
    except DatabaseAway:
        raise
    except Exception:
        logger.exception("the outcome of %s could not be saved", task)
        _surely(partial(_broken, task))


def _broken(task: Task) -> bool:
    error = InternalError("Internal server error.")
    return store.finish(task, error=error.to_wire(), message=error.message)


def _readable(error: ProtocolError) -> dict[str, Any]:
    """An error's JSON, without what has none."""
    try:
        return dict(plain(error.to_wire()))
    except InternalError:
        return {"code": error.code, "message": store.clean(error.message)}


def _served(task: Task, channel: TaskChannel) -> Callable[[], object]:
    """Serve the call; how to save what came of it."""
    try:
        result = run_inline(dispatch(_context(task, channel)))
    except InputRequired as needed:
        return partial(store.ask, task, plain(needed.requests), channel.dialogue)
    return _nothing if channel.is_settled else partial(store.finish, task, result=plain(result.fields))


def _nothing() -> None:
    """There is nothing to save."""


def _surely(function: Callable[[], T]) -> T:
    """Wait for a database that is away: what was done is done, and whoever asked is to hear of it."""
    until = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return function()
        except DatabaseAway as error:
            if time.monotonic() > until or not database.is_temporary(error):
                raise
            database.own_connection().close_if_unusable_or_obsolete()
            time.sleep(settings.POLL_INTERVAL)


def _context(task: Task, channel: TaskChannel) -> Context:
    """The call's own context again.

    Raises:
        ProtocolError: its endpoint is no more, or its caller may not call any more.
    """
    server = next((each for each in servers() if each.name == task.server), None)
    if server is None:
        raise InternalError(f"The endpoint {task.server!r} no longer exists.")
    try:
        principal = restored(task, server)
    except Gone:
        raise InternalError("The caller of this task no longer has access.") from None
    return Context(
        server,
        principal,
        channel.runner,
        lambda: without_credentials(request_of(task)),
        task.task_id,
        task.request["method"],
        task.request["params"],
        task.client,
        task.capabilities,
        channel,
    )

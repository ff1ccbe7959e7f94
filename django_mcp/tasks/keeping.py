"""What a process does for the tasks it runs while they run: one thread renews their leases, saves what they say, and
stops those that were cancelled elsewhere.
"""

import atexit
import logging
import math
import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from django.db import Error as DatabaseError
from django.db import InterfaceError, OperationalError, connections

from django_mcp.conf import settings
from django_mcp.core.database import refresh_connections
from django_mcp.core.signals import server_stopped
from django_mcp.tasks import rows
from django_mcp.tasks.channel import TaskChannel

logger = logging.getLogger("django_mcp")

LOOK_SECONDS = 0.5
"""How often it looks whether there is something to save, and whether a task was cancelled elsewhere."""


class Keeper:
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
                if time.monotonic() - renewed > settings.TASK_LEASE_SECONDS / 3:
                    with self._lease_lock:
                        if not self._is_released:
                            rows.renew(held)
                    renewed = time.monotonic()
                    self.look_after()
                self._save_and_stop(running, held)
                self._failing = False
            except DatabaseError as error:
                # What it says is said again next time; the work itself goes on.
                if not self._failing:
                    logger.warning("the state of running tasks cannot be saved just now, trying again: %s", error)
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
                logger.exception("what %s says cannot be saved", channel.task)
        working = rows.still_working(held)
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
            rows.release(self._held())

    def after_fork(self) -> None:
        """What the parent keeps is not the child's, nor is its thread; and its lock may have been held."""
        self._queued, self._running = set(), {}
        self._lock, self._lease_lock, self._wake = threading.Lock(), threading.Lock(), threading.Event()
        self._thread = None


keeper = Keeper()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=keeper.after_fork)

"""One thread for each process that has notices to deliver, or finds some that another one left."""

import logging
import math
import os
import threading
import time

from django.db import Error as DatabaseError
from django.db import connections

from django_mcp.approvals import sending

logger = logging.getLogger("django_mcp")

LOOK_SECONDS = 60.0
"""How often a process looks for notices that others left. Those it made itself it delivers at once."""
RETRY_SECONDS = 5.0
"""After how long it looks again where the database was away."""


class Sender:
    """Of one process. Its thread lives as long as there is something to deliver."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._wake = threading.Event()
        self._looked = -math.inf

    def begin(self) -> None:
        """There is something to deliver. From any thread, with or without an event loop: it blocks nobody."""
        with self._lock:
            self._start()

    def look(self) -> None:
        """There may be something to deliver; the settings name who is told. Costs nothing if called a moment ago."""
        if time.monotonic() - self._looked >= LOOK_SECONDS:
            with self._lock:
                self._start()

    def _start(self) -> None:
        self._looked = time.monotonic()
        self._wake.set()
        if self._thread is None or not self._thread.is_alive():
            thread = threading.Thread(target=self._work, name="django-mcp-notices", daemon=True)
            thread.start()
            self._thread = thread

    def _work(self) -> None:
        while True:
            self._wake.clear()
            pause = self._deliver()
            connections.close_all()  # the next attempt may be an hour away
            with self._lock:
                if pause is None and not self._wake.is_set():
                    self._thread = None
                    return
            if pause is not None:
                self._wake.wait(min(pause, LOOK_SECONDS))

    def _deliver(self) -> float | None:
        """Deliver what is due; in how many seconds there is more."""
        try:
            sending.deliver_due()
            return sending.seconds_left()
        except DatabaseError as error:
            logger.warning("notices of calls that wait cannot be read just now, trying again: %s", error)
        except Exception:  # without this thread nobody would be told
            logger.exception("notices of calls that wait cannot be delivered")
        return RETRY_SECONDS

    def after_fork(self) -> None:
        """The parent's thread is not the child's, and its lock may have been held."""
        self._lock, self._wake, self._thread = threading.Lock(), threading.Event(), None
        self._looked = -math.inf


sender = Sender()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=sender.after_fork)


def look() -> None:
    """See ``Sender.look``."""
    sender.look()

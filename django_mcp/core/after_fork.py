"""State of a process that a process forked from it must not take over: threads, locks, and what calls hold.

Servers such as gunicorn may load a site, which may use it, before they fork; workers of RQ fork for each task.
"""

import os
import threading
from collections.abc import Callable
from typing import Any, Protocol, TypeVar
from weakref import WeakSet


class Resettable(Protocol):
    """An object with such state."""

    def after_fork(self) -> None:
        """Forget threads, jobs and locks: they are the parent's."""


class Table(Protocol):
    """A container."""

    def clear(self) -> None:
        """Remove all entries."""


T = TypeVar("T", bound=Table)

# Weak: pools and limits that nothing uses any more must not stay for a fork that never comes.
_owners: WeakSet[Resettable] = WeakSet()
_tables: list[Table] = []


def reset_after_fork(owner: Resettable) -> None:
    """Call ``owner.after_fork()`` in every process forked from now on."""
    _owners.add(owner)


def clear_after_fork(table: T) -> T:
    """Return a module's table, which is cleared in every process forked from now on."""
    _tables.append(table)
    return table


class FreshLock:
    """A lock that is free in a forked process. A thread of the parent may hold it, which nobody would release there.

    Args:
        make: returns the lock, such as ``threading.RLock``.
    """

    def __init__(self, make: Callable[[], Any] = threading.Lock) -> None:
        self._make = make
        self.after_fork()
        reset_after_fork(self)

    def after_fork(self) -> None:
        self._lock = self._make()

    def acquire(self, *, blocking: bool = True) -> bool:
        return bool(self._lock.acquire(blocking=blocking))

    def release(self) -> None:
        self._lock.release()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def _reset_all() -> None:
    # A copy, for after_fork() may make objects that register themselves, as the threads of async tools do.
    for owner in list(_owners):
        owner.after_fork()
    for table in _tables:
        table.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_all)

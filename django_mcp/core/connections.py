"""The database connections of threads that Django does not know, and so does not look after."""

import time
from collections.abc import Sequence

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

IDLE_SECONDS = 5.0
"""A thread that slept longer asks its database connections whether they are still alive."""
KEEP_SECONDS = 600.0
"""How long a connection is kept where CONN_MAX_AGE is 0, which under threads of our own would reconnect each call."""


def refresh_connections(idle: float) -> Sequence[BaseDatabaseWrapper]:
    """This thread's database connections, with those closed that are broken, too old, or dead after *idle* seconds."""
    known = connections.all(initialized_only=True)
    for each in known:
        if each.connection is None or each.in_atomic_block:
            continue
        if each.errors_occurred or idle > IDLE_SECONDS or _is_old(each):
            if _is_old(each) or not each.is_usable():
                each.close()
            each.errors_occurred = False
    return known


def pooled_aliases() -> Sequence[str]:
    """Return the aliases of databases whose connections come from a pool (psycopg's, ``OPTIONS["pool"]``)."""
    return [alias for alias in connections if connections.settings[alias].get("OPTIONS", {}).get("pool")]


def give_back(aliases: Sequence[str]) -> None:
    """Put this thread's connections back into their pools, as Django does at the end of each request.

    A thread that kept one while it waits for work would take it from the site's own pages.
    """
    for each in connections.all(initialized_only=True):
        if each.alias in aliases and not each.in_atomic_block:
            each.close()


def _is_old(wrapper: BaseDatabaseWrapper) -> bool:
    if wrapper.close_at is None:
        return False
    keep = KEEP_SECONDS if wrapper.settings_dict["CONN_MAX_AGE"] == 0 else 0.0
    return time.monotonic() >= wrapper.close_at + keep

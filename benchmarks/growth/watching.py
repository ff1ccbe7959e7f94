"""Every statement that real calls send to the database, whatever thread sends it, with its parameters and its time.

Django's ``CaptureQueriesContext`` sees the connection of one thread; a call uses those of several.
"""

import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from django.db import connection, connections
from django.db.backends.signals import connection_created

_KINDS = ("SELECT", "INSERT", "UPDATE", "DELETE", "WITH")
_LIST = re.compile(r"\((?:%s, )+%s\)")
_ROWS = re.compile(r"\(\.\.\.\)(?:, \(\.\.\.\))+")
_here = threading.local()


@contextmanager
def unseen() -> Iterator[None]:
    """What this thread sends is the benchmark's own, and not looked at."""
    _here.is_own = True
    try:
        yield
    finally:
        _here.is_own = False


@dataclass
class Seen:
    """A statement, as often as it was sent.

    Attributes:
        sql: with placeholders, as it was sent last; lists in it may have had other lengths before.
        parameters: of the last time.
        seconds: how long each took, as whoever sent it saw it.
        callers: names of what led to it.
    """

    sql: str
    parameters: Any
    seconds: list[float] = field(default_factory=list)
    callers: set[str] = field(default_factory=set)

    @property
    def reads(self) -> bool:
        """Whether it may be sent again without changing anything."""
        return self.sql.lstrip().startswith("SELECT") and "FOR UPDATE" not in self.sql and "set_config" not in self.sql


class Watch:
    """Sees what all connections of this process send, while somebody looks."""

    def __init__(self) -> None:
        self.seen: dict[str, Seen] = {}
        self._caller = ""

    def begin(self) -> None:
        """Look at all connections from now on, those that are open in this thread too."""
        connection_created.connect(self._install, dispatch_uid="benchmarks.growth")
        for each in connections.all():
            self._install(each)

    def forget(self) -> None:
        """Begin anew."""
        self.seen = {}

    @contextmanager
    def on(self, caller: str) -> Iterator[None]:
        """While this lasts what is sent is kept, under a name."""
        self._caller = caller
        try:
            yield
        finally:
            self._caller = ""

    def _install(self, connection: Any, **_: Any) -> None:
        if self._note not in connection.execute_wrappers:
            connection.execute_wrappers.append(self._note)

    def _note(self, execute: Any, sql: str, parameters: Any, many: bool, context: Any) -> Any:
        caller = self._caller
        start = time.perf_counter()
        try:
            return execute(sql, parameters, many, context)
        finally:
            seconds = time.perf_counter() - start
            is_own = getattr(_here, "is_own", False)
            if caller and not is_own and not many and sql.lstrip().startswith(_KINDS):
                seen = self.seen.setdefault(shape(sql), Seen(sql, parameters))
                seen.sql, seen.parameters = sql, parameters
                seen.seconds.append(seconds)
                seen.callers.add(caller)


def shape(sql: str) -> str:
    """A statement without the lengths of its lists, which differ from call to call."""
    return _ROWS.sub("(...)", _LIST.sub("(...)", sql))


def again(seen: Seen, times: int) -> list[float]:
    """How many seconds a statement takes that only reads, to the last of its rows."""
    found = []
    for _ in range(times):
        start = time.perf_counter()
        with connection.cursor() as cursor:
            cursor.execute(seen.sql, seen.parameters)
            cursor.fetchall()
        found.append(time.perf_counter() - start)
    return found

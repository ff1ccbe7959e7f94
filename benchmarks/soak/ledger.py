"""What was sent and what came of it, and when something was away: all that is judged at the end."""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum


class Outcome(StrEnum):
    """What came of one request, or of a conversation of several."""

    OK = "answered"
    """The right answer; for bad input, the refusal that belongs to it."""
    TOLD = "refused"
    """An honest error: HTTP 5xx, a JSON-RPC error, a tool's error."""
    CLOSED = "closed"
    """The connection could not be made, or ended before the answer."""
    SILENT = "silent"
    """Nothing, for as long as a client waits."""
    WRONG = "wrong"
    """An answer that is neither right nor an error."""


class Rows(StrEnum):
    """How many rows a call may have left."""

    ONE_IF_OK = "one if it was answered, at most one otherwise"
    NONE = "none, whatever it was told"
    ANY = "at most one"
    NOT_COUNTED = "it writes none"


@dataclass(slots=True)
class Entry:
    """One thing that a client did.

    Attributes:
        kind: what it was, with the era.
        ports: of the workers in which it ran; their death is an excuse.
        began, ended: seconds of ``time.monotonic``.
        uid: what the row and the log have of it; empty where there is nothing to find.
        tool: where it is to be in the log of calls, under which name.
        logged: with which outcome it is there if it was answered.
        repeated: the log may have it several times.
        insists: it was sent until it was answered, for longer than anything is away.
    """

    kind: str
    ports: tuple[int, ...]
    began: float
    ended: float
    outcome: Outcome
    detail: str = ""
    uid: str = ""
    rows: Rows = Rows.NOT_COUNTED
    tool: str = ""
    logged: str = "ok"
    repeated: bool = False
    insists: bool = False


NAMES = {
    "worker": "worker at {port} killed",
    "redis": "redis restarted",
    "postgresql": "postgresql restarted",
    "backends": "backends terminated",
    "lock": "tables locked",
    "disk": "disk full",
}
"""For people, by kind."""


@dataclass(slots=True)
class Fault:
    """Something that was made to fail.

    Attributes:
        kind: one of ``faults.KINDS``.
        port: of the worker.
        began: seconds of ``time.monotonic``; when it was ended.
        healed: when it answered again, for everybody.
        grace: seconds after that in which others may still be finding out.
    """

    kind: str
    began: float
    port: int | None = None
    healed: float = float("inf")
    grace: float = 0.0

    @property
    def name(self) -> str:
        """For people."""
        return NAMES[self.kind].format(port=self.port)

    def overlaps(self, entry: Entry) -> bool:
        """Whether it was going on at any moment of the entry's time."""
        return entry.began <= self.healed + self.grace and entry.ended >= self.began

    def excuses(self, entry: Entry) -> bool:
        """Whether the entry need not have been answered.

        Without Redis everything goes on, and behind a lock everything waits, so these excuse nothing.
        That a call is never answered, however often
        it is sent or however long its client waits, is excused by the death of the worker in which it ran alone.
        """
        if self.kind in {"redis", "lock"} or not self.overlaps(entry) or entry.outcome is Outcome.WRONG:
            return False
        if self.kind == "worker":
            return self.port in entry.ports
        return entry.outcome is not Outcome.SILENT and not entry.insists


@dataclass
class Ledger:
    """All of a run."""

    entries: list[Entry] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    heard: list[tuple[float, float]] = field(default_factory=list)
    """Of each change that a listener waited for: when it was announced, and after how many seconds it was heard."""
    resumptions: int = 0
    """How often a stream was taken up with ``Last-Event-ID``."""

    def add(self, entry: Entry) -> Entry:
        """Note an entry."""
        self.entries.append(entry)
        return entry

    @contextmanager
    def fault(self, kind: str, grace: float, port: int | None = None) -> Iterator[Fault]:
        """Note a fault, for as long as the block takes."""
        made = Fault(kind, time.monotonic(), port, grace=grace)
        self.faults.append(made)
        yield made
        made.healed = time.monotonic()


def excuse(entry: Entry, faults: Iterable[Fault]) -> Fault | None:
    """The fault that explains why an entry was not answered; None where nothing does."""
    return next((fault for fault in faults if fault.excuses(entry)), None)

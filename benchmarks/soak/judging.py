"""What a ledger and the rows that were found afterwards say about a run. Nothing here talks to anybody."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from benchmarks.soak.ledger import Entry, Ledger, Outcome, Rows, excuse

Logged = Mapping[tuple[str, str, str], int]
"""How many rows the log has of a tool, an id and an outcome."""

LONGEST_DETAIL = 1000


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that must not be."""

    what: str
    """One of a few words, by which problems are counted."""
    entry: Entry
    detail: str = ""

    def __str__(self) -> str:
        entry = self.entry
        detail = (self.detail or entry.detail)[:LONGEST_DETAIL]
        where = ",".join(map(str, entry.ports))
        took = f"within {entry.ended - entry.began:.2f} s"
        return f"{self.what}: {entry.kind} {entry.uid} at {where}, {entry.outcome} {took}: {detail}"


def unanswered(ledger: Ledger) -> Iterator[Problem]:
    """Requests that have no right answer, and nothing that would explain it."""
    names = {Outcome.SILENT: "no answer", Outcome.WRONG: "wrong answer"}
    for entry in ledger.entries:
        if entry.outcome is not Outcome.OK and excuse(entry, ledger.faults) is None:
            yield Problem(names.get(entry.outcome, "lost answer"), entry)


def effects(ledger: Ledger, rows: Mapping[str, int]) -> Iterator[Problem]:
    """Calls that left more rows than they may, or fewer than they said.

    Args:
        ledger: of the run.
        rows: how many there are of each id.
    """
    for entry in ledger.entries:
        if entry.rows is Rows.NOT_COUNTED:
            continue
        found = rows.get(entry.uid, 0)
        if found > 1:
            yield Problem("ran twice", entry, f"{found} rows")
        elif found and entry.rows is Rows.NONE:
            yield Problem("not rolled back", entry, "it left a row")
        elif not found and entry.rows is Rows.ONE_IF_OK and entry.outcome is Outcome.OK:
            yield Problem("told ok, and no row", entry)


def unlogged(ledger: Ledger, logged: Logged) -> Iterator[Problem]:
    """Calls that were answered, and are not in the log as often as they were made."""
    for entry in ledger.entries:
        if not entry.tool or entry.outcome is not Outcome.OK:
            continue
        found = logged.get((entry.tool, entry.uid, entry.logged), 0)
        if not found:
            yield Problem("answered, and not in the log", entry)
        elif found > 1 and not entry.repeated:
            yield Problem("in the log twice", entry, f"{found} rows")


def unknown(ledger: Ledger, rows: Mapping[str, int]) -> list[str]:
    """Ids of rows that nobody asked for."""
    return sorted(set(rows) - {entry.uid for entry in ledger.entries})


def problems(ledger: Ledger, rows: Mapping[str, int], logged: Logged) -> list[Problem]:
    """All of them."""
    return [*unanswered(ledger), *effects(ledger, rows), *unlogged(ledger, logged)]


@dataclass(frozen=True, slots=True)
class Undecided:
    """Calls that were not answered, which is what is not promised: how many of them had an effect.

    Attributes:
        unlogged: how many of these are not in the log: the process died, or the log failed, between the two.
    """

    calls: int
    with_row: int
    unlogged: int = 0


def undecided(ledger: Ledger, rows: Mapping[str, int], logged: Logged | None = None) -> dict[str, Undecided]:
    """By what their clients were told."""
    calls: Counter[str] = Counter()
    with_row: Counter[str] = Counter()
    unlogged: Counter[str] = Counter()
    known = {uid for _, uid, _ in logged or ()}
    for entry in ledger.entries:
        if entry.rows is Rows.ONE_IF_OK and entry.outcome is not Outcome.OK:
            calls[entry.outcome] += 1
            with_row[entry.outcome] += bool(rows.get(entry.uid))
            unlogged[entry.outcome] += bool(rows.get(entry.uid)) and logged is not None and entry.uid not in known
    return {outcome: Undecided(calls[outcome], with_row[outcome], unlogged[outcome]) for outcome in sorted(calls)}

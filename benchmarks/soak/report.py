"""The end of a soak, in words and tables."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from benchmarks.measurement import quantile
from benchmarks.soak.faults import Recovery
from benchmarks.soak.judging import Problem, Undecided
from benchmarks.soak.ledger import Entry, Fault, Ledger, Outcome, excuse
from benchmarks.soak.samples import BOUNDS, Series

MAX_SHOWN = 25
"""Problems that are printed one by one."""
HEADS = ("what", "sent", *(outcome.value for outcome in Outcome), "p50 ms", "p99 ms")

PROMISES = """\
What holds for every call, and was checked for each:
  answered        its row is there, once, and so is its row in the log of calls.
  refused, closed its row is there once or not at all: whoever must know repeats it under an idempotency key, or looks.
  tool failed     what it wrote was rolled back.
  given up        what it wrote was rolled back, whether its client hung up or said so.
  with a key      sent again until it was answered: one row. After the death of a worker in the middle of it, the
                  answer may be that it was begun and has no result, for as long as the key is kept."""


def table(rows: Sequence[Sequence[str]]) -> str:
    """Columns, the first to the left and the others to the right."""
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    lines = []
    for row in rows:
        first, *others = (
            cell.ljust(width) if place == 0 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        lines.append("  ".join([first, *others]).rstrip())
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)


def traffic(ledger: Ledger) -> str:
    """What was sent, by kind, and what came of it."""
    kinds: defaultdict[str, list[Entry]] = defaultdict(list)
    for entry in ledger.entries:
        kinds[entry.kind].append(entry)
    rows: list[Sequence[str]] = [HEADS]
    for kind, entries in [*sorted(kinds.items()), ("all", ledger.entries)]:
        outcomes = Counter(entry.outcome for entry in entries)
        times = sorted(1000 * (entry.ended - entry.began) for entry in entries if entry.outcome is Outcome.OK)
        counts = [f"{outcomes[outcome]:,}" if outcomes[outcome] else "" for outcome in Outcome]
        rows.append(
            (kind, f"{len(entries):,}", *counts, f"{quantile(times, 0.5):,.0f}", f"{quantile(times, 0.99):,.0f}")
        )
    return table(rows)


def faults(ledger: Ledger, recoveries: Sequence[Recovery], ports: Sequence[int]) -> str:
    """Each fault, and how long it took until all was well."""
    rows: list[Sequence[str]] = [
        ("fault", "at s", "away s", "good answers after s, by worker", "not answered meanwhile")
    ]
    for each in recoveries:
        good = " ".join(f"{each.good[port]:.2f}" if port in each.good else "-" for port in ports)
        hurt = sum(
            entry.outcome is not Outcome.OK and excuse(entry, [each.fault]) is not None for entry in ledger.entries
        )
        name = f"worker {ports.index(each.fault.port) + 1} killed" if each.fault.port else each.fault.name
        rows.append((name, f"{each.at:.0f}", f"{each.away:.2f}", good, f"{hurt:,}"))
    return table(rows)


def growth(every: Sequence[Series]) -> str:
    """What processes held, by thirds of their lives."""
    rows: list[Sequence[str]] = [("who", "what", "samples", "first third", "middle", "last", "at most", "")]
    for series in every:
        if not series.is_long_enough:
            continue
        bound = BOUNDS[series.figure]
        thirds = series.thirds
        shown = (bound.show(each) for each in (*thirds, bound.most(thirds[1])))
        rows.append((series.whose, series.figure, str(len(series.values)), *shown, "GROWS" if series.grows else "ok"))
    short = {series.whose for series in every if not series.is_long_enough}
    note = f"\nNot judged, for they lived too shortly: {', '.join(sorted(short))}." if short else ""
    if not any(series.figure == "memory" for series in every):
        note += "\nNot looked at: memory, threads and open files, for which there is no /proc here."
    return table(rows) + note if len(rows) > 1 else f"No process lived long enough to be judged.{note}"


def changes(ledger: Ledger) -> str:
    """How soon changes were heard: in peace, and while something was away."""
    peaceful: list[float] = []
    others: list[float] = []
    for at, seconds in ledger.heard:
        near = any(fault.began - 1 <= at <= fault.healed + 2 for fault in ledger.faults)
        (others if near else peaceful).append(1000 * seconds)
    return "\n".join(
        f"Changes heard {when}: {len(times):,}; after {quantile(sorted(times), 0.5):,.0f} ms (median), "
        f"{quantile(sorted(times), 0.99):,.0f} ms (p99), {max(times, default=0.0):,.0f} ms (the last)."
        for when, times in (("in peace", peaceful), ("near a fault", others))
    )


def silence(ledger: Ledger) -> str:
    """What was never answered, and why."""
    silent = Counter(
        f"{entry.kind} ({fault.name})"
        for entry in ledger.entries
        if entry.outcome is Outcome.SILENT and (fault := excuse(entry, ledger.faults)) is not None
    )
    if not silent:
        return "Nothing was left without an answer for as long as clients wait."
    return "Never answered, for what ran it is dead: " + "; ".join(f"{kind}: {n:,}" for kind, n in silent.items()) + "."


def leftovers(found: Mapping[str, Undecided]) -> str:
    """Calls whose clients were not told whether they were made."""
    if not found:
        return "Every call that writes was answered."
    parts = (
        f"{name}: {each.calls:,}, of which {each.with_row:,} had been made, {each.unlogged:,} without a row in the log"
        for name, each in found.items()
    )
    return f"Calls that write and were not answered: {'; '.join(parts)}."


def complaints(problems: Sequence[Problem], others: Sequence[str], faults: Sequence[Fault] = ()) -> Iterator[str]:
    """What must not be, by its kind, and the first few in full, with the last fault before each."""
    for what, count in Counter(problem.what for problem in problems).most_common():
        yield f"FAILED {what}: {count:,}"
    for problem in problems[:MAX_SHOWN]:
        before = [fault for fault in faults if fault.began <= problem.entry.ended]
        since = f", {problem.entry.ended - before[-1].began:.1f} s after: {before[-1].name}" if before else ""
        yield f"  {problem}{since}"
    if len(problems) > MAX_SHOWN:
        yield f"  and {len(problems) - MAX_SHOWN:,} more"
    yield from (f"FAILED {other}" for other in others)

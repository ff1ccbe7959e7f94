"""What a process has in memory, and what it has computed, as Linux counts it."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Memory:
    """In bytes.

    Attributes:
        rss: all that it has in memory.
        pss: the same, with what it shares divided by those who share it.
        uss: what would be free if it ended.
    """

    rss: int
    pss: int
    uss: int


def memory_of(pid: int) -> Memory | None:
    """Of a process; None where the system does not tell."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    except OSError:
        return None
    found = {name: 1024 * int(value.split()[0]) for name, _, value in (line.partition(":") for line in lines)}
    return Memory(found["Rss"], found["Pss"], found["Private_Clean"] + found["Private_Dirty"])


def computed(pid: int) -> float | None:
    """Seconds of processor time that a process has used; None where the system does not tell."""
    try:
        found = [path.read_text().split()[0] for path in Path(f"/proc/{pid}/task").glob("*/schedstat")]
    except OSError:
        return None
    return sum(map(int, found)) / 1e9 if found else None

"""What a process has in memory, and how long it was computing, where ``/proc`` tells."""

import os
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes of a process.

    Attributes:
        rss: all that is in memory.
        pss: the same, with its share alone of what it shares with others.
        uss: what is its own.
    """

    rss: int
    pss: int
    uss: int

    def __sub__(self, other: "Memory") -> "Memory":
        return Memory(self.rss - other.rss, self.pss - other.pss, self.uss - other.uss)

    def each(self, count: int) -> tuple[float, float, float]:
        """KiB for each of *count*."""
        return self.rss / 1024 / count, self.pss / 1024 / count, self.uss / 1024 / count


def parse(rollup: str) -> Memory:
    """Read ``smaps_rollup``."""
    kib: dict[str, int] = {}
    for line in rollup.splitlines():
        name, _, value = line.partition(":")
        if value.strip().endswith(" kB"):
            kib[name] = int(value.split()[0])
    return Memory(1024 * kib["Rss"], 1024 * kib["Pss"], 1024 * (kib["Private_Clean"] + kib["Private_Dirty"]))


def memory(pid: int) -> Memory:
    """Of a process, now."""
    return parse((PROC / str(pid) / "smaps_rollup").read_text())


def cpu_seconds(pid: int) -> float:
    """For how long it was computing so far."""
    fields = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

"""What one visit of the load generator to one server finds."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Measurement:
    """What one visit to one server found."""

    answers: int
    seconds: float
    p50_ms: float
    p99_ms: float
    load_busy: float
    """Share of the time that the generator itself was computing: near 1.0 it was the bottleneck."""
    errors: int
    messages: list[str]
    server_cpu: float | None = None
    """Seconds of processor time that the server used, where the system tells."""

    @property
    def rate(self) -> float:
        """Answers per second."""
        return self.answers / self.seconds if self.seconds else 0.0

    @property
    def server_busy(self) -> float | None:
        """Share of the time that the server was computing: well under 1.0, something else had its core."""
        return None if self.server_cpu is None else self.server_cpu / self.seconds

    @property
    def cpu_per_answer(self) -> float | None:
        """Seconds of the server's processor time for one answer, which other load changes less."""
        return self.server_cpu / self.answers if self.server_cpu and self.answers else None


def quantile(ordered: Sequence[float], share: float) -> float:
    """Return the smallest of the ordered values that at least ``share`` of them do not exceed."""
    if not ordered:
        return 0.0
    return ordered[max(0, -(-int(share * 10_000) * len(ordered) // 10_000) - 1)]


def group_cpu(group: int | None) -> float | None:
    """Return the processor time used by a process group so far, in seconds, where ``/proc`` tells."""
    ticks = 0
    for path in Path("/proc").glob("[0-9]*/stat") if group is not None else ():
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended meanwhile
        if int(fields[2]) == group:
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK") if ticks else None

"""What the processes hold while traffic goes on, looked at every few seconds, and whether it grows."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

MIB = 1024 * 1024
FEWEST = 30
"""Samples without which a process is not judged: a minute of them."""


@dataclass(frozen=True, slots=True)
class Bound:
    """How much more the last third of a series may have than the middle one, by their medians.

    Attributes:
        share: of the middle third.
        more: in the unit of the series.
    """

    share: float
    more: float
    unit: float = 1.0
    suffix: str = ""

    def most(self, middle: float) -> float:
        """The most that the last third may have."""
        return middle * (1 + self.share) + self.more

    def show(self, value: float) -> str:
        """A value with its unit."""
        return f"{value / self.unit:,.1f}{self.suffix}" if self.unit != 1.0 else f"{value:,.0f}"


BOUNDS = {
    "memory": Bound(0.05, 2 * MIB, MIB, " MiB"),
    "threads": Bound(0, 2),
    "open files": Bound(0, 5),
    "connections": Bound(0, 9),
}
"""By what is measured. The number of streams and calls under way differs from moment to moment, hence a few more; and
connections are those of all workers together."""


@dataclass
class Series:
    """One figure of one process, in the order of time; the first third is its warming up.

    Attributes:
        figure: a key of ``BOUNDS``.
    """

    whose: str
    figure: str
    values: list[float] = field(default_factory=list)

    @property
    def is_long_enough(self) -> bool:
        """Whether it can be judged."""
        return len(self.values) >= FEWEST

    @property
    def thirds(self) -> tuple[float, float, float]:
        """The median of each third."""
        third = len(self.values) // 3
        first, middle, last = self.values[:third], self.values[third : 2 * third], self.values[2 * third :]
        return median(first), median(middle), median(last)

    @property
    def grows(self) -> bool:
        """Whether its last third is beyond the bound."""
        _, middle, last = self.thirds
        return last > BOUNDS[self.figure].most(middle)


def growing(every: Sequence[Series]) -> Iterator[Series]:
    """Those that grow."""
    return (series for series in every if series.is_long_enough and series.grows)


def look(pid: int) -> dict[str, float] | None:
    """Memory in bytes, threads and open files of a process; None where it is gone, or the system does not tell."""
    process = Path(f"/proc/{pid}")
    try:
        status = (process / "status").read_text()
        fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
        return {
            "memory": 1024.0 * int(fields["VmRSS"].split()[0]),
            "threads": float(fields["Threads"]),
            "open files": float(len(list((process / "fd").iterdir()))),
        }
    except (OSError, KeyError):
        return None

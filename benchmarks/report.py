"""From measurements to what is said about them: ratios within a round, medians, tables."""

import datetime as dt
import importlib.metadata
import os
import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from statistics import median

from benchmarks.measurement import Measurement
from benchmarks.targets import Target

Round = Mapping[str, Measurement]
"""What one round measured, by the target's name. A target that failed is missing."""

PACKAGES = ("Django", "mcp", "pydantic", "uvicorn", "uvloop", "httptools", "daphne", "gunicorn")
_BUSY = 0.9


@dataclass(frozen=True, slots=True)
class Ratio:
    """How many times the rate of another target: the median over rounds, and how far the rounds lie apart."""

    median: float
    least: float
    most: float

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.least:.2f} - {self.most:.2f})"


@dataclass(frozen=True, slots=True)
class Row:
    """What is reported of one target."""

    target: Target
    ratio: Ratio | None
    rate: float
    p50_ms: float
    p99_ms: float
    load_busy: float
    rounds: int
    cpu_ratio: Ratio | None = None
    cpu_us: float | None = None
    server_busy: float | None = None
    p99_ratio: Ratio | None = None

    @property
    def too_late(self) -> bool:
        """Whether the slowest answers take longer than promised, or nobody knows."""
        if self.target.p99_at_most is None:
            return False
        return self.p99_ratio is None or self.p99_ratio.median > self.target.p99_at_most

    @property
    def too_slow(self) -> bool:
        """Whether the ratio is under the one promised, or could not be found."""
        if self.target.at_least is None:
            return False
        return self.ratio is None or self.ratio.median < self.target.at_least

    @property
    def disturbed(self) -> bool:
        """Whether the server was kept from computing: by something else on its core, or by waiting."""
        return self.server_busy is not None and self.server_busy < _BUSY


def ratio(
    rounds: Iterable[Round],
    name: str,
    relative_to: str,
    value: Callable[[Measurement], float | None] = attrgetter("rate"),
) -> Ratio | None:
    """Compare a value of two targets within each round that measured both."""
    pairs = [
        (value(found[name]), value(found[relative_to])) for found in rounds if name in found and relative_to in found
    ]
    ratios = [ours / theirs for ours, theirs in pairs if ours is not None and theirs]
    return Ratio(median(ratios), min(ratios), max(ratios)) if ratios else None


def _per_cpu(measurement: Measurement) -> float | None:
    cost = measurement.cpu_per_answer
    return 1 / cost if cost else None


def rows(targets: Iterable[Target], rounds: Sequence[Round]) -> list[Row]:
    """Sum up each target over all rounds."""
    return [_row(target, rounds) for target in targets]


def _row(target: Target, rounds: Sequence[Round]) -> Row:
    found = [measured[target.name] for measured in rounds if target.name in measured]
    if not found:
        return Row(target, None, 0.0, 0.0, 0.0, 0.0, 0)
    return Row(
        target,
        ratio(rounds, target.name, target.relative_to),
        rate=median(m.rate for m in found),
        p50_ms=median(m.p50_ms for m in found),
        p99_ms=median(m.p99_ms for m in found),
        load_busy=median(m.load_busy for m in found),
        rounds=len(found),
        cpu_ratio=ratio(rounds, target.name, target.relative_to, _per_cpu),
        cpu_us=_median_of_known(m.cpu_per_answer and m.cpu_per_answer * 1e6 for m in found),
        server_busy=_median_of_known(m.server_busy for m in found),
        p99_ratio=ratio(rounds, target.name, target.relative_to, attrgetter("p99_ms")),
    )


def _median_of_known(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


HEADINGS = (
    "target",
    "ratio (min - max)",
    "to",
    "at least",
    "aim",
    "per CPU",
    "req/s",
    "CPU us",
    "p50 ms",
    "p99 ms",
    "p99 ratio",
    "server",
    "load",
)
_LEFT = 3


def cells(row: Row) -> tuple[str, ...]:
    """Return a row's cells as text."""
    at_least = f"{row.target.at_least:.1f}" if row.target.at_least else ""
    aim = f"{row.target.aim:.1f}" if row.target.aim else ""
    if not row.rounds:
        return (row.target.name, "failed", row.target.relative_to, at_least, aim, *[""] * (len(HEADINGS) - 5))
    return (
        row.target.name,
        str(row.ratio) if row.ratio else "?",
        row.target.relative_to,
        at_least + (" MISSED" if row.too_slow else ""),
        aim,
        f"{row.cpu_ratio.median:.2f}" if row.cpu_ratio else "",
        f"{row.rate:,.0f}",
        f"{row.cpu_us:,.0f}" if row.cpu_us else "",
        f"{row.p50_ms:.2f}",
        f"{row.p99_ms:.2f}",
        (f"{row.p99_ratio.median:.2f}" if row.p99_ratio else "") + (" MISSED" if row.too_late else ""),
        "" if row.server_busy is None else f"{row.server_busy:.0%}" + ("?" if row.disturbed else ""),
        f"{row.load_busy:.0%}" + ("!" if row.load_busy > _BUSY else ""),
    )


def text_table(table: Sequence[Row]) -> str:
    """Return the table for a terminal."""
    lines = [HEADINGS, *map(cells, table)]
    aligned = [column < _LEFT for column in range(len(HEADINGS))]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if left else cell.rjust(width)
            for cell, width, left in zip(line, widths, aligned, strict=True)
        ).rstrip()
        for line in lines
    )


def markdown_table(table: Sequence[Row]) -> str:
    """Return the table as Markdown."""
    lines = [HEADINGS, ("---",) * _LEFT + ("--:",) * (len(HEADINGS) - _LEFT), *map(cells, table)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def legend(count: int, seconds: float, connections: int, seed: int) -> str:
    """Say how to read the table."""
    return (
        f"Medians of {count} rounds of {seconds:g} s for each target, {connections} connections, seed {seed}. "
        'A ratio is taken within a round. "per CPU" is the same ratio for answers per second of the '
        "server's own processor time, which other load on the machine changes less. "
        '"p99 ratio" is that of the 99th percentiles of the time to an answer, where less is better. '
        '"server" and "load" are the shares of the time that they were computing: a server with ? did not '
        "have its core for itself or was waiting; a load generator with ! was the bottleneck."
    )


def facts(pinned: bool) -> list[tuple[str, str]]:
    """Return what the figures depend on."""
    versions = []
    for package in PACKAGES:
        try:
            versions.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            versions.append(f"no {package}")
    return [
        ("date", dt.datetime.now(tz=dt.UTC).date().isoformat()),
        ("processor", _processor()),
        (
            "cores",
            f"{os.cpu_count()}; "
            + ("servers pinned to one, load generator to another" if pinned else "NOT PINNED, shared by all"),
        ),
        ("system", f"{platform.system()} {platform.release()}, {platform.machine()}"),
        ("Python", f"{platform.python_implementation()} {platform.python_version()}"),
        ("packages", ", ".join(versions)),
    ]


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or "unknown")


def markdown(table: Sequence[Row], how: str, about: Iterable[tuple[str, str]]) -> str:
    """Return the whole report as Markdown."""
    listed = "\n".join(f"* {name}: {value}" for name, value in about)
    return f"{markdown_table(table)}\n\n{how}\n\n{listed}\n"

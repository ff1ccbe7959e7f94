"""One, two and four workers behind nginx under the load generator, in random order within each round."""

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.measurement import Measurement
from benchmarks.process import ProcessFailedError, run
from benchmarks.scale.stage import Stage

SHAPES = {"modern call": "full-modern-add", "legacy call in a session": "full-legacy-add"}
WARM_UP = 0.5
"""Seconds of load before each measurement, after which all threads and connections are there."""


@dataclass(frozen=True)
class Visit:
    """One measurement of so many workers.

    Attributes:
        rate: answers per second.
        workers_cpu, nginx_cpu, database_cpu: seconds of processor time for each answer.
        busy: share of all processors' time that was in use, by whatever.
    """

    rate: float
    p50_ms: float
    p99_ms: float
    workers_cpu: float
    nginx_cpu: float
    database_cpu: float
    busy: float


@dataclass(frozen=True)
class Row:
    """So many workers under one shape of request: medians over the rounds."""

    shape: str
    workers: int
    ratio: float
    least: float
    most: float
    cpu_ratio: float
    visit: Visit


def measure(stage: Stage, rounds: int, seconds: float, connections: int, say: Callable[[str], None]) -> list[Row]:
    """Visit each number of workers with each shape, in every round.

    Raises:
        ProcessFailedError: an answer was wrong.
    """
    visits = [(shape, size) for shape in SHAPES for size in stage.ports]
    found: list[dict[tuple[str, int], Visit]] = []
    for number in range(1, rounds + 1):
        say(f"round {number} of {rounds}")
        order = random.Random(number).sample(visits, k=len(visits))
        found.append({(shape, size): _visit(stage, shape, size, seconds, size * connections) for shape, size in order})
    return [_row(found, shape, size) for shape, size in visits]


def _visit(stage: Stage, shape: str, size: int, seconds: float, connections: int) -> Visit:
    _load(stage.ports[size], SHAPES[shape], WARM_UP, connections)
    before = stage.cpu(size)
    busy_before = machine()
    found = _load(stage.ports[size], SHAPES[shape], seconds, connections)
    busy_after = machine()
    after = stage.cpu(size)
    used = [(later - sooner) / found.answers for later, sooner in zip(after, before, strict=True)]
    computed, passed = (later - sooner for later, sooner in zip(busy_after, busy_before, strict=True))
    busy = computed / passed if passed else 0.0
    return Visit(found.rate, found.p50_ms, found.p99_ms, used[0], used[1], used[2], busy)


def _load(port: int, shape: str, seconds: float, connections: int) -> Measurement:
    options = {"--port": port, "--shape": shape, "--connections": connections, "--warm-up": 0, "--seconds": seconds}
    words = ["benchmarks.load", *(str(word) for pair in options.items() for word in pair)]
    found = Measurement(**json.loads(run(words, None, {}, within=seconds + 30)))
    if found.errors:
        raise ProcessFailedError(f"{found.errors} errors: {'; '.join(found.messages)}")
    return found


def machine() -> tuple[float, float]:
    """Ticks in which the machine's processors computed so far, and all of them; 0 where ``/proc`` does not tell."""
    try:
        ticks = [int(each) for each in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    except OSError:
        return 0.0, 0.0
    return float(sum(ticks) - ticks[3] - ticks[4]), float(sum(ticks))


def _row(found: Sequence[dict[tuple[str, int], Visit]], shape: str, size: int) -> Row:
    least = min(size for _, size in found[0])
    pairs = [(each[shape, size], each[shape, least]) for each in found]
    ratios = [one.rate / base.rate for one, base in pairs]
    cpu = [base.workers_cpu / one.workers_cpu for one, base in pairs]
    names = Visit.__dataclass_fields__
    middle = Visit(*(median(getattr(one, name) for one, _ in pairs) for name in names))
    return Row(shape, size, median(ratios), min(ratios), max(ratios), median(cpu), middle)


def markdown(rows: Sequence[Row]) -> str:
    """A table."""
    speed = ("ratio (min - max)", "per CPU", "req/s", "p50 ms", "p99 ms")
    heads = ("calls", "workers", *speed, "workers us", "nginx us", "database us", "machine")
    lines = [f"| {' | '.join(heads)} |", "| --- | --: | --- |" + " --: |" * 8]
    for each in rows:
        visit = each.visit
        ratio = f"{each.ratio:.2f} ({each.least:.2f} - {each.most:.2f})"
        us = " | ".join(f"{cpu * 1e6:,.0f}" for cpu in (visit.workers_cpu, visit.nginx_cpu, visit.database_cpu))
        numbers = f"{visit.rate:,.0f} | {visit.p50_ms:.1f} | {visit.p99_ms:.1f}"
        name = f"{each.shape} | {each.workers}"
        lines.append(f"| {name} | {ratio} | {each.cpu_ratio:.2f} | {numbers} | {us} | {visit.busy:.0%} |")
    return "\n".join(lines)

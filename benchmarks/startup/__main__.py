"""Measure starts: ``python -m benchmarks.startup``, or ``make bench-startup``."""

import argparse
import random
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median

from benchmarks.process import ProcessFailedError, cores, run_to_end
from benchmarks.report import facts
from benchmarks.startup.measure import Start, start
from benchmarks.startup.sites import BARE, CALL, PYDANTIC, Site, sites

RUNS = 11
MIB = 2**20
MAX_MS, MAX_MIB = 100.0, 15.0
"""What the endpoint may add to a site that uses pydantic: to its start with the first call, and to its USS."""
AIM_MS, AIM_MIB = 40.0, 6.0

Found = Mapping[Site, Sequence[Start]]
Value = Callable[[Start], float]


def ms(found: Start) -> float:
    """Milliseconds to the first answer."""
    return found.seconds * 1000


def cpu_ms(found: Start) -> float:
    """Milliseconds of processor time until then, 0 where the system does not tell."""
    return (found.cpu or 0.0) * 1000


def memory(kind: str) -> Value:
    """MiB of a kind of memory, 0 where the system does not tell."""
    return lambda found: getattr(found.memory, kind) / MIB if found.memory else 0.0


COLUMNS: Mapping[str, Value] = {
    "ms": ms,
    "CPU ms": cpu_ms,
    "RSS": memory("rss"),
    "PSS": memory("pss"),
    "USS": memory("uss"),
}


def added(found: Found, site: Site, value: Value, to: Site = BARE) -> float:
    """How much more than another site's: the median over the runs, each compared with its own round's."""
    return median(value(own) - value(bare) for own, bare in zip(found[site], found[to], strict=True))


def table(found: Found) -> str:
    """What was measured, as Markdown."""
    heads = ["server, and what it is asked first", *COLUMNS, *(f"+ {name}" for name in COLUMNS)]
    lines = [heads, ["---", *["--:"] * (2 * len(COLUMNS))]]
    for site, starts in found.items():
        own = [f"{median(map(value, starts)):.1f}" for value in COLUMNS.values()]
        more = ["" if site is BARE else f"{added(found, site, value):+.1f}" for value in COLUMNS.values()]
        lines.append([site.name, *own, *more])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def spread(found: Found) -> str:
    """How far the runs lie apart."""
    of_each = (f"{site.name} {min(map(ms, starts)):.0f} - {max(map(ms, starts)):.0f}" for site, starts in found.items())
    return f"ms, least - most: {'; '.join(of_each)}"


def judged(found: Found) -> list[str]:
    """What was promised and not kept."""
    more_ms, more_mib = added(found, CALL, cpu_ms, PYDANTIC), added(found, CALL, memory("uss"), PYDANTIC)
    broken = []
    if more_ms > MAX_MS:
        broken.append(f"the start takes {more_ms:.0f} ms of processor time more, not {MAX_MS:.0f}")
    if more_mib > MAX_MIB:
        broken.append(f"the process has {more_mib:.1f} MiB more, not {MAX_MIB:.0f}")
    return broken


def measure(runs: int, seed: int) -> Found:
    """Start each server that often, in random order within a round; a first round warms what is kept on disk."""
    order = random.Random(seed)
    core = (cores() or (None, None))[0]
    chosen = sites()
    found: dict[Site, list[Start]] = {site: [] for site in chosen}
    with tempfile.TemporaryDirectory(prefix="benchmarks-startup-") as name:
        database = str(Path(name) / "site.sqlite3")
        variables = {"BENCH_DATABASE": database, "DJANGO_SETTINGS_MODULE": "benchmarks.startup.endpoint"}
        run_to_end("-m", "django", "migrate", "--verbosity", "0", environment=variables)
        for number in range(runs + 1):
            for site in order.sample(chosen, k=len(chosen)):
                taken = start(site, Path(name), core, database)
                if number:
                    found[site].append(taken)
            print(f"round {number} of {runs}", file=sys.stderr, flush=True)
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, report, and return the exit status: 1 for a failure, 2 for a promise not kept."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.startup", description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS, help="of each server, default %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="of the order")
    parser.add_argument("--markdown", metavar="FILE", type=Path, help="write the table there as well")
    parser.add_argument("--check", action="store_true", help="fail where more is added than promised")
    options = parser.parse_args(argv)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        found = measure(options.runs, options.seed)
    except ProcessFailedError as error:
        print(f"FAILED {error}", file=sys.stderr)
        return 1
    how = (
        f"Medians of {options.runs} starts of each server, in random order; memory in MiB. “+” is the median of the "
        f"differences to the bare site of the same round. Promised, with the first call, over the bare site with "
        f"pydantic: at most +{MAX_MS:.0f} CPU ms and +{MAX_MIB:.0f} MiB USS; "
        f"aimed at: +{AIM_MS:.0f} and +{AIM_MIB:.0f}. "
        f"It is {added(found, CALL, cpu_ms, PYDANTIC):+.0f} CPU ms and "
        f"{added(found, CALL, memory('uss'), PYDANTIC):+.1f} MiB."
    )
    about = "\n".join(f"* {name}: {value}" for name, value in facts(cores() is not None))
    report = f"{table(found)}\n\n{how}\n\n{spread(found)}\n\n{about}\n"
    print(report)
    if options.markdown:
        options.markdown.write_text(report)
    broken = judged(found)
    if broken:
        print(f"not kept: {'; '.join(broken)}")
    return 2 if options.check and broken else 0


if __name__ == "__main__":
    sys.exit(main())

"""Measure several workers behind nginx, and take one away: ``python -m benchmarks.scale``.

Needs nginx and PostgreSQL (``DATABASE_URL``); with Redis (``REDIS_URL``) workers hear of each other at once.
"""

import argparse
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from benchmarks.process import ProcessFailedError
from benchmarks.report import facts
from benchmarks.scale import faults, streams, throughput
from benchmarks.scale.stage import Stage, stage

SIZES = (1, 2, 4)
LEGEND = """\
Medians over {rounds} rounds of {seconds:g} s, {connections} connections for each worker; ratios to one behind nginx,
within a round. "per CPU" is the ratio of answers per second of the workers' own processor time: 1.0 says that a worker
costs no more beside others. "us" are microseconds of processor time for each answer; "machine" is the share of all
cores' time in use. Load generator, nginx, workers and database share {cores} cores: where "machine" is near 100% no
further worker can raise requests per second, and with more processes than cores each answer costs more. The ratio per
CPU carries over to other machines, requests per second do not."""


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="default %(default)s")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each visit, default %(default)s")
    parser.add_argument("--connections", type=int, default=16, help="for each worker, default %(default)s")
    parser.add_argument("--workers", type=int, nargs="+", default=SIZES, help="default 1 2 4")
    parser.add_argument("--markdown", metavar="FILE", type=Path, help="write the report there as well")
    parser.add_argument("--quick", action="store_true", help="few callers and calls: a smoke test, not a result")
    parser.add_argument("--only", choices=["throughput", "faults"], help="half of it")
    return parser.parse_args(argv)


def _say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


def losses(made: Stage, workers: int, crowd: faults.Crowd, problems: list[str]) -> Iterator[str]:
    """What became of calls, sessions and streams; what must not be is added to *problems*."""
    acts: dict[str, Callable[[], str]] = {
        "one worker killed": lambda: made.kill(0),
        "one worker restarted": lambda: made.restart(1),
    }
    for what, act in acts.items():
        outcome = faults.under_load(made, workers, crowd, what, act)
        problems += outcome.problems
        yield str(outcome)
        if "killed" in what:
            made.revive(0)
    for stream in (streams.dropped, streams.killed):
        try:
            yield stream(made, workers)
        except AssertionError as error:
            problems.append(f"{stream.__name__}: {error}")
            yield f"FAILED {problems[-1]}"


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, report, and return the exit status: 1 where something is missing or was lost."""
    options = _options(argv)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    problems: list[str] = []
    parts: list[str] = []
    sizes = sorted({*options.workers, 2})  # of which one may go
    try:
        with tempfile.TemporaryDirectory(prefix="benchmarks-") as name, stage(sizes, Path(name)) as made:
            if options.only != "faults":
                rows = throughput.measure(made, options.rounds, options.seconds, options.connections, _say)
                rows = [each for each in rows if each.workers in options.workers]
                parts.append(throughput.markdown(rows))
                given = {"rounds": options.rounds, "seconds": options.seconds, "connections": options.connections}
                parts.append(f"Database connections of {max(sizes)} workers: {made.connections()}.")
                parts.append(LEGEND.format(**given, cores=os.cpu_count()))
            if options.only != "throughput":
                _say("taking workers away")
                crowd = faults.Crowd(2, 3, 5) if options.quick else faults.Crowd()
                parts.append("\n".join(f"* {line}" for line in losses(made, 2, crowd, problems)))
    except ProcessFailedError as error:
        print(f"FAILED: {error}")
        return 1
    parts.append("\n".join(f"* {name}: {value}" for name, value in facts(pinned=False)))
    print("\n\n".join(["", *parts]))
    if options.markdown:
        options.markdown.write_text("\n\n".join(parts) + "\n")
    for each in problems:
        print(f"\nFAILED {each}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

"""Measure, and print tables: ``python -m benchmarks.streams --help``."""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from benchmarks.process import ProcessFailedError, cores
from benchmarks.report import facts
from benchmarks.streams.holder import KINDS, allow_many_files
from benchmarks.streams.visit import OURS, Found, Place, Plan, Slow, middle, slow_readers, visit

HEADINGS = (
    "streams",
    "RSS KiB",
    "PSS",
    "USS",
    "left",
    "left again",
    "idle CPU",
    "calls/s with",
    "without",
    "ratio",
    "per CPU",
    "told first",
    "median",
    "last",
    "open",
    "close",
)
MAX_EACH, MAX_IDLE, LEAST_RATIO = 25.0, 0.03, 0.8
"""What is promised: KiB for each stream, share of a core, speed of calls beside them."""


def cells(found: Found) -> tuple[str, ...]:
    """A row of the table."""
    rates, per_cpu = middle(found.rates), middle(found.per_cpu)
    told = [median(column) for column in zip(*found.told, strict=True)]
    return (
        f"{found.kind}, {found.count:,}",
        *(f"{kib:.1f}" for kib in found.each),
        f"{found.left[2]:.1f}",
        f"{found.again[2]:.1f}",
        f"{found.idle:.1%}",
        *(f"{rates[name]:,.0f}" if rates else "" for name in ("with", "without")),
        f"{rates['ratio']:.2f}" if rates else "",
        f"{per_cpu['ratio']:.2f}" if per_cpu else "",
        *([f"{seconds:.3f} s" for seconds in told] or [""] * 3),
        f"{found.opening:.1f} s",
        f"{found.closing:.1f} s",
    )


def markdown(every: Sequence[Found]) -> str:
    """The table."""
    lines = [HEADINGS, ("---", *["--:"] * (len(HEADINGS) - 1)), *map(cells, every)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def broken(found: Found) -> list[str]:
    """The promises that a kind of ours does not keep."""
    if found.kind not in OURS:
        return []
    ratio = middle(found.rates).get("ratio", 1.0)
    return [
        f"{found.kind}: {what}"
        for what, is_broken in (
            (f"{found.each[0]:.1f} KiB each, not {MAX_EACH:g}", found.each[0] > MAX_EACH),
            (f"{found.idle:.1%} of a core, not {MAX_IDLE:.0%}", found.idle > MAX_IDLE),
            (f"calls at {ratio:.0%} of their speed, not {LEAST_RATIO:.0%}", ratio < LEAST_RATIO),
        )
        if is_broken
    ]


def said_of(slow: Slow) -> str:
    """What clients that do not read cost, in words."""
    grown = ", ".join(f"{each / 2**20:.1f}" for each in slow.grown)
    return (
        f"{slow.streams} clients that do not read were told of {slow.told:,} changes of {slow.size:,} bytes: "
        f"after each {slow.told // len(slow.grown):,} the process was larger by {grown} MiB than before."
    )


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.streams", description=__doc__)
    plan = Plan()
    parser.add_argument("--kinds", default=",".join(KINDS), help="of streams, default %(default)s")
    parser.add_argument("--count", type=int, default=plan.count, help="of streams, default %(default)s")
    parser.add_argument("--idle", type=float, default=plan.idle, help="seconds of silence, default %(default)s")
    parser.add_argument("--rounds", type=int, default=plan.rounds, help="of calls, default %(default)s; 0 for none")
    parser.add_argument("--seconds", type=float, default=plan.seconds, help="for each, default %(default)s")
    parser.add_argument("--settle", type=float, default=plan.settle, help="seconds before a look, default %(default)s")
    parser.add_argument(
        "--slow", type=int, default=20, help="clients that do not read, default %(default)s; 0 for none"
    )
    parser.add_argument("--times", type=int, default=3000, help="changes they are told, thrice, default %(default)s")
    parser.add_argument("--check", action="store_true", help="fail where a promise is broken")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, report, and return the exit status."""
    options = _options(argv)
    most = allow_many_files()
    if most < options.count + 100:
        print(f"This system lets a process open {most} files only.", file=sys.stderr)
        return 2
    plan = Plan(options.count, options.idle, options.rounds, options.seconds, settle=options.settle)
    every: list[Found] = []
    slow = None
    with tempfile.TemporaryDirectory(prefix="benchmarks-") as directory:
        place = Place(Path(directory))
        try:
            for kind in filter(None, options.kinds.split(",")):
                print(f"{kind} …", file=sys.stderr, flush=True)
                every.append(visit(kind, plan, place))
            if options.slow:
                print("clients that do not read …", file=sys.stderr, flush=True)
                slow = slow_readers(options.slow, options.times, plan, place)
        except ProcessFailedError as error:
            print(error, file=sys.stderr)
            return 1
        finally:
            place.databases.drop()
            if every:
                print(markdown(every), end="\n\n")
    if slow is not None:
        print(said_of(slow), end="\n\n")
    print("; ".join(f"{name}: {value}" for name, value in facts(cores() is not None)))
    problems = [each for found in every for each in broken(found)]
    for each in problems:
        print(f"NOT KEPT {each}", file=sys.stderr)
    return 1 if problems and options.check else 0


if __name__ == "__main__":
    sys.exit(main())

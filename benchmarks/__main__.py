"""Run the benchmarks: ``python -m benchmarks``, or ``make bench``."""

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks import plots, report
from benchmarks.process import cores
from benchmarks.runner import Bench, Plan
from benchmarks.saved import Run
from benchmarks.targets import selected

FULL = Plan()
QUICK = Plan(rounds=2, seconds=0.5, warm_up=0.2)


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("-k", metavar="WORDS", help="only targets with one of these words in their names")
    parser.add_argument("--quick", action="store_true", help="2 rounds of 0.5 s: a smoke test, not a result")
    parser.add_argument("--rounds", type=int, help=f"default {FULL.rounds}")
    parser.add_argument("--seconds", type=float, help=f"of each visit, default {FULL.seconds:g}")
    parser.add_argument("--connections", type=int, default=FULL.connections, help="default %(default)s")
    parser.add_argument("--seed", type=int, default=FULL.seed, help="of the order and the arguments")
    parser.add_argument("--markdown", metavar="FILE", type=Path, help="write the report there as well")
    parser.add_argument("--plots", metavar="DIRECTORY", type=Path, help="draw the ratios there, as SVG")
    parser.add_argument("--json", metavar="FILE", type=Path, help="keep the run there")
    parser.add_argument("--from", dest="kept", metavar="FILE", type=Path, help="report a run that was kept; no other")
    parser.add_argument("--check", action="store_true", help="fail where a ratio is under the one promised")
    return parser.parse_args(argv)


def _plan(options: argparse.Namespace) -> Plan:
    base = QUICK if options.quick else FULL
    return Plan(
        rounds=options.rounds or base.rounds,
        seconds=options.seconds or base.seconds,
        warm_up=base.warm_up,
        connections=options.connections,
        seed=options.seed,
    )


def _say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


def _measured(options: argparse.Namespace) -> Run | None:
    plan = _plan(options)
    targets = selected(options.k)
    if not targets:
        _say(f"no target has {options.k!r} in its name")
        return None
    pinned = cores() is not None
    if not pinned:
        _say("WARNING: only one core to pin to. Server and load generator share it, and the figures mean little.")
    # A terminated run ends its servers, as an interrupted one does.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    return Run(plan, Bench(targets, plan, _say).measure(), report.facts(pinned), options.k)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, report, and return the exit status: 1 for a failed target, 2 for a promise not kept."""
    options = _options(argv)
    run = Run.load(options.kept) if options.kept else _measured(options)
    if run is None:
        return 1
    if options.json:
        run.save(options.json)
    plan, results = run.plan, run.results

    table = report.rows(selected(run.words), results.rounds)
    how = report.legend(plan.rounds, plan.seconds, plan.connections, plan.seed)
    print(f"\n{report.text_table(table)}\n\n{how}\n")
    for name, value in run.about:
        print(f"{name + ':':<11}{value}")
    disturbed = sum(row.disturbed for row in table)
    if disturbed > len(table) / 2:
        print(
            f"\nWARNING: {disturbed} of {len(table)} servers did not have their core for themselves. Something else "
            "is running here, and it need not slow all servers alike: measure again without it."
        )
    if options.markdown:
        options.markdown.write_text(report.markdown(table, how, run.about))
    if options.plots:
        plots.write(table, options.plots)
    for name, message in results.failures.items():
        print(f"\nFAILED {name}: {message}")
    if results.failures:
        return 1
    missed = _missed(table)
    return 2 if options.check and missed else 0


def _missed(table: Sequence[report.Row]) -> bool:
    """Say which promises are not kept; whether there are any."""
    slow = [row.target.name for row in table if row.too_slow]
    late = [row.target.name for row in table if row.too_late]
    if slow:
        print(f"\nunder the ratio promised: {'; '.join(slow)}")
    if late:
        print(f"\nwith a p99 over the one promised: {'; '.join(late)}")
    return bool(slow or late)


if __name__ == "__main__":
    sys.exit(main())

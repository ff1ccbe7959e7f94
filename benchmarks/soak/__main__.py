"""Keep a site busy for minutes while its workers, Redis and PostgreSQL die and come back, and judge what came of it."""

import argparse
import signal
import sys
from collections.abc import Sequence

from benchmarks.process import ProcessFailedError
from benchmarks.report import facts
from benchmarks.soak.run import Options, soaked
from benchmarks.soak.services import missing


def _options(argv: Sequence[str] | None) -> Options:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="default %(default)g")
    parser.add_argument("--workers", type=int, default=3, help="two or more; the first is never killed")
    parser.add_argument("--seed", type=int, default=0, help="of what clients do")
    given = parser.parse_args(argv)
    if given.workers < 2 or given.minutes <= 0:
        parser.error("it takes two workers or more, and some time")
    return Options(given.minutes, given.workers, seed=given.seed)


def _say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Soak, report, and return the exit status: 1 where something was not well, 2 where it cannot be run here."""
    options = _options(argv)
    if lacking := missing():
        _say("The soak needs what is not here:\n" + "\n".join(f"- {each}" for each in lacking))
        return 2
    # A terminated run ends its servers, as an interrupted one does.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        report, is_well = soaked(options, _say)
    except ProcessFailedError as error:
        _say(f"The soak could not be run: {error}")
        return 2
    print(f"\n{report}\n")
    for name, value in facts(pinned=False):
        print(f"{name + ':':<11}{value}")
    return 0 if is_well else 1


if __name__ == "__main__":
    sys.exit(main())

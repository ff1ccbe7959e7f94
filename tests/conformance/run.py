"""Run the official conformance suite against every edge: ``python -m tests.conformance.run``.

For each leg (a server, or several) and each set of requirements one line is printed, and under it all that is wrong.
The exit status is 1 if anything is.
"""

# ruff: noqa: T201 - a command speaks

import argparse
import contextlib
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.process import ProcessFailedError
from tests.conformance.judge import Verdict, judge
from tests.conformance.legs import LEGS, Leg, running
from tests.conformance.listing import missing
from tests.conformance.suite import REQUIREMENTS, Suite, SuiteError, installed
from tests.conformance.wire import WireError
from tests.real_clients.node import NoClientsError

AT_ONCE = 3
"""How many legs are run at the same time."""
TAIL = 1500
"""Characters of what the suite printed, where nothing else explains its exit status."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was asked for; the answer is the exit status."""
    asked = parser().parse_args(arguments)
    names = asked.server or list(LEGS)
    began = time.monotonic()
    try:
        suite = installed()
    except NoClientsError as error:
        print(f"The conformance suite cannot be run. {error}")
        return 1
    with folder_for_results(asked.keep) as folder:
        passed = at_once(lambda name: run_leg(name, LEGS[name], asked.requirements, suite, folder / name), names)
    failed = [name for name, good in zip(names, passed, strict=True) if not good]
    print(f"Conformance: {', '.join(failed) or 'nothing'} failed, {time.monotonic() - began:.0f} s.")
    return 1 if failed else 0


def at_once(run: Callable[[str], bool], names: Sequence[str]) -> list[bool]:
    """What *run* gives for each of *names*. The suite waits most of the time, so some are run together."""
    pool = ThreadPoolExecutor(AT_ONCE)
    try:
        return list(pool.map(run, names))
    finally:
        pool.shutdown(cancel_futures=True)


def parser() -> argparse.ArgumentParser:
    """What can be asked for."""
    made = argparse.ArgumentParser(prog="python -m tests.conformance.run", description=__doc__.splitlines()[0])
    made.add_argument("--server", action="append", choices=LEGS, help="only this leg; may be given more than once")
    made.add_argument(
        "--requirements",
        action="append",
        choices=REQUIREMENTS,
        help="only this set of scenarios; may be given more than once",
    )
    made.add_argument("--keep", type=Path, metavar="DIR", help="leave results and server logs in this folder")
    return made


@contextlib.contextmanager
def folder_for_results(keep: Path | None) -> Iterator[Path]:
    """The folder to keep, or one that goes."""
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="conformance-") as folder:
            yield Path(folder)
    else:
        keep = keep.absolute()
        keep.mkdir(parents=True, exist_ok=True)
        yield Path(tempfile.mkdtemp(prefix=time.strftime("%Y%m%d-%H%M%S-"), dir=keep))


def run_leg(name: str, leg: Leg, wanted: Sequence[str] | None, suite: Suite, folder: Path) -> bool:
    """One server, and every set of requirements against it; whether all is well."""
    if reason := leg.why_not():
        print(f"*** {name}: NOT RUN, {reason} ***", flush=True)
        return True
    folder.mkdir()
    try:
        with running(leg, folder) as url:
            # The first requests after the start, too: some scenarios give a server no time to warm up.
            if absent := missing(url):
                print(f"{name}: the fixtures are not all there", *absent, sep="\n    ", flush=True)
                return False
            passed = [run_set(name, leg, each, suite, url, folder / each) for each in wanted or REQUIREMENTS]
        passed.append(nothing_broke(name, folder))
    except (ProcessFailedError, SuiteError, WireError) as error:
        print(f"{name}: {error}", flush=True)
        return False
    return all(passed)


def run_set(name: str, leg: Leg, revision: str, suite: Suite, url: str, results: Path) -> bool:
    """One set of requirements against one server; whether it passed."""
    requirements = REQUIREMENTS[revision]
    scored = suite.scored(requirements)
    began = time.monotonic()
    status, said = suite.run(requirements, url, results)
    took = time.monotonic() - began
    verdict = judge(results, scored, requirements.minimum)
    if status and not verdict.offences:
        verdict.offences.append(f"the suite itself ended with {status}: ...{said[-TAIL:]}")
    report(f"{name} ({leg.database}) {revision}", verdict, took)
    return not verdict.offences


def nothing_broke(name: str, folder: Path) -> bool:
    """Whether the servers' logs in *folder* are without tracebacks: no client sees what breaks after its answer."""
    logs = [log.read_text(encoding="utf-8", errors="replace") for log in folder.glob("*.log")]
    broken = [log for log in logs if "Traceback" in log]
    for log in broken:
        begins = log.index("Traceback")
        print(f"{name}: a server wrote ...{log[max(0, begins - 200) : begins + 2 * TAIL]}", flush=True)
    return not broken


def report(title: str, verdict: Verdict, took: float) -> None:
    """The line, and what is wrong."""
    print(f"{title}: {verdict}, {took:.1f} s", *verdict.offences, sep="\n    ", flush=True)


if __name__ == "__main__":
    sys.exit(main())

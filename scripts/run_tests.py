"""Run the tests of ``make test``, ``make test-all`` and ``make pytest``; see ``tests/lanes.py``."""

# ruff: noqa: S603, T201 - a command-line helper talks, and runs what the lines below spell out

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

MAX_PROCESSES = 4
NOTHING_CHOSEN = 5
LEAST_COVERED = 97
"""Percent of the branches that all tests together go through."""
SERVICES = ("DATABASE_URL", "MARIADB_URL", "REDIS_URL")
ALREADY_RUN = "FAST_LANE_RUN"
"""Set by .ci/run, which has run the fast lane just before and has twenty minutes: the rest runs without it, and what is
left to the night is left out. Coverage of a part says nothing.
"""


def main(arguments: list[str]) -> int:
    """Run a lane; the answer is the exit code.

    Args:
        arguments: The lane (``fast``, ``all`` or ``chosen``), then what is for pytest, like ``-k name``.
    """
    lane, given = arguments[0], arguments[1:]
    # Many tests start processes, which would compile the package again each time.
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    if lane == "chosen":
        return pytest(given or shared(), environment)
    environment["TEST_ON"] = "sqlite"
    if lane == "fast":
        without = {key: value for key, value in environment.items() if key not in SERVICES}
        return pytest(["--fast", *shared(), *given], without)
    return everything(given, environment)


def everything(given: list[str], environment: Mapping[str, str]) -> int:
    """Run what touches a database on PostgreSQL and MariaDB, all other ways in, and everything with coverage.

    That comes last, so that its summary is the one that is printed last.
    """
    failed, is_rest = False, bool(environment.get(ALREADY_RUN))
    for service, mark in (("DATABASE_URL", "postgresql"), ("MARIADB_URL", "mariadb")):
        if environment.get(service):
            print(f"On the database of {service}: tests with the mark {mark}", flush=True)
            # .ci/run leaves to the night what NIGHTLY of tests/lanes.py and the mark name.
            which = f"{mark} and not nightly" if is_rest else mark
            files = [each for each in files_with(mark) if not (is_rest and each.startswith("tests/benchmarks/"))]
            options = ["-m", which, *shared(1), *(given or files)]  # as they wait for the server
            failed |= pytest(options, {**environment, "TEST_ON": mark}) not in {0, NOTHING_CHOSEN}
    if not is_rest:  # .ci/run leaves them to the night, but for what is in tests/behaviour/matrix.py
        print("On SQLite: every edge and version besides the first", flush=True)
        others = ["--fast", "--ways-in=others", *shared(), *given]
        failed |= pytest(others, environment) not in {0, NOTHING_CHOSEN}
    print(f"On SQLite: {'what the fast lane left out' if is_rest else 'everything, with coverage'}", flush=True)
    # Otherwise files with many tests come first, and those with the longest ones at the end.
    lane = ["--rest", "--no-loadscope-reorder"] if is_rest else ["--cov", "--cov-report=term"]
    if not (is_rest or given):
        lane.append(f"--cov-fail-under={LEAST_COVERED}")
    # Two processes more than there are processors: many of these tests wait for servers.
    return pytest([*lane, "-rfEs", *shared(2), *given], environment) or int(failed)


def files_with(mark: str) -> list[str]:
    """Return the test files that have a mark: to import all others would take long."""
    return [str(path) for path in sorted(Path("tests").rglob("test_*.py")) if f"pytest.mark.{mark}" in path.read_text()]


def shared(more: int = 0) -> list[str]:
    """Options that share the tests among processes, file by file."""
    return ["-n", str(min(os.cpu_count() or 1, MAX_PROCESSES) + more), "--dist", "loadfile"]


def pytest(arguments: list[str], environment: Mapping[str, str]) -> int:
    """Run pytest with this Python, and answer its exit code."""
    started = time.monotonic()
    code = subprocess.run([sys.executable, "-m", "pytest", *arguments], env=environment, check=False).returncode
    options = " ".join(each for each in arguments if not each.endswith(".py"))
    print(f"pytest {options}: {time.monotonic() - started:.0f} s, exit {code}", flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

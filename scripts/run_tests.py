"""Run the tests of ``make test``, ``make test-all`` and ``make pytest``; see ``tests/lanes.py``."""

# ruff: noqa: S603, T201 - a command-line helper talks, and runs what the lines below spell out

import os
import subprocess
import sys
import time
from collections.abc import Mapping

MAX_PROCESSES = 4
NOTHING_CHOSEN = 5
LEAST_COVERED = 97
"""Percent of the branches that all tests together go through."""
SERVICES = ("DATABASE_URL", "REDIS_URL")
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
    """Run what touches a database on PostgreSQL, all other ways in, and everything with coverage.

    That comes last, so that its summary is the one that is printed last.
    """
    failed = False
    if environment.get("DATABASE_URL"):
        print("On PostgreSQL: tests with the mark postgresql", flush=True)
        postgresql = {**environment, "TEST_ON": "postgresql"}
        failed |= pytest(["-m", "postgresql", *shared(), *given], postgresql) not in {0, NOTHING_CHOSEN}
    is_rest = bool(environment.get(ALREADY_RUN))
    if not is_rest:  # .ci/run leaves them to the night, but for what is in tests/behaviour/matrix.py
        print("On SQLite: every edge and version besides the first", flush=True)
        others = ["--fast", "--ways-in=others", *shared(), *given]
        failed |= pytest(others, environment) not in {0, NOTHING_CHOSEN}
    print(f"On SQLite: {'what the fast lane left out' if is_rest else 'everything, with coverage'}", flush=True)
    which = ["--rest"] if is_rest else ["--cov", "--cov-report=term"]
    if not (is_rest or given):
        which.append(f"--cov-fail-under={LEAST_COVERED}")
    # Two processes more than there are processors: many of these tests wait for servers.
    return pytest([*which, "-rfEs", *shared(2), *given], environment) or int(failed)


def shared(more: int = 0) -> list[str]:
    """Options that share the tests among processes, file by file."""
    return ["-n", str(min(os.cpu_count() or 1, MAX_PROCESSES) + more), "--dist", "loadfile"]


def pytest(arguments: list[str], environment: Mapping[str, str]) -> int:
    """Run pytest with this Python, and answer its exit code."""
    started = time.monotonic()
    code = subprocess.run([sys.executable, "-m", "pytest", *arguments], env=environment, check=False).returncode
    print(f"pytest {' '.join(arguments)}: {time.monotonic() - started:.0f} s, exit {code}", flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Run the tests of ``make test``, ``make test-all`` and ``make pytest``; see ``tests/lanes.py``."""

# ruff: noqa: S603, T201 - a command-line helper talks, and runs what the lines below spell out

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

MOST_PROCESSES = 4
NOTHING_CHOSEN = 5
SERVICES = ("DATABASE_URL", "REDIS_URL")
MEASURED = "FAST_LANE_MEASURED"
"""Set where both lanes are run one after the other: the first measures its coverage, the second runs the rest alone."""


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
        measured = ["--cov", "--cov-report="] if environment.get(MEASURED) else []
        return pytest(["--fast", *measured, *shared(), *given], without)
    return everything(given, environment)


def everything(given: list[str], environment: Mapping[str, str]) -> int:
    """Run what touches a database on PostgreSQL, all other ways in, and everything else with coverage.

    Everything comes last, so that its summary is the one that is printed last.
    """
    failed = False
    if environment.get("DATABASE_URL"):
        print("On PostgreSQL: tests with the mark postgresql", flush=True)
        postgresql = {**environment, "TEST_ON": "postgresql"}
        failed |= pytest(["-m", "postgresql", *shared(), *given], postgresql) not in {0, NOTHING_CHOSEN}
    print("On SQLite: every edge and version besides the first", flush=True)
    others = ["--fast", "--ways-in=others", *shared(), *given]
    failed |= pytest(others, environment) not in {0, NOTHING_CHOSEN}
    is_measured = bool(environment.get(MEASURED)) and Path(".coverage").exists()
    print(f"On SQLite: everything{' that the fast lane left out' if is_measured else ''}, with coverage", flush=True)
    which = ["--rest", "--cov-append"] if is_measured else []
    # One process more than there are processors: many of these tests wait for servers.
    measured = ["--cov", "--cov-report=term", "-rfEs"]
    return pytest([*which, *measured, *shared(1), *given], environment) or int(failed)


def shared(more: int = 0) -> list[str]:
    """Options that share the tests among processes, file by file."""
    return ["-n", str(min(os.cpu_count() or 1, MOST_PROCESSES) + more), "--dist", "loadfile"]


def pytest(arguments: list[str], environment: Mapping[str, str]) -> int:
    """Run pytest with this Python, and answer its exit code."""
    started = time.monotonic()
    code = subprocess.run([sys.executable, "-m", "pytest", *arguments], env=environment, check=False).returncode
    print(f"pytest {' '.join(arguments)}: {time.monotonic() - started:.0f} s, exit {code}", flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

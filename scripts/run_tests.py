"""Run the tests: those that meet a database on PostgreSQL, where there is one, and then all of them on SQLite.

All come last, so that the summary that is printed last is the whole one. Coverage is measured there alone: it takes a
third of the time again. Several processes share the tests among them, file by file, unless some were asked for.
"""

# ruff: noqa: S603, T201 - a command-line helper talks, and runs what the lines below spell out

import os
import subprocess
import sys

MEET_A_DATABASE = (
    "tests/admin",
    "tests/approvals",
    "tests/audit",
    "tests/auth",
    "tests/behaviour",
    "tests/core",
    "tests/demo",
    "tests/endpoint",
    "tests/exposure",
    "tests/live",
    "tests/oauth",
    "tests/policies",
    "tests/tasks",
)

WITH_DATABASES_OF_THEIR_OWN = "tests/tasks/workers"
MOST_PROCESSES = 4


def main(arguments: list[str]) -> int:
    """Run both parts, whatever comes of the first; the answer is the exit code.

    Args:
        arguments: For pytest, like ``-k name``.
    """
    processes = str(min(os.cpu_count() or 1, MOST_PROCESSES))
    everything = arguments or ["-n", processes, "--dist", "loadfile"]
    failed = 0
    if os.environ.get("DATABASE_URL"):
        print("On PostgreSQL:", ", ".join(MEET_A_DATABASE), flush=True)
        # 5: a -k that picks none of these.
        ours = [*MEET_A_DATABASE, f"--ignore={WITH_DATABASES_OF_THEIR_OWN}"]
        failed = pytest([*ours, *everything], TEST_ON="postgresql") not in {0, 5}
        print("On SQLite: all tests", flush=True)
    return pytest(["--cov", "--cov-report=term", "-rfEs", *everything], TEST_ON="sqlite") or int(failed)


def pytest(arguments: list[str], **environment: str) -> int:
    """Run pytest with this Python, and answer its exit code."""
    command = [sys.executable, "-m", "pytest", *arguments]
    return subprocess.run(command, env=os.environ | environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

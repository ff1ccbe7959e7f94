"""The benchmark of the admin's pages asks for every page, and says what each costs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.settings import ON_POSTGRESQL

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.postgresql
def test_every_page_is_measured_and_makes_few_queries() -> None:
    where = ["--database", f"{os.environ['DATABASE_URL']}_pages"] if ON_POSTGRESQL else []
    done = subprocess.run(  # noqa: PLW1510 - the test looks at how it ended
        [sys.executable, "-m", "benchmarks.pages", "--rows", "2500", "--rounds", "1", *where],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines() if line[:2] == "| "][
        2:
    ]
    assert len({row[0] for row in rows}) == len(rows) > 20
    assert all(row[1].endswith(" ms") for row in rows)
    # The page of one tool has the most: the tool, its policies, groups, clients and their names, whom a
    # policy matches, calls and history.
    assert {row[0]: row[3] for row in rows if not 0 < int(row[3]) < 10} in ({}, {"One tool": "12"})
    assert "All of it as CSV" in done.stdout

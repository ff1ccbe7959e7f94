"""The benchmark of long tables asks what it says it asks, and gets the right rows."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import million
from benchmarks.shelf import cases
from tests.settings import ON_POSTGRESQL

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.postgresql


def run(directory: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The benchmark with tables so short that it takes no time, on the database that the tests use."""
    where = f"{os.environ['DATABASE_URL']}_shelf" if ON_POSTGRESQL else str(directory / "shelf.sqlite3")
    return subprocess.run(  # noqa: PLW1510 - the tests look at how it ended
        [sys.executable, "-m", "benchmarks.million", "--rows", "2000", "--rounds", "1", "--database", where, *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_every_call_is_measured_and_the_database_is_gone_afterwards(tmp_path: Path) -> None:
    done = run(tmp_path)
    assert done.returncode == 0, done.stderr
    asked = (*cases.CASES, *cases.IN_FULL_TEXT) if ON_POSTGRESQL else cases.CASES
    rows = [line.split(" | ") for line in done.stdout.splitlines() if line.startswith("| ")][2:]
    assert [row[0].removeprefix("| ").removesuffix(" (scans)") for row in rows] == [case.name for case in asked]
    assert all(row[1].endswith(" ms") and row[2].endswith(" ms") for row in rows)
    assert list(tmp_path.iterdir()) == []


def test_a_plan_is_shown_below_each_statement(tmp_path: Path) -> None:
    done = run(tmp_path, "--explain", "-k", "get, by slug")
    assert done.returncode == 0, done.stderr
    name, statement, *plan = done.stdout.strip().splitlines()
    assert name == "get, by slug"
    assert statement.startswith("SELECT ")
    assert "    " + ("Limit" if ON_POSTGRESQL else "SEARCH") in plan[0]


def test_a_deep_page_that_is_another_one_is_noticed(tmp_path: Path) -> None:
    table = million.Table(None, 1000)
    case = cases.Case("deep", cases.CALL, dict, "published", 0.9)
    table.expected[case] = "right"
    answer = {"result": {"structuredContent": {"rows": [{"uri": "shelf://books/wrong"}]}}}
    with pytest.raises(SystemExit, match="expected right"):
        table._checked(case, answer)
    with pytest.raises(SystemExit, match="deep"):
        table._checked(case, {"error": {"code": -32603}})

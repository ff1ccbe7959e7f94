"""FastMCP's client and the demo's long tools."""

import hashlib
import json
import os
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.real_clients.sites import Site
from tests.real_clients.test_tasks import HEADER, NUMBERS, flight

HERE = Path(__file__).resolve().parent / "fastmcp"
PATIENCE = 120.0
INSTALLING = 600.0

Use = Callable[..., dict[str, Any]]


@pytest.fixture(scope="session")
def python() -> Path:
    """A Python that has FastMCP; its environment is made once. Without it the tests are skipped; in CI they fail."""
    wanted = HERE / "requirements.txt"
    folder = Path(sys.prefix) / "fastmcp-client" / hashlib.sha256(wanted.read_bytes()).hexdigest()[:16]
    python = folder / "bin" / "python"
    if not (folder / "complete").exists():
        venv.create(folder, with_pip=True, clear=True)
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", wanted]
        done = subprocess.run(install, capture_output=True, text=True, timeout=INSTALLING, check=False)
        if done.returncode:
            reason = f"FastMCP cannot be installed: {done.stderr[-500:]}"
            (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)
        (folder / "complete").touch()
    return python


@pytest.fixture
def use(agency_with_tasks: Site, annas_key: str, python: Path) -> Use:
    def use(**script: Any) -> dict[str, Any]:
        url = agency_with_tasks.url.replace("/mcp", "/staff/mcp")
        given = json.dumps({"url": url, "key": annas_key, "answer": {"existing": "replace"}, **script})
        command = [python, HERE / "drive.py"]
        # Away from the checkout, where a folder is called like what it imports.
        done = subprocess.run(
            command, input=given, capture_output=True, text=True, timeout=PATIENCE, check=False, cwd=python.parent
        )
        assert done.returncode == 0, done.stderr[-4000:]
        return json.loads(done.stdout)

    return use


def test_the_report_of_a_year(use: Use) -> None:
    (report,) = use(calls=[{"tool": "year_report", "arguments": {"year": 2026}}])["results"]
    assert not report["failed"]
    assert report["data"]["bookings"] > 0


def test_an_import_asks_in_the_middle_and_does_as_it_is_told(use: Use) -> None:
    number = f"ZZ{next(NUMBERS)}"
    tables = [f"{HEADER}\n{flight(number, price)}" for price in (90, 80)]
    said = use(calls=[{"tool": "import_flights", "arguments": {"table": table}} for table in tables])
    assert [each["data"] for each in said["results"]] == [
        {"added": 1, "replaced": 0, "left": 0},
        {"added": 0, "replaced": 1, "left": 0},
    ]
    assert said["asked"] == ["Already in the timetable: 1 of 1 flight. Replace or leave them?"]


def test_a_wrong_table_is_refused_at_once(use: Use) -> None:
    (refused,) = use(calls=[{"tool": "import_flights", "arguments": {"table": f"{HEADER}\nnonsense"}}])["results"]
    assert refused["failed"]
    assert "Line 2" in refused["text"]


def test_a_task_is_cancelled(use: Use, tmp_path: Path) -> None:
    said = use(tool="read_when_there", arguments={"path": str(tmp_path / "never")}, cancel_at="Waiting")
    assert said["states"][0] == "working"
    assert said["states"][-1] == "cancelled"

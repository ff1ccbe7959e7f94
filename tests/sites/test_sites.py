"""Each kind of site, visited over HTTP at both edges. A new kind is a module of settings beside this one."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.process import ROOT

ON_SQLITE = (
    "atomic_requests",
    "languages",
    "naive_times",
    "no_default",
    "replica",
    "script_name",
    "startproject",
    "uuid_users",
)
ON_POSTGRESQL = ("persistent", "pool")
SITES = [*ON_SQLITE, *(pytest.param(each, marks=pytest.mark.needs("DATABASE_URL")) for each in ON_POSTGRESQL)]

pytestmark = pytest.mark.slow


def visit(name: str, folder: Path) -> dict[str, str]:
    """What was wrong, by edge and visit."""
    done = subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", "-m", "tests.sites.visit", name],
        cwd=ROOT,
        env={**os.environ, "SITE_FOLDER": str(folder)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    wrong: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return wrong


@pytest.mark.parametrize("name", SITES)
def test_a_site_that_is_unlike_startproject_is_served_as_any_other(name: str, tmp_path: Path) -> None:
    wrong = visit(name, tmp_path)
    assert not wrong, "\n\n".join(f"{where}\n{what}" for where, what in wrong.items())


def test_a_site_on_mariadb_is_served_as_any_other(tmp_path: Path) -> None:
    try:
        socket.create_connection(("127.0.0.1", 3306), 1).close()
    except OSError:
        pytest.skip("no MariaDB or MySQL listens on 127.0.0.1:3306")
    wrong = visit("mariadb", tmp_path)
    assert not wrong, "\n\n".join(f"{where}\n{what}" for where, what in wrong.items())


def test_every_kind_of_site_is_visited() -> None:
    here = Path(__file__).parent
    modules = {path.stem for path in here.glob("*.py")} - {
        "__init__",
        "base",
        "languages_urls",
        "test_sites",
        "urls",
        "visit",
    }
    assert modules - {"mariadb", "postgresql"} == {*ON_SQLITE, *ON_POSTGRESQL}

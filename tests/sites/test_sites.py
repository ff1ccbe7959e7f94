"""Each kind of site, visited over HTTP at both edges. A new kind is a module of settings beside this one."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.process import ROOT
from tests.lanes import at_night

ON_SQLITE = (
    "atomic_requests",
    "languages",
    "middleware",
    "naive_times",
    "no_default",
    "replica",
    "script_name",
    "startproject",
    "uuid_users",
)
ON_POSTGRESQL = ("persistent", "pool")
NEEDS = {each: [pytest.mark.needs("DATABASE_URL")] for each in ON_POSTGRESQL}
EACH_TIME = ("atomic_requests", "middleware", "pool", "uuid_users")
"""Those that are visited for each change, not only at night: with most that is unlike other sites."""
SITES = [
    pytest.param(each, marks=NEEDS.get(each, [])) if each in EACH_TIME else at_night(each, *NEEDS.get(each, []))
    for each in (*ON_SQLITE, *ON_POSTGRESQL)
]

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


@pytest.mark.nightly
def test_a_site_on_mariadb_is_served_as_any_other(tmp_path: Path) -> None:
    try:
        socket.create_connection(("127.0.0.1", 3306), 1).close()
    except OSError:
        pytest.skip("no MariaDB or MySQL listens on 127.0.0.1:3306")
    wrong = visit("mariadb", tmp_path)
    assert not wrong, "\n\n".join(f"{where}\n{what}" for where, what in wrong.items())


@pytest.fixture(scope="session")
def toolkits() -> Callable[[str], Path]:
    """The folder of an older django-oauth-toolkit, downloaded once. Without it the test is skipped; in CI it fails."""

    def folder(version: str) -> Path:
        found = Path(sys.prefix) / "older-toolkits" / version
        if not (found / "oauth2_provider").exists():
            wanted = ["--no-deps", "--target", str(found), f"django-oauth-toolkit=={version}"]
            install = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *wanted]
            done = subprocess.run(install, capture_output=True, text=True, timeout=300, check=False)
            if done.returncode:
                reason = f"django-oauth-toolkit {version} cannot be installed: {done.stderr[-500:]}"
                (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)
        return found

    return folder


@pytest.mark.nightly
@pytest.mark.parametrize(("version", "swapped"), [("2.3.0", "yes"), ("1.7.1", ""), ("3.2.0", "")])
def test_a_provider_with_an_older_toolkit_is_served_as_any_other(
    version: str, swapped: str, toolkits: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(toolkits(version)))
    if swapped:
        monkeypatch.setenv("SWAPPED", swapped)
    wrong = visit("older_toolkit", tmp_path)
    assert not wrong, "\n\n".join(f"{where}\n{what}" for where, what in wrong.items())


def test_every_kind_of_site_is_visited() -> None:
    here = Path(__file__).parent
    modules = {path.stem for path in here.glob("*.py")} - {
        "__init__",
        "base",
        "languages_urls",
        "middleware_urls",
        "older_toolkit_urls",
        "test_sites",
        "urls",
        "visit",
    }
    assert modules - {"mariadb", "older_toolkit", "postgresql"} == {*ON_SQLITE, *ON_POSTGRESQL}

"""Servers are started once in a session, when first asked for, and end with it."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.real_clients.agency import Agency
from tests.real_clients.sites import COMMANDS, Site, accepts, manage


@pytest.fixture(scope="session")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite file with the demo's data."""
    path = tmp_path_factory.mktemp("agency") / "agency.sqlite3"
    manage(path, "migrate", "--verbosity", "0")
    manage(path, "load_travel", "--verbosity", "0")
    return path


@pytest.fixture(scope="session")
def agency(database: Path) -> Agency:
    """What is in the database, read without Django."""
    return Agency(database)


@pytest.fixture(scope="session")
def running(database: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Site]]:
    """Gives the server of a kind. At the end each is stopped, and has to have ended."""
    sites: dict[str, Site] = {}

    def get(kind: str) -> Site:
        if kind not in sites:
            site = Site(kind, database, tmp_path_factory.mktemp(kind) / "output.txt")
            site.start()
            sites[kind] = site
        return sites[kind]

    yield get
    for site in sites.values():
        site.stop()
    for site in sites.values():
        assert site.process is not None
        assert site.process.poll() is not None
        assert not accepts(site.port), f"something of {site.kind} still listens"
        assert "Traceback" not in site.output(), site.output()


@pytest.fixture(params=sorted(COMMANDS))
def site(request: pytest.FixtureRequest, running: Callable[[str], Site]) -> Iterator[Site]:
    """Each kind of server. What it wrote during a test is shown if the test fails."""
    site = running(request.param)
    before = len(site.output())
    yield site
    written = site.output()[before:]
    print(f"{site.kind} wrote:\n{written}")  # noqa: T201 - pytest shows it
    assert site.process is not None
    assert site.process.poll() is None, f"{site.kind} ended by itself"
    assert "Traceback" not in written

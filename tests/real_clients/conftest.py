"""Servers are started once in a session, when first asked for, and end with it; clients are installed once."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conformance.prepared import prepare
from tests.lanes import at_night
from tests.real_clients.agency import Agency
from tests.real_clients.node import Clients, NoClientsError, find_node, install
from tests.real_clients.sites import DEMO, FIXTURES, TASKS, Project, Site, accepts, load_agency, manage


@pytest.fixture(scope="session")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite file with the demo's data."""
    path = tmp_path_factory.mktemp("agency") / "agency.sqlite3"
    prepare(path, "agency", load_agency)
    return path


@pytest.fixture(scope="session")
def agency(database: Path) -> Agency:
    """What is in the database, read without Django."""
    return Agency(database)


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite file with the tables of the project of fixtures."""
    path = tmp_path_factory.mktemp("fixtures") / "fixtures.sqlite3"
    prepare(path, "fixtures", lambda file: manage(file, "migrate", "--verbosity", "0", project=FIXTURES))
    return path


Running = Callable[[str, Project], Site]


@pytest.fixture(scope="session")
def running(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Gives the server of a kind for a project. At the end each is stopped, and has to have ended."""
    sites: dict[tuple[str, Project], Site] = {}

    def get(kind: str, project: Project) -> Site:
        if (kind, project) not in sites:
            database = request.getfixturevalue("empty_database" if project is FIXTURES else "database")
            site = Site(kind, database, tmp_path_factory.mktemp(kind) / "output.txt", project)
            site.start()
            sites[kind, project] = site
        return sites[kind, project]

    yield get
    for site in sites.values():
        site.stop()
    for site in sites.values():
        assert site.process is not None
        assert site.process.poll() is not None
        assert not accepts(site.port), f"something of {site.kind} still listens"
        assert "Traceback" not in site.output(), site.output()


@pytest.fixture(params=["daphne", at_night("gunicorn"), at_night("uvicorn")])
def site(request: pytest.FixtureRequest, running: Running) -> Iterator[Site]:
    """The demo under each kind of server."""
    yield from watched(running(request.param, DEMO))


@pytest.fixture(params=["daphne", at_night("uvicorn")])
def interactive(request: pytest.FixtureRequest, running: Running) -> Iterator[Site]:
    """The project of fixtures under servers that keep streams open."""
    yield from watched(running(request.param, FIXTURES))


@pytest.fixture(params=["uvicorn", at_night("gunicorn")])
def agency_with_tasks(request: pytest.FixtureRequest, running: Running) -> Iterator[Site]:
    """The demo and a slow tool, behind the demo's own logins."""
    yield from watched(running(request.param, TASKS))


@pytest.fixture(scope="session")
def annas_key(database: Path) -> str:
    """An API key of the agency's staff, for their endpoint."""
    made = Site("uvicorn", database, Path(), TASKS).run(
        "from django.contrib.auth.models import User\n"
        "from django_mcp.auth.api_keys import create_key\n"
        "scopes = ['travel:staff', 'travel:write']\n"
        "print(create_key(User.objects.get(username='anna'), 'tests', endpoints=['staff'], scopes=scopes, days=1)[1])"
    )
    return made.strip()


def watched(site: Site) -> Iterator[Site]:
    """The site; what it wrote during a test is shown if the test fails."""
    before = len(site.output())
    yield site
    written = site.output()[before:]
    print(f"{site.kind} wrote:\n{written}")  # noqa: T201 - pytest shows it
    assert site.process is not None
    assert site.process.poll() is None, f"{site.kind} ended by itself"
    assert "Traceback" not in written


MISSING = pytest.StashKey[str]()
"""Why there are no JavaScript clients."""


@pytest.fixture(scope="session")
def clients(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Clients:
    """The JavaScript clients. Without them the tests are skipped, and the end of the run says why; CI fails."""
    cache = request.config.cache
    folder = cache.mkdir("javascript-clients") if cache else tmp_path_factory.mktemp("javascript-clients")
    try:
        node = find_node()
        return Clients(node, install(node, folder), tmp_path_factory.mktemp("home"))
    except NoClientsError as error:
        if os.environ.get("CI") == "true":
            pytest.fail(str(error), pytrace=False)
        request.config.stash[MISSING] = str(error)
        pytest.skip(str(error))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say loudly what was not driven."""
    if reason := config.stash.get(MISSING, None):
        terminalreporter.write_line(f"*** JavaScript clients: NOT DRIVEN. {reason} ***", red=True)

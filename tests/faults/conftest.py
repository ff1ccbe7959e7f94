"""Server processes for the tests of faults."""

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

import pytest

from benchmarks.process import HOST, RunningServer
from tests.conformance.databases import postgresql, sqlite
from tests.conformance.legs import migrate, start
from tests.faults import wire

T = TypeVar("T")

WITHIN = 20.0
"""Seconds for what should happen soon."""
LOOK = 0.02
"""Seconds between two looks."""


def uvicorn(port: int) -> list[str]:
    return ["uvicorn", "--host", HOST, "--port", str(port), "tests.faults.site.asgi:application"]


def until(look: Callable[[], T], what: str, within: float = WITHIN) -> T:
    """What *look* gives as soon as that is true."""
    end = time.monotonic() + within
    while not (seen := look()):
        assert time.monotonic() < end, f"after {within:.0f} s still not: {what}"
        time.sleep(LOOK)
    return seen


def ended(server: RunningServer) -> bool:
    return server._process.poll() is not None


@dataclass
class Workers:
    """Processes that serve one site from one database.

    Attributes:
        servers: the processes; killed ones are replaced when they are next asked for.
    """

    environment: Mapping[str, str]
    folder: Path
    stack: ExitStack
    taken: set[int] = field(default_factory=set)
    servers: list[RunningServer] = field(default_factory=list)

    def start(self) -> RunningServer:
        return start(uvicorn, self.environment, self.folder, self.taken, self.stack)

    def __getitem__(self, index: int) -> int:
        """The port of a process."""
        return self.servers[index].port

    def pid(self, index: int) -> int:
        return self.servers[index].pid

    def kill(self, index: int) -> None:
        """End a process without a warning, as the kernel does when memory is short."""
        os.killpg(self.pid(index), signal.SIGKILL)
        self.dead(index)

    def dead(self, index: int) -> None:
        """Wait for the end of a process."""
        until(lambda: ended(self.servers[index]), "the process is gone")

    def replace_dead(self) -> None:
        """Start a new process for each that ended."""
        self.servers = [self.start() if ended(server) else server for server in self.servers]

    def log(self, index: int) -> str:
        """All that a process wrote."""
        return self.servers[index]._log.read_text(errors="replace")

    def journal(self) -> list[str]:
        """What tools wrote down."""
        file = Path(self.environment["FAULTS_JOURNAL"])
        return file.read_text().splitlines() if file.exists() else []

    def saw(self, words: str, times: int = 1) -> None:
        """Wait until tools have written *words* down."""
        until(lambda: self.journal().count(words) >= times, f"{words!r} in {self.journal()[-5:]}")


@contextmanager
def workers(number: int, environment: Mapping[str, str], folder: Path) -> Iterator[Workers]:
    """That many processes, with tables in the database that *environment* names."""
    complete = {
        "DJANGO_SETTINGS_MODULE": "tests.faults.site.settings",
        "PYTHONUNBUFFERED": "1",
        "CONFORMANCE_REDIS_URL": "",
        "FAULTS_JOURNAL": str(folder / "journal"),
        **environment,
    }
    migrate(complete)
    with ExitStack() as stack:
        made = Workers(complete, folder, stack)
        made.servers = [made.start() for _ in range(number)]
        yield made


DATABASES = ("sqlite", pytest.param("postgresql", marks=pytest.mark.needs("DATABASE_URL")))
"""Parameters of what is made on each."""


def service(variable: str) -> tuple[str, int]:
    """Host and port of a service, or a skip for tests without the mark ``needs``."""
    url = os.environ.get(variable)
    if not url:
        pytest.skip(f"{variable} is not set")
    parts = urlsplit(url)
    return parts.hostname or HOST, parts.port or {"DATABASE_URL": 5432, "REDIS_URL": 6379}[variable]


@pytest.fixture(scope="session", params=DATABASES)
def shared_pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    """Two processes on one database, for all tests that want no more."""
    folder = tmp_path_factory.mktemp(f"faults-{request.param}")
    made = sqlite(folder) if request.param == "sqlite" else postgresql()
    with made as database, workers(2, database, folder) as two:
        yield two


@pytest.fixture(autouse=True)
def closed_connections() -> Iterator[None]:
    """No test's connections are there in the next."""
    yield
    wire.close_all()


@pytest.fixture
def pair(shared_pair: Workers) -> Workers:
    """Two processes on one database, both alive."""
    shared_pair.replace_dead()
    return shared_pair


@pytest.fixture
def label() -> str:
    """A word that only this test uses, in the journal and in the database, which it shares with others."""
    return os.urandom(4).hex()

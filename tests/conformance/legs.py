"""The servers that the suite is run against: every edge, alone and in several processes."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.process import HOST, ProcessFailedError, RunningServer, free_port, run_to_end
from tests.conformance.balancer import Balancer
from tests.conformance.databases import postgresql, sqlite
from tests.conformance.prepared import prepare

ATTEMPTS = 5
"""How many ports are tried; another process may take one between finding it free and using it."""

OF_TABLES = ("DJANGO_SETTINGS_MODULE", "TASKS_ENGINE")
"""Variables by which sites differ in their tables."""

Command = Callable[[int], Sequence[str]]


def daphne(port: int) -> Sequence[str]:
    return ["daphne", "-b", HOST, "-p", str(port), "tests.conformance.asgi:application"]


def uvicorn(application: str = "asgi", workers: int = 1) -> Command:
    named = f"tests.conformance.{application}:application"
    options = ["--workers", str(workers), "--timeout-keep-alive", "60"]
    return lambda port: ["uvicorn", "--host", HOST, "--port", str(port), *options, named]


def gunicorn(port: int) -> Sequence[str]:
    return ["gunicorn", "-b", f"{HOST}:{port}", "--threads", "8", "tests.conformance.wsgi:application"]


@dataclass(frozen=True)
class Leg:
    """One way to serve the site.

    Attributes:
        command: the server's, as words after ``python -m``.
        processes: how many of these share one port, behind a balancer if there are several.
        needs: an environment variable without which the leg is not run.
        on_postgresql: whether the database is PostgreSQL, where there is one; SQLite otherwise.
    """

    command: Command
    processes: int = 1
    needs: str | None = None
    on_postgresql: bool = False

    def why_not(self) -> str | None:
        """Why the leg cannot be run here."""
        if self.needs and not os.environ.get(self.needs):
            return f"{self.needs} is not set"
        return None

    @property
    def database(self) -> str:
        return "PostgreSQL" if self.on_postgresql and os.environ.get("DATABASE_URL") else "SQLite"


LEGS: Mapping[str, Leg] = {
    "daphne": Leg(daphne),
    "uvicorn": Leg(uvicorn()),
    "view": Leg(uvicorn("asgi_view")),
    "uvicorn-two-workers": Leg(uvicorn(workers=2), on_postgresql=True),
    "daphne-two-processes": Leg(daphne, processes=2),
    "daphne-two-processes-redis": Leg(daphne, processes=2, needs="REDIS_URL"),
    "gunicorn": Leg(gunicorn),
}


@contextmanager
def running(leg: Leg, folder: Path) -> Iterator[str]:
    """Serve the site as *leg* says, with a new database; gives the endpoint's URL.

    Args:
        leg: How.
        folder: For databases and logs.

    Raises:
        ProcessFailedError: a server does not start, or the database cannot be made.
    """
    with ExitStack() as stack:
        database = stack.enter_context(postgresql() if leg.database == "PostgreSQL" else sqlite(folder))
        redis = {"CONFORMANCE_REDIS_URL": os.environ["REDIS_URL"]} if leg.needs == "REDIS_URL" else {}
        environment = {
            "DJANGO_SETTINGS_MODULE": "tests.conformance.settings",
            "PYTHONUNBUFFERED": "1",
            "CONFORMANCE_REDIS_URL": "",
            **database,
            **redis,
        }
        migrate(environment)
        taken: set[int] = set()
        port = free_port(taken) if leg.processes > 1 else None
        environment["CONFORMANCE_URL"] = f"http://{HOST}:{port or '{port}'}"
        servers = [start(leg.command, environment, folder, taken, stack) for _ in range(leg.processes)]
        if port is None:
            port = servers[0].port
        else:
            stack.enter_context(Balancer(port, [server.port for server in servers]))
        yield f"http://{HOST}:{port}/mcp"


def migrate(environment: Mapping[str, str]) -> None:
    """Make the tables; in SQLite they are made once and copied."""

    def fill(file: Path | None) -> None:
        own = {} if file is None else {"CONFORMANCE_DATABASE": str(file)}
        run_to_end("-m", "tests.tables", environment={**environment, **own})

    file = Path(environment.get("CONFORMANCE_DATABASE", ""))
    if environment.get("DATABASE_URL") or not file.name or file.exists():
        fill(None)
    else:
        prepare(file, " ".join(environment.get(each, "") for each in OF_TABLES), fill)


def start(
    command: Command, environment: Mapping[str, str], folder: Path, taken: set[int], stack: ExitStack
) -> RunningServer:
    """A server that accepts connections. It ends with *stack*. ``{port}`` in *environment* stands for its port."""
    for attempt in range(ATTEMPTS):
        port = free_port(taken)
        own = {name: value.replace("{port}", str(port)) for name, value in environment.items()}
        server = RunningServer(command(port), port, None, own, folder)
        try:
            server.wait_until_ready()
        except ProcessFailedError:
            server.end()
            if attempt == ATTEMPTS - 1:
                raise
        else:
            stack.callback(server.end)
            return server
    raise AssertionError("unreachable")

"""Workers, nginx and the services they need, for as long as they are needed."""

import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.databases import Databases
from benchmarks.measurement import group_cpu
from benchmarks.process import HOST, ProcessFailedError, RunningServer, free_port, run
from benchmarks.scale.client import Client
from benchmarks.scale.nginx import Nginx, program
from benchmarks.targets import POSTGRESQL, UVICORN

APP = "benchmarks.scale.site.asgi:application"
SETTINGS = "benchmarks.scale.site.settings"
WORKER = f"{UVICORN} --timeout-keep-alive 75 --timeout-graceful-shutdown 10"
WITHIN = 20.0
LOOK = 0.02


@dataclass
class Stage:
    """Processes that serve one site from one database.

    Attributes:
        database: its address.
        environment: of the workers.
        workers: the processes, in the order of their ports.
        nginx: in front of them.
        ports: how many workers -> the port at which nginx spreads requests over the first so many.
    """

    database: str
    environment: dict[str, str]
    directory: Path
    workers: list[RunningServer] = field(default_factory=list)
    nginx: Nginx | None = None
    ports: dict[int, int] = field(default_factory=dict)

    def client(self, workers: int) -> Client:
        """A client in front of so many."""
        return Client(self.ports[workers])

    def start(self, port: int) -> RunningServer:
        """A worker, not ready yet."""
        arguments = WORKER.format(app=APP, port=port).split()
        return RunningServer(arguments, port, None, self.environment, self.directory)

    def kill(self, place: int) -> str:
        """End a worker without a warning, as the kernel does when memory is short; its address."""
        worker = self.workers[place]
        os.killpg(worker.pid, signal.SIGKILL)
        worker.end()  # waits for it
        return f"{HOST}:{worker.port}"

    def restart(self, place: int) -> str:
        """End a worker as a deployment does, and start another at its port; its address."""
        port = self.workers[place].port
        self.workers[place].end()  # SIGTERM; after some seconds SIGKILL
        self.revive(place)
        return f"{HOST}:{port}"

    def revive(self, place: int) -> None:
        """Start a worker anew, at its port."""
        self.workers[place] = self.start(self.workers[place].port)
        self.workers[place].wait_until_ready()

    def cpu(self, workers: int) -> tuple[float, float, float]:
        """Seconds of processor time that the first so many workers, nginx, and PostgreSQL used so far."""
        of_workers = sum(group_cpu(each.pid) or 0.0 for each in self.workers[:workers])
        of_nginx = (group_cpu(self.nginx.pid) or 0.0) if self.nginx else 0.0
        # Each of its processes leads a group of its own.
        backends = self.read("SELECT pid FROM pg_stat_activity WHERE datname = current_database()")
        return of_workers, of_nginx, sum(group_cpu(int(pid)) or 0.0 for (pid,) in backends)

    def connections(self) -> int:
        """How many connections the workers have to the database; the one that asks is not counted."""
        ((count,),) = self.read(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        return int(count)

    def read(self, query: str) -> list[tuple[Any, ...]]:
        """The rows that a query gives."""
        import psycopg  # noqa: PLC0415 - what says that it is missing is in databases.py

        with psycopg.connect(self.database) as connection:
            return connection.execute(query.encode()).fetchall()


@contextmanager
def stage(sizes: Sequence[int], directory: Path) -> Iterator[Stage]:
    """As many workers as the largest of *sizes*, and nginx with a port for each size.

    Raises:
        ProcessFailedError: nginx, PostgreSQL or a worker is not there.
    """
    program()
    databases, taken = Databases(), set[int]()
    try:
        address = databases.prepared(POSTGRESQL, directory)
        extra = {
            "BENCH_DATABASE": address,
            "BENCH_REDIS": os.environ.get("REDIS_URL", ""),
            "BENCH_PREFIX": f"benchmarks-{os.getpid()}",
            "DJANGO_SETTINGS_MODULE": SETTINGS,
        }
        run(["django", "migrate", "-v0"], None, extra, within=120)
        made = Stage(address, extra, directory)
        try:
            made.workers = [made.start(free_port(taken)) for _ in range(max(sizes))]
            for each in made.workers:
                each.wait_until_ready()
            made.ports = {size: free_port(taken) for size in sizes}
            made.nginx = Nginx(
                [(made.ports[size], [each.port for each in made.workers[:size]]) for size in sizes], directory
            )
            made.nginx.wait_until_ready()
            yield made
        finally:
            for each in [*made.workers, *([made.nginx] if made.nginx else [])]:
                each.end()
    finally:
        databases.drop()


def until(look: Any, what: str) -> None:
    """Wait until *look* gives something true.

    Raises:
        ProcessFailedError: it does not.
    """
    end = time.monotonic() + WITHIN
    while not look():
        if time.monotonic() > end:
            raise ProcessFailedError(f"after {WITHIN:.0f} s still not: {what}")
        time.sleep(LOOK)

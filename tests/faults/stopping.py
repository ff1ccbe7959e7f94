"""A server is told to stop while streams are open and calls run; what their clients see of it, and when."""

import http.client
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.process import HOST, RunningServer
from tests.conformance.databases import sqlite
from tests.conformance.legs import Command, migrate, start
from tests.faults.conftest import until
from tests.faults.reading import read
from tests.faults.wire import Legacy, Modern, Reply

SITE = "tests.faults.site"


def uvicorn(application: str = "asgi") -> Command:
    return lambda port: ["uvicorn", "--host", HOST, "--port", str(port), f"{SITE}.{application}:application"]


def daphne(port: int) -> list[str]:
    return ["daphne", "-b", HOST, "-p", str(port), f"{SITE}.asgi:application"]


def granian(application: str = "asgi", interface: str = "asginl") -> Command:
    return lambda port: [
        *["granian", "--interface", interface, "--host", HOST, "--port", str(port)],
        f"{SITE}.{application}:application",
    ]


def gunicorn(*options: str, application: str = "wsgi") -> Command:
    of_tests = ("--config", "python:benchmarks.servers.gunicorn_conf")  # no control socket in the user's home
    return lambda port: ["gunicorn", *of_tests, "-b", f"{HOST}:{port}", *options, f"{SITE}.{application}:application"]


SERVERS: Mapping[str, Command] = {
    "uvicorn": uvicorn(),
    "uvicorn, view": uvicorn("asgi_view"),
    "daphne": daphne,
    "granian": granian(),
    "granian, lifespan": granian(interface="asgi"),
    "granian, view": granian("asgi_view"),
    "gunicorn": gunicorn("--threads", "8"),
    "gunicorn, uvicorn worker": gunicorn("-k", "uvicorn.workers.UvicornWorker", application="asgi"),
}
"""Each as its manual starts it, with nothing set about stopping."""
HOLDS_STREAMS = [name for name in SERVERS if name != "gunicorn"]


@dataclass
class Watched:
    """One answer, read to its end by a thread of its own.

    Attributes:
        messages: that came in it.
        at: when it ended, on the monotonic clock.
        failure: why it broke off; None for one that ended as HTTP says.
    """

    messages: list[dict[str, Any]] = field(default_factory=list)
    at: float = 0.0
    failure: str | None = None
    thread: threading.Thread | None = None

    def read(self, reply: Callable[[], Reply]) -> None:
        try:
            self._read(reply())
        except (OSError, http.client.HTTPException) as error:
            self.failure = f"{type(error).__name__}: {error}"
        self.at = time.monotonic()

    def _read(self, reply: Reply) -> None:
        if not reply.is_stream:
            self.messages.append(reply.message())
            return
        self.messages += [event.message for event in reply.events() if event.data]


def watch(reply: Callable[[], Reply]) -> Watched:
    watched = Watched()
    watched.thread = threading.Thread(target=watched.read, args=(reply,), daemon=True)
    watched.thread.start()
    return watched


@dataclass
class Stopping:
    """A server process and its clients."""

    server: RunningServer
    environment: Mapping[str, str]
    answers: dict[str, Watched] = field(default_factory=dict)
    told: float = 0.0
    ended: float = 0.0

    def saw(self, words: str) -> None:
        """Wait until tools have written *words* down."""
        until(lambda: words in self.journal(), f"{words!r} in {self.journal()[-5:]}")

    def journal(self) -> list[str]:
        file = Path(self.environment["FAULTS_JOURNAL"])
        return file.read_text().splitlines() if file.exists() else []

    def call(self, name: str, revision: str = "modern") -> None:
        """Begin a call of a tool, and come back when it runs."""
        label = f"{name}-{revision}"
        if revision == "modern":
            connection = Modern(self.server.port).start(name, label=label)
            self.answers[label] = watch(lambda: Reply(connection))
        else:
            client = Legacy(self.server.port).open()
            self.answers[label] = watch(lambda: client.start(name, token=1, label=label))
        self.saw(f"began {label}")

    def wait_for_approval(self) -> None:
        """Begin a call that a person has to approve, and come back when it waits."""
        connection = Modern(self.server.port).start("wait_for_approval", label="approval")
        self.answers["approval"] = watch(lambda: Reply(connection))
        until(lambda: read(self.environment, "SELECT * FROM django_mcp_approval"), "the call waits for approval")

    def listen(self) -> None:
        """Open the streams that have no end."""
        modern = Modern(self.server.port).listen()
        self.answers["listen"] = watch(lambda: modern)
        legacy = Legacy(self.server.port).open().listen()
        legacy.event()
        self.answers["get"] = watch(lambda: legacy)

    def stop(self, within: float) -> int:
        """Tell the process to stop; the code with which it has ended."""
        self.told = time.monotonic()
        os.kill(self.server.pid, signal.SIGTERM)
        code = self.server._process.wait(within)
        self.ended = time.monotonic()
        for each in self.answers.values():
            assert each.thread is not None
            each.thread.join(within)
        return code

    def output(self) -> str:
        return self.server._log.read_text(errors="replace")


@contextmanager
def running(command: Command, folder: Path) -> Iterator[Stopping]:
    """A server of the site of faults, on a database of its own."""
    with sqlite(folder) as database, ExitStack() as stack:
        environment = {
            "DJANGO_SETTINGS_MODULE": f"{SITE}.settings",
            "PYTHONUNBUFFERED": "1",
            "CONFORMANCE_REDIS_URL": "",
            "FAULTS_JOURNAL": str(folder / "journal"),
            **database,
        }
        migrate(environment)
        yield Stopping(start(command, environment, folder, set(), stack), environment)

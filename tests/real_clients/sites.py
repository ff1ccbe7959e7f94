"""A project as its own process, under each kind of server."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.conformance.prepared import prepare
from tests.demo.database import copy_demo
from tests.ports import free_port

PROJECT = Path(__file__).resolve().parent.parent.parent
HOST = "127.0.0.1"
PATIENCE = 60.0
"""Seconds for a server to come up or go down."""
ATTEMPTS = 5
"""How many ports are tried; another process may take one between finding it free and using it."""


@dataclass(frozen=True)
class Project:
    """A Django project, the environment variable by which it finds its SQLite file, and its settings module."""

    package: str
    database_variable: str
    settings: str = ""

    @property
    def settings_module(self) -> str:
        return self.settings or f"{self.package}.settings"


DEMO = Project("demo_project", "DEMO_DATABASE", "tests.real_clients.settings")
"""With its endpoint for customers open to everybody: these tests are of the protocol, not of logins."""
TASKS = Project("demo_project", "DEMO_DATABASE", "tests.real_clients.settings_of_tasks")
"""With its logins and a tool that takes long."""
FIXTURES = Project("tests.conformance", "CONFORMANCE_DATABASE")
"""Its tools do one thing each that the protocol has: ask, report progress, write to the log, announce changes."""

COMMANDS: Mapping[str, Callable[[int, str], Sequence[str]]] = {
    "daphne": lambda port, package: ["daphne", "-b", HOST, "-p", str(port), f"{package}.asgi:application"],
    "gunicorn": lambda port, package: ["gunicorn", "-b", f"{HOST}:{port}", f"{package}.wsgi:application"],
    # People take their time to log in; after its usual five seconds the connection would be closed under the client.
    "uvicorn": lambda port, package: [
        *["uvicorn", "--host", HOST, "--port", str(port), "--timeout-keep-alive", "60"],
        f"{package}.asgi:application",
    ],
}


def environment(database: Path, project: Project = DEMO) -> dict[str, str]:
    """The environment of a project with its data in *database*."""
    inherited = {key: value for key, value in os.environ.items() if key != "DATABASE_URL"}
    return {
        **inherited,
        project.database_variable: str(database),
        "DJANGO_SETTINGS_MODULE": project.settings_module,
        "DEBUG": "0",
        "PYTHONUNBUFFERED": "1",
    }


def manage(database: Path, *arguments: str, project: Project = DEMO) -> None:
    """Run ``manage.py``; its output is shown if it fails."""
    done = subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=PROJECT,
        env=environment(database, project),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, f"manage.py {' '.join(arguments)}\n{done.stdout}{done.stderr}"


ALLOWED = """
from django_mcp.models import ToolPolicy
for server, tool in (("default", "book_hotel"), ("default", "cancel_booking"), ("staff", "import_flights")):
    ToolPolicy.objects.create(server=server, tool=tool, decision="allow")
"""
"""These tests are of clients; who approves what they do is tested elsewhere."""


def load_agency(file: Path) -> None:
    """Fill a SQLite file with the demo's data."""
    copy_demo(file)
    manage(file, "shell", "-c", ALLOWED)


def accepts(port: int) -> bool:
    """Whether somebody listens on *port*."""
    try:
        with socket.create_connection((HOST, port), timeout=1):
            return True
    except OSError:
        return False


@dataclass
class Site:
    """One server process."""

    kind: str
    database: Path
    log: Path
    project: Project = DEMO
    port: int = 0
    process: "subprocess.Popen[bytes] | None" = field(default=None, repr=False)

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}/mcp"

    def asked(self, path: str) -> Any:
        """What the site itself answers at a path, in JSON."""
        with urllib.request.urlopen(f"http://{HOST}:{self.port}{path}", timeout=PATIENCE) as response:
            return json.load(response)

    def run(self, code: str) -> str:
        """What a program prints that has the site's settings and database."""
        command = [sys.executable, "-c", f"import django; django.setup()\n{code}"]
        given = environment(self.database, self.project)
        return subprocess.run(command, cwd=PROJECT, env=given, check=True, capture_output=True, text=True).stdout

    def output(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")

    def start(self) -> None:
        """Start it and wait until it listens."""
        for _ in range(ATTEMPTS):
            self.port = free_port()
            with self.log.open("wb") as log:
                self.process = subprocess.Popen(
                    [sys.executable, "-m", *COMMANDS[self.kind](self.port, self.project.package)],
                    cwd=PROJECT,
                    env=environment(self.database, self.project),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                )
            if self._listens():
                return
            self.stop()
        raise AssertionError(f"{self.kind} does not start:\n{self.output()}")

    def _listens(self) -> bool:
        assert self.process is not None
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if accepts(self.port):
                return True
            try:
                self.process.wait(timeout=0.05)
            except subprocess.TimeoutExpired:
                continue
            return False
        return False

    def stop(self) -> int:
        """End this process, and no other; how it ended."""
        assert self.process is not None
        self.process.terminate()
        try:
            return self.process.wait(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(timeout=PATIENCE)
            raise AssertionError(f"{self.kind} had to be killed:\n{self.output()}") from None


@contextmanager
def served(project: Project, folder: Path, data: str) -> Iterator[Site]:
    """A site under uvicorn, with a database in *folder* that the program *data* has filled."""
    made = Site("uvicorn", folder / "site.sqlite3", folder / "output.txt", project)
    tables = f"tables of {project.settings_module}"
    prepare(made.database, tables, lambda file: manage(file, "migrate", "--verbosity", "0", project=project))
    made.run(data)
    made.start()
    yield made
    made.stop()
    assert "Traceback" not in made.output(), made.output()

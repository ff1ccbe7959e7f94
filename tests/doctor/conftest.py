"""The site behind a proxy, and the command that looks at it."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from benchmarks.process import HOST, ROOT, RunningServer, run_to_end
from tests.conformance.legs import start
from tests.conformance.prepared import prepare
from tests.doctor.proxy import Fault, Proxy, listening

USER = "ada"


@dataclass
class Report:
    """What the command said.

    Attributes:
        found: severities by the ids of findings.
    """

    code: int
    document: Any

    @property
    def text(self) -> str:
        return "\n".join(f"{each['id']}: {each['message']}" for each in self.findings)

    @property
    def findings(self) -> list[Mapping[str, str]]:
        return [each for check in self.document["checks"] for each in check["findings"]]

    @property
    def found(self) -> dict[str, str]:
        return {each["id"]: each["severity"] for each in self.findings if each["severity"] != "ok"}

    @property
    def bad(self) -> set[str]:
        """Ids of errors and warnings."""
        return {name for name, severity in self.found.items() if severity in {"error", "warning"}}

    def remedy(self, finding: str) -> str:
        return next(each["remedy"] for each in self.findings if each["id"] == finding)

    def message(self, finding: str) -> str:
        return next(each["message"] for each in self.findings if each["id"] == finding)


def command(environment: Mapping[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run it in a process of its own, as people do."""
    return subprocess.run(
        [sys.executable, "-W", "error", "manage.py", "mcp_doctor", *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )


def manage(environment: Mapping[str, str], *arguments: str) -> str:
    """What another command of the site prints."""
    return subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout


@dataclass
class Commander:
    """A process that runs the command again and again; it is started when first asked to, and ends with *stack*."""

    environment: Mapping[str, str]
    log: Path
    stack: ExitStack
    process: "subprocess.Popen[str] | None" = None

    def look(self, *arguments: str, probes: Mapping[str, Any] | None = None) -> tuple[int, str, str]:
        """The exit code, what was printed, and what went to the log meanwhile; *probes* are constants of theirs."""
        if self.process is None:
            self.process = self.start()
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        before = self.log.stat().st_size
        self.process.stdin.write(json.dumps({"arguments": arguments, "probes": probes or {}}) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        said = self.log.read_bytes()[before:].decode(errors="replace")
        assert answer, said
        found = json.loads(answer)
        return found["code"], found["said"], said

    def start(self) -> "subprocess.Popen[str]":
        log = self.stack.enter_context(self.log.open("w"))
        process = subprocess.Popen(
            [sys.executable, "-W", "error", "-m", "tests.doctor.commander"],
            cwd=ROOT,
            env={**os.environ, **self.environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        self.stack.enter_context(process)  # which closes its input, and waits
        return process


@dataclass
class Deployment:
    """The site as it runs, behind a proxy.

    Attributes:
        environment: by which the command sees the same site.
        proxy: before it.
        server: the site's process.
        commander: runs the command where the environment is the site's.
    """

    environment: Mapping[str, str]
    proxy: Proxy
    server: RunningServer
    commander: Commander

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.proxy.port}/mcp"

    @property
    def direct(self) -> str:
        return f"http://{HOST}:{self.server.port}/mcp"

    def look(
        self,
        *arguments: str,
        fault: Fault | None = None,
        who: Sequence[str] = ("--as", USER),
        probes: Mapping[str, Any] | None = None,
        **changes: str,
    ) -> Report:
        """Have the command look, while the proxy has a fault.

        *changes* are of its environment alone; without any, *probes* are other values of constants of its probes.
        """
        self.proxy.fault = fault or Fault()
        given = ("--json", *who, *arguments)
        try:
            if changes:
                done = command({**self.environment, **changes}, *given)
                code, printed, logged = done.returncode, done.stdout, done.stderr
            else:
                code, printed, logged = self.commander.look(*given, probes=probes)
        finally:
            self.proxy.fault = Fault()
            self.proxy.drop()
        assert "Traceback" not in logged, logged
        assert printed, logged
        return Report(code, json.loads(printed))


def daphne(port: int) -> Sequence[str]:
    return ["daphne", "-b", HOST, "-p", str(port), "tests.doctor.site.asgi:application"]


def uvicorn(port: int) -> Sequence[str]:
    return ["uvicorn", "--host", HOST, "--port", str(port), "tests.doctor.site.asgi:application"]


def gunicorn(port: int) -> Sequence[str]:
    return ["gunicorn", "-b", f"{HOST}:{port}", "--threads", "8", "tests.doctor.site.wsgi:application"]


SERVERS = {"daphne": daphne, "uvicorn": uvicorn, "gunicorn": gunicorn}


FILL = f"""
import django; django.setup()
from django.contrib.auth.models import User
from django.core.management import call_command
call_command("migrate", verbosity=0)
call_command("createcachetable")
User.objects.create_user({USER!r})
"""


def make_site(environment: Mapping[str, str]) -> None:
    """Tables, and somebody who may call."""

    def fill(file: Path) -> None:
        run_to_end("-c", FILL, environment={**environment, "DOCTOR_DATABASE": str(file)})

    prepare(Path(environment["DOCTOR_DATABASE"]), "tests.doctor", fill)


@contextmanager
def deployed(kind: str, folder: Path, **changes: str) -> Iterator[Deployment]:
    """The site by a kind of server; *changes* are of the environment of all processes."""
    with ExitStack() as stack:
        proxy = stack.enter_context(listening())
        environment = {
            "DJANGO_SETTINGS_MODULE": "tests.doctor.site.settings",
            "DOCTOR_DATABASE": str(folder / "site.sqlite3"),
            "DOCTOR_BASE_URL": f"http://{HOST}:{proxy.port}",
            "PYTHONUNBUFFERED": "1",
            **changes,
        }
        make_site(environment)
        server = start(SERVERS[kind], environment, folder, {proxy.port}, stack)
        proxy.to = server.port
        yield Deployment(environment, proxy, server, Commander(environment, folder / "commander.log", stack))


@pytest.fixture(scope="session")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """One for all tests that need no other: what is wrong is in the proxy."""
    with deployed("uvicorn", tmp_path_factory.mktemp("doctor")) as made:
        yield made


@pytest.fixture
def look(deployment: Deployment) -> Callable[..., Report]:
    """Runs the command."""
    return deployment.look

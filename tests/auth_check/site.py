"""The demo as a server process of its own, over http or https, on SQLite or PostgreSQL."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import trustme

from benchmarks.process import HOST, ProcessFailedError, RunningServer, run_to_end
from tests.auth_check import DOCUMENTS_HOST
from tests.conformance.databases import postgresql
from tests.conformance.prepared import prepare
from tests.demo.database import copy_demo
from tests.ports import free_port

ATTEMPTS = 5
"""How many ports are tried; another process may take one between finding it free and using it."""
STAFF = "admin:admin"
"""A sample user of the demo who may use both of its endpoints, as ``name:password``."""


@dataclass(frozen=True)
class Certificate:
    """A server's certificate for this machine and ``client.example``, by an authority made for this run.

    Attributes:
        authority: file of the authority's certificate, for those who shall trust it.
        chain: file of key and certificate, for servers.
    """

    authority: Path
    chain: Path


def make_certificate(folder: Path) -> Certificate:
    """A new one, in *folder*."""
    authority = trustme.CA()
    made = Certificate(folder / "authority.pem", folder / "server.pem")
    authority.cert_pem.write_to_path(made.authority)
    authority.issue_cert(HOST, DOCUMENTS_HOST).private_key_and_cert_chain_pem.write_to_path(made.chain)
    return made


def uvicorn(port: int, certificate: Certificate | None) -> Sequence[str]:
    """One thread for views, as ASGI has it."""
    tls = ["--ssl-keyfile", str(certificate.chain), "--ssl-certfile", str(certificate.chain)] if certificate else []
    # A client whose person takes five seconds to agree would send its next request as uvicorn closes the connection.
    lasting = ["--timeout-keep-alive", "60"]
    return ["uvicorn", "--host", HOST, "--port", str(port), *lasting, *tls, "demo_project.asgi:application"]


def gunicorn(port: int, certificate: Certificate | None) -> Sequence[str]:
    """Two processes of several threads: requests that come at once are at work at once."""
    tls = ["--keyfile", str(certificate.chain), "--certfile", str(certificate.chain)] if certificate else []
    many = ["--workers", "2", "--threads", "4"]
    return ["gunicorn", "--bind", f"{HOST}:{port}", *many, *tls, "demo_project.wsgi:application"]


COMMANDS = {"uvicorn": uvicorn, "gunicorn": gunicorn}
"""Servers by name: their command, as words after ``python -m``."""


@dataclass(frozen=True)
class Demo:
    """The demo as it runs.

    Attributes:
        url: its origin.
        environment: by which another process sees the same settings and database.
        folder: where its log is.
    """

    url: str
    environment: Mapping[str, str]
    folder: Path

    @property
    def endpoint(self) -> str:
        """For everybody who signs in."""
        return f"{self.url}/mcp"

    @property
    def staff_endpoint(self) -> str:
        """For staff."""
        return f"{self.url}/staff/mcp"

    def output(self) -> str:
        """What its server wrote."""
        return "".join(log.read_text(encoding="utf-8", errors="replace") for log in self.folder.glob("*.log"))


@contextmanager
def running(
    folder: Path,
    certificate: Certificate,
    *,
    https: bool,
    database: str = "sqlite",
    server: str = "uvicorn",
    document_port: int | None = None,
) -> Iterator[Demo]:
    """The demo with a new database, until the block ends.

    Args:
        folder: for its database and log.
        certificate: for https, and to trust where documents are fetched.
        https: whether it speaks that.
        database: ``"sqlite"`` or ``"postgresql"``; for the latter ``DATABASE_URL`` says where.
        server: one of ``COMMANDS``.
        document_port: from which client ID metadata documents may be fetched, besides 443.

    Raises:
        ProcessFailedError: it does not start.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        named = stack.enter_context(postgresql()) if database == "postgresql" else sqlite(folder)
        common = {
            "DJANGO_SETTINGS_MODULE": "tests.auth_check.settings",
            "DEBUG": "0",
            "PYTHONUNBUFFERED": "1",
            "AUTH_CHECK_AUTHORITY": str(certificate.authority),
            "AUTH_CHECK_DOCUMENT_PORT": str(document_port or ""),
            **named,
        }
        fill({**common, "BASE_URL": f"http://{HOST}"})
        yield start(server, common, folder, certificate if https else None, stack)


def sqlite(folder: Path) -> Mapping[str, str]:
    """The environment that names a SQLite file."""
    return {"DATABASE_URL": "", "DEMO_DATABASE": str(folder / "demo.sqlite3")}


def fill(environment: Mapping[str, str]) -> None:
    """Make tables, sample data and the client that outside tools know; in SQLite they are made once and copied."""
    if environment["DATABASE_URL"]:
        run_to_end("-m", "tests.auth_check.prepare", environment=environment)
        return

    def make(file: Path) -> None:
        copy_demo(file)
        run_to_end("-m", "tests.auth_check.prepare", environment={**environment, "DEMO_DATABASE": str(file)})

    prepare(Path(environment["DEMO_DATABASE"]), "tests.auth_check", make)


def start(
    kind: str, environment: Mapping[str, str], folder: Path, certificate: Certificate | None, stack: ExitStack
) -> Demo:
    """A server that accepts connections. It ends with *stack*."""
    for attempt in range(ATTEMPTS):
        port = free_port()
        url = f"{'https' if certificate else 'http'}://{HOST}:{port}"
        own = {**environment, "BASE_URL": url}
        server = RunningServer(COMMANDS[kind](port, certificate), port, None, own, folder)
        try:
            server.wait_until_ready()
        except ProcessFailedError:
            server.end()
            if attempt == ATTEMPTS - 1:
                raise
        else:
            stack.callback(server.end)
            return Demo(url, own, folder)
    raise AssertionError("unreachable")

"""``manage.py demo``: from a fresh checkout to a running endpoint, and how to point a client at it."""

import json
from argparse import ArgumentParser
from collections.abc import Callable
from textwrap import indent
from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import connections

from demo_project.travel.sample_users import SAMPLE_USERS
from scripts.preflight import HOST, port_problem


class Command(BaseCommand):
    """Prepare the database, serve the site with daphne, and print what a newcomer needs next."""

    help = "Prepares the sample data and serves the demo until Ctrl-C."
    # prepare() runs the checks: some of Django's open the database, and the port comes first.
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--host", default=HOST, help="address to listen on (default: %(default)s)")
        parser.add_argument("--port", default="8000", help="port to listen on (default: %(default)s)")

    def handle(self, *, host: str, port: str, **_: Any) -> None:
        # First of all: nobody should wait for a database to learn that the port is taken.
        if problem := port_problem(port, host, "manage.py demo --port {}"):
            raise CommandError(problem)
        try:
            self.prepare()
            self.serve(host, int(port))
        except KeyboardInterrupt:
            # Ctrl-C while preparing. Once the reactor runs, it takes the signal and serve() returns.
            pass
        self.stdout.write("\nStopped.")

    def prepare(self) -> None:
        """Bring the tables and the sample data up to date; both do nothing where that is so already."""
        self.stdout.write("Preparing the sample data ...")
        self.stdout.flush()
        self.check()
        call_command("migrate", interactive=False, verbosity=0)
        call_command("load_travel", verbosity=0, stdout=self.stdout)
        connections.close_all()

    def serve(self, host: str, port: int) -> None:
        """Run daphne in this process, so that Ctrl-C has one process to end and one line to print."""
        # Imported late, and in this order: daphne's server installs the reactor which Twisted then gives out.
        from daphne.server import Server  # noqa: PLC0415
        from django.contrib.staticfiles.handlers import ASGIStaticFilesHandler  # noqa: PLC0415
        from twisted.internet import reactor  # noqa: PLC0415

        from demo_project.asgi import application  # noqa: PLC0415

        listening = False

        def ready() -> None:
            nonlocal listening
            listening = True
            # The reactor has yet to start, and would lose a Ctrl-C until then: first start, then invite it.
            reactor.callLater(0, announce)

        def announce() -> None:
            self.stdout.write(banner(f"http://{host}:{port}", self.heading()))
            self.stdout.flush()

        Server(
            # daphne serves no files by itself, and the admin without its style sheets is no fun.
            ASGIStaticFilesHandler(application),
            endpoints=[f"tcp:port={port}:interface={host}"],
            ready_callable=ready,
        ).run()
        if not listening:
            raise CommandError(f"Port {port} was taken while the demo was starting. Try another one.")

    def heading(self) -> Callable[[str], str]:
        """Colour for people, plain text for files and pipes."""
        return self.style.MIGRATE_HEADING if self.stdout.isatty() else str


def banner(site: str, heading: Callable[[str], str] = str) -> str:
    """Everything to copy from the terminal: addresses, logins, and settings for each client.

    Args:
        site: The demo's address, without a slash at its end.
        heading: Applied to each heading, for its colour.
    """
    endpoint = f"{site}/mcp"
    width = max(len(user.username) for user in SAMPLE_USERS) + 2
    password_width = max(len(user.password) for user in SAMPLE_USERS) + 2
    people = [f"{user.username:{width}}{user.password:{password_width}}{user.role}" for user in SAMPLE_USERS]
    sections = {
        "Endpoint": endpoint,
        "Admin": f"{site}/admin/",
        "Sample users: name, password, role": "\n".join(people),
        **client_settings(endpoint),
    }
    parts = [f"{heading(title)}\n{indent(text, '  ')}" for title, text in sections.items()]
    return "\n" + "\n\n".join([*parts, "The demo is running. Press Ctrl-C to stop it."])


def client_settings(endpoint: str) -> dict[str, str]:
    """How each client is told of the endpoint, in the form it reads, ready to paste."""
    inspector = "npx @modelcontextprotocol/inspector"
    return {
        "Claude Code": f"claude mcp add --transport http travel {endpoint}",
        "VS Code: .vscode/mcp.json": as_json({"servers": {"travel": {"type": "http", "url": endpoint}}}),
        "Cursor: .cursor/mcp.json": as_json({"mcpServers": {"travel": {"url": endpoint}}}),
        "MCP Inspector: in the terminal, then in the browser (Node.js 22.19 or newer)": (
            f"{inspector} --cli {endpoint} --transport http --method tools/list\n"
            f"{inspector} --server-url {endpoint} --transport http"
        ),
    }


def as_json(settings: dict[str, Any]) -> str:
    """JSON as people write it."""
    return json.dumps(settings, indent=2)

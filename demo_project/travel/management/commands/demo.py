"""``demo``: prepare the sample data, serve the demo, and print how to connect clients."""

import json
import os
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from textwrap import indent
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import connections

from demo_project.travel.sample_users import SAMPLE_USERS
from scripts.preflight import HOST, port_problem

USUAL_SITE = "http://127.0.0.1:8000"
"""Where the demo's settings say that it is."""


class Command(BaseCommand):
    """Prepare the database, serve the site with daphne, and print addresses, logins and client configurations."""

    help = "Prepares the sample data and serves the demo until Ctrl-C."
    # prepare() runs the checks, after the port: some of Django's checks open the database.
    requires_system_checks = ()
    is_own_process = False

    def run_from_argv(self, argv: list[str]) -> None:
        """Run as a command: from here on the process is this command's alone."""
        self.is_own_process = True
        super().run_from_argv(argv)

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--host", default=HOST, help="address to listen on (default: %(default)s)")
        parser.add_argument("--port", default="8000", help="port to listen on (default: %(default)s)")

    def handle(self, *, host: str, port: str, **_: Any) -> None:
        # First, so that a port in use is reported before the slow preparation.
        if problem := port_problem(port, host, "manage.py demo --port {}"):
            raise CommandError(problem)
        self.match_address(host, port)
        try:
            self.prepare()
            self.serve(host, int(port))
        except KeyboardInterrupt:
            # Ctrl-C while preparing. Once the reactor runs, it takes the signal and serve() returns.
            pass
        self.stdout.write("\nStopped.")

    def match_address(self, host: str, port: str) -> None:
        """Restart with BASE_URL in the environment, if it is not set and differs from the settings' default.

        Tokens are issued for that address, and settings are read before a command knows its arguments.
        """
        address = f"http://{address_of(host)}:{port}"
        if self.is_own_process and "BASE_URL" not in os.environ and address != settings.BASE_URL:
            os.environ["BASE_URL"] = address
            os.execv(sys.executable, sys.orig_argv)  # noqa: S606 - the command that was typed

    def prepare(self) -> None:
        """Migrate and load the sample data, if that is not done yet."""
        self.stdout.write("Preparing the sample data ...")
        self.stdout.flush()
        self.check()
        call_command("migrate", interactive=False, verbosity=0)
        call_command("load_travel", verbosity=0, stdout=self.stdout)
        connections.close_all()

    def serve(self, host: str, port: int) -> None:
        """Run daphne in this process, so that Ctrl-C ends one process and prints one line."""
        # Imported late, and in this order: daphne's server installs the reactor which Twisted then gives out.
        from daphne.server import Server  # noqa: PLC0415
        from django.contrib.staticfiles.handlers import ASGIStaticFilesHandler  # noqa: PLC0415
        from twisted.internet import reactor  # noqa: PLC0415

        from demo_project.asgi import application  # noqa: PLC0415

        listening = False

        def ready() -> None:
            nonlocal listening
            listening = True
            # The reactor starts after this call, and would lose a Ctrl-C before: print the banner when it runs.
            reactor.callLater(0, announce)

        def announce() -> None:
            self.stdout.write(banner(settings.BASE_URL, self.heading()))
            self.stdout.flush()

        Server(
            # daphne serves no static files, which the admin needs.
            ASGIStaticFilesHandler(application),
            endpoints=[f"tcp:port={port}:interface={host}"],
            ready_callable=ready,
        ).run()
        if not listening:
            raise CommandError(f"Port {port} is in use by a process that started meanwhile. Use another port.")

    def heading(self) -> Callable[[str], str]:
        """Colour for people, plain text for files and pipes."""
        return self.style.MIGRATE_HEADING if self.stdout.isatty() else str


def address_of(host: str) -> str:
    """Return the host for URLs of a server listening on *host*."""
    if host in {"0.0.0.0", "::"}:  # noqa: S104 - all addresses include this machine's
        return HOST
    return f"[{host}]" if ":" in host else host


def banner(site: str, heading: Callable[[str], str] = str) -> str:
    """Return the text to print: addresses, logins, and configurations of clients.

    Args:
        site: The demo's address, without a trailing slash.
        heading: Style of headings.
    """
    endpoints = {
        f"{site}/mcp": "for all users: ben, anna, admin",
        f"{site}/staff/mcp": "for staff: anna, tim, admin",
        f"{site}/backoffice/mcp": "the admin as tools, for staff: anna, tim, admin",
        f"{site}/open/mcp": "public, read-only, without signing in",
    }
    pages = {
        f"{site}/": "the front page",
        f"{site}/o/access/": "OAuth clients with access, and how to revoke it",
        f"{site}/admin/": "the admin with pending approvals, for anna, tim and admin",
        f"{site}/outbox/": "sent mail, for anna, tim and admin",
    }
    sections = {
        "Endpoints": columns(endpoints.items()),
        "Pages": columns(pages.items()),
        "Sample users: name, password, role": columns(SAMPLE_USERS),
        **client_settings(site),
        **key_settings(site),
    }
    parts = [f"{heading(title)}\n{indent(text, '  ')}" for title, text in sections.items()]
    return "\n" + "\n\n".join([*parts, "The demo is running. Press Ctrl-C to stop it."])


def columns(rows: Iterable[Sequence[str]]) -> str:
    """Rows of text as a table."""
    rows = list(rows)
    widths = [max(map(len, column)) + 2 for column in zip(*rows, strict=True)]
    lines = ("".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


def client_settings(site: str) -> dict[str, str]:
    """Return the configuration of each client, ready to paste.

    Clients only need the address: they open the login page themselves.
    """
    endpoint = f"{site}/mcp"
    inspector = "npx @modelcontextprotocol/inspector"
    return {
        "Claude Code; then type /mcp in it to sign in": f"claude mcp add --transport http travel {endpoint}",
        "The back office in Claude Code; sign in as anna, ask for a hotel’s new price, approve it in the admin": (
            f"claude mcp add --transport http travel-backoffice {site}/backoffice/mcp"
        ),
        "VS Code: .vscode/mcp.json": as_json({"servers": {"travel": {"type": "http", "url": endpoint}}}),
        "Cursor: .cursor/mcp.json": as_json({"mcpServers": {"travel": {"url": endpoint}}}),
        "MCP Inspector: in the browser, then in the terminal without signing in (Node.js 22.19 or newer)": (
            f"{inspector} --server-url {endpoint} --transport http\n"
            f"{inspector} --cli {site}/open/mcp --transport http --method tools/list"
        ),
    }


def key_settings(site: str) -> dict[str, str]:
    """Return the commands that create and use an API key, for programs without a browser."""
    address = "" if site == USUAL_SITE else f"BASE_URL={site} "  # other commands do not know this address
    message = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "search_bookings", "arguments": {}},
    }
    return {
        "Scripts and CI: an API key, and a call with it": (
            f"{address}{python()} manage.py mcp_key create --user ben --name laptop --scope travel:write\n"
            f"curl {site}/mcp -H 'Authorization: Bearer PASTE-THE-KEY-HERE' -H 'Content-Type: application/json' \\\n"
            f"  -H 'Accept: application/json, text/event-stream' -d '{json.dumps(message)}'"
        ),
    }


def python() -> str:
    """Return the path of this Python, relative to the current folder if possible."""
    running = Path(sys.executable)
    return str(running.relative_to(Path.cwd())) if running.is_relative_to(Path.cwd()) else str(running)


def as_json(value: dict[str, Any]) -> str:
    """Return indented JSON."""
    return json.dumps(value, indent=2)

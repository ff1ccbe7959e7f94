"""``mcp_stdio``: serve an endpoint to a client that starts the site as a subprocess."""

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from django_mcp.management.base import caller_principal, find_server
from django_mcp.transports.stdio import serve, take_streams


class Command(BaseCommand):
    """See ``help``."""

    help = "Serves an MCP endpoint over standard input and output, for a client that starts this command."
    # Checks would delay the first response, and their output is not for the client.
    requires_system_checks: list[str] = []  # noqa: RUF012 - Django's own type

    streams: tuple[int, int] | None = None

    def run_from_argv(self, argv: list[str]) -> None:
        # First of all, so that only protocol messages are written to it.
        self.streams = take_streams()
        super().run_from_argv(argv)

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--user", help="username of the user to call as")
        parser.add_argument("--server", default="default", help="name of the endpoint (default: 'default')")

    def handle(self, *_: Any, **options: Any) -> None:
        server = find_server(options["server"])
        serve(server, caller_principal(server, options["user"]), *(self.streams or take_streams()))

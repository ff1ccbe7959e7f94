"""``manage.py mcp_stdio``: an endpoint for a client that starts the site itself."""

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from django_mcp.management.base import caller_of, find_server
from django_mcp.transports.stdio import serve, take_streams


class Command(BaseCommand):
    """See ``help``."""

    help = "Serves an MCP endpoint over standard input and output, to a client that starts this command."
    # The client waits for its first answer meanwhile, and what checks print is for whoever sets the site up.
    requires_system_checks: list[str] = []  # noqa: RUF012 - Django's own type

    streams: tuple[int, int] | None = None

    def run_from_argv(self, argv: list[str]) -> None:
        """Run as a command: from here on nothing but messages goes to standard output."""
        self.streams = take_streams()
        super().run_from_argv(argv)

    def add_arguments(self, parser: CommandParser) -> None:
        """The user, and the endpoint."""
        parser.add_argument("--user", help="username of the user in whose name the client calls")
        parser.add_argument("--server", default="default", help="name of the endpoint; 'default' if left out")

    def handle(self, *_: Any, **options: Any) -> None:
        """Serve until the client closes its end.

        Raises:
            CommandError: there is no such endpoint or user.
        """
        server = find_server(options["server"])
        serve(server, caller_of(server, options["user"]), *(self.streams or take_streams()))

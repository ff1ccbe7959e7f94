"""``manage.py mcp_stdio``: an endpoint for a client that starts the site itself."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from django_mcp.auth.base import authenticators
from django_mcp.auth.public import Public
from django_mcp.core.principal import Principal
from django_mcp.core.registry import MCPServer, servers
from django_mcp.endpoint.lines import take_streams
from django_mcp.endpoint.stdio import serve


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
        name = options["user"]
        principal = everybody(server) if name is None else find_user(name)
        if server.user_passes_test is not None and not server.user_passes_test(principal.user):
            raise CommandError(f"The endpoint {server.name!r} is not for this user.")
        serve(server, principal, *(self.streams or take_streams()))


def find_server(name: str) -> MCPServer:
    """The endpoint of a name.

    Raises:
        CommandError: there is none.
    """
    found = {each.name: each for each in servers()}
    if name not in found:
        raise CommandError(f"There is no endpoint {name!r}; --server takes one of {', '.join(sorted(found))}.")
    return found[name]


def find_user(name: str) -> Principal:
    """The caller who is the Django user of a name.

    Raises:
        CommandError: there is none, or they may not sign in.
    """
    from django.contrib.auth import get_user_model  # noqa: PLC0415 - needs the app

    model = get_user_model()
    try:
        user = model._default_manager.get_by_natural_key(name)  # noqa: SLF001 - the documented name of it
    except model.DoesNotExist:
        raise CommandError(f"There is no user {name!r}; --user takes the name of one who can sign in.") from None
    if not user.is_active:
        raise CommandError(f"The user {name!r} is not active; --user takes the name of one who can sign in.")
    return Principal(kind="user", id=str(user.pk), user=user)


def everybody(server: MCPServer) -> Principal:
    """The caller of an endpoint that is open to everybody.

    Raises:
        CommandError: it is not.
    """
    for each in authenticators(server):
        if isinstance(each, Public):
            return each.everybody
    raise CommandError(f"The endpoint {server.name!r} is not open to everybody: say who calls with --user NAME.")

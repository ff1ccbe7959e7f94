"""``manage.py mcp_inspect``: what endpoints offer, and who sees what."""

import json
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from django_mcp.core.principal import Principal
from django_mcp.core.server import MCPServer, servers
from django_mcp.management.callers import bring_up_to_date, find_principal, find_server
from django_mcp.management.inspecting.callers import with_client
from django_mcp.management.inspecting.document import KINDS, described
from django_mcp.management.inspecting.text import Text
from django_mcp.management.parsing import intermix


class Command(BaseCommand):
    """See ``help``."""

    help = "Shows endpoints and their tools, resources and prompts; with --as, what a caller sees of them, and why not."

    def add_arguments(self, parser: CommandParser) -> None:
        """What to show, as whom, and how."""
        intermix(parser)
        parser.add_argument("names", nargs="*", metavar="NAME", help="tools, resources or prompts to show in full")
        parser.add_argument("--server", help="name of an endpoint; all of them if left out")
        parser.add_argument("--as", dest="user", metavar="USERNAME", help="show what this user sees, and why not")
        parser.add_argument("--client", metavar="CLIENT_ID", help="... through this OAuth client; needs --as")
        parser.add_argument(
            "--scope",
            action="append",
            help="a scope that the client was granted; may be repeated; those that each endpoint asks for if left out",
        )
        parser.add_argument("--json", action="store_true", help="print one JSON document")
        parser.add_argument("--schemas", action="store_true", help="with the schemas of tools")

    def handle(self, *_: Any, **options: Any) -> None:
        """Print it.

        Raises:
            CommandError: there is no such endpoint or user, or nothing of that name.
        """
        if options["client"] is None and options["scope"]:
            raise CommandError("--scope is what an OAuth client was granted: say which with --client CLIENT_ID.")
        if options["client"] is not None and options["user"] is None:
            raise CommandError("--client needs the user in whose name the client calls: --as USERNAME.")
        chosen = list(servers()) if options["server"] is None else [find_server(options["server"])]
        whole = options["schemas"] or bool(options["names"])
        told = []
        for server in chosen:
            bring_up_to_date(server)
            told.append(described(server, self._principal(server, options), names=options["names"], schemas=whole))
        if options["names"]:
            self._check_names(options["names"], told, chosen)
            told = [each for each in told if any(each[kind] for kind in KINDS)]
        if options["json"]:
            self.stdout.write(json.dumps({"endpoints": told}, indent=2, ensure_ascii=False, default=str))
            return
        text = Text(self.style.MIGRATE_HEADING, self.style.WARNING, whole=whole)
        self.stdout.write("\n\n".join("\n".join(text.lines(each)) for each in told) or "There is no endpoint.")

    @staticmethod
    def _principal(server: MCPServer, options: dict[str, Any]) -> Principal | None:
        if options["user"] is None:
            return None
        principal = find_principal(options["user"], "--as")
        if options["client"] is None:
            return principal
        return with_client(server, principal, options["client"], options["scope"])

    @staticmethod
    def _check_names(names: list[str], told: list[dict[str, Any]], chosen: list[MCPServer]) -> None:
        found = {
            entry[key]
            for each in told
            for kind in KINDS
            for entry in each[kind]
            for key in ("name", "uri")
            if key in entry
        }
        if missing := [name for name in names if name not in found]:
            where = ", ".join(each.name for each in chosen)
            raise CommandError(f"There is no {missing[0]!r} at {where}; 'manage.py mcp_inspect' lists what there is.")

"""``manage.py mcp_config``: what to paste where, so that a client finds an endpoint."""

import json
import re
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings as django_settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from django_mcp.auth.api_keys import takes_keys
from django_mcp.auth.base import Public, authenticators
from django_mcp.auth.oauth import OAuth
from django_mcp.auth.protected_resource import path_of
from django_mcp.core.server import MCPServer
from django_mcp.core.server import server as default_server
from django_mcp.management.callers import caller_of, find_server, url_of
from django_mcp.management.clients.formats import CLIENTS
from django_mcp.management.clients.target import Target, Unsupported


class Command(BaseCommand):
    """See ``help``."""

    help = "Prints the settings with which a client finds an endpoint, ready to paste; without CLIENT, which there are."

    def add_arguments(self, parser: CommandParser) -> None:
        """Which client, which endpoint, and how it is let in."""
        parser.add_argument("client", nargs="?", metavar="CLIENT", help=f"one of {', '.join(CLIENTS)}")
        parser.add_argument("--server", default="default", help="name of the endpoint; 'default' if left out")
        parser.add_argument("--url", help="the site's address; DJANGO_MCP['BASE_URL'] if left out")
        how = parser.add_mutually_exclusive_group()
        how.add_argument("--key", nargs="?", const="", help="with an API key; without the key itself, where to put it")
        how.add_argument("--oauth", action="store_true", help="people sign in through the client")
        how.add_argument("--stdio", action="store_true", help="the client starts the site on this machine itself")
        parser.add_argument("--user", help="with --stdio: user in whose name the client calls")
        parser.add_argument("--json", action="store_true", help="print one JSON document")

    def handle(self, *_: Any, **options: Any) -> None:
        """Print them.

        Raises:
            CommandError: the client, or the endpoint, cannot be used like this.
        """
        if options["client"] is None:
            self._list(as_json=options["json"])
            return
        if options["client"] not in CLIENTS:
            raise CommandError(f"There is no client {options['client']!r}; choose one of {', '.join(CLIENTS)}.")
        title, make = CLIENTS[options["client"]]
        target = self._target(find_server(options["server"]), options)
        try:
            found = list(make(target))
        except Unsupported as error:
            raise CommandError(str(error)) from None
        if options["json"]:
            told = {
                "client": options["client"],
                "server": options["server"],
                "url": target.url,
                "authentication": "stdio" if target.is_local else target.auth,
                "settings": [each._asdict() for each in found],
            }
            self.stdout.write(json.dumps(told, indent=2, ensure_ascii=False))
            return
        self.stdout.write(self.style.MIGRATE_HEADING(f"{title}: {target.name}"))
        for each in found:
            self.stdout.write(f"\n{each.where}{':' if each.text else '.'}\n")
            if each.text:
                self.stdout.write(f"\n{each.text}")
        if target.variable and any(target.variable in each.text for each in found):
            self.stdout.write(f"\n{target.export}")
        if target.is_local:
            self.stdout.write(
                "\nThe client starts the site without the variables of your shell: those that its settings need have "
                "to be\nin the client's own environment, or beside the command as its documentation says."
            )
        if target.auth == "key" and not target.key:
            self.stdout.write("\n'manage.py mcp_key create --user USERNAME --name NAME' makes a key.")

    def _list(self, *, as_json: bool) -> None:
        if as_json:
            self.stdout.write(json.dumps({"clients": list(CLIENTS)}, indent=2))
            return
        for name, (title, _) in CLIENTS.items():
            self.stdout.write(f"{name:16}{title}")
        self.stdout.write("\nmanage.py mcp_config CLIENT prints what to paste.")

    @staticmethod
    def _target(server: MCPServer, options: dict[str, Any]) -> Target:
        name = name_for(server)
        if options["stdio"]:
            caller_of(server, options["user"])
            return Target(name, command=_command(server, options["user"]))
        if options["user"] is not None:
            raise CommandError("--user is for --stdio; otherwise the client's credential says who calls.")
        auth = _auth(server, options)
        url = _url(server, options["url"])
        return Target(name, url, (), auth, options["key"] or "", f"{re.sub(r'[^A-Z0-9]+', '_', name.upper())}_MCP_KEY")


def name_for(server: MCPServer) -> str:
    """What clients call an endpoint: their names of tools begin with it."""
    if server is not default_server:
        return server.name
    named = str(server.implementation["name"])
    if named != server.name:
        return re.sub(r"[^a-zA-Z0-9_-]+", "-", named).strip("-") or "django"
    return str(django_settings.ROOT_URLCONF).partition(".")[0].replace("_", "-") or "django"


def _auth(server: MCPServer, options: dict[str, Any]) -> str:
    found = authenticators(server)
    has_oauth = any(isinstance(each, OAuth) for each in found)
    is_public = any(isinstance(each, Public) for each in found)
    if options["key"] is not None:
        if not takes_keys(server):
            raise CommandError(
                f"The endpoint {server.name!r} takes no API keys: add 'django_mcp.APIKeys' to its authentication."
            )
        return "key"
    if options["oauth"]:
        if not has_oauth:
            raise CommandError(
                f"The endpoint {server.name!r} has no OAuth: add 'django_mcp.OAuth' to its authentication."
            )
        return "oauth"
    if has_oauth:
        return "oauth"
    return "none" if is_public or not takes_keys(server) else "key"


def _url(server: MCPServer, given: str | None) -> str:
    if given is None:
        if url := url_of(server):
            return url
        raise CommandError(
            "The site's address is not known: give it with --url https://…, or set DJANGO_MCP['BASE_URL']."
        )
    parts = urlsplit(given)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise CommandError(f"--url {given!r}: it looks like https://site.example.")
    path = path_of(server)
    return given.rstrip("/") if parts.path.rstrip("/").endswith(path) else given.rstrip("/") + path


def _command(server: MCPServer, user: str | None) -> tuple[str, ...]:
    """What starts the site, from any folder."""
    script = Path(sys.argv[0]).resolve()
    if script.name != "manage.py" or not script.is_file():
        script = Path(str(getattr(django_settings, "BASE_DIR", "."))).resolve() / "manage.py"
    started = (str(script),) if script.is_file() else ("-m", "django")
    named = () if server.name == "default" else ("--server", server.name)
    return (sys.executable, *started, "mcp_stdio", *named, *(() if user is None else ("--user", user)))

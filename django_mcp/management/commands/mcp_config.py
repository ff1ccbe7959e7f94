"""``mcp_config``: prints client configuration of an endpoint, ready to paste."""

import json
import re
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings as django_settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from django_mcp.auth.api_keys import takes_keys
from django_mcp.auth.base import AllowAny, authenticators
from django_mcp.auth.oauth import OAuth2Authentication
from django_mcp.auth.protected_resource import url_of
from django_mcp.client.configuration import CLIENTS, Target, Unsupported, name_for
from django_mcp.core.server import MCPServer
from django_mcp.management.base import caller_principal, endpoint_url, find_server


class Command(BaseCommand):
    """See ``help``."""

    help = "Prints the configuration that connects a client to an endpoint. Without CLIENT, lists the clients."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("client", nargs="?", metavar="CLIENT", help=f"one of {', '.join(CLIENTS)}")
        parser.add_argument("--server", default="default", help="name of the endpoint (default: 'default')")
        parser.add_argument("--url", help="the site's address (default: DJANGO_MCP['BASE_URL'])")
        how = parser.add_mutually_exclusive_group()
        how.add_argument("--key", nargs="?", const="", help="use an API key; without KEY, a placeholder")
        how.add_argument("--oauth", action="store_true", help="use OAuth: users sign in through the client")
        how.add_argument("--stdio", action="store_true", help="the client starts the site on this machine")
        parser.add_argument("--user", help="with --stdio: username of the user to call as")
        parser.add_argument("--json", action="store_true", help="print one JSON document")

    def handle(self, *_: Any, **options: Any) -> None:
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
            report = {
                "client": options["client"],
                "server": options["server"],
                "url": target.url,
                "authentication": "stdio" if target.is_local else target.auth,
                "settings": [setting._asdict() for setting in found],
            }
            self.stdout.write(json.dumps(report, indent=2, ensure_ascii=False))
            return
        self.stdout.write(self.style.MIGRATE_HEADING(f"{title}: {target.name}"))
        for setting in found:
            self.stdout.write(f"\n{setting.where}{':' if setting.text else '.'}\n")
            if setting.text:
                self.stdout.write(f"\n{setting.text}")
        if target.variable and any(target.variable in setting.text for setting in found):
            self.stdout.write(f"\n{target.export}")
        if target.is_local:
            self.stdout.write(
                "\nThe client does not pass on your shell's environment variables. Set those that the site needs in "
                "the\nclient's own environment or in its configuration of this server."
            )
        if target.auth == "key" and not target.key:
            self.stdout.write("\nCreate a key: manage.py mcp_key create --user USERNAME --name NAME")

    def _list(self, *, as_json: bool) -> None:
        if as_json:
            self.stdout.write(json.dumps({"clients": list(CLIENTS)}, indent=2))
            return
        for name, (title, _) in CLIENTS.items():
            self.stdout.write(f"{name:16}{title}")
        self.stdout.write("\nmanage.py mcp_config CLIENT prints its configuration.")

    @staticmethod
    def _target(server: MCPServer, options: dict[str, Any]) -> Target:
        name = name_for(server)
        if options["stdio"]:
            caller_principal(server, options["user"])
            return Target(name, command=_command(server, options["user"]))
        if options["user"] is not None:
            raise CommandError("--user requires --stdio; otherwise the client's credential determines the user.")
        auth = _auth(server, options)
        url = _url(server, options["url"])
        return Target(name, url, (), auth, options["key"] or "", f"{re.sub(r'[^A-Z0-9]+', '_', name.upper())}_MCP_KEY")


def _auth(server: MCPServer, options: dict[str, Any]) -> str:
    found = authenticators(server)
    has_oauth = any(isinstance(authenticator, OAuth2Authentication) for authenticator in found)
    is_public = any(isinstance(authenticator, AllowAny) for authenticator in found)
    if options["key"] is not None:
        if not takes_keys(server):
            raise CommandError(
                f"The endpoint {server.name!r} does not accept API keys: add 'django_mcp.APIKeyAuthentication' to its "
                "authentication."
            )
        return "key"
    if options["oauth"]:
        if not has_oauth:
            raise CommandError(
                f"The endpoint {server.name!r} does not use OAuth: add 'django_mcp.OAuth2Authentication' to "
                f"its authentication."
            )
        return "oauth"
    if has_oauth:
        return "oauth"
    return "none" if is_public or not takes_keys(server) else "key"


def _url(server: MCPServer, given: str | None) -> str:
    if given is None:
        if url := url_of(server):
            return url
        raise CommandError("The site's address is unknown: pass --url https://…, or set DJANGO_MCP['BASE_URL'].")
    parts = urlsplit(given)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise CommandError(f"--url {given!r} is not a URL such as https://site.example.")
    return endpoint_url(given, server)


def _command(server: MCPServer, user: str | None) -> tuple[str, ...]:
    script = Path(sys.argv[0]).resolve()
    if script.name != "manage.py" or not script.is_file():
        script = Path(str(getattr(django_settings, "BASE_DIR", "."))).resolve() / "manage.py"
    started = (str(script),) if script.is_file() else ("-m", "django")
    named = () if server.name == "default" else ("--server", server.name)
    return (sys.executable, *started, "mcp_stdio", *named, *(() if user is None else ("--user", user)))

"""``mcp_key``: create, list and revoke API keys."""

import datetime
import json
from typing import Any

from django.core.exceptions import ImproperlyConfigured, ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db.models import Q
from django.utils import timezone

from django_mcp.auth.api_keys import create_key, hash_of, revoke_key, state_of, takes_keys
from django_mcp.auth.protected_resource import base_url, path_of
from django_mcp.core.principal import display_name
from django_mcp.core.server import servers
from django_mcp.management.base import find_user
from django_mcp.models import APIKey

COLUMNS = ("ID", "PREFIX", "STATE", "USER", "NAME", "ENDPOINTS", "SCOPES", "EXPIRES", "LAST USED")


class Command(BaseCommand):
    """See ``help``."""

    help = "Creates, lists and revokes API keys. A key lets a program call MCP endpoints as a user."

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True, metavar="create|list|revoke")
        create = actions.add_parser("create", help="create a key and print it once")
        create.add_argument("--user", required=True, help="username of the user that the key authenticates")
        create.add_argument("--name", required=True, help="a name for the key")
        create.add_argument(
            "--endpoint",
            action="append",
            help="name of an endpoint it is valid for; may be repeated (default: 'default')",
        )
        create.add_argument(
            "--scope",
            action="append",
            help="a scope of the key; may be repeated (default: those the endpoints require)",
        )
        create.add_argument("--days", type=int, help="days until it expires (default: 90, or the site's limit)")
        create.add_argument("--read-only", action="store_true", help="open only tools that change nothing")
        listing = actions.add_parser("list", help="list the keys")
        listing.add_argument("--user", help="only keys of this user")
        for command in (create, listing):
            command.add_argument("--json", action="store_true", help="print JSON")
        revoke = actions.add_parser("revoke", help="revoke a key, effective immediately")
        revoke.add_argument("key", metavar="PREFIX_OR_ID", help="prefix or id, as printed by 'list'")

    def handle(self, *_: Any, **options: Any) -> None:
        {"create": self.create, "list": self.list, "revoke": self.revoke}[options["action"]](options)

    def create(self, options: dict[str, Any]) -> None:
        chosen = {"endpoints": options["endpoint"], "scopes": options["scope"], "days": options["days"]}
        chosen["read_only"] = options["read_only"]
        try:
            row, key = create_key(find_user(options["user"]), options["name"], **chosen)
        except ValidationError as error:
            raise CommandError(" ".join(error.messages)) from None
        if options["json"]:
            self.stdout.write(json.dumps({"key": key, **_members(row)}))
            return
        self.stdout.write(self.style.SUCCESS(key))
        self.stdout.write("\nThe key is not shown again. Send it in a header of each request:\n")
        self.stdout.write("    Authorization: Bearer <key>        or        X-API-Key: <key>\n")
        self.stdout.write(f"It authenticates as {display_name(row.user)} until {row.expires:%Y-%m-%d}.")
        if row.scopes:
            self.stdout.write(f"Scopes: {' '.join(row.scopes)}")
        if row.read_only:
            self.stdout.write("It opens only tools that change nothing, resources and prompts.")
        self.stdout.write("Endpoints:")
        for server in servers():
            if server.name in row.endpoints:
                self.stdout.write(f"    {_address(path_of(server))}{'' if takes_keys(server) else _TAKES_NONE}")

    def list(self, options: dict[str, Any]) -> None:
        keys = APIKey.objects.select_related("user").order_by("-pk")
        if options["user"] is not None:
            keys = keys.filter(user=find_user(options["user"]))
        if options["json"]:
            self.stdout.write(json.dumps([_members(row) for row in keys], indent=2))
            return
        rows = [COLUMNS, *map(_columns, keys)]
        if len(rows) == 1:
            self.stdout.write("There are no API keys.")
            return
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for row in rows:
            self.stdout.write("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())

    def revoke(self, options: dict[str, Any]) -> None:
        row = find_row(options["key"])
        if not revoke_key(row):
            raise CommandError(f"The key {row.prefix} is already revoked.")
        self.stdout.write(f"Revoked the key {row.prefix} of {row.user.get_username()} (“{row.name}”).")


_TAKES_NONE = "  (does not accept API keys: add 'django_mcp.APIKeyAuthentication' to its authentication)"


def find_row(given: str) -> APIKey:
    """Return the key with this id, prefix, or full key."""
    meant = Q(prefix__startswith=given) | Q(key_hash=hash_of(given))
    if given.isdecimal() and len(given) < 19:  # noqa: PLR2004 - digits of a 64-bit integer
        meant |= Q(pk=int(given))
    found = list(APIKey.objects.select_related("user").filter(meant)[:2]) if given else []
    if not found:
        raise CommandError(f"There is no key {given[:14]!r}; 'manage.py mcp_key list' shows ids and prefixes.")
    if len(found) > 1:
        raise CommandError(f"Several keys begin with {given!r}; use a longer prefix or the id.")
    return found[0]


def _moment(value: datetime.datetime) -> str:
    return (timezone.make_aware(value) if timezone.is_naive(value) else value).isoformat()


def _members(row: APIKey) -> dict[str, Any]:
    return {
        "id": row.pk,
        "prefix": row.prefix,
        "state": state_of(row).value,
        "user": row.user.get_username(),
        "name": row.name,
        "endpoints": row.endpoints,
        "scopes": row.scopes,
        "read_only": row.read_only,
        "expires": _moment(row.expires),
        "last_used": None if row.last_used is None else _moment(row.last_used),
    }


def _columns(row: APIKey) -> tuple[str, ...]:
    used = "never" if row.last_used is None else f"{row.last_used:%Y-%m-%d %H:%M}"
    shown = [str(row.pk), row.prefix, state_of(row).value, row.user.get_username(), row.name]
    return (*shown, " ".join(row.endpoints), " ".join(row.scopes), f"{row.expires:%Y-%m-%d}", used)


def _address(path: str) -> str:
    try:
        return base_url() + path
    except ImproperlyConfigured:
        return path

"""``mcp_doctor``: diagnose a deployment from its clients' point of view."""

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from django.apps import apps
from django.core.exceptions import ImproperlyConfigured, ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import Error as DatabaseError

from django_mcp.auth.api_keys import State, create_key, hash_of, revoke_key, state_of, takes_keys
from django_mcp.auth.protected_resource import base_url, path_of
from django_mcp.core.permissions import admits
from django_mcp.core.server import MCPServer
from django_mcp.doctor.diagnose import run_checks
from django_mcp.doctor.http import Diagnosis, HTTPClient
from django_mcp.doctor.messages import CheckResult, Severity, format_result, marks_for, summary
from django_mcp.management.base import endpoint_url, find_server, find_user
from django_mcp.models import APIKey


class Command(BaseCommand):
    """See ``help``."""

    help = "Checks a running MCP endpoint as clients reach it, and this site's settings, and says what to change."
    # System checks run as one of its own checks, and must not stop it.
    requires_system_checks: list[str] = []  # noqa: RUF012 - Django's own type

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("url", nargs="?", metavar="URL", help="URL of the endpoint (default: from BASE_URL)")
        parser.add_argument("--url", dest="address", metavar="URL", help="the site's address, as mcp_config takes it")
        parser.add_argument("--server", default="default", help="name of the endpoint (default: 'default')")
        caller = parser.add_mutually_exclusive_group()
        caller.add_argument("--key", help="API key or access token for calls")
        caller.add_argument("--as", dest="username", metavar="USERNAME", help="create a temporary API key of this user")
        parser.add_argument(
            "--admin",
            action="store_true",
            help="compare the tools of admin_tools with the admin's pages instead, as a superuser or --as USERNAME",
        )
        parser.add_argument("--json", action="store_true", help="print one JSON document")
        parser.add_argument("--timeout", type=float, default=10.0, help="seconds to wait for a response (default: 10)")
        parser.add_argument("--insecure", action="store_true", help="do not verify the TLS certificate")

    def handle(self, *_: Any, **options: Any) -> None:
        """Run all checks. Exits with 1 if one found an error."""
        server = find_server(options["server"])
        if options["admin"]:
            self._compare_admins(server, options)
            return
        url = find_url(options["url"], options["address"], server)
        if not options["timeout"] > 0:
            raise CommandError("--timeout must be a positive number of seconds.")
        diagnosis = Diagnosis(
            HTTPClient(url, options["timeout"], insecure=options["insecure"]), server, path_of(server)
        )
        with credential(diagnosis, options["key"], options["username"]):
            self._report(server, url, run_checks(diagnosis), is_json=options["json"])

    def _compare_admins(self, server: MCPServer, options: dict[str, Any]) -> None:
        for name in ("url", "address", "key"):
            if options[name] is not None:
                raise CommandError("--admin compares in this process: it takes --server and --as, no URL and no --key.")
        if not apps.is_installed("django.contrib.admin"):
            raise CommandError("--admin needs 'django.contrib.admin' in INSTALLED_APPS.")
        from django_mcp.management.admin_comparison import compare_admins  # noqa: PLC0415 - needs the admin

        self._report(server, "", compare_admins(server, options["username"]), is_json=options["json"])

    def _report(self, server: MCPServer, url: str, results: Iterable[CheckResult], *, is_json: bool) -> None:
        """Print each result as it comes. Exits with 1 if one has an error."""
        marks = marks_for(getattr(self.stdout, "encoding", None))
        done: list[CheckResult] = []
        if not is_json:
            self.stdout.write(f"{f'{url}, ' if url else ''}endpoint {server.name!r}\n\n")
        for result in results:
            done.append(result)
            if not is_json:
                self.stdout.write(format_result(result, marks))
                self.stdout.flush()
        worst = max(check.severity for check in done)
        if is_json:
            checks = [check.to_json() for check in done]
            found = {"url": url, "server": server.name, "severity": worst.word, "checks": checks}
            self.stdout.write(json.dumps(found, indent=2))
        else:
            self.stdout.write(f"\n{summary(done)}")
        if worst is Severity.ERROR:
            raise SystemExit(1)


def find_url(given: str | None, site: str | None, server: MCPServer) -> str:
    """Return the endpoint's URL: the given one, that at the given site, or that of ``BASE_URL``."""
    try:
        url = given or (base_url() + path_of(server) if site is None else endpoint_url(site, server))
    except ImproperlyConfigured:
        raise CommandError(
            "Pass the URL of the endpoint: mcp_doctor https://travel.example.com/mcp, or set DJANGO_MCP['BASE_URL']."
        ) from None
    try:
        parts = urlsplit(url)
        is_right = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_right = False
    if not is_right or any(character <= " " or character > "~" for character in url):
        raise CommandError(f"{url!r} is not an http or https URL, such as https://travel.example.com{path_of(server)}.")
    return url


@contextmanager
def credential(diagnosis: Diagnosis, key: str | None, username: str | None) -> Iterator[None]:
    if username is None:
        diagnosis.key = key
        diagnosis.is_ours = key is not None and is_good_here(key, diagnosis.server)
        yield
        return
    if not takes_keys(diagnosis.server):
        raise CommandError(
            f"The endpoint {diagnosis.server.name!r} does not accept API keys: pass an access token with --key, or add "
            "'django_mcp.APIKeyAuthentication' to its authentication."
        )
    try:
        user = find_user(username, "--as")
        if not admits(diagnosis.server, user):
            raise CommandError(f"The endpoint {diagnosis.server.name!r} does not admit the user {username!r}.")
        row, diagnosis.key = create_key(user, "mcp_doctor", endpoints=[diagnosis.server.name], days=1)
    except ValidationError as error:
        raise CommandError(" ".join(error.messages)) from None
    except DatabaseError as error:
        raise CommandError(f"Cannot create an API key because of a database error: {error}. Use --key.") from None
    diagnosis.is_ours, diagnosis.user = True, user
    try:
        yield
    finally:
        revoke_key(row)
        row.delete()


def is_good_here(key: str, server: MCPServer) -> bool:
    try:
        row = APIKey.objects.select_related("user").filter(key_hash=hash_of(key)).first()
    except DatabaseError:
        return False
    is_active = row is not None and state_of(row) is State.ACTIVE
    return row is not None and is_active and server.name in row.endpoints and admits(server, row.user)

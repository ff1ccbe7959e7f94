"""Helpers of the management commands: endpoints, users, argument parsing, progress bar."""

import time
from collections.abc import Callable
from typing import Any, TextIO
from urllib.parse import urlsplit

from django.core.management.base import CommandError, CommandParser

from django_mcp.auth.base import AllowAny, authenticators
from django_mcp.auth.protected_resource import path_of
from django_mcp.core.permissions import admits
from django_mcp.core.principal import Principal
from django_mcp.core.server import MCPServer, servers


def count_of(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def find_server(name: str) -> MCPServer:
    found = {server.name: server for server in servers()}
    if name not in found:
        raise CommandError(f"There is no endpoint {name!r}; --server takes one of {', '.join(sorted(found))}.")
    return found[name]


def endpoint_url(site: str, server: MCPServer) -> str:
    """Return the URL of an endpoint of the site at this address, which may be that of the endpoint already."""
    site, path = site.rstrip("/"), path_of(server)
    return site if urlsplit(site).path.endswith(path) else site + path


def find_user(name: str, option: str = "--user") -> Any:
    """Return the user with this username, else the only one with this e-mail address, active or not.

    *option* is named in errors.
    """
    from django.contrib.auth import get_user_model  # noqa: PLC0415 - needs the app

    model = get_user_model()
    try:
        return model._default_manager.get_by_natural_key(name)  # noqa: SLF001 - documented API
    except model.DoesNotExist:
        found = _by_email(model, name)
    if len(found) > 1:
        raise CommandError(f"{len(found)} users have the e-mail address {name!r}; {option} takes a username.")
    if not found:
        raise CommandError(f"There is no user {name!r}; {option} takes a username or an e-mail address.")
    return found[0]


def _by_email(model: Any, address: str) -> list[Any]:
    # A site's own user model may keep addresses elsewhere.
    column = model.get_email_field_name()
    if not address or column not in {field.name for field in model._meta.concrete_fields}:  # noqa: SLF001 - documented API
        return []
    return list(model._default_manager.filter(**{f"{column}__iexact": address})[:100])  # noqa: SLF001 - documented API


def find_principal(name: str, option: str = "--user") -> Principal:
    user = find_user(name, option)
    if not user.is_active:
        raise CommandError(f"The user {name!r} is not active; {option} takes the username of an active user.")
    return Principal(kind="user", id=str(user.pk), user=user)


def anonymous_principal(server: MCPServer, option: str = "--user") -> Principal:
    """Return the anonymous caller of a public endpoint. *option* is named in errors."""
    for authenticator in authenticators(server):
        if isinstance(authenticator, AllowAny):
            return authenticator.everybody
    raise CommandError(f"The endpoint {server.name!r} requires a user: use {option} USERNAME.")


def caller_principal(server: MCPServer, name: str | None, option: str = "--user") -> Principal:
    """Return a user, or the anonymous caller if *name* is None, who may use the endpoint."""
    principal = anonymous_principal(server, option) if name is None else find_principal(name, option)
    if not admits(server, principal.user):
        raise CommandError(f"This user may not use the endpoint {server.name!r}.")
    return principal


def accept_intermixed_arguments(parser: CommandParser) -> None:
    """Accept positional arguments after options: ``TOOL --as ann name=text``."""
    parser.parse_args = parser.parse_intermixed_args  # type: ignore[method-assign]


WIDTH = 24
SECONDS = 0.1
"""Minimum interval between two updates."""


class Progress:
    """A progress bar on one line, removed at the end. Not shown without a terminal.

    Args:
        stream: output stream.
        clock: returns seconds.
    """

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._clock = stream, clock
        self._due, self._drawn = clock() + SECONDS, 0  # no bar for short operations
        self.is_seen = stream.isatty()

    def __call__(self, kind: str, done: int, total: int) -> None:
        if not self.is_seen or self._clock() < self._due:
            return
        self._due = self._clock() + SECONDS
        total = max(total, done)  # other processes may add work
        filled = WIDTH * done // total if total else WIDTH
        line = f"[{'#' * filled}{'.' * (WIDTH - filled)}] {kind}: {done:,} of {total:,}"
        self._stream.write(f"\r{line.ljust(self._drawn)}")
        self._stream.flush()
        self._drawn = len(line)

    def close(self) -> None:
        if self._drawn:
            self._stream.write(f"\r{' ' * self._drawn}\r")
            self._stream.flush()
            self._drawn = 0

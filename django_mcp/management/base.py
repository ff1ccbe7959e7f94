"""What commands share: finding the endpoint and the caller, arguments, progress."""

import time
from collections.abc import Callable
from typing import Any, TextIO

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import CommandError, CommandParser

from django_mcp.auth.base import AllowAny, authenticators
from django_mcp.auth.protected_resource import base_url, path_of
from django_mcp.core.principal import Principal
from django_mcp.core.server import MCPServer, servers


def find_server(name: str) -> MCPServer:
    """The endpoint of a name.

    Raises:
        CommandError: there is none.
    """
    found = {each.name: each for each in servers()}
    if name not in found:
        raise CommandError(f"There is no endpoint {name!r}; --server takes one of {', '.join(sorted(found))}.")
    return found[name]


def find_user(name: str, option: str = "--user") -> Any:
    """Return the user of a name, active or not.

    Args:
        name: with which they sign in.
        option: with which it was given.

    Raises:
        CommandError: there is none.
    """
    from django.contrib.auth import get_user_model  # noqa: PLC0415 - needs the app

    model = get_user_model()
    try:
        return model._default_manager.get_by_natural_key(name)  # noqa: SLF001 - the documented name of it
    except model.DoesNotExist:
        raise CommandError(f"There is no user {name!r}; {option} takes the name with which one signs in.") from None


def find_principal(name: str, option: str = "--user") -> Principal:
    """Return the caller who is the Django user of a name.

    Raises:
        CommandError: there is none, or they may not sign in.
    """
    user = find_user(name, option)
    if not user.is_active:
        raise CommandError(f"The user {name!r} is not active; {option} takes the name of one who can sign in.")
    return Principal(kind="user", id=str(user.pk), user=user)


def everybody(server: MCPServer, option: str = "--user") -> Principal:
    """The caller of an endpoint that is open to everybody.

    Args:
        server: the endpoint.
        option: which says who calls.

    Raises:
        CommandError: it is not.
    """
    for each in authenticators(server):
        if isinstance(each, AllowAny):
            return each.everybody
    raise CommandError(f"The endpoint {server.name!r} is not open to everybody: say who calls with {option} NAME.")


def caller_of(server: MCPServer, name: str | None, option: str = "--user") -> Principal:
    """Who calls an endpoint: a user, or everybody.

    Args:
        server: the endpoint.
        name: of the user; None for everybody.
        option: with which it is given.

    Raises:
        CommandError: there is no such user, or the endpoint is not for them.
    """
    principal = everybody(server, option) if name is None else find_principal(name, option)
    if server.user_passes_test is not None and not server.user_passes_test(principal.user):
        raise CommandError(f"The endpoint {server.name!r} is not for this user.")
    return principal


def url_of(server: MCPServer) -> str:
    """Return the absolute URL of an endpoint, or "" if the site has set no ``BASE_URL``."""
    try:
        return base_url() + path_of(server)
    except ImproperlyConfigured:
        return ""


def intermix(parser: CommandParser) -> None:
    """Take arguments that stand behind an option, too: ``TOOL --as ann name=text``."""
    parser.parse_args = parser.parse_intermixed_args  # type: ignore[method-assign]


WIDTH = 24
SECONDS = 0.1
"""Between two changes of the line; drawing is not what takes the time."""


class Progress:
    """A bar on a line of its own, which is drawn anew and gone at the end; nothing where no person looks.

    Args:
        stream: where it is drawn.
        clock: gives seconds.
    """

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._clock = stream, clock
        self._due, self._drawn = clock() + SECONDS, 0  # what is over at once needs none
        self.is_seen = stream.isatty()

    def __call__(self, kind: str, done: int, total: int) -> None:
        """Draw how many of how many are done."""
        if not self.is_seen or self._clock() < self._due:
            return
        self._due = self._clock() + SECONDS
        total = max(total, done)  # others went on meanwhile
        filled = WIDTH * done // total if total else WIDTH
        line = f"[{'#' * filled}{'.' * (WIDTH - filled)}] {kind}: {done:,} of {total:,}"
        self._stream.write(f"\r{line.ljust(self._drawn)}")
        self._stream.flush()
        self._drawn = len(line)

    def close(self) -> None:
        """Take the line away."""
        if self._drawn:
            self._stream.write(f"\r{' ' * self._drawn}\r")
            self._stream.flush()
            self._drawn = 0

"""Where clients may have people sent, and what is fetched for them."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from django.apps import apps
from django.core.checks import CheckMessage, Error, Warning  # noqa: A004
from django.db import DatabaseError
from django.utils.translation import gettext as _

from django_mcp.auth.checks.base import is_loopback, split, uses_oauth
from django_mcp.conf import settings

NO_TARGETS = {"javascript", "data", "vbscript", "file", "blob", "about"}
"""Schemes that run something in the browser instead of leading to a program."""

LONGEST_GRACE = 60 * 60
"""Seconds. Within the grace a stolen refresh token is not noticed; servers are known to allow up to an hour."""

MOST_NAMED = 20
"""Applications that are named."""


def check_redirects() -> Iterator[CheckMessage]:
    """Entries of ``EXTRA_REDIRECT_URIS`` that are no redirect URIs, or dangerous ones."""
    for uri in settings.EXTRA_REDIRECT_URIS:
        if problem := problem_of(uri):
            yield Error(
                _("DJANGO_MCP['EXTRA_REDIRECT_URIS'] has %(uri)r, which %(problem)s.")
                % {"uri": uri, "problem": problem},
                hint=_(
                    "Write the client's redirect URI exactly: 'cursor://anysphere.cursor-mcp/oauth/callback'."
                    " https and loopback ones need no entry."
                ),
                id="django_mcp.E018",
            )


def problem_of(uri: Any) -> str | None:
    """What speaks against an extra redirect URI."""
    parts = split(uri)
    if parts is None or not parts.scheme or not (parts.netloc or parts.path):
        return _("is no absolute URI")
    if "*" in uri or "#" in uri or "@" in parts.netloc:
        return _("has a wildcard, a fragment or user information; redirect URIs are compared as they are")
    if parts.scheme in NO_TARGETS:
        return _("runs in the browser instead of leading to a program")
    if parts.scheme == "http" and not is_loopback(parts.hostname):
        return _("would send codes without encryption")
    return None


def check_ports() -> Iterator[CheckMessage]:
    """Ports that are none."""
    for port in settings.CLIENT_DOCUMENT_PORTS:
        if type(port) is not int or not 0 < port < 2**16:
            yield Error(
                _("DJANGO_MCP['CLIENT_DOCUMENT_PORTS'] has %(port)r, which is no port.") % {"port": port},
                hint=_("Write numbers from 1 to 65535: [443]."),
                id="django_mcp.E020",
            )


def check_grace() -> Iterator[CheckMessage]:
    """A grace so long that theft goes unnoticed."""
    if uses_oauth() and settings.REFRESH_GRACE_SECONDS > LONGEST_GRACE:
        yield Warning(
            _(
                "DJANGO_MCP['REFRESH_GRACE_SECONDS'] is %(seconds)s: for so long a stolen refresh token "
                "can be used beside its owner's without being noticed."
            )
            % {"seconds": settings.REFRESH_GRACE_SECONDS},
            hint=_("Write at most %(longest)s; 60 is enough for clients with several processes.")
            % {"longest": LONGEST_GRACE},
            id="django_mcp.W012",
        )


def check_applications(databases: Sequence[str]) -> list[CheckMessage]:
    """Applications somebody made by hand, with redirect URIs that clients of MCP would not be allowed.

    For ``manage.py check --database default`` and ``migrate``.

    Args:
        databases: aliases of those that may be asked.
    """
    if not uses_oauth() or not apps.is_installed("oauth2_provider"):
        return []
    try:
        found: list[CheckMessage] = [
            Warning(
                _(
                    "OAuth application %(name)r (%(client_id)s) may have people sent to %(uri)r, which is "
                    "neither https nor this computer."
                )
                % {"name": name, "client_id": client_id, "uri": uri},
                hint=_("Write https, or list the URI in DJANGO_MCP['EXTRA_REDIRECT_URIS'] if it is its program's own."),
                id="django_mcp.W011",
            )
            for name, client_id, uri in islice(_doubtful(databases), MOST_NAMED)
        ]
    except DatabaseError:  # before the first migrate
        return []
    return found


def _doubtful(databases: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Name, client id and redirect URI."""
    from django_mcp.oauth.redirects import redirect_ok  # noqa: PLC0415 - needs the toolkit
    from django_mcp.oauth.toolkit import get_application_model  # noqa: PLC0415

    applications = get_application_model().objects.filter(registration_source="manual")
    if applications.db in databases:
        for name, client_id, uris in applications.values_list("name", "client_id", "redirect_uris").order_by("pk"):
            yield from ((name, client_id, uri) for uri in uris.split() if not redirect_ok(uri))

"""Authenticators: that they can be made, and that each of them is asked."""

from collections.abc import Iterator

from django.core.checks import CheckMessage, Error, Warning  # noqa: A004
from django.utils.translation import gettext as _

from django_mcp.auth.base import Authenticator, authenticators
from django_mcp.auth.checks.base import lets_everybody_in, made, takes_oauth
from django_mcp.auth.external import ExternalTokens
from django_mcp.auth.oauth import OAuth
from django_mcp.auth.public import Public
from django_mcp.core.server import servers


def check_authenticators() -> Iterator[CheckMessage]:
    """Authenticators that cannot be made, or are none."""
    for server in servers():
        try:
            wrong = [each for each in authenticators(server) if not isinstance(each, Authenticator)]
        except Exception as error:  # noqa: BLE001 - whatever a site's own class raises
            yield Error(
                _("An authenticator of %(server)r cannot be made: %(error)s") % {"server": server, "error": error},
                hint=_("Write objects, classes or dotted paths of django_mcp.Authenticator, like 'django_mcp.OAuth'."),
                obj=server,
                id="django_mcp.E006",
            )
            continue
        for each in wrong:
            yield Error(
                _("%(each)r among the authenticators of %(server)r is none.") % {"each": each, "server": server},
                hint=_("Make its class a subclass of django_mcp.Authenticator."),
                obj=server,
                id="django_mcp.E006",
            )


def check_order() -> Iterator[CheckMessage]:
    """Authenticators that are never asked, for one before them has an answer to everything."""
    for server in servers():
        given = made(server)
        for place, each in enumerate(given):
            behind = [other for other in given[:place] if _answers_for(other, each)]
            if behind:
                yield Error(
                    _("%(behind)s of %(server)r is never asked: %(first)s stands before it and answers first.")
                    % {"behind": type(each).__name__, "server": server, "first": type(behind[0]).__name__},
                    hint=_("Put %(first)s behind it: they are asked in order.") % {"first": type(behind[0]).__name__},
                    obj=server,
                    id="django_mcp.E021",
                )


def check_sign_in() -> Iterator[CheckMessage]:
    """Endpoints that take OAuth tokens and ask nobody for one."""
    for server in servers():
        if takes_oauth(server) and lets_everybody_in(server):
            yield Warning(
                _(
                    "%(server)r lets everybody in, so no client is ever asked to sign in with OAuth: clients do that "
                    "only when a request without a token is refused."
                )
                % {"server": server},
                hint=_("Make two endpoints: one with 'django_mcp.OAuth', and one with 'django_mcp.Public'."),
                obj=server,
                id="django_mcp.W021",
            )


def _answers_for(first: object, second: object) -> bool:
    """Whether *first* leaves nothing for *second*: ``Public`` takes all, ``OAuth`` refuses tokens it does not know."""
    return isinstance(first, Public) or (isinstance(first, OAuth) and isinstance(second, ExternalTokens))

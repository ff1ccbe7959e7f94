"""Addresses: the site's own, those of authorization servers elsewhere, and the header with a client's."""

import re
from collections.abc import Iterator
from urllib.parse import urlsplit

from django.conf import settings as django_settings
from django.core.checks import CheckMessage, Error, Warning  # noqa: A004
from django.utils.translation import gettext as _

from django_mcp import conf
from django_mcp.auth.checks.base import external_issuers, is_loopback, takes_oauth
from django_mcp.auth.identifiers import canonical
from django_mcp.auth.issuers import is_safe_address
from django_mcp.core.server import servers


def check_base_url() -> Iterator[CheckMessage]:
    """A ``BASE_URL`` that is missing where identifiers are made from it, or is no origin."""
    url = conf.settings.BASE_URL
    needing = next((each for each in servers() if takes_oauth(each) or external_issuers(each)), None)
    if url is None and needing is None:
        return
    if not url:
        yield Error(
            _("DJANGO_MCP['BASE_URL'] is missing, and %(needing)r takes tokens.") % {"needing": needing}
            if needing
            else _("BASE_URL is empty."),
            hint=_("Write the site's public address: 'BASE_URL': 'https://travel.example.com'."),
            id="django_mcp.E010",
        )
    elif not is_origin(url):
        yield Error(
            _("DJANGO_MCP['BASE_URL'] is %(url)r, which is no origin.") % {"url": url},
            hint=_(
                "Write scheme, host and, where it is not the usual one, port, in lower case, and nothing "
                "after it, not even a slash: 'https://travel.example.com'."
            ),
            id="django_mcp.E010",
        )
    elif url.startswith("http:") and not is_loopback(urlsplit(url).hostname):
        kind, number = (Warning, "django_mcp.W002") if django_settings.DEBUG else (Error, "django_mcp.E011")
        yield kind(
            _("DJANGO_MCP['BASE_URL'] is %(url)r: tokens and codes would travel without encryption.") % {"url": url},
            hint=_("Write 'https:%(rest)s' and serve the site over https; http is for this machine alone.")
            % {"rest": url[5:]},
            id=number,
        )


def is_origin(url: str) -> bool:
    """Whether it is an http or https origin, written as clients write it."""
    try:
        return url.isascii() and re.fullmatch(r"https?://[^/?#*]+", url) is not None and canonical(url) == url
    except ValueError:
        return False


def check_issuers() -> Iterator[CheckMessage]:
    """Authorization servers elsewhere whose keys anybody on the way could replace."""
    for server in servers():
        for issuer in external_issuers(server):
            if not isinstance(issuer, str) or not is_safe_address(issuer):
                yield Error(
                    _("%(server)r takes tokens of %(issuer)r, which is no https URL.")
                    % {"server": server, "issuer": issuer},
                    hint=_(
                        "Write the issuer as it calls itself, like 'https://login.example.com/realms/staff'; over"
                        " http anybody on the way can replace its keys."
                    ),
                    obj=server,
                    id="django_mcp.E012",
                )


def check_address_header() -> Iterator[CheckMessage]:
    """A header's name that no request can have."""
    name = conf.settings.CLIENT_ADDRESS_HEADER
    if name is not None and not re.fullmatch(r"[A-Za-z0-9-]+", name):
        meant = name.removeprefix("HTTP_").replace("_", "-").title()
        yield Error(
            _("DJANGO_MCP['CLIENT_ADDRESS_HEADER'] is %(name)r, which is no header's name.") % {"name": name},
            hint=_("Write it as the proxy sends it: %(meant)r.") % {"meant": meant}
            if re.fullmatch(r"[A-Za-z0-9-]+", meant)
            else _("Write letters, digits and hyphens: 'X-Real-IP'."),
            id="django_mcp.E009",
        )

"""Where self-registered clients may have people sent (OAuth 2.1, section 2.3; 2026-07-28, Communication Security)."""

import re
from collections.abc import Iterable
from urllib.parse import urlsplit

from django.core.exceptions import ValidationError

from django_mcp.conf import settings
from django_mcp.oauth.toolkit import AllowedURIValidator, oauth2_settings

LONGEST = 2000
"""Characters of a redirect URI."""

MOST = 10
"""Redirect URIs of one client."""

_ANYWHERE = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?")
"""Hosts as there are; browsers also take commas and quotation marks, which only serve to deceive."""

_LOOPBACK = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:[0-9]{1,5})?")
_LOOPBACK_URI = re.compile(r"(http://(?:localhost|127\.0\.0\.1|\[::1\]))(?::[0-9]{1,5})?([/?].*|)")
_FORBIDDEN = re.compile(r"[^!-~]|[\\#]")
"""Everything but printable ASCII, of which URIs are made (RFC 3986), and two characters that readers of URLs disagree
about or that the redirect could not be put behind."""


def redirect_ok(uri: object) -> bool:
    """Whether a self-registered client may have *uri* as a redirect URI.

    https anywhere; http on this very computer (RFC 8252, section 7.3); and what ``EXTRA_REDIRECT_URIS`` lists.
    """
    if not isinstance(uri, str) or len(uri) > LONGEST or _FORBIDDEN.search(uri):
        return False
    try:
        parts = urlsplit(uri)
        _ = parts.port  # ValueError where it is no port
    except ValueError:
        return False
    if parts.scheme in {"https", "http"}:
        hosts = _ANYWHERE if parts.scheme == "https" else _LOOPBACK
        return hosts.fullmatch(parts.netloc) is not None  # so there is no user information
    return "@" not in parts.netloc and uri in settings.EXTRA_REDIRECT_URIS


def is_registered(uri: str, registered: Iterable[str]) -> bool:
    """Return True if *uri* is one of *registered*, character by character (OAuth 2.1, section 2.3.1).

    Only the port of a loopback address may differ (RFC 8252, section 7.3). Wildcards do not match.
    """
    return any(uri == each or _without_loopback_port(uri) == _without_loopback_port(each, each) for each in registered)


def _without_loopback_port(uri: str, otherwise: str | None = None) -> str | None:
    """Return a URI on this very computer without its port, *otherwise* for any other URI."""
    found = _LOOPBACK_URI.fullmatch(uri)
    return otherwise if found is None else found[1] + found[2]


def usable_redirects(uris: Iterable[object]) -> list[str]:
    """Those of *uris* that a client may have, each once.

    The toolkit turns the whole client down for one URI it does not take, so its own test is asked as well.
    """
    takes = AllowedURIValidator(
        {scheme.lower() for scheme in oauth2_settings.ALLOWED_REDIRECT_URI_SCHEMES},
        name="redirect uri",
        allow_path=True,
        allow_query=True,
    )

    def usable(uri: object) -> bool:
        try:
            takes(uri)
        except ValidationError:
            return False
        return True

    return list(dict.fromkeys(str(uri) for uri in uris if redirect_ok(uri) and usable(uri)))

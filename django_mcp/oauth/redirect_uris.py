"""Redirect URIs: which ones self-registered clients may have, and comparison with those registered."""

import re
from collections.abc import Iterable
from urllib.parse import urlsplit

from django.core.exceptions import ValidationError

from django_mcp.auth.toolkit import AllowedURIValidator, oauth2_settings
from django_mcp.conf import settings
from django_mcp.oauth.consent import NO_TARGETS

MAX_URI_LENGTH = 2000
"""Maximum length of a redirect URI."""
_ANYWHERE = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?")
"""Plain host names. Browsers accept commas and quotation marks too, which can deceive."""
_LOOPBACK = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:[0-9]{1,5})?")
_LOOPBACK_URI = re.compile(r"(http://(?:localhost|127\.0\.0\.1|\[::1\]))(?::[0-9]{1,5})?([/?].*|)")
_FORBIDDEN = re.compile(r"[^!-~]|[\\#]")
"""All but printable ASCII (RFC 3986), backslashes, which parsers disagree about, and fragments, which would swallow the
query.
"""


def is_allowed_redirect_uri(uri: object) -> bool:
    """Return True if a self-registered client may have a redirect URI.

    Allowed are https, http on loopback addresses (RFC 8252, section 7.3) and ``EXTRA_REDIRECT_URIS``.
    """
    if not isinstance(uri, str) or len(uri) > MAX_URI_LENGTH or _FORBIDDEN.search(uri):
        return False
    try:
        parts = urlsplit(uri)
        _ = parts.port  # raises ValueError if invalid
    except ValueError:
        return False
    if parts.scheme in {"https", "http"}:
        hosts = _ANYWHERE if parts.scheme == "https" else _LOOPBACK
        return hosts.fullmatch(parts.netloc) is not None  # so there is no user information
    return "@" not in parts.netloc and parts.scheme not in NO_TARGETS and uri in settings.EXTRA_REDIRECT_URIS


def is_registered(uri: str, registered: Iterable[str]) -> bool:
    """Return True if *uri* is registered, compared as a string (OAuth 2.1, section 2.3.1).

    Only loopback ports may differ (RFC 8252, section 7.3).
    """
    return any(
        uri == known or _without_loopback_port(uri) == _without_loopback_port(known, known) for known in registered
    )


def _without_loopback_port(uri: str, otherwise: str | None = None) -> str | None:
    found = _LOOPBACK_URI.fullmatch(uri)
    return otherwise if found is None else found[1] + found[2]


def usable_redirect_uris(uris: Iterable[object]) -> list[str]:
    """Return the usable URIs without duplicates.

    The toolkit would reject the whole client for one URI, so its validator is applied too.
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

    return list(dict.fromkeys(str(uri) for uri in uris if is_allowed_redirect_uri(uri) and usable(uri)))

"""Client metadata (RFC 7591, section 2), as sent at registration or published in a document."""

from collections.abc import Mapping
from typing import Any

from django_mcp.auth.grant_types import FOR_ALL
from django_mcp.oauth.consent import clean_name
from django_mcp.oauth.redirect_uris import usable_redirect_uris
from django_mcp.protocol.json_schema import is_string_list

MAX_URIS = 10
"""Maximum number of redirect URIs."""


class InvalidMetadata(Exception):
    """Rejected client metadata.

    Args:
        description: the ``error_description``, in its character set (RFC 6749, section 5.2).
        error: the code (RFC 7591, section 3.2.2).
    """

    def __init__(self, description: str, error: str = "invalid_client_metadata") -> None:
        super().__init__(description)
        self.description = description
        self.error = error


def read_redirect_uris(metadata: Mapping[str, Any]) -> list[str]:
    """Return usable redirect URIs. Clients often list some for every platform.

    Raises:
        InvalidMetadata: none is usable.
    """
    given = metadata.get("redirect_uris")
    if not is_string_list(given):
        raise InvalidMetadata("redirect_uris must be a list of strings.", "invalid_redirect_uri")
    if usable := usable_redirect_uris(given):
        return usable
    raise InvalidMetadata(
        "None of the redirect_uris is allowed. Use https, or http on localhost, 127.0.0.1 or [::1], without "
        "fragment, user information or white space.",
        "invalid_redirect_uri",
    )


def read_grant_types(metadata: Mapping[str, Any]) -> list[str]:
    """Return supported grant types. Clients often list all they know.

    Raises:
        InvalidMetadata: ``authorization_code`` is missing.
    """
    given = metadata.get("grant_types", FOR_ALL)
    if not is_string_list(given):
        raise InvalidMetadata("grant_types must be a list of strings.")
    if "authorization_code" not in given:
        raise InvalidMetadata("grant_types must include authorization_code. refresh_token is optional.")
    return [name for name in FOR_ALL if name in given]


def read_client_name(metadata: Mapping[str, Any]) -> str:
    """Return the name to store, or "". Pages show the beginning of a long one.

    Raises:
        InvalidMetadata: it is not a string.
    """
    name = metadata.get("client_name", "")
    if not isinstance(name, str):
        raise InvalidMetadata("client_name must be a string.")
    return clean_name(name, MAX_NAME)


MAX_NAME = 255
"""Maximum characters of a stored name: those of the column."""

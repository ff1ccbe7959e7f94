"""What a client says of itself, in a registration (RFC 7591) or in a client ID metadata document: the rules of both.

Anybody can say anything there. Whatever is not read here is ignored, and no URL in it is ever fetched.
"""

from collections.abc import Mapping
from typing import Any, TypeGuard

from django_mcp.oauth.names import clean_name
from django_mcp.oauth.redirects import usable_redirects

GRANTS = ("authorization_code", "refresh_token")
"""Grants a self-registered client may have."""


class InvalidMetadata(Exception):
    """A client that cannot be taken.

    Args:
        description: what is wrong, then what would be right, in the characters of an ``error_description``
            (RFC 6749, section 5.2).
        error: the code (RFC 7591, section 3.2.2).
    """

    def __init__(self, description: str, error: str = "invalid_client_metadata") -> None:
        super().__init__(description)
        self.description = description
        self.error = error


def redirects_of(metadata: Mapping[str, Any]) -> list[str]:
    """Its redirect URIs, without those that it may not have: clients send some for every platform at once.

    Raises:
        InvalidMetadata: none is left.
    """
    given = metadata.get("redirect_uris")
    if not _are_strings(given):
        raise InvalidMetadata("redirect_uris must be a list of strings.", "invalid_redirect_uri")
    if usable := usable_redirects(given):
        return usable
    raise InvalidMetadata(
        "None of redirect_uris can be used. Each must be https, or http on localhost, 127.0.0.1 or [::1], without "
        "fragment, user information and white space.",
        "invalid_redirect_uri",
    )


def grants_of(metadata: Mapping[str, Any]) -> list[str]:
    """Its grant types, without those that are not to be had here: clients list all that they know.

    Raises:
        InvalidMetadata: ``authorization_code`` is not among them.
    """
    given = metadata.get("grant_types", list(GRANTS))
    if not _are_strings(given):
        raise InvalidMetadata("grant_types must be a list of strings.")
    if "authorization_code" not in given:
        raise InvalidMetadata("grant_types must have authorization_code, alone or with refresh_token.")
    return [grant for grant in GRANTS if grant in given]


def name_of(metadata: Mapping[str, Any]) -> str:
    """Its name for people, made fit to be shown; empty if it has none.

    Raises:
        InvalidMetadata: it is no string.
    """
    name = metadata.get("client_name", "")
    if not isinstance(name, str):
        raise InvalidMetadata("client_name must be a string.")
    return clean_name(name)


def _are_strings(value: Any) -> TypeGuard[list[str]]:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)

"""The grant types of MCP clients (RFC 6749, section 1.3). Those of a site's other applications are the toolkit's."""

from typing import NamedTuple


class GrantType(NamedTuple):
    """A grant type, and who may use it.

    Attributes:
        stored: the application's ``authorization_grant_type`` that it requires.
        is_for_all: clients that register themselves may use it, and name it in their metadata.
        is_of_service: there is no person: the client acts for its ``service_account``, if
            ``DJANGO_MCP["CLIENT_CREDENTIALS"]`` is on.
        parameters: parameters of the token request that it alone has.
    """

    stored: str
    is_for_all: bool = False
    is_of_service: bool = False
    parameters: tuple[str, ...] = ()


CODE = "authorization-code"
CLIENT_CREDENTIALS = "client-credentials"
"""As the toolkit stores them."""

GRANT_TYPES = {
    "authorization_code": GrantType(CODE, is_for_all=True, parameters=("code", "redirect_uri", "code_verifier")),
    "refresh_token": GrantType(CODE, is_for_all=True, parameters=("refresh_token",)),
    "client_credentials": GrantType(CLIENT_CREDENTIALS, is_of_service=True),
}
FOR_ALL = [name for name, grant_type in GRANT_TYPES.items() if grant_type.is_for_all]
SERVICES = {grant_type.stored for grant_type in GRANT_TYPES.values() if grant_type.is_of_service}
"""Values of an application's ``authorization_grant_type`` with which it acts for itself."""


def is_of_service(name: str) -> bool:
    return name in GRANT_TYPES and GRANT_TYPES[name].is_of_service


def served(services: bool) -> list[str]:
    """Return the names that the token endpoint serves; *services* is ``DJANGO_MCP["CLIENT_CREDENTIALS"]``."""
    return [name for name, grant_type in GRANT_TYPES.items() if services or not grant_type.is_of_service]

"""The contract of an authenticator."""

from collections.abc import Mapping
from typing import Protocol

from django_mcp.core.principal import Principal


class Authenticator(Protocol):
    """Recognises a caller by the headers of a request.

    Attributes:
        blocking: whether ``authenticate`` may touch the database or the network. The ASGI edge calls it in a
            worker thread then.
    """

    blocking: bool

    def authenticate(self, headers: Mapping[str, str]) -> Principal | None:
        """The caller; None where these headers hold nothing for this authenticator.

        Args:
            headers: the request's headers by lower-case name.
        """
